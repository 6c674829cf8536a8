"""All strategies, in the order every page shows them. Adding one is a file beside this and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import BadParameter
from engine.models import ChunkSet, StrategySpec
from engine.providers.base import Models
from engine.strategies.base import Strategy
from engine.strategies.cluster_semantic import ClusterSemantic
from engine.strategies.code_aware import CodeAware
from engine.strategies.contextual_retrieval import ContextualRetrieval
from engine.strategies.contextual_structure import ContextualStructure
from engine.strategies.enrich import with_languages
from engine.strategies.fixed_size import FixedSize
from engine.strategies.late_chunking import LateChunking
from engine.strategies.markdown_structure import MarkdownStructure
from engine.strategies.paragraph import Paragraph
from engine.strategies.parent_child import ParentChild
from engine.strategies.propositions import Propositions
from engine.strategies.recursive import Recursive
from engine.strategies.semantic import Semantic
from engine.strategies.semantic_parent_child import SemanticParentChild
from engine.strategies.sentence import Sentence
from engine.strategies.source import Source

STRATEGIES: tuple[Strategy[Any], ...] = (
    FixedSize(),
    Recursive(),
    Sentence(),
    Paragraph(),
    Semantic(),
    ClusterSemantic(),
    MarkdownStructure(),
    ParentChild(),
    SemanticParentChild(),
    ContextualStructure(),
    ContextualRetrieval(),
    CodeAware(),
    Propositions(),
    LateChunking(),
)

_BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}


def names() -> tuple[str, ...]:
    return tuple(_BY_NAME)


def strategy(name: str) -> Strategy[Any]:
    """The strategy of that name. Raises BadParameter that lists the names there are."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise BadParameter(f"There is no strategy {name!r}. Choose one of: {', '.join(_BY_NAME)}.") from None


def spec(name: str, params: Mapping[str, Any] | None = None) -> StrategySpec:
    """A spec with validated parameters. Raises BadParameter."""
    return strategy(name).spec(params)


def cut(source: Source, spec: StrategySpec, models: Models) -> ChunkSet:
    """The chunks of one document under one spec. Raises BadParameter, NeedsModel, ModelCallFailed."""
    chosen = strategy(spec.strategy_name)
    return with_languages(chosen.chunk(source, chosen.parse(spec.params), models))
