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
    Ended,
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
from ._recorder import RecorderStatus
from ._records import (
    Alarm,
    AlarmChange,
    AuditEntry,
    ControlEntry,
    Found,
    Step,
    VariableDefinition,
    Written,
    variable,
)
from ._records import enum_type as enum
from ._streams import Left, Peer, Run, StreamProperties, Undelivered
from ._sync.batch import Batch
from ._sync.control import Control
from ._sync.engine import Engine
from ._sync.lease import Lease
from ._sync.monitor import Callbacks, Monitor
from ._sync.recorder import Recorder
from ._sync.stream import FanInReader, FanOutWriter, Reader, Streams, Writer
from ._sync.variable import Variable
from ._table import Table
from ._trunkline import Block, Event, Handle, Reading
from ._waveform import Waveform
from .io_server import Config, Field, IoServer, ServedField, field, poll
from .tdms import TdmsChannel, TdmsFile, TdmsGroup, TdmsWriter, open_tdms, write_tdms

__all__ = [
    "Alarm",
    "AlarmChange",
    "AuditEntry",
    "BadQuality",
    "Batch",
    "BatchError",
    "Block",
    "Callbacks",
    "Closed",
    "Config",
    "Control",
    "ControlEntry",
    "Denied",
    "Disconnected",
    "Ended",
    "Engine",
    "Error",
    "Event",
    "FanInReader",
    "FanOutWriter",
    "Field",
    "Found",
    "Gap",
    "Handle",
    "History",
    "IoServer",
    "Lease",
    "Left",
    "Monitor",
    "NoValue",
    "NotFound",
    "OutcomeUnknown",
    "Overrun",
    "Peer",
    "Reader",
    "Reading",
    "Recorder",
    "RecorderStatus",
    "Rejected",
    "Run",
    "Series",
    "ServedField",
    "Step",
    "Table",
    "StreamProperties",
    "TdmsChannel",
    "TdmsFile",
    "TdmsGroup",
    "TdmsWriter",
    "TimedOut",
    "Undelivered",
    "Variable",
    "VariableDefinition",
    "Waveform",
    "Writer",
    "Written",
    "aio",
    "connect",
    "enum",
    "field",
    "fan_in_reader",
    "fan_out_writer",
    "open_tdms",
    "poll",
    "reader",
    "variable",
    "write_tdms",
    "writer",
]

_streams = Streams()
writer = _streams.writer
reader = _streams.reader
fan_out_writer = _streams.fan_out_writer
fan_in_reader = _streams.fan_in_reader


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
