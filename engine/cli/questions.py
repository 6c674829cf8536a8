"""Commands about question sets."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.cli.backend import Backend, find_document, find_question_set
from engine.cli.options import backend_options, chosen_documents, json_option, open_backend
from engine.cli.output import NO, OK, print_estimate, print_json, print_table, read, say
from engine.errors import BadRequest
from engine.records import QuestionSet


def add_commands(commands: Any) -> None:
    questions = commands.add_parser("questions", help="list, validate and draft question sets, choose among copies")
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
        "draft",
        parents=[backend],
        help="draft questions from documents, by rules or with the chat model, to be reviewed",
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

    choose = actions.add_parser(
        "choose",
        parents=[backend],
        help="show quotes that stand in several places, or say which place of one is the evidence",
    )
    choose.add_argument("questions", help="id or name of a stored set")
    choose.add_argument(
        "question", nargs="?", help="id of the question; without it, the quotes and their places are shown"
    )
    choose.add_argument(
        "--quote", type=int, default=1, metavar="N", help="which quote of the question; default: 1, the first"
    )
    which = choose.add_mutually_exclusive_group()
    which.add_argument("--place", type=int, metavar="N", help="the place that counts, from 1")
    which.add_argument("--every-copy", action="store_true", help="every place counts")
    json_option(choose)
    choose.set_defaults(command=_choose)


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
        chosen = chosen_documents(backend, options.document)
        set_id = stored_set(backend, options.questions, chosen)
        findings = backend.check_questions(set_id, chosen)
        question_set = backend.question_set(set_id)
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
    say(f"Questions: {len(texts)}. Quotes found: {found} of {len(quotes)}. Errors: {errors}. Stored as {set_id}.")
    return NO if errors else OK


def _draft(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        chosen = [find_document(backend, each) for each in options.documents]
        chosen = chosen or [each.document_id for each in backend.documents()]
        if not chosen:
            raise BadRequest("There are no documents yet. Nothing was drafted. Add one with `documents add PATH`.")
        if options.dry_run:
            cost = backend.draft_estimate(chosen, options.count, options.seed)
            print_estimate(
                cost, "No chat model is configured: drafting by rules calls none and costs nothing.", options.json
            )
            return
        drafted = backend.draft(chosen, options.count, options.seed, options.with_model)
    if options.json:
        print_json(drafted)
    else:
        for question in drafted.questions:
            print(f"{question.question}\t{question.answer or ''}")
    say(f"{len(drafted.questions)} questions drafted, to be reviewed. Stored as {drafted.question_set_id}.")


def _choose(options: argparse.Namespace) -> None:
    says = options.place is not None or options.every_copy
    if says != (options.question is not None):
        raise BadRequest(
            "Name a question together with --place N or --every-copy, or neither to see the places. Nothing was changed."
        )
    if min(options.quote, options.place or 1) < 1:
        raise BadRequest("Quotes and places count from 1. Nothing was changed.")
    with closing(open_backend(options)) as backend:
        set_id = find_question_set(backend, options.questions)
        if says:
            copy = None if options.every_copy else options.place - 1
            question_set = backend.choose_copy(set_id, options.question, options.quote - 1, copy)
        else:
            question_set = backend.question_set(set_id)
        names = {info.document_id: info.name for info in backend.documents()}
    print_json(question_set) if options.json else _print_places(question_set, names, options.question)


def _print_places(question_set: QuestionSet, names: dict[str, str], question_id: str | None) -> None:
    """The places of repeated quotes, of one question or of all, numbered as they are chosen."""
    rows = [
        (
            question.question_id,
            quote,
            place,
            "counts" if gold in item.gold else "-",
            names.get(gold.document_id, "a document that is gone"),
            gold.unit,
            gold.span.start,
            item.quote[:60],
        )
        for question in question_set.questions
        if question_id in (None, question.question_id)
        for quote, item in enumerate(question.evidence, start=1)
        for place, gold in enumerate(item.candidates, start=1)
    ]
    if rows:
        print_table(("question", "quote", "place", "counts", "document", "unit", "character", "text"), rows)
    else:
        say("No quote stands in several places.")
