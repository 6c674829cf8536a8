"""The command line: what was written is parsed, a method of the Workbench (or of a running app) is called, its record is printed."""

from engine.cli.main import main

__all__ = ["main"]
