"""Commands about documents and their chunks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.cli.backend import find_document
from engine.cli.options import backend_options, grid_option, json_option, open_backend, specs, strategy_option
from engine.cli.output import FAILED, OK, print_estimate, print_json, print_table, say, write
from engine.models import Node


def add_commands(commands: Any) -> None:
    documents = commands.add_parser("documents", help="add, list, show and delete documents")
    actions = documents.add_subparsers(required=True, metavar="ACTION")
    backend = backend_options()

    add = actions.add_parser("add", parents=[backend], help="read files, folders or zip archives and store them")
    add.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    json_option(add)
    add.set_defaults(command=_add)

    listing = actions.add_parser("list", parents=[backend], help="all documents, newest first")
    json_option(listing)
    listing.set_defaults(command=_list)

    show = actions.add_parser("show", parents=[backend], help="one document: what was kept of it, and its tree")
    show.add_argument("document", help="id, the beginning of one, or name")
    show.add_argument("--depth", type=int, default=2, help="levels of the tree to print; default: 2")
    json_option(show)
    show.set_defaults(command=_show)

    delete = actions.add_parser("delete", parents=[backend], help="remove a document, its chunks and its original")
    delete.add_argument("document", help="id, the beginning of one, or name")
    delete.set_defaults(command=_delete)

    chunk = commands.add_parser(
        "chunk",
        parents=[backend],
        help="print the chunks of a file or document, one JSON object per line; nothing is indexed",
    )
    chunk.add_argument("file", help="a file, which is not stored, or the id or name of a stored document")
    strategy_option(chunk)
    chunk.add_argument("--output", type=Path, metavar="FILE", help="write to this file instead")
    chunk.set_defaults(command=_chunk)

    enrich = commands.add_parser(
        "enrich",
        parents=[backend],
        help="let the chat model write a summary and keywords for every chunk of a stored document",
    )
    enrich.add_argument("document", help="id, the beginning of one, or name")
    strategy_option(enrich)
    enrich.add_argument("--dry-run", action="store_true", help="only say what it would cost; calls no model")
    json_option(enrich)
    enrich.set_defaults(command=_enrich)

    strategies = commands.add_parser("strategies", parents=[backend], help="what there is, and what each is for")
    json_option(strategies)
    strategies.set_defaults(command=_strategies)

    index = commands.add_parser("index", parents=[backend], help="make documents searchable under strategies")
    index.add_argument("documents", nargs="*", metavar="DOCUMENT", help="ids or names; default: all")
    strategy_option(index, many=True)
    grid_option(index)
    json_option(index)
    index.set_defaults(command=_index)


def _add(options: argparse.Namespace) -> int:
    files = []
    with closing(open_backend(options)) as backend:
        for path in options.paths:
            for file in backend.add(path):
                files.append(file)
                if file.error is not None:
                    say(file.error)
                elif file.added is not None and not options.json:
                    print(file.added.document.document_id, file.added.document.name, sep="\t")
    failed = [{"path": file.path, "error": file.error} for file in files if file.error is not None]
    if options.json:
        added = [{"document": file.added.document, "existed": file.added.existed} for file in files if file.added]
        print_json({"added": added, "failed": failed})
    elif failed and len(failed) < len(files):
        say(f"{len(files) - len(failed)} of {len(files)} files are stored.")
    return FAILED if failed or not files else OK


def _list(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        found = backend.documents()
    if options.json:
        print_json(found)
    else:
        rows = [
            (each.document_id[:12], each.name, each.token_count, each.structure.rule, len(each.warnings))
            for each in found
        ]
        print_table(("id", "name", "tokens", "structure", "warnings"), rows)


def _show(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        document_id = find_document(backend, options.document)
        (info,) = [each for each in backend.documents() if each.document_id == document_id]
        tree = backend.tree(document_id)
    if options.json:
        print_json({"document": info, "tree": tree})
        return
    print(f"{info.name}: {info.token_count:,} tokens, {info.media_type}, id {info.document_id}")
    print(f"{info.kept_characters:,} of {info.visible_characters:,} visible characters kept")
    print(f"Structure by {info.structure.rule}, confidence {info.structure.confidence}")
    for warning in info.warnings:
        print(f"{warning.message} ({warning.count})")
    for line in _outline(tree, options.depth):
        print(line)


def _outline(node: Node, depth: int, level: int = 0) -> Iterator[str]:
    for child in node.children:
        if level < depth and child.name:
            yield f"{'  ' * level}{child.name} [{child.span.start}:{child.span.end}]"
            yield from _outline(child, depth, level + 1)


def _delete(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        gone = backend.delete(find_document(backend, options.document))
    say(
        f"Deleted {gone.document.name} and {gone.chunks:,} chunks in {len(gone.collections)} collections. "
        f"{gone.experiments} experiments used it and stay."
    )


def _chunk(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        path = Path(options.file)
        known = {name for info in backend.documents() for name in (info.document_id, info.name)}
        if options.file in known and not path.exists():
            chunks = backend.chunks(find_document(backend, options.file), options.strategy)
        else:
            chunks = backend.preview(path, options.strategy)
    lines = [chunk.model_dump_json() for chunk in chunks]
    if options.output is not None:
        write(options.output, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
    else:
        for line in lines:
            print(line)


def _enrich(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        document_id = find_document(backend, options.document)
        if options.dry_run:
            cost = backend.enrich_estimate(document_id, options.strategy)
            print_estimate(
                cost,
                "No estimate: no chat model is configured, or a model has to make these chunks first. `index` makes them.",
                options.json,
            )
            return
        chunks = backend.enrich(document_id, options.strategy)
    if options.json:
        print_json(chunks)
    else:
        rows = [(each.chunk_index + 1, each.summary, ", ".join(each.keywords)) for each in chunks]
        print_table(("chunk", "summary", "keywords"), rows)
    say(f"{len(chunks):,} chunks. They keep this where the document is indexed under the strategy.")


def _strategies(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        found = backend.strategies()
    if options.json:
        print_json(found)
    else:
        rows = [
            (each.name, each.defaults.label.removeprefix(each.name).strip(), each.rule, each.unavailable_because or "")
            for each in found
        ]
        print_table(("name", "defaults", "rule", "cannot be used now"), rows)


def _index(options: argparse.Namespace) -> None:
    wanted = specs(options)
    with closing(open_backend(options)) as backend:
        names = {each.document_id: each.name for each in backend.documents()}
        chosen = [find_document(backend, each) for each in options.documents] or list(names)
        if not chosen:
            say("There are no documents yet. Add one with `documents add PATH`.")
        done = []
        for each in backend.index(chosen, wanted):
            done.append(each)
            if not options.json:
                how = "was indexed already" if each.reused else f"in {sum(each.seconds.values()):.2f} s"
                print(f"{each.spec.label}\t{names[each.document_id]}\t{each.chunks} chunks\t{how}")
    if options.json:
        print_json([each._asdict() for each in done])
