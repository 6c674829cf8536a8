"""Question sets: read them, find their evidence in the documents, check them before use, draft them from the documents."""

from engine.questions.parse import load, parse_rows
from engine.questions.resolve import resolve

__all__ = ["load", "parse_rows", "resolve"]
