"""How often our verdicts are wrong, and how fast they are: `python -m benchmarks.statistics [DATA]`.

A/A: one strategy under two names must rarely get a winner. Power: a planted difference of 8 points must usually be found.
Scores are real: recall within 500 tokens by BM25 on the State of the Union questions, resampled with a seed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engine import ids, stats, tokens
from engine.lexical import Bm25
from engine.metrics.retrieval import recall
from engine.metrics.targets import Target
from engine.metrics.walk import Cuts, Unit, walk
from engine.models import Span
from engine.tokens import TokenMap
from engine.validate import fixed_spans, recursive_spans
from engine.verdict import decide

RUNS = 1000
BUDGET = 500
METRIC = f"recall@{BUDGET}tok"
DATA = Path("../shared/data/chroma_sotu")


def recalls(text: str, questions: list[tuple[str, Target]], chunks: list[Span]) -> np.ndarray:
    """Recall of every question within the budget of the best chunks by BM25."""
    index = Bm25([span.slice(text) for span in chunks])
    sizes = [tokens.count(span.slice(text)) for span in chunks]
    values = []
    for question, target in questions:
        found = [Unit("d", chunks[hit.position], sizes[hit.position]) for hit in index.search(question, len(chunks))]
        values.append(recall(walk(found, target, Cuts(budgets=(BUDGET,))).at_tokens[BUDGET]))
    return np.array(values)


def measured(data: Path) -> np.ndarray:
    """Scores of recursive 200/0 and fixed 400/0: shape `(2, n_questions)`."""
    text = (data / "state_of_the_union.md").read_text(encoding="utf-8")
    rows = json.loads((data / "questions.json").read_text(encoding="utf-8"))
    questions = [
        (row["question"], Target(tuple((("d", Span(e["start"], e["end"])),) for e in row["evidence"]))) for row in rows
    ]
    text_map = TokenMap(text)
    cuts = [list(recursive_spans(text_map, 200, 0)), list(fixed_spans(text_map, 400, 0))]
    return np.array([recalls(text, questions, chunks) for chunks in cuts])


def same_quality(scores: np.ndarray, n: int, names: int, rng: np.random.Generator) -> np.ndarray:
    """`names` strategies of exactly the same quality: each question's two real scores are dealt out by coin, again for every name."""
    drawn = scores[:, rng.integers(0, scores.shape[1], n)]
    return np.array([np.where(rng.random(n) < 0.5, drawn[0], drawn[1]) for _ in range(names)])


def unrelated(scores: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """The hardest A/A: one strategy's real scores drawn for each name on its own, as if nothing connected the two."""
    return np.array([scores[0, rng.integers(0, scores.shape[1], n)] for _ in range(2)])


def planted(scores: np.ndarray, n: int, gap: float, rng: np.random.Generator) -> np.ndarray:
    """Two strategies of the same quality, of which the second then loses whole questions until it is `gap` worse on average."""
    pair = same_quality(scores, n, 2, rng)
    pair[1, rng.random(n) < gap / scores.mean()] = 0.0
    return pair


def winners(samples: Iterator[np.ndarray]) -> tuple[float, float]:
    """Share of runs with a winner, and the mean standard deviation of the paired differences."""
    named, spread = [], []
    for run, values in enumerate(samples):
        verdict = decide(values, [f"strategy {i}" for i in range(len(values))], METRIC, seed=run)
        named.append(verdict.kind == "winner")
        spread.append((values[0] - values[1]).std(ddof=1))
    return float(np.mean(named)), float(np.mean(spread))


def main() -> None:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    scores = measured(data)
    print(
        f"recall within 500 tokens, BM25, {scores.shape[1]} questions: recursive 200/0 {scores[0].mean():.3f}, fixed 400/0 {scores[1].mean():.3f}"
    )
    rng = np.random.default_rng(1)
    drawn = (scores[0, rng.integers(0, scores.shape[1], 60)] for _ in range(RUNS))
    share, _ = winners(np.array([row, row]) for row in drawn)
    print(f"A/A, identical scores, 60 questions, {RUNS} resamplings: winner in {share:.1%}")
    for names in (2, 5):
        rng = np.random.default_rng(2)
        share, spread = winners(same_quality(scores, 60, names, rng) for _ in range(RUNS))
        print(
            f"A/A, same quality under {names} names, 60 questions, {RUNS} resamplings: winner in {share:.1%} (deviation of differences {spread:.2f})"
        )
    rng = np.random.default_rng(5)
    share, spread = winners(unrelated(scores, 60, rng) for _ in range(RUNS))
    print(
        f"A/A, unrelated draws, 60 questions, {RUNS} resamplings: winner in {share:.1%} (deviation of differences {spread:.2f})"
    )
    for n in (60, 200):
        rng = np.random.default_rng(3)
        share, spread = winners(planted(scores, n, 0.08, rng) for _ in range(RUNS))
        print(
            f"planted 8 points, {n} questions, {RUNS} resamplings: found in {share:.1%} (deviation of differences {spread:.2f})"
        )
    values = np.random.default_rng(4).random((14, 500, 20)).round(1)
    began, cpu = time.perf_counter(), time.process_time()
    stats.versus_baseline(values, 0, [ids.digest(str(i // 4)) for i in range(500)])
    stats.versus_baseline(values, 0)
    print(
        f"14 strategies x 500 questions x 20 metrics, with and without clusters: {time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of processor"
    )


if __name__ == "__main__":
    main()
