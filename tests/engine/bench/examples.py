"""Small experiments with chosen scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine import ids
from engine.bench.conclude import conclude
from engine.bench.summary import summarise
from engine.models import Span, StrategySpec
from engine.records import Evidence, EvidencePlace, Experiment, Gold, Question, QuestionResult, SpecResult
from tests.engine.store import examples as stored

METRIC = "recall@1000tok"


def question(number: int) -> Question:
    gold = Gold(document_id="law", span=Span(10 * number, 10 * number + 5), text_hash="", unit=f"Article {number}")
    return Question(
        question_id=f"q{number}",
        question=f"Question {number}?",
        evidence=(Evidence(quote=f"quote {number}", gold=(gold,), method="exact", score=1.0),),
    )


def experiment(
    experiment_id: str,
    scores: Mapping[StrategySpec | str, Sequence[float | None]],
    places: Mapping[int, EvidencePlace] | None = None,
    metric: str = METRIC,
) -> Experiment:
    """One strategy per entry (a spec, or the name of one) and one question per score; None: the question failed."""
    specs = tuple(stored.spec(key) if isinstance(key, str) else key for key in scores)
    questions = tuple(question(number) for number in range(max(len(each) for each in scores.values())))
    cells = tuple(
        QuestionResult(
            question_id=questions[number].question_id,
            spec_id=spec.spec_id,
            status="failed" if score is None else "scored",
            metrics={} if score is None else {metric: score},
            evidence=(places[number],) if places and number in places else (),
        )
        for spec, own in zip(specs, scores.values(), strict=True)
        for number, score in enumerate(own)
    )
    header = stored.experiment(experiment_id, specs=specs).model_copy(
        update={"questions": questions, "cells": cells, "status": "finished"}
    )
    results = tuple(
        SpecResult(spec=spec, chunk_count=3, metrics=summarise([c for c in cells if c.spec_id == spec.spec_id]))
        for spec in specs
    )
    whole = header.model_copy(update={"results": results})
    return whole.model_copy(update={"statistics": conclude(whole)})


def place(*chunks: int, whole: bool = True) -> EvidencePlace:
    return EvidencePlace(document_id="law", chunks=chunks, whole=whole)


def spec_id(name: str) -> str:
    return ids.spec_id(name, {"size": 1})
