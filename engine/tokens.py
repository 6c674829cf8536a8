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
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import PathFinder
from itertools import islice
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
_SEGMENT = 1 << 18
"""Characters encoded at once: bounds the memory of one encode."""


_SEAM = rf"(?<=[^\W_])[{re.escape(_AFTER_WORD)}]|(?<=\S) |(?<=[\r\n])\S"
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


class _Rows(dict[str, int]):
    """Numbers words from 0 in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        row = self[word] = len(self)
        return row


_WORDS_FROM = 1 << 18
"""Characters from which on the words of a text repeat enough to be looked up."""
_MOST_NEW = 0.5
"""Share of a segment in words not met before, above which looking words up takes longer than encoding them."""
_MOST_WORDS = 1 << 16
"""Words kept at once: bounds the memory."""
_WORD_SPACE = re.compile(r" (?<=\S )")
"""A space after anything but white space; the space comes first, which is what makes the search fast."""


class _Words:
    """Encodes the segments of one text, each of its words once.

    A space after anything but white space is a seam, so what stands between two such spaces has the same tokens wherever
    it stands.
    """

    def __init__(self, repeat: bool) -> None:
        self._encode = encoder().encode
        self._repeat = repeat
        """Whether words are looked up; not from the first segment on that is mostly new."""
        self._split: Callable[[str], list[str]] = lambda part: part.split(" ")
        self._forget()

    def _forget(self) -> None:
        self._rows = _Rows()
        self._lengths = np.zeros(0, dtype=np.uint8)
        """Characters of each token, word after word; the space before a word belongs to it."""
        self._starts: Positions = np.zeros(1, dtype=np.int64)
        """Where the tokens of each word begin in `_lengths`, and where those of the last one end."""

    def ends(self, part: str) -> Positions:
        """Where the tokens of a segment end, from its start on."""
        if not self._repeat:
            return _character_ends(part, self._encode(part))
        if len(self._rows) > _MOST_WORDS:
            self._forget()
        known = len(self._rows)
        words = self._split(part)
        rows = self._numbered(words)
        new = list(islice(self._rows, known, None))
        if len(words) == 1 or sum(map(len, new)) > _MOST_NEW * len(part):
            self._repeat = False
            self._forget()
            return _character_ends(part, self._encode(part))
        if words[0][-1:].isspace() or any(not word or word[-1].isspace() for word in new):
            # White space runs on over a space, which is then no seam. Other segments will have such places too.
            for word in new:
                del self._rows[word]
            self._split = _WORD_SPACE.split
            return self.ends(part)
        head, tail = self._learn(words[0], new, words[-1])
        first = self._starts[rows]
        counts = self._starts[rows + 1] - first
        # The tokens of a word lie side by side in `_lengths`: from its first one on, one place further for each token.
        places = np.repeat(first - np.cumsum(counts) + counts, counts)
        places += np.arange(places.size)
        return np.cumsum(np.concatenate((head, self._lengths[places], tail)), dtype=np.int64)

    def _numbered(self, words: list[str]) -> Positions:
        """Rows of the words between the first, which has no space before it, and the last, which the segment may cut."""
        return np.fromiter(map(self._rows.__getitem__, words[1:-1]), dtype=np.int64, count=max(0, len(words) - 2))

    def _learn(self, head: str, new: list[str], tail: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Adds the tokens of the new words; returns those of the segment's two ends. One encode for all."""
        words = [head, *new, tail]
        text = " ".join(words)
        ends = _character_ends(text, self._encode(text))
        lengths = np.diff(ends, prepend=0).astype(np.uint8)
        word_ends = np.cumsum([len(word) + 1 for word in words]) - 1
        stops = ends.searchsorted(word_ends, "right")
        first, last = stops[0], stops[-2]
        self._starts = np.concatenate((self._starts, self._starts[-1] + stops[1:-1] - first))
        self._lengths = np.concatenate((self._lengths, lengths[first:last]))
        return lengths[:first], lengths[last:]


class TokenMap:
    """One encode of a text, and from it the tokens of any span.

    `ends[i]` is the code point offset at which token i ends, rounded up to a whole character where it ends inside one:
    shape `(n_tokens,)`, int64, non-decreasing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._count = encoder().count
        self._clean = text if text.isascii() else _encodable(text)
        parts: list[Positions] = []
        offset = 0
        words = _Words(repeat=len(text) >= _WORDS_FROM)
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
        text = self._clean
        first = self._seam_from(start, end)
        if first is None:
            return self._count(text[start:end])
        last = self._seam_back(first, end)
        ends = self.ends
        inside = int(ends.searchsorted(last, "right")) - int(ends.searchsorted(first, "right"))
        if first > start:
            inside += self._count(text[start:first])
        if last < end:
            inside += self._count(text[last:end])
        return inside

    def _seam_from(self, start: int, end: int) -> int | None:
        """The first seam of the slice, or None when there is none near its start."""
        text = self._clean
        if start == 0:
            return start
        seam = _NEXT_SEAM.search(text, start, min(end, start + _SEARCH))
        return None if seam is None else seam.start()

    def _seam_back(self, first: int, end: int) -> int:
        """The last seam of the slice that is not before `first`, itself a seam."""
        text = self._clean
        if end == len(text) or (end > first and _is_seam(text, end)):
            return end
        seam = _LAST_SEAM.match(text, max(first + 1, end - _SEARCH), end)
        return first if seam is None else seam.end()
