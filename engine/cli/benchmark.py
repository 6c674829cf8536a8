"""Commands that run benchmarks: with a plan of one's own, and the demo on the samples."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.bench.conclude import conclusions
from engine.bench.dry_run import DryRun
from engine.cli.backend import Backend, Order, find_experiment
from engine.cli.local import Local
from engine.cli.options import backend_options, grid_option, json_option, open_backend, specs, strategy_option
from engine.cli.output import FAILED, INTERRUPTED, OK, print_json, print_table, read, say
from engine.cli.progress import watch
from engine.cli.questions import stored_set
from engine.errors import BadDocument, BadRequest
from engine.recommend import PRIMARY_METRICS, primary_metric
from engine.records import Experiment
from engine.workbench import Workbench

SEARCHED_METRICS = ("recall@1000tok", "precision@1000tok", "mrr")
"""Measures of the searched chunks that stand beside those the verdict rests on."""


def add_commands(commands: Any) -> None:
    benchmark = commands.add_parser(
        "benchmark", parents=[backend_options()], help="measure strategies on a question set"
    )
    benchmark.add_argument(
        "questions", nargs="?", help="question set: a file (JSON, JSONL or CSV), or the id or name of a stored one"
    )
    benchmark.add_argument(
        "--documents",
        type=Path,
        nargs="*",
        default=[],
        metavar="FILE",
        help="files to add first; by default the stored documents are used",
    )
    strategy_option(benchmark, many=True)
    grid_option(benchmark)
    benchmark.add_argument("--name", help="name of the experiment; default: that of the question set")
    benchmark.add_argument("--top-k", type=int, metavar="K", help="chunks retrieved; default: TOP_K of the settings")
    benchmark.add_argument(
        "--retriever", choices=["vector", "lexical", "hybrid"], default="vector", help="default: vector"
    )
    benchmark.add_argument("--judge", action="store_true", help="have the judge model score the answers")
    benchmark.add_argument(
        "--closed-book",
        action="store_true",
        help="also let the chat model answer from memory, as a baseline of the answers",
    )
    benchmark.add_argument(
        "--batch",
        action="store_true",
        help="send answers and verdicts through the provider's batch endpoint: overnight, at half the price",
    )
    benchmark.add_argument(
        "--baseline", metavar="SPEC", help="the strategy the others are compared with; default: the first"
    )
    benchmark.add_argument("--no-answers", action="store_true", help="only search, answer nothing")
    benchmark.add_argument("--repeats", type=int, default=1, metavar="N", help="answer every question N times")
    benchmark.add_argument("--seed", type=int, default=0, metavar="N", help="seed of repeats; default: 0")
    benchmark.add_argument(
        "--budget", type=float, metavar="USD", help="stop before it would cost more; what is finished is kept"
    )
    benchmark.add_argument(
        "--dry-run", action="store_true", help="only say what it would call and cost; calls no model"
    )
    benchmark.add_argument("--resume", metavar="ID", help="go on with an experiment that was stopped or failed")
    json_option(benchmark)
    benchmark.set_defaults(command=_benchmark)

    demo = commands.add_parser("demo", help="load the samples and compare seven strategies on their questions")
    demo.set_defaults(command=_demo)


def _benchmark(options: argparse.Namespace) -> int:
    if (options.questions is None) == (options.resume is None):
        raise BadRequest("Name a question set, or an experiment to go on with after --resume. Nothing was run.")
    wanted = specs(options)
    with closing(open_backend(options)) as backend:
        if options.resume is not None:
            return _finish(backend, backend.resume(find_experiment(backend, options.resume), options.budget), options)
        documents = _added(backend, options.documents)
        order = Order(
            stored_set(backend, options.questions, documents),
            None if documents is None else tuple(documents),
            tuple(wanted),
            options.baseline,
            {
                "name": options.name,
                "top_k": options.top_k,
                "retriever": options.retriever,
                "judge": options.judge,
                "closed_book": options.closed_book,
                "batch": options.batch,
                "answers": not options.no_answers,
                "repeats": options.repeats,
                "seed": options.seed,
                "budget_usd": options.budget,
            },
        )
        if options.dry_run:
            estimate = backend.dry_run(order)
            print_json(estimate) if options.json else _print_estimate(estimate)
            return OK
        return _finish(backend, backend.start(order), options)


def _added(backend: Backend, paths: list[Path]) -> list[str] | None:
    """Ids of the files; None, which means all documents, when there are none. Raises BadDocument for the first that cannot be read."""
    ids = []
    for path in paths:
        read(path)
        for file in backend.add(path):
            if file.added is None:
                raise BadDocument(file.error or f"{path} cannot be read.")
            ids.append(file.added.document.document_id)
    return ids or None


def _finish(backend: Backend, job_id: str, options: argparse.Namespace) -> int:
    try:
        job = watch(backend, job_id)
    except KeyboardInterrupt:
        say("Stopping after what is being done. Press Ctrl-C again to leave at once.")
        backend.cancel(job_id)
        watch(backend, job_id)
        say(f"Stopped. What is finished is kept. Go on with: python -m engine benchmark --resume {job_id}")
        return INTERRUPTED
    experiment = backend.experiment(job_id, queries=options.json)
    if options.json:
        print_json(experiment)
    else:
        print_experiment(experiment)
    if job.state == "finished":
        return OK
    say(job.error or experiment.error or f"The benchmark was {job.state}.")
    say(f"What is finished is kept. Go on with: python -m engine benchmark --resume {job_id}")
    return FAILED


def _demo(_: argparse.Namespace) -> int:
    began = time.perf_counter()
    with Workbench.open() as workbench:
        backend = Local(workbench)
        question_set = workbench.load_samples()
        plan = workbench.sample_plan(question_set).model_copy(update={"name": "Demo"})
        job_id = workbench.submit(plan).job_id
        job = watch(backend, job_id)
        experiment = workbench.experiment(job_id, queries=False)
    print_experiment(experiment)
    say(
        f"{len(experiment.specs)} strategies, {len(experiment.questions)} questions, "
        f"{len(experiment.documents)} documents in {time.perf_counter() - began:.1f} s."
    )
    return OK if job.state == "finished" else FAILED


def print_experiment(experiment: Experiment) -> None:
    """The strategies of an experiment: what its verdict rests on first, then measures of the searched chunks."""
    shown = _shown_metrics(experiment)
    rows: list[list[object]] = []
    for result in experiment.results:
        if result.status == "failed":
            rows.append([result.spec.label, f"failed: {result.error or ''}", *[None] * (len(shown) + 1)])
            continue
        values = {value.metric: value for value in result.metrics}
        cells = [values[name].value if name in values else None for name in shown]
        n = values[shown[0]].n if shown[0] in values else 0
        rows.append([result.spec.label, result.chunk_count, *cells, n])
    print_table(("strategy", "chunks", *shown, "n"), rows, f"{experiment.name}: {len(experiment.questions)} questions")
    concluded = conclusions(experiment)
    if concluded is not None:
        say(concluded.recommendation)


def _shown_metrics(experiment: Experiment) -> tuple[str, ...]:
    """The metric that decides, the tokens that break a tie, and measures of what was searched."""
    decides = primary_metric(experiment) or PRIMARY_METRICS[0]
    cost = f"delivered.tokens@{experiment.plan.top_k}"
    return (decides, cost, *(name for name in SEARCHED_METRICS if name != decides))


def _print_estimate(estimate: DryRun) -> None:
    rows = [
        (
            stage.stage,
            stage.model,
            stage.calls.expected,
            stage.cached_calls,
            stage.input_tokens.expected,
            stage.output_tokens.expected,
            "unknown" if stage.cost_usd is None else f"{stage.cost_usd.low:.4f} to {stage.cost_usd.high:.4f}",
        )
        for stage in estimate.stages
    ]
    print_table(("stage", "model", "calls", "from cache", "tokens in", "tokens out", "USD"), rows)
    for each in estimate.specs:
        if each.problem:
            print(f"{each.spec.label}: {each.problem}")
    for note in estimate.notes:
        print(note)
    cost = "unknown cost" if estimate.estimated_cost_usd is None else f"about {estimate.estimated_cost_usd:.4f} USD"
    night = estimate.overnight_cost_usd
    if night is not None and estimate.estimated_cost_usd is not None and night < estimate.estimated_cost_usd:
        print(f"Overnight (--batch) about {night:.4f} USD.")
    print(f"{estimate.answers_in_words()}. {estimate.estimated_calls:,} calls, {cost}. Nothing was called.")
