"""Checking our measures against published ones: precision-omega of Chroma's report, which depends on chunk boundaries alone.

The splitters follow the rules of the report's own ones, so that only the measure is compared. They are for this check, not for users.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from engine import tokens
from engine.errors import BadQuestionSet, NotFound
from engine.metrics.ceiling import UnitPool, precision_omega
from engine.metrics.targets import Target
from engine.metrics.walk import Unit
from engine.models import Record, Span
from engine.tokens import TokenMap

SEPARATORS = ("\n\n", "\n", ".", "?", "!", " ", "")
"""The report's recursive splitter cuts before the first of these that occurs, and cuts pieces that are still too long with the next."""
PUBLISHED_CORPORA = frozenset({"chatlogs", "finance", "pubmed", "state_of_the_union", "wikitexts"})
PUBLISHED_QUESTIONS = 472
SOURCE = (
    "Chroma, Evaluating Chunking Strategies for Retrieval (2024), precision-omega over five corpora and 472 questions"
)


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the report: percent."""

    splitter: str
    size: int
    overlap: int
    mean: float
    deviation: float

    @property
    def label(self) -> str:
        return f"{self.splitter} {self.size}/{self.overlap}"


PUBLISHED = (
    Published("recursive", 800, 400, 6.7, 5.2),
    Published("fixed", 800, 400, 4.7, 3.1),
    Published("recursive", 400, 200, 13.9, 10.4),
    Published("fixed", 400, 200, 8.4, 5.1),
    Published("recursive", 400, 0, 17.7, 14.0),
    Published("fixed", 400, 0, 12.5, 8.1),
    Published("recursive", 200, 0, 29.9, 18.4),
    Published("fixed", 200, 0, 21.0, 11.9),
)


class Row(Record):
    """Precision-omega of one splitter, in percent, over the questions."""

    label: str
    chunks: int
    mean_tokens: float
    """Mean chunk size."""
    mean: float
    deviation: float
    """As published: chunks that only touch the gold count, positions are those of the first equal text."""
    strict_mean: float
    strict_deviation: float
    """Half-open spans at the chunks' true positions."""
    published_mean: float
    published_deviation: float

    @property
    def agrees(self) -> bool:
        """Whether mean and deviation equal the published ones at their one decimal."""
        return (round(self.mean, 1), round(self.deviation, 1)) == (self.published_mean, self.published_deviation)


class Validation(Record):
    corpora: tuple[str, ...]
    questions: int
    comparable: bool
    """Whether the folder holds the published corpora and as many questions; otherwise the published figures are beside the measured, no more."""
    misplaced: int
    """References whose text is not what stands at their offsets. They count at their offsets, as in the report."""
    rows: tuple[Row, ...]

    @property
    def agrees(self) -> bool:
        return self.comparable and all(row.agrees for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Question:
    corpus: str
    target: Target


def validate(folder: Path, progress: Callable[[str], None] = lambda label: None) -> Validation:
    """Precision-omega of every published row over `corpora/*.md` and `questions_df.csv` of the folder.

    The CSV has the columns `question`, `references` (JSON list of {content, start_index, end_index}) and `corpus_id`.
    Raises NotFound when a file is missing, BadQuestionSet that names row and field.
    """
    corpora = _corpora(folder)
    questions, misplaced = _questions(folder / "questions_df.csv", corpora)
    maps = {name: TokenMap(text) for name, text in corpora.items()}
    rows = []
    for published in PUBLISHED:
        progress(published.label)
        rows.append(_row(published, corpora, maps, questions))
    return Validation(
        corpora=tuple(corpora),
        questions=len(questions),
        comparable=corpora.keys() == PUBLISHED_CORPORA and len(questions) == PUBLISHED_QUESTIONS,
        misplaced=misplaced,
        rows=tuple(rows),
    )


def in_lines(validation: Validation) -> Iterator[str]:
    """The result as a table in text."""
    yield f"precision-omega in percent, mean ± standard deviation over {validation.questions} questions; corpora: {', '.join(validation.corpora)}"
    yield f"{'splitter':<18}{'chunks':>7}{'tokens':>8}   {'compat':>12}{'strict':>14}{'published':>14}"
    for row in validation.rows:
        compat = f"{row.mean:.1f} ± {row.deviation:.1f}"
        strict = f"{row.strict_mean:.1f} ± {row.strict_deviation:.1f}"
        published = f"{row.published_mean:.1f} ± {row.published_deviation:.1f}"
        mark = ("  equal" if row.agrees else "  differs") if validation.comparable else ""
        yield f"{row.label:<18}{row.chunks:>7}{row.mean_tokens:>8.0f}   {compat:>12}{strict:>14}{published:>14}{mark}"
    if validation.misplaced:
        yield f"{validation.misplaced} references do not hold the text at their offsets; they count at their offsets."
    if not validation.comparable:
        yield f"Published: {SOURCE}. This folder is not that data, so the columns are shown side by side and not compared."


def _corpora(folder: Path) -> dict[str, str]:
    paths = sorted((folder / "corpora").glob("*.md"))
    if not paths:
        raise NotFound(f"{folder} holds no corpora/*.md. Give a folder with corpora/*.md and questions_df.csv.")
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def _questions(path: Path, corpora: dict[str, str]) -> tuple[list[_Question], int]:
    if not path.is_file():
        raise NotFound(
            f"{path.name} is missing in {path.parent}. Give a folder with corpora/*.md and questions_df.csv."
        )
    questions, misplaced = [], 0
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=1):
            corpus, references = row.get("corpus_id") or "", _references(row, path.name, number)
            if corpus not in corpora:
                raise BadQuestionSet(f"{path.name}, row {number}, field `corpus_id`: there is no corpora/{corpus}.md.")
            text = corpora[corpus]
            spans = [Span(int(item["start_index"]), int(item["end_index"])) for item in references]
            misplaced += sum(span.slice(text) != item["content"] for span, item in zip(spans, references, strict=True))
            questions.append(_Question(corpus, Target(tuple(((corpus, span),) for span in spans))))
    if not questions:
        raise BadQuestionSet(f"{path.name} holds no questions.")
    return questions, misplaced


def _references(row: dict[str, Any], name: str, number: int) -> list[dict[str, Any]]:
    try:
        references = json.loads(row.get("references") or "")
        fits = bool(references) and all(
            isinstance(item["content"], str) and int(item["start_index"]) < int(item["end_index"])
            for item in references
        )
    except (ValueError, TypeError, KeyError):
        fits = False
    if not fits:
        raise BadQuestionSet(
            f"{name}, row {number}, field `references`: expected a JSON list of {{content, start_index, end_index}}."
        )
    return list(references)


def _row(
    published: Published, corpora: dict[str, str], maps: dict[str, TokenMap], questions: Sequence[_Question]
) -> Row:
    strict, compat, sizes = [], [], []
    for name, text in corpora.items():
        split = recursive_spans if published.splitter == "recursive" else fixed_spans
        true = list(split(maps[name], published.size, published.overlap))
        sizes += [tokens.count(span.slice(text)) for span in true]
        strict += [Unit(name, span, 0) for span in true]
        compat += [Unit(name, span, 0) for span in _first_places(text, true)]
    means, deviations = [], []
    for units, touching in ((compat, True), (strict, False)):
        pool = UnitPool(units)
        values = np.array([100 * precision_omega(pool, question.target, touching) for question in questions])
        means.append(float(values.mean()))
        deviations.append(float(values.std()))
    return Row(
        label=published.label,
        chunks=len(sizes),
        mean_tokens=float(np.mean(sizes)),
        mean=means[0],
        deviation=deviations[0],
        strict_mean=means[1],
        strict_deviation=deviations[1],
        published_mean=published.mean,
        published_deviation=published.deviation,
    )


def fixed_spans(text: TokenMap, size: int, overlap: int) -> Iterator[Span]:
    """Windows of `size` tokens of the whole text, each beginning `size - overlap` after the one before; the last ends with the text."""
    starts = np.concatenate(([0], text.ends))
    for first in range(0, text.n_tokens, size - overlap):
        last = min(first + size, text.n_tokens)
        yield Span(int(starts[first]), int(starts[last]))
        if last == text.n_tokens:
            return


def recursive_spans(text: TokenMap, size: int, overlap: int) -> Iterator[Span]:
    """The report's recursive rule: cut before separators, merge neighbours while their token counts sum to at most `size`, strip white space.

    A piece of `size` tokens or more is cut with the next separator. After a chunk, pieces are dropped from its beginning until at
    most `overlap` tokens are left and the next piece fits; what is left begins the next chunk.
    """
    for span in _cascade(text, Span(0, len(text.text)), SEPARATORS, size, overlap):
        stripped = _stripped(text.text, span)
        if stripped.length:
            yield stripped


def _cascade(text: TokenMap, whole: Span, separators: Sequence[str], size: int, overlap: int) -> Iterator[Span]:
    level = next(
        (i for i, s in enumerate(separators) if s == "" or text.text.find(s, *whole) >= 0), len(separators) - 1
    )
    remaining = separators[level + 1 :]
    fitting: list[tuple[Span, int]] = []
    for piece in _pieces(text.text, whole, separators[level]):
        count = text.count(*piece)
        if count < size:
            fitting.append((piece, count))
            continue
        yield from _merged(fitting, size, overlap)
        fitting = []
        if remaining:
            yield from _cascade(text, piece, remaining, size, overlap)
        else:
            yield piece
    yield from _merged(fitting, size, overlap)


def _pieces(text: str, whole: Span, separator: str) -> Iterator[Span]:
    """The parts between the beginnings of the separator; each separator begins the part after it."""
    if separator:
        cuts = [match.start() for match in re.compile(re.escape(separator)).finditer(text, *whole)]
    else:
        cuts = list(range(whole.start, whole.end))
    for start, end in pairwise([whole.start, *cuts, whole.end]):
        if start < end:
            yield Span(start, end)


def _merged(pieces: Iterable[tuple[Span, int]], size: int, overlap: int) -> Iterator[Span]:
    window: deque[tuple[Span, int]] = deque()
    total = 0
    for piece, count in pieces:
        if total + count > size and window:
            yield Span(window[0][0].start, window[-1][0].end)
            while total > overlap or (total + count > size and total > 0):
                total -= window.popleft()[1]
        window.append((piece, count))
        total += count
    if window:
        yield Span(window[0][0].start, window[-1][0].end)


def _stripped(text: str, span: Span) -> Span:
    part = span.slice(text)
    start = span.start + len(part) - len(part.lstrip())
    return Span(start, start + len(part.strip()))


def _first_places(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Where the report's search finds the chunks: the first place of their text, without its closing full stop."""
    for span in spans:
        wanted = span.slice(text).removesuffix(".")
        start = text.find(wanted)
        yield Span(start, start + len(wanted))
