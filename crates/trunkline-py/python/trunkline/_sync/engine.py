"""A connection to an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from .. import _process
from .._errors import BatchError, Closed, Error, NotFound
from .._records import Found, Step, VariableDefinition, Written, definition_rows
from .._trunkline import Connection, Handle, LocalEngine, Reading
from .monitor import Callbacks, Monitor
from .variable import Variable, checked_value, plain
from .waiting import Waiting

T = TypeVar("T")

HANDLES_MAX = 100_000
"""Number of variables that a connection keeps open for later calls."""

REOPEN_CODES = ("gone", "unknown-handle")
"""Codes of errors after which a variable is opened again: it was replaced by another one."""


class Engine:
    """A connection to an engine. It is restored automatically after an interruption.

    Any number of threads may use it. A process that was forked must connect again.

    Args:
        connection: The native connection.
        timeout: Seconds that calls wait for an answer unless they say otherwise.
        owned: An engine in this process, which ends with the connection.
    """

    def __init__(
        self, connection: Connection, *, timeout: float = 5.0, owned: LocalEngine | None = None
    ) -> None:
        self.timeout = timeout
        self._connection = connection
        self._owned = owned
        self._waiting = Waiting()
        self._handles: dict[str, Handle] = {}
        self._is_closed = False
        self._generation = _process.generation

    @classmethod
    def local(
        cls,
        libraries: Mapping[str, Mapping[str, VariableDefinition | str]] | None = None,
        *,
        name: str = "local",
        store: str | os.PathLike[str] | None = None,
        listen: str | Sequence[str] = (),
        timeout: float = 5.0,
    ) -> Engine:
        """Starts an engine in this process, for tests and scripts, and connects to it through memory.

        It stops when the connection is closed.

        Args:
            libraries: Variables by library and path; a type such as "f64" suffices as a definition.
            name: Name of the engine.
            store: Folder for what survives a restart; with `None`, nothing does.
            listen: Addresses for other programs, such as "127.0.0.1:0"; without one, only this process
                can connect.
            timeout: Seconds that calls wait for an answer unless they say otherwise.
        """
        addresses = [listen] if isinstance(listen, str) else list(listen)
        owned = LocalEngine.start(name, None if store is None else os.fspath(store), addresses)
        try:
            for library, variables in (libraries or {}).items():
                owned.deploy(library, definition_rows(variables))
            return cls(owned.connect(), timeout=timeout, owned=owned)
        except BaseException:
            owned.stop()
            raise

    # --- the connection --------------------------------------------------

    def wait_connected(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits until the connection is up.

        Returns:
            `name`, `epoch` and `session` of the engine.

        Raises:
            Disconnected: The connection is not up in time; the message has the cause.
        """
        self._check()
        return self._call(self._connection.wait_connected(), timeout)

    @property
    def state(self) -> str:
        """The state of the connection: "connecting", "connected" or "closed"."""
        return self._connection.state()[0]

    @property
    def transport(self) -> str | None:
        """How the connection carries data, such as "shared memory"; `None` while it is down."""
        return self._connection.transport()

    def close(self) -> None:
        """Sends waiting data and closes the connection. Waiting calls raise `Closed`."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._generation != _process.generation:
            return
        self._waiting.stop()
        self._connection.close()
        if self._owned is not None:
            self._owned.stop()

    def __enter__(self) -> Engine:
        self.wait_connected()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- variables -------------------------------------------------------

    def __getitem__(self, name: str) -> Variable[Any]:
        """Returns the variable of this name. Nothing is sent."""
        return Variable(self, name)

    def var(self, name: str, of: type[T]) -> Variable[T]:
        """Returns the variable of this name, with the type that the program expects.

        Args:
            of: `float`, `int`, `str`, ... or an `enum.Enum` whose values are the labels.
        """
        return Variable(self, name, of)

    @overload
    def get(self, names: str, timeout: float | None = None) -> Any: ...
    @overload
    def get(self, names: Sequence[str], timeout: float | None = None) -> list[Any]: ...
    def get(self, names: str | Sequence[str], timeout: float | None = None) -> Any:
        """Reads the value of a variable, or of many in one round trip.

        Raises:
            BatchError: Some of the names failed; it has the values of the others.
            Error: As `get` of a variable, if there is one name.
        """
        if isinstance(names, str):
            return checked_value(self._read_one(names, timeout), None)
        readings = self._read_many(names, timeout)
        values: list[Any] = []
        for reading in readings:
            try:
                if isinstance(reading, Exception):
                    raise reading
                values.append(checked_value(reading, None))
            except Error as error:
                values.append(error)
        return raise_failures(names, values)

    @overload
    def read(self, names: str, timeout: float | None = None) -> Reading: ...
    @overload
    def read(
        self, names: Sequence[str], timeout: float | None = None
    ) -> list[Reading | Error]: ...
    def read(self, names: str | Sequence[str], timeout: float | None = None) -> Any:
        """Reads variables with time and quality.

        Returns:
            A `Reading`; for many names a list that has the exception in the place of each name that
            failed.
        """
        if isinstance(names, str):
            return self._read_one(names, timeout)
        return self._read_many(names, timeout)

    @overload
    def put(self, names: str, value: Any, timeout: float | None = None) -> Written: ...
    @overload
    def put(
        self, names: Mapping[str, Any], value: None = None, timeout: float | None = None
    ) -> list[Written]: ...
    def put(
        self, names: str | Mapping[str, Any], value: Any = None, timeout: float | None = None
    ) -> Any:
        """Writes a variable, or many in one round trip (`put({"a": 1, "b": 2})`), and waits for the
        outcomes.

        Raises:
            BatchError: Some of the writes failed; the others were carried out.
            Error: As `put` of a variable, if there is one name.
        """
        if isinstance(names, str):
            return self._write_one(names, plain(value), "put", timeout)
        written = self._write_many(names, timeout)
        return raise_failures(list(names), written)

    def batch(self, *, atomic: bool = False, timeout: float | None = None) -> Batch:
        """Collects writes, and carries them out together at the end of a `with` block.

        Args:
            atomic: All writes or none, with one timestamp.
        """
        return Batch(self, atomic, timeout)

    def flush(self, timeout: float | None = None) -> dict[str, int]:
        """Waits for the outcomes of all writes, those of `put_nowait` included.

        Returns:
            The counts of all writes of this connection by outcome.
        """
        self._check()
        return self._call(self._connection.flush(), timeout)

    def put_nowait(self, name: str, value: Any, life: float = 5.0) -> None:
        """Queues a write and returns at once. `flush` waits for its outcome.

        Args:
            life: Seconds that the write waits for a connection before it is cancelled.
        """
        handle = self._open_one(name, None)
        self._connection.write_untracked([handle], [plain(value)], life)

    def snapshot(
        self, names: Sequence[str], timeout: float | None = None
    ) -> list[Reading | Error]:
        """Reads up to 4,096 variables at one instant."""
        handles = self._open_all(names, timeout)
        answer = self._call(self._connection.snapshot(handles), timeout)
        return answer[3]

    # --- updates ---------------------------------------------------------

    def monitor(
        self,
        names: str | Iterable[str],
        contract: str = "last:1000",
        *,
        events: bool = False,
        only_changes: bool = False,
        max_age: float | None = None,
    ) -> Monitor:
        """Follows the updates of variables.

        Args:
            names: One name or several.
            contract: What happens if the program is slower than the updates. `latest`: the newest of
                each variable; `last:N`: the newest N; `first:N`: the oldest N; `all`: writers wait, or
                the subscription ends with `Overrun`; `sampled:0.1s`: at most one per period.
            events: Yield changes of the connection and of variables instead of raising them.
            only_changes: Leave out updates with the same value and quality.
            max_age: Age in seconds above which readings are stale.
        """
        self._check()
        given = [names] if isinstance(names, str) else list(names)
        subscription = self._connection.subscribe(
            given,
            contract,
            is_async=self._waiting.is_async,
            only_changes=only_changes,
            max_age=max_age,
        )
        return Monitor(self, subscription, events=events)

    def subscribe(
        self,
        names: str | Iterable[str],
        function: Callable[[Any], object],
        contract: str = "last:1000",
    ) -> Callbacks:
        """Calls `function` for each update, one call at a time.

        The function gets a `Reading`, or the exception if a variable cannot be monitored. If it raises,
        the calls end, and the exception is in `error` of the result.
        """
        return Callbacks(self.monitor(names, contract), function)

    # --- names -----------------------------------------------------------

    def find(
        self, pattern: str = "**", limit: int | None = None, timeout: float | None = None
    ) -> list[Found]:
        """Returns the variables whose names match a pattern, such as `rack1/**`."""
        self._check()
        found = self._call(self._connection.find(pattern, limit), timeout)
        return [Found(*one) for one in found]

    def why(self, name: str, timeout: float | None = None) -> list[Step]:
        """Explains why a variable does not update, step by step from its source to this program."""
        self._check()
        return [Step(*one) for one in self._call(self._connection.why(name), timeout)]

    # --- libraries -------------------------------------------------------

    def deploy(
        self,
        library: str,
        variables: Mapping[str, VariableDefinition | str],
        *,
        replace: bool = False,
        timeout: float | None = None,
    ) -> dict[str, int]:
        """Deploys all variables of a library or, after an error, none.

        Args:
            library: Name of the library, the first part of the names of its variables.
            variables: Definitions by path; a type such as "f64" suffices.
            replace: The library may already be deployed. Unchanged variables keep their values.

        Returns:
            The numbers of variables `added`, `changed`, `kept` and `removed`.
        """
        self._check()
        call = self._connection.deploy(library, definition_rows(variables), replace)
        return self._call(call, timeout)

    def undeploy(
        self, library: str, *, force: bool = False, timeout: float | None = None
    ) -> dict[str, int]:
        """Removes a library.

        Args:
            force: Also while its variables have subscribers, which are notified.
        """
        self._check()
        return self._call(self._connection.undeploy(library, force), timeout)

    @property
    def addresses(self) -> list[str]:
        """The addresses at which an engine of this process listens; empty for other engines."""
        return [] if self._owned is None else self._owned.addresses()

    # --- inside ----------------------------------------------------------

    def _check(self) -> None:
        if self._is_closed:
            raise Closed("the connection was closed by this program", code="closed")
        if self._generation != _process.generation:
            raise Error(
                "this connection belongs to the parent process",
                hint="connect again in the process that was forked",
                code="forked",
            )

    def _call(self, call: Any, timeout: float | None) -> Any:
        return self._waiting.call(call, self.timeout if timeout is None else timeout)

    def _open(
        self, names: Sequence[str], timeout: float | None, with_readings: bool
    ) -> list[Any]:
        answers = self._call(self._connection.open(list(names), with_readings), timeout)
        for name, answer in zip(names, answers):
            if not isinstance(answer, Exception) and len(self._handles) < HANDLES_MAX:
                self._handles[name] = answer[0]
        return answers

    def _open_one(self, name: str, timeout: float | None) -> Handle:
        self._check()
        handle = self._handles.get(name)
        if handle is None:
            answer = (self._open([name], timeout, False))[0]
            if isinstance(answer, Exception):
                raise answer
            handle = answer[0]
        return handle

    def _open_all(self, names: Sequence[str], timeout: float | None) -> list[Handle]:
        """Opens all names; raises the first failure."""
        self._check()
        missing = [name for name in names if name not in self._handles]
        opened: dict[str, Handle] = {}
        if missing:
            for name, answer in zip(missing, self._open(missing, timeout, False)):
                if isinstance(answer, Exception):
                    raise answer
                opened[name] = answer[0]
        return [opened.get(name) or self._handles[name] for name in names]

    def _read_one(self, name: str, timeout: float | None) -> Reading:
        self._check()
        handle = self._handles.get(name)
        if handle is not None:
            answer = (self._call(self._connection.read([handle]), timeout))[0]
            if not isinstance(answer, Error) or answer.code not in REOPEN_CODES:
                return raise_failure(answer)
            self._handles.pop(name, None)
        answer = (self._open([name], timeout, True))[0]
        if isinstance(answer, Exception):
            raise answer
        if answer[1] is None:
            return raise_failure((self._call(self._connection.read([answer[0]]), timeout))[0])
        return answer[1]

    def _read_many(self, names: Sequence[str], timeout: float | None) -> list[Any]:
        self._check()
        results: dict[str, Any] = {}
        known = [name for name in names if name in self._handles]
        if known:
            handles = [self._handles[name] for name in known]
            for name, answer in zip(known, self._call(self._connection.read(handles), timeout)):
                if isinstance(answer, Error) and answer.code in REOPEN_CODES:
                    self._handles.pop(name, None)
                else:
                    results[name] = answer
        missing = [name for name in names if name not in results]
        if missing:
            for name, answer in zip(missing, self._open(missing, timeout, True)):
                results[name] = answer if isinstance(answer, Exception) else answer[1]
        return [results[name] for name in names]

    def _write_one(
        self,
        name: str,
        value: Any,
        verb: str,
        timeout: float | None,
        *,
        ts_ns: int | None = None,
        expect: Reading | None = None,
    ) -> Written:
        expected = None if expect is None else (expect.epoch, expect.seq)
        handle = self._open_one(name, timeout)
        for _ in range(2):
            call = self._connection.write(
                [handle], [value], verb=verb, ts_ns=ts_ns, expected=expected
            )
            answer = (self._call(call, timeout))[0]
            if not isinstance(answer, Error) or answer.code not in REOPEN_CODES:
                break
            self._handles.pop(name, None)
            handle = self._open_one(name, timeout)
        return Written(*raise_failure(answer))

    def _write_many(
        self, values: Mapping[str, Any], timeout: float | None, atomic: bool = False
    ) -> list[Any]:
        self._check()
        names = list(values)
        results: dict[str, Any] = {}
        missing = [name for name in names if name not in self._handles]
        opened: dict[str, Handle] = {}
        if missing:
            for name, answer in zip(missing, self._open(missing, timeout, False)):
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
            answers = (self._call(self._connection.write_group(handles, plain_values), timeout))[2]
        else:
            call = self._connection.write(handles, plain_values, verb="put")
            answers = self._call(call, timeout)
        for name, answer in zip(ready, answers):
            results[name] = answer if isinstance(answer, Exception) else Written(*answer)
        return [results[name] for name in names]

    def _describe_known(self, name: str) -> str:
        handle = self._handles.get(name)
        if handle is None:
            return ""
        units = f", {handle.units}" if handle.units else ""
        return f", {handle.data_type}{units}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.state})"


class Batch:
    """Writes that are carried out together at the end of a `with` block."""

    def __init__(self, engine: Engine, atomic: bool, timeout: float | None) -> None:
        self._engine = engine
        self._atomic = atomic
        self._timeout = timeout
        self._values: dict[str, Any] = {}
        self.outcomes: list[Any] = []
        """One `Written` or exception for each write, in order; empty until the block has ended."""

    def put(self, name: str, value: Any) -> None:
        """Adds a write. A second write of the same variable replaces the first one."""
        self._values.pop(name, None)
        self._values[name] = value

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None or not self._values:
            return
        self.outcomes = self._engine._write_many(self._values, self._timeout, self._atomic)
        raise_failures(list(self._values), self.outcomes)


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
