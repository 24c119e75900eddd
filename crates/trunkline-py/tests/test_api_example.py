"""The example of the interface, as decision 0072 has it: every line of it runs."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import trunkline as tl

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

PLANT = """
[engine]
store = "store"
history = "history"

[[history]]
variables = "boiler/**"

[library]
name = "boiler"

[[variable]]
name = "level"
type = "f64"
units = "%"
initial = 50.0

[[variable]]
name = "temp"
type = "f64"
initial = 120.0

[[variable]]
name = "flow"
type = "f64"
initial = 3.5

[[variable]]
name = "setpoint"
type = "f64"

[[variable]]
name = "feed"
type = "f64"

[[variable]]
name = "mode"
type = "enum(OFF, MANUAL, AUTO)"
"""


class Psu(tl.IoServer):
    """Bench supply."""

    volts = tl.field(float, units="V", range=(0, 30), writable=True)
    amps = tl.field(float, units="A", alarm={"hi": 2.5})

    def open(self, config: tl.Config) -> None:
        self.output = 0.0

    @tl.poll(0.1)
    def scan(self) -> None:
        self.amps.publish(self.output / 10)

    @volts.on_put
    def set_volts(self, v: float) -> float:
        self.output = round(v, 1)
        return self.output


def test_the_example_runs(serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, url = serve(PLANT)
    monkeypatch.setenv("TRUNKLINE_URL", url)
    monkeypatch.chdir(tmp_path)
    daq = {"ai0": "f64", "ai1": "f64"}
    with tl.connect() as engine:
        engine.deploy("daq", daq)
        engine.deploy("alarms", {"x": "bool"})
        stop = threading.Event()
        writer = threading.Thread(target=_write, args=(stop,))
        writer.start()
        try:
            _example(engine)
            engine.put("boiler/feed", 5.0)
            asyncio.run(asyncio.wait_for(_guard(), 20))
            assert engine.get("boiler/feed") == 0.0
        finally:
            stop.set()
            writer.join()
        with Psu.start(name="psu") as psu:
            psu.wait_ready(20)
            engine.put("psu/volts", 12.04)
            assert engine.get("psu/volts") == 12.0


def _write(stop: threading.Event) -> None:
    """Stands for the plant."""
    with tl.connect() as engine:
        n = 0
        while not stop.wait(0.002):
            n += 1
            engine.put({"boiler/level": 90.0 + n % 10, "daq/ai0": float(n), "daq/ai1": -float(n)})


def _example(eng: tl.Engine) -> None:
    # --- variables -------------------------------------------------------
    level = eng["boiler/level"]
    x = level.get(timeout=2.0)
    r = level.read()
    assert isinstance(x, float)
    assert (r.units, r.lost) == ("%", 0)
    assert r.quality in ("good", "uncertain")
    assert r.ts_ns > 0
    eng["boiler/temp"].put(72.5)
    mode = eng.var("boiler/mode", tl.enum("OFF MANUAL AUTO"))
    # --- batches ---------------------------------------------------------
    a, b, c = eng.get(["boiler/level", "boiler/temp", "boiler/flow"])
    assert a >= 50.0 and (b, c) == (72.5, 3.5)
    with eng.batch(atomic=True) as tx:
        tx.put("boiler/setpoint", 75.0)
        tx.put("boiler/mode", "AUTO")
    assert mode.get().value == "AUTO"
    df = eng.table("boiler/**").to_pandas()
    assert set(df.columns) >= {"name", "value", "units", "quality"}
    # --- monitors --------------------------------------------------------
    with level.monitor(contract="last:1000") as mon:
        missed = sum(reading.lost for reading in mon.take(100))
    assert missed >= 0
    seen: list[tl.Reading | tl.Event] = []
    sub = eng.subscribe("alarms/**", seen.append, contract="latest")
    sub.close()
    # --- lossless streams --------------------------------------------------
    _stream(eng)
    # --- recorder and TDMS -------------------------------------------------
    with eng.record("run42.tdms", ["daq/**"], properties={"dut": "A17"}, preallocate="1MB") as rec:
        rec.wait(samples=200, timeout=20)
        assert rec.bytes_written > 0
        assert rec.lost == 0
    with tl.open_tdms("run42.tdms") as f:
        ch = f["daq/ai0"]["value"]
        head = ch[:10]
        assert list(np.diff(head)) == [1.0] * 9
        assert sum(len(block) for block in ch.blocks(1 << 20)) == len(ch)
        assert f.properties["dut"] == "A17"
    # --- history -----------------------------------------------------------
    h = eng.history(["boiler/level"], start="-1h", points=2000, agg="minmax")
    assert h.to_arrow().num_rows > 0


def _stream(eng: tl.Engine) -> None:
    def read() -> None:
        with eng.reader("daq/raw", peer="daq/out") as rd:
            buf = np.empty(100_000)
            counts.append(rd.read_into(buf, timeout=20))
            with rd.acquire(100_000, timeout=20) as view:
                counts.append(float(view.mean()))
                assert rd.connected and rd.disconnections == 0 and rd.available >= 0

    counts: list[float] = []
    reader = threading.Thread(target=read)
    reader.start()
    with eng.writer("daq/out", dtype="f64", buffer=1_000_000) as w:
        w.write(np.zeros(100_000), timeout=20)
        w.write(np.ones(100_000), timeout=20)
        w.flush(until="read", timeout=20)
    reader.join()
    assert counts == [100_000, 1.0]


async def _guard() -> None:
    async with tl.aio.connect() as eng:
        async for r in eng["boiler/level"].monitor(contract="latest"):
            if r.value > 95:
                await eng.put("boiler/feed", 0.0)
                return
