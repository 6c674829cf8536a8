"""Many readers while benchmarks run: how long a page action takes, what memory the app needs, and whether anything fails. Run from the repository:

    python -m benchmarks.sessions                     16 sessions, alone and beside 4 benchmarks, under four minutes
    python -m benchmarks.sessions --think 1           readers in a hurry

Starts `python -m app` on a free port with a data folder of its own, the samples and a generated corpus, and measures in this order: the sessions
alone, the benchmarks alone, both together. A session walks through the five pages: it changes pages, documents, strategies, parameters and
sections, searches, clicks chunks, asks a question, opens a finished benchmark and looks into it, searches the history. When one of the benchmarks
ends, the next one takes its place. Everything is bundled: no model server is called, so all work is this machine's.

Sessions are websocket clients that speak Streamlit's protocol and decode what they get (`streamlit_client.py`), because sixteen browsers
would need more than two cores for themselves. What a browser adds to draw is not in these figures; `benchmarks.dashboard --browser` measures it.
An action lasts from sending the change to the message that the script has finished. Exit code 1 when a page shows an error or does not answer,
a connection is closed, a benchmark fails, or fewer benchmarks than asked for were running.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from benchmarks import texts
from benchmarks.api_load import STRATEGIES, app
from benchmarks.dashboard import cpu_seconds
from benchmarks.scale import question_file
from benchmarks.scale_memory import resident
from benchmarks.streamlit_client import Session, SessionError

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("", "chunk_inspector", "ask", "benchmark", "history")
TITLES = dict(zip(PAGES, ("Upload", "Chunk Inspector", "Ask", "Benchmark", "History"), strict=True))
DOCUMENTS = 8
CHARACTERS = 28_000
"""Of one generated document."""
QUESTIONS = 400
"""Of each benchmark, under seven strategies."""
FINISHED = 4
"""Benchmarks that ended before the measurement, to open and to search among."""
ASKED = (
    "Who issues a licence?",
    "When is the annual report due?",
    "Who bears the final responsibility for technology risk?",
    "What does a passport contain?",
)


@dataclass
class Figures:
    """What was measured in one part of a run."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """By page and action."""
    answers: list[float] = field(default_factory=list)
    """From the question to its answers on the page, over several runs of it."""
    errors: list[str] = field(default_factory=list)
    received: int = 0
    """Bytes, by all sessions."""
    untold: int = 0
    """Actions whose end was taken from the run after them: see `Session.untold`."""

    def of(self, page: str | None = None) -> list[float]:
        return [value for (where, _), each in self.seconds.items() if page in (None, where) for value in each]


class _TimeIsOver(Exception):
    pass


class Reader:
    """One session that walks through the pages until the time is over."""

    def __init__(
        self, number: int, address: str, finished: list[str], running: list[str], think: float, until: float
    ) -> None:
        """`finished`, `running`: experiments to look at; the second list changes meanwhile."""
        self._number = number
        self._session = Session(address)
        self._finished = finished
        self._running = running
        self._think = think
        self._until = until
        self._random = random.Random(number)
        self._page = ""

    async def walk(self, figures: Figures) -> None:
        visits = (self._upload, self._inspector, self._ask, self._benchmark, self._history)
        try:
            async with self._session:
                try:
                    await asyncio.sleep(self._random.uniform(0, self._think))
                    await self._do(figures, "", "first visit", self._session.open)
                    turn = self._number
                    while True:
                        self._page = PAGES[turn % len(PAGES)]
                        await visits[turn % len(PAGES)](figures)
                        turn += 1
                finally:
                    figures.received += self._session.received
                    figures.untold += self._session.untold
        except _TimeIsOver:
            pass
        except (SessionError, OSError) as error:
            figures.errors.append(f"session {self._number} on {TITLES[self._page]}: {error}")

    async def _do(
        self, figures: Figures, page: str, action: str, work: Callable[[], Awaitable[float]], looks: int = 1
    ) -> None:
        """Act, note, think; `looks`: how long, in the time between two actions."""
        if time.perf_counter() > self._until:
            raise _TimeIsOver
        try:
            seconds = await work()
        except SessionError as error:
            raise SessionError(f"{action}: {error}") from None
        figures.seconds[TITLES[page], action].append(seconds)
        await asyncio.sleep(looks * self._random.uniform(0.5, 1.5) * self._think)

    async def _change(self, figures: Figures, action: str, **values: object) -> None:
        named = {key.replace("__", "."): value for key, value in values.items()}
        await self._do(figures, self._page, action, lambda: self._session.change(named))

    async def _visit(self, figures: Figures, query: str = "") -> None:
        await self._do(figures, self._page, "page change", lambda: self._session.go_to(self._page, query))

    def _options(self, key: str) -> list[str]:
        return list(self._session.widget(key).proto.options)

    async def _upload(self, figures: Figures) -> None:
        await self._visit(figures)
        await self._change(figures, "view", upload__view="Proportions")
        await self._change(
            figures, "another document", frame__document=self._random.choice(self._options("frame.document"))
        )
        await self._change(figures, "view", upload__view=self._random.choice(("Tree", "Canonical text")))

    async def _inspector(self, figures: Figures) -> None:
        await self._visit(figures)
        titles = self._options("inspector.0.strategy")
        fitting = [title for title in titles if "needs" not in title]
        await self._change(figures, "strategy", inspector__0__strategy=self._random.choice(fitting))
        for chunk in self._random.sample(range(8), 2):
            key = f"inspector.{self._random.randrange(2)}.overlay"
            await self._do(
                figures,
                self._page,
                "click on a chunk",
                functools.partial(self._session.change, {key: {"chosen": chunk}}),
            )
        if self._session.has_widget("inspector.1.parent_child.size"):
            size = self._random.randrange(100, 500)
            await self._do(
                figures,
                self._page,
                "parameter",
                lambda: self._session.change({"inspector.1.parent_child.size": size}),
            )
        await self._change(
            figures, "section", inspector__section=self._random.choice(("Quality", "Agreement", "Chunks"))
        )
        await self._change(
            figures, "search in the text", inspector__search=self._random.choice(("report", "the", "licence"))
        )
        await self._change(figures, "section", inspector__section="Sizes")

    async def _ask(self, figures: Figures) -> None:
        await self._visit(figures)
        question = f"{self._random.choice(ASKED)} ({self._number}, {self._random.randrange(10**6)})"
        submit = {"ask.question": question, "FormSubmitter:ask.form-Ask": True}
        await self._do(figures, self._page, "ask", lambda: self._shown_answers(figures, submit))
        await self._change(figures, "chunks retrieved", ask__top_k=self._random.randrange(3, 9))

    async def _shown_answers(self, figures: Figures, submit: dict[str, object]) -> float:
        began = time.perf_counter()
        seconds = await self._session.change(submit)
        await self._session.shows(lambda session: "Answers" in session.headings())
        figures.answers.append(time.perf_counter() - began)
        return seconds

    async def _benchmark(self, figures: Figures) -> None:
        await self._visit(figures, f"experiment={self._random.choice(self._finished)}")
        metrics = self._options("benchmark.metric")
        await self._change(figures, "metric", benchmark__metric=self._random.choice(metrics))
        await self._change(figures, "questions that differ", benchmark__only=False)
        tables = [each.id for each in self._session.elements("dataframe") if "benchmark.questions" in each.id]
        if tables:
            key = tables[0][tables[0].index("benchmark.questions") :]
            await self._do(
                figures,
                self._page,
                "one question",
                lambda: self._session.change({key: {"rows": [self._random.randrange(5)]}}),
            )

        if self._running:
            running = self._random.choice(self._running)
            # Its progress and its first results follow by themselves while it is looked at.
            await self._do(
                figures,
                self._page,
                "watch a running one",
                functools.partial(self._session.go_to, self._page, f"experiment={running}"),
                looks=3,
            )

    async def _history(self, figures: Figures) -> None:
        await self._visit(figures)
        for wanted in ("sample", ""):
            await self._change(figures, "search", history__find=wanted)
        await self._change(figures, "choose a row", history__table={"rows": [self._random.randrange(FINISHED)]})


class Watch:
    """Memory and CPU time of what this process has started, the app and its readers, every half second."""

    def __init__(self) -> None:
        self.part = ""
        self._points: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
        """By part of the run: (time, CPU seconds, MB allocated, MB mapped from files)."""

    async def look(self) -> None:
        while True:
            pids = await asyncio.to_thread(started)
            found = [resident(pid) for pid in pids]
            own, mapped = sum(each.own for each in found), sum(each.mapped for each in found)
            self._points[self.part].append((time.perf_counter(), sum(map(cpu_seconds, pids)), own, mapped))
            await asyncio.sleep(0.5)

    def show(self) -> None:
        print(
            "the app and its readers: memory allocated at first, at last and at most, mapped files at last, cores in use"
        )
        for part, points in self._points.items():
            (began, cpu, first, _), (ended, cpu_then, last, mapped) = points[0], points[-1]
            cores = (cpu_then - cpu) / max(ended - began, 1e-9)
            peak = max(own for _, _, own, _ in points)
            print(f"  {part:<18}{first:>6.0f}{last:>6.0f}{peak:>6.0f} MB {mapped:>6.0f} MB {cores:>6.2f}")


def started() -> set[int]:
    """Process ids of all that descends from this process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= more
    return family - {os.getpid()}


class Benchmarks:
    """Keeps a number of benchmarks running through the API."""

    def __init__(self, client: httpx2.AsyncClient, plans: list[dict[str, Any]]) -> None:
        self._client = client
        self._plans = plans
        self.jobs: list[str] = []
        """Those that run now."""
        self._before = 0
        self.ended = 0
        self.failed: list[str] = []
        self.fewest = len(plans)
        """Running at once, since all of them were."""

    async def start(self) -> None:
        self.jobs[:] = [await self._submit(plan) for plan in self._plans]
        while {job["state"] for job in await self._states()} != {"running"} or await self.cells() == 0:
            await asyncio.sleep(0.2)

    async def keep(self) -> None:
        """Look every second, and put the next one in the place of one that has ended."""
        while True:
            running = 0
            for place, job in enumerate(await self._states()):
                running += job["state"] == "running"
                self.failed += [f"benchmark {place}: {each}" for each in job["progress"].get("errors", {}).values()]
                if job["state"] in ("failed", "cancelled"):
                    self.failed.append(f"benchmark {place}: {job['error'] or job['state']}")
                if job["state"] not in ("queued", "running"):
                    self.ended += 1
                    self._before += _done(job)
                    self.jobs[place] = await self._submit(self._plans[place])
                    running += 1
            self.fewest = min(self.fewest, running)
            await asyncio.sleep(1.0)

    async def cells(self) -> int:
        """Questions answered and scored since the start."""
        return self._before + sum([_done(job) for job in await self._states()])

    async def stop(self) -> None:
        for job in self.jobs:
            await self._client.post(f"/benchmarks/{job}/cancel")
        while any(job["state"] in ("queued", "running") for job in await self._states()):
            await asyncio.sleep(0.2)

    async def _submit(self, plan: dict[str, Any]) -> str:
        answer = await self._client.post("/benchmarks", json=plan, headers={"Prefer": "respond-async"})
        answer.raise_for_status()
        return str(answer.json()["job_id"])

    async def _states(self) -> list[dict[str, Any]]:
        return [(await self._client.get(f"/jobs/{job}")).raise_for_status().json() for job in self.jobs]


def _done(job: dict[str, Any]) -> int:
    return int(job["progress"].get("done", 0))


async def corpus(client: httpx2.AsyncClient, benchmarks: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Adds documents, question sets and finished benchmarks. Returns ids of these, and the plans of the benchmarks to come."""

    async def add(name: str, data: bytes) -> str:
        answer = (await client.post("/documents", files={"file": (name, data)})).raise_for_status()
        return str(answer.json()["added"][0]["document"]["document_id"])

    made = [
        await add(f"document-{number:05}.md", texts.markdown(CHARACTERS, seed=number + 1).encode())
        for number in range(DOCUMENTS)
    ]
    samples = [await add(name, (ROOT / "samples" / name).read_bytes()) for name in ("manual.md", "regulation.docx")]
    file = {"file": ("questions.json", (ROOT / "samples" / "questions.json").read_bytes())}
    sample_set = (await client.post("/question-sets/file", files=file)).raise_for_status().json()["question_set_id"]
    finished = []
    for number in range(FINISHED):
        plan = {
            "name": f"Sample {number}",
            "question_set_id": sample_set,
            "specs": STRATEGIES,
            "document_ids": samples,
            "top_k": 3 + number,
        }
        finished.append((await client.post("/benchmarks", json=plan)).raise_for_status().json()["experiment_id"])
    questions = json.loads(question_file(DOCUMENTS, CHARACTERS, QUESTIONS))
    plans = []
    for number in range(benchmarks):
        body = {"name": f"Generated {number}", "questions": random.Random(number).sample(questions, len(questions))}
        found = (await client.post("/question-sets", json=body)).raise_for_status().json()["question_set_id"]
        specs = STRATEGIES[number:] + STRATEGIES[:number]
        plans.append({"question_set_id": found, "specs": specs, "document_ids": made, "name": f"Generated {number}"})
    return finished, plans


async def readers(
    address: str, count: int, finished: list[str], running: list[str], think: float, seconds: float
) -> Figures:
    figures, until = Figures(), time.perf_counter() + seconds
    await asyncio.gather(*(Reader(n, address, finished, running, think, until).walk(figures) for n in range(count)))
    return figures


async def measure(options: argparse.Namespace) -> int:
    os.environ["BENCHMARKS_AT_ONCE"] = str(options.benchmarks)
    watch, loads = Watch(), [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix="sessions-") as folder, Path(folder, "log").open("wb") as log:
        async with (
            app(f"{folder}/data", log) as address,
            httpx2.AsyncClient(base_url=f"{address}/api/v1", timeout=300) as client,
        ):
            watching = asyncio.create_task(watch.look())
            watch.part = "started"
            began = time.perf_counter()
            finished, plans = await corpus(client, options.benchmarks)
            print(f"corpus and {FINISHED} finished benchmarks: {time.perf_counter() - began:.0f} s")
            watch.part = "corpus"
            await readers(address, options.sessions, finished, [], 0.2, 2)
            watch.part = "sessions alone"
            alone = await readers(address, options.sessions, finished, [], options.think, options.alone)
            loads.append(os.getloadavg()[0])
            benchmarks = Benchmarks(client, plans)
            watch.part = "benchmarks alone"
            await benchmarks.start()
            keeping = asyncio.create_task(benchmarks.keep())
            without = await rate(benchmarks, asyncio.sleep(options.alone / 2))
            watch.part = "both"
            both = Figures()

            async def walk() -> None:
                nonlocal both
                both = await readers(
                    address, options.sessions, finished, benchmarks.jobs, options.think, options.seconds
                )

            beside = await rate(benchmarks, walk())
            loads.append(os.getloadavg()[0])
            watch.part = "afterwards"
            keeping.cancel()
            (stopped,) = await asyncio.gather(keeping, return_exceptions=True)
            cells = await benchmarks.cells()
            await benchmarks.stop()
            await asyncio.sleep(2)
            watching.cancel()
        logged = Path(folder, "log").read_text(encoding="utf-8")
    report(options, alone, both)
    shown = ", ".join(f"{load:.1f}" for load in loads)
    print(
        f"\nload of the machine at the start, after the sessions alone, after both: {shown} on {os.cpu_count()} cores"
    )
    print(
        f"benchmarks: at least {benchmarks.fewest} running at once, {cells:,} answers scored, {benchmarks.ended} ended; "
        f"{without:.0f} answers a second alone, {beside:.0f} beside the sessions"
    )
    watch.show()
    errors = [*alone.errors, *both.errors, *dict.fromkeys(benchmarks.failed)]
    if not isinstance(stopped, asyncio.CancelledError):
        errors.append(f"benchmarks were looked at no longer: {stopped!r}")
    if benchmarks.fewest < options.benchmarks:
        errors.append(f"only {benchmarks.fewest} benchmarks were running at once")
    print(f"errors: {len(errors)}")
    for error in errors:
        print(f"  {error}")
    if errors:
        print(f"end of the app's log:\n{logged[-3000:]}")
    return 1 if errors else 0


async def rate(benchmarks: Benchmarks, work: Awaitable[None]) -> float:
    """Answers a second while something else is done."""
    before, began = await benchmarks.cells(), time.perf_counter()
    await work
    return (await benchmarks.cells() - before) / (time.perf_counter() - began)


def report(options: argparse.Namespace, alone: Figures, both: Figures) -> None:
    print(
        f"\n{options.sessions} sessions, about {options.think:g} s between two actions of one; milliseconds from a change to the end of its run"
    )
    print(f"{'':38}{'alone':>30}   {f'beside {options.benchmarks} benchmarks':>30}")
    heads = "".join(f"{head:>{width}}" for head, width in (("n", 6), ("p50", 8), ("p95", 8), ("max", 8)))
    print(f"{'':38}{heads}   {heads}{'p95 x':>7}")
    rows = [("all pages", alone.of(), both.of())]
    rows += [(title, alone.of(title), both.of(title)) for title in TITLES.values()]
    for page, action in sorted({*alone.seconds, *both.seconds}):
        rows.append((f"  {page}: {action}", alone.seconds[page, action], both.seconds[page, action]))
    rows.append(("question to its answers", alone.answers, both.answers))
    for name, first, second in rows:
        ratio = f"{np.percentile(second, 95) / np.percentile(first, 95):>7.1f}" if first and second else ""
        print(f"{name:38}{_row(first)}   {_row(second)}{ratio}")
    print(f"received: {alone.received / 1e6:.0f} MB alone, {both.received / 1e6:.0f} MB beside the benchmarks")
    print(f"ends of actions that the server did not tell: {alone.untold} alone, {both.untold} beside the benchmarks")


def _row(seconds: list[float]) -> str:
    if not seconds:
        return f"{0:>6}{'':24}"
    p50, p95 = np.percentile(seconds, [50, 95])
    return f"{len(seconds):>6}{1000 * p50:>8.0f}{1000 * p95:>8.0f}{1000 * max(seconds):>8.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--benchmarks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0, help="that both run together")
    parser.add_argument("--alone", type=float, default=30.0, help="seconds of the sessions alone")
    parser.add_argument("--think", type=float, default=3.0, help="seconds between two actions of a session, on average")
    return asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
