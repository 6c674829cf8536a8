"""Text from bytes: encoding, line ends, and what no store can hold."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from charset_normalizer import from_bytes

from engine.documents.names import shown
from engine.documents.sniff import utf16_without_mark
from engine.errors import BadDocument
from engine.models import Notice, Span

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 256 * 1024
"""Bytes the detection looks at first; only when its answer fails on the rest does it look at everything."""

_NUL = re.compile("\0")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WIDE = re.compile(r"[^\x00-\x7f]+")
_BROKEN = "\udfff"
"""Stands for a byte that could not be decoded until it is counted: no decoder gives this code point."""
_REPLACE = "chunkscope-mark"
codecs.register_error(_REPLACE, lambda error: (_BROKEN, getattr(error, "end", 0)))
_NEWLINE = re.compile("\r\n?")


class Cleaned(NamedTuple):
    text: str
    notices: tuple[Notice, ...]


class Decoded(NamedTuple):
    text: str
    encoding: str
    notices: tuple[Notice, ...]


def clean(text: str) -> Cleaned:
    """Line ends become `\\n`; NUL becomes a space and a lone surrogate `?`, both counted: neither can be stored."""
    notices = []
    if "\r" in text:
        text = _NEWLINE.sub("\n", text)
    if "\0" in text:
        text, count = _NUL.subn(" ", text)
        notices.append(Notice(kind="nul", message="NUL characters were replaced by spaces.", count=count))
    if not text.isascii():
        text, count = _SURROGATE.subn("?", text)
        if count:
            notices.append(
                Notice(kind="surrogate", message="Broken characters (lone surrogates) were replaced by ?.", count=count)
            )
    return Cleaned(text, tuple(notices))


def clean_value(value: Any) -> str:
    """A metadata value as clean text on one line, at most 1,000 characters."""
    return " ".join(clean(str(value)).text.split())[:1000]


def decode(data: bytes, name: str) -> Decoded:
    """Clean text of a text file: by its byte order mark, as UTF-16 where every other byte is 0, as UTF-8, else as detected.

    UTF-8 with a few broken bytes stays UTF-8: another encoding would spoil every other letter. Raises BadDocument when
    no encoding fits.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _tolerant(data[len(mark) :], encoding)
    if order := utf16_without_mark(data):
        return _tolerant(data, order)
    try:
        return _decoded(data.decode("utf-8", "surrogatepass"), "utf-8")
    except UnicodeDecodeError:
        pass
    broken, wide = _utf8_damage(data)
    if broken * 10 <= wide:
        return _tolerant(data, "utf-8")
    for sample in (data[:_SAMPLE], data):
        match = from_bytes(sample).best()
        if match is None:
            break
        try:
            return _decoded(data.decode(match.encoding), match.encoding, _guessed(match.encoding))
        except UnicodeDecodeError:
            continue
    if broken <= max(1, len(data) // 100):
        return _tolerant(data, "utf-8")
    raise BadDocument(
        f"{shown(name)} is text in an encoding that could not be told. Nothing was stored. Save it as UTF-8 and upload that."
    )


def _decoded(text: str, encoding: str, *notices: Notice) -> Decoded:
    cleaned = clean(text)
    return Decoded(cleaned.text, encoding, (*notices, *cleaned.notices))


def _tolerant(data: bytes, encoding: str) -> Decoded:
    """Bytes that are not valid become `?` and are counted."""
    try:
        return _decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        pass
    text = data.decode(encoding, _REPLACE)
    count = text.count(_BROKEN)
    notice = Notice(kind="undecodable", message=f"Bytes that are not valid {encoding} were replaced by ?.", count=count)
    return _decoded(text.replace(_BROKEN, "?"), encoding, notice)


def _guessed(encoding: str) -> Notice:
    message = f"The file does not name its encoding; it was read as {encoding}. Check accents and special letters."
    return Notice(kind="encoding", message=message)


def _utf8_damage(data: bytes) -> tuple[int, int]:
    """Broken places and whole characters beyond ASCII when the bytes are taken for UTF-8."""
    text = data.decode("utf-8", _REPLACE)
    broken = text.count(_BROKEN)
    return broken, sum(map(len, _WIDE.findall(text))) - broken


class Lines:
    """Where the lines of a text stand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        self.starts.extend(match.end() for match in re.finditer("\n", text))
        self.count = len(self.starts)

    def span(self, first: int, after: int) -> Span:
        """Lines `first` up to `after` (exclusive), without blank lines and white space at the end."""
        start = self.starts[min(first, self.count - 1)]
        stop = self.starts[after] if after < self.count else len(self.text)
        return Span(start, max(start, start + len(self.text[start:stop].rstrip())))

    def line(self, index: int) -> str:
        stop = self.starts[index + 1] - 1 if index + 1 < self.count else len(self.text)
        return self.text[self.starts[index] : stop]

    def __iter__(self) -> Iterator[str]:
        return (self.line(index) for index in range(self.count))


def non_blank(text: str) -> int:
    """Characters of a text that are not white space."""
    return len("".join(text.split()))
