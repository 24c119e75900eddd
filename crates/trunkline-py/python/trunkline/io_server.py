"""I/O servers: programs that connect devices to the variables of an engine.

    class Psu(tl.IoServer):
        volts = tl.field(float, units="V", range=(0, 30), writable=True)
        amps = tl.field(float, units="A", alarm={"hi": 2.5})

        def open(self, config):
            self.instrument = config.visa()

        @tl.poll(0.1)
        def scan(self):
            self.amps.publish(float(self.instrument.query("MEAS:CURR?")))

        @volts.on_put
        def set_volts(self, value):
            self.instrument.write(f"VOLT {value}")
            return float(self.instrument.query("VOLT?"))

    if __name__ == "__main__":
        Psu.main()

The functions of an I/O server may block: the connection to the engine has a thread of its own. One
function runs at a time, except those with `@poll(..., own_thread=True)`. When the program ends for any
reason, also by `kill -9`, its variables become bad.
"""

from __future__ import annotations

import argparse
import enum
import functools
import importlib
import inspect
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

import numpy as np

from ._connect import engine_url
from ._errors import Closed, Error, Rejected, TimedOut
from ._records import plain
from ._sync.engine import Engine
from ._trunkline import Order, Provider, Reading

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
Server = TypeVar("Server", bound="IoServer")

SLICE = 0.1
"""Longest time in seconds without a look at signals and at the state of the connection."""
RETRY_FIRST = 1.0
RETRY_MAX = 30.0
"""First and longest delay in seconds before a device that failed is opened again."""

PLAIN_TYPES: dict[type, str] = {bool: "bool", int: "i64", float: "f64", str: "string", bytes: "bytes"}


def type_text(of: Any) -> str:
    """Returns the type of a variable for a type of Python or NumPy, or its text unchanged.

    Raises:
        TypeError: No type of a variable corresponds to it.
    """
    if isinstance(of, str):
        return of
    if isinstance(of, type):
        if of in PLAIN_TYPES:
            return PLAIN_TYPES[of]
        if issubclass(of, enum.Enum):
            return f"enum({', '.join(str(member.value) for member in of)})"
        if issubclass(of, np.generic):
            kind: np.dtype[Any] = np.dtype(cast(Any, of))
            letter = {"i": "i", "u": "u", "f": "f"}.get(kind.kind)
            if kind.kind == "b":
                return "bool"
            if letter is not None and kind.itemsize <= 8:
                return f"{letter}{kind.itemsize * 8}"
    raise TypeError(
        f"{of!r} is no type of a variable; use float, int, bool, str, bytes, a type of NumPy, an enum, or a "
        'text such as "array(f64, 1000)"'
    )


class Field(Generic[T]):
    """A variable of an I/O server, in its class; made by `field`."""

    def __init__(self, of: Any, writable: bool, path: str | None, options: dict[str, Any]) -> None:
        self.of = of
        self.data_type = type_text(of)
        self.writable = writable
        self.path = path
        self.options = options
        self.writer: Callable[..., Any] | None = None
        self.reader: Callable[..., Any] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        if self.path is None:
            self.path = name

    @overload
    def __get__(self, server: None, owner: type) -> Field[T]: ...
    @overload
    def __get__(self, server: IoServer, owner: type) -> ServedField[T]: ...
    def __get__(self, server: IoServer | None, owner: type) -> Field[T] | ServedField[T]:
        return self if server is None else server[self.path or ""]

    def on_put(self, function: Function) -> Function:
        """Decorates the method that passes a written value to the device.

        It gets the value, and returns the value that the device has now; `None` if it is the written
        one. It raises `Rejected` if the device keeps its value. Any other exception means that nobody
        knows whether the device has the value, and counts as a failure of the device.
        """
        if not self.writable:
            raise TypeError(f"the field {self.path} is not writable; add writable=True")
        self.writer = _plain_function(function)
        return function

    def on_read(self, function: Function) -> Function:
        """Decorates the method that reads a fresh value for a client that asks for one.

        It returns the value. Without such a method, the client gets the last published value.
        """
        self.reader = _plain_function(function)
        return function

    @property
    def is_soft(self) -> bool:
        """True if no device is behind the field: the program keeps what clients write."""
        return self.writable and self.writer is None

    def received(self, value: Any) -> Any:
        """Returns a value of the engine as the program gets it."""
        if isinstance(self.of, type) and issubclass(self.of, enum.Enum):
            return self.of(value)
        return value


@overload
def field(
    of: type[T],
    *,
    writable: bool = False,
    path: str | None = None,
    **options: Any,
) -> Field[T]: ...
@overload
def field(
    of: str,
    *,
    writable: bool = False,
    path: str | None = None,
    **options: Any,
) -> Field[Any]: ...
def field(of: Any, *, writable: bool = False, path: str | None = None, **options: Any) -> Field[Any]:
    """Declares a variable of an I/O server.

    Args:
        of: `float`, `int`, `bool`, `str`, `bytes`, a type of NumPy, an enum whose values are the labels, or
            a type as text, such as "array(f64, 1000)".
        writable: Clients may write it. If no method is decorated with `on_put`, the field keeps what
            clients write; when the I/O server is started again, it begins with what the engine still has.
        path: Path of the variable below the name of the I/O server; with `None`, the name of the field.
        options: Keys of a variable as in a configuration file: `units`, `range`, `precision`, `description`,
            `alarm`, `deadband`, `scale`, `max_age`, ...; and `initial`, which is published at the start.
    """
    return Field(of, writable, path, options)


class Poll:
    """A method that runs periodically, in its class."""

    def __init__(self, name: str, period: float, own_thread: bool) -> None:
        self.name = name
        self.period = period
        self.own_thread = own_thread


def poll(period: float, *, own_thread: bool = False) -> Callable[[Function], Function]:
    """Decorates a method that reads the device every `period` seconds and publishes the values.

    A run that is late is skipped, not made up for. An exception counts as a failure of the device: its
    fields become bad, and the device is opened again.

    Args:
        period: Seconds between the starts of two runs, at least 0.0001.
        own_thread: Runs in a thread of its own, beside the other functions. The method must take care
            of what they share.
    """
    if not period >= 0.0001:
        raise ValueError(f"the period is {period} s; it must be at least 0.0001")

    def decorate(function: Function) -> Function:
        polled = cast(Any, function)
        polled.__trunkline_poll__ = Poll(_plain_function(function).__name__, period, own_thread)
        return function

    return decorate


def _plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function!r} is a coroutine; functions of an I/O server are plain functions, which may block"
        )
    return function


def _method(server: IoServer, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Returns the method of `server` for a decorated function, which a subclass may have replaced."""
    if function is None:
        return None
    for base in type(server).__mro__:
        name = getattr(function, "__name__", "")
        if vars(base).get(name) is function:
            return getattr(server, name)
    return functools.partial(function, server)


class ServedField(Generic[T]):
    """A variable of a running I/O server."""

    def __init__(self, running: Running, number: int, field: Field[T]) -> None:
        self._running = running
        self._number = number
        self._field = field

    @property
    def name(self) -> str:
        """Path of the variable below the name of the I/O server."""
        return self._field.path or ""

    @property
    def value(self) -> T:
        """The last value that was published, or accepted from a client.

        Raises:
            Error: There is none yet.
        """
        last = self._running.last(self.name)
        if last is None:
            raise Error(
                "the field has no value yet",
                name=self.name,
                hint="publish one in open, or give the field an initial value",
                code="no-value",
            )
        return self._field.received(last[0])

    def publish(self, value: T, *, ts_ns: int | None = None, reason: str | None = None) -> None:
        """Publishes a value. It reaches the engine at once.

        While there is no connection, the last value is kept, and delivered when there is one.

        Args:
            value: The value, in the raw unit if the variable has a `scale`.
            ts_ns: Time of the measurement in nanoseconds since 1970 UTC, if the device has a clock.
            reason: Why the value must not be used as it is, such as "sensor-failure" or "estimated"; the quality
                becomes bad or uncertain.
        """
        self._running.provider.publish(self._number, plain(value), reason, ts_ns)

    def fail(self, reason: str = "device-failure") -> None:
        """Publishes that the value cannot be read. The variable keeps its last value, with a bad quality."""
        self._running.provider.fail([self._number], reason)

    def __repr__(self) -> str:
        last = self._running.last(self.name)
        return f"<field {self.name}: {'no value' if last is None else last[0]}>"


class Config(Mapping[str, Any]):
    """The settings of an I/O server: those of its file, and those of the command line."""

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self._settings = dict(settings or {})
        self._read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self._read.add(key)
        try:
            return self._settings[key]
        except KeyError:
            raise Error(
                f"the setting {key} is missing",
                hint=f"add {key}=VALUE to the command line, or {key} to the file of --config",
                code="setting-missing",
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __contains__(self, key: object) -> bool:
        self._read.add(str(key))
        return key in self._settings

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a setting, or `default` if it is missing."""
        return self[key] if key in self else default

    def check(self) -> None:
        """Refuses settings that the program has not read.

        Raises:
            Error: Names the first of them.
        """
        unused = [key for key in self._settings if key not in self._read]
        if unused:
            known = ", ".join(sorted(self._read)) or "none"
            raise Error(
                f"there is no setting {unused[0]}",
                hint=f"remove it; the settings are: {known}",
                code="unknown-setting",
            )

    def visa(self) -> Any:
        """Opens the instrument of the setting `visa`, such as "TCPIP::10.0.0.5::INSTR", with PyVISA.

        Further settings: `visa_library`, such as "@py" or "psu.yaml@sim"; `timeout` in seconds, 2 by default;
        `read_termination` and `write_termination`.
        """
        address = self["visa"]
        try:
            pyvisa: Any = importlib.import_module("pyvisa")
        except ImportError:
            raise Error(
                "PyVISA is not installed",
                hint="pip install 'trunkline[visa]'",
                code="not-installed",
            ) from None
        instrument = pyvisa.ResourceManager(self.get("visa_library", "@py")).open_resource(address)
        instrument.timeout = 1000 * float(self.get("timeout", 2.0))
        for key in ("read_termination", "write_termination"):
            termination = self.get(key)
            if termination is not None:
                setattr(instrument, key, termination)
        return instrument


class IoServer:
    """Base class of I/O servers. A subclass declares fields and functions; see the module.

    Attributes:
        name: The name of the I/O server; its variables are `NAME/FIELD`.
        config: Its settings.
        log: Its logger.
    """

    class_fields: ClassVar[dict[str, Field[Any]]] = {}
    class_polls: ClassVar[list[Poll]] = []

    name: str
    config: Config
    log: logging.Logger

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        fields: dict[str, Field[Any]] = {}
        polls: dict[str, Poll] = {}
        for base in reversed(cls.__mro__):
            for name, member in vars(base).items():
                if isinstance(member, Field):
                    if hasattr(IoServer, name) or name in IoServer.__annotations__:
                        raise TypeError(
                            f"every I/O server has an attribute {name}; give the field another name, and "
                            f"path={name!r}"
                        )
                    found = cast("Field[Any]", member)
                    fields[found.path or name] = found
                one = getattr(cast(Any, member), "__trunkline_poll__", None)
                if isinstance(one, Poll):
                    polls[name] = one
        cls.class_fields = fields
        cls.class_polls = list(polls.values())

    # --- what a subclass defines -----------------------------------------

    def fields(self, config: Config) -> Mapping[str, Field[Any]]:
        """Returns further fields by path, for devices whose items are known only from the settings."""
        return {}

    def open(self, config: Config) -> None:
        """Connects to the device. Called at the start, and again after a failure.

        Reads all settings that the I/O server has: others are refused afterwards.
        """

    def close(self) -> None:
        """Disconnects from the device. Called after a failure, and at the end."""

    # --- what a subclass uses ---------------------------------------------

    @property
    def provider(self) -> Provider:
        """The native part of a running I/O server."""
        return self._running().provider

    @property
    def engine(self) -> Engine:
        """A connection to the engine of this I/O server, to use its other variables.

        Raises:
            Error: `--dry-run` uses no engine.
        """
        return self._running().engine()

    def __getitem__(self, path: str) -> ServedField[Any]:
        """Returns the field with this path."""
        return self._running().served(path)

    def publish(self, values: Mapping[str, Any], *, ts_ns: int | None = None) -> None:
        """Publishes the values of several fields, by path, with one message."""
        running = self._running()
        numbered = [(running.number(path), plain(value)) for path, value in values.items()]
        running.provider.publish_many(numbered, ts_ns)

    def _running(self) -> Running:
        running = getattr(self, "_runs", None)
        if running is None:
            raise Error(
                "the I/O server does not run",
                hint="start it with start() or main()",
                code="not-running",
            )
        return running

    # --- running it --------------------------------------------------------

    @classmethod
    def start(
        cls: type[Server],
        engine: str | Engine | None = None,
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        publish: bool = True,
        order_timeout: float = 10.0,
    ) -> Server:
        """Starts the I/O server in a thread of its own, for programs and tests.

        The engine need not run yet. Use it with `with`, or call `stop`.

        Args:
            engine: URL of the engine, or an engine of this process that listens; with `None`, the one that
                `connect` would use.
            name: Name of the I/O server; with `None`, the name of the class in lower case.
            config: Its settings.
            publish: Deploys a library with the fields. Otherwise, the engine needs variables with
                `source = "NAME:FIELD"`.
            order_timeout: Seconds that a client waits for the function of a field.
        """
        server = cls()
        running = Running(server, engine, name, Config(config), publish, order_timeout)
        running.start_thread()
        return server

    def wait_ready(self, timeout: float = 5.0) -> None:
        """Waits until the device is open and the engine uses this I/O server for its variables.

        Raises:
            TimedOut: It is not so in time; the message has the cause.
        """
        self._running().wait_ready(timeout)

    def stop(self) -> None:
        """Closes the device and stops the I/O server. Its variables become bad."""
        running: Running | None = getattr(self, "_runs", None)
        if running is not None:
            running.stop()

    def __enter__(self: Server) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @classmethod
    def main(cls, arguments: list[str] | None = None) -> None:
        """Runs the I/O server from the command line until Ctrl-C or SIGTERM; `--help` lists the options.

        Exits with 0; with 1 if it cannot run; with 2 for wrong arguments.
        """
        sys.exit(_main(cls, sys.argv[1:] if arguments is None else arguments))


class Running:
    """Runs the functions of one I/O server."""

    def __init__(
        self,
        server: IoServer,
        engine: str | Engine | None,
        name: str | None,
        config: Config,
        publish: bool,
        order_timeout: float,
        *,
        dry_run: bool = False,
    ) -> None:
        self.server = server
        server.name = name or type(server).__name__.lower()
        server.config = config
        server.log = logging.getLogger(f"trunkline.io.{server.name}")
        self.url = _url_of(engine)
        self.fields = {**type(server).class_fields, **server.fields(config)}
        if not self.fields:
            raise Error(
                f"{type(server).__name__} has no fields", hint="declare one with field()", code="no-fields"
            )
        for path, one in self.fields.items():
            one.path = path
        self._numbers = {path: number for number, path in enumerate(self.fields)}
        items = [(path, one.data_type) for path, one in self.fields.items()]
        rows = _rows(server.name, self.fields) if publish else None
        self.is_dry_run = dry_run
        self.provider = (
            cast(Provider, DryRun())
            if dry_run
            else Provider.start(
                self.url,
                _program(),
                server.name,
                items,
                rows,
                order_timeout,
                any(one.reader for one in self.fields.values()),
            )
        )
        # Fields without a device begin with what the engine has, which is known later.
        self._unrestored = [path for path, one in self.fields.items() if one.is_soft]
        self._writers = {path: _method(server, one.writer) for path, one in self.fields.items()}
        self._readers = {path: _method(server, one.reader) for path, one in self.fields.items()}
        self._served = {
            path: ServedField(self, number, self.fields[path])
            for path, number in self._numbers.items()
        }
        self._engine: Engine | None = None
        self._engine_lock = threading.Lock()
        self._is_open = False
        self._cause: str | None = None
        self._retry_at = time.monotonic()
        self._retry_delay = RETRY_FIRST
        self._is_stopping = threading.Event()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        # A poll with a thread of its own holds its lock while it runs.
        self._own = [(one, threading.Lock()) for one in type(server).class_polls if one.own_thread]
        self._own_failure: Exception | None = None
        self._own_threads: list[threading.Thread] = []
        self._polls = [one for one in type(server).class_polls if not one.own_thread]
        self._due = {one.name: 0.0 for one in self._polls}
        cast(Any, server)._runs = self

    # --- for IoServer ------------------------------------------------------

    def number(self, path: str) -> int:
        """Returns the number of a field."""
        try:
            return self._numbers[path]
        except KeyError:
            raise Error(
                f"there is no field {path}",
                hint=f"the fields are {', '.join(self._numbers)}",
                code="unknown-field",
            ) from None

    def served(self, path: str) -> ServedField[Any]:
        """Returns a field of the running I/O server."""
        self.number(path)
        return self._served[path]

    def last(self, path: str) -> tuple[Any] | None:
        """Returns the last value of a field in a tuple, as the engine has it; `None` if there is none."""
        last = self.provider.last(self.number(path))
        if last is None and path in self._unrestored and "initial" in self.fields[path].options:
            return (plain(self.fields[path].options["initial"]),)
        return last

    def engine(self) -> Engine:
        """Returns a connection to the engine, which ends with the I/O server."""
        if self.is_dry_run:
            raise Error("a dry run uses no engine", hint="run the I/O server without --dry-run", code="dry-run")
        with self._engine_lock:
            if self._engine is None:
                from . import connect

                self._engine = connect(self.url)
            return self._engine

    def wait_ready(self, timeout: float) -> None:
        """See `IoServer.wait_ready`."""
        deadline = time.monotonic() + timeout
        while True:
            status = self.provider.status()
            is_provided = status["provided"] and status["variables"] >= len(self.fields)
            if self._is_open and is_provided and not self._unrestored:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                cause = self._cause or status["engine_error"] or "the device is not open, or the engine does not use its variables yet"
                raise TimedOut(f"the I/O server is not ready after {timeout} s: {cause}", code="timed-out")
            with self._changed:
                # The state of the connection changes without this condition.
                self._changed.wait(min(left, 0.02))

    def start_thread(self) -> None:
        """Runs the functions in a thread."""
        self._thread = threading.Thread(target=self._run_quietly, name=f"io {self.server.name}", daemon=True)
        self._thread.start()

    def _run_quietly(self) -> None:
        try:
            self.run()
        except Exception:
            self.server.log.exception("the I/O server has ended")

    def stop(self) -> None:
        """Stops the functions and the connection, and waits for their threads."""
        self._is_stopping.set()
        self.provider.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    # --- the thread of the functions ---------------------------------------

    def run(self, report: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Runs the functions of the I/O server until it is stopped.

        Args:
            report: Gets the state of the connection whenever it has changed.
        """
        self.publish_initial()
        self._start_own_threads()
        known: dict[str, Any] | None = None
        try:
            while not self._is_stopping.is_set():
                if report is not None and (status := self.status()) != known:
                    known = status
                    report(status)
                self._step()
        except Closed:
            if not self._is_stopping.is_set():
                raise
        finally:
            self._is_stopping.set()
            for thread in self._own_threads:
                thread.join()
            self._close_device()
            self.provider.stop()
            if self._engine is not None:
                self._engine.close()

    def status(self) -> dict[str, Any]:
        """Returns the state of the connection and of the device."""
        return {**self.provider.status(), "device_error": None if self._is_open else self._cause}

    def publish_initial(self) -> None:
        """Publishes the initial values of the fields with a device."""
        for path, one in self.fields.items():
            if "initial" in one.options and path not in self._unrestored:
                self.served(path).publish(one.options["initial"])

    def _restore(self) -> None:
        """Publishes what the engine still has of the fields without a device, or else their initial values.

        Without this, a setpoint would be lost when the I/O server is started again.
        """
        status = self.provider.status()
        if not status["provided"] or status["variables"] == 0:
            return
        try:
            found = self.engine().read([f"{self.server.name}/{path}" for path in self._unrestored])
        except Error as error:
            self.server.log.info("the values of the engine cannot be read: %s", error)
            found = [None] * len(self._unrestored)
        for path, reading in zip(self._unrestored, found):
            if self.provider.last(self.number(path)) is not None:
                # A client has written it meanwhile.
                continue
            initial = self.fields[path].options.get("initial")
            value = reading.value if isinstance(reading, Reading) and reading.has_value else initial
            if value is not None:
                self.served(path).publish(value)
        self._unrestored = []

    def _step(self) -> None:
        """Opens the device, runs what is due, and carries out the orders that arrive until then."""
        if self._own_failure is not None:
            failure, self._own_failure = self._own_failure, None
            self._fail_device(failure)
        if self._unrestored:
            self._restore()
        if not self._is_open and time.monotonic() >= self._retry_at:
            self._open_device()
        if self._is_open:
            self._run_due_polls()
        order = self.provider.next_order(max(0.0, min(SLICE, self._next_due() - time.monotonic())))
        if order is not None:
            self._carry_out(order)

    def _next_due(self) -> float:
        if not self._is_open:
            return self._retry_at
        return min(self._due.values(), default=time.monotonic() + SLICE)

    def _open_device(self) -> None:
        try:
            self.server.open(self.server.config)
            self.server.config.check()
        except Exception as error:
            self._fail_device(error)
            return
        now = time.monotonic()
        self._due = dict.fromkeys(self._due, now)
        with self._changed:
            self._is_open, self._cause, self._retry_delay = True, None, RETRY_FIRST
            self._changed.notify_all()

    def _run_due_polls(self) -> None:
        for one in self._polls:
            now = time.monotonic()
            if self._due[one.name] > now:
                continue
            # Runs that were missed are skipped.
            missed = int((now - self._due[one.name]) / one.period)
            self._due[one.name] += (missed + 1) * one.period
            try:
                getattr(self.server, one.name)()
            except Closed:
                if self._is_stopping.is_set():
                    raise
                self._fail_device(Error("a connection was closed"))
            except Exception as error:
                self._fail_device(error)
            if not self._is_open:
                return

    def _carry_out(self, order: Order) -> None:
        path = list(self.fields)[order.item]
        one = self.fields[path]
        method = self._writers[path] if order.is_write else self._readers[path]
        try:
            if order.is_write and not one.writable:
                self.provider.refuse(order, f"{path} is an input; it cannot be written")
            elif method is None:
                self.provider.accept(order, None)
            elif not self._is_open:
                self.provider.refuse(order, f"its device is not open: {self._cause or 'it is being opened'}")
            else:
                self._call(order, one, method)
        except TimedOut:
            self.server.log.warning("the answer for %s came too late for its client", path)

    def _call(self, order: Order, one: Field[Any], method: Callable[..., Any]) -> None:
        arguments = [one.received(order.value)] if order.is_write else []
        try:
            result = plain(method(*arguments))
        except Rejected as error:
            self.provider.refuse(order, str(error))
            return
        except Exception as error:
            # Before the answer, so that the device counts as failed when the client knows.
            self._note_failure(error)
            try:
                sentence = f"its program failed: {self._cause}"
                if order.is_write:
                    self.provider.unknown(order, sentence)
                else:
                    self.provider.refuse(order, sentence)
            finally:
                self._fail_device(error)
            return
        except BaseException:
            self.provider.unknown(order, "its program was stopped")
            raise
        try:
            self.provider.accept(order, result)
        except (TypeError, ValueError, OverflowError) as error:
            sentence = f"its program returned a value that the variable cannot have: {error}"
            self.server.log.error("%s: %s", one.path, sentence)
            self.provider.unknown(order, sentence)

    # --- failures of the device ---------------------------------------------

    def _note_failure(self, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error}"
        if cause != self._cause:
            self.server.log.error("the device failed: %s", cause, exc_info=error)
        with self._changed:
            self._is_open, self._cause = False, cause
            self._changed.notify_all()

    def _fail_device(self, error: Exception) -> None:
        """Makes the fields of the device bad, and closes it. It is opened again after a delay."""
        self._note_failure(error)
        for _, lock in self._own:
            lock.acquire()
        try:
            device = [self._numbers[path] for path, one in self.fields.items() if not one.is_soft]
            self.provider.fail(device, "device-failure")
            self._close_device(always=True)
        finally:
            for _, lock in self._own:
                lock.release()
        self._retry_at = time.monotonic() + self._retry_delay
        self._retry_delay = min(2 * self._retry_delay, RETRY_MAX)

    def _close_device(self, *, always: bool = False) -> None:
        if not (self._is_open or always):
            return
        self._is_open = False
        try:
            self.server.close()
        except Exception:
            self.server.log.debug("closing the device failed", exc_info=True)

    # --- polls with threads of their own -------------------------------------

    def _start_own_threads(self) -> None:
        for one, lock in self._own:
            thread = threading.Thread(
                target=self._poll_alone, args=(one, lock), name=f"io {one.name}", daemon=True
            )
            self._own_threads.append(thread)
            thread.start()

    def _poll_alone(self, one: Poll, lock: threading.Lock) -> None:
        due = time.monotonic()
        while not self._is_stopping.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            due += (int((now - due) / one.period) + 1) * one.period
            with lock:
                # A failure waits until the other thread has closed the device.
                if not self._is_open or self._own_failure is not None:
                    continue
                try:
                    getattr(self.server, one.name)()
                except Exception as error:
                    if not self._is_stopping.is_set():
                        self._own_failure = error


class DryRun:
    """Stands for the native provider where no engine is used. It keeps the values only."""

    def __init__(self) -> None:
        self._last: dict[int, Any] = {}

    def publish(self, item: int, value: Any, reason: str | None, ts_ns: int | None) -> None:
        """Keeps a value."""
        self._last[item] = value

    def publish_many(self, items: Sequence[tuple[int, Any]], ts_ns: int | None) -> None:
        """Keeps several values."""
        self._last.update(items)

    def fail(self, items: Sequence[int], reason: str) -> None:
        """Forgets values."""
        for item in items:
            self._last.pop(item, None)

    def last(self, item: int) -> tuple[Any] | None:
        """Returns a value in a tuple."""
        return (self._last[item],) if item in self._last else None

    def stop(self) -> None:
        """Does nothing."""


def _rows(name: str, fields: Mapping[str, Field[Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """Returns the definitions of the variables."""
    rows: list[tuple[str, str, dict[str, Any]]] = []
    for path, one in fields.items():
        options = {
            "access": "read-write" if one.writable else "read-only",
            **{key: value for key, value in one.options.items() if key != "initial"},
            "source": f"{name}:{path}",
        }
        rows.append((path, one.data_type, options))
    return rows


def _program() -> str:
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"


def _url_of(engine: str | Engine | None) -> str:
    if isinstance(engine, Engine):
        addresses = engine.addresses
        if not addresses:
            raise Error(
                "the engine cannot be reached by an I/O server",
                hint='give it an address: Engine.local(listen="127.0.0.1:0")',
                code="no-address",
            )
        return f"tl+tcp://{addresses[0]}"
    return engine_url(engine)


# --- the command line ---------------------------------------------------------


def _main(cls: type[IoServer], arguments: list[str]) -> int:
    parsed = _parser(cls).parse_args(arguments)
    logging.basicConfig(level=parsed.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = _config(parsed.config, parsed.settings)
        server = cls()
        if parsed.list:
            _list({**cls.class_fields, **server.fields(config)}, parsed.name)
            return 0
        running = Running(
            server,
            parsed.engine,
            parsed.name,
            config,
            not parsed.no_publish,
            parsed.order_timeout,
            dry_run=parsed.dry_run,
        )
        # Also where a shell has started the program in the background, with this signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            if parsed.dry_run:
                return _try_once(running)
            running.run(lambda status: _report(running, status))
        except KeyboardInterrupt:
            running.stop()
        return 0
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser(cls: type[IoServer]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=inspect.cleandoc(cls.__doc__ or "An I/O server."))
    parser.add_argument(
        "settings", nargs="*", metavar="KEY=VALUE", type=_setting, help="settings; they override --config"
    )
    parser.add_argument(
        "--name", default=cls.__name__.lower(), help="name of the I/O server (default: %(default)s)"
    )
    parser.add_argument("--engine", metavar="URL", help="the engine (default: as for trunkline.connect)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings in a TOML file")
    parser.add_argument("--list", action="store_true", help="list the variables and exit")
    parser.add_argument(
        "--dry-run", action="store_true", help="open the device, run each poll once, print the values, and exit"
    )
    parser.add_argument(
        "--no-publish",
        action="store_true",
        help='do not create the variables; the engine has variables with source = "NAME:FIELD"',
    )
    parser.add_argument(
        "--order-timeout",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="how long a client waits for the function of a field (default: %(default)s)",
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="(default: %(default)s)",
    )
    return parser


def _setting(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError("it must have the form KEY=VALUE")
    value = value.strip()
    if value in ("true", "false"):
        return key.strip(), value == "true"
    for kind in (int, float):
        try:
            return key.strip(), kind(value)
        except ValueError:
            pass
    return key.strip(), value


def _config(file: Path | None, settings: list[tuple[str, Any]]) -> Config:
    read: dict[str, Any] = {}
    if file is not None:
        try:
            tomllib: Any = importlib.import_module("tomllib")
        except ImportError:
            raise Error(
                "--config needs Python 3.11", hint="give the settings as KEY=VALUE", code="not-installed"
            ) from None
        try:
            read = tomllib.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise Error(f"{file} cannot be read: {error}", code="bad-configuration") from None
    return Config({**read, **dict(settings)})


def _list(fields: Mapping[str, Field[Any]], name: str) -> None:
    for path, one in fields.items():
        access = "read-write" if one.writable else "read-only"
        units = str(one.options.get("units", ""))
        print(f"{name}/{path}\t{one.data_type}\t{access}\t{units}".rstrip())


def _try_once(running: Running) -> int:
    """Opens the device and runs each poll once, without an engine."""
    server = running.server
    try:
        running.publish_initial()
        server.open(server.config)
        server.config.check()
        for one in type(server).class_polls:
            getattr(server, one.name)()
        for path in running.fields:
            print(repr(running.served(path)))
        return 0
    except Exception as error:
        server.log.error("the device failed: %s: %s", type(error).__name__, error, exc_info=error)
        return 1
    finally:
        server.close()
        running.provider.stop()


def _report(running: Running, status: dict[str, Any]) -> None:
    name, url = running.server.name, running.url
    if status["provided"]:
        count = status["variables"]
        plural = "" if count == 1 else "s"
        print(f"I/O server {name} delivers {count} variable{plural} of {url} · press Ctrl-C to stop", flush=True)
    else:
        print(f"I/O server {name} waits for the engine at {url}", flush=True)
    if status["missing_item"] is not None:
        print(
            f"  the `source` of {status['missing']} variables names items that the I/O server does not have, "
            f"such as {status['missing_item']}; correct the configuration of the variables",
            file=sys.stderr,
        )
    for origin in ("engine", "device"):
        if status[f"{origin}_error"] is not None:
            print(f"  {origin}: {status[f'{origin}_error']}", file=sys.stderr)
