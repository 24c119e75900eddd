"""The exceptions that Trunkline raises.

All of them are `Error`. `str(error)` says who is at fault; `error.hint` says what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Error(Exception):
    """Base class of all exceptions of Trunkline.

    Attributes:
        name: The variable or stream that the error is about; `None` if it is about the whole call.
        hint: What to do next; `None` if the message says everything.
        code: Stable word for programs, such as "out-of-range".
    """

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        hint: str | None = None,
        code: str = "error",
    ) -> None:
        super().__init__(message)
        self.name = name
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        message = super().__str__()
        if self.name is not None and self.name not in message:
            message = f"{self.name}: {message}"
        return message if self.hint is None else f"{message}; {self.hint}"


class NotFound(Error):
    """There is no variable, library or stream of this name, or it was removed."""


class Disconnected(Error):
    """There is no connection to the engine. The connection is restored automatically."""


class TimedOut(Error, TimeoutError):
    """No answer arrived in time."""


class Denied(Error):
    """The caller has no right to do this."""


class Rejected(Error):
    """A rule of the variable or its source refused the write. Nothing was written."""


class OutcomeUnknown(Error):
    """The write was sent, and it is unknown whether it was carried out. Read the variable."""


class Overrun(Error):
    """The program did not take readings fast enough, and an `all` subscription ended."""


class Gap(Error):
    """Data is missing, because the engine or the other end of a stream was restarted."""


class BadQuality(Error):
    """The variable has a value that must not be used. `read` returns it with its quality."""


class NoValue(BadQuality):
    """The variable was never written."""


class Closed(Error):
    """The connection, monitor or stream was closed by this program."""


class Ended(Error, EOFError):
    """The stream has ended: the writer was closed, and everything it wrote has been read."""


class BatchError(Error):
    """Some names of a call failed; the others succeeded.

    Attributes:
        results: What the call would have returned, with an exception in the place of each failure.
        errors: The exceptions by name.
    """

    def __init__(self, results: Sequence[Any], errors: Mapping[str, Exception]) -> None:
        first = next(iter(errors.values()))
        message = f"{len(errors)} of {len(results)} names failed; the first: {first}"
        super().__init__(message, code="batch")
        self.results = list(results)
        self.errors = dict(errors)
