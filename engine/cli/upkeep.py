"""Commands about models, caches, the index, keys, and the check of our measures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine import keys
from engine.cli.options import json_option
from engine.cli.output import NO, OK, print_json, print_table, say
from engine.errors import BadRequest
from engine.providers import guide
from engine.providers.prices import load_prices
from engine.settings import load_settings
from engine.validate import validate
from engine.workbench import Workbench


def add_commands(commands: Any) -> None:
    checking = commands.add_parser(
        "validate", help="check our measures against published ones, on the files of that publication"
    )
    checking.add_argument("folder", type=Path, help="folder with corpora/*.md and questions_df.csv")
    json_option(checking)
    checking.set_defaults(command=_validate)

    models = commands.add_parser("models", help="embedding models to choose from, and what changing the model means")
    json_option(models)
    models.set_defaults(command=_models)

    cache = commands.add_parser("cache", help="size of the caches of model answers, and how to make them smaller")
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    size = actions.add_parser("size", help="entries and bytes of each cache")
    json_option(size)
    size.set_defaults(command=_cache_size)
    prune = actions.add_parser("prune", help="drop what was not used for longest; it would be paid for again")
    prune.add_argument("--keep-mb", type=float, required=True, metavar="MB", help="megabytes to keep in each cache")
    prune.set_defaults(command=_cache_prune)

    reindex = commands.add_parser(
        "reindex", help="drop the vectors of all documents, so that they are indexed with the model that is set now"
    )
    reindex.set_defaults(command=_reindex)

    key = commands.add_parser("api-key", help="make a key of the REST API")
    key.add_argument("name", help="who uses it: letters, digits, dots, dashes and underscores")
    key.set_defaults(command=_api_key)


def _validate(options: argparse.Namespace) -> int:
    found = validate(options.folder, lambda label: say(f"{label}: measured"))
    if options.json:
        print_json(found)
    else:
        rows = [
            (
                row.label,
                row.chunks,
                f"{row.mean:.1f} ± {row.deviation:.1f}",
                f"{row.published_mean:.1f} ± {row.published_deviation:.1f}",
            )
            for row in found.rows
        ]
        print_table(
            ("splitter", "chunks", "measured, %", "published, %"),
            rows,
            f"Precision-omega over {found.questions} questions",
        )
        if not found.comparable:
            print("These are not the published files, so the published figures are only beside the measured ones.")
    return NO if found.comparable and not found.agrees else OK


def _models(options: argparse.Namespace) -> None:
    settings = load_settings()
    prices = load_prices(settings.prices_file)
    used = settings.resolved_embedding_model
    if options.json:
        rows = [
            {
                **model._asdict(),
                "runs": model.runs,
                "usd_per_million_tokens": model.price(prices),
                "used": model.name == used,
            }
            for model in guide.EMBEDDING_MODELS
        ]
        print_json({"models": rows, "switching": guide.SWITCHING})
        return
    print_table(
        ("model", "runs", "dimensions", "languages", "longest input", "USD per million tokens", "best for"),
        [
            (
                f"{model.name} (in use)" if model.name == used else model.name,
                model.place,
                model.dimension,
                model.languages,
                model.max_input_tokens,
                "unknown" if model.price(prices) is None else f"{model.price(prices):g}",
                model.best_for,
            )
            for model in guide.EMBEDDING_MODELS
        ],
    )
    print(guide.SWITCHING)


def _cache_size(options: argparse.Namespace) -> None:
    with Workbench.open() as workbench:
        sizes = workbench.cache_sizes()
    if options.json:
        print_json({name: size._asdict() for name, size in sizes.items()})
    else:
        print_table(
            ("cache", "entries", "MB"),
            [(name, size.entries, f"{size.bytes / 1e6:.1f}") for name, size in sizes.items()],
        )


def _cache_prune(options: argparse.Namespace) -> None:
    if options.keep_mb < 0:
        raise BadRequest(f"--keep-mb is {options.keep_mb:g}. It must be 0 or more. Nothing was dropped.")
    with Workbench.open() as workbench:
        dropped = workbench.prune_caches(int(options.keep_mb * 1_000_000))
    say(f"Dropped {dropped['vectors']:,} vectors and {dropped['replies']:,} replies.")


def _reindex(_: argparse.Namespace) -> None:
    with Workbench.open() as workbench:
        dropped = workbench.rebuild_index()
    say(f"Dropped {dropped} collections. Documents are indexed again when they are next searched, or with `index`.")


def _api_key(options: argparse.Namespace) -> None:
    key = keys.new_key()
    written = f"{options.name}:{keys.fingerprint(key)}"
    try:
        keys.parse(written)
    except ValueError:
        raise BadRequest(
            f"{options.name} is not a name of letters, digits, dots, dashes and underscores, at most 40. Choose another."
        ) from None
    say("The key, shown only now; its user sends it as `Authorization: Bearer KEY`:")
    say(key)
    say("For .env of the server; several are separated by commas:")
    print(f"API_KEYS={written}")
