"""The half of `benchmarks.peers` that chunklab's own Python runs: one evaluation, its figures as JSON on standard output."""

from __future__ import annotations

import json
import resource
import sys
import time

began, cpu = time.perf_counter(), time.process_time()

from chunklab.config import Config  # noqa: E402
from chunklab.models import Document, Question  # noqa: E402
from chunklab.runner import evaluate  # noqa: E402

task = json.load(sys.stdin)
imported = time.perf_counter() - began
config = Config.model_validate(
    {
        "embedding": {"backend": "fake"},
        "retrieval": {"mode": "bm25", "top_k": task["k"]},
        "strategies": [
            {"name": {"fixed_size": "fixed"}.get(name, name), "params": {"chunk_size": size, "overlap": overlap}}
            for name, size, overlap in task["strategies"]
        ],
    }
)
questions = [
    Question(id=str(number), query=row["question"], gold_snippets=[item["quote"] for item in row["evidence"]])
    for number, row in enumerate(task["questions"])
]
report = evaluate([Document(id="d", source_path="d.md", text=task["text"])], questions, config, skip_validation=True)
json.dump(
    {
        "wall": time.perf_counter() - began,
        "import": imported,
        "cpu": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "verdict": report.recommendation,
        "strategies": [
            {
                "name": result.strategy,
                "chunks": result.chunk_health.num_chunks,
                "recall": result.recall_at_k,
                "mrr": result.mrr,
                "tokens": result.retrieved_tokens_at_k,
                "retrieved": {
                    question.question_id: [
                        [*hit.chunk.char_span, hit.chunk.token_count]
                        for hit in sorted(question.retrieved, key=lambda hit: hit.rank)
                    ]
                    for question in result.per_question
                },
            }
            for result in report.strategy_results
        ],
    },
    sys.stdout,
)
