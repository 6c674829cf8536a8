"""Commands about question sets."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.cli.backend import Backend, find_document, find_question_set
from engine.cli.local import Local
from engine.cli.options import backend_options, chosen_documents, json_option, open_backend
from engine.cli.output import NO, OK, print_json, print_table, read, say
from engine.providers.estimate import CallsEstimate
from engine.workbench import Workbench


def add_commands(commands: Any) -> None:
    questions = commands.add_parser("questions", help="list, validate and draft question sets")
    actions = questions.add_subparsers(required=True, metavar="ACTION")
    backend = backend_options()

    listing = actions.add_parser("list", parents=[backend], help="all stored question sets, newest first")
    json_option(listing)
    listing.set_defaults(command=_list)

    validate = actions.add_parser(
        "validate",
        parents=[backend],
        help="find the evidence of a set in the documents and say what would make its numbers wrong",
    )
    validate.add_argument("questions", help="a file (JSON, JSONL or CSV), which is stored, or a stored set")
    validate.add_argument("--document", action="append", default=[], help="id or name; default: all documents")
    json_option(validate)
    validate.set_defaults(command=_validate)

    draft = actions.add_parser(
        "draft", help="draft questions from documents, by rules or with the chat model, to be reviewed"
    )
    draft.add_argument("documents", nargs="*", metavar="DOCUMENT", help="ids or names; default: all")
    draft.add_argument("--count", type=int, default=20, metavar="N", help="questions wanted; default: 20")
    draft.add_argument("--seed", type=int, default=0, metavar="N", help="another seed drafts others; default: 0")
    draft.add_argument(
        "--with-model", action="store_true", help="let the chat model write them; default: rules, no model"
    )
    draft.add_argument("--dry-run", action="store_true", help="with --with-model: say what it would cost, call nothing")
    json_option(draft)
    draft.set_defaults(command=_draft)


def stored_set(backend: Backend, given: str, document_ids: list[str] | None) -> str:
    """The id of a stored set, or of the file that was named, which is stored now."""
    path = Path(given)
    if not path.exists() and any(given in (each.question_set_id, each.name) for each in backend.question_sets()):
        return find_question_set(backend, given)
    return backend.add_questions(read(path), path.name, document_ids).question_set_id


def _list(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        found = backend.question_sets()
    if options.json:
        print_json(found)
    else:
        print_table(
            ("id", "name", "questions"), [(each.question_set_id[:12], each.name, each.question_count) for each in found]
        )


def _validate(options: argparse.Namespace) -> int:
    with closing(open_backend(options)) as backend:
        set_id = stored_set(backend, options.questions, chosen_documents(backend, options.document))
        question_set = backend.question_set(set_id)
        findings = backend.check_questions(set_id)
    errors = sum(each.severity == "error" for each in findings)
    if options.json:
        print_json({"question_set_id": set_id, "usable": not errors, "findings": findings})
        return NO if errors else OK
    texts = {question.question_id: question.question for question in question_set.questions}
    for each in findings:
        about = texts.get(each.question_id or "", "the set")
        print(f"{each.severity}\t{about}\t{each.message}")
    quotes = [evidence for question in question_set.questions for evidence in question.evidence]
    found = sum(bool(evidence.gold) for evidence in quotes)
    say(f"{len(texts)} questions, {found} of {len(quotes)} quotes found, {errors} errors. Stored as {set_id}.")
    return NO if errors else OK


def _draft(options: argparse.Namespace) -> None:
    with Workbench.open() as workbench:
        backend = Local(workbench)
        chosen = [find_document(backend, each) for each in options.documents]
        chosen = chosen or [each.document_id for each in workbench.documents()]
        if options.dry_run:
            _draft_cost(workbench.draft_estimate(chosen, options.count, options.seed), options.json)
            return
        drafted = (
            workbench.draft_with_model(chosen, options.count, options.seed).question_set
            if options.with_model
            else workbench.draft_question_set(chosen, options.count, options.seed)
        )
    if options.json:
        print_json(drafted)
    else:
        for question in drafted.questions:
            print(f"{question.question}\t{question.answer or ''}")
    say(f"{len(drafted.questions)} questions drafted, to be reviewed. Stored as {drafted.question_set_id}.")


def _draft_cost(cost: CallsEstimate | None, as_json: bool) -> None:
    if as_json:
        print_json(cost)
    elif cost is None:
        say("No chat model is configured: drafting by rules calls none and costs nothing.")
    else:
        price = "price unknown" if cost.most_cost_usd is None else f"at most {cost.most_cost_usd:.4f} USD"
        print(f"{cost.calls} calls to {cost.model}, {cost.cached_calls} more from the cache, {price}.")
