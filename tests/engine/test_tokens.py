from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine import tokens
from engine.tokens import TokenMap

NAMES: tuple[tokens.EncoderName, ...] = ("tiktoken", "bpe-openai")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    tokens.use(request.param)
    yield request.param
    tokens.use(None)


def reference(text: str) -> int:
    return len(tokens.encoding().encode_ordinary(text))


def test_the_vocabulary_comes_out_of_an_installed_package() -> None:
    ranks = tokens._bundled_ranks()
    assert ranks is not None
    assert len(ranks) == 100_256
    assert ranks[b"!"] == 0


def test_known_token_ids() -> None:
    # The ids OpenAI documents for cl100k_base.
    assert tokens.encoding().encode_ordinary("hello world") == [15339, 1917]
    assert tokens.encoding().n_vocab == 100_277


def test_a_damaged_vocabulary_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "VOCABULARY_SHA256", "0" * 64)
    assert tokens._bundled_ranks() is None


def test_the_faster_encoder_is_the_default() -> None:
    assert tokens.encoder().name == "bpe-openai"
    tokens.use("tiktoken")
    try:
        assert tokens.encoder().name == "tiktoken"
    finally:
        tokens.use(None)
    assert tokens.encoder().name == "bpe-openai"


def test_tiktoken_stands_in_when_the_faster_encoder_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai._bindings", None)
    tokens._fastest.cache_clear()
    tokens._encoder.cache_clear()
    try:
        assert tokens.encoder().name == "tiktoken"
    finally:
        monkeypatch.undo()
        tokens._fastest.cache_clear()
        tokens._encoder.cache_clear()


def test_counting_loads_one_vocabulary_and_no_package() -> None:
    script = (
        "import sys\nfrom engine import tokens\n"
        "assert tokens.count('hello world') == 2 and tokens.TokenMap('hello world').count(0, 5) == 1\n"
        "assert tokens.encoder().name == 'bpe-openai' and 'bpe_openai' not in sys.modules\n"
        "assert tokens.TokenMap('the fee is due. ' * 20_000).n_tokens == 100_001 and 'pandas' not in sys.modules\n"
        "import bpe_openai\nassert bpe_openai.get_encoding('cl100k_base').encode('hello world') == [15339, 1917]"
    )
    subprocess.run([sys.executable, "-W", "error", "-W", "ignore:open_binary", "-c", script], check=True, timeout=120)


def test_special_tokens_are_ordinary_text(name: str) -> None:
    assert tokens.count("<|endoftext|>") == 7
    assert 100257 not in tokens.encoder().encode("a <|endoftext|> b").tolist()


def test_empty_text(name: str) -> None:
    assert tokens.count("") == 0
    empty = TokenMap("")
    assert empty.n_tokens == 0
    assert empty.share(0, 0) == empty.count(0, 0) == 0


def test_ends_are_where_tokens_end(name: str) -> None:
    # Tokens: "hello", " world".
    assert TokenMap("hello world").ends.tolist() == [5, 11]


def test_an_end_inside_a_character_is_rounded_up(name: str) -> None:
    assert reference("龘") == 2
    assert TokenMap("a龘b").ends.tolist() == [1, 2, 2, 3]


def test_a_lone_surrogate_counts_as_the_replacement_character(name: str) -> None:
    text = "a \ud83d b"
    assert tokens.count(text) == reference("a \ufffd b")
    token_map = TokenMap(text)
    assert token_map.ends[-1] == len(text)
    assert token_map.count(2, 3) == reference("\ufffd")


TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            ["word", " ", "  ", "\n", "\r\n", "\t", "'s", "'ll", "don't", "1", "1234", "é", "漢", "。", "😀", "\u200d", "\u0301",
             "\u00a0", "\u3000", "\u2028", "\x85", "\x1c", "\x00", "ª", "½", "²", "Ⅷ", "٣", "!", "...", "_", "#", "<|endoftext|>", "😀😀🏽", "🏳\ufe0f\u200d🌈", "👩\u200d🚀", "🇩🇪", "𝐀", "🄀"]
        ),
        max_size=40,
    ).map("".join),
)  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=400)
@given(text=TEXTS, data=st.data())
@example(text="a b\n\n  c", data=None)
def test_encoders_agree_and_spans_are_counted_exactly(text: str, data: st.DataObject | None) -> None:
    start = 0 if data is None else data.draw(st.integers(0, len(text)))
    end = len(text) if data is None else data.draw(st.integers(start, len(text)))
    ends = []
    for name in NAMES:
        tokens.use(name)
        try:
            token_map = TokenMap(text)
            ends.append(token_map.ends.tolist())
            assert tokens.count(text) == token_map.n_tokens == reference(text)
            assert token_map.count(start, end) == reference(text[start:end])
            assert token_map.share(0, len(text)) == token_map.n_tokens
        finally:
            tokens.use(None)
    assert ends[0] == ends[1]


def test_encoders_agree_on_every_kind_of_character() -> None:
    # Character classes are where two implementations of the pattern could part: the first two planes, and a tenth of the rest.
    codes = [*range(0xD800), *range(0xE000, 0x20000), *range(0x20000, 0x110000, 10)]
    whole = list(map(chr, codes))
    fast, exact = tokens._encoder("bpe-openai"), tokens._encoder("tiktoken")
    for first in range(0, len(whole), 50_000):
        text = "".join(f" {character}1 x{character}!\n" for character in whole[first : first + 50_000])
        assert np.array_equal(fast.encode(text), exact.encode(text))


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of any text are looked up, in segments short enough that a small text has several."""
    monkeypatch.setattr(tokens, "_WORDS_FROM", 0)
    monkeypatch.setattr(tokens, "_MOST_NEW", 2.0)
    monkeypatch.setattr(tokens, "_LONGEST_WORDS", 100)
    monkeypatch.setattr(tokens, "_MOST_WORDS", 6)
    monkeypatch.setattr(tokens, "_SEGMENT", 24)


@settings(
    deadline=None, derandomize=True, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=TEXTS.map(lambda text: text * 3))
@example(text=" a  b\n c\t d\u3000 e a  b\n c " * 4)
@example(text="one two one two \n\n one" * 5)
@example(text=" " * 60)
def test_words_met_before_have_the_tokens_of_the_whole_text(looked_up: None, text: str) -> None:
    clean = tokens._encodable(text)
    for name in NAMES:
        tokens.use(name)
        try:
            whole = tokens._character_ends(clean, tokens.encoder().encode(clean)) if text else np.zeros(0)
            assert TokenMap(text).ends.tolist() == whole.tolist()
        finally:
            tokens.use(None)


def test_each_word_of_a_long_text_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_WORDS_FROM", 0)
    monkeypatch.setattr(tokens, "_SEGMENT", 400)
    words = tokens._Words(ascii=True, repeat=True)
    encoded: list[str] = []
    encode = words._encode
    monkeypatch.setattr(words, "_encode", lambda text: (encoded.append(text), encode(text))[1])
    text = "the fee is due and the fee is paid " * 20
    for _ in range(3):
        assert words.ends(text).tolist() == tokens._character_ends(text, encode(text)).tolist()
    # Words that end in a letter follow each other; the first and the last word of a segment are not looked up.
    assert encoded == [" fee is due and the paid", *["the", " "] * 3]


def test_a_text_whose_words_do_not_repeat_is_encoded_as_it_is() -> None:
    words = tokens._Words(ascii=True, repeat=True)
    text = " ".join(f"w{number}" for number in range(500))
    assert words.ends(text).tolist() == tokens._character_ends(text, tokens.encoder().encode(text)).tolist()
    assert not words._repeat


def test_every_span_of_long_text_is_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SEGMENT", 64)
    monkeypatch.setattr(tokens, "_SEARCH", 16)
    text = ("The fee (Art. 5) isn't due;\n\n  it's 12345 €. " + "漢字、仮名。" * 4 + "a" * 40 + "😀" * 20 + "\r\n") * 3
    token_map = TokenMap(text)
    assert token_map.n_tokens == reference(text)
    for start in range(0, len(text), 7):
        for end in range(start, len(text), 11):
            assert token_map.count(start, end) == reference(text[start:end])
    starts, ends = list(range(0, len(text) - 30, 7)), list(range(30, len(text), 7))
    assert token_map.counts(starts, ends) == [reference(text[a:b]) for a, b in zip(starts, ends, strict=True)]


def test_the_whole_text_is_encoded_in_bounded_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SEGMENT", 100)
    text = "one two three " * 50
    parts = list(tokens._segments(text))
    assert "".join(parts) == text
    assert max(map(len, parts)) < 110
    # Without a place to part it, a run stays whole.
    assert list(tokens._segments("a" * 300)) == ["a" * 300]


def test_seams_are_where_pre_tokens_end_for_every_character() -> None:
    # A character Python calls alphanumeric must be a letter or number of the tokenizer's pattern: categories L and N.
    for code in range(0x110000):
        if chr(code).isalnum():
            assert unicodedata.category(chr(code))[0] in "LN", hex(code)


def test_no_token_joins_two_symbols_at_a_seam() -> None:
    # What `_SEAM` rests on: a byte that begins a character beyond U+FFFF is inside a token only behind a space.
    before = {
        token[place - 1 : place]
        for token in tokens.encoding().token_byte_values()
        for place in range(1, len(token))
        if token[place] >= 0xF0
    }
    assert before == {b" "}
    symbols = [chr(code) for code in range(0x110000) if re.fullmatch(f"[{tokens._SYMBOL}\u200d\ufe0f]", chr(code))]
    assert len(symbols) == 0x800 + 2
    assert not [symbol for symbol in symbols if unicodedata.category(symbol)[0] in "LNZ" or symbol.isspace()]


def test_a_run_of_emoji_is_not_counted_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "👩🏽\u200d🚀👍🏿😀" * 2000
    token_map = TokenMap(text)
    counted: list[str] = []
    monkeypatch.setattr(token_map, "_count", lambda text: (counted.append(text), reference(text))[1])
    for start in range(100, 200):
        assert token_map.count(start, start + 5000) == reference(text[start : start + 5000])
    assert max(map(len, counted)) <= 6


def test_before_counts_tokens_at_many_places() -> None:
    token_map = TokenMap("hello world")
    assert token_map.before(np.array([0, 4, 5, 10, 11])).tolist() == [0, 0, 1, 1, 2]
