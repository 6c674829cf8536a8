"""`python -m engine`: the command line. Standard output is data, standard error is talk."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine import UserError, Workbench
from engine.bench.run import Event
from engine.errors import BadRequest
from engine.models import StrategySpec
from engine.records import Experiment

EXIT_USER_ERROR = 1
"""Exit code for what a reader can fix; 2 is argparse's code for a wrong command."""

FOUNDATION = ("fixed_size", "recursive", "sentence", "paragraph", "markdown_structure", "parent_child", "semantic")
"""Strategies the demo compares: all that need no model but the bundled embeddings."""

DEMO_METRICS = ("recall@1000tok", "precision@1000tok", "iou@1000tok", "recall@5", "tokens@5", "mrr")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0, 1 for a UserError, 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except UserError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_USER_ERROR
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine", description="Cut documents, search the chunks, measure which cut answers best."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    chunk = commands.add_parser("chunk", help="print the chunks of a file, one JSON object per line; nothing is stored")
    chunk.add_argument("file", type=Path)
    _add_spec(chunk)
    chunk.set_defaults(command=_chunk)

    ask = commands.add_parser("ask", help="ask one question of the stored documents, under one or more strategies")
    ask.add_argument("question")
    _add_spec(ask, many=True)
    ask.add_argument("--top-k", type=int)
    ask.add_argument("--json", action="store_true", help="print the stored records")
    ask.set_defaults(command=_ask)

    benchmark = commands.add_parser("benchmark", help="measure strategies on a question set")
    benchmark.add_argument("questions", type=Path, help="question set: JSON, JSONL or CSV")
    benchmark.add_argument(
        "--documents",
        type=Path,
        nargs="*",
        default=[],
        help="files to add first; by default the stored documents are used",
    )
    _add_spec(benchmark, many=True)
    benchmark.add_argument("--json", action="store_true", help="print the stored experiment")
    benchmark.set_defaults(command=_benchmark)

    demo = commands.add_parser("demo", help="load the samples and compare seven strategies on their questions")
    demo.set_defaults(command=_demo)
    return parser


def _add_spec(parser: argparse.ArgumentParser, many: bool = False) -> None:
    repeat = " May be given several times." if many else ""
    parser.add_argument(
        "--strategy",
        action="append" if many else "store",
        default=[] if many else "recursive",
        help=f"name, with parameters as in recursive:size=256,overlap=32.{repeat}",
    )


def _spec(workbench: Workbench, written: str) -> StrategySpec:
    """A spec from `name:param=value,...`. Raises BadParameter, BadRequest."""
    name, _, rest = written.partition(":")
    params = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise BadRequest(
                f"{part!r} is not of the form parameter=value. Write for example recursive:size=256,overlap=32."
            )
        params[key.strip()] = value.strip()
    return workbench.spec(name, params)


def _specs(workbench: Workbench, written: Sequence[str]) -> list[StrategySpec]:
    return [_spec(workbench, each) for each in written or FOUNDATION]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}. Check the path and try again.") from None


def _chunk(options: argparse.Namespace) -> None:
    with Workbench.open() as workbench:
        chunk_set = workbench.preview(_read(options.file), options.file.name, _spec(workbench, options.strategy))
    for chunk in chunk_set.chunks:
        print(chunk.model_dump_json())


def _ask(options: argparse.Namespace) -> None:
    with Workbench.open() as workbench:
        queries = workbench.ask(options.question, _specs(workbench, options.strategy), top_k=options.top_k)
    if options.json:
        print(json.dumps([query.model_dump(mode="json") for query in queries], ensure_ascii=False, indent=2))
        return
    console = Console()
    for query in queries:
        kind = "extractive, no LLM" if query.answer_kind == "extractive" else query.model or ""
        console.print(f"[bold]{escape(query.spec.label)}[/bold] ({escape(kind)})", highlight=False)
        text = (
            query.error
            if query.status == "failed"
            else query.answer
            if query.answered
            else "The documents do not answer this."
        )
        console.print(escape(text or ""), highlight=False)
        for hit in query.retrieved:
            place = " > ".join(hit.chunk.heading_path) or hit.chunk.document_name
            console.print(f"  {hit.rank}. {hit.score:.3f} {escape(place)}", style="dim", highlight=False)


def _benchmark(options: argparse.Namespace) -> None:
    data = _read(options.questions)
    with Workbench.open() as workbench:
        documents = None
        if options.documents:
            documents = [
                workbench.add_document(_read(path), path.name).document.document_id for path in options.documents
            ]
        question_set = workbench.add_question_set(data, options.questions.name, documents)
        plan = workbench.plan(question_set.question_set_id, _specs(workbench, options.strategy), documents)
        experiment = workbench.benchmark(plan, _progress())
    if options.json:
        print(experiment.model_dump_json(indent=2))
    else:
        _print_table(experiment)


def _demo(_: argparse.Namespace) -> None:
    began = time.perf_counter()
    with Workbench.open() as workbench:
        question_set = workbench.load_samples()
        plan = workbench.plan(question_set.question_set_id, _specs(workbench, ()), name="Demo")
        experiment = workbench.benchmark(plan, _progress())
    _print_table(experiment)
    sys.stderr.write(
        f"{len(experiment.specs)} strategies, {len(experiment.questions)} questions, "
        f"{len(experiment.documents)} documents in {time.perf_counter() - began:.1f} s.\n"
    )


def _progress() -> Callable[[Event], None]:
    """One plain line per finished stage of a strategy, on standard error."""

    def show(event: Event) -> None:
        if event.error:
            sys.stderr.write(f"{event.spec.label}: {event.error}\n")
        elif event.done == event.total:
            words = {"index": "indexed", "ask": "asked all questions"}
            sys.stderr.write(f"{event.spec.label}: {words[event.stage]}\n")

    return show


def _print_table(experiment: Experiment) -> None:
    table = Table(title=f"{experiment.name}: {len(experiment.questions)} questions", title_justify="left")
    table.add_column("strategy", no_wrap=True)
    for heading in ("chunks", *DEMO_METRICS, "n"):
        table.add_column(heading, justify="right")
    for result in experiment.results:
        if result.status == "failed":
            table.add_row(escape(result.spec.label), f"failed: {escape(result.error or '')}")
            continue
        values = {value.metric: value for value in result.metrics}
        cells = [_shown(values[name].value) if name in values else "-" for name in DEMO_METRICS]
        n = max((value.n for value in result.metrics), default=0)
        table.add_row(escape(result.spec.label), str(result.chunk_count), *cells, str(n))
    Console(width=max(Console().width, 110)).print(table)


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value > 1.5 else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
