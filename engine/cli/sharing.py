"""Commands that let every user read something, or no longer."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from typing import Any

from engine.cli.backend import Backend, find_document, find_experiment, find_question_set
from engine.cli.options import backend_options, json_option, open_backend
from engine.cli.output import print_json, say
from engine.store.owners import Kind

KINDS: dict[str, tuple[Kind, Callable[[Backend, str], str]]] = {
    "document": ("document", find_document),
    "question-set": ("question set", find_question_set),
    "experiment": ("experiment", find_experiment),
}
"""As the command line writes them."""


def add_commands(commands: Any) -> None:
    share = commands.add_parser(
        "share",
        parents=[backend_options()],
        help="let everyone who signs in read a document, question set or experiment",
        description="Only its owner, and who runs this installation, can still change it.",
    )
    unshare = commands.add_parser("unshare", parents=[backend_options()], help="let only its owner read it again")
    for parser, shared in ((share, True), (unshare, False)):
        parser.add_argument("kind", choices=KINDS)
        parser.add_argument("id", help="id, the beginning of one, or name")
        json_option(parser)
        parser.set_defaults(command=_share, shared=shared)


def _share(options: argparse.Namespace) -> None:
    kind, find = KINDS[options.kind]
    with closing(open_backend(options)) as backend:
        item_id = find(backend, options.id)
        shared = backend.share(kind, item_id, options.shared)
    if options.json:
        print_json({"kind": kind, "id": item_id, "shared": shared})
    who = "Everyone who signs in" if shared else "Only its owner"
    say(f"{who} can read the {kind} {item_id}.")
