from __future__ import annotations

import pytest

from engine.errors import BadParameter
from engine.strategies import registry
from engine.strategies.base import MAX_OVERLAP_SHARE
from engine.strategies.presets import PRESETS, Preset, preset


def test_every_kind_of_document_has_one() -> None:
    assert [p.name for p in PRESETS] == ["faq", "technical", "legal", "academic", "chat", "code", "fiction"]


@pytest.mark.parametrize("chosen", PRESETS, ids=lambda p: p.name)
def test_overlap_is_at_most_a_quarter_and_the_reason_is_a_sentence(chosen: Preset) -> None:
    assert chosen.overlap <= MAX_OVERLAP_SHARE * chosen.size
    assert chosen.sentence_overlap <= MAX_OVERLAP_SHARE * chosen.sentences
    assert chosen.reason.endswith(".")


@pytest.mark.parametrize("chosen", PRESETS, ids=lambda p: p.name)
@pytest.mark.parametrize("name", registry.names())
def test_every_strategy_takes_every_preset(chosen: Preset, name: str) -> None:
    params = chosen.spec(name).params
    sizes = [params[field] for field in ("size", "max_tokens", "child_tokens", "paragraph_tokens") if field in params]
    assert sizes == [chosen.size]


def test_values_reach_the_parameters_by_their_own_names() -> None:
    legal = preset("legal")
    assert legal.params("recursive") == {"size": 512, "overlap": 64}
    assert legal.params("sentence") == {"size": 512, "sentences": 5, "overlap": 1}
    assert legal.params("semantic") == {"max_tokens": 512}
    assert legal.spec().strategy_name == "parent_child"


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(BadParameter, match=r"no preset 'poem'\. Choose one of: faq, technical"):
        preset("poem")
