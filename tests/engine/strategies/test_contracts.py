"""The promises of DESIGN.md section 4, for every strategy, its parameters and the inputs that break chunkers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from annotated_types import Ge
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import tokens
from engine.errors import BadParameter, NeedsModel
from engine.models import Chunk, ChunkSet, Document, Node, NodeKind, Span
from engine.providers.base import ChatReply, ChatRequest, Models
from engine.strategies.base import Cut, Need, Params, Piece, Strategy
from engine.strategies.registry import STRATEGIES
from engine.strategies.source import Source
from tests.engine.strategies.contracts import LIMITS, broken, limit_of
from tests.engine.strategies.doubles import KeywordEmbedder, ScriptedChat, WordTokenEmbedder, document

SIZES = (1, 5, 24, 512)

FAMILY = "👨‍👩‍👧‍👦"
SENTENCE = "Under Art. 5 the fee is due when the form is filed. "
INPUTS = {
    "one word": "fee",
    "one character": "龘",
    "repeated text": SENTENCE * 30,
    "repeated words": "abcd abcd " * 40,
    "CRLF": "First line.\r\nSecond line.\r\n\r\nNew paragraph.\r\n" * 5,
    "old Mac line ends": "First line.\rSecond line.\r\rNew paragraph.\r",
    "NUL": "a\x00b\x00\x00 c\n\n\x00d " * 10,
    "NBSP": "§\u00a05\u00a0Abs.\u00a02 gilt. \u00a0\u00a0Danach\u2003nicht.\u202f" * 8,
    "ZWJ emoji": f"{FAMILY}{FAMILY} 👩🏽‍🚀 done. " * 12,
    "emoji without spaces": FAMILY * 40,
    "flags": "🇩🇪🇫🇷🇪🇺" * 20,
    "combining marks": "e\u0301\u0323a\u0308o\u0302\u0301 Z\u0351\u036b\u0343 " * 15,
    "right to left": "هذا نص باللغة العربية. هل هو صحيح؟ نعم. " * 10 + "זה טקסט בעברית. " * 5,
    "Hindi": "यह कानून सभी पर लागू होता है। शुल्क वापस नहीं होगा। " * 8,
    "Chinese": "本法适用于所有人。费用不予退还，另有规定的除外。" * 20,
    "rare characters": "龘靐齉爩鱻麤𠀀𠀁𪚥" * 12,
    "special tokens": "before <|endoftext|> after <|fim_prefix|><|endofprompt|> end. " * 8,
    "lone surrogate": "before \ud83d after. And \udc00 more.",
    "leading and trailing white space": "\n\n  \t A line.\n\n\n   \n",
    "no white space": "Theactappliestoall,thefeeisdue;" * 40,
    "one letter": "a" * 1500,
    "punctuation": "!?.,;:-_#*|" * 60,
    "unbalanced quotation mark": "“" + SENTENCE * 20,
    "long word in the middle": "The key is " + "x9" * 700 + " and no more.",
    "headings": "# Title\n\n## Part\n\n### Sub\n\nBody one.\n\n##### Skipped\n\n# Next\nBody two.\nSetext\n===\nBody three.\n",
    "headings only": "# A\n\n## B\n\n# C\n",
    "fences": "Text.\n\n```py\n# not a heading\n\ndef f():\n    return 1\n```\n\n~~~~\n```\n~~~\n# no\n~~~~\n\nEnd.\n"
    * 3,
    "unclosed fence": "Before.\n\n```\n# inside\n\nstill inside\n",
    "table": "Rates:\n\n| item | fee |\n|:-----|----:|\n" + "| form A | 12.50 |\n" * 40 + "\nAfter.\n",
    "front matter": "---\ntitle: x\n---\n# One\n\nBody.\n",
    "only markup": "# \n\n---\n\n> \n\n- \n",
    "code": "import os\n\n\n# leading comment\n@decorator\ndef f(x):\n    if x:\n        return 1\n    return 2\n\n\nclass A:\n    def g(self):\n        pass\n",
}
LONG_SENTENCE = "The " + "fee of the form is due and " * 714 + "so."


def answer(request: ChatRequest) -> ChatReply:
    """A reply of the right shape to any request."""
    if request.schema is None:
        return ChatReply("ok", text="This is about the fee.")
    return ChatReply("ok", text="{}", data=_instance(request.schema))


def _instance(schema: Any) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return {name: _instance(part) for name, part in schema["properties"].items()}
    if kind == "array":
        return [_instance(schema["items"])]
    return {"string": "The fee is due.", "integer": 1, "number": 1.0, "boolean": True}[kind]


MODELS = Models(
    embedder=KeywordEmbedder("fee", "form", "line"),
    chat=ScriptedChat(answer),
    token_embedder=WordTokenEmbedder("fee", "form", context_tokens=64),
)


@cache
def variations(strategy: Strategy[Any]) -> tuple[Params, ...]:
    """Every limit of SIZES with and without overlap, times every choice among named values."""
    fields = strategy.params_type.model_fields
    choices: list[list[tuple[str, Any]]] = [
        [(name, value) for value in get_args(field.annotation)]
        for name, field in fields.items()
        if get_origin(field.annotation) is Literal
    ]
    limit = next((name for name in LIMITS if name in fields), None)
    sized: list[dict[str, Any]] = [{}]
    if limit is not None:
        least = next((mark.ge for mark in fields[limit].metadata if isinstance(mark, Ge)), 1)
        sizes = sorted({max(size, int(str(least))) for size in SIZES})
        sized = [{limit: size} for size in sizes]
        if "piece_tokens" in fields:
            sized = [{limit: size, "piece_tokens": min(50, size)} for size in sizes]
        if limit == "size" and "overlap" in fields and "sentences" not in fields:
            sized = [{"size": size, "overlap": overlap} for size in sizes for overlap in sorted({0, size // 4})]
    if "sentences" in fields:
        sized = [{**size, **count} for size in sized for count in ({"sentences": 1, "overlap": 0}, {"sentences": 3})]
    return tuple(strategy.parse({**size, **dict(chosen)}) for size in sized for chosen in product(*choices))


def chunked(strategy: Strategy[Any], params: Params, text: str) -> ChunkSet:
    return strategy.chunk(Source(document(text)), params, MODELS)


def problems(strategy: Strategy[Any], params: Params, text: str) -> list[str]:
    values = params.model_dump()
    return broken(chunked(strategy, params, text), text, limit_of(values), values.get("unit", "tokens"))


each_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)


@each_strategy
@pytest.mark.parametrize("name", INPUTS)
def test_awkward_inputs(strategy: Strategy[Any], name: str) -> None:
    for params in variations(strategy):
        assert problems(strategy, params, INPUTS[name]) == [], params


FRAGMENTS = st.sampled_from(
    [
        "word ", "A sentence here. ", "Art. 5 ", "\n", "\n\n", "\r\n", "\r", " ", "   ", "\t", "\x00", "\u00a0", "\u200d",
        "\u0301", "é", "漢字", "。", "😀", FAMILY, "ا", "नि", "1", "123", "'s", "don't", "!?", "#", "\n# H\n", "\n## ", "\n===\n",
        "\n---\n", "```", "\n~~~\n", "|", "\n| a | b |\n|---|---|\n| 1 | 2 |\n", "- ", "\n1. ", "<div>", "<|endoftext|>", "x" * 30,
        "\u2028", "\x85", "\x1c", "“", "”", "½", "ª",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(FRAGMENTS, max_size=60).map("".join), st.text(max_size=120))


@each_strategy
@settings(deadline=None, derandomize=True, max_examples=80)
@given(data=st.data())
def test_random_texts(strategy: Strategy[Any], data: st.DataObject) -> None:
    text = data.draw(TEXTS)
    params = data.draw(st.sampled_from(variations(strategy)))
    assert problems(strategy, params, text) == []


@each_strategy
def test_one_sentence_of_5000_words(strategy: Strategy[Any]) -> None:
    assert len(LONG_SENTENCE.split()) == 5000
    by_limit = {limit_of(params.model_dump()): params for params in variations(strategy)}
    for params in by_limit.values():
        assert problems(strategy, params, LONG_SENTENCE) == [], params


SPEECH = Path(__file__).parents[3].parent / "shared" / "data" / "chroma_sotu" / "state_of_the_union.md"


@each_strategy
def test_a_real_document(strategy: Strategy[Any]) -> None:
    if not SPEECH.exists():
        pytest.skip("../shared/data/chroma_sotu is not there")
    assert problems(strategy, strategy.parse({}), SPEECH.read_text(encoding="utf-8")) == []


@each_strategy
def test_empty_gives_nothing_and_blank_gives_one_flagged_chunk(strategy: Strategy[Any]) -> None:
    for params in variations(strategy):
        assert chunked(strategy, params, "").chunks == ()
        for blank in (" ", "\n\n", "\t\u00a0\u3000\r\n" * 20):
            [chunk] = chunked(strategy, params, blank).chunks
            assert chunk.text == blank
            assert chunk.flags == ("blank",)


@each_strategy
def test_the_same_input_gives_the_same_chunks(strategy: Strategy[Any]) -> None:
    for name in ("headings", "table", "ZWJ emoji"):
        for params in variations(strategy)[:4]:
            first, second = (chunked(strategy, params, INPUTS[name]) for _ in range(2))
            assert first.chunks == second.chunks


@each_strategy
def test_both_encoders_give_the_same_chunks(strategy: Strategy[Any]) -> None:
    params = strategy.parse({})
    made = []
    for name in ("tiktoken", "bpe-openai"):
        tokens.use(name)
        try:
            made.append([chunked(strategy, params, INPUTS[text]).chunks for text in ("Chinese", "table", "flags")])
        finally:
            tokens.use(None)
    assert made[0] == made[1]


@each_strategy
@pytest.mark.parametrize(
    "values",
    [{"size": 0}, {"size": -1}, {"overlap": -1}, {"size": 10, "overlap": 10}, {"size": 10, "overlap": 11}, {"size": 10, "overlap": 3}, {"size": "x"}],
    ids=str,
)  # fmt: skip
def test_bad_parameters_are_refused(strategy: Strategy[Any], values: dict[str, Any]) -> None:
    named = next(iter(values)) if len(values) == 1 else "overlap"
    if not set(values) <= set(strategy.params_type.model_fields):
        with pytest.raises(BadParameter, match="not permitted"):
            strategy.parse(values)
    elif "sentences" in strategy.params_type.model_fields and values.get("overlap", -1) == 3:
        # Overlap counts sentences there, so it is not measured against the size.
        assert strategy.parse(values)
    else:
        with pytest.raises(BadParameter, match=named):
            strategy.parse(values)


@each_strategy
def test_a_missing_model_is_told_before_any_work(strategy: Strategy[Any]) -> None:
    params = strategy.parse({})
    nothing = Models()
    if strategy.needs & {Need.EMBEDDER, Need.CHAT, Need.TOKEN_EMBEDDER}:
        with pytest.raises(NeedsModel, match=strategy.name):
            strategy.chunk(Source(document("text")), params, nothing)
    else:
        assert strategy.chunk(Source(document("text")), params, nothing).chunks


@each_strategy
def test_chunks_are_whole_records(strategy: Strategy[Any]) -> None:
    # They are built without validation; validating them must change nothing.
    for chunk in chunked(strategy, strategy.parse({}), INPUTS["headings"]).chunks:
        assert Chunk.model_validate(chunk.model_dump()) == chunk
        assert Chunk.model_validate_json(chunk.model_dump_json()) == chunk
        assert chunk.model_copy(update={"summary": "x"}).summary == "x"
        assert chunk.summary is None


class _CountingEncoder:
    """An encoder that counts the characters it is given."""

    name: tokens.EncoderName = "tiktoken"

    def __init__(self) -> None:
        self._encoder = tokens.encoder()
        self.characters = 0

    def encode(self, text: str) -> Any:
        self.characters += len(text)
        return self._encoder.encode(text)

    def count(self, text: str) -> int:
        self.characters += len(text)
        return self._encoder.count(text)


@each_strategy
@pytest.mark.parametrize(
    "text", [SENTENCE, FAMILY, "a", "本法适用于所有人。", "x,"], ids=["prose", "emoji", "letter", "CJK", "dense"]
)
def test_encoding_grows_with_the_text(strategy: Strategy[Any], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = strategy.parse({})
    encoded = []
    for length in (8_000, 32_000):
        counting = _CountingEncoder()
        monkeypatch.setattr(tokens, "encoder", lambda counting=counting: counting)
        chunked(strategy, params, (text * length)[:length])
        monkeypatch.undo()
        encoded.append(counting.characters)
    assert encoded[1] <= 5 * encoded[0] + 20_000


def regulation() -> Document:
    """Two articles under a section, with a preamble in front."""
    text = "Preamble text.\n\n# Part I\n\n## Article 1\n\nThe fee is due.\n\nIt is not refundable.\n\n## Article 2\n\nThe form is filed.\n"
    first, second, part = text.index("## Article 1"), text.index("## Article 2"), text.index("# Part")
    articles = tuple(
        Node(
            kind=NodeKind.ARTICLE,
            span=Span(start, end),
            level=2,
            label=label,
            heading=Span(start, start + 12),
        )
        for start, end, label in ((first, second, "Article 1"), (second, len(text), "Article 2"))
    )
    section = Node(
        kind=NodeKind.SECTION,
        span=Span(part, len(text)),
        level=1,
        title="Part I",
        heading=Span(part, part + 8),
        children=articles,
    )
    return document(text, Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text)), children=(section,)))


@each_strategy
def test_a_document_with_a_tree(strategy: Strategy[Any]) -> None:
    regulated = regulation()
    for params in variations(strategy):
        values = params.model_dump()
        chunk_set = strategy.chunk(Source(regulated), params, MODELS)
        assert broken(chunk_set, regulated.text, limit_of(values), values.get("unit", "tokens")) == []


# The checker itself is worth only what it catches: each fault below breaks one promise.


class _Halves(Strategy[Params]):
    """Cuts in the middle, then damages its pieces."""

    name = "halves"
    title = rule = best_for = avoid_when = cost = ""
    params_type = Params

    def __init__(self, damage: Callable[[list[Piece], str], list[Piece]]) -> None:
        self.damage = damage

    def _cut(self, source: Source, params: Params, models: Models) -> Cut:
        length = len(source.text)
        pieces = [Piece(0, length // 2), Piece(length // 2, length)]
        return Cut(self.damage(pieces, source.text))


TEXT = "The fee is due at once. The form is filed later."


def _found(damage: Callable[[list[Piece], str], list[Piece]], limit: int | None = None) -> str:
    return "; ".join(broken(_Halves(damage).chunk(Source(document(TEXT)), Params(), Models()), TEXT, limit))


def test_a_sound_strategy_breaks_nothing() -> None:
    assert _found(lambda pieces, text: pieces, limit=8) == ""


@pytest.mark.parametrize("which", [0, 1])
def test_a_dropped_character_is_caught(which: int) -> None:
    def drop(pieces: list[Piece], text: str) -> list[Piece]:
        cut = pieces[which]
        pieces[which] = Piece(cut.start, cut.end - 2)
        return pieces

    assert "characters in no chunk" in _found(drop)


def test_pieces_out_of_order_are_caught() -> None:
    assert "not strictly ordered" in _found(lambda pieces, text: pieces[::-1])


def test_a_piece_made_twice_is_caught() -> None:
    assert "not strictly ordered" in _found(lambda pieces, text: [pieces[0], *pieces])


def test_a_wrong_token_count_is_caught() -> None:
    assert "counted" in _found(lambda pieces, text: [Piece(0, len(text), token_count=3)])


def test_a_limit_off_by_one_is_caught() -> None:
    count = len(tokens.encoding().encode_ordinary(TEXT))
    assert _found(lambda pieces, text: [Piece(0, len(text))], limit=count) == ""
    assert f"the limit is {count - 1}" in _found(lambda pieces, text: [Piece(0, len(text))], limit=count - 1)


def test_a_flag_that_excuses_too_much_is_caught() -> None:
    assert "the limit is 3" in _found(lambda pieces, text: [Piece(0, len(text), flags=("over_limit",))], limit=3)


def test_a_flag_without_reason_is_caught() -> None:
    assert "and is not" in _found(lambda pieces, text: [Piece(0, len(text), flags=("over_limit",))], limit=100)


def test_a_parent_beside_its_child_is_caught() -> None:
    assert "the parent does not hold it" in _found(
        lambda pieces, text: [Piece(0, len(text), parent=Span(1, len(text)))]
    )


def _sound() -> ChunkSet:
    return _Halves(lambda pieces, text: pieces).chunk(Source(document(TEXT)), Params(), Models())


def _damaged(**changes: Any) -> Iterator[str]:
    sound = _sound()
    last = sound.chunks[-1].model_copy(update=changes)
    yield from broken(sound.model_copy(update={"chunks": (*sound.chunks[:-1], last)}), TEXT)


def test_a_shifted_span_is_caught() -> None:
    span = _sound().chunks[-1].span
    assert span is not None
    assert any("what stands at its span" in problem for problem in _damaged(span=Span(span.start - 1, span.end - 1)))
    assert any("not inside" in problem for problem in _damaged(span=Span(span.start + 1, span.end + 1)))


def test_a_cut_character_is_caught() -> None:
    assert any("U+FFFD" in problem for problem in _damaged(text="form is filed later\ufffd"))


def test_a_blank_chunk_is_caught() -> None:
    assert any("blank in a text that is not" in problem for problem in _damaged(text="  "))


def test_wrong_numbering_is_caught() -> None:
    assert any("from 0" in problem for problem in _damaged(chunk_index=7))
    assert any("total" in problem for problem in _damaged(total_chunks=7))
    assert any("one id" in problem for problem in _damaged(chunk_id=_sound().chunks[0].chunk_id))


def test_wrong_counts_and_hashes_are_caught() -> None:
    assert any("characters or words" in problem for problem in _damaged(word_count=99))
    assert any("characters or words" in problem for problem in _damaged(character_count=99))
    assert any("hash" in problem for problem in _damaged(content_hash="0"))


def test_untold_gaps_are_caught() -> None:
    sound = _sound()
    assert "what is not covered is not told" in broken(sound.model_copy(update={"uncovered": (Span(0, 3),)}), TEXT)


def test_chunks_of_nothing_are_caught() -> None:
    assert broken(_sound(), "") == ["an empty text has chunks"]
    assert broken(_sound(), "   ") == ["a blank text is not one chunk flagged blank"]
