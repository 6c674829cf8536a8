"""Chunkscope and chunklab 0.5.0 on the same text and questions in one run: recall, tokens, time, memory, install size.

    python -m benchmarks.peers [--data FOLDER] [--peers FOLDER]

Both cut the text into fixed and recursive chunks of 256 tokens and search them with their own BM25: chunklab's embedding model is a
download, its BM25 is not. Each tool runs in a process of its own. chunklab gets a virtual environment outside the repository
(`--peers`, made on the first run from requirements-peers.txt; it takes about 6 GB, most of it for its embedding library).
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import importlib.resources
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
STRATEGIES = (("fixed_size", 256, 0), ("recursive", 256, 0))
K = 5
_TIKTOKEN_NAME = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The name under which tiktoken looks for a stored cl100k_base vocabulary."""


def chunkscope(task: dict[str, Any]) -> dict[str, Any]:
    """Our half: the same work with our own readers, strategies, search, metrics and verdict."""
    began, cpu = time.perf_counter(), time.process_time()
    from datetime import UTC, datetime

    from engine import questions, verdict
    from engine.documents import close_worker, read_document
    from engine.lexical import Bm25
    from engine.metrics import Pool, depth_needed, score_question
    from engine.providers.base import Models
    from engine.records import RetrievedChunk
    from engine.settings import load_settings
    from engine.strategies import registry
    from engine.strategies.source import Source

    imported = time.perf_counter() - began
    document = read_document(task["text"].encode(), "state_of_the_union.md", load_settings())
    rows = [
        {"question": row["question"], "evidence": [e["quote"] for e in row["evidence"]]} for row in task["questions"]
    ]
    asked = questions.resolve(questions.parse_rows(rows, "questions"), [document]).questions
    source, results, matrix = Source(document), [], []
    for name, size, overlap in task["strategies"]:
        strategy = registry.strategy(name)
        chunks = strategy.chunk(source, strategy.parse({"size": size, "overlap": overlap}), Models()).chunks
        index, pool = Bm25([chunk.embed_text for chunk in chunks]), Pool(chunks)
        depth = depth_needed([chunk.token_count for chunk in chunks])
        scores = []
        for question in asked:
            hits = [
                RetrievedChunk(chunk=chunks[hit.position], score=hit.score, rank=rank)
                for rank, hit in enumerate(index.search(question.question, depth), start=1)
            ]
            scores.append(score_question(question, hits, pool=pool, depth=depth))
        matrix.append([score["recall@1000tok"] for score in scores])
        means = {metric: float(np.mean([score[metric] for score in scores])) for metric in scores[0]}
        results.append({"name": name, "chunks": len(chunks), "means": means})
    tokens = verdict.Cost(
        criterion=f"tokens per question at {task['k']} chunks",
        values=tuple(r["means"][f"tokens@{task['k']}"] for r in results),
    )
    decided = verdict.decide(matrix, [name for name, _, _ in task["strategies"]], "recall@1000tok", costs=[tokens])
    close_worker()
    return {
        "wall": time.perf_counter() - began,
        "import": imported,
        "cpu": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "verdict": verdict.in_words(decided),
        "strategies": results,
        "at": datetime.now(UTC).isoformat(),
    }


def rescored(task: dict[str, Any], retrieved: dict[str, list[list[int]]]) -> dict[str, float]:
    """chunklab's own hits under our measures: what is left of a difference is chunks and search, not the definition."""
    from engine.metrics.retrieval import precision, recall
    from engine.metrics.targets import Target
    from engine.metrics.walk import Cuts, Unit, walk
    from engine.models import Span

    recalls, precisions, tokens, hits = [], [], [], []
    for number, row in enumerate(task["questions"]):
        target = Target(tuple((("d", Span(e["start"], e["end"])),) for e in row["evidence"]))
        units = [Unit("d", Span(start, end), count) for start, end, count in retrieved[str(number)]]
        reach = walk(units, target, Cuts(ks=(K,))).at_k[K]
        recalls.append(recall(reach))
        precisions.append(precision(reach))
        tokens.append(reach.tokens)
        hits.append(reach.intact)
    return {
        "recall": float(np.mean(recalls)),
        "precision": float(np.mean(precisions)),
        "tokens": float(np.mean(tokens)),
        "hit": float(np.mean(hits)),
    }


def peer_python(folder: Path) -> Path:
    """Python of the environment that holds chunklab; made on the first call."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"Installing chunklab into {folder}; this downloads several GB once.")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pins = ROOT / "requirements-peers.txt"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", "-r", str(pins)], check=True)
    return python


def run_peer(python: Path, task: dict[str, Any]) -> dict[str, Any]:
    """chunklab's half, with the vocabulary it would download put where it looks for it."""
    packed = importlib.resources.files("bpe_openai").joinpath("data/cl100k_base.tiktoken.gz").read_bytes()
    with tempfile.TemporaryDirectory() as cache:
        (Path(cache) / _TIKTOKEN_NAME).write_bytes(gzip.decompress(packed))
        environment = {**os.environ, "TIKTOKEN_CACHE_DIR": cache, "CHUNKLAB_NO_CACHE": "1", "HF_HUB_OFFLINE": "1"}
        environment.pop("PYTHONPATH", None)
        script = str(ROOT / "benchmarks" / "peer_chunklab.py")
        # -P: the folder of the script holds modules whose names the standard library has too.
        return _run([str(python), "-P", script], task, environment)


def _run(command: list[str], task: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def size_mb(paths: Iterable[Path]) -> float:
    return sum(path.lstat().st_size for path in paths if path.is_file()) / 1e6


def product_files() -> Iterator[Path]:
    """What requirements.txt installs, whatever else stands in this environment."""
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if "==" in line:
            distribution = importlib.metadata.distribution(line.split("==")[0].split("[")[0])
            yield from (Path(str(file.locate())) for file in distribution.files or ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "chroma_sotu")
    parser.add_argument("--peers", type=Path, default=cache / "chunkscope-peers")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        json.dump(chunkscope(json.load(sys.stdin)), sys.stdout)
        return
    if not (arguments.data / "questions.json").is_file():
        print(
            f"Not measured: {arguments.data} holds no state_of_the_union.md and questions.json. Name their folder with --data."
        )
        return
    task = {
        "text": (arguments.data / "state_of_the_union.md").read_text(encoding="utf-8"),
        "questions": json.loads((arguments.data / "questions.json").read_text(encoding="utf-8")),
        "strategies": STRATEGIES,
        "k": K,
    }
    python = peer_python(arguments.peers)
    theirs = run_peer(python, task)
    ours = _run([sys.executable, "-m", "benchmarks.peers", "--worker"], task, dict(os.environ))
    print(f"{len(task['questions'])} questions, {len(task['text']):,} characters, BM25, k = {K}\n")
    print(
        f"{'':<34}{'chunks':>7}{'recall@5':>10}{'MRR':>7}{'tokens@5':>10}{'precision@5':>13}{'hit@5':>8}{'recall@1000tok':>16}"
    )
    peers = {{"fixed": "fixed_size"}.get(s["name"], s["name"]): s for s in theirs["strategies"]}
    for own in ours["strategies"]:
        peer, means = peers[own["name"]], own["means"]
        again = rescored(task, peer["retrieved"])
        print(
            f"{own['name']} 256/0, Chunkscope{'':<6}".ljust(34)
            + f"{own['chunks']:>7}{means['recall@5']:>10.3f}{means['mrr']:>7.3f}{means['tokens@5']:>10.0f}{means['precision@5']:>13.3f}{means['hit@5']:>8.3f}{means['recall@1000tok']:>16.3f}"
        )
        print(
            f"{own['name']} 256/0, chunklab".ljust(34)
            + f"{peer['chunks']:>7}{peer['recall']:>10.3f}{peer['mrr']:>7.3f}{peer['tokens']:>10.0f}{'-':>13}{'-':>8}{'-':>16}"
        )
        print(
            "  its hits under our measures".ljust(34)
            + f"{'':>7}{again['recall']:>10.3f}{'':>7}{again['tokens']:>10.0f}{again['precision']:>13.3f}{again['hit']:>8.3f}{'-':>16}"
        )
    sizes = {
        "Chunkscope": size_mb(set(product_files())),
        "chunklab": size_mb((arguments.peers / "lib").rglob("*")),
    }
    print(f"\n{'':<12}{'wall s':>8}{'import s':>10}{'CPU s':>8}{'peak MB':>9}{'install MB':>12}")
    for name, run in (("Chunkscope", ours), ("chunklab", theirs)):
        print(
            f"{name:<12}{run['wall']:>8.2f}{run['import']:>10.2f}{run['cpu']:>8.2f}{run['peak_mb']:>9.0f}{sizes[name]:>12,.0f}"
        )
    print("(Chunkscope's with the whole dashboard.)")
    print(f"\nChunkscope says: {ours['verdict']}\n\nchunklab says: {theirs['verdict']}")
    print(
        "\nWhere they differ: chunklab counts a quote as found when one chunk holds it, or nearly; we count the characters that were read, so a"
        " quote cut in two by a boundary is not lost. chunklab compares at k, where larger chunks read more; we decide at an equal token budget."
    )


if __name__ == "__main__":
    main()
