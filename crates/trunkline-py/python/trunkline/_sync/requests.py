"""The requests of a connection, which its variables, monitors and batches share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _process
from .._errors import BatchError, Closed, Disconnected, Error, NotFound, TimedOut
from .._records import Written, plain
from .._trunkline import Call, Connection, Handle, LocalEngine, Reading
from .waiting import Waiting

HANDLES_MAX = 100_000
"""Number of variables that a connection keeps open for later calls."""

PEEK_S = 0.5
"""Seconds that a display waits for a value."""

REOPEN_CODES = ("gone", "unknown-handle")
"""Codes of errors after which a variable is opened again: it was replaced by another one."""


class Requests:
    """Sends requests and waits for the answers. Keeps the variables that were opened by name.

    Args:
        connection: The native connection.
        timeout: Seconds that calls wait for an answer unless they say otherwise.
        owned: An engine in this process, which ends with the connection.
    """

    def __init__(self, connection: Connection, timeout: float, owned: LocalEngine | None) -> None:
        self.connection = connection
        self.timeout = timeout
        self.waiting = Waiting()
        self.is_closed = False
        self.owned = owned
        self._handles: dict[str, Handle] = {}
        self._generation = _process.forks()

    def addresses(self) -> list[str]:
        """Returns the addresses at which an engine of this process listens."""
        return [] if self.owned is None or self.is_closed else self.owned.addresses()

    def close(self) -> None:
        """Sends waiting data and closes the connection."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._generation != _process.forks():
            return
        self.waiting.stop()
        self.connection.close()
        if self.owned is not None:
            self.owned.stop()

    def check(self) -> None:
        """Raises an error if the connection cannot be used any more."""
        if self.is_closed:
            raise Closed("the connection was closed by this program", code="closed")
        if self._generation != _process.forks():
            raise Error(
                "this connection belongs to the parent process",
                hint="connect again in the process that was forked",
                code="forked",
            )

    def call(self, call: Call, timeout: float | None) -> Any:
        """Returns the answer of a call. With `None`, the timeout of the connection applies."""
        try:
            return self.waiting.call(call, self.timeout if timeout is None else timeout)
        except Disconnected:
            if not self.is_closed:
                raise
            raise Closed("the connection was closed during the call", code="closed") from None

    def open(
        self, names: Sequence[str], timeout: float | None, with_readings: bool
    ) -> list[Any]:
        """Opens variables. Returns a handle with a reading, or an exception, for each name."""
        answers = self.call(self.connection.open(list(names), with_readings), timeout)
        for name, answer in zip(names, answers):
            if not isinstance(answer, Exception) and len(self._handles) < HANDLES_MAX:
                self._handles[name] = answer[0]
        return answers

    def open_one(self, name: str, timeout: float | None) -> Handle:
        """Returns the handle of a variable; opens it if necessary."""
        self.check()
        handle = self._handles.get(name)
        if handle is None:
            answer = (self.open([name], timeout, False))[0]
            if isinstance(answer, Exception):
                raise answer
            handle = answer[0]
        return handle

    def open_all(self, names: Sequence[str], timeout: float | None) -> list[Handle]:
        """Opens all names; raises the first failure."""
        self.check()
        missing = [name for name in names if name not in self._handles]
        opened: dict[str, Handle] = {}
        if missing:
            for name, answer in zip(missing, self.open(missing, timeout, False)):
                if isinstance(answer, Exception):
                    raise answer
                opened[name] = answer[0]
        return [opened.get(name) or self._handles[name] for name in names]

    def read_one(self, name: str, timeout: float | None) -> Reading:
        """Reads a variable; opens it in the same round trip if necessary."""
        self.check()
        handle = self._handles.get(name)
        if handle is not None:
            answer = (self.call(self.connection.read([handle]), timeout))[0]
            if not isinstance(answer, Error) or answer.code not in REOPEN_CODES:
                return raise_failure(answer)
            self._handles.pop(name, None)
        answer = (self.open([name], timeout, True))[0]
        if isinstance(answer, Exception):
            raise answer
        if answer[1] is None:
            return raise_failure((self.call(self.connection.read([answer[0]]), timeout))[0])
        return answer[1]

    def read_many(self, names: Sequence[str], timeout: float | None) -> list[Any]:
        """Reads variables in at most two round trips. Exceptions are in their place."""
        self.check()
        results: dict[str, Any] = {}
        known = [name for name in names if name in self._handles]
        if known:
            handles = [self._handles[name] for name in known]
            for name, answer in zip(known, self.call(self.connection.read(handles), timeout)):
                if isinstance(answer, Error) and answer.code in REOPEN_CODES:
                    self._handles.pop(name, None)
                else:
                    results[name] = answer
        missing = [name for name in names if name not in results]
        if missing:
            for name, answer in zip(missing, self.open(missing, timeout, True)):
                results[name] = answer if isinstance(answer, Exception) else answer[1]
        return [results[name] for name in names]

    def write_one(
        self,
        name: str,
        value: Any,
        verb: str,
        timeout: float | None,
        *,
        ts_ns: int | None = None,
        expect: Reading | None = None,
    ) -> Written:
        """Writes a variable by a verb of the engine, and waits for the outcome."""
        expected = None if expect is None else (expect.epoch, expect.seq)
        try:
            answer = self._write_open(name, value, verb, timeout, ts_ns, expected)
        except (TypeError, ValueError, OverflowError):
            if not self._have_other_types([name], timeout):
                raise
            answer = self._write_open(name, value, verb, timeout, ts_ns, expected)
        if isinstance(answer, Error) and answer.code in REOPEN_CODES:
            self._handles.pop(name, None)
            answer = self._write_open(name, value, verb, timeout, ts_ns, expected)
        return Written(*raise_failure(answer))

    def _write_open(
        self,
        name: str,
        value: Any,
        verb: str,
        timeout: float | None,
        ts_ns: int | None,
        expected: tuple[int, int] | None,
    ) -> Any:
        handle = self.open_one(name, timeout)
        call = self.connection.write([handle], [value], verb=verb, ts_ns=ts_ns, expected=expected)
        return (self.call(call, timeout))[0]

    def write_many(
        self, values: Mapping[str, Any], timeout: float | None, atomic: bool = False
    ) -> list[Any]:
        """Writes variables in one round trip. Exceptions are in their place."""
        try:
            return self._write_all_open(values, timeout, atomic)
        except (TypeError, ValueError, OverflowError):
            if not self._have_other_types(list(values), timeout):
                raise
            return self._write_all_open(values, timeout, atomic)

    def _have_other_types(self, names: Sequence[str], timeout: float | None) -> bool:
        """Returns true if one of the variables was replaced by one of another type meanwhile."""
        known = {name: self._handles.pop(name) for name in names if name in self._handles}
        answers = self.open(list(known), timeout, False)
        opened = [answer for answer in answers if not isinstance(answer, Exception)]
        return any(handle.data_type != known[handle.name].data_type for handle, _ in opened)

    def _write_all_open(
        self, values: Mapping[str, Any], timeout: float | None, atomic: bool
    ) -> list[Any]:
        self.check()
        names = list(values)
        results: dict[str, Any] = {}
        missing = [name for name in names if name not in self._handles]
        opened: dict[str, Handle] = {}
        if missing:
            for name, answer in zip(missing, self.open(missing, timeout, False)):
                if isinstance(answer, Exception):
                    results[name] = answer
                else:
                    opened[name] = answer[0]
        if atomic and results:
            return [results.get(name, not_tried(name)) for name in names]
        ready = [name for name in names if name not in results]
        handles = [opened.get(name) or self._handles[name] for name in ready]
        plain_values = [plain(values[name]) for name in ready]
        if atomic:
            answers = (self.call(self.connection.write_group(handles, plain_values), timeout))[2]
        else:
            call = self.connection.write(handles, plain_values, verb="put")
            answers = self.call(call, timeout)
        for name, answer in zip(ready, answers):
            results[name] = answer if isinstance(answer, Exception) else Written(*answer)
        return [results[name] for name in names]

    def peek(self, name: str) -> Reading | Error:
        """Reads a variable without the event loop, for a display. Waits at most `PEEK_S`."""
        try:
            self.check()
            handle = self._handles.get(name)
            if handle is None:
                call = self.connection.open([name], True)
            else:
                call = self.connection.read([handle])
            answer: Any = call.wait(PEEK_S)
        except Error as error:
            return error
        if answer is None:
            return TimedOut(f"no answer within {PEEK_S} s", name=name, code="timed-out")
        found: Any = answer[0][0]
        return found if isinstance(found, (Reading, Error)) else found[1]

    def describe_known(self, name: str) -> str:
        """Returns type and unit of a variable that is open; otherwise nothing."""
        handle = self._handles.get(name)
        if handle is None:
            return ""
        units = f", {handle.units}" if handle.units else ""
        return f", {handle.data_type}{units}"


def not_tried(name: str) -> Error:
    """Returns the error of a write of a group that was refused because of another one."""
    return NotFound("not written, because another variable of the group does not exist", name=name)


def raise_failure(result: Any) -> Any:
    """Returns a result; raises it if it is an exception."""
    if isinstance(result, Exception):
        raise result
    return result


def raise_failures(names: Sequence[str], results: list[Any]) -> list[Any]:
    """Returns results.

    Raises:
        BatchError: Some of them are exceptions.
    """
    errors = {
        name: result for name, result in zip(names, results) if isinstance(result, Exception)
    }
    if errors:
        raise BatchError(results, errors)
    return results
