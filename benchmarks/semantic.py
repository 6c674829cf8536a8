"""What the semantic strategies cost beside their embeddings: CPU time as a ratio to one `encode_ordinary` of the same text.

    python -m benchmarks.semantic

The embedder gives random vectors around slowly changing topics, so only the strategies are measured. Tokens, headings, paragraphs,
sentences and the places of words are shared by all strategies of a document and computed before.
"""

from __future__ import annotations

import ast
import statistics
import sysconfig
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine import ids, tokens
from engine.models import Document, Node, NodeKind, Span, Structure
from engine.providers.base import NO_USAGE, Embedded, Models, Probe, TextKind
from engine.strategies import registry
from engine.strategies.source import Source

STRATEGIES = ("semantic", "cluster_semantic", "semantic_parent_child")
TARGET = 0.5
ROUNDS = 7
CHARACTERS = 1_000_000


class TopicEmbedder:
    """Random unit vectors around a topic that changes about every tenth text."""

    model = "topics"
    dimension = 256
    max_input_tokens = None

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        random = np.random.default_rng(0)
        topics = random.normal(size=(40, self.dimension))
        topic = np.cumsum(random.random(len(texts)) < 0.1) % len(topics)
        vectors = topics[topic] + 0.8 * random.normal(size=(len(texts), self.dimension))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Embedded(vectors.astype(np.float32), NO_USAGE)

    def probe(self) -> Probe:
        return Probe(True, "random vectors")


def prose() -> str:
    """The docstrings of the standard library."""
    parts: list[str] = []
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                parts.append(ast.get_docstring(node) or "")
    return "\n\n".join(part for part in parts if part)[:CHARACTERS]


def document(text: str) -> Document:
    return Document(
        document_id=ids.content_hash(text),
        name="prose.txt",
        media_type="text/plain",
        byte_size=len(text.encode()),
        sha256=ids.digest(text),
        parser_version="benchmark",
        structure=Structure(rule="none", confidence="none"),
        visible_characters=len(text),
        kept_characters=len(text),
        token_count=0,
        created_at=datetime.now(UTC),
        text=text,
        tree=Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text))),
    )


def cpu_seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    text = prose()
    encoding = tokens.encoding()
    encode = statistics.median(cpu_seconds(lambda: encoding.encode_ordinary(text)) for _ in range(ROUNDS))
    models = Models(embedder=TopicEmbedder())
    print(f"{len(text):,} characters, one encode {encode * 1000:.0f} ms CPU, target {TARGET}")
    print(f"{'strategy':24}{'median':>8}{'best':>8}{'chunks':>8}")
    for name in STRATEGIES:
        strategy = registry.strategy(name)
        params = strategy.parse({})
        ratios = []
        for _ in range(ROUNDS):
            source = Source(document(text))
            _ = source.tokens, source.headings, source.paragraphs, source.sentences, source.word_starts
            source.sentence_vectors(TopicEmbedder())
            began = time.process_time()
            made = strategy.chunk(source, params, models)
            spent = time.process_time() - began
            if name == "semantic_parent_child":
                spent -= cpu_seconds(partial(TopicEmbedder().embed, [""] * len(made.chunks)))
            ratios.append(spent / encode)
        print(f"{name:24}{statistics.median(ratios):8.2f}{min(ratios):8.2f}{len(made.chunks):8}")


if __name__ == "__main__":
    main()
