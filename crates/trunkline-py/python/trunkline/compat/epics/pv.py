"""The class `PV`, and `get_pv`, which keeps its objects."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ..._errors import Disconnected, Error, NotFound, OutcomeUnknown, TimedOut
from ..._trunkline import Event, Handle, Reading
from ._context import guarded, log, shared_context
from ._names import trunkline_name
from ._values import (
    FORMS,
    FTYPES,
    SEVERITIES,
    STATUSES,
    PvType,
    alarm_of,
    from_epics,
    pv_type,
    shortened,
    text_of,
    to_epics,
)

CONNECTION_TIMEOUT_S = 2.0
"""Seconds that a PV waits for its connection if the program does not say otherwise."""
GET_TIMEOUT_S = 5.0

FIELDS = (
    "pvname value char_value status ftype chid host count access write_access read_access severity "
    "timestamp posixseconds nanoseconds precision units enum_strs monitor_delta upper_disp_limit "
    "lower_disp_limit upper_alarm_limit lower_alarm_limit lower_warning_limit upper_warning_limit "
    "upper_ctrl_limit lower_ctrl_limit"
).split()
LIMITS = {
    "upper_alarm_limit": "alarm.hi_hi.limit",
    "upper_warning_limit": "alarm.hi.limit",
    "lower_warning_limit": "alarm.lo.limit",
    "lower_alarm_limit": "alarm.lo_lo.limit",
}
"""Fields with the limits of alarms, by the attribute."""
ACCESS = {"read-write": "read/write", "read-only": "read-only", "write-only": "write-only"}

_chids = itertools.count(1)


class PV:
    """A variable, as an EPICS process variable.

    It connects by itself, and again after an interruption. Methods and attributes are those of pyepics;
    the documentation lists the differences.

    Args:
        pvname: `BL:TEMP`, `BL:TEMP.EGU`, or a name of Trunkline such as `boiler/level`.
        callback: Called for each update with keyword arguments; or several functions.
        form: "time", "ctrl" or "native".
        verbose: Prints every update.
        auto_monitor: With `False`, updates are not followed, and callbacks are not called.
        count: Greatest number of elements of an array.
        connection_callback: Called with `pvname`, `conn` and `pv` when the variable appears or is gone.
        connection_timeout: Seconds to wait for the variable; 2 if `None`.
        access_callback: Called with the rights to read and to write, and `pv`.
        monitor_delta: Smallest change of a number that calls the callbacks.
    """

    def __init__(
        self,
        pvname: str,
        callback: Callable[..., object] | Sequence[Callable[..., object]] | None = None,
        form: str = "time",
        verbose: bool = False,
        auto_monitor: Any = None,
        count: int | None = None,
        connection_callback: Callable[..., object] | None = None,
        connection_timeout: float | None = None,
        access_callback: Callable[..., object] | None = None,
        monitor_delta: float | None = None,
    ) -> None:
        self.pvname = pvname.strip()
        self.form = form.lower() if form.lower() in FORMS else "time"
        self.verbose = verbose
        self.connected = False
        self.connection_timeout = (
            CONNECTION_TIMEOUT_S if connection_timeout is None else connection_timeout
        )
        self.connection_callbacks = [] if connection_callback is None else [connection_callback]
        self.access_callbacks = [] if access_callback is None else [access_callback]
        self.callbacks: dict[int, tuple[Callable[..., object], dict[str, Any]]] = {}
        for index, one in enumerate([callback] if callable(callback) else callback or ()):
            self.callbacks[index] = (one, {})
        self.chid = next(_chids)
        self.put_complete: bool | None = None
        """False while a put with `use_complete=True` is in progress; `None` without one."""
        self._context = shared_context()
        self._name = trunkline_name(self.pvname, self._context.prefix)
        self._auto_monitor = auto_monitor
        self._count_max = count
        self._last_called: Any = None
        self._handle: Handle | None = None
        self._type: PvType | None = None
        self._reason: Exception | None = None
        self._changed = threading.Condition()
        self._is_disconnected = False
        self._position = (-1, -1)
        self._args: dict[str, Any] = dict.fromkeys(FIELDS)
        self._args.update(
            pvname=self.pvname,
            chid=self.chid,
            count=count,
            nelm=-1,
            type="unknown",
            typefull="unknown",
            access="unknown",
            monitor_delta=monitor_delta,
        )
        self._context.pvs.add(self)
        self._subscribe()

    # --- the connection --------------------------------------------------

    def _subscribe(self) -> None:
        if self._is_disconnected:
            return
        name = self._name
        if self._auto_monitor is not None and not self._auto_monitor and "#" not in name:
            # It changes only with the configuration, but it appears and vanishes with the variable.
            name += "#type"
        self._subscription = self._context.subscribe(name, self._on_item)

    def _on_item(self, item: Reading | Event) -> None:
        if self._is_disconnected:
            return
        if isinstance(item, Reading):
            if not self.connected:
                self._on_connect()
            if item.name == self._name:
                self._on_update(item)
        elif item.kind == "disconnected":
            self._on_loss(item.error)
        elif item.kind in ("failed", "ended"):
            self._on_loss(item.error)
            self._subscription.close()
            self._context.dispatcher.later(self._subscribe)

    def _on_connect(self) -> None:
        (answer,) = self._context.requests.open([self._name], None, False)
        if isinstance(answer, Exception):
            self._reason = answer
            return
        self._describe(answer[0])
        with self._changed:
            self.connected = True
            self._reason = None
            self._changed.notify_all()
        for one in list(self.access_callbacks):
            guarded(one, self._args["read_access"], self._args["write_access"], pv=self)
        for one in list(self.connection_callbacks):
            guarded(one, pvname=self.pvname, conn=True, pv=self)

    def _on_loss(self, reason: Exception | None) -> None:
        with self._changed:
            was_connected, self.connected = self.connected, False
            self._reason = reason
            self._changed.notify_all()
        if not was_connected:
            return
        if self.verbose:
            print(f"PV '{self.pvname}' disconnected.")
        for one in list(self.connection_callbacks):
            guarded(one, pvname=self.pvname, conn=False, pv=self)

    def _describe(self, handle: Handle) -> None:
        """Takes over what is configured about the variable."""
        self._handle = handle
        self._type = of = pv_type(handle)
        low, high = handle.range or (0.0, 0.0)
        typed = of.native if self.form == "native" else f"{self.form}_{of.native}"
        self._args.update(
            ftype=FTYPES.get(of.native, 0) + FORMS[self.form],
            type=typed,
            typefull=typed,
            nelm=of.nelm or 1,
            count=min(of.nelm or 1, self._count_max or of.nelm or 1),
            host=self._context.requests.connection.url or "this process",
            access=ACCESS[handle.access],
            read_access=handle.access != "write-only",
            write_access=handle.access != "read-only",
            precision=handle.precision,
            units=handle.units,
            enum_strs=of.labels or None,
            upper_disp_limit=high,
            lower_disp_limit=low,
            upper_ctrl_limit=high,
            lower_ctrl_limit=low,
        )

    def wait_for_connection(self, timeout: float | None = None) -> bool:
        """Waits until the variable is there. Returns false if it is not in time."""
        if timeout is None:
            timeout = self.connection_timeout
        if self.connected or self._is_disconnected or self._context.dispatcher.is_current:
            return self.connected
        with self._changed:
            self._changed.wait_for(lambda: self.connected, timeout)
        return self.connected

    def connect(self, timeout: float | None = None) -> bool:
        """Waits for the connection, as `wait_for_connection` does."""
        return self.wait_for_connection(timeout)

    def reconnect(self) -> bool:
        """Ends the subscription and begins a new one. Returns whether the variable is there."""
        self._subscription.close()
        self.connected = False
        self._is_disconnected = False
        self._subscribe()
        return self.wait_for_connection()

    def disconnect(self, deepclean: bool = True) -> None:
        """Ends the subscription and removes all callbacks."""
        self._is_disconnected = True
        self.connected = False
        self._context.cache.pop((self.pvname, self.form), None)
        self._subscription.close()
        self.clear_callbacks(deepclean, deepclean)

    @property
    def auto_monitor(self) -> Any:
        """`None` or true: updates are followed."""
        return self._auto_monitor

    @auto_monitor.setter
    def auto_monitor(self, value: Any) -> None:
        if bool(value) != (self._auto_monitor is None or bool(self._auto_monitor)):
            self._auto_monitor = value
            self._subscription.close()
            self._subscribe()
        self._auto_monitor = value

    def clear_auto_monitor(self) -> None:
        """Stops to follow the updates."""
        self.auto_monitor = False

    def poll(self, evt: float = 1e-4, iot: float = 1.0) -> None:
        """Waits `evt` seconds. Callbacks need no polling."""
        time.sleep(evt)

    # --- values ----------------------------------------------------------

    def _take(self, reading: Reading) -> None:
        """Takes over a reading, unless a newer one is known."""
        of = self._type
        assert of is not None
        position = (reading.epoch, reading.seq)
        if position < self._position:
            return
        self._position = position
        value = to_epics(reading.value, of)
        if of.is_array:
            if self._count_max:
                value = value[: self._count_max]
            self._args["count"] = len(value)
            if of.nelm is None:
                self._args["nelm"] = len(value)
        status, severity = alarm_of(reading)
        seconds, nanoseconds = divmod(reading.ts_ns, 1_000_000_000)
        self._args.update(
            value=value,
            char_value=text_of(value, of, self._args["precision"]),
            status=status,
            severity=severity,
            timestamp=seconds + nanoseconds / 1e9,
            posixseconds=seconds,
            nanoseconds=nanoseconds,
        )

    def _on_update(self, reading: Reading) -> None:
        with self._changed:
            if self._type is None:
                return
            self._take(reading)
            value, delta = self._args["value"], self._args["monitor_delta"]
        if delta is not None and isinstance(value, (int, float)):
            if self._last_called is not None and abs(value - self._last_called) < delta:
                return
            self._last_called = value
        if self.verbose:
            print(f"{self.pvname}: {self._args['char_value']} ({fmt_time(self._args['timestamp'])})")
        self.run_callbacks()

    def _read(self, timeout: float | None) -> bool:
        """Reads the variable. Returns false if there is no connection or no answer in time."""
        try:
            reading = self._context.requests.read_one(
                self._name, GET_TIMEOUT_S if timeout is None else max(timeout, 0.0)
            )
        except (TimedOut, Disconnected, NotFound) as error:
            self._reason = error
            return False
        with self._changed:
            self._take(reading)
        return True

    def get(
        self,
        count: int | None = None,
        as_string: bool = False,
        as_numpy: bool = True,
        timeout: float | None = None,
        with_ctrlvars: bool = False,
        use_monitor: bool = True,
    ) -> Any:
        """Reads the value from the engine.

        Args:
            count: Greatest number of elements of an array.
            as_string: Return text: the label of an enum, a float with the variable's precision.
            as_numpy: With `False`, return an array as a list.
            timeout: Seconds to wait; 5 if `None`.
            with_ctrlvars: Read the limits of the alarms too.
            use_monitor: Has no effect; the value always comes from the engine.

        Returns:
            The value; the number of an enum; an array with one dimension. `None` without a connection
            or an answer in time.
        """
        found = self.get_with_metadata(
            count, as_string, as_numpy, timeout, with_ctrlvars, use_monitor=use_monitor
        )
        return None if found is None else found["value"]

    def get_with_metadata(
        self,
        count: int | None = None,
        as_string: bool = False,
        as_numpy: bool = True,
        timeout: float | None = None,
        with_ctrlvars: bool = False,
        form: str | None = None,
        use_monitor: bool = True,
        as_namespace: bool = False,
    ) -> Any:
        """Reads the value, and returns it with everything that is known, as a dictionary or namespace.

        Args: As `get`.
        """
        if not self.wait_for_connection(timeout) or not self._read(timeout):
            return None
        if with_ctrlvars or form == "ctrl":
            self.get_ctrlvars()
        data = dict(self._args)
        if as_string:
            data["value"] = data["char_value"]
        elif self._type is not None and self._type.is_array:
            data["value"] = shortened(data["value"], count, as_numpy)
        return SimpleNamespace(**data) if as_namespace else data

    def put(
        self,
        value: Any,
        wait: bool = False,
        timeout: float = 30.0,
        use_complete: bool = False,
        callback: Callable[..., object] | None = None,
        callback_data: Any = None,
    ) -> int | None:
        """Writes the value.

        Args:
            value: A value; of an enum the number or the label.
            wait: Wait until the owner of the variable has accepted the value.
            timeout: Seconds to wait.
            use_complete: Let `put_complete` say whether the value was accepted.
            callback: Called with `pvname` and `data` when the value was accepted.
            callback_data: The callback's `data`, or a dictionary of its keyword arguments.

        Returns:
            1; -1 if it is not known in time whether the value was accepted; `None` without a connection.

        Raises:
            Rejected, Denied: With `wait=True`, the engine refused the value. Without, this is logged.
            ValueError, TypeError: The value does not fit the variable.
        """
        if not self.wait_for_connection():
            return None
        assert self._handle is not None and self._type is not None
        converted = from_epics(value, self._type)
        self.put_complete = False if use_complete else None

        def completed() -> None:
            self.put_complete = True if use_complete else None
            if callback is not None:
                has_names = hasattr(callback_data, "keys")
                named: dict[str, Any] = dict(callback_data if has_names else {"data": callback_data})
                guarded(callback, pvname=self.pvname, **named)

        if wait:
            try:
                self._context.requests.write_one(self._name, converted, "put", timeout)
            except (OutcomeUnknown, TimedOut):
                return -1
            except Disconnected:
                return None
            completed()
            return 1

        def answered(answers: list[Any] | Error) -> None:
            first = answers if isinstance(answers, Error) else answers[0]
            if isinstance(first, Exception):
                log.error("%s was not written: %s", self.pvname, first)
            else:
                completed()

        requests = self._context.requests
        try:
            call = requests.connection.write([self._handle], [converted], verb="put")
        except Error as error:
            log.error("%s was not written: %s", self.pvname, error)
            return -1
        self._context.answer(call, answered)
        return 1

    def get_ctrlvars(self, timeout: float = 5, warn: bool = True) -> dict[str, Any] | None:
        """Reads units, precision, labels, limits of the range and of alarms. Returns them by name."""
        if not self.wait_for_connection():
            return None
        if "#" not in self._name:
            try:
                names = [f"{self._name}#{field}" for field in LIMITS.values()]
                for key, limit in zip(LIMITS, self._context.engine.read(names, timeout)):
                    self._args[key] = math.nan
                    if isinstance(limit, Reading) and limit.has_value:
                        self._args[key] = limit.value
            except (TimedOut, Disconnected) as error:
                self._reason = error
                return None
        keys = ["units", "precision", "enum_strs", "status", "severity", *FIELDS[-8:]]
        return {key: self._args[key] for key in keys if self._args[key] is not None}

    def get_timevars(self, timeout: float = 5, warn: bool = True) -> dict[str, Any] | None:
        """Reads the value, and returns its time and alarm state by name."""
        if not self.wait_for_connection() or not self._read(timeout):
            return None
        keys = ("status", "severity", "timestamp", "posixseconds", "nanoseconds")
        return {key: self._args[key] for key in keys}

    # --- callbacks -------------------------------------------------------

    def run_callbacks(self) -> None:
        """Calls all callbacks with what is known now."""
        for index in sorted(self.callbacks):
            self.run_callback(index)

    def run_callback(self, index: int) -> None:
        """Calls one callback with what is known now."""
        found = self.callbacks.get(index)
        if found is not None:
            guarded(found[0], **{**self._args, **found[1], "cb_info": (index, self)})

    def add_callback(
        self,
        callback: Callable[..., object] | None = None,
        index: int | None = None,
        run_now: bool = False,
        with_ctrlvars: bool = True,
        **kw: Any,
    ) -> int | None:
        """Adds a function that is called for each update.

        Args:
            index: Its number; a new one if `None`.
            run_now: Call it at once, too.
            kw: Further keyword arguments for the function.

        Returns:
            Its number, for `remove_callback`.
        """
        if callable(callback):
            if index is None:
                index = 1 + max(self.callbacks, default=0)
            self.callbacks[index] = (callback, kw)
        if with_ctrlvars and self.connected:
            self.get_ctrlvars()
        if run_now and index is not None and self.get() is not None:
            self.run_callback(index)
        return index

    def remove_callback(self, index: int | None = None) -> None:
        """Removes a callback."""
        if index is not None:
            self.callbacks.pop(index, None)

    def clear_callbacks(
        self, with_access_callback: bool = False, with_connect_callback: bool = False
    ) -> None:
        """Removes all callbacks."""
        self.callbacks.clear()
        if with_access_callback:
            self.access_callbacks = []
        if with_connect_callback:
            self.connection_callbacks = []

    # --- attributes ------------------------------------------------------

    @property
    def value(self) -> Any:
        """The value of the newest update; read if there was none. Assigning writes without waiting."""
        return self._argument("value")

    @value.setter
    def value(self, value: Any) -> None:
        self.put(value)

    def _argument(self, name: str) -> Any:
        follows = self._auto_monitor is None or bool(self._auto_monitor)
        if self._args["value"] is None or not follows:
            self.get()
        if self._args[name] is None and name in LIMITS:
            self.get_ctrlvars(timeout=1)
        return self._args[name]

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS or name in ("nelm", "type", "typefull"):
            return self._argument(name)
        raise AttributeError(f"a PV has no {name!r}")

    @property
    def char_status(self) -> str:
        """Name of the status."""
        return STATUSES[int(self._argument("status"))]

    @property
    def char_severity(self) -> str:
        """Name of the severity: "NO_ALARM", "MINOR" or "INVALID"."""
        return SEVERITIES[int(self._argument("severity"))]

    @property
    def info(self) -> str | None:
        """A paragraph about the variable; `None` without a connection."""
        if not self.wait_for_connection() or self.get_ctrlvars() is None or not self._read(None):
            return None
        value = self._args["value"]
        if self._type is not None and self._type.is_array:
            shown = ",".join(map(str, value[:5])) + (",...." if len(value) > 5 else "")
            value = f"array  [{shown}]"
        lines = {"value": value}
        for name in (
            "char_value count nelm type units precision host access monitor_delta status char_status "
            "severity char_severity timestamp posixseconds nanoseconds upper_ctrl_limit lower_ctrl_limit "
            "upper_disp_limit lower_disp_limit upper_alarm_limit lower_alarm_limit upper_warning_limit "
            "lower_warning_limit"
        ).split():
            found = getattr(self, name)
            if found is None:
                continue
            if name == "timestamp":
                found = f"{found:.3f} ({fmt_time(found)})"
            lines[name] = f"'{found}'" if name == "char_value" else found
        text = [f"== {self.pvname}  ({self._args['type']}) =="]
        text += [f"   {name:{20 if len(name) > 14 else 15}s} = {one}" for name, one in lines.items()]
        if self._args["enum_strs"]:
            text.append("   enum strings: ")
            text += [f"       {index} = {one}" for index, one in enumerate(self._args["enum_strs"])]
        text += [f"   variable        = {self._name}", "============================="]
        return "\n".join(text)

    def why_not_connected(self) -> str:
        """Says why the variable is not there."""
        return "no answer from the engine" if self._reason is None else str(self._reason)

    def __repr__(self) -> str:
        if not self.connected:
            return f"<PV '{self.pvname}': not connected>"
        args = self._args
        count = args["count"] if args["nelm"] == 1 else f"{args['count']}/{args['nelm']}"
        return (
            f"<PV '{self.pvname}', count={count}, type={args['typefull']}, access={args['access']}>"
        )


def fmt_time(tstamp: float | None = None) -> str:
    """Returns a time in seconds since 1970 as text, in the time zone of the program."""
    seconds, rest = divmod(time.time() if tstamp is None else tstamp, 1)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}.{int(1e5 * rest):05d}"


def get_pv(
    pvname: str | PV,
    form: str = "time",
    connect: bool = False,
    context: Any = None,
    timeout: float = 5.0,
    connection_callback: Callable[..., object] | None = None,
    access_callback: Callable[..., object] | None = None,
    callback: Callable[..., object] | None = None,
    verbose: bool = False,
    count: int | None = None,
    auto_monitor: Any = None,
    monitor_delta: float | None = None,
) -> PV:
    """Returns the PV object of a name; makes one if there is none.

    Args:
        connect: Wait until the variable is there, and print a sentence if it is not.
        context: Has no effect.
        timeout: Seconds to wait.

    Further arguments: As for `PV`.
    """
    shared = shared_context()
    name = pvname.pvname if isinstance(pvname, PV) else pvname
    pv: PV | None = shared.cache.get((name, form))
    if pv is None:
        pv = PV(
            name,
            callback=callback,
            form=form,
            verbose=verbose,
            auto_monitor=auto_monitor,
            count=count,
            connection_callback=connection_callback,
            connection_timeout=timeout,
            access_callback=access_callback,
            monitor_delta=monitor_delta,
        )
        shared.cache[name, form] = pv
    else:
        if connection_callback is not None:
            if pv.connected:
                connection_callback(pvname=pv.pvname, conn=True, pv=pv)
            pv.connection_callbacks.append(connection_callback)
        if access_callback is not None:
            if pv.connected:
                access_callback(pv.read_access, pv.write_access, pv=pv)
            pv.access_callbacks.append(access_callback)
        if callback is not None:
            pv.add_callback(callback, run_now=True)
        if auto_monitor and not pv.auto_monitor:
            pv.auto_monitor = auto_monitor
    if connect and not pv.wait_for_connection(timeout):
        print(f"cannot connect to {name}: {pv.why_not_connected()}")
    return pv
