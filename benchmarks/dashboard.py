"""How long the dashboard takes: `python -m benchmarks.dashboard [--browser]`.

Server time of page changes and widget changes with the sample loaded, the Chunk Inspector on 1 MB of text under four strategies, and
how often a rerun cuts a document again. Pages run in this process without a browser; `--browser` adds what a reader waits for in
Chromium. Absolute times depend on the machine and on what else it does, so CPU time stands beside wall time and every line has its
ratio to a page that only writes one word.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNS = 7
STRATEGIES = "fixed_size;recursive;sentence;paragraph"
CHROMIUM = "/usr/bin/chromium"
BAR_SHOWN = """([bar, start]) => bar.textContent.startsWith(start)"""
DETAIL_SHOWN = """start => [...document.querySelectorAll('[data-testid="stMarkdownContainer"]')]
    .some(each => each.textContent.startsWith(start))"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--browser", action="store_true", help="also measure in Chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATA_DIR"] = f"{folder}/data"
        in_process()
        if options.browser:
            in_browser(f"{folder}/data")
    return 0


def in_process() -> None:
    from streamlit.testing.v1 import AppTest

    from app import runtime
    from engine.strategies import registry

    cuts = 0
    cut = registry.cut

    def counted(*arguments: Any) -> Any:
        nonlocal cuts
        cuts += 1
        return cut(*arguments)

    registry.cut = counted
    workbench = runtime.workbench()
    question_set = workbench.load_samples()
    began = time.perf_counter()
    experiment = workbench.benchmark(workbench.sample_plan(question_set))
    print(f"sample benchmark, finished          {time.perf_counter() - began:8.1f} s")
    large = large_document()
    large_id = workbench.add_document(large, "large.md").document.document_id
    request = workbench.ask("Who bears the final responsibility for technology risk?", [workbench.spec("recursive")])
    queries = {
        "upload": {},
        "chunk_inspector": {},
        "ask": {"request": request[0].request_id},
        "benchmark": {"experiment": experiment.experiment_id},
        "history": {},
    }
    word = AppTest.from_string("import streamlit as st; st.write('word')", default_timeout=60).run()
    floor = measure(word.run)
    print(f"\n{'':36}{'wall ms':>10}{'CPU ms':>10}{'x floor':>10}")
    line("a page with one word", floor, floor)
    document = next(each.document_id for each in workbench.documents() if each.name == "regulation.docx")
    for page, query in queries.items():
        app = opened(AppTest, page, {"document": document, **query})
        line(f"{page}: page change", measure(app.run), floor)
    app = opened(AppTest, "chunk_inspector", {"document": document})
    sizes = iter(range(200, 200 + 8 * RUNS, 8))
    line(
        "chunk_inspector: parameter change",
        measure(lambda: app.number_input(key="inspector.0.recursive.size").set_value(next(sizes)).run()),
        floor,
    )

    print(f"\nChunk Inspector on {len(large) / 1e6:.1f} MB of text, strategies {STRATEGIES}")
    began_wall, began_cpu, before = time.perf_counter(), time.process_time(), cuts
    app = opened(AppTest, "chunk_inspector", {"document": large_id, "strategies": STRATEGIES})
    first = (time.perf_counter() - began_wall, time.process_time() - began_cpu)
    line(f"first view, {cuts - before} cuts", first, floor)
    before = cuts
    line("rerun", measure(app.run), floor)
    chunks = workbench.chunk(large_id, workbench.spec("recursive")).chunks
    chosen = iter(range(10, 10 + RUNS))

    def click() -> None:
        app.session_state["inspector.1.chosen"] = chunks[next(chosen)].chunk_id
        app.run()

    line("click to detail", measure(click), floor)
    print(f"cuts in these reruns: {cuts - before}")
    runtime.close()
    registry.cut = cut


def opened(app_test: Any, page: str, query: dict[str, str]) -> Any:
    app = app_test.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=300)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    if page != "upload":
        for name, value in query.items():
            app.query_params[name] = value
        app.switch_page(str(Path("..") / "pages" / f"{page}.py")).run()
    if app.exception:
        raise RuntimeError(app.exception[0].message)
    return app


def measure(action: Callable[[], object]) -> tuple[float, float]:
    """Median wall and CPU seconds."""
    wall, cpu = [], []
    for _ in range(RUNS):
        began_wall, began_cpu = time.perf_counter(), time.process_time()
        action()
        wall.append(time.perf_counter() - began_wall)
        cpu.append(time.process_time() - began_cpu)
    return statistics.median(wall), statistics.median(cpu)


def line(name: str, seconds: tuple[float, float], floor: tuple[float, float]) -> None:
    wall, cpu = seconds
    print(f"{name:36}{1000 * wall:10.0f}{1000 * cpu:10.0f}{cpu / floor[1]:10.1f}")


def large_document() -> bytes:
    """The sample manual repeated, with its headings numbered, to 1 MB."""
    text = (ROOT / "samples" / "manual.md").read_text(encoding="utf-8")
    parts, size, number = [], 0, 0
    while size < 1_000_000:
        number += 1
        part = text.replace("# ", f"# Part {number}: ", 1)
        parts.append(part)
        size += len(part)
    return "\n\n".join(parts)[:1_000_000].encode()


def in_browser(data_dir: str) -> None:
    """What a reader waits for: from the address to the fourth pane drawn, and from a click to the chunk's detail."""
    from playwright.sync_api import sync_playwright

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "DATA_DIR": data_dir, "PORT": str(port), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "app"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        documents = wait(url)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(120_000)
            devtools = page.context.new_cdp_session(page)
            devtools.send("Performance.enable")
            page.goto(f"{url}/history")
            page.locator("h1").wait_for()
            print(f"\nLoad of the machine: {os.getloadavg()[0]:.1f}")
            print("In Chromium, Chunk Inspector on 1 MB and four strategies")
            for name in ("first visit", "second visit"):
                began = time.perf_counter()
                page.goto(f"{url}/chunk_inspector?document={documents['large.md']}&strategies={STRATEGIES}")
                page.locator(".pane").nth(3).locator("span.covered").first.wait_for()
                waited, spent = time.perf_counter() - began, script_seconds(devtools)
                print(
                    f"{name + ', address to fourth pane':36}{1000 * waited:10.0f} ms, {1000 * spent:.0f} ms of it script"
                )
            bar = page.locator(".facts").nth(1).element_handle()
            at_once, waits, server = [], [], []
            for chunk in range(1, 6):
                part = page.locator(".pane").nth(1).locator(f"span.covered[data-last='{chunk}']").last.element_handle()
                used, began = cpu_seconds(process.pid), time.perf_counter()
                part.evaluate("part => part.click()")
                page.wait_for_function(BAR_SHOWN, arg=[bar, f"Chunk {chunk + 1} of"])
                at_once.append(time.perf_counter() - began)
                # A text locator would walk through four megabytes of panes at every look.
                page.wait_for_function(DETAIL_SHOWN, arg=f"Chunk {chunk + 1} of")
                waits.append(time.perf_counter() - began)
                server.append(cpu_seconds(process.pid) - used)
            print(f"{'click to facts under the text':36}{1000 * statistics.median(at_once):10.0f} ms")
            print(f"{'click to detail, median of 5':36}{1000 * statistics.median(waits):10.0f} ms")
            print(f"{'server CPU of a click':36}{1000 * statistics.median(server):10.0f} ms")
            browser.close()
    finally:
        process.terminate()
        process.wait(30)


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used, in ticks of the system; 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def script_seconds(devtools: Any) -> float:
    """Time the page has spent in scripts since it was opened."""
    found = devtools.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in found if each["name"] == "ScriptDuration")


def wait(url: str) -> dict[str, str]:
    """Document ids by name, once the app is ready."""
    import json

    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{url}/api/v1/documents", timeout=10) as answer:
                found = json.load(answer)
            rows = (
                found if isinstance(found, list) else next(value for value in found.values() if isinstance(value, list))
            )
            return {row["name"]: row["document_id"] for row in rows}
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the app did not become ready")


if __name__ == "__main__":
    sys.exit(main())
