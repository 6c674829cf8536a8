"""The Workbench: what dashboard, API and command line call. Parse, chunk, index, ask, measure, remember.

One class in parts, each resting on the one before: documents, chunks, questions, asking, benchmarks.
"""

from engine.workbench.documents import Added, Deletion, FileAdded
from engine.workbench.questions import ModelDraft, Reread
from engine.workbench.workbench import FIRST_STRATEGIES, Workbench

__all__ = ["FIRST_STRATEGIES", "Added", "Deletion", "FileAdded", "ModelDraft", "Reread", "Workbench"]
