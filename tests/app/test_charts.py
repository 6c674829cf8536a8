"""What the charts of the pages draw, as tables."""

from __future__ import annotations

from app import charts
from engine.models import ChunkSet
from engine.strategies import registry
from tests.engine.metrics.examples import chunk_set


def sized(name: str, params: dict[str, int], *sizes: int) -> ChunkSet:
    """Chunks of these token counts under a spec."""
    made = chunk_set("x" * len(sizes), *((at, at + 1) for at in range(len(sizes))))
    chunks = tuple(
        chunk.model_copy(update={"token_count": size}) for chunk, size in zip(made.chunks, sizes, strict=True)
    )
    return made.model_copy(update={"chunks": chunks, "spec": registry.spec(name, params)})


def test_no_bin_stands_on_both_sides_of_the_limit_and_every_chunk_is_in_one() -> None:
    one = sized("recursive", {"size": 512, "overlap": 0}, 512, 511, 1, 0, 300)
    other = sized("sentence", {"sentences": 1, "overlap": 0}, 20, 700)
    frame = charts.token_bins([one, other])
    own = frame[frame["spec"] == one.spec.label]
    assert 512 in set(own["to"])
    assert own["chunks"].sum() == 5
    assert own.loc[own["to"] == 512, "chunks"].item() == 2
    assert own["share"].sum() == 1.0
    assert frame[frame["spec"] == other.spec.label]["chunks"].sum() == 2


def test_the_last_bin_ends_at_the_limit_where_chunks_nearly_reach_it() -> None:
    for largest in (512, 506):
        frame = charts.token_bins([sized("fixed_size", {"size": 512, "overlap": 50}, largest, largest, 100)])
        assert frame["to"].max() == 512


def test_limits_without_a_common_width_still_count_every_chunk() -> None:
    frame = charts.token_bins([sized("recursive", {"size": size, "overlap": 0}, size, 3) for size in (509, 503)])
    assert frame["chunks"].sum() == 4
