"""Question sets: read them, find their evidence in the documents, check them before use, draft them from the documents."""

from engine.questions.check import Finding, check, orphaned, questions_needed
from engine.questions.draft import draft
from engine.questions.draft_model import Drafted, Outcome, draft_requests, draft_with_model
from engine.questions.parse import FIELDS, load, parse_rows
from engine.questions.resolve import Change, changes, choose, count_every_copy, resolve, resolve_among

__all__ = [
    "FIELDS",
    "Change",
    "Drafted",
    "Finding",
    "Outcome",
    "changes",
    "check",
    "choose",
    "count_every_copy",
    "draft",
    "draft_requests",
    "draft_with_model",
    "load",
    "orphaned",
    "parse_rows",
    "questions_needed",
    "resolve",
    "resolve_among",
]
