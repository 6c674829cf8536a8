"""The command that asks one question."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from rich.console import Console
from rich.markup import escape

from engine.cli.options import backend_options, chosen_documents, json_option, open_backend, specs, strategy_option
from engine.cli.output import FAILED, OK, print_json
from engine.records import Query


def add_commands(commands: Any) -> None:
    ask = commands.add_parser(
        "ask",
        parents=[backend_options()],
        help="ask one question of the stored documents, under one or more strategies",
    )
    ask.add_argument("question")
    strategy_option(ask, many=True)
    ask.add_argument("--top-k", type=int, metavar="K", help="chunks retrieved; default: TOP_K of the settings")
    ask.add_argument("--document", action="append", default=[], help="id or name of a document to search; default: all")
    json_option(ask)
    ask.set_defaults(command=_ask)


def _ask(options: argparse.Namespace) -> int:
    with closing(open_backend(options)) as backend:
        queries = backend.ask(
            options.question, specs(options), chosen_documents(backend, options.document), options.top_k
        )
    if options.json:
        print_json(queries)
    else:
        for query in queries:
            _print(query)
    return FAILED if all(query.status == "failed" for query in queries) else OK


def _print(query: Query) -> None:
    console = Console()
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
        place = " > ".join((hit.chunk.document_name, *hit.chunk.heading_path))
        console.print(f"  {hit.rank}. {hit.score:.3f} {escape(place)}", style="dim", highlight=False)
