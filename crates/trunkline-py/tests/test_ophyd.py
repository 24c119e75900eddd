"""Variables as signals of ophyd-async."""

# The types of ophyd-async and Bluesky are partially unknown.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import trunkline as tl
from bluesky.run_engine import RunEngine
from ophyd_async.core import (
    Array1D,
    Device,
    NotConnectedError,
    StandardReadable,
    StandardReadableFormat,
    StrictEnum,
    init_devices,
    set_and_wait_for_value,
)
from trunkline.compat import ophyd

TIMEOUT = 20.0


class Mode(StrictEnum):
    OFF = "OFF"
    AUTO = "AUTO"


class Rig(StandardReadable):
    def __init__(self, url: str, name: str = "") -> None:
        with self.add_children_as_readables(StandardReadableFormat.HINTED_SIGNAL):
            self.level = ophyd.signal_r(float, "rig/level", engine=url)
        self.setpoint = ophyd.signal_rw(float, "rig/setpoint", engine=url)
        self.mode = ophyd.signal_rw(Mode, "rig/mode", engine=url)
        self.count = ophyd.signal_w(int, "rig/count", engine=url)
        self.note = ophyd.signal_rw(str, "rig/note", engine=url)
        self.trace = ophyd.signal_rw(Array1D[np.float64], "rig/trace", engine=url)
        self.names = ophyd.signal_rw(Sequence[str], "rig/names", engine=url)
        super().__init__(name)


RIG: dict[str, tl.VariableDefinition | str] = {
    "level": tl.variable("f64", units="%", initial=5.0),
    "setpoint": tl.variable("f64", initial=1.0, range=(0, 100)),
    "mode": tl.variable("enum(OFF, AUTO)", initial="OFF"),
    "count": "i32",
    "note": tl.variable("string", initial="none"),
    "trace": tl.variable("array(f64, *)", initial=np.zeros(3)),
    "names": "array(string, *)",
}


def with_rig(test: Any) -> None:
    """Runs a coroutine with a connected device, and the engine behind it."""
    with tl.Engine.local({"rig": RIG}, listen="127.0.0.1:0", timeout=TIMEOUT) as engine:

        async def run() -> None:
            async with init_devices(timeout=TIMEOUT):
                rig = Rig(f"tl+tcp://{engine.addresses[0]}", name="rig")
            try:
                await asyncio.wait_for(test(rig, engine), TIMEOUT)
            finally:
                await ophyd.close()

        asyncio.run(run())


def test_signals_read_and_write() -> None:
    async def check(rig: Rig, engine: tl.Engine) -> None:
        assert await rig.level.get_value() == 5.0
        await rig.setpoint.set(42.5)
        await rig.mode.set(Mode.AUTO)
        await rig.count.set(7)
        await rig.note.set("new")
        await rig.trace.set(np.arange(4.0))
        await rig.names.set(["a", "b"])
        assert engine.get("rig/setpoint") == 42.5
        assert (engine.get("rig/mode"), engine.get("rig/count"), engine.get("rig/note")) == ("AUTO", 7, "new")
        assert await rig.mode.get_value() is Mode.AUTO
        assert list(await rig.trace.get_value()) == [0.0, 1.0, 2.0, 3.0]
        assert list(await rig.names.get_value()) == ["a", "b"]
        with pytest.raises(tl.Rejected):
            await rig.setpoint.set(101.0)
        (described,) = (await rig.describe()).values()
        assert (described["dtype"], described.get("units")) == ("number", "%")
        (reading,) = (await rig.read()).values()
        assert (reading["value"], reading["alarm_severity"]) == (5.0, 1), "the initial value is uncertain"

    with_rig(check)


def test_a_callback_gets_updates_until_it_is_cleared() -> None:
    async def check(rig: Rig, engine: tl.Engine) -> None:
        values: asyncio.Queue[float] = asyncio.Queue()
        rig.level.subscribe_reading(lambda readings: values.put_nowait(readings[rig.level.name]["value"]))
        while await values.get() != 5.0:
            pass
        await asyncio.to_thread(engine.put, "rig/level", 6.0)
        while await values.get() != 6.0:
            pass
        await set_and_wait_for_value(rig.setpoint, 3.0)

    with_rig(check)


def test_wrong_names_and_types_are_refused() -> None:
    with tl.Engine.local({"rig": RIG}, listen="127.0.0.1:0", timeout=TIMEOUT) as engine:
        url = f"tl+tcp://{engine.addresses[0]}"

        async def check(datatype: Any, name: str) -> None:
            try:
                await ophyd.signal_rw(datatype, name, name="x", engine=url).connect(timeout=TIMEOUT)
            finally:
                await ophyd.close()

        with pytest.raises(NotConnectedError, match="no variable rig/nope"):
            asyncio.run(check(float, "rig/nope"))
        for datatype, name in [(int, "rig/level"), (float, "rig/note"), (Array1D[np.int32], "rig/trace")]:
            with pytest.raises((TypeError, NotConnectedError), match="has the type"):
                asyncio.run(check(datatype, name))


def test_a_plan_of_bluesky_runs() -> None:
    import bluesky.plans as bp

    with tl.Engine.local({"rig": RIG}, listen="127.0.0.1:0", timeout=TIMEOUT) as engine:
        run_engine = RunEngine(call_returns_result=True)
        with init_devices(timeout=TIMEOUT):
            rig = Rig(f"tl+tcp://{engine.addresses[0]}", name="rig")
        documents: list[tuple[str, Any]] = []
        run_engine(bp.count([rig], 3), lambda name, document: documents.append((name, document)))
        events = [document["data"]["rig-level"] for name, document in documents if name == "event"]
        assert events == [5.0, 5.0, 5.0]
        asyncio.run_coroutine_threadsafe(ophyd.close(), run_engine.loop).result(TIMEOUT)
    assert isinstance(rig, Device)
