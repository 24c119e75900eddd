"""The same verbs for programs with `asyncio`.

    async with tl.aio.connect() as engine:
        async for reading in engine["boiler/level"].monitor("latest"):
            ...
"""

from __future__ import annotations

from ._async.batch import AsyncBatch
from ._async.control import AsyncControl
from ._async.engine import AsyncEngine
from ._async.lease import AsyncLease
from ._async.monitor import AsyncCallbacks, AsyncMonitor
from ._async.recorder import AsyncRecorder
from ._async.stream import (
    AsyncFanInReader,
    AsyncFanOutWriter,
    AsyncReader,
    AsyncStreams,
    AsyncWriter,
)
from ._async.variable import AsyncVariable
from ._connect import native_connection

__all__ = [
    "AsyncBatch",
    "AsyncCallbacks",
    "AsyncControl",
    "AsyncEngine",
    "AsyncFanInReader",
    "AsyncFanOutWriter",
    "AsyncLease",
    "AsyncMonitor",
    "AsyncReader",
    "AsyncRecorder",
    "AsyncVariable",
    "AsyncWriter",
    "connect",
    "fan_in_reader",
    "fan_out_writer",
    "reader",
    "writer",
]

_streams = AsyncStreams()
writer = _streams.writer
reader = _streams.reader
fan_out_writer = _streams.fan_out_writer
fan_in_reader = _streams.fan_in_reader


def connect(url: str | None = None, *, timeout: float = 5.0) -> AsyncEngine:
    """Starts to connect; `async with` waits for the connection. See `trunkline.connect`."""
    return AsyncEngine(native_connection(url), timeout=timeout)
