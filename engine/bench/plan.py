"""From a plan to a stored experiment: inputs checked, frozen and written down before anything runs."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from engine import ids
from engine.errors import BadRequest
from engine.judge.trust import self_preference_warning
from engine.models import DocumentInfo
from engine.prompts import prompt, prompt_names
from engine.providers.base import ChatModel, Models
from engine.records import DocumentRef, Experiment, Plan, QuestionSet
from engine.settings import BUNDLED, Settings

VERSION = "0.1.0"
"""Version of Chunkscope, as in pyproject.toml."""

_LIBRARIES = (
    "numpy",
    "tiktoken",
    "bpe-openai",
    "qdrant-edge-py",
    "qdrant-client",
    "wordllama",
    "openai",
    "SQLAlchemy",
    "pydantic",
    "streamlit",
)


def answer_with(plan: Plan, models: Models) -> ChatModel | None:
    """The model that writes the answers of a plan; None: they are extractive, or there are none."""
    return models.chat if plan.answers else None


def judged_by(plan: Plan, models: Models) -> ChatModel | None:
    """The model that judges the answers of a plan; None: there is no judge, or no answer that a model wrote."""
    return models.judge if plan.judge and models.chat is not None and (plan.answers or plan.closed_book) else None


def answer_seeds(plan: Plan, models: Models) -> tuple[int | None, ...]:
    """One seed per repeat; the first is None, so that a run without repeats shares its answers. Extractive answers never vary: one."""
    if answer_with(plan, models) is None:
        return (None,)
    return (None, *(plan.seed + repeat for repeat in range(1, plan.repeats)))


def check(plan: Plan, documents: Sequence[DocumentInfo], question_set: QuestionSet) -> None:
    """Raises BadRequest in words for a plan that cannot give a result."""
    if not plan.specs:
        raise BadRequest("A benchmark needs at least one strategy. Choose one and start it again.")
    if not documents:
        raise BadRequest(
            "A benchmark needs at least one document. Upload one, or load the samples, and start it again."
        )
    if not question_set.questions:
        raise BadRequest(f"The question set {question_set.name} has no questions. Add some and start it again.")
    twice = {spec.label for spec in plan.specs if sum(other.spec_id == spec.spec_id for other in plan.specs) > 1}
    if twice:
        raise BadRequest(f"{', '.join(sorted(twice))} is in the plan twice. Remove one and start it again.")
    if plan.baseline is not None and plan.baseline not in {spec.spec_id for spec in plan.specs}:
        raise BadRequest("The baseline is not one of the strategies of the plan. Choose one of them.")
    if plan.repeats < 1 or plan.top_k < 1:
        raise BadRequest("Repeats and top k are at least 1. Change them and start it again.")
    if plan.budget_usd is not None and plan.budget_usd < 0:
        raise BadRequest("A budget is 0 dollars or more. Change it and start it again.")


def check_budget(plan: Plan, estimated_cost_usd: float | None) -> None:
    """Raises BadRequest for a budget that cannot be kept because a price is unknown."""
    if plan.budget_usd is not None and estimated_cost_usd is None:
        raise BadRequest(
            "The benchmark has a budget, and the price of a model it would call is unknown. Nothing was started. "
            "Name the price in PRICES_FILE, or start it without a budget."
        )


def is_local(models: Models) -> bool:
    """Whether embeddings cost nothing because they are computed on this machine."""
    return models.embedder is None or models.embedder.model == BUNDLED or models.embedder.model.startswith("local:")


def changed(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """A plan with some fields set otherwise. Raises BadRequest for a field or value that a plan does not have."""
    try:
        return Plan.model_validate({**plan.model_dump(), **changes})
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise BadRequest(f"The plan cannot be changed: {place}: {problem['msg']}. Nothing was started.") from None


def freeze(
    plan: Plan,
    documents: Sequence[DocumentInfo],
    question_set: QuestionSet,
    models: Models,
    settings: Settings,
    request_id: str,
    estimated_cost_usd: float | None = None,
) -> Experiment:
    """The experiment a plan becomes, with everything it depends on. Raises BadRequest."""
    check(plan, documents, question_set)
    return Experiment(
        experiment_id=ids.new_id(),
        plan=plan,
        created_at=datetime.now(UTC),
        documents=tuple(
            DocumentRef(
                document_id=document.document_id,
                name=document.name,
                sha256=document.sha256,
                parser_version=document.parser_version,
                token_count=document.token_count,
            )
            for document in documents
        ),
        question_set_name=question_set.name,
        questions=question_set.questions,
        embedding_model=models.embedder.model if models.embedder else "none",
        llm_model=models.chat.model if models.chat else None,
        judge_model=models.judge.model if models.judge and plan.judge else None,
        judge_warning=_judge_warning(plan, models),
        settings=settings.snapshot(),
        versions=versions(),
        prompts={name: prompt(name).version for name in prompt_names()},
        request_id=request_id,
        estimated_cost_usd=estimated_cost_usd,
    )


def _judge_warning(plan: Plan, models: Models) -> str | None:
    judge = judged_by(plan, models)
    if judge is None or models.chat is None:
        return None
    return self_preference_warning(models.chat.model, judge.model)


def versions() -> dict[str, str]:
    """Chunkscope, Python and the libraries that can change a result."""
    found = {"chunkscope": VERSION, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
