"""cl100k_base tokens with no network: the vocabulary is read from an installed package and checked by its hash.

Two encoders give the same tokens on every input: tiktoken, and the Rust library of `bpe-openai`, which takes about half
the time. The faster one is used when it is installed; `use` selects one by name.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import importlib.util
import re
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import tiktoken
from numpy.typing import NDArray

VOCABULARY_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
"""Hash of OpenAI's published cl100k_base rank file; tiktoken checks its download against the same value."""

EncoderName = Literal["bpe-openai", "tiktoken"]
Positions = NDArray[np.int64]

_SPECIAL_TOKENS = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}
_PATTERN = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
_lock = threading.Lock()


def _package_folders() -> list[str]:
    """Where bpe-openai is installed. It is never imported: that reads three vocabularies nobody asks for (0.5 s, 65 MB)."""
    package = importlib.util.find_spec("bpe_openai")
    return list(package.submodule_search_locations or ()) if package is not None else []


def _bundled_ranks() -> dict[bytes, int] | None:
    packed = [Path(folder, "data", "cl100k_base.tiktoken.gz") for folder in _package_folders()]
    file = next((path for path in packed if path.is_file()), None)
    if file is None:
        return None
    raw = gzip.decompress(file.read_bytes())
    if hashlib.sha256(raw).hexdigest() != VOCABULARY_SHA256:
        return None
    return {b64decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines() if line)}


@cache
def _build() -> tiktoken.Encoding:
    ranks = _bundled_ranks()
    if ranks is None:
        return tiktoken.get_encoding("cl100k_base")
    return tiktoken.Encoding(
        name="cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL_TOKENS
    )


def encoding() -> tiktoken.Encoding:
    """The cl100k_base encoding. Falls back to tiktoken's own download only when no installed package carries the vocabulary."""
    with _lock:
        return _build()


class Encoder(Protocol):
    """Encodes text without lone surrogates. Strings such as `<|endoftext|>` are ordinary text."""

    name: EncoderName

    def encode(self, text: str) -> NDArray[np.int64]:
        """Token ids, shape `(n_tokens,)`."""

    def count(self, text: str) -> int: ...


class _Tiktoken:
    name: EncoderName = "tiktoken"

    def __init__(self) -> None:
        self._encoding = encoding()

    def encode(self, text: str) -> NDArray[np.int64]:
        return self._encoding.encode_to_numpy(text, disallowed_special=()).astype(np.int64)

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


def _bindings() -> Any:
    """The compiled half of bpe-openai. Raises ImportError when it is not installed."""
    name = "bpe_openai._bindings"
    if name not in sys.modules:
        spec = PathFinder.find_spec(name, _package_folders())
        if spec is None or spec.loader is None:
            raise ImportError(name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return importlib.import_module(name)


class _Bpe:
    """The Rust tokenizer inside bpe-openai. Its Python wrapper refuses texts above a million characters, so it is not used."""

    name: EncoderName = "bpe-openai"

    def __init__(self) -> None:
        self._tokenizer: Any = _bindings().tokenizer_for_encoding("cl100k_base")
        self.count: Callable[[str], int] = self._tokenizer.count

    def encode(self, text: str) -> NDArray[np.int64]:
        ids = self._tokenizer.encode(text)
        return np.fromiter(ids, dtype=np.int64, count=len(ids))


@cache
def _encoder(name: EncoderName) -> Encoder:
    return _Bpe() if name == "bpe-openai" else _Tiktoken()


@cache
def _fastest() -> Encoder:
    try:
        return _encoder("bpe-openai")
    except (ImportError, AttributeError):
        return _encoder("tiktoken")


_selected: list[Encoder] = []


def encoder() -> Encoder:
    """The encoder in use."""
    return _selected[0] if _selected else _fastest()


def use(name: EncoderName | None) -> None:
    """Select the encoder by name for the whole process; None selects the fastest one installed."""
    _selected[:] = [] if name is None else [_encoder(name)]


_SURROGATE = re.compile("[\ud800-\udfff]")


def _encodable(text: str) -> str:
    """A lone surrogate cannot be encoded as UTF-8; U+FFFD has as many bytes there, so offsets stay."""
    return _SURROGATE.sub("\ufffd", text)


def count(text: str) -> int:
    """Tokens of `text` on its own. Special-token strings such as `<|endoftext|>` are ordinary text."""
    try:
        return encoder().count(text)
    except UnicodeEncodeError:
        return encoder().count(_encodable(text))


@cache
def _token_lengths() -> NDArray[np.uint8]:
    """Bytes of every token id; the longest has 128."""
    ranks = _bundled_ranks()
    if ranks is None:
        ranks = {value: encoding().encode_single_token(value) for value in encoding().token_byte_values()}
    lengths = np.zeros(max(ranks.values()) + 1, dtype=np.uint8)
    lengths[np.fromiter(ranks.values(), dtype=np.int64)] = np.fromiter(map(len, ranks), dtype=np.uint8)
    return lengths


# Where a pre-token of cl100k_base always ends, whatever stands further left: after a letter or digit that is followed by
# neither, after any character that is not white space and is followed by a space, and after a line break that is followed
# by anything but white space. The pattern has no look-behind, so from such a place on a slice and the whole text are
# tokenized alike, up to the last such place in the slice.
_AFTER_WORD = "\t\n\r !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~、。，；：？！（）「」『』《》"
_SEARCH = 256
"""Characters searched for a seam from each edge of a slice; without one the slice is counted whole."""
_NEAR = 32
"""Characters searched for a space before any other seam."""
_MOST_EDGES = 1 << 13
"""Edges kept at once: bounds the memory."""
_SEGMENT = 1 << 19
"""Characters encoded at once: bounds the memory of one encode."""


# A run of symbols is one pre-token, but no token of the vocabulary has the first byte of a character beyond U+FFFF behind
# another byte than a space: between two symbols of which the second is such a character, nothing is ever merged. A third
# symbol behind them keeps the second from being the sign that may begin a word.
_SYMBOL = "\U0001f300-\U0001faff"
_SEAM = (
    rf"(?<=[^\W_])[{re.escape(_AFTER_WORD)}]|(?<=\S) |(?<=[\r\n])\S"
    rf"|(?<=[{_SYMBOL}\u200d\ufe0f])[{_SYMBOL}](?=[{_SYMBOL}\u200d\ufe0f])"
)
_NEXT_SEAM = re.compile(_SEAM)
_LAST_SEAM = re.compile(rf"(?s:.*)(?={_SEAM})")


def _is_seam(text: str, place: int) -> bool:
    return _NEXT_SEAM.match(text, place) is not None


def _segments(text: str) -> Iterator[str]:
    """The text cut at seams into parts of about `_SEGMENT` characters, so that their tokens are those of the whole."""
    start = 0
    while len(text) - start > _SEGMENT:
        seam = _NEXT_SEAM.search(text, start + _SEGMENT)
        cut = len(text) if seam is None else seam.start()
        yield text[start:cut]
        start = cut
    if start < len(text):
        yield text[start:]


def _character_ends(part: str, token_ids: NDArray[np.int64]) -> Positions:
    byte_ends = np.cumsum(_token_lengths()[token_ids], dtype=np.int64)
    if part.isascii():
        return byte_ends
    data = np.frombuffer(part.encode("utf-8"), dtype=np.uint8)
    characters_begun = np.cumsum((data & 0xC0) != 0x80, dtype=np.int64)
    return characters_begun[byte_ends - 1]


_WORDS_FROM = 1 << 18
"""Characters from which on the words of a text repeat enough to be looked up."""
_MOST_NEW = 0.5
"""Share of a segment in words not met before, above which looking words up takes longer than encoding them."""
_LONGEST_WORDS = 9
"""Characters from seam to seam, in the mean, above which words repeat too rarely."""
_MOST_WORDS = 1 << 16
"""Words kept at once: bounds the memory."""
_CODES = 0x10000
"""Code points that the tables of `_seam_tables` tell apart; those above count as its last one, which is no word and no space."""


_WORD_END, _LINE_END = 1, 4
"""Bits of `_seam_tables`: seams between a letter or digit and what ends a word, and between a line break and what begins a line."""


@cache
def _seam_tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What a code point is before a seam and after one, a bit for each kind of seam: between two that share a bit is one.

    The kinds are those of `_SEAM`, short of letters above `_CODES`.
    """
    before, after = np.zeros(_CODES, dtype=np.uint8), np.zeros(_CODES, dtype=np.uint8)
    for code, character in enumerate(map(chr, range(_CODES))):
        space = character.isspace()
        before[code] = character.isalnum() * _WORD_END | (not space) << 1 | (character in "\r\n") * _LINE_END
        after[code] = (character in _AFTER_WORD) * _WORD_END | (character == " ") << 1 | (not space) * _LINE_END
    return before, after


@cache
def _ascii_seam_tables() -> tuple[bytes, bytes]:
    """The same for `bytes.translate`, which is faster."""
    before, after = _seam_tables()
    return before[:256].tobytes(), after[:256].tobytes()


class _Words:
    """Encodes the segments of one text, each of its words once: what stands between two seams has the same tokens everywhere."""

    def __init__(self, ascii: bool, repeat: bool) -> None:
        self._encode = encoder().encode
        self._codec, self._width = ("ascii", 1) if ascii else ("utf-32-le", 4)
        self._repeat = repeat
        """Whether words are looked up; not from the first segment on that is mostly new."""
        self._forget()

    def _forget(self) -> None:
        self._rows: dict[bytes, int] = {}
        """Numbers the words from 0."""
        self._lengths = np.zeros(0, dtype=np.uint8)
        """Characters of each token, word after word, with what was written between them."""
        self._first: Positions = np.zeros(0, dtype=np.int64)
        """Where the tokens of each word begin in `_lengths`."""
        self._counts: Positions = np.zeros(0, dtype=np.int64)
        """Tokens of each word."""

    def ends(self, part: str) -> Positions:
        """Where the tokens of a segment end, from its start on."""
        if not self._repeat:
            return _character_ends(part, self._encode(part))
        if len(self._rows) > _MOST_WORDS:
            self._forget()
        data = part.encode(self._codec)
        seams = self._seams(data)
        if len(seams) < 2 or len(seams) * _LONGEST_WORDS < len(part):
            return self._give_up(part)
        words, places = _distinct(data, seams * self._width)
        new = [word for word in words if word not in self._rows]
        if sum(map(len, new)) > _MOST_NEW * len(data):
            return self._give_up(part)
        self._learn(new)
        rows = np.fromiter(map(self._rows.__getitem__, words), dtype=np.int64, count=len(words))[places]
        first, counts = self._first[rows], self._counts[rows]
        # The tokens of a word lie side by side in `_lengths`: from its first one on, one place further for each token.
        first -= np.cumsum(counts)
        first += counts
        tokens = np.repeat(first, counts)
        tokens += np.arange(tokens.size)
        # What stands before the first seam and after the last one is no word: nothing is known of its other side.
        edges = self._lengths_in(part[: seams[0]]), self._lengths_in(part[seams[-1] :])
        return np.cumsum(np.concatenate((edges[0], self._lengths[tokens], edges[1])), dtype=np.int64)

    def _lengths_in(self, text: str) -> NDArray[np.uint8]:
        """Characters of each token."""
        return np.diff(_character_ends(text, self._encode(text)), prepend=0).astype(np.uint8)

    def _give_up(self, part: str) -> Positions:
        self._repeat = False
        self._forget()
        return _character_ends(part, self._encode(part))

    def _seams(self, data: bytes) -> Positions:
        """The seams of a segment, as offsets of characters."""
        if self._width == 1:
            before, after = (np.frombuffer(data.translate(table), dtype=np.uint8) for table in _ascii_seam_tables())
        else:
            codes = np.frombuffer(data, dtype=np.uint32)
            before, after = (table.take(codes, mode="clip") for table in _seam_tables())
        return np.flatnonzero((before[:-1] & after[1:]) != 0) + 1

    def _learn(self, new: list[bytes]) -> None:
        """Adds the tokens of words not met before. One encode for all."""
        if not new:
            return
        text, starts, ends = self._apart(new)
        lengths = self._lengths_in(text)
        token_ends = np.cumsum(lengths, dtype=np.int64)
        first, last = token_ends.searchsorted(starts, "right"), token_ends.searchsorted(ends, "right")
        known = len(self._rows)
        self._rows.update(zip(new, range(known, known + len(new)), strict=True))
        self._first = np.concatenate((self._first, first + self._lengths.size))
        self._counts = np.concatenate((self._counts, last - first))
        self._lengths = np.concatenate((self._lengths, lengths))

    def _apart(self, words: list[bytes]) -> tuple[str, Positions, Positions]:
        """A text of the words with a seam before and after each, and where in it each begins and ends."""
        codes: NDArray[Any] = np.frombuffer(b"".join(words), dtype=np.uint8 if self._width == 1 else np.uint32)
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words)) // self._width
        ends = np.cumsum(lengths)
        before, after = _seam_tables()
        left, right = before.take(codes[ends - 1], mode="clip"), after.take(codes[ends - lengths], mode="clip")
        # After a word: nothing when it ends in a letter or digit, "a" when in a line break, else " a". Then a line break
        # unless the next word begins with what makes a seam after a letter.
        filled = np.zeros((len(words), 3), dtype=np.bool_)
        filled[:, 0] = left & (_WORD_END | _LINE_END) == 0
        filled[:, 1] = left & _WORD_END == 0
        filled[:-1, 2] = right[1:] & _WORD_END == 0
        places, kinds = np.nonzero(filled)
        text = np.insert(codes, ends[places], np.array([ord(" "), ord("a"), ord("\n")], dtype=codes.dtype)[kinds])
        added = np.cumsum(filled.sum(axis=1))
        ends[1:] += added[:-1]
        return text.tobytes().decode(self._codec), ends - lengths, ends


def _distinct(data: bytes, cuts: Positions) -> tuple[list[bytes], NDArray[np.int32]]:
    """What stands between neighbouring cuts, each once, and which of them stands at each place."""
    import pyarrow
    from pyarrow import compute

    buffers = [None, pyarrow.py_buffer(cuts.astype(np.int32)), pyarrow.py_buffer(data)]
    words = pyarrow.BinaryArray.from_buffers(pyarrow.binary(), len(cuts) - 1, buffers)
    # Arrow's own pool keeps 20 MB that it never needs again.
    found = compute.dictionary_encode(words, memory_pool=pyarrow.system_memory_pool())
    # `to_numpy` would import pandas (50 MB).
    places = np.frombuffer(found.indices.buffers()[1], dtype=np.int32, count=len(found.indices))
    return found.dictionary.to_pylist(), places


class TokenMap:
    """One encode of a text, and from it the tokens of any span.

    `ends[i]` is the code point offset at which token i ends, rounded up to a whole character where it ends inside one:
    shape `(n_tokens,)`, int64, non-decreasing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._count = encoder().count
        self._clean = text if text.isascii() else _encodable(text)
        self._edges: dict[str, int] = {}
        """Tokens of edges met before: many spans begin with the same word."""
        parts: list[Positions] = []
        offset = 0
        words = _Words(text.isascii(), repeat=len(text) >= _WORDS_FROM)
        for part in _segments(self._clean):
            ends = words.ends(part)
            ends += offset
            parts.append(ends)
            offset += len(part)
        self.ends: Positions = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    @property
    def n_tokens(self) -> int:
        return int(self.ends.size)

    def before(self, positions: Positions) -> Positions:
        """Tokens that end at or before each code point offset: same shape as `positions`."""
        return self.ends.searchsorted(positions, "right")

    def share(self, start: int, end: int) -> int:
        """Tokens of the whole-text encode that end inside `(start, end]`: the count of the span up to a few tokens at its edges."""
        return int(self.ends.searchsorted(end, "right")) - int(self.ends.searchsorted(start, "right"))

    def count(self, start: int, end: int) -> int:
        """Tokens of the span on its own, exactly.

        Only the pre-tokens at the two edges can differ from the whole-text encode, so only they are encoded again.
        """
        edges, first, last = self._parted(start, end)
        return edges + int(self.ends.searchsorted(last, "right")) - int(self.ends.searchsorted(first, "right"))

    def counts(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Tokens of each of many spans on its own: what `count` gives, in a third of the time."""
        parted = np.array(list(map(self._parted, starts, ends)), dtype=np.int64).reshape(-1, 3)
        found: list[int] = (parted[:, 0] + self.before(parted[:, 2]) - self.before(parted[:, 1])).tolist()
        return found

    def _parted(self, start: int, end: int) -> tuple[int, int, int]:
        """Tokens of the span's edges, encoded on their own, and the first and last seam, between which the whole text's tokens count."""
        text = self._clean
        # Nearly all spans have a space near their start and at their end, which is found in a tenth of a search's time.
        first = text.find(" ", start + 1, min(end, start + _NEAR)) if start else 0
        if first < 0 or (start and text[first - 1].isspace()):
            seam = self._seam_from(start, end)
            if seam is None:
                return self._count(text[start:end]), start, start
            first = seam
        if end - 1 > first and text[end - 1] == " " and not text[end - 2].isspace():
            last = end - 1
        else:
            last = self._seam_back(first, end)
        edges = self._edge(text[start:first]) if first > start else 0
        if last < end:
            edges += self._edge(text[last:end])
        return edges, first, last

    def _edge(self, text: str) -> int:
        known = self._edges.get(text)
        if known is None:
            if len(self._edges) >= _MOST_EDGES:
                self._edges.clear()
            known = self._edges[text] = self._count(text)
        return known

    def _seam_from(self, start: int, end: int) -> int | None:
        """The first seam of the slice, or None when there is none near its start."""
        seam = _NEXT_SEAM.search(self._clean, start, min(end, start + _SEARCH))
        return None if seam is None else seam.start()

    def _seam_back(self, first: int, end: int) -> int:
        """The last seam of the slice that is not before `first`, itself a seam."""
        text = self._clean
        if end == len(text) or (end > first and _is_seam(text, end)):
            return end
        seam = _LAST_SEAM.match(text, max(first + 1, end - _SEARCH), end)
        return first if seam is None else seam.end()
