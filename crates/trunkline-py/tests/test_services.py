"""History and alarms of an engine in a process of its own."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Callable
from pathlib import Path

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
range = [0, 100]
audit = true
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


def test_the_alarm_journal_has_every_change(serve: Serve) -> None:
    """Behaviour: H-11."""
    _, url = serve(CONFIGURATION)
    with tl.connect(url, timeout=20) as engine:
        with engine.monitor("rig/level#alarm.hi.state") as states:
            engine.put("rig/level", 90.0)
            next(reading for reading in states if reading.value == "unacknowledged")
            engine.acknowledge(engine.alarms("rig/**"), "seen")
            engine.put("rig/level", 10.0)
            next(reading for reading in states if reading.value == "normal")
        changes = engine.alarm_journal("rig/**")
        assert [(one.before, one.state) for one in changes] == [
            ("normal", "unacknowledged"),
            ("unacknowledged", "acknowledged"),
            ("acknowledged", "normal"),
        ]
        assert [one.number for one in changes] == [1, 2, 3]
        assert (changes[0].variable, changes[0].alarm, changes[0].priority) == ("rig/level", "hi", 700)
        assert (changes[0].value, changes[0].limit, changes[1].comment) == (90.0, 80.0, "seen")
        newest = engine.alarm_journal(newest_first=True, limit=2)
        assert [one.number for one in newest] == [3, 2]
        assert engine.alarm_journal(states=["acknowledged"]) == [changes[1]]
        assert engine.alarm_journal(start=changes[2].ts_ns) == [changes[2]]
        assert engine.alarm_journal(area="nowhere") == []
        with pytest.raises(ValueError, match="limit"):
            engine.alarm_journal(limit=0)


def test_the_audit_says_who_did_what(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    _, url = serve(CONFIGURATION)
    with tl.connect(url, timeout=20) as engine:
        engine.put("rig/level", 12.5)
        with pytest.raises(tl.Rejected):
            engine.put("rig/level", 1000.0)
        engine["rig/mode"].force("AUTO")
        entries = engine.audit("rig/*")
        assert [(one.action, one.outcome) for one in entries] == [
            ("put", "applied"),
            ("put", "refused"),
            ("force", "applied"),
        ]
        first, second, third = entries
        assert (first.name, first.new, first.seq) == ("rig/level", "12.5", 1)
        assert "range" in second.message
        assert (third.data_type, third.new) == ("enum(OFF, AUTO)", "AUTO")
        assert second.previous == first.hash
        assert engine.audit("rig/*", newest_first=True, limit=1) == [third]
        assert engine.audit(who="nobody") == []
        monkeypatch.setattr("trunkline._sync.engine.PAGE_MAX", 1)
        assert engine.audit("rig/*", limit=3) == entries


def test_control_is_taken_requested_and_handed_over(serve: Serve) -> None:
    _, url = serve(CONFIGURATION)
    with tl.connect(url, timeout=20) as one, tl.connect(url, timeout=20) as other:
        with one.control("rig") as control:
            one.put("rig/level", 1.0)
            with pytest.raises(tl.Rejected) as caught:
                other.put("rig/level", 2.0)
            assert caught.value.code == "controlled"
            with pytest.raises(tl.Rejected):
                other.control("rig").take()
            waiting = other.control("rig")
            assert waiting.request().is_waiting
            with pytest.raises(tl.TimedOut):
                waiting.wait(timeout=0.05)
            (request,) = control.requests()
            assert not request.is_own
            control.give(request)
            granted = waiting.wait(timeout=20)
            assert (granted.folder, granted.level, granted.is_own) == ("rig", "operator", True)
            with pytest.raises(tl.Rejected):
                one.put("rig/level", 3.0)
        other.put("rig/level", 4.0)
        assert [entry.folder for entry in one.controls()] == ["rig"]
        waiting.release()
        assert one.controls() == []
        with pytest.raises(tl.Error, match="request it again"):
            waiting.wait()
        with pytest.raises(tl.Rejected) as caught:
            waiting.release()
        assert caught.value.code == "not-controlled"
        with one.control("rig", seconds=60, only_this_program=False) as timed:
            assert timed.folder == "rig"
            (entry,) = one.controls("rig", own=True)
            assert entry.left is not None and 0 < entry.left <= 60
        with pytest.raises(ValueError, match="supervisor"):
            one.control("rig", level="king").take()


def test_an_engine_of_the_program_records_history(tmp_path: Path) -> None:
    rig = {"rig": {"level": "f64"}}
    with tl.Engine.local(rig, history=tmp_path / "history", timeout=20) as engine:
        for value in range(50):
            engine.put("rig/level", float(value))
        level = engine.history("rig/level")["rig/level"]
        assert level["value"].tolist() == [float(value) for value in range(50)]
    # The next engine finds it.
    with tl.Engine.local(rig, history=tmp_path / "history", timeout=20) as engine:
        assert engine.history("rig/level", agg="total")["rig/level"]["count"].tolist() == [50]
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        tl.Engine.local(rig, history=tmp_path / "file")


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
