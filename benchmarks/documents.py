"""Characters kept and time of the DOCX reader, against the readers that others use, on the same files in one run.

    python -m benchmarks.documents [FOLDER] [--repeats N]

FOLDER holds .docx files; without it `../shared/data/docx` or `samples` is taken. Peers that are not installed are named
and left out. "Kept" is the share of the visible characters of the document (a count over its XML) that stand in the
output; output is freed of Markdown escapes first. Time is CPU time, the best of N runs, everything warm.
"""

from __future__ import annotations

import argparse
import html
import importlib.util
import io
import re
import sys
import time
from collections.abc import Callable, Iterable
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
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")
_TAG = re.compile(r"<[^>]*>")


class Tool(NamedTuple):
    name: str
    module: str
    read: Callable[[bytes], str]


class Result(NamedTuple):
    """Share of the visible characters kept (None when the tool failed) and CPU seconds."""

    kept: float | None
    seconds: float


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


def measure(tool: Tool, data: bytes, visible: Iterable[list[str]], repeats: int) -> Result:
    best = float("inf")
    output = ""
    for _ in range(repeats):
        start = time.process_time()
        try:
            output = tool.read(data)
        except Exception:
            # Any failure of any reader is a result here: the file is not read.
            return Result(None, time.process_time() - start)
        best = min(best, time.process_time() - start)
    count = count_text(visible, output)
    return Result(count.kept / count.visible if count.visible else 1.0, best)


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
    settings = load_settings()
    everyone = tools(settings)
    present = [tool for tool in everyone if importlib.util.find_spec(tool.module) is not None]
    missing = [tool.name for tool in everyone if tool not in present]
    if missing:
        print(f"Not installed and left out: {', '.join(missing)}. To compare with them: {INSTALL}\n")
    print(f"{'file':42}" + "".join(f"{tool.name:>22}" for tool in present))
    print(f"{'':42}" + f"{'kept   CPU ms':>22}" * len(present))
    totals = {tool.name: [0.0, 0.0, 0.0, 0.0] for tool in present}
    for path in files:
        data = path.read_bytes()
        try:
            visible = segments(data, settings)
        except UserError as error:
            print(f"{path.name:42}  {error.message}")
            continue
        size = sum(len("".join(piece.split())) for line in visible for piece in line)
        cells = []
        for tool in present:
            result = measure(tool, data, visible, arguments.repeats)
            total = totals[tool.name]
            total[0] += size
            total[1] += size * (result.kept or 0.0)
            total[2] += result.seconds
            total[3] += result.kept is None
            kept = "failed" if result.kept is None else f"{result.kept:7.1%}"
            cells.append(f"{kept:>12}{result.seconds * 1000:10.1f}")
        print(f"{path.name:42}" + "".join(cells))
    print(f"{'all (kept weighted by characters)':42}", end="")
    for tool in present:
        size, kept_size, seconds, _ = totals[tool.name]
        print(f"{kept_size / size if size else 0:12.1%}{seconds * 1000:10.1f}", end="")
    print(f"\n{'files not read':42}" + "".join(f"{totals[tool.name][3]:12.0f}{'':10}" for tool in present))
    return 0


if __name__ == "__main__":
    sys.exit(main())
