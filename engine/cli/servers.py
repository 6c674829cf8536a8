"""Commands about server stores: moving to them and back, how their collections are made, what approximate search misses."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.cli.options import json_option
from engine.cli.output import print_json, print_table, say
from engine.errors import BadRequest, NotFound
from engine.settings import load_settings
from engine.store import transfer
from engine.store.transfer import Places
from engine.workbench import Workbench


def add_commands(commands: Any) -> None:
    migrate = commands.add_parser(
        "migrate",
        help="move everything from the data folder to the servers of DATABASE_URL and QDRANT_URL, or back, and check it; "
        "stop every Chunkscope first",
    )
    migrate.add_argument("direction", choices=["to-servers", "to-folder"], help="where it goes")
    migrate.add_argument("--folder", type=Path, metavar="DIR", help="the data folder (default DATA_DIR)")
    migrate.add_argument(
        "--replace", action="store_true", help="empty the target first, instead of refusing one that holds other data"
    )
    json_option(migrate)
    migrate.set_defaults(command=_migrate)

    vectors = commands.add_parser("vectors", help="collections of vectors on a Qdrant server")
    actions = vectors.add_subparsers(required=True, metavar="ACTION")
    recall = actions.add_parser("recall", help="measure what approximate search misses, on the vectors that are stored")
    recall.add_argument("--queries", type=int, default=100, metavar="N", help="stored vectors to ask for (default 100)")
    recall.add_argument("--k", type=int, default=10, help="nearest chunks that count (default 10)")
    json_option(recall)
    recall.set_defaults(command=_recall)
    renew = actions.add_parser(
        "renew",
        help="copy every collection into one made with the QDRANT settings of now; searches go on, no model is called",
    )
    renew.set_defaults(command=_renew)


def _migrate(options: argparse.Namespace) -> None:
    settings = load_settings()
    folder = options.folder or settings.data_dir
    if options.direction == "to-servers" and not folder.is_dir():
        # Opening the folder would make it.
        raise NotFound(
            f"There is no folder {folder}. Nothing was changed. Name the data folder with --folder or DATA_DIR."
        )
    with Places(settings, folder) as places:
        source, target = places.embedded, places.servers
        if options.direction == "to-folder":
            source, target = target, source
        moved = transfer.move(source, target, say, replace=options.replace)
    if options.json:
        print_json([each._asdict() for each in moved])
    else:
        print_table(
            ("kind", "name", "size", "digest"),
            [(each.kind, each.name, f"{each.size:,}", each.digest) for each in moved],
            "The same in source and target",
        )
    say(
        "Moved. Start Chunkscope with DATABASE_URL and QDRANT_URL."
        if options.direction == "to-servers"
        else "Moved. Start Chunkscope without DATABASE_URL and QDRANT_URL."
    )


def _recall(options: argparse.Namespace) -> None:
    if options.queries < 1 or options.k < 1:
        raise BadRequest("--queries and --k must be 1 or more. Nothing was measured.")
    with Workbench.open() as workbench:
        found = workbench.measure_recall(options.queries, options.k)
    if options.json:
        print_json([each._asdict() for each in found])
        return
    print_table(
        ("collection", "queries", f"recall@{options.k}", "worst", "exact, ms", "approximate, ms"),
        [
            (
                each.collection,
                each.queries,
                "" if each.mean is None else f"{each.mean:.4f}",
                "" if each.worst is None else f"{each.worst:.2f}",
                f"{1000 * each.exact_seconds:.2f}",
                f"{1000 * each.approximate_seconds:.2f}",
            )
            for each in found
        ],
    )


def _renew(_: argparse.Namespace) -> None:
    with Workbench.open() as workbench:
        renewed = workbench.renew_collections()
    for name, points in renewed.items():
        say(f"{name}: {points:,} points copied")
    say(f"Renewed {len(renewed)} collections.")
