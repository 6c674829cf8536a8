"""Finding the evidence of questions in the documents: exactly, then normalised, then aligned. What is not found is said, never guessed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import PurePath
from typing import NamedTuple

from rapidfuzz import fuzz

from engine import ids
from engine.lexical import words, written_without_spaces
from engine.models import Document, DocumentInfo, NodeKind, Record, Span
from engine.questions.normalise import Normalised
from engine.recent import Recent
from engine.records import Evidence, Gold, Question, QuestionSet

ALIGNMENT_THRESHOLD = 0.85
"""Least share of matching characters for an aligned quote to count as found."""
NEAREST_LENGTH = 300
"""Most characters shown of the nearest text."""
_WINDOWS = 3
_LONG, _END, _LONGEST = 800, 300, 200_000
"""Characters of a quote from which only its beginning and its end, of `_END` characters each, are aligned, and beyond which it is not."""
_MARKS = 2000
"""Occurrences of terms looked at when choosing windows, those of rare terms first."""
_OPEN = 16
"""Documents kept in memory while quotes are looked for."""
_DIGITS = re.compile(r"\d+")


def resolve(question_set: QuestionSet, documents: Sequence[Document]) -> QuestionSet:
    """The same set with every quote looked up anew in `documents`, in the named document only where one is named.

    A quote that stands in several places gets all of them as candidates; the place chosen before, the one nearest to the author's
    offsets, or else the first, is gold, and all of them with `every_copy`. Idempotent; the id of the set stays.
    """
    by_id = {document.document_id: document for document in documents}
    return resolve_among(question_set, documents, by_id.__getitem__)


def resolve_among(
    question_set: QuestionSet, documents: Sequence[DocumentInfo], open_document: Callable[[str], Document]
) -> QuestionSet:
    """The same as `resolve`, with few documents in memory. `open_document`: a document by its id, asked for at most three times."""
    named = _Named(documents)
    sought = [
        [_Sought(evidence, question.every_copy, named.meant(evidence.document)) for evidence in question.evidence]
        for question in question_set.questions
    ]
    _find(list(chain.from_iterable(sought)), documents, open_document)
    questions = tuple(
        question.model_copy(update={"evidence": tuple(each.outcome for each in quotes)})
        for question, quotes in zip(question_set.questions, sought, strict=True)
    )
    return question_set.model_copy(update={"questions": questions})


def resolve_evidence(evidence: Evidence, document: Document) -> Evidence:
    """One quote looked up in a document, by the same rules as a whole set."""
    sought = _Sought(evidence, False, _Named([document]).meant(evidence.document))
    _find([sought], [document], lambda _: document)
    return sought.outcome


def choose(question: Question, evidence: int, candidate: int) -> Question:
    """The question with one of the candidates of a quote as its gold. Both numbers count from 0."""
    items = list(question.evidence)
    chosen = items[evidence].candidates[candidate]
    items[evidence] = items[evidence].model_copy(update={"gold": (chosen,)})
    return question.model_copy(update={"evidence": tuple(items), "every_copy": False})


def count_every_copy(question: Question, every_copy: bool) -> Question:
    """The question with all copies of its repeated quotes as gold, or only the first of each."""
    items = tuple(
        item.model_copy(update={"gold": item.candidates if every_copy else item.candidates[:1]})
        if item.candidates
        else item
        for item in question.evidence
    )
    return question.model_copy(update={"evidence": items, "every_copy": every_copy})


class Change(Record):
    """How the evidence of a question moved when it was resolved again."""

    question_id: str
    evidence: int
    """Which quote, from 0."""
    message: str


def changes(before: QuestionSet, after: QuestionSet) -> tuple[Change, ...]:
    """What a second resolution found differently: lost, found, moved to other text, or found by another method."""
    known = {question.question_id: question for question in after.questions}
    found: list[Change] = []
    for question in before.questions:
        new = known.get(question.question_id)
        if new is None:
            found.append(Change(question_id=question.question_id, evidence=0, message="the question is gone"))
            continue
        for number, (old_item, new_item) in enumerate(zip(question.evidence, new.evidence, strict=False)):
            message = _change(old_item, new_item)
            if message:
                found.append(Change(question_id=question.question_id, evidence=number, message=message))
    return tuple(found)


def _change(old: Evidence, new: Evidence) -> str | None:
    if old.gold and not new.gold:
        return "was found before and is not found now"
    if new.gold and not old.gold:
        return f"is found now ({new.method})"
    if [gold.text_hash for gold in old.gold] != [gold.text_hash for gold in new.gold]:
        return f"now stands in other text ({new.method}, score {new.score:.2f})"
    if old.method != new.method:
        return f"was found as {old.method} and is found as {new.method} now"
    if len(old.candidates) != len(new.candidates):
        return f"stood in {_places(old)} and stands in {_places(new)} now"
    return None


def _places(item: Evidence) -> str:
    return f"{len(item.candidates)} places" if item.candidates else "one place"


class _Place:
    """A document to search in."""

    def __init__(self, document: Document) -> None:
        self.document_id = document.document_id
        self.text = document.text
        self._tree = document.tree

    @cached_property
    def normalised(self) -> Normalised:
        return Normalised(self.text)

    def gold(self, span: Span) -> Gold:
        text_hash = ids.content_hash(span.slice(self.text))
        return Gold(document_id=self.document_id, span=span, text_hash=text_hash, unit=self._unit(span.start))

    def _unit(self, offset: int) -> str | None:
        """The innermost article around the offset, or else the innermost section. One that holds most of the document tells nothing apart."""
        node, article, section = self._tree, None, None
        while True:
            inner = next((child for child in node.children if child.span.start <= offset < child.span.end), None)
            if inner is None:
                break
            node = inner
            if node.name and 2 * node.span.length <= len(self.text):
                article = node.name if node.kind is NodeKind.ARTICLE else article
                section = node.name if node.kind is NodeKind.SECTION else section
        return article or section


class _Named:
    """Which documents are meant by a name: their id, their file name or its stem."""

    def __init__(self, documents: Sequence[DocumentInfo]) -> None:
        self._all = frozenset(document.document_id for document in documents)
        self._by_name: defaultdict[str, set[str]] = defaultdict(set)
        for document in documents:
            for name in (document.document_id, document.name.casefold(), PurePath(document.name).stem.casefold()):
                self._by_name[name].add(document.document_id)

    def meant(self, name: str | None) -> frozenset[str]:
        """Ids; of all documents where none is named."""
        if name is None:
            return self._all
        keys = (name, name.casefold(), PurePath(name).name.casefold())
        return frozenset().union(*(self._by_name.get(key, ()) for key in keys))


class _Aligned(NamedTuple):
    score: float
    is_found: bool
    """Whether the score is high enough and the numbers are the same: a passage with other numbers says something else."""
    gold: Gold
    text: str
    """The passage, or its beginning."""


class _Sought:
    """One quote while it is looked for: first as the author's offsets say, then as it stands, then normalised, last aligned."""

    def __init__(self, evidence: Evidence, every_copy: bool, within: frozenset[str]) -> None:
        self._before = evidence
        self._every_copy = every_copy
        self.within = within
        """Ids of the documents in which it may stand."""
        cleared = {"gold": (), "candidates": (), "method": "not_found", "score": 0.0, "nearest": None}
        self.outcome = evidence.model_copy(update=cleared)
        self._quote = self.outcome.quote.strip()
        self._places: list[Gold] = []
        self._best: list[_Aligned] = []

    @cached_property
    def _needle(self) -> str:
        return Normalised(self._quote).text.strip()

    @property
    def is_open(self) -> bool:
        return not self.outcome.gold

    def look_exactly(self, place: _Place) -> None:
        by_offsets = self._by_offsets(place) if len(self.within) == 1 else None
        if by_offsets is not None:
            self.outcome = by_offsets
        elif self._quote:
            self._places += [place.gold(span) for span in _occurrences(self._quote, place.text)]

    def look_normalised(self, place: _Place) -> None:
        if self._needle:
            spans = _occurrences(self._needle, place.normalised.text)
            self._places += [place.gold(place.normalised.origin(*span)) for span in spans]

    def look_for_the_like(self, place: _Place) -> None:
        if not self._needle:
            return
        for found in _alignments(self._needle, place):
            rank = (found.is_found, found.score)
            best = (self._best[0].is_found, self._best[0].score) if self._best else (False, -1.0)
            if rank > best:
                self._best = [found]
            elif rank == best and found.is_found:
                self._best.append(found)

    def conclude(self, method: str) -> None:
        """After all documents were looked at in one way."""
        score = 1.0
        if self._best:
            first = self._best[0]
            score = round(first.score, 4)
            if not first.is_found:
                self.outcome = self.outcome.model_copy(update={"score": score, "nearest": first.text})
                return
            self._places = list(dict.fromkeys(each.gold for each in self._best))
        if not self._places:
            return
        several = tuple(self._places) if len(self._places) > 1 else ()
        gold = several if several and self._every_copy else (self._places[_preferred(self._before, self._places)],)
        found = {"gold": gold, "candidates": several, "method": method, "score": score}
        self.outcome = self.outcome.model_copy(update=found)

    def _by_offsets(self, place: _Place) -> Evidence | None:
        """The evidence at the author's offsets, where they are inside the one document meant and hold the quote."""
        span = self._before.offsets
        if span is None:
            return None
        text = span.slice(place.text)
        if span.end > len(place.text) or (self._quote and text.strip() != self._quote):
            return None
        return self.outcome.model_copy(
            update={"quote": text, "gold": (place.gold(span),), "method": "offsets", "score": 1.0}
        )


_WAYS: tuple[tuple[str, Callable[[_Sought, _Place], None]], ...] = (
    ("exact", _Sought.look_exactly),
    ("normalised", _Sought.look_normalised),
    ("aligned", _Sought.look_for_the_like),
)


def _find(
    sought: Sequence[_Sought], documents: Sequence[DocumentInfo], open_document: Callable[[str], Document]
) -> None:
    """Look for every quote in all documents in one way before the next, so that a better match in a later document counts."""
    places: Recent[str, _Place] = Recent(_OPEN)
    for method, look in _WAYS:
        left = [each for each in sought if each.is_open]
        for document in documents:
            here = [each for each in left if document.document_id in each.within]
            if here:
                document_id = document.document_id
                place = places.get(document_id) or places.keep(document_id, _Place(open_document(document_id)))
                for each in here:
                    look(each, place)
        for each in left:
            if each.is_open:
                each.conclude(method)


def _preferred(before: Evidence, candidates: Sequence[Gold]) -> int:
    """Which place counts: the one chosen before, the one nearest to the author's offsets, or the first."""
    if len(before.gold) == 1:
        if before.gold[0] in candidates:
            return candidates.index(before.gold[0])
        if len(before.candidates) == len(candidates) and before.gold[0] in before.candidates:
            return before.candidates.index(before.gold[0])
    if before.offsets is not None:
        start = before.offsets.start
        return min(range(len(candidates)), key=lambda i: abs(candidates[i].span.start - start))
    return 0


def _alignments(needle: str, place: _Place) -> Iterator[_Aligned]:
    """The passages most like the needle, with the share of characters that match."""
    text, wanted = place.normalised.text, Counter(_DIGITS.findall(needle))
    for start, end in (
        _passages(needle, place.normalised) if len(needle) <= _LONG else _between(needle, place.normalised)
    ):
        passage = text[start:end]
        score = fuzz.ratio(needle, passage) / 100
        is_found = score >= ALIGNMENT_THRESHOLD and Counter(_DIGITS.findall(passage)) == wanted
        span = place.normalised.origin(start, end)
        yield _Aligned(score, is_found, place.gold(span), span.slice(place.text)[:NEAREST_LENGTH])


def _between(needle: str, normalised: Normalised) -> Iterator[Span]:
    """The passage from the beginning to the end of a long needle: aligning all of it would take minutes."""
    if len(needle) > _LONGEST:
        return
    ends = [
        max(_passages(part, normalised), key=lambda found: fuzz.ratio(part, found.slice(normalised.text)), default=None)
        for part in (needle[:_END], needle[-_END:])
    ]
    if ends[0] is not None and ends[1] is not None and ends[0].start < ends[1].end <= ends[0].start + 2 * len(needle):
        yield Span(ends[0].start, ends[1].end)


def _passages(needle: str, normalised: Normalised) -> Iterator[Span]:
    """The passages of the normalised text that are most like a short needle, none of them empty."""
    for window in _windows(needle, normalised):
        text = window.slice(normalised.text)
        if len(text) >= len(needle):
            found = fuzz.partial_ratio_alignment(needle, text)
            if found is None or found.dest_end <= found.dest_start:
                continue
            start, end = window.start + found.dest_start, window.start + found.dest_end
        else:
            start, end = window
        start, end = _fitted(needle, normalised.text, start, end)
        if start < end:
            yield Span(start, end)


def _windows(needle: str, normalised: Normalised) -> list[Span]:
    """Stretches of the text where the rarer terms of the needle gather most, so that only they need aligning."""
    width = int(1.5 * len(needle)) + 40
    marks: list[tuple[int, float, str]] = []
    known = set(words(needle)) & normalised.positions.keys()
    for term in sorted(known, key=lambda term: (len(normalised.positions[term]), term)):
        positions = normalised.positions[term]
        if marks and len(marks) + len(positions) > _MARKS:
            break
        marks += [(position, 1 / len(positions), term) for position in positions]
    marks.sort()
    starts = [position for position, _, _ in marks]
    scored = []
    for first, (position, _, _) in enumerate(marks):
        inside = marks[first : bisect_left(starts, position + len(needle) + 20, lo=first)]
        scored.append((sum({term: weight for _, weight, term in inside}.values()), -position))
    windows: list[Span] = []
    for _, negative in sorted(scored, reverse=True):
        start = max(0, -negative - width // 3)
        if all(abs(start - window.start) >= len(needle) // 2 for window in windows):
            windows.append(Span(start, min(len(normalised.text), start + width + width // 3)))
        if len(windows) == _WINDOWS:
            break
    return windows


def _fitted(needle: str, text: str, start: int, end: int) -> tuple[int, int]:
    """The passage near `[start, end)` that matches the needle best, beginning and ending between words, without white space at either end.

    An alignment compares stretches as long as the needle; words left out or added move the ends of the best passage.
    """
    reach = max(12, len(needle) // 6)
    starts = [i for i in range(max(0, start - reach), min(end, start + reach + 1)) if _is_edge(text, i)]
    start = max(starts, key=lambda i: (fuzz.ratio(needle, text[i:end]), i), default=start)
    ends = [i for i in range(max(start + 1, end - reach), min(len(text), end + reach) + 1) if _is_edge(text, i)]
    end = max(ends, key=lambda i: (fuzz.ratio(needle, text[start:i]), -i), default=end)
    passage = text[start:end]
    return start + len(passage) - len(passage.lstrip()), end - (len(passage) - len(passage.rstrip()))


def _is_edge(text: str, place: int) -> bool:
    """Whether no word is cut between the characters before and at `place`."""
    if not 0 < place < len(text):
        return True
    left, right = text[place - 1], text[place]
    return not (left.isalnum() and right.isalnum()) or written_without_spaces(left) or written_without_spaces(right)


def _occurrences(needle: str, text: str) -> Iterator[Span]:
    place = text.find(needle)
    while place >= 0:
        yield Span(place, place + len(needle))
        place = text.find(needle, place + len(needle))
