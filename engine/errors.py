"""The errors of the engine.

UserError                  something the reader can fix: shown in words, never with a traceback
├── BadSetting             a setting has a value that is not allowed
├── BadDocument            a file cannot be read
├── BadParameter           a strategy parameter is out of range
├── BadQuestionSet         a question set has the wrong shape
├── BadRequest             any other input that does not fit
├── NotFound               an id names nothing
├── NotAllowed             what is shared to be read is somebody else's to change
├── NeedsModel             a feature needs a model that is not configured
├── ModelCallFailed        a model was called and did not answer (carries the cause)
├── DataFolderLocked       another process holds the data folder
├── StoreUnavailable       the database cannot be reached or written
├── IndexUnavailable       the vector index cannot be reached or written
├── IndexMismatch          a collection is bound to another embedding model
├── TransferRefused        the target of a move holds other data
├── WorkersUnavailable     the cluster that carries out the work cannot be reached
├── BudgetExceeded         the run would cost more than it may
└── Busy                   a queue is full or a limit is reached; try again later

Anything else that is raised is a bug: it is logged with the request id and shown as one line with that id.
"""

from __future__ import annotations

from typing import Literal

CallCause = Literal["refused", "invalid_output", "timeout", "rate_limited", "auth", "unavailable", "cancelled"]
"""Why a model call gave no usable answer."""


class UserError(Exception):
    """What happened, what was kept, what to do next: one message for page, command line and API."""

    status = 400
    """The HTTP status the API answers with."""

    @property
    def message(self) -> str:
        return str(self)


class BadSetting(UserError):
    status = 500


class BadDocument(UserError):
    status = 422


class BadParameter(UserError):
    status = 422


class BadQuestionSet(UserError):
    status = 422


class BadRequest(UserError):
    status = 400


class NotFound(UserError):
    status = 404


class NotAllowed(UserError):
    status = 403


class NeedsModel(UserError):
    status = 409


class ModelCallFailed(UserError):
    """A model call ended without a usable answer; `cause` says how."""

    status = 502
    spent: object | None = None
    """Usage of the calls before it that did answer, where a caller was asking for more than one (`providers.base.Usage`)."""

    def __init__(self, message: str, cause: CallCause) -> None:
        super().__init__(message)
        self.cause: CallCause = cause


class DataFolderLocked(UserError):
    status = 423


class StoreUnavailable(UserError):
    status = 503


class IndexUnavailable(UserError):
    status = 503


class WorkersUnavailable(UserError):
    status = 503


class IndexMismatch(UserError):
    status = 409


class TransferRefused(UserError):
    status = 409


class BudgetExceeded(UserError):
    status = 402


class Busy(UserError):
    status = 429
