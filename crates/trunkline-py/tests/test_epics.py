"""The interface of pyepics."""

from __future__ import annotations

import math
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trunkline as tl
from trunkline.compat import epics

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

BEAMLINE: dict[str, tl.VariableDefinition | str] = {
    "TEMP": tl.variable("f64", units="degC", range=(0, 400), precision=2, description="Sample"),
    "COUNT": "i32",
    "SHUTTER": "enum(Closed, Open)",
    "ON": "bool",
    "NAME": "string",
    "SPECTRUM": "array(f64, *)",
    "IMAGE": "array(u16, 2, 3)",
    "TEXT": "array(u8, 40)",
    "FIXED": tl.variable("f64", access="read-only", initial=4.5),
    "M1/RBV": "f64",
    "AT": "timestamp",
}

CONFIGURATION = """
[library]
name = "BL"

[[variable]]
name = "TEMP"
type = "f64"
units = "degC"
precision = 1
range = [0, 400]
initial = 20.0
alarm.hi = { limit = 300 }
alarm.hi_hi = { limit = 350 }

[[variable]]
name = "SHUTTER"
type = "enum(Closed, Open)"
"""

SCRIPT = """
import epics
from epics import PV, caget, caput, get_pv
from epics.pv import fmt_time

assert caput("BL:SHUTTER", "Open", wait=True) == 1
print(caget("BL:SHUTTER"), caget("BL:SHUTTER", as_string=True))

temperature = PV("BL:TEMP.VAL")
for setpoint in (25, 50):
    temperature.put(setpoint, wait=True)
    print(temperature.pvname, temperature.get(as_string=True), temperature.units)
print(get_pv("BL:TEMP.VAL", connect=True).upper_alarm_limit, caget("BL:TEMP.HIGH"))
caput("BL:TEMP", 75)
"""


@pytest.fixture
def beamline() -> Iterator[tl.Engine]:
    """An engine with PVs, which the interface of pyepics uses."""
    with tl.Engine.local({"BL": BEAMLINE}, timeout=20) as engine:
        epics.use(engine, prefix="")
        yield engine
        epics.use(None)


def putting(to: queue.Queue[Any], key: str) -> Callable[..., None]:
    """Returns a callback that puts one of its keyword arguments into a queue."""

    def put(**data: Any) -> None:
        to.put(data[key])

    return put


def test_names_follow_the_rule(beamline: tl.Engine) -> None:
    beamline.put("BL/M1/RBV", 1.5)
    assert epics.caget("BL:M1:RBV") == 1.5
    assert epics.caget("BL:M1:RBV.VAL") == 1.5
    assert epics.caget("BL/M1/RBV") == 1.5
    assert epics.caget("BL:TEMP.EGU") == "degC"
    assert epics.caget("BL:TEMP.DESC") == "Sample"
    assert epics.caget("BL:TEMP.HOPR") == 400.0
    assert epics.caget("BL/TEMP.PREC") == 2
    for wrong, expected in [
        ("BL:TEMP.MDEL", "nothing like .MDEL"),
        ("BL:TEMP.SEVR", "PV.severity"),
        ("BL:SPECTRUM.[0:3]", "parts of arrays"),
        ("TEMP", "no ':'"),
    ]:
        with pytest.raises(ValueError, match=expected):
            epics.PV(wrong)


def test_a_prefix_keeps_names_unchanged() -> None:
    with tl.Engine.local({"epics": {"SR:C01:X": "f64", "50%25:A": "f64"}}) as engine:
        epics.use(engine, prefix="epics/")
        assert epics.caput("SR:C01:X.VAL", 2, wait=True) == 1
        assert epics.caput("50%:A", 3, wait=True) == 1
        assert engine.get(["epics/SR:C01:X", "epics/50%25:A"]) == [2.0, 3.0]
        epics.use(None)


def test_values_have_the_types_of_pyepics(beamline: tl.Engine) -> None:
    written: dict[str, Any] = {
        "BL:TEMP": "21.456",
        "BL:COUNT": 7.9,
        "BL:SHUTTER": 1,
        "BL:ON": 1,
        "BL:NAME": 12,
        "BL:SPECTRUM": [1, 2, 3],
        "BL:IMAGE": range(4),
        "BL:TEXT": "hello",
        "BL:AT": 1.5,
    }
    names = list(written)
    assert epics.caput_many(names, list(written.values()), wait="all") == [1] * len(names)
    values = epics.caget_many(names, as_numpy=False)
    assert values[:5] == [21.456, 7, 1, 1, "12"]
    assert values[5:7] == [[1.0, 2.0, 3.0], [0, 1, 2, 3, 0, 0]]
    assert values[8] == 1.5
    texts = epics.caget_many(names, as_string=True)
    assert texts[:5] == ["21.46", "7", "Open", "True", "12"]
    assert texts[5:8] == ["<array size=3, type=time_double>", "<array size=6, type=time_long>", "hello"]
    assert isinstance(epics.caget("BL:SPECTRUM"), np.ndarray)
    assert epics.caget("BL:SPECTRUM", count=2).tolist() == [1.0, 2.0]
    assert epics.caput("BL:SHUTTER", "Closed", wait=True) == 1
    assert beamline.get("BL/SHUTTER") == "Closed"
    with pytest.raises(ValueError, match="Closed, Open"):
        epics.caput("BL:SHUTTER", "Ajar")
    with pytest.raises(ValueError, match="no state 2"):
        epics.caput("BL:SHUTTER", 2)


def test_what_does_not_exist_is_none(
    beamline: tl.Engine, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert epics.caget("BL:NOPE", connection_timeout=0.2) is None
    assert epics.caput("BL:NOPE", 1, connection_timeout=0.2) is None
    assert "cannot connect to BL:NOPE: no variable" in capsys.readouterr().out
    assert epics.caget_many(["BL:NOPE", "BL:COUNT"]) == [None, 0]
    assert epics.caput_many(["BL:NOPE", "BL:COUNT"], [1, 2]) == [-1, 1]
    assert "BL:NOPE was not written" in caplog.text
    assert epics.PV("BL:NOPE").get(timeout=0.1) is None


def test_no_engine_is_none(tmp_path: Path) -> None:
    epics.use(f"tl+unix://{tmp_path}/nothing.sock", prefix="")
    assert epics.caget("BL:TEMP", connection_timeout=0.2) is None
    assert epics.caget_many(["BL:TEMP"], connection_timeout=0.2) == [None]
    assert epics.caput_many(["BL:TEMP"], [1], connection_timeout=0.2) == [-1]
    epics.use(None)


def test_refused_writes_are_raised_or_logged(
    beamline: tl.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(tl.Rejected):
        epics.caput("BL:TEMP", 500, wait=True)
    assert epics.caput("BL:FIXED", 1) == 1
    assert epics.caput_many(["BL:TEMP", "BL:COUNT"], [500, 3], wait="each") == [-1, 1]
    epics.use(None)
    assert "BL:FIXED was not written" in caplog.text
    assert "BL:TEMP was not written" in caplog.text


def test_a_pv_has_attributes(beamline: tl.Engine) -> None:
    beamline["BL/TEMP"].put(21.5, ts_ns=1_700_000_000_250_000_000)
    pv = epics.get_pv("BL:TEMP", connect=True)
    assert pv is epics.get_pv("BL:TEMP")
    assert (pv.value, pv.char_value, pv.count, pv.nelm) == (21.5, "21.50", 1, 1)
    assert (pv.type, pv.units, pv.precision) == ("time_double", "degC", 2)
    assert (pv.upper_ctrl_limit, pv.lower_disp_limit) == (400.0, 0.0)
    assert math.isnan(pv.upper_alarm_limit)
    assert (pv.severity, pv.status, pv.char_severity) == (0, 0, "NO_ALARM")
    assert (pv.timestamp, pv.posixseconds, pv.nanoseconds) == (
        1_700_000_000.25,
        1_700_000_000,
        250_000_000,
    )
    assert (pv.access, pv.write_access) == ("read/write", True)
    assert epics.get_pv("BL:FIXED", connect=True).access == "read-only"
    assert epics.get_pv("BL:SHUTTER", connect=True).enum_strs == ("Closed", "Open")
    never = epics.get_pv("BL:COUNT", connect=True)
    assert (never.value, never.severity, never.char_status) == (0, 3, "UDF")
    pv.value = 30
    assert pv.get() == 30.0
    data = pv.get_with_metadata(as_string=True, as_namespace=True)
    assert (data.value, data.units) == ("30.00", "degC")
    assert repr(pv) == "<PV 'BL:TEMP', count=1, type=time_double, access=read/write>"
    with pytest.raises(AttributeError, match="no 'nonsense'"):
        _ = pv.nonsense


def test_callbacks_get_keyword_arguments(beamline: tl.Engine) -> None:
    got: queue.Queue[dict[str, Any]] = queue.Queue()

    def changed(pvname: str = "", value: Any = None, char_value: str = "", **rest: Any) -> None:
        got.put({"pvname": pvname, "value": value, "char_value": char_value, **rest})

    pv = epics.PV("BL:TEMP", callback=changed)
    first = got.get(timeout=20)
    assert (first["pvname"], first["severity"]) == ("BL:TEMP", 3)
    pv.put(22.0)
    update = got.get(timeout=20)
    assert (update["value"], update["char_value"], update["units"]) == (22.0, "22.00", "degC")
    assert update["cb_info"] == (0, pv)
    assert update["timestamp"] == pytest.approx(update["posixseconds"] + update["nanoseconds"] / 1e9)
    assert pv.value == 22.0
    again: queue.Queue[Any] = queue.Queue()

    def noted(value: Any, note: str, **_: Any) -> None:
        again.put((value, note))

    index = pv.add_callback(noted, note="x", run_now=True)
    assert again.get(timeout=20) == (22.0, "x")
    pv.remove_callback(index)
    pv.put(23.0)
    assert got.get(timeout=20)["value"] == 23.0
    assert again.empty()
    pv.disconnect()
    assert not pv.connected


def test_a_failed_callback_does_not_end_the_others(
    beamline: tl.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    got: queue.Queue[Any] = queue.Queue()

    def fail(**_: Any) -> None:
        raise RuntimeError("broken")

    pv = epics.PV("BL:COUNT", callback=[fail, putting(got, "value")])
    assert got.get(timeout=20) == 0
    pv.put(1)
    assert got.get(timeout=20) == 1
    assert "broken" in caplog.text


def test_a_callback_may_read_and_write(beamline: tl.Engine) -> None:
    got: queue.Queue[Any] = queue.Queue()

    def copy(value: Any, **_: Any) -> None:
        epics.caput("BL:TEMP", value + 0.5, wait=True)
        got.put(epics.caget("BL:TEMP"))

    epics.get_pv("BL:TEMP", connect=True)
    pv = epics.PV("BL:COUNT", callback=copy)
    assert got.get(timeout=20) == 0.5
    pv.put(7)
    assert got.get(timeout=20) == 7.5


def test_put_reports_its_completion(beamline: tl.Engine) -> None:
    done: queue.Queue[Any] = queue.Queue()
    pv = epics.PV("BL:COUNT")
    assert pv.put_complete is None
    assert pv.put(5, callback=putting(done, "pvname"), callback_data=9) == 1
    assert done.get(timeout=20) == "BL:COUNT"
    assert pv.put(5, callback=putting(done, "data"), callback_data=9) == 1
    assert done.get(timeout=20) == 9
    pv.put(6, use_complete=True, callback=putting(done, "pvname"))
    assert done.get(timeout=20) == "BL:COUNT"
    assert pv.put_complete is True


def test_connection_callbacks_follow_the_variable(
    beamline: tl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: queue.Queue[bool] = queue.Queue()
    monkeypatch.setattr("trunkline.compat.epics._context.RETRY_S", 0.02)
    pv = epics.PV("BL:LATER", connection_callback=putting(got, "conn"))
    assert not pv.wait_for_connection(timeout=0.05)
    beamline.deploy("BL", {**BEAMLINE, "LATER": "i32"}, replace=True)
    assert got.get(timeout=20) is True
    assert pv.put(3, wait=True) == 1
    beamline.deploy("BL", BEAMLINE, replace=True)
    assert got.get(timeout=20) is False
    assert repr(pv) == "<PV 'BL:LATER': not connected>"
    beamline.deploy("BL", {**BEAMLINE, "LATER": "string"}, replace=True)
    assert got.get(timeout=20) is True
    assert pv.put("text", wait=True) == 1
    assert (pv.type, pv.get()) == ("time_string", "text")


def test_without_auto_monitor_no_updates_arrive(beamline: tl.Engine) -> None:
    called: queue.Queue[Any] = queue.Queue()
    pv = epics.PV("BL:COUNT", auto_monitor=False, callback=putting(called, "value"))
    assert pv.put(5, wait=True) == 1
    assert (pv.get(), pv.value) == (5, 5)
    assert called.empty()
    pv.auto_monitor = True
    assert called.get(timeout=20) == 5


def test_camonitor_prints_lines_until_it_is_cleared(beamline: tl.Engine) -> None:
    lines: queue.Queue[str] = queue.Queue()
    epics.caput("BL:TEMP", 20, wait=True)
    epics.camonitor("BL:TEMP", writer=lines.put)
    epics.caput("BL:TEMP", 21, wait=True)
    found = ""
    while not found.endswith("21.00"):
        found = lines.get(timeout=20)
        assert found.startswith("BL:TEMP 20")
    epics.camonitor_clear("BL:TEMP")
    epics.camonitor_clear("BL:TEMP")
    assert epics.get_pv("BL:TEMP").callbacks == {}


def test_cainfo_tells_what_is_known(beamline: tl.Engine, capsys: pytest.CaptureFixture[str]) -> None:
    epics.caput("BL:SHUTTER", "Open", wait=True)
    text = epics.cainfo("BL:SHUTTER", print_out=False)
    assert text is not None
    assert text.startswith("== BL:SHUTTER  (time_enum) ==")
    assert "       1 = Open" in text
    assert epics.cainfo("BL:SPECTRUM") is None
    assert "array  []" in capsys.readouterr().out


def test_what_is_missing_is_said() -> None:
    with pytest.raises(NotImplementedError, match="get_pv for each"):
        _ = epics.Motor
    with pytest.raises(NotImplementedError, match=r"threading\.Thread"):
        from trunkline.compat.epics import CAThread  # pyright: ignore  # noqa: F401
    with pytest.raises(AttributeError):
        _ = epics.nonsense


def test_a_script_for_pyepics_runs_unchanged(serve: Serve, tmp_path: Path) -> None:
    _, url = serve(CONFIGURATION)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-m", "trunkline.compat.epics", str(script)],
        env={**os.environ, "TRUNKLINE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "1 Open",
        "BL:TEMP.VAL 25.0 degC",
        "BL:TEMP.VAL 50.0 degC",
        "350.0 300.0",
    ]
    with tl.connect(url, timeout=20) as engine:
        assert engine.get("BL/TEMP") == 75.0
