"""Variables as signals of ophyd-async, for plans of Bluesky.

    from ophyd_async.core import Device
    from trunkline.compat.ophyd import signal_r, signal_rw

    class Boiler(Device):
        def __init__(self, name: str = "") -> None:
            self.level = signal_r(float, "boiler/level")
            self.setpoint = signal_rw(float, "boiler/setpoint")
            super().__init__(name)

    async with init_devices():
        boiler = Boiler("boiler")

A signal is connected to the engine that `trunkline.connect` would use, or to the one of `engine`. It needs the package
`ophyd-async`, version 0.13 or later.
"""

from __future__ import annotations

import asyncio
import enum
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, cast, get_args, get_origin

import numpy as np
from bluesky.protocols import Reading as OphydReading
from event_model import DataKey
from ophyd_async.core import (
    NotConnectedError,
    SignalBackend,
    SignalDatatypeT,
    SignalR,
    SignalRW,
    SignalW,
    make_datakey,
)

from .. import aio
from .._connect import engine_url
from .._errors import Closed, Disconnected, NotFound, TimedOut
from .._records import plain
from .._trunkline import Reading

DEFAULT_TIMEOUT = 10.0
"""Seconds that a signal waits for an answer of the engine."""
CONTRACT = "last:1000"
"""A callback gets every update, unless it is more than this number of updates behind."""
SEVERITY = {"good": 0, "uncertain": 1, "bad": -1}
"""Qualities as severities of ophyd-async: -1 means that the value must not be used."""
INTEGERS = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}

_engines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, aio.AsyncEngine]] = (
    weakref.WeakKeyDictionary()
)
"""The connections of each event loop. All signals of an engine share one."""


def _engine(url: str) -> aio.AsyncEngine:
    engines = _engines.setdefault(asyncio.get_running_loop(), {})
    engine = engines.get(url)
    if engine is None or engine.state == "closed":
        engine = engines[url] = aio.connect(url, timeout=DEFAULT_TIMEOUT)
    return engine


async def close() -> None:
    """Closes the connections that signals of the running event loop have used."""
    for engine in _engines.pop(asyncio.get_running_loop(), {}).values():
        engine.close()


class TrunklineSignalBackend(SignalBackend[SignalDatatypeT], Generic[SignalDatatypeT]):
    """A variable as the backend of a signal.

    Args:
        datatype: `bool`, `int`, `float`, `str`, an enum of ophyd-async, `Array1D[...]`, `np.ndarray` or
            `Sequence[str]`; with `None`, the type of the variable.
        read_name: Name of the variable that is read.
        write_name: Name of the variable that is written.
        engine: URL of the engine; with `None`, the one that `trunkline.connect` would use.
    """

    def __init__(
        self,
        datatype: type[SignalDatatypeT] | None,
        read_name: str,
        write_name: str | None = None,
        engine: str | None = None,
    ) -> None:
        super().__init__(datatype)
        self.read_name = read_name
        self.write_name = write_name or read_name
        self._url = engine
        self._connected: aio.AsyncEngine | None = None
        self._initial: Any = None
        self._follower: asyncio.Task[None] | None = None

    def source(self, name: str, read: bool) -> str:
        """Returns the URL of the variable."""
        chosen = self.read_name if read else self.write_name
        return f"{engine_url(self._url).rstrip('/')}/{chosen}"

    async def connect(self, timeout: float) -> None:
        """Connects to the engine, and checks that the variable has the type of the signal."""
        engine = _engine(engine_url(self._url))
        try:
            await engine.wait_connected(timeout)
            for name in {self.read_name, self.write_name}:
                found = [one for one in await engine.find(name) if one.name == name]
                if not found:
                    raise NotConnectedError(f"{self.source('', True)}: there is no variable {name}")
                self._check_type(name, found[0].data_type)
            self._initial = (await engine.read(self.write_name)).value
        except (Disconnected, TimedOut, NotFound) as error:
            raise NotConnectedError(f"{self.source('', True)}: {error}") from error
        self._connected = engine

    def _check_type(self, name: str, data_type: str) -> None:
        datatype: Any = self.datatype
        if datatype is None:
            self.datatype = cast("type[SignalDatatypeT]", _datatype_of(data_type))
        elif not _fits(datatype, data_type):
            raise TypeError(f"{name} has the type {data_type}, but the signal has {datatype}")

    def _engine(self) -> aio.AsyncEngine:
        if self._connected is None:
            raise NotConnectedError(f"{self.source('', True)}: the signal is not connected")
        return self._connected

    async def put(self, value: SignalDatatypeT | None) -> None:
        """Writes a value, and waits until the engine or the device has accepted it."""
        written = self._initial if value is None else plain(value)
        await self._engine().put(self.write_name, written)

    async def get_datakey(self, source: str) -> DataKey:
        """Returns type, shape and units."""
        reading = await self._engine().read(self.read_name)
        metadata: dict[str, Any] = {}
        if reading.units:
            metadata["units"] = reading.units
        datatype = self._datatype()
        if isinstance(datatype, type) and issubclass(datatype, enum.Enum):
            metadata["choices"] = [str(member.value) for member in datatype]
        return make_datakey(cast(Any, datatype), self._value(reading), source, cast(Any, metadata))

    async def get_reading(self) -> OphydReading[SignalDatatypeT]:
        """Returns the value with time and severity."""
        return self._reading(await self._engine().read(self.read_name))

    async def get_value(self) -> SignalDatatypeT:
        """Returns the value. Bad values are returned too, as the other backends do."""
        return self._value(await self._engine().read(self.read_name))

    async def get_setpoint(self) -> SignalDatatypeT:
        """Returns the value of the variable that is written."""
        return self._value(await self._engine().read(self.write_name))

    def set_callback(self, callback: Callable[[OphydReading[SignalDatatypeT]], None] | None) -> None:
        """Calls `callback` with each update, or stops doing so."""
        if callback is not None and self._follower is not None:
            raise RuntimeError("Cannot set a callback when one is already set")
        if self._follower is not None:
            self._follower.cancel()
            self._follower = None
        if callback is not None:
            follow = self._follow(self._engine(), callback)
            self._follower = asyncio.get_running_loop().create_task(follow)

    async def _follow(
        self, engine: aio.AsyncEngine, callback: Callable[[OphydReading[SignalDatatypeT]], None]
    ) -> None:
        try:
            async with engine[self.read_name].monitor(CONTRACT) as monitor:
                async for reading in monitor:
                    callback(self._reading(reading))
        except Closed:
            # The connection was closed, which ends all callbacks.
            pass

    def _datatype(self) -> Any:
        """The type of the signal, which is known once the signal is connected."""
        return self.datatype

    def _value(self, reading: Reading) -> SignalDatatypeT:
        value, datatype = reading.value, self._datatype()
        if isinstance(datatype, type) and issubclass(datatype, enum.Enum):
            return cast(SignalDatatypeT, datatype(value))
        if get_origin(datatype) is Sequence:
            return cast(SignalDatatypeT, [str(one) for one in value])
        return cast(SignalDatatypeT, float(value) if datatype is float else value)

    def _reading(self, reading: Reading) -> OphydReading[SignalDatatypeT]:
        return {
            "value": self._value(reading),
            "timestamp": reading.ts_ns / 1e9,
            "alarm_severity": SEVERITY.get(reading.quality, -1),
        }


def _element(data_type: str) -> str | None:
    """Returns the type of the elements of an array; `None` if it is none."""
    if not data_type.startswith("array("):
        return None
    return data_type.removeprefix("array(").partition(",")[0].strip()


def _labels(data_type: str) -> list[str]:
    return [label.strip() for label in data_type.removeprefix("enum(").removesuffix(")").split(",")]


def _datatype_of(data_type: str) -> Any:
    """Returns the datatype of a signal for a variable of this type."""
    if data_type == "bool":
        return bool
    if data_type in INTEGERS:
        return int
    if data_type in ("f32", "f64"):
        return float
    if data_type == "string" or data_type.startswith("enum("):
        return str
    element = _element(data_type)
    if element == "string":
        return Sequence[str]
    if element is not None:
        return np.ndarray
    raise TypeError(f"a signal cannot have the type {data_type}")


def _fits(datatype: Any, data_type: str) -> bool:
    """Returns true if a signal of this datatype can be a variable of this type."""
    if isinstance(datatype, type) and issubclass(datatype, enum.Enum):
        return data_type.startswith("enum(") and {one.value for one in datatype} == set(_labels(data_type))
    found = _datatype_of(data_type)
    if found is not np.ndarray:
        return datatype == found
    if datatype is np.ndarray:
        return True
    # Array1D[np.float64] is np.ndarray[tuple[int], np.dtype[np.float64]].
    if get_origin(datatype) is not np.ndarray:
        return False
    dtype = np.dtype(get_args(get_args(datatype)[1])[0])
    letter = {"f": "f", "i": "i", "u": "u", "b": "bool"}[dtype.kind]
    expected = letter if letter == "bool" else f"{letter}{8 * dtype.itemsize}"
    return _element(data_type) == expected


def signal_rw(
    datatype: type[SignalDatatypeT],
    read_name: str,
    write_name: str | None = None,
    name: str = "",
    engine: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> SignalRW[SignalDatatypeT]:
    """Returns a signal that reads a variable and writes it, or another one, `write_name`."""
    backend = TrunklineSignalBackend(datatype, read_name, write_name, engine)
    return SignalRW(backend, name=name, timeout=timeout)


def signal_r(
    datatype: type[SignalDatatypeT],
    read_name: str,
    name: str = "",
    engine: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> SignalR[SignalDatatypeT]:
    """Returns a signal that reads a variable."""
    backend = TrunklineSignalBackend(datatype, read_name, None, engine)
    return SignalR(backend, name=name, timeout=timeout)


def signal_w(
    datatype: type[SignalDatatypeT],
    write_name: str,
    name: str = "",
    engine: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> SignalW[SignalDatatypeT]:
    """Returns a signal that writes a variable."""
    backend = TrunklineSignalBackend(datatype, write_name, None, engine)
    return SignalW(backend, name=name, timeout=timeout)
