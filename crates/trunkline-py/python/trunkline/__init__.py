"""Trunkline: a distributed real-time data system for measurement and control.

    import trunkline as tl

    with tl.connect() as engine:
        print(engine.get("boiler/level"))
        engine.put("boiler/setpoint", 75.0)
        for reading in engine["boiler/level"].monitor("latest"):
            print(reading.value, reading.quality, reading.lost)

Every call raises a subclass of `Error` if it fails; nothing returns `None` in place of a value.
`trunkline.aio` has the same verbs for `asyncio`.
"""

from __future__ import annotations

from . import aio
from ._connect import native_connection
from ._errors import (
    BadQuality,
    BatchError,
    Closed,
    Denied,
    Disconnected,
    Error,
    Gap,
    NotFound,
    NoValue,
    OutcomeUnknown,
    Overrun,
    Rejected,
    TimedOut,
)
from ._history import History, Series
from ._records import Alarm, Found, Step, VariableDefinition, Written, variable
from ._records import enum_type as enum
from ._sync.batch import Batch
from ._sync.engine import Engine
from ._sync.lease import Lease
from ._sync.monitor import Callbacks, Monitor
from ._sync.variable import Variable
from ._table import Table
from ._trunkline import Block, Event, Handle, Reading
from ._waveform import Waveform

__all__ = [
    "Alarm",
    "BadQuality",
    "Batch",
    "BatchError",
    "Block",
    "Callbacks",
    "Closed",
    "Denied",
    "Disconnected",
    "Engine",
    "Error",
    "Event",
    "Found",
    "Gap",
    "Handle",
    "History",
    "Lease",
    "Monitor",
    "NoValue",
    "NotFound",
    "OutcomeUnknown",
    "Overrun",
    "Reading",
    "Rejected",
    "Series",
    "Step",
    "Table",
    "TimedOut",
    "Variable",
    "VariableDefinition",
    "Waveform",
    "Written",
    "aio",
    "connect",
    "enum",
    "variable",
]


def connect(url: str | None = None, *, timeout: float = 5.0) -> Engine:
    """Connects to an engine, and waits until the connection is up.

    Args:
        url: `tl://host[:port]`, or the name of a machine. With `None`: the environment variable
            `TRUNKLINE_URL`, or the context selected with `trunkline ctx`, or the engine of this machine.
        timeout: Seconds to wait for the connection, and later for the answers of calls that do not say
            otherwise.

    Raises:
        Disconnected: There is no engine; the message has the cause.
    """
    engine = Engine(native_connection(url), timeout=timeout)
    try:
        engine.wait_connected(timeout)
    except BaseException:
        engine.close()
        raise
    return engine
