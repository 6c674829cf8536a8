"""Logs on standard error: plain lines on a terminal, one JSON object per line elsewhere. They hold no text of documents and no question."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The request that is being answered, for every line that is logged meanwhile."""

_OURS = ("app", "engine", "pages", "uvicorn", "uvicorn.error")
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "request_id", "color_message"}


def configure(level: str, stream: TextIO | None = None) -> None:
    """Log to `stream` (standard error by default). May be called again, which replaces what was configured, by others too.

    LOG_LEVEL is for our own modules and the server; libraries are heard from WARNING on, because some log what they are given.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    show_messages = level == "DEBUG"
    handler.setFormatter(PlainFormatter(show_messages) if stream.isatty() else JsonFormatter(show_messages))
    handler.addFilter(_add_request_id)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # The API logs its own requests; these lines would hold whole addresses.
    logging.getLogger("uvicorn.access").propagate = False


def _add_request_id(record: logging.LogRecord) -> bool:
    record.request_id = request_id.get()
    return True


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


class _Formatter(logging.Formatter):
    def __init__(self, show_messages: bool) -> None:
        super().__init__()
        self._show_messages = show_messages

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Where an error came from. What it says may quote a document, so that is only shown at LOG_LEVEL=DEBUG."""
        if self._show_messages:
            return super().formatException(ei)
        lines: list[str] = []
        error: BaseException | None = ei[1]
        while error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            lines.insert(0, f"{type(error).__name__} at " + " < ".join(_place(frame) for frame in reversed(frames)))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\n".join(lines)


def _place(frame: traceback.FrameSummary) -> str:
    return f"{'/'.join(frame.filename.split('/')[-2:])}:{frame.lineno} {frame.name}"


class JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.__dict__.get("request_id"):
            line["request_id"] = record.__dict__["request_id"]
        line |= _extra(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        parts = [moment, record.levelname, record.name, record.getMessage()]
        parts += [f"{name}={value}" for name, value in _extra(record).items()]
        if record.__dict__.get("request_id"):
            parts.append(f"request={record.__dict__['request_id']}")
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
