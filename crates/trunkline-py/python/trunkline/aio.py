"""The same verbs for programs with `asyncio`.

    async with tl.aio.connect() as engine:
        async for reading in engine["boiler/level"].monitor("latest"):
            ...
"""

from __future__ import annotations

from ._async.batch import AsyncBatch
from ._async.engine import AsyncEngine
from ._async.lease import AsyncLease
from ._async.monitor import AsyncCallbacks, AsyncMonitor
from ._async.variable import AsyncVariable
from ._connect import native_connection

__all__ = [
    "AsyncBatch",
    "AsyncCallbacks",
    "AsyncEngine",
    "AsyncLease",
    "AsyncMonitor",
    "AsyncVariable",
    "connect",
]


def connect(url: str | None = None, *, timeout: float = 5.0) -> AsyncEngine:
    """Starts to connect; `async with` waits for the connection. See `trunkline.connect`."""
    return AsyncEngine(native_connection(url), timeout=timeout)
