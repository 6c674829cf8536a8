"""What Chunkscope remembers: the database and the data folder."""

from engine.store.folder import DataFolder
from engine.store.records import ExperimentSummary, IndexState, Job, JobState, QuestionSetInfo
from engine.store.repository import Store, open_store

__all__ = [
    "DataFolder",
    "ExperimentSummary",
    "IndexState",
    "Job",
    "JobState",
    "QuestionSetInfo",
    "Store",
    "open_store",
]
