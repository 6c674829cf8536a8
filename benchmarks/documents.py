"""Characters kept and time of the DOCX reader, against the readers that others use, on the same files in one run.

    python -m benchmarks.documents [FOLDER] [--repeats N]

FOLDER holds .docx files; without it `../shared/data/docx` or `samples` is taken. Peers that are not installed are named
and left out. "Kept" is the share of the visible characters of the document (a count over its XML) that stand in the
output; output is freed of Markdown escapes first. "Numbers" is the share of the numbers Word prints before a paragraph
that stand before it in the output; the expected numbers are those of this reader, which the tests compare with Word's.
Time is CPU time, the best of N runs, everything warm.
"""

from __future__ import annotations

import argparse
import html
import importlib.util
import io
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine.documents.docx import READER
from engine.documents.docx.notes import Notes
from engine.documents.docx.package import open_package
from engine.documents.docx.styles import StyleSheet
from engine.documents.docx.tally import Tally
from engine.documents.docx.visible import count_text, visible_segments
from engine.errors import UserError
from engine.settings import Settings, load_settings

FOLDERS = (Path("../shared/data/docx"), Path("samples"))
INSTALL = "pip install -r requirements-bench.txt"
_OPENING = 12
"""Characters of a paragraph that must follow its number."""
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")
_TAG = re.compile(r"<[^>]*>")


class Tool(NamedTuple):
    name: str
    module: str
    read: Callable[[bytes], str]


class Result(NamedTuple):
    """What one tool made of one file."""

    kept: float | None
    """Share of the visible characters; None when the tool failed."""
    numbers: int
    """Numbers of paragraphs found in the output."""
    seconds: float


@dataclass
class _Total:
    """Sums over all files for one tool."""

    size: int = 0
    kept: float = 0.0
    expected: int = 0
    numbers: int = 0
    seconds: float = 0.0
    failed: int = 0

    def add(self, result: Result, size: int, expected: int) -> None:
        self.size += size
        self.kept += size * (result.kept or 0.0)
        self.expected += expected
        self.numbers += result.numbers
        self.seconds += result.seconds
        self.failed += result.kept is None

    def line(self) -> str:
        share = f"{self.numbers}/{self.expected}"
        return f"{self.kept / self.size if self.size else 0:9.1%}{share:>9}{self.seconds * 1000:8.1f}"


def chunkscope(settings: Settings) -> Callable[[bytes], str]:
    return lambda data: READER.read(data, "benchmark.docx", settings).text


def python_docx(data: bytes) -> str:
    import docx

    return "\n".join(paragraph.text for paragraph in docx.Document(io.BytesIO(data)).paragraphs)


def mammoth(data: bytes) -> str:
    import mammoth as library

    return html.unescape(_TAG.sub(" ", str(library.convert_to_html(io.BytesIO(data)).value)))


def markitdown() -> Callable[[bytes], str]:
    converter: list[object] = []

    def convert(data: bytes) -> str:
        from markitdown import MarkItDown

        if not converter:
            converter.append(MarkItDown(enable_plugins=False))
        result = converter[0].convert_stream(io.BytesIO(data), file_extension=".docx")  # type: ignore[attr-defined]
        return _ESCAPE.sub(r"\1", html.unescape(str(result.text_content)))

    return convert


def docx2python(data: bytes) -> str:
    from docx2python import docx2python as library

    with library(io.BytesIO(data)) as document:
        return html.unescape(str(document.text))


def tools(settings: Settings) -> list[Tool]:
    return [
        Tool("chunkscope", "engine", chunkscope(settings)),
        Tool("python-docx", "docx", python_docx),
        Tool("mammoth", "mammoth", mammoth),
        Tool("markitdown", "markitdown", markitdown()),
        Tool("docx2python", "docx2python", docx2python),
    ]


def segments(data: bytes, settings: Settings) -> list[list[str]]:
    """The visible text of a document: the body, and the notes that exist."""
    tally = Tally()
    package = open_package(data, "benchmark.docx", settings, tally)
    styles = StyleSheet(package.related_root("/styles"))
    roots = [package.body, *Notes(package, tally).all()]
    return [line for root in roots for line in visible_segments(root, styles)]


def numbered_openings(data: bytes, settings: Settings) -> list[str]:
    """Number and first characters of every paragraph that Word numbers, without white space."""
    parsed = READER.read(data, "benchmark.docx", settings)
    openings = []
    for node in parsed.tree.walk():
        if node.label and "list" in node.attributes:
            text = "".join(node.span.slice(parsed.text).lstrip("# ").split())
            openings.append(text.split("[^")[0][: len("".join(node.label.split())) + _OPENING])
    return openings


def measure(tool: Tool, data: bytes, visible: list[list[str]], openings: list[str], repeats: int) -> Result:
    best = float("inf")
    output = ""
    for _ in range(repeats):
        start = time.process_time()
        try:
            output = tool.read(data)
        except Exception:
            # Any failure of any reader is a result here: the file is not read.
            return Result(None, 0, time.process_time() - start)
        best = min(best, time.process_time() - start)
    count = count_text(visible, output)
    squeezed = "".join(output.split())
    found = sum(opening in squeezed for opening in openings)
    return Result(count.kept / count.visible if count.visible else 1.0, found, best)


def main() -> int:
    parser = argparse.ArgumentParser(description="Characters kept and time of DOCX readers on the same files.")
    parser.add_argument("folder", nargs="?", type=Path, help="folder with .docx files")
    parser.add_argument("--repeats", type=int, default=3, help="runs per file; the fastest counts")
    arguments = parser.parse_args()
    folder = arguments.folder or next((each for each in FOLDERS if any(each.glob("*.docx"))), None)
    files = sorted(folder.glob("*.docx")) if folder else []
    if not files:
        print("No .docx files found. Name a folder: python -m benchmarks.documents FOLDER")
        return 2
    warnings.simplefilter("ignore")
    settings = load_settings()
    everyone = tools(settings)
    present = [tool for tool in everyone if importlib.util.find_spec(tool.module) is not None]
    missing = [tool.name for tool in everyone if tool not in present]
    if missing:
        print(f"Not installed and left out: {', '.join(missing)}. To compare with them: {INSTALL}\n")
    print(f"{'file':42}" + "".join(f"{tool.name:>26}" for tool in present))
    print(f"{'':42}" + f"{'kept  numbers  CPU ms':>26}" * len(present))
    totals = {tool.name: _Total() for tool in present}
    for path in files:
        data = path.read_bytes()
        try:
            visible = segments(data, settings)
        except UserError as error:
            print(f"{path.name:42}  {error.message}")
            continue
        size = sum(len("".join(piece.split())) for line in visible for piece in line)
        openings = numbered_openings(data, settings)
        cells = []
        for tool in present:
            result = measure(tool, data, visible, openings, arguments.repeats)
            totals[tool.name].add(result, size, len(openings))
            kept = "failed" if result.kept is None else f"{result.kept:.1%}"
            share = f"{result.numbers}/{len(openings)}"
            cells.append(f"{kept:>9}{share:>9}{result.seconds * 1000:8.1f}")
        print(f"{path.name:42}" + "".join(cells))
    print(f"{'all (kept weighted by characters)':42}" + "".join(totals[tool.name].line() for tool in present))
    print(f"{'files not read':42}" + "".join(f"{totals[tool.name].failed:9}{'':17}" for tool in present))
    return 0


if __name__ == "__main__":
    sys.exit(main())
