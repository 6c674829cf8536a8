"""Metrics: every number with its definition, direction and source. `registry` lists them all."""

from engine.metrics.base import Described, Metric
from engine.metrics.bounds import worst_case
from engine.metrics.ceiling import Pool
from engine.metrics.chunk_quality import measure
from engine.metrics.registry import METRICS, describe
from engine.metrics.retrieval import depth_needed, recall_curve, score_question

__all__ = [
    "METRICS",
    "Described",
    "Metric",
    "Pool",
    "depth_needed",
    "describe",
    "measure",
    "recall_curve",
    "score_question",
    "worst_case",
]
