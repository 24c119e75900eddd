"""Reading and writing variables."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest
import trunkline as tl
from numpy.typing import NDArray


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


class Mode(enum.Enum):
    OFF = "OFF"
    MANUAL = "MANUAL"
    AUTO = "AUTO"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("level", 72.5),
        ("level", 7),
        ("level", np.float32(0.5)),
        ("count", -(2**31)),
        ("count", np.int16(-7)),
        ("wide", 2**64 - 1),
        ("single", 0.5),
        ("open", True),
        ("mode", "AUTO"),
        ("note", "größer als \U0001f600"),
        ("raw", b"\x00\xff"),
        ("at", 1_700_000_000_123_456_789),
        ("point", {"x": 1.5, "name": "left"}),
    ],
)
def test_a_value_comes_back_as_it_was_written(engine: tl.Engine, path: str, value: Any) -> None:
    """Behaviour: B-01."""
    written = engine.put(f"rig/{path}", value)
    assert written.state == "applied"
    assert written.seq == 1
    assert engine.get(f"rig/{path}") == value


ARRAYS: list[tuple[str, Any]] = [
    ("spectrum", np.linspace(0, 1, 1000)),
    ("spectrum", np.empty(0)),
    ("spectrum", np.arange(10.0)[::2]),
    ("spectrum", [1, 2.5]),
    ("spectrum", np.arange(3, dtype=">f8")),
    ("spectrum", np.arange(10.0)[::-3]),
    ("spectrum", np.broadcast_to(np.float64(7.5), 5)),
    ("spectrum", read_only(np.arange(4.0))),
    ("spectrum", np.ones((4, 3))[:, 1]),
    ("image", np.array([[0, 1, 2], [3, 4, 5]], np.uint16)),
    ("image", np.array([[0, 1, 2], [3, 4, 5]], np.uint8)),
    ("image", np.array([[0, 1, 2], [3, 4, 5]], np.uint16, order="F")),
    ("image", np.array([[0, 1, 2], [3, 4, 5]], ">u2", order="F")),
    ("image", [[1, 2, 3], [4, 5, 65535]]),
    ("names", ["a", "b"]),
    ("times", np.array(["2026-01-01T00:00:00.000000001"], dtype="datetime64[ns]")),
]


@pytest.mark.parametrize(("path", "value"), ARRAYS)
def test_arrays_keep_their_elements_and_shape(engine: tl.Engine, path: str, value: Any) -> None:
    engine.put(f"rig/{path}", value)
    got = engine.get(f"rig/{path}")
    expected: NDArray[Any] = np.asarray(value)
    assert type(got) is np.ndarray
    assert got.shape == expected.shape
    assert got.tolist() == expected.tolist()
    assert got.flags.c_contiguous
    got.flags.writeable = True


def test_a_waveform_has_time_and_attributes(engine: tl.Engine) -> None:
    data = np.arange(4, dtype=np.float32)
    engine.put("rig/wave", tl.Waveform(data, 1_000_000_000, 0.5, {"unit": "V", "gain": 2.0}))
    wave = engine.get("rig/wave")
    assert np.asarray(wave).tolist() == [0, 1, 2, 3]
    assert (wave.t0_ns, wave.dt, wave.attributes) == (1_000_000_000, 0.5, {"unit": "V", "gain": 2.0})
    assert wave.times()[1] == np.datetime64(1_500_000_000, "ns")


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("level", "72", TypeError),
        ("level", None, TypeError),
        ("level", True, TypeError),
        ("level", 1j, TypeError),
        ("count", 1.0, TypeError),
        ("count", 2**31, OverflowError),
        ("count", 2**200, OverflowError),
        ("wide", -1, OverflowError),
        ("single", 1e300, OverflowError),
        ("open", 1, TypeError),
        ("mode", "auto", ValueError),
        ("mode", 3, ValueError),
        ("note", b"bytes", TypeError),
        ("raw", "text", TypeError),
        ("raw", 5, TypeError),
        ("spectrum", np.zeros((2, 2)), ValueError),
        ("spectrum", np.zeros(2, dtype=complex), TypeError),
        ("spectrum", ["a"], TypeError),
        ("image", np.zeros((2, 3)), TypeError),
        ("image", np.zeros((3, 2), dtype=np.uint16), ValueError),
        ("image", 5, ValueError),
        ("image", [[1, 2, 3], [4, 5, 65536]], OverflowError),
        ("image", [[1, 2, 3], [4, 5, -1]], OverflowError),
        ("image", [[1, 2, 3], [4, 5, 1.5]], TypeError),
        ("point", {"x": 1.0}, ValueError),
        ("point", {"x": 1.0, "name": "a", "z": 1}, ValueError),
        ("point", [1.0, "a"], TypeError),
        ("wave", np.zeros((2, 2), dtype=np.float32), ValueError),
    ],
)
def test_a_value_of_another_kind_is_refused_before_it_is_sent(
    engine: tl.Engine, path: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        engine.put(f"rig/{path}", value)
    assert str(caught.value)
    assert engine.read(f"rig/{path}").seq == 0


def test_errors_have_a_class_a_name_and_a_hint(engine: tl.Engine) -> None:
    with pytest.raises(tl.NotFound) as missing:
        engine.get("rig/levle")
    assert missing.value.name == "rig/levle"
    assert missing.value.hint == "did you mean rig/level?"
    assert missing.value.code == "unknown-name"
    with pytest.raises(tl.Rejected) as rejected:
        engine.put("rig/level", 101)
    assert rejected.value.code == "out-of-range"
    assert rejected.value.hint
    with pytest.raises(tl.Rejected, match="read-only"):
        engine.put("rig/fixed", 1.0)
    with pytest.raises(tl.NoValue):
        engine.get("rig/level")


def test_a_missing_name_does_not_hide_the_others(engine: tl.Engine) -> None:
    engine.put({"rig/level": 1.0, "rig/count": 2})
    with pytest.raises(tl.BatchError) as caught:
        engine.get(["rig/level", "rig/nope", "rig/count"])
    assert caught.value.results[0] == 1.0
    assert caught.value.results[2] == 2
    assert list(caught.value.errors) == ["rig/nope"]
    first, second, third = engine.read(["rig/level", "rig/nope", "rig/count"])
    assert isinstance(first, tl.Reading) and isinstance(third, tl.Reading)
    assert isinstance(second, tl.NotFound)
    with pytest.raises(tl.BatchError) as refused:
        engine.put({"rig/level": 500.0, "rig/count": 3, "rig/nope": 1})
    assert set(refused.value.errors) == {"rig/level", "rig/nope"}
    assert engine.get("rig/count") == 3


def test_an_atomic_batch_writes_all_or_nothing(engine: tl.Engine) -> None:
    """Behaviour: B-21."""
    with engine.batch(atomic=True) as batch:
        batch.put("rig/level", 1.0)
        batch.put("rig/mode", Mode.AUTO)
    level, mode = engine.snapshot(["rig/level", "rig/mode"])
    assert isinstance(level, tl.Reading) and isinstance(mode, tl.Reading)
    assert level.engine_ts_ns == mode.engine_ts_ns
    with pytest.raises(tl.BatchError), engine.batch(atomic=True) as batch:
        batch.put("rig/level", 2.0)
        batch.put("rig/count", 5)
        batch.put("rig/level", 200.0)
    assert engine.get("rig/level") == 1.0
    assert engine.read("rig/count").seq == 0


def test_a_batch_is_not_sent_if_its_block_fails(engine: tl.Engine) -> None:
    with pytest.raises(ZeroDivisionError), engine.batch() as batch:
        batch.put("rig/level", 2.0)
        _ = 1 / 0
    assert engine.read("rig/level").seq == 0


def test_a_typed_variable_checks_what_arrives(engine: tl.Engine) -> None:
    mode = engine.var("rig/mode", Mode)
    mode.put(Mode.MANUAL)
    assert mode.get() is Mode.MANUAL
    engine.put("rig/level", 3)
    assert engine.var("rig/level", float).get() == 3.0
    with pytest.raises(TypeError, match="rig/level is float"):
        engine.var("rig/level", str).get()


def test_a_write_can_depend_on_a_reading(engine: tl.Engine) -> None:
    """Behaviour: B-22."""
    level = engine["rig/level"]
    level.put(1.0)
    seen = level.read()
    level.put(2.0, expect=seen)
    with pytest.raises(tl.Rejected) as conflict:
        level.put(3.0, expect=seen)
    assert conflict.value.code == "conflict"


def test_forcing_overrides_writers(engine: tl.Engine) -> None:
    level = engine["rig/level"]
    level.put(1.0)
    level.force(50.0)
    assert level.read().is_forced
    with pytest.raises(tl.Rejected):
        level.put(2.0)
    level.unforce()
    assert level.get() == 1.0


def test_a_replaced_variable_is_opened_again(engine: tl.Engine) -> None:
    engine.deploy("lab", {"x": "f64"})
    engine.put("lab/x", 1.5)
    engine.deploy("lab", {"x": "string"}, replace=True)
    engine.put("lab/x", "text")
    assert engine.get("lab/x") == "text"
    assert engine.undeploy("lab")["removed"] == 1
    with pytest.raises(tl.NotFound):
        engine.get("lab/x")


def test_a_description_has_what_is_configured(engine: tl.Engine) -> None:
    about = engine["rig/level"].describe()
    assert (about.data_type, about.units, about.range) == ("f64", "%", (0.0, 100.0))
    assert about.description == "Level of the tank"
    assert engine["rig/mode"].describe().labels == ["OFF", "MANUAL", "AUTO"]
    assert repr(engine["rig/level"]) == "Variable('rig/level', f64, %)"


def test_names_are_found_by_pattern(engine: tl.Engine) -> None:
    found = engine.find("rig/*e*", limit=3)
    assert len(found) == 3
    assert all(one.name.startswith("rig/") for one in found)
    assert [step.stage for step in engine.why("rig/level")][0] == "resolution"


def test_untracked_writes_are_counted(engine: tl.Engine) -> None:
    for value in range(100):
        engine.put_nowait("rig/count", value)
    assert engine.flush()["applied"] == 100
    assert engine.get("rig/count") == 99


def test_the_host_publishes_read_only_variables(engine: tl.Engine) -> None:
    with pytest.raises(tl.Rejected):
        engine.put("rig/fixed", 1.0)
    assert engine.publish("rig/fixed", 1.0).state == "applied"
    assert engine.get("rig/fixed") == 1.0
    measured = engine.read("rig/fixed").ts_ns + 1
    engine.publish("rig/fixed", 2.0, ts_ns=measured, quality="bad: sensor-failure")
    reading = engine.read("rig/fixed")
    assert (reading.value, reading.ts_ns) == (2.0, measured)
    assert (reading.quality, reading.reason) == ("bad", "sensor-failure")
    for wrong in ("fine", "good: estimated", "bad: nonsense"):
        with pytest.raises(ValueError, match="no quality"):
            engine.publish("rig/fixed", 3.0, quality=wrong)
    engine.publish("rig/wave", tl.Waveform(np.zeros(3, np.float32), 0, 0.1))
    with pytest.raises(TypeError):
        engine.publish("rig/count", 1.5)
    with pytest.raises(tl.NotFound):
        engine.publish("rig/nope", 1.0)
    with pytest.raises(tl.Rejected) as caught:
        engine.publish("rig/level#units", "V")
    assert caught.value.code == "not-writable"


def test_only_the_host_publishes(engine: tl.Engine) -> None:
    with tl.Engine.local({"rig": {"level": "f64"}}, listen="127.0.0.1:0") as host:
        with tl.connect(f"tl+tcp://{host.addresses[0]}", timeout=20) as client:
            with pytest.raises(tl.Error) as caught:
                client.publish("rig/level", 1.0)
            assert caught.value.code == "not-local"
            assert "I/O server" in (caught.value.hint or "")
