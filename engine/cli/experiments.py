"""Commands about stored experiments."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from engine import report
from engine.cli.backend import Backend, find_experiment
from engine.cli.benchmark import print_experiment
from engine.cli.options import backend_options, json_option, open_backend
from engine.cli.output import CANNOT_TELL, NO, OK, print_json, print_table, say
from engine.errors import BadRequest
from engine.files import replacing
from engine.report import Exported


def add_commands(commands: Any) -> None:
    experiments = commands.add_parser("experiments", help="list, show, compare and export what was measured")
    actions = experiments.add_subparsers(required=True, metavar="ACTION")
    backend = backend_options()

    listing = actions.add_parser("list", parents=[backend], help="all experiments, newest first")
    json_option(listing)
    listing.set_defaults(command=_list)

    show = actions.add_parser("show", parents=[backend], help="one experiment; with --json the whole record")
    show.add_argument("experiment", help="id, the beginning of one, or name")
    json_option(show)
    show.set_defaults(command=_show)

    compare = actions.add_parser("compare", parents=[backend], help="two to four experiments against the first")
    compare.add_argument("experiments", nargs="+", metavar="EXPERIMENT", help="ids, beginnings of ids, or names")
    json_option(compare)
    compare.set_defaults(command=_compare)

    export = actions.add_parser("export", parents=[backend], help="write an experiment to a file")
    export.add_argument("experiment", help="id, the beginning of one, or name")
    export.add_argument("--format", choices=report.FORMATS, default="json", help="default: json")
    export.add_argument("--output", type=Path, metavar="FILE", help="default: a name made from the experiment's")
    export.set_defaults(command=_export)

    reporting = actions.add_parser(
        "report", parents=[backend], help="write the report: one HTML file that opens offline"
    )
    reporting.add_argument("experiment", help="id, the beginning of one, or name")
    reporting.add_argument("--output", type=Path, metavar="FILE", help="default: a name made from the experiment's")
    reporting.set_defaults(command=_export, format="html")

    check = commands.add_parser(
        "check",
        parents=[backend],
        help="is an experiment worse than its baseline by more than it may be?",
        description="Exit code 0: it is not. 3: it is, and the whole interval says so. 4: there are too few questions to tell.",
    )
    check.add_argument("--baseline", metavar="ID", help="default: the newest experiment that is marked as a baseline")
    check.add_argument("--candidate", metavar="ID", help="default: the newest finished experiment besides the baseline")
    check.add_argument("--metric", default="recall@1000tok", help="default: recall@1000tok")
    check.add_argument(
        "--max-drop", type=float, default=0.02, metavar="DROP", help="how much worse it may be; default: 0.02"
    )
    json_option(check)
    check.set_defaults(command=_check)


def _list(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        found = backend.experiments()
    if options.json:
        print_json(found)
        return
    rows = [
        (
            each.experiment_id[:12],
            each.name,
            each.status,
            f"{each.created_at:%Y-%m-%d %H:%M}",
            len(each.spec_labels),
            each.question_count,
        )
        for each in found
    ]
    print_table(("id", "name", "status", "begun", "strategies", "questions"), rows)


def _show(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        found = backend.experiment(find_experiment(backend, options.experiment), queries=options.json)
    if options.json:
        print_json(found)
        return
    print_experiment(found)
    print(f"Id {found.experiment_id}, {found.status}, embeddings by {found.embedding_model}")
    if found.error:
        print(found.error)


def _compare(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        found = backend.compare([find_experiment(backend, each) for each in options.experiments])
    if options.json:
        print_json(found)
        return
    for setting in found.settings:
        print(f"{setting.name}: {' | '.join(setting.values)}")
    names = dict(zip(found.experiment_ids, found.names, strict=True))
    rows = [
        (
            names[each.experiment_id],
            each.label,
            each.metric,
            each.n,
            each.baseline_mean,
            each.mean,
            "-" if each.difference is None else f"{each.difference:+.3f}",
            "-" if each.low is None or each.high is None else f"{each.low:+.3f} to {each.high:+.3f}",
        )
        for each in found.metrics
    ]
    print_table(
        (
            "experiment",
            "strategy",
            "metric",
            "n",
            names[found.experiment_ids[0]],
            "here",
            "difference",
            "95 % interval",
        ),
        rows,
        f"{found.common_questions} common questions",
    )
    for note in found.notes:
        print(note)


def _export(options: argparse.Namespace) -> None:
    with closing(open_backend(options)) as backend:
        exported = backend.export(find_experiment(backend, options.experiment), options.format)
        _write(options.output or Path(exported.name), exported)


def _write(path: Path, exported: Exported) -> None:
    """Write a file and say so; one that was there stays until the new one is whole. Raises BadRequest in words."""
    try:
        # A link, or standard output under its name, is written to and not replaced.
        plain = not path.is_symlink() and (path.is_file() or not path.exists())
        with replacing(path) if plain else path.open("wb") as out:
            exported.write(out)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
    say(f"Wrote {path}.")


def _check(options: argparse.Namespace) -> int:
    with closing(open_backend(options)) as backend:
        baseline, candidate = _pair(backend, options)
        found = backend.check(baseline, candidate, options.metric, options.max_drop)
    if options.json:
        print_json(found)
    else:
        for spec in found.specs:
            print(spec.words)
        print(found.words)
    return {"pass": OK, "regression": NO, "cannot_tell": CANNOT_TELL}[found.outcome]


def _pair(backend: Backend, options: argparse.Namespace) -> tuple[str, str]:
    """The ids of baseline and candidate. Raises BadRequest where one was neither named nor can be found."""
    known = backend.experiments()
    if options.baseline is not None:
        baseline = find_experiment(backend, options.baseline)
    else:
        marked = [each.experiment_id for each in known if each.baseline]
        if not marked:
            raise BadRequest("No experiment is marked as a baseline. Name one with --baseline, or mark one in History.")
        baseline = marked[0]
    if options.candidate is not None:
        return baseline, find_experiment(backend, options.candidate)
    others = [each.experiment_id for each in known if each.status == "finished" and each.experiment_id != baseline]
    if not others:
        raise BadRequest("There is no finished experiment besides the baseline. Run a benchmark, then check again.")
    return baseline, others[0]
