"""Questions drafted from the documents without a model: from definitions, deadlines, amounts and tables. English wording; a person reviews them.

Each question is made by a rule from one sentence or table row, which is its evidence. What no rule fits gives no question.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine import ids
from engine.models import Document, NodeKind, Span
from engine.questions.parse import question_id
from engine.records import Evidence, Gold, Question
from engine.strategies.sentences import sentence_spans

LONGEST_SENTENCE = 400
"""Characters; longer sentences make questions nobody would ask."""

_LABEL = re.compile(r"(?:\s*(?:[-*+•]|#{1,6}|\(?\d{1,3}(?:\.\d+)*[.)]?|\([a-z]{1,4}\)|[a-z][.)])(?=\s)\s+)+")
_DEFINITION = re.compile(
    r"(?P<open>[\"“”„'‘’«])(?P<term>[^\"“”„'‘’«»\n]{2,60})[\"“”'’»]\s+(?:means|shall mean|refers to)\s+(?P<answer>.+?)[.;]?\s*$",
    re.DOTALL,
)
_TIME = r"(?:\w+\s+)?(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|sixty|ninety)\s+(?:\([^)]{1,20}\)\s+)?(?:(?:business|working|calendar)\s+)?(?:hours?|days?|weeks?|months?|years?)"
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_SUBJECT = r"(?P<subject>(?:The|Each|Every|An?|Any|No|All)?\s?[^,;:.()]{3,70}?)"
_RULE = rf"^{_SUBJECT}\s+(?P<modal>shall|must|may|should)\s+(?P<verb>[^;:.]{{3,140}}?)\s+"
_DEADLINE = re.compile(
    rf"{_RULE}(?P<answer>(?:within|not later than|no later than|at the latest|for at least|for)\s+{_TIME})\b"
)
_DATE = re.compile(
    rf"{_RULE}(?P<answer>(?:by|before|not later than|no later than|from|until)\s+\d{{1,2}}\s+{_MONTH}(?:\s+\d{{4}})?)\b"
)
_AMOUNT = re.compile(
    rf"{_RULE}(?P<answer>(?:EUR|USD|GBP|CHF|€|\$|£)\s?\d[\d.,  ]*(?:\s(?:thousand|million|billion))?|\d[\d.,]*\s?(?:%|percent|per cent))(?P<rest>\s+of\s+[^,;:.]{{3,50}})?"
)


_UNCLEAR = frozenset(
    ["it", "they", "this", "these", "those", "he", "she", "such", "which", "who", "whom", "there", "where"]
)
"""Words of a subject that need the sentence before to be understood."""
_OPENERS = frozenset(
    ["for", "in", "on", "at", "by", "to", "if", "when", "as", "with", "from", "under", "unless", "after", "before"]
)
"""Words that begin something other than the subject."""
_MODALS = frozenset(["shall", "must", "may", "should", "will", "can"])


class Draft(NamedTuple):
    """A question about a passage before it becomes a record."""

    kind: str
    question: str
    answer: str
    span: Span
    """The sentence or table row it was made from."""


def draft(documents: Sequence[Document], count: int, seed: int = 0) -> tuple[Question, ...]:
    """Up to `count` questions, marked drafted and not reviewed, spread over kinds and documents. The same seed gives the same questions.

    Questions that two passages would answer are left out. Fewer when the documents hold fewer definitions, deadlines, amounts and table rows that a rule understands.
    """
    rng = random.Random(seed)
    queues: dict[tuple[str, str], list[tuple[Document, Draft]]] = {}
    every = [(document, found) for document in documents for found in drafts(document)]
    asked = Counter(found.question.casefold() for _, found in every)
    for document, found in every:
        if asked[found.question.casefold()] == 1:
            queues.setdefault((document.document_id, found.kind), []).append((document, found))
    waiting = [queues[key] for key in sorted(queues)]
    for queue in waiting:
        rng.shuffle(queue)
    rng.shuffle(waiting)
    questions: list[Question] = []
    while waiting and len(questions) < count:
        for queue in list(waiting):
            if not queue:
                waiting.remove(queue)
            elif len(questions) < count:
                questions.append(_question(*queue.pop()))
    return tuple(questions)


def drafts(document: Document) -> Iterator[Draft]:
    """Every question a rule can make from the document, in the order of its text."""
    text = document.text
    for sentence in sentence_spans(text):
        span = _stripped(text, sentence)
        if 0 < span.length <= LONGEST_SENTENCE and "|" not in span.slice(text):
            yield from _from_sentence(span.slice(text), span)
    for node in document.tree.walk():
        if node.kind is NodeKind.TABLE:
            yield from _from_table(text, node.span, node.title or _title_before(text, node.span))


def _from_sentence(sentence: str, span: Span) -> Iterator[Draft]:
    plain = " ".join(re.sub(r"[*_`]", "", sentence).split())
    definition = _DEFINITION.search(plain)
    if definition is not None:
        yield Draft(
            "definition",
            f"What does “{definition['term']}” mean?",
            re.split(r";\s+[‘“„\"']", definition["answer"])[0],
            span,
        )
        return
    for kind, pattern in (("deadline", _DEADLINE), ("deadline", _DATE), ("amount", _AMOUNT)):
        match = pattern.match(plain)
        if match is not None and _asks_well(match):
            yield Draft(
                kind,
                _wording(kind, match),
                match["answer"].rstrip(" \u00a0.,") + (match.groupdict().get("rest") or ""),
                span,
            )
            return


def _asks_well(match: re.Match[str]) -> bool:
    """Whether subject and verb are short and plain enough for a question that reads like one."""
    subject, verb = match["subject"].lower().split(), match["verb"].lower().split()
    if not (1 <= len(subject) <= 9 and 1 <= len(verb) <= 22 and verb[0].isalpha()):
        return False
    return (
        subject[0] not in _OPENERS
        and not _UNCLEAR & set(subject)
        and not _MODALS & set(verb)
        and "," not in match["verb"]
    )


def _wording(kind: str, match: re.Match[str]) -> str:
    subject, modal = _inner(match["subject"].strip()), match["modal"]
    helper = {"shall": "must"}.get(modal, modal)
    verb = match["verb"]
    if kind == "amount":
        unit = "percentage" if re.search(r"%|per ?cent", match["answer"]) else "amount"
        rest = match.groupdict().get("rest") or ""
        return f"{match['subject'].strip()} {helper} {verb} which {unit}{rest}?"
    answer = match["answer"].lower()
    if answer.startswith("for"):
        return f"How long {helper} {subject} {verb}?"
    if re.match(r"(by|before|from|until)\b", answer) or re.search(_MONTH, match["answer"]):
        first = (
            "From when"
            if answer.startswith("from")
            else "Until when"
            if answer.startswith("until")
            else "By which date"
        )
        return f"{first} {helper} {subject} {verb}?"
    return f"Within what time {helper} {subject} {verb}?"


def _inner(subject: str) -> str:
    """The subject as it stands inside a sentence: its article or plural noun in small letters, names as they are."""
    first, _, rest = subject.partition(" ")
    small = first in ("The", "Each", "Every", "A", "An", "Any", "No", "All") or (
        rest.split()[0].islower() if rest else first.istitle() and first.endswith("s")
    )
    return first[:1].lower() + first[1:] + (" " + rest if rest else "") if small else subject


def _from_table(text: str, table: Span, title: str) -> Iterator[Draft]:
    """One question per row: the last column that has a header, for the row's first cell."""
    rows: list[tuple[list[str], Span]] = []
    offset = table.start
    for line in table.slice(text).splitlines(keepends=True):
        stripped = line.strip()
        if stripped.startswith("|") and not re.fullmatch(r"[|:\-\s]+", stripped):
            start = offset + line.index("|")
            rows.append(
                (
                    [cell.strip() for cell in re.split(r"(?<!\\)\|", stripped.strip("|"))],
                    Span(start, start + len(stripped)),
                )
            )
        offset += len(line)
    if len(rows) < 3:
        return
    header = rows[0][0]
    keys = [cells[0] for cells, _ in rows[1:] if cells]
    for cells, span in rows[1:]:
        usable = [i for i in range(1, min(len(cells), len(header))) if cells[i] and header[i] and cells[i] != header[i]]
        if not usable or not cells[0] or keys.count(cells[0]) > 1 or len(cells[0]) > 80 or not header[0]:
            continue
        column = usable[-1]
        place = f" in the table “{title}”" if title else ""
        yield Draft("table", f"What is given as “{header[column]}” for “{cells[0]}”{place}?", cells[column], span)


def _title_before(text: str, table: Span) -> str:
    """The short line just above a table, which is most often its caption or heading."""
    lines = [line.strip() for line in text[max(0, table.start - 200) : table.start].splitlines() if line.strip()]
    last = re.sub(r"^#+\s*|[*_`]", "", lines[-1]).rstrip(":.") if lines else ""
    return last if len(last) <= 80 and "|" not in last else ""


def _stripped(text: str, span: Span) -> Span:
    """The sentence without its label, list mark and surrounding white space."""
    label = _LABEL.match(text, span.start, span.end)
    start = label.end() if label else span.start
    body = text[start : span.end]
    return (
        Span(start + len(body) - len(body.lstrip()), start + len(body.rstrip())) if body.strip() else Span(start, start)
    )


def _question(document: Document, made: Draft) -> Question:
    quote = made.span.slice(document.text)
    gold = Gold(document_id=document.document_id, span=made.span, text_hash=ids.content_hash(quote))
    evidence = Evidence(
        quote=quote, document=document.name, offsets=made.span, gold=(gold,), method="offsets", score=1.0
    )
    question = Question(
        question_id="",
        question=made.question,
        answer=made.answer,
        evidence=(evidence,),
        tags=("drafted", made.kind),
        origin="drafted",
        reviewed=False,
    )
    return question.model_copy(update={"question_id": question_id(question)})
