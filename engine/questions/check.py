"""Checks of a question set before it is used: what would make its numbers wrong, or say nothing."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Literal

from engine import stats, tokens
from engine.lexical import words
from engine.metrics.duplicates import similar_texts
from engine.models import ChunkSet, Document, DocumentInfo, Record
from engine.questions.normalise import Normalised
from engine.records import Evidence, Gold, Question, QuestionSet

Severity = Literal["error", "warning", "note"]
FindingKind = Literal[
    "duplicate",
    "near_duplicate",
    "unknown_document",
    "evidence_not_found",
    "evidence_orphaned",
    "evidence_aligned",
    "evidence_repeated",
    "no_evidence",
    "unanswerable_with_evidence",
    "answer_not_in_evidence",
    "evidence_longer_than_any_chunk",
    "repeats_the_text",
    "too_few_questions",
    "document_shorter_than_chunk",
    "not_reviewed",
]

TYPICAL_DEVIATION = 0.35
"""Standard deviation of paired differences in recall, 0.20 to 0.43 where it was measured; used before there are any results."""
LOOKED_FOR = 0.05
"""The difference a comparison should be able to find, unless said otherwise."""
_REPEATED_SHARE = 0.8
_ANSWER_SHARE = 0.3
_NUMBER = re.compile(r"\d+")


class Finding(Record):
    """One thing to know about a question, or about the set, before it is used."""

    kind: FindingKind
    severity: Severity
    """`error`: the question cannot be scored as it is; `warning`: its score may mislead; `note`: good to know."""
    question_id: str | None
    """None: about the whole set."""
    message: str


def check(
    question_set: QuestionSet,
    documents: Sequence[DocumentInfo],
    open_document: Callable[[str], Document],
    chunk_sets: Iterable[ChunkSet] = (),
    looked_for: float = LOOKED_FOR,
    deviation: float = TYPICAL_DEVIATION,
    chunk_size: int | None = None,
    stored: Collection[str] | None = None,
) -> tuple[Finding, ...]:
    """Everything worth knowing about a resolved question set, in the order of its questions, then about the set.

    `open_document`: a document by its id, asked for once, and only for those that hold evidence.
    `chunk_sets`: of the strategies to be compared, where they are known; `chunk_size`: tokens of a usual chunk, where they are not.
    `stored`: ids of all documents there are, where `documents` are only some of them.
    `looked_for`: the difference in recall that matters, and `deviation`: the expected standard deviation of paired differences; both 0 to 1.
    """
    known = {document.document_id for document in documents}
    passages = _passages(question_set, known, open_document)
    names = {name for document in documents for name in (document.document_id, document.name.casefold())}
    names |= {PurePath(document.name).stem.casefold() for document in documents}
    longest, single = _longest_chunks(chunk_sets)
    if chunk_size is not None and not longest:
        size = f"{chunk_size} tokens"
        longest = {"": (size, chunk_size)}
        single = [size] if sum(document.token_count for document in documents) <= chunk_size else []
    by_question: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in _duplicates(question_set.questions):
        by_question[finding.question_id or ""].append(finding)
    findings: list[Finding] = []
    for question in question_set.questions:
        findings += by_question[question.question_id]
        found = [passages[gold] for gold in question.gold if gold in passages]
        findings += _question(question, found, names, longest, known if stored is None else stored)
    findings += _whole_set(question_set, looked_for, deviation)
    if len(documents) == 1:
        findings += _too_short(documents[0], single)
    return tuple(findings)


def _passages(
    question_set: QuestionSet, known: Collection[str], open_document: Callable[[str], Document]
) -> dict[Gold, str]:
    """The text of all evidence in known documents, which are opened one after the other."""
    by_document: defaultdict[str, set[Gold]] = defaultdict(set)
    for gold in chain.from_iterable(question.gold for question in question_set.questions):
        if gold.document_id in known:
            by_document[gold.document_id].add(gold)
    found: dict[Gold, str] = {}
    for document_id, every in by_document.items():
        text = open_document(document_id).text
        found.update({gold: gold.span.slice(text) for gold in every})
    return found


def orphaned(item: Evidence, stored: Collection[str]) -> bool:
    """Whether evidence counts in a document that is not stored any more: deleted, or read again into another. No search can find it there."""
    return any(gold.document_id not in stored for gold in item.gold)


def questions_needed(difference: float, deviation: float = TYPICAL_DEVIATION) -> int:
    """Independent questions needed to find a true difference with 80 % power at two-sided 5 % (Miller, 2024)."""
    return math.ceil((stats.DETECTABLE * deviation / difference) ** 2)


def _duplicates(questions: Sequence[Question]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for number, question in enumerate(questions, start=1):
        key = Normalised(question.question).text.strip(" ?.!")
        if key in first:
            yield Finding(
                kind="duplicate",
                severity="warning",
                question_id=question.question_id,
                message=f"Asks the same as question {first[key]}. Equal questions count twice and make differences look surer than they are.",
            )
        else:
            first[key] = number
    numbers = sorted(first.values())
    originals = [questions[number - 1] for number in numbers]
    for pair in similar_texts([question.question for question in originals]):
        yield Finding(
            kind="near_duplicate",
            severity="warning",
            question_id=originals[pair.second].question_id,
            message=f"Asks nearly the same as question {numbers[pair.first]} ({pair.similarity:.0%} of its word runs).",
        )


def _question(
    question: Question,
    passages: Sequence[str],
    names: set[str],
    longest: Mapping[str, tuple[str, int]],
    stored: Collection[str],
) -> Iterator[Finding]:
    def finding(kind: FindingKind, severity: Severity, message: str) -> Finding:
        return Finding(kind=kind, severity=severity, question_id=question.question_id, message=message)

    if question.answerable and not question.evidence:
        yield finding("no_evidence", "note", "Has no evidence, so its retrieval cannot be scored.")
    if not question.answerable and question.evidence:
        yield finding(
            "unanswerable_with_evidence", "warning", "Is marked unanswerable and has evidence. One of both is wrong."
        )
    for number, item in enumerate(question.evidence, start=1):
        for kind, severity, message in _evidence(item, number, names, question.every_copy, stored):
            yield finding(kind, severity, message)
    found = " ".join(passages)
    if not found:
        return
    if question.answer and not _supported(question.answer, found):
        yield finding(
            "answer_not_in_evidence",
            "warning",
            "The expected answer's words or numbers are not in the evidence. Check both.",
        )
    if _repeats(question.question, found):
        yield finding(
            "repeats_the_text",
            "warning",
            "Repeats the evidence nearly word for word, so that any search finds it. Ask in other words.",
        )
    worst = max(map(tokens.count, passages)) if longest else 0
    for label, size in longest.values():
        if worst > size:
            yield finding(
                "evidence_longer_than_any_chunk",
                "note",
                f"Its evidence has {worst} tokens, more than any chunk of {label} ({size}): no chunk of it can hold the whole.",
            )


def _evidence(
    item: Evidence, number: int, names: set[str], every_copy: bool, stored: Collection[str]
) -> Iterator[tuple[FindingKind, Severity, str]]:
    quote = f"Evidence {number}"
    if orphaned(item, stored):
        yield (
            "evidence_orphaned",
            "error",
            f"{quote} stood in a document that was deleted or read again, so no strategy can find it. Upload the document, then look for the evidence again.",
        )
        return
    if (
        item.document is not None
        and not {item.document.casefold(), PurePath(item.document).name.casefold(), item.document} & names
    ):
        yield (
            "unknown_document",
            "error",
            f"{quote} names the document {item.document!r}, which is not among the documents.",
        )
        return
    if not item.gold:
        hint = " The nearest text is shown beside it." if item.nearest else ""
        yield "evidence_not_found", "error", f"{quote} was not found in the text, so it does not count.{hint}"
    elif item.method == "aligned":
        yield "evidence_aligned", "note", f"{quote} was found with {item.score:.0%} of its characters. Check the place."
    if item.candidates and not every_copy:
        yield (
            "evidence_repeated",
            "note",
            f"{quote} stands in {len(item.candidates)} places; one counts. Choose it, or let every copy count.",
        )


def _supported(answer: str, evidence: str) -> bool:
    numbers = Counter(_NUMBER.findall(answer))
    if numbers - Counter(_NUMBER.findall(evidence)):
        return False
    wanted = {word for word in words(answer) if len(word) > 3}
    present = set(words(evidence))
    return not wanted or len(wanted & present) / len(wanted) >= _ANSWER_SHARE


def _repeats(question: str, evidence: str) -> bool:
    asked = words(question)
    held = words(evidence)
    runs = {tuple(held[i : i + 3]) for i in range(len(held) - 2)}
    own = [tuple(asked[i : i + 3]) for i in range(len(asked) - 2)]
    return len(own) >= 3 and sum(run in runs for run in own) / len(own) >= _REPEATED_SHARE


def _longest_chunks(chunk_sets: Iterable[ChunkSet]) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """Label and largest chunk, in tokens, per spec; and the labels of chunk sets of one chunk."""
    longest: dict[str, tuple[str, int]] = {}
    single = []
    for chunk_set in chunk_sets:
        label, spec_id = chunk_set.spec.label, chunk_set.spec.spec_id
        size = max((chunk.token_count for chunk in chunk_set.chunks), default=0)
        longest[spec_id] = (label, max(longest.get(spec_id, ("", 0))[1], size))
        if len(chunk_set.chunks) == 1:
            single.append(label)
    return {spec_id: entry for spec_id, entry in longest.items() if entry[1]}, single


def _whole_set(question_set: QuestionSet, looked_for: float, deviation: float) -> Iterator[Finding]:
    scorable = [question for question in question_set.questions if question.gold]
    groups = len(set(stats.cluster_keys(scorable)))
    needed = questions_needed(looked_for, deviation)
    if groups < needed:
        findable = stats.DETECTABLE * deviation / math.sqrt(groups) if groups else 1.0
        basis = (
            f"{groups} independent questions with evidence" if groups != 1 else "1 independent question with evidence"
        )
        yield Finding(
            kind="too_few_questions",
            severity="warning",
            question_id=None,
            message=f"{basis}: only differences of about {100 * min(1.0, findable):.0f} points can be found reliably; "
            f"{100 * looked_for:.0f} points would take about {needed:,}.",
        )
    drafted = sum(not question.reviewed for question in question_set.questions)
    if drafted:
        yield Finding(
            kind="not_reviewed",
            severity="warning",
            question_id=None,
            message=f"{drafted} drafted questions are not reviewed. Accept, change or remove them before results are trusted.",
        )


def _too_short(document: DocumentInfo, labels: Sequence[str]) -> Iterator[Finding]:
    """`labels`: of the strategies under which the only document is a single chunk."""
    for label in labels:
        yield Finding(
            kind="document_shorter_than_chunk",
            severity="warning",
            question_id=None,
            message=f"{document.name} is one chunk under {label}: there is nothing to retrieve, and every such strategy scores the same.",
        )
