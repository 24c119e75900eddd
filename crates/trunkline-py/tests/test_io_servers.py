"""The I/O servers for SCPI instruments and for EPICS, against a simulated instrument and a real IOC."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trunkline as tl
from trunkline.io_servers.scpi import Scpi

TIMEOUT = 30.0

INSTRUMENT = """
spec: "1.0"
devices:
  supply:
    eom:
      TCPIP INSTR:
        q: "\\n"
        r: "\\n"
    error: "ERROR"
    dialogues:
      - {q: "*IDN?", r: "ACME,PSU-1,0,1.0"}
      - {q: "MEAS:CURR?", r: "+1.25E+00"}
      - {q: "MEAS:TEMP?", r: "9.91E37"}
      - {q: "MEAS:BAD?", r: "---"}
      - {q: "TRAC?", r: "1.0,2.5,-3E2"}
      - {q: "SYST:ERR?", r: "-222,\\"Data out of range\\""}
      - {q: "SYST:OK?", r: "+0,\\"No error\\""}
    properties:
      voltage:
        default: 1.0
        getter: {q: "VOLT?", r: "{:.3f}"}
        setter: {q: "VOLT {:.3f}"}
        specs: {min: 0, max: 30, type: float}
      output:
        default: 0
        getter: {q: "OUTP?", r: "{:d}"}
        setter: {q: "OUTP {:d}"}
        specs: {type: int}
      label:
        default: "none"
        getter: {q: "LAB?", r: "\\"{:s}\\""}
        setter: {q: "LAB \\"{:s}\\""}
        specs: {type: str}
resources:
  TCPIP0::10.0.0.5::inst0::INSTR:
    device: supply
"""


def until(monitor: tl.Monitor, condition: Callable[[tl.Reading], bool]) -> tl.Reading:
    """Returns the first reading that meets the condition."""
    deadline = time.monotonic() + TIMEOUT
    while (reading := monitor.next(TIMEOUT)) is not None and time.monotonic() < deadline:
        if condition(reading):
            return reading
    raise AssertionError("no such reading arrived")


def is_good(reading: tl.Reading) -> bool:
    return reading.quality == "good"


def settings(tmp_path: Path, **more: Any) -> dict[str, Any]:
    file = tmp_path / "supply.yaml"
    file.write_text(INSTRUMENT)
    return {
        "visa": "TCPIP0::10.0.0.5::inst0::INSTR",
        "visa_library": f"{file}@sim",
        "read_termination": "\n",
        "write_termination": "\n",
        "identity": "ACME",
        **more,
    }


def test_an_instrument_is_read_and_written(tmp_path: Path) -> None:
    config = settings(
        tmp_path,
        errors="SYST:OK?",
        field={
            "volts": {"units": "V", "range": [0, 30], "read": "VOLT?", "write": "VOLT {value:.3f}"},
            "amps": {"units": "A", "read": "MEAS:CURR?", "period": 0.01},
            "on": {"type": "bool", "read": "OUTP?", "write": "OUTP {value}"},
            "label": {"type": "string", "read": "LAB?", "write": 'LAB "{value}"'},
            "trace": {"type": "array(f64, *)", "read": "TRAC?"},
            "temperature": {"read": "MEAS:TEMP?"},
            "broken": {"read": "MEAS:BAD?"},
        },
    )
    with tl.Engine.local(listen="127.0.0.1:0", timeout=TIMEOUT) as engine:
        with Scpi.start(engine, name="psu", config=config) as server:
            server.wait_ready(TIMEOUT)
            for name, value in [("psu/amps", 1.25), ("psu/on", False), ("psu/label", "none")]:
                with engine[name].monitor() as monitor:
                    assert until(monitor, is_good).value == value
            with engine["psu/trace"].monitor() as monitor:
                assert list(until(monitor, is_good).value) == [1.0, 2.5, -300.0]
            with engine["psu/temperature"].monitor() as monitor:
                assert until(monitor, is_good).value != until(monitor, is_good).value, "it is NaN"
            with engine["psu/broken"].monitor() as monitor:
                until(monitor, lambda reading: reading.reason == "sensor-failure")
            engine.put("psu/volts", 12.3456)
            assert engine.get("psu/volts") == 12.346, "the instrument keeps three places"
            engine.put("psu/on", True)
            assert engine.get("psu/on") is True
            engine.put("psu/label", "bench 4")
            assert engine.get("psu/label") == "bench 4"
            with pytest.raises(tl.Rejected, match="could end the command"):
                engine.put("psu/label", 'a"; OUTP 0; "')
            assert engine.get("psu/on") is True


def test_an_instrument_that_reports_an_error_refuses_the_write(tmp_path: Path) -> None:
    config = settings(tmp_path, errors="SYST:ERR?", field={"volts": {"write": "VOLT {value:.3f}"}})
    with tl.Engine.local(listen="127.0.0.1:0", timeout=TIMEOUT) as engine:
        with Scpi.start(engine, name="psu", config=config) as server:
            server.wait_ready(TIMEOUT)
            with pytest.raises(tl.Rejected, match="-222"):
                engine.put("psu/volts", 29.0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"field": {}}, "no table of fields"),
        ({"field": {"x": 3}}, "field.x is no table"),
        ({"field": {"x": {"units": "V"}}}, "give it read or write"),
        ({"field": {"x": {"read": "X?", "period": 0}}}, "the period is 0.0 s"),
        ({"field": {"x": {"read": "X?", "binary": "f99"}}}, "no type of elements"),
        ({"field": {"x": {"read": "X?", "unit": "V"}}}, 'did you mean "units"'),
    ],
)
def test_wrong_configurations_are_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises((tl.Error, ValueError), match=message):
        Scpi.start("tl+tcp://127.0.0.1:1", config=settings(tmp_path, **more))


def test_another_instrument_is_refused(tmp_path: Path) -> None:
    config = settings(tmp_path, identity="OTHER", field={"x": {"read": "VOLT?"}})
    with Scpi.start("tl+tcp://127.0.0.1:1", config=config) as server:
        with pytest.raises(tl.TimedOut, match="is 'ACME,PSU-1,0,1.0', not 'OTHER'"):
            server.wait_ready(1)


IOC = """
import sys
import time
from softioc import asyncio_dispatcher, builder, softioc
builder.SetDeviceName("T")
ai = builder.aIn("AI", initial_value=1.5, EGU="mA", PREC=3)
builder.aOut("AO", initial_value=2.5, EGU="V", DRVL=0, DRVH=5)
builder.mbbOut("MODE", "OFF", "ON", initial_value=1)
builder.longIn("COUNT", initial_value=7)
builder.stringOut("NOTE", initial_value="hi")
builder.WaveformOut("WAVE", initial_value=[1.0, 2.0, 3.0])
builder.LoadDatabase()
softioc.iocInit(asyncio_dispatcher.AsyncioDispatcher())
print("ready", flush=True)
for line in sys.stdin:
    value, severity = line.split()
    ai.set(float(value), severity=int(severity), alarm=int(severity))
"""

RING = """
timeout = 30

[pv.current]
pv = "T:AI"

[pv.setpoint]
pv = "T:AO"
writable = true

[pv.mode]
pv = "T:MODE"
writable = true

[pv.count]
pv = "T:COUNT"

[pv.note]
pv = "T:NOTE"
writable = true

[pv.wave]
pv = "T:WAVE"
"""


@pytest.fixture
def environment() -> dict[str, str]:
    """Where EPICS programs of this test find each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return {
        **os.environ,
        "EPICS_CA_ADDR_LIST": "127.0.0.1",
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CA_SERVER_PORT": port,
        "EPICS_CAS_INTF_ADDR_LIST": "127.0.0.1",
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python program in that environment."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the program ended without {text!r}")


def test_process_variables_of_an_ioc(run: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    file = tmp_path / "ring.toml"
    file.write_text(RING)
    ioc = run("-c", IOC)
    wait_for(ioc, "ready")
    with tl.Engine.local(listen="127.0.0.1:0", timeout=TIMEOUT) as engine:
        url = f"tl+tcp://{engine.addresses[0]}"
        server = run("-m", "trunkline.io_servers.epics", "--name", "ring", "--config", str(file), "--engine", url)
        wait_for(server, "delivers 6 variables")
        with engine["ring/current"].monitor() as monitor:
            assert until(monitor, is_good).value == 1.5
            assert engine.read("ring/current").units == "mA"
            assert ioc.stdin is not None
            ioc.stdin.write("2.75 0\n")
            ioc.stdin.flush()
            reading = until(monitor, lambda reading: reading.value == 2.75)
            assert 0 <= reading.engine_ts_ns - reading.ts_ns < 10**10, "the time is that of the IOC"
            ioc.stdin.write("9.0 3\n")
            ioc.stdin.flush()
            reading = until(monitor, lambda reading: reading.value == 9.0)
            assert (reading.quality, reading.reason) == ("bad", "sensor-failure")
        found = {one.name: one.data_type for one in engine.find("ring/**")}
        assert found["ring/mode"] == "enum(OFF, ON)"
        assert found["ring/wave"] == "array(f64, *)"
        with engine["ring/wave"].monitor() as monitor:
            assert list(until(monitor, is_good).value) == [1.0, 2.0, 3.0]
        for name, value in [("ring/setpoint", 3.25), ("ring/mode", "OFF"), ("ring/note", "new")]:
            engine.put(name, value)
            assert engine.get(name) == value
        with pytest.raises(tl.Rejected):
            engine.put("ring/setpoint", 6.0)  # outside the limits of the IOC
        with engine["ring/count"].monitor() as monitor:
            assert until(monitor, is_good).value == 7
            ioc.kill()
            until(monitor, lambda reading: reading.reason == "not-connected")
            wait_for(run("-c", IOC), "ready")
            until(monitor, is_good)
