"""Speed, memory and correctness of the chunking strategies and of peer libraries: `python -m benchmarks.chunking`.

Every speed is a ratio: CPU time of the whole call (document to chunks) to the CPU time of one tiktoken `encode_ordinary` of
the same text in the same process, the least of several runs of each, taken in turns. Nothing is kept between runs: each
reads the text anew. Peers are measured when they are installed (requirements-bench.txt).
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import tiktoken

from benchmarks import texts
from engine import ids, tokens
from engine.models import Document, Node, NodeKind, Span, Structure
from engine.providers.base import Models
from engine.strategies import registry
from engine.strategies.base import uncovered
from engine.strategies.sentences import sentence_spans
from engine.strategies.source import Source

MB = 1_000_000
LIMIT = 512
STRUCTURAL = ("fixed_size", "recursive", "sentence", "paragraph", "markdown_structure", "parent_child")

TARGETS = {
    "fixed_size": 1.2,
    "recursive": 1.35,
    "sentence": 1.0,
    "paragraph": 1.2,
    "markdown_structure": 1.5,
    "parent_child": 1.6,
}
"""The most a strategy may take on prose and Markdown."""
FASTER_TARGETS = TARGETS | {"fixed_size": 0.9, "recursive": 1.0}
"""The same with the faster encoder."""
WORST_TARGET = 2.2
TOGETHER_TARGET = 3.0
GROWTH_TARGET = 22.0
MEMORY_TARGET = 12.0

Found = list[tuple[str, int | None]]
"""Text and start of every chunk; None where a tool gives no offset."""


class Job(NamedTuple):
    name: str
    run: Callable[[str], Found]
    """Made anew for every call where a tool keeps results."""


class Quality(NamedTuple):
    lossless: bool
    """Every character that is not white space stands in a chunk."""
    exact: bool | None
    """Every chunk is what stands at its offset; None without offsets."""
    limit: bool
    """No chunk has more than `LIMIT` tokens on its own."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1 MB only; no growth, no memory")
    parser.add_argument("--memory", nargs=2, metavar=("STRATEGY", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.memory:
        print(_peak(*options.memory))
        return
    _warm_up()
    print("CPU time as a multiple of one tiktoken encode_ordinary of the same text; lower is faster.\n")
    _speed(options.quick)
    _worst_cases()
    _together()
    if not options.quick:
        _growth()
        _memory()
    _verdict()


_checked: list[tuple[str, float, float]] = []
"""Everything a target was set for: what, the figure, the most it may be."""


def _verdict() -> None:
    missed = [check for check in _checked if check[1] > check[2]]
    print(f"\nTargets met: {len(_checked) - len(missed)} of {len(_checked)}.")
    for what, figure, most in missed:
        print(f"  missed: {what} is {figure:.2f}, should be at most {most:g}")


def _warm_up() -> None:
    # Peers ask tiktoken for the encoding by name; this one needs no download.
    tiktoken.registry.ENCODINGS["cl100k_base"] = tokens.encoding()
    for name in ("tiktoken", "bpe-openai"):
        tokens.use(name)  # type: ignore[arg-type]
        for strategy in STRUCTURAL:
            # Long enough to load the library that tells words apart, which a process loads once.
            _ours(strategy)("Warm up. " * 40_000)
    tokens.use(None)


def document(text: str) -> Document:
    data = text.encode()
    return Document(
        document_id=ids.document_id(data, "bench"), name="bench.md", media_type="text/markdown", byte_size=len(data),
        sha256=ids.digest(data), parser_version="bench", structure=Structure(rule="none", confidence="none"),
        visible_characters=len(text), kept_characters=len(text), token_count=0, created_at=datetime(2026, 1, 1, tzinfo=UTC),
        text=text, tree=Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text))),
    )  # fmt: skip


def _ours(name: str, **values: Any) -> Callable[[str], Found]:
    strategy = registry.strategy(name)
    params = strategy.parse(values)

    def run(text: str) -> Found:
        # The document is made outside the strategies' time: an application has it already.
        return [
            (chunk.text, chunk.span.start if chunk.span else None)
            for chunk in strategy.chunk(Source(_made(text)), params, Models()).chunks
        ]

    return run


_documents: dict[int, Document] = {}


def _made(text: str) -> Document:
    if id(text) not in _documents:
        _documents.clear()
        _documents[id(text)] = document(text)
    return _documents[id(text)]


def _peers() -> tuple[list[Job], list[str]]:
    """The peers that are installed, and the names of those that are not."""
    makers = {
        "chonkie": _chonkie,
        "semchunk": _semchunk,
        "semantic-text-splitter": _semantic_text_splitter,
        "langchain-text-splitters": _langchain,
    }
    jobs: list[Job] = []
    missing: list[str] = []
    for package, maker in makers.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
            continue
        jobs.extend(Job(f"{package} {version} {name}", run) for name, run in maker())
    return jobs, missing


def _chonkie() -> list[tuple[str, Callable[[str], Found]]]:
    import chonkie

    def run(make: Callable[[], Any]) -> Callable[[str], Found]:
        return lambda text: [(chunk.text, chunk.start_index) for chunk in make().chunk(text)]

    encoding = tokens.encoding()
    return [
        ("token 512/50", run(lambda: chonkie.TokenChunker(tokenizer=encoding, chunk_size=LIMIT, chunk_overlap=50))),
        ("recursive 512", run(lambda: chonkie.RecursiveChunker(tokenizer=encoding, chunk_size=LIMIT))),
        ("sentence 512", run(lambda: chonkie.SentenceChunker(tokenizer=encoding, chunk_size=LIMIT))),
    ]


def _semchunk() -> list[tuple[str, Callable[[str], Found]]]:
    import semchunk

    def run(text: str) -> Found:
        count = lambda part: len(tokens.encoding().encode_ordinary(part))  # noqa: E731
        chunks, offsets = semchunk.chunkerify(count, LIMIT)(text, offsets=True)
        return [(chunk, start) for chunk, (start, _end) in zip(chunks, offsets, strict=True)]

    return [("512", run)]


def _semantic_text_splitter() -> list[tuple[str, Callable[[str], Found]]]:
    import semantic_text_splitter

    def run(kind: Any) -> Callable[[str], Found]:
        return lambda text: [
            (chunk, start) for start, chunk in kind.from_tiktoken_model("gpt-4", LIMIT, trim=False).chunk_indices(text)
        ]

    return [
        ("text 512", run(semantic_text_splitter.TextSplitter)),
        ("Markdown 512", run(semantic_text_splitter.MarkdownSplitter)),
    ]


def _langchain() -> list[tuple[str, Callable[[str], Found]]]:
    import langchain_text_splitters as splitters

    def run(make: Callable[[], Any]) -> Callable[[str], Found]:
        return lambda text: [
            (made.page_content, made.metadata.get("start_index")) for made in make().create_documents([text])
        ]

    def count(text: str) -> int:
        return len(tokens.encoding().encode_ordinary(text))

    def recursive(overlap: int) -> Callable[[], Any]:
        return lambda: splitters.RecursiveCharacterTextSplitter(
            chunk_size=LIMIT, chunk_overlap=overlap, length_function=count, add_start_index=True
        )

    def headers(text: str) -> Found:
        made = splitters.MarkdownHeaderTextSplitter([("#" * level, str(level)) for level in range(1, 5)])
        return [(part.page_content, None) for part in made.split_text(text)]

    return [
        (
            "token 512/50",
            run(lambda: splitters.TokenTextSplitter(encoding_name="cl100k_base", chunk_size=LIMIT, chunk_overlap=50)),
        ),
        ("recursive 512/0", run(recursive(0))),
        ("recursive 512/50", run(recursive(50))),
        ("Markdown headers", headers),
    ]


def ratio(run: Callable[[str], Any], text: str, repeats: int) -> float:
    """CPU time of `run` over that of one encode, the least of `repeats` each."""
    encoding = tokens.encoding()
    bases, times = [], []
    for _ in range(repeats):
        began = time.process_time()
        encoding.encode_ordinary(text)
        bases.append(time.process_time() - began)
        began = time.process_time()
        run(text)
        times.append(time.process_time() - began)
    return min(times) / min(bases)


def quality(found: Found, text: str) -> Quality:
    spans: list[Span] = []
    exact = True
    at = -1
    for chunk, start in found:
        if start is not None and text[start : start + len(chunk)] != chunk:
            exact = False
        place = start if start is not None and exact else text.find(chunk, at + 1)
        if place >= 0:
            spans.append(Span(place, place + len(chunk)))
            at = place
    offsets = all(start is not None for _, start in found)
    within = all(len(chunk) <= LIMIT or tokens.count(chunk) <= LIMIT for chunk, _ in found)
    return Quality(not uncovered(text, spans), exact if offsets else None, within)


def _all_hold(run: Callable[[str], Found], checks: Iterable[str]) -> list[str]:
    """Lossless, exact, limit over all texts: yes, no, or the reason it could not be told."""
    results = []
    for text in checks:
        try:
            results.append(quality(run(text), text))
        except Exception as error:
            return [type(error).__name__] * 3
    none = all(result.exact is None for result in results)
    return [
        "yes" if all(result.lossless for result in results) else "no",
        "none" if none else "yes" if all(result.exact for result in results) else "no",
        "yes" if all(result.limit for result in results) else "no",
    ]


def _speed(quick: bool) -> None:
    sizes = (1,) if quick else (1, 10)
    # The small ones first: a process that has held a large text gets its memory in other pieces from then on.
    corpora = {f"{name} {size} MB": (make, size) for size in sizes for name, make in _CORPORA.items()}
    checks = [texts.prose(MB // 5, 3), texts.markdown(MB // 5, 3), texts.chinese(MB // 10), texts.emoji(MB // 10)]
    peers, missing = _peers()
    # The modules of one tool are no garbage that another has to look through, as they would not be where it runs alone.
    gc.collect()
    gc.freeze()
    jobs: list[tuple[Job, tokens.EncoderName | None]] = []
    for encoder in ("tiktoken", "bpe-openai"):
        jobs.extend((Job(f"{name} ({encoder})", _ours(name)), encoder) for name in STRUCTURAL)  # type: ignore[misc]
        jobs.append((Job(f"recursive 512/0 ({encoder})", _ours("recursive", overlap=0)), encoder))  # type: ignore[arg-type]
    jobs.append(
        (
            Job("sentence spans alone", lambda text: [(span.slice(text), span.start) for span in sentence_spans(text)]),
            None,
        )
    )
    jobs.extend((peer, None) for peer in peers)
    columns = [*corpora, "lossless", "exact offsets", "limit kept"]
    cells: dict[str, list[str]] = {job.name: [] for job, _ in jobs}
    for corpus, (make, size) in corpora.items():
        text = make(size * MB)
        for job, encoder in jobs:
            tokens.use(encoder)
            slow = bool(cells[job.name]) and _number(cells[job.name][0]) > 5
            repeats = 5 if size == 1 else 2 if encoder else 1
            cells[job.name].append("" if slow and size > 1 else _attempt(job.run, text, repeats))
            target = (FASTER_TARGETS if encoder == "bpe-openai" else TARGETS).get(job.name.split(" (")[0])
            if encoder and target is not None:
                _checked.append((f"{job.name}, {corpus}", _number(cells[job.name][-1]), target))
        tokens.use(None)
    for job, encoder in jobs:
        tokens.use(encoder)
        held = _all_hold(job.run, checks)
        if job.name.startswith("sentence spans"):
            held[2] = "no limit"
        cells[job.name].extend(held)
    tokens.use(None)
    _table(columns, cells)
    print(
        "\nLossless, offsets and limit: on prose, Markdown, Chinese and emoji. An empty cell: slower than 5 on 1 MB, or failed there."
    )
    if missing:
        print(f"Not installed, not measured: {', '.join(missing)} (requirements-bench.txt).")


_CORPORA: dict[str, Callable[[int], str]] = {"prose": texts.prose, "Markdown": texts.markdown}


def _number(cell: str) -> float:
    """0 for an empty cell, infinity for one that names an error."""
    if not cell:
        return 0.0
    try:
        return float(cell)
    except ValueError:
        return float("inf")


def _attempt(run: Callable[[str], Any], text: str, repeats: int) -> str:
    try:
        return f"{ratio(run, text, repeats):.2f}"
    except Exception as error:
        return type(error).__name__


def _worst_cases() -> None:
    print("\nWorst cases, 1 MB:\n")
    made = {name: make(MB) for name, make in texts.WORST.items()}
    cells: dict[str, list[str]] = {}
    for encoder in ("tiktoken", "bpe-openai"):
        tokens.use(encoder)  # type: ignore[arg-type]
        for name in STRUCTURAL:
            row = [_attempt(_ours(name), text, 3) for text in made.values()]
            cells[f"{name} ({encoder})"] = row
            _checked.extend(
                (f"{name} ({encoder}), {case}", _number(cell), WORST_TARGET)
                for case, cell in zip(made, row, strict=True)
            )
    tokens.use(None)
    _table(list(made), cells)


def _together() -> None:
    text = texts.markdown(MB, 5)
    strategies = [(registry.strategy(name), registry.strategy(name).parse({})) for name in STRUCTURAL]

    def run(text: str) -> None:
        source = Source(_made(text))
        for strategy, params in strategies:
            strategy.chunk(source, params, Models())

    print("\nAll six on one Markdown document of 1 MB, which is encoded once:\n")
    for encoder in ("tiktoken", "bpe-openai"):
        tokens.use(encoder)  # type: ignore[arg-type]
        figure = ratio(run, text, 5)
        _checked.append((f"all six together ({encoder})", figure, TOGETHER_TARGET))
        print(f"  {encoder}: {figure:.2f}")
    tokens.use(None)


def _growth() -> None:
    print("\nCPU time for 20 MB as a multiple of that for 1 MB (20 is linear):\n")
    small, large = texts.prose(MB, 9), texts.prose(20 * MB, 9)
    cells = {}
    jobs: dict[str, Callable[[str], Any]] = {"tiktoken encode_ordinary": tokens.encoding().encode_ordinary}
    for name, run in (jobs | {name: _ours(name) for name in STRUCTURAL}).items():
        times = []
        for text, repeats in ((small, 5), (large, 2)):
            _made(text)
            seconds = []
            for _ in range(repeats):
                began = time.process_time()
                run(text)
                seconds.append(time.process_time() - began)
            times.append(min(seconds))
        cells[name] = [f"{times[1] / times[0]:.1f}"]
        if name in STRUCTURAL:
            _checked.append((f"growth of {name}", times[1] / times[0], GROWTH_TARGET))
    _table(["20 MB / 1 MB"], cells)


def _memory() -> None:
    print(
        "\nPeak memory added by the first long text of a process, 10 MB of prose, as a multiple of the text's bytes:\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text(texts.prose(10 * MB, 4))
        cells = {
            name: [
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.chunking", "--memory", name, str(path)],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout.strip()
            ]
            for name in STRUCTURAL
        }
    _checked.extend((f"memory of {name}", float(row[0]), MEMORY_TARGET) for name, row in cells.items())
    _table(["peak / text"], cells)


def _peak(name: str, path: str) -> str:
    # The vocabulary belongs to the process; what only a long text loads counts as its own.
    _ours(name)("Warm up.")
    text = Path(path).read_text()
    made = document(text)
    strategy = registry.strategy(name)
    before = _highest_kilobytes()
    chunks = strategy.chunk(Source(made), strategy.parse({}), Models()).chunks
    after = _highest_kilobytes()
    assert chunks
    return f"{(after - before) * 1024 / len(text.encode()):.1f}"


def _highest_kilobytes() -> int:
    """The most memory this process has held. On Linux `ru_maxrss` begins with what the parent held, so it is not used there."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _table(columns: Sequence[str], cells: dict[str, list[str]]) -> None:
    first = max(len(name) for name in cells)
    widths = [max([len(column), *(len(row[place]) for row in cells.values())]) for place, column in enumerate(columns)]
    print(" " * first, *(column.rjust(width) for column, width in zip(columns, widths, strict=True)), sep="  ")
    for name, row in cells.items():
        print(name.ljust(first), *(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), sep="  ")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
