"""The interface of pyepics on variables of Trunkline, so that scripts written for it run.

    import trunkline.compat.epics as epics

    epics.caput("BL:TEMP", 21.5)
    print(epics.caget("BL:TEMP"))

`caget`, `caput`, `camonitor`, `cainfo`, `caget_many`, `caput_many`, `get_pv` and `PV` have the parameters
and results of pyepics 3.5. `python -m trunkline.compat.epics script.py` runs a script that has
`import epics`, without a change.

Names: The part of a PV's name before the first ":" is the library, and each further ":" begins a segment of
the path: `SR:C01:X` is the variable `SR/C01/X`. With a prefix (see `use`, or the environment variable
`TRUNKLINE_EPICS_PREFIX`), the prefix and the unchanged name are the name: `epics/SR:C01:X`. A name that
contains a "/" is a name of Trunkline. The fields .VAL, .DESC, .EGU, .PREC, .NAME, .HOPR, .LOPR, .DRVH,
.DRVL, .HIHI, .HIGH, .LOW and .LOLO can be read; others raise `ValueError`.

Severities: a good value has the severity 0, an uncertain one 1 (MINOR), a bad one 3 (INVALID). The alarms of
a variable are not in it; see `Engine.alarms`.

Callbacks run one at a time on one thread, and may call everything in this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..._errors import Disconnected, Error, OutcomeUnknown, TimedOut
from ..._trunkline import Reading
from ._context import log, shared_context, use
from ._names import trunkline_name
from ._values import (
    INVALID_ALARM,
    MAJOR_ALARM,
    MINOR_ALARM,
    NO_ALARM,
    from_epics,
    pv_type,
    shortened,
    text_of,
    to_epics,
)
from .pv import PV, fmt_time, get_pv

__all__ = [
    "INVALID_ALARM",
    "MAJOR_ALARM",
    "MINOR_ALARM",
    "NO_ALARM",
    "PV",
    "caget",
    "caget_many",
    "cainfo",
    "camonitor",
    "camonitor_clear",
    "caput",
    "caput_many",
    "get_pv",
    "poll",
    "use",
]

MISSING = {
    "Alarm": "use Engine.alarms, or the alarms of the configuration",
    "CAPool": "connect in each process, with the start method spawn",
    "CAProcess": "connect in each process, with the start method spawn",
    "CAThread": "use threading.Thread; any thread may use a PV",
    "Device": "use get_pv for each attribute",
    "Motor": "use get_pv for each attribute",
    "alarm": "use Engine.alarms, or the alarms of the configuration",
    "autosave": "configure retain = true for the variables",
    "ca": "there is no Channel Access; use PV, caget and caput",
    "dbr": "there is no Channel Access; PV.type has the name of the type",
    "device": "use get_pv for each attribute",
    "devices": "use get_pv for each attribute",
    "motor": "use get_pv for each attribute",
    "multiproc": "connect in each process, with the start method spawn",
    "wx": "use add_callback",
}
"""What pyepics has and this module has not, and what to use instead."""

MONITOR_INDEX = -999
"""Number of the callback of `camonitor`."""

_monitors: dict[str, PV] = {}


def __getattr__(name: str) -> Any:
    if name in MISSING:
        raise NotImplementedError(f"trunkline.compat.epics has no {name!r}; {MISSING[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def caput(
    pvname: str,
    value: Any,
    wait: bool = False,
    timeout: float = 60.0,
    connection_timeout: float = 5.0,
) -> int | None:
    """Writes a variable; see `PV.put`.

    Returns:
        1; -1 if it is not known in time whether the value was accepted; `None` without a connection.
    """
    start = time.monotonic()
    pv = get_pv(pvname, timeout=connection_timeout, connect=True)
    if not pv.connected:
        return None
    return pv.put(value, wait=wait, timeout=timeout - (time.monotonic() - start))


def caget(
    pvname: str,
    as_string: bool = False,
    count: int | None = None,
    as_numpy: bool = True,
    use_monitor: bool = True,
    timeout: float = 5.0,
    connection_timeout: float = 5.0,
) -> Any:
    """Reads a variable; see `PV.get`.

    Returns:
        The value; `None` without a connection or an answer in time.
    """
    start = time.monotonic()
    pv = get_pv(pvname, timeout=connection_timeout, connect=True)
    if not pv.connected:
        return None
    left = timeout - (time.monotonic() - start)
    return pv.get(count, as_string, as_numpy, timeout=left, use_monitor=use_monitor)


def cainfo(
    pvname: str, print_out: bool = True, timeout: float = 5.0, connection_timeout: float = 5.0
) -> str | None:
    """Prints a paragraph about a variable, or returns it with `print_out=False`."""
    pv = get_pv(pvname, timeout=connection_timeout, connect=True)
    text = pv.info if pv.connected else None
    if text is not None and print_out:
        print(text)
        return None
    return text


def camonitor(
    pvname: str,
    writer: Callable[[str], object] | None = None,
    callback: Callable[..., object] | None = None,
    connection_timeout: float = 5.0,
    monitor_delta: float | None = None,
) -> None:
    """Prints each update of a variable, or passes it on, until `camonitor_clear`.

    Args:
        writer: Called with a line of text, without an end of line.
        callback: Called with keyword arguments instead; see `PV`.
        monitor_delta: Smallest change of a number that is passed on.
    """
    write = print if writer is None else writer

    def line(pvname: str = "", char_value: str | None = None, **rest: Any) -> None:
        write(f"{pvname:.32s} {fmt_time()} {char_value}")

    pv = get_pv(pvname, timeout=connection_timeout, connect=True, monitor_delta=monitor_delta)
    if pv.connected:
        pv.get()
        pv.add_callback(line if callback is None else callback, MONITOR_INDEX, with_ctrlvars=True)
        _monitors[pvname] = pv


def camonitor_clear(pvname: str) -> None:
    """Ends `camonitor` of a variable."""
    pv = _monitors.pop(pvname, None)
    if pv is not None:
        pv.remove_callback(MONITOR_INDEX)


def caget_many(
    pvlist: Iterable[str],
    as_string: bool = False,
    as_numpy: bool = True,
    count: int | None = None,
    timeout: float = 1.0,
    connection_timeout: float = 5.0,
    conn_timeout: float | None = None,
) -> list[Any]:
    """Reads many variables in one round trip.

    Args:
        timeout: Seconds to wait for the answer.
        connection_timeout: Seconds to wait for the connection to the engine; also `conn_timeout`.

    Returns:
        The values; `None` in the place of each that was not read.
    """
    shared = shared_context()
    names = [trunkline_name(pvname.strip(), shared.prefix) for pvname in pvlist]
    try:
        shared.engine.wait_connected(connection_timeout if conn_timeout is None else conn_timeout)
        readings = shared.engine.read(names, timeout)
        return [
            _value_of(reading, as_string, as_numpy, count) if isinstance(reading, Reading) else None
            for reading in readings
        ]
    except (Disconnected, TimedOut):
        return [None] * len(names)


def _value_of(reading: Reading, as_string: bool, as_numpy: bool, count: int | None) -> Any:
    handle = shared_context().requests.open_one(reading.name, None)
    of = pv_type(handle)
    value: Any = to_epics(reading.value, of)
    if as_string:
        return text_of(value, of, handle.precision)
    if not of.is_array:
        return value
    return shortened(value, count, as_numpy)


def caput_many(
    pvlist: Sequence[str],
    values: Sequence[Any],
    wait: bool | str = False,
    connection_timeout: float = 5.0,
    put_timeout: float = 60,
) -> list[int]:
    """Writes many variables in one round trip.

    Args:
        wait: "each" or "all": wait until the owners have accepted the values.
        connection_timeout: Seconds to wait for the connection to the engine.
        put_timeout: Seconds to wait.

    Returns:
        1 for each variable; -1 in the place of each that does not exist, was refused, or whose outcome is not
        known in time. Refusals are logged.
    """
    if len(pvlist) != len(values):
        raise ValueError(f"there are {len(pvlist)} names, but {len(values)} values")
    shared = shared_context()
    names = [trunkline_name(pvname.strip(), shared.prefix) for pvname in pvlist]
    results = [-1] * len(names)
    try:
        shared.engine.wait_connected(connection_timeout)
        handles: list[Any] = []
        converted: list[Any] = []
        places: list[int] = []
        for place, (name, value) in enumerate(zip(names, values)):
            try:
                handle = shared.requests.open_one(name, put_timeout)
                converted.append(from_epics(value, pv_type(handle)))
            except Error as error:
                log.error("%s was not written: %s", pvlist[place], error)
                continue
            handles.append(handle)
            places.append(place)
        call = shared.requests.connection.write(handles, converted, verb="put")
        written = [pvlist[place] for place in places]
        answers: list[Any]
        if wait:
            answers = shared.requests.call(call, put_timeout)
            _log_refusals(written, answers)
        else:
            answers = [None] * len(places)
            shared.answer(call, lambda found: _log_refusals(written, found))
    except (Disconnected, TimedOut, OutcomeUnknown) as error:
        log.error("the values were not written: %s", error)
        return results
    for place, answer in zip(places, answers):
        results[place] = -1 if isinstance(answer, Exception) else 1
    return results


def _log_refusals(pvnames: list[str], answers: list[Any] | Error) -> None:
    for place, pvname in enumerate(pvnames):
        answer = answers if isinstance(answers, Error) else answers[place]
        if isinstance(answer, Error):
            log.error("%s was not written: %s", pvname, answer)


def poll(evt: float = 1e-5, iot: float = 1.0) -> None:
    """Waits `evt` seconds. Callbacks need no polling."""
    time.sleep(evt)
