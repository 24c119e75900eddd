"""A connection to an engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._errors import Error
from .._history import History, TimeLike, history_form, joined, nanoseconds
from .._records import (
    Alarm,
    AlarmChange,
    AuditEntry,
    ControlEntry,
    Found,
    Step,
    VariableDefinition,
    Written,
    checked_value,
    definition_rows,
    plain,
)
from .._table import Table
from .._trunkline import Connection, LocalEngine, Reading
from .batch import Batch
from .control import Control
from .lease import Lease
from .monitor import Callbacks, Monitor
from .recorder import Recorder
from .requests import Requests, raise_failures
from .stream import Streams
from .variable import Variable

if TYPE_CHECKING:
    from ..jupyter import LiveView

T = TypeVar("T")

PAGE_MAX = 100_000
"""Greatest number of entries that one request asks for."""


class Engine(Streams):
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
        self._requests = Requests(connection, timeout, owned)

    @classmethod
    def local(
        cls,
        libraries: Mapping[str, Mapping[str, VariableDefinition | str]] | None = None,
        *,
        name: str = "local",
        store: str | os.PathLike[str] | None = None,
        history: str | os.PathLike[str] | None = None,
        listen: str | Sequence[str] = (),
        timeout: float = 5.0,
    ) -> Engine:
        """Starts an engine in this process, for tests and scripts, and connects to it through memory.

        It stops when the connection is closed.

        Args:
            libraries: Variables by library and path; a type such as "f64" suffices as a definition.
            name: Name of the engine.
            store: File for what survives a restart; with `None`, nothing does.
            history: Folder in which every update of all variables is recorded; with `None`, there is no
                history.
            listen: Addresses for other programs, such as "127.0.0.1:0"; without one, only this process
                can connect.
            timeout: Seconds that calls wait for an answer unless they say otherwise.
        """
        addresses = [listen] if isinstance(listen, str) else list(listen)
        store_path = None if store is None else os.fspath(store)
        history_path = None if history is None else os.fspath(history)
        owned = LocalEngine.start(name, store_path, history_path, addresses)
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
        self._requests.check()
        return self._requests.call(self._requests.connection.wait_connected(), timeout)

    @property
    def timeout(self) -> float:
        """Seconds that calls wait for an answer unless they say otherwise."""
        return self._requests.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._requests.timeout = seconds

    @property
    def state(self) -> str:
        """The state of the connection: "connecting", "connected" or "closed"."""
        return self._requests.connection.state()[0]

    @property
    def transport(self) -> str | None:
        """How the connection carries data, such as "shared memory"; `None` while it is down."""
        return self._requests.connection.transport()

    def close(self) -> None:
        """Sends waiting data and closes the connection. Waiting calls raise `Closed`."""
        self._requests.close()

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
        return Variable(self._requests, name)

    def var(self, name: str, of: type[T]) -> Variable[T]:
        """Returns the variable of this name, with the type that the program expects.

        Args:
            of: `float`, `int`, `str`, ... or an `enum.Enum` whose values are the labels.
        """
        return Variable(self._requests, name, of)

    @overload
    def get(self, names: str, timeout: float | None = None) -> Any: ...
    @overload
    def get(
        self, names: list[str] | tuple[str, ...], timeout: float | None = None
    ) -> list[Any]: ...
    def get(self, names: str | Sequence[str], timeout: float | None = None) -> Any:
        """Reads the value of a variable, or of many in one round trip.

        Raises:
            BatchError: Some of the names failed; it has the values of the others.
            Error: As `get` of a variable, if there is one name.
        """
        if isinstance(names, str):
            return checked_value(self._requests.read_one(names, timeout), None)
        readings = self._requests.read_many(names, timeout)
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
        self, names: list[str] | tuple[str, ...], timeout: float | None = None
    ) -> list[Reading | Error]: ...
    def read(self, names: str | Sequence[str], timeout: float | None = None) -> Any:
        """Reads variables with time and quality.

        Returns:
            A `Reading`; for many names a list that has the exception in the place of each name that
            failed.
        """
        if isinstance(names, str):
            return self._requests.read_one(names, timeout)
        return self._requests.read_many(names, timeout)

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
            return self._requests.write_one(names, plain(value), "put", timeout)
        written = self._requests.write_many(names, timeout)
        return raise_failures(list(names), written)

    def batch(self, *, atomic: bool = False, timeout: float | None = None) -> Batch:
        """Collects writes, and carries them out together at the end of a `with` block.

        Args:
            atomic: All writes or none, with one timestamp.
        """
        return Batch(self._requests, atomic, timeout)

    def flush(self, timeout: float | None = None) -> dict[str, int]:
        """Waits for the outcomes of all writes, those of `put_nowait` included.

        Returns:
            The counts of all writes of this connection by outcome.
        """
        self._requests.check()
        return self._requests.call(self._requests.connection.flush(), timeout)

    def put_nowait(self, name: str, value: Any, life: float = 5.0) -> None:
        """Queues a write and returns at once. `flush` waits for its outcome.

        Args:
            life: Seconds that the write waits for a connection before it is cancelled.
        """
        handle = self._requests.open_one(name, None)
        self._requests.connection.write_untracked([handle], [plain(value)], life)

    def snapshot(
        self, names: Sequence[str], timeout: float | None = None
    ) -> list[Reading | Error]:
        """Reads up to 4,096 variables at one instant."""
        handles = self._requests.open_all(names, timeout)
        answer = self._requests.call(self._requests.connection.snapshot(handles), timeout)
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
            names: One name or several; or patterns, such as `rack1/**`, which also select variables
                that appear later.
            contract: What happens if the program is slower than the updates. `latest`: the newest of
                each variable; `last:N`: the newest N; `first:N`: the oldest N; `all`: writers wait, or
                the subscription ends with `Overrun`; `sampled:0.1s`: at most one per period.
            events: Yield changes of the connection and of variables instead of raising them.
            only_changes: Leave out updates with the same value and quality.
            max_age: Age in seconds above which readings are stale.
        """
        given = [names] if isinstance(names, str) else list(names)
        return Monitor(
            self._requests,
            given,
            contract,
            events=events,
            only_changes=only_changes,
            max_age=max_age,
        )

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

    def live(self, names: str | Iterable[str], seconds: float = 60.0) -> LiveView:
        """Shows variables in a notebook, with their trends, and follows them; needs anywidget.

        Args:
            names: Names, or patterns.
            seconds: Length of the trends.

        Returns:
            The view; its `close()` ends it.

        Raises:
            ImportError: The package anywidget is not installed.
        """
        self._requests.check()
        # Only notebooks need its packages.
        from ..jupyter import LiveView

        return LiveView(self._requests.connection, names, seconds)

    # --- names -----------------------------------------------------------

    def find(
        self, pattern: str = "**", limit: int | None = None, timeout: float | None = None
    ) -> list[Found]:
        """Returns the variables whose names match a pattern, such as `rack1/**`."""
        self._requests.check()
        found = self._requests.call(self._requests.connection.find(pattern, limit), timeout)
        return [Found(*one) for one in found]

    def table(self, pattern: str = "**", timeout: float | None = None) -> Table:
        """Reads all variables whose names match a pattern, as a table for pandas, Polars or Arrow."""
        names = [found.name for found in self.find(pattern, timeout=timeout)]
        results = self._requests.read_many(sorted(names), timeout)
        errors = {
            name: result
            for name, result in zip(sorted(names), results)
            if isinstance(result, Error)
        }
        return Table([one for one in results if isinstance(one, Reading)], errors)

    def why(self, name: str, timeout: float | None = None) -> list[Step]:
        """Explains why a variable does not update, step by step from its source to this program."""
        self._requests.check()
        return [Step(*one) for one in self._requests.call(self._requests.connection.why(name), timeout)]

    # --- history and alarms ----------------------------------------------

    def history(
        self,
        names: str | Iterable[str],
        start: TimeLike = None,
        end: TimeLike = None,
        *,
        points: int | None = None,
        every: float | None = None,
        agg: str = "rows",
        timeout: float | None = None,
    ) -> History:
        """Queries the recorded history.

        Args:
            names: Names or patterns.
            start, end: Nanoseconds since 1970 UTC, `datetime`, `numpy.datetime64`, RFC 3339, or a
                duration before now, such as "-1h".
            points: At most this number of buckets over the period, with the least and greatest value,
                mean and count of each.
            every: Seconds of a bucket, or of a step with `agg="interpolated"` and `agg="stepped"`.
            agg: "rows" for every update, "last", "total", "interpolated" or "stepped".

        Raises:
            Error: The engine records no history.
        """
        self._requests.check()
        form, width = history_form(points, every, agg)
        given = [names] if isinstance(names, str) else list(names)
        now = time.time_ns()
        since, until = nanoseconds(start, now), nanoseconds(end, now)
        pages: list[dict[str, Any]] = []
        cursor = None
        while True:
            call = self._requests.connection.history(given, since, until, form, width, cursor)
            page, cursor = self._requests.call(call, timeout)
            pages.extend(page)
            if cursor is None:
                return joined(pages)

    def alarms(
        self,
        pattern: str | None = None,
        *,
        area: str = "",
        priority_min: int = 0,
        states: Sequence[str] = (),
        timeout: float | None = None,
    ) -> list[Alarm]:
        """Returns the alarms with their states.

        Args:
            pattern: Only alarms of variables with matching names.
            area: Only alarms of this area.
            priority_min: Only alarms of at least this priority, 1 to 1000.
            states: Only alarms in these states, such as "unacknowledged"; all if empty.
        """
        self._requests.check()
        call = self._requests.connection.alarms(pattern, area, priority_min, list(states))
        return [Alarm(**one) for one in self._requests.call(call, timeout)]

    def alarm_journal(
        self,
        pattern: str | None = None,
        *,
        start: TimeLike = None,
        end: TimeLike = None,
        area: str = "",
        priority_min: int = 0,
        states: Sequence[str] = (),
        newest_first: bool = False,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> list[AlarmChange]:
        """Returns the changes of alarms, as the engine has recorded them.

        Args:
            pattern: Only alarms of variables with matching names.
            start, end: As for `history`.
            area: Only alarms of this area.
            priority_min: Only alarms of at least this priority, 1 to 1000.
            states: Only changes to these states; all if empty.
            newest_first: The newest change comes first.
            limit: Greatest number of changes.
        """
        now = time.time_ns()
        since, until = nanoseconds(start, now), nanoseconds(end, now)

        def begin(left: int, cursor: int | None) -> Any:
            return self._requests.connection.alarm_journal(
                pattern, area, priority_min, list(states), since, until, newest_first, left, cursor
            )

        return [AlarmChange(**one) for one in self._pages(begin, limit, timeout)]

    def audit(
        self,
        pattern: str | None = None,
        *,
        start: TimeLike = None,
        who: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> list[AuditEntry]:
        """Returns entries of the audit trail: who did what, when and from where.

        Args:
            pattern: Only entries about matching variables and libraries.
            start: Only entries from this time on; as for `history`.
            who: Only entries of this account or user.
            newest_first: The newest entry comes first.
            limit: Greatest number of entries.

        Raises:
            Denied: You have no right to read the audit trail.
        """
        since = nanoseconds(start, time.time_ns())

        def begin(left: int, cursor: int | None) -> Any:
            return self._requests.connection.audit(pattern, since, who, newest_first, left, cursor)

        return [AuditEntry(**one) for one in self._pages(begin, limit, timeout)]

    def _pages(
        self, begin: Callable[[int, int | None], Any], limit: int | None, timeout: float | None
    ) -> list[Any]:
        """Collects entries until there is no further page."""
        if limit is not None and limit < 1:
            raise ValueError("the limit must be at least 1")
        found: list[Any] = []
        cursor: int | None = None
        while True:
            self._requests.check()
            left = 0 if limit is None else min(limit - len(found), PAGE_MAX)
            entries, cursor = self._requests.call(begin(left, cursor), timeout)
            found += entries
            if cursor is None or (limit is not None and len(found) >= limit):
                return found

    def acknowledge(
        self, alarms: Alarm | Iterable[Alarm], comment: str = "", timeout: float | None = None
    ) -> list[str]:
        """Acknowledges alarms. Returns their new states."""
        return self._act(alarms, "acknowledge", comment, 0.0, timeout)

    def reset(
        self, alarms: Alarm | Iterable[Alarm], comment: str = "", timeout: float | None = None
    ) -> list[str]:
        """Resets latched alarms. Returns their new states."""
        return self._act(alarms, "reset", comment, 0.0, timeout)

    def shelve(
        self,
        alarms: Alarm | Iterable[Alarm],
        seconds: float,
        comment: str = "",
        timeout: float | None = None,
    ) -> list[str]:
        """Hides alarms for a time. Returns their new states."""
        return self._act(alarms, "shelve", comment, seconds, timeout)

    def unshelve(
        self, alarms: Alarm | Iterable[Alarm], comment: str = "", timeout: float | None = None
    ) -> list[str]:
        """Shows shelved alarms again. Returns their new states."""
        return self._act(alarms, "unshelve", comment, 0.0, timeout)

    def _act(
        self,
        alarms: Alarm | Iterable[Alarm],
        action: str,
        comment: str,
        seconds: float,
        timeout: float | None,
    ) -> list[str]:
        self._requests.check()
        given = [alarms] if isinstance(alarms, Alarm) else list(alarms)
        of = [(alarm.variable, alarm.alarm) for alarm in given]
        call = self._requests.connection.act_on_alarms(of, action, comment, seconds)
        results = self._requests.call(call, timeout)
        return raise_failures([f"{variable}#{alarm}" for variable, alarm in of], results)

    def lease(self, names: str | Iterable[str], seconds: float = 10.0) -> Lease:
        """Keeps other clients from writing variables while a `with` block runs.

        Args:
            seconds: Time after which the lease ends, should this program hang. Call `renew` within it.

        Raises:
            BatchError: Another client holds the lease of one of the variables; raised by `with`.
        """
        return Lease(self._requests, [names] if isinstance(names, str) else list(names), seconds)

    def control(
        self,
        folder: str,
        *,
        level: str = "operator",
        only_this_program: bool = True,
        seconds: float | None = None,
    ) -> Control:
        """Control of a folder, such as "boiler": other clients cannot write its variables. A `with` block
        takes it, and releases it at the end.

        Args:
            folder: The first segments of names; "**" for all variables.
            level: "operator", or "supervisor", which takes control from operators.
            only_this_program: With `False`, all programs of the same account or user may write.
            seconds: Time after which control ends; with `None`, it ends with the connection.
        """
        return Control(self._requests, folder, level, only_this_program, seconds)

    def controls(
        self, folder: str = "", *, own: bool = False, timeout: float | None = None
    ) -> list[ControlEntry]:
        """Returns the holders of folders that overlap `folder`, and those who wait; of all folders if it
        is empty.

        Args:
            own: Only what this program controls and waits for.
        """
        self._requests.check()
        call = self._requests.connection.controls(folder, own)
        return [ControlEntry(**one) for one in (self._requests.call(call, timeout))[1]]

    # --- an engine in this process ---------------------------------------

    def publish(
        self, name: str, value: Any, *, ts_ns: int | None = None, quality: str = "good"
    ) -> Written:
        """Publishes a value as the source of a variable of an engine in this process, which may be read-only.

        Args:
            value: A value of the variable's type, in engineering units.
            ts_ns: Time of the measurement, nanoseconds since 1970 UTC; with `None`, the engine's time.
            quality: "good"; or "uncertain" or "bad" with a reason, such as "bad: sensor-failure".

        Raises:
            Rejected: A rule refused the value; or the variable has another source.
            NotFound: There is no such variable.
            Error: The engine is not in this process.
            TypeError, ValueError, OverflowError: `value` is not of the variable's type.
        """
        self._requests.check()
        owned = self._requests.owned
        if owned is None:
            raise Error(
                "only the program that hosts an engine can publish as the source of its variables",
                name=name,
                hint="write an I/O server instead",
                code="not-local",
            )
        return Written(*owned.publish(name, plain(value), ts_ns, quality))

    # --- streams ---------------------------------------------------------

    def _stream_engine(self) -> tuple[str | None, int | None]:
        self._requests.check()
        url = self._requests.connection.url
        if url is not None:
            return url, None
        if not self.addresses:
            raise Error(
                "this engine listens at no address, so no program can find its streams",
                hint='start it with listen="127.0.0.1:0", or give the stream a port of its own',
                code="not-listening",
            )
        return None, int(self.addresses[0].rsplit(":", 1)[1])

    def record(
        self,
        path: str | os.PathLike[str],
        names: str | Sequence[str],
        *,
        excluded: str | Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        preallocate: int | str = 0,
        contract: str = "all",
        write_every: float = 1.0,
        checksums: bool = False,
    ) -> Recorder:
        """Starts to record variables into a new TDMS file, on a thread of this process.

        Args:
            path: The file, which must not exist.
            names: Names and patterns, such as "daq/**". Variables that appear later are recorded too.
            excluded: Names and patterns that are not recorded.
            properties: Properties of the file, written at the end: numbers, `bool`, `str` or
                `numpy.datetime64`.
            preallocate: Bytes of the disk to reserve, such as "10GB"; the rest is released at the end.
            contract: Contract of the subscription; see `monitor`. With "all", nothing is left out.
            write_every: Seconds between two writes. If the program is killed, it loses at most these.
            checksums: Writes the checksums of the segments beside the file, in `x.tdms.sums`.

        Raises:
            FileExistsError: The file exists.
            OSError: The file cannot be created, or the space cannot be reserved.
            ValueError: A name or pattern is not valid.
        """
        self._requests.check()
        return Recorder(
            self._requests.connection,
            path,
            [names] if isinstance(names, str) else names,
            excluded=[excluded] if isinstance(excluded, str) else excluded,
            properties=properties,
            preallocate=preallocate,
            contract=contract,
            write_every=write_every,
            checksums=checksums,
        )

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
        self._requests.check()
        call = self._requests.connection.deploy(library, definition_rows(variables), replace)
        return self._requests.call(call, timeout)

    def undeploy(
        self, library: str, *, force: bool = False, timeout: float | None = None
    ) -> dict[str, int]:
        """Removes a library.

        Args:
            force: Also while its variables have subscribers, which are notified.
        """
        self._requests.check()
        return self._requests.call(self._requests.connection.undeploy(library, force), timeout)

    @property
    def addresses(self) -> list[str]:
        """The addresses at which an engine of this process listens; empty for other engines."""
        return self._requests.addresses()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.state})"
