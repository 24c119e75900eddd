"""History and alarms of an engine in a process of its own."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
import trunkline as tl

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

CONFIGURATION = """
[engine]
store = "store"
history = "history"

[[history]]
variables = "rig/**"

[library]
name = "rig"

[[variable]]
name = "level"
type = "f64"
units = "%"
alarm.hi = { limit = 80, priority = 700, area = "tank", help = "Open the drain" }

[[variable]]
name = "mode"
type = "enum(OFF, AUTO)"
"""


def test_history_has_every_update_and_its_statistics(serve: Serve) -> None:
    """Behaviour: B-60."""
    _, url = serve(CONFIGURATION)
    with tl.connect(url, timeout=20) as engine:
        before = np.datetime64("now", "ns")
        for value in range(100):
            engine.put("rig/level", float(value))
        engine.put("rig/mode", "AUTO")
        rows = engine.history("rig/**", start="-1h")
        level = rows["rig/level"]
        assert level["value"].tolist() == [float(value) for value in range(100)]
        assert level["seq"].tolist() == list(range(1, 101))
        assert level.units == "%"
        assert (np.diff(level["ts_ns"]) >= 0).all()
        assert level.time[0] >= before - np.timedelta64(1, "s")
        assert rows["rig/mode"]["value"].tolist() == ["AUTO"]
        total = engine.history(["rig/level"], start="-1h", agg="total")["rig/level"]
        assert (total["count"][0], total["min"][0], total["max"][0]) == (100, 0.0, 99.0)
        assert total["mean"][0] == pytest.approx(49.5)
        points = engine.history("rig/level", start=before, points=10)["rig/level"]
        assert points["count"].sum() == 100
        now = datetime.datetime.now(datetime.timezone.utc)
        nothing = engine.history("rig/level", now + datetime.timedelta(hours=1))
        assert len(nothing) == 0
        with pytest.raises(ValueError, match="RFC 3339"):
            engine.history("rig/level", "yesterday")
        with pytest.raises(ValueError, match="time zone"):
            engine.history("rig/level", datetime.datetime(2026, 1, 1))


def test_history_passes_to_arrow(serve: Serve) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    _, url = serve(CONFIGURATION)
    with tl.connect(url, timeout=20) as engine:
        engine.put("rig/level", 1.5)
        engine.put("rig/mode", "AUTO")
        history = engine.history("rig/**")
        table = pyarrow.table(history)
        assert table.column("variable").to_pylist() == ["rig/level", "rig/mode"]
        assert table.column("value").to_pylist() == [1.5, None]
        assert table.column("text").to_pylist() == [None, "AUTO"]
        assert str(table.schema.field("time").type) == "timestamp[ns, tz=UTC]"
        assert history.to_arrow().num_rows == 2


def test_alarms_are_listed_and_acknowledged(serve: Serve) -> None:
    """Behaviour: H-06."""
    _, url = serve(CONFIGURATION)
    with tl.connect(url, timeout=20) as engine:
        with engine.monitor("rig/level#alarm.hi.state") as states:
            engine.put("rig/level", 90.0)
            next(reading for reading in states if reading.value == "unacknowledged")
        (alarm,) = engine.alarms("rig/**", states=["unacknowledged"])
        assert (alarm.variable, alarm.alarm, alarm.priority) == ("rig/level", "hi", 700)
        assert (alarm.value, alarm.limit, alarm.is_active) == (90.0, 80.0, True)
        assert alarm.help == "Open the drain"
        assert engine.acknowledge(alarm, "seen") == ["acknowledged"]
        assert engine.alarms(area="tank")[0].comment == "seen"
        assert engine.shelve([alarm], 60) == ["shelved"]
        assert engine.unshelve([alarm]) == ["unacknowledged"]
        assert engine.alarms(area="nowhere") == []
        with pytest.raises(ValueError, match="no state"):
            engine.alarms(states=["loud"])
        missing = alarm._replace(alarm="nope")
        with pytest.raises(tl.BatchError):
            engine.acknowledge(missing)


def test_no_history_is_an_error_with_a_remedy(engine: tl.Engine) -> None:
    with pytest.raises(tl.Error) as caught:
        engine.history("rig/**")
    assert caught.value.hint


def test_a_monitor_survives_a_restart_and_counts_what_it_missed(serve: Serve) -> None:
    """Behaviour: B-13."""
    process, url = serve(CONFIGURATION)
    port = url.rsplit(":", 1)[1]
    with tl.connect(url, timeout=20) as engine:
        engine.put("rig/level", 1.0)
        with engine.monitor("rig/level", "all", events=True) as monitor:
            next(item for item in monitor if isinstance(item, tl.Reading))
            process.kill()
            next(item for item in monitor if getattr(item, "kind", "") == "disconnected")
            with pytest.raises(tl.Disconnected):
                engine.put("rig/level", 2.0, timeout=0.1)
            serve(CONFIGURATION, f"127.0.0.1:{port}")
            reading = next(item for item in monitor if isinstance(item, tl.Reading))
            assert reading.lost is None
            assert reading.lost_by["unknown"] is True
