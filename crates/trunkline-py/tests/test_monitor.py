"""Monitors and callbacks."""

from __future__ import annotations

import queue
import threading
from typing import Any

import numpy as np
import pytest
import trunkline as tl


def test_a_monitor_yields_every_update_in_order(engine: tl.Engine) -> None:
    """Behaviour: B-10."""
    engine.put("rig/count", 0)
    with engine["rig/count"].monitor("all") as monitor:
        assert monitor.next(timeout=20).value == 0
        for value in range(1, 1001):
            engine.put_nowait("rig/count", value)
        readings = list(monitor.take(1000))
    assert [reading.value for reading in readings] == list(range(1, 1001))
    assert [reading.seq for reading in readings] == list(range(2, 1002))
    assert monitor.lost == 0
    assert all(reading.own for reading in readings)


def test_losses_are_counted(engine: tl.Engine) -> None:
    with engine["rig/count"].monitor("last:2") as monitor:
        monitor.next(timeout=20)
        for value in range(10):
            engine.put("rig/count", value)
        first = monitor.next(timeout=20)
        # The connection takes updates when it is used, so it is not known how many were queued.
        assert first.lost is not None
        last = first
        while last.value != 9:
            last = monitor.next(timeout=20)
        assert last.seq == first.seq + (9 - first.value)
        assert first.value == first.lost


def test_blocks_have_columns_of_the_type_of_the_variables(engine: tl.Engine) -> None:
    with engine.monitor(["rig/level", "rig/single"], "all") as monitor:
        for value in range(50):
            engine.put({"rig/level": value, "rig/single": value})
        blocks: list[tl.Block] = []
        while sum(len(block) for block in blocks) < 102:
            blocks.append(next(monitor.blocks()))
    columns = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in ("item", "value", "seq", "lost", "quality_bits", "ts_ns")
    }
    assert blocks[0].names == ["rig/level", "rig/single"]
    written = columns["seq"] > 0
    level = (columns["item"] == 0) & written
    assert columns["value"][level].tolist() == list(range(50))
    assert columns["seq"][level].tolist() == list(range(1, 51))
    assert columns["lost"].sum() == 0
    assert columns["value"].dtype == np.float64
    assert columns["ts_ns"].dtype == np.int64


def test_labels_and_structs_arrive_in_blocks_as_objects(engine: tl.Engine) -> None:
    engine.put("rig/mode", "AUTO")
    engine.put("rig/point", {"x": 1.0, "name": "a"})
    with engine.monitor(["rig/mode", "rig/point"]) as monitor:
        values: list[Any] = []
        while len(values) < 2:
            values.extend(next(monitor.blocks()).value)
    assert "AUTO" in values
    assert {"x": 1.0, "name": "a"} in values


def test_a_name_that_does_not_exist_is_raised_and_the_others_go_on(engine: tl.Engine) -> None:
    engine.put("rig/level", 5.0)
    with engine.monitor(["rig/nope", "rig/level"]) as monitor:
        values: list[Any] = []
        errors: list[tl.Error] = []
        while not (values and errors):
            try:
                values.append(monitor.next(timeout=20).value)
            except tl.NotFound as error:
                errors.append(error)
    assert values == [5.0]
    assert errors[0].name == "rig/nope"


def test_events_can_be_yielded(engine: tl.Engine) -> None:
    with engine.monitor(["rig/nope"], events=True) as monitor:
        kinds = [next(monitor).kind, next(monitor).kind]
    assert kinds == ["connected", "failed"]


def test_nothing_within_the_timeout_is_none(engine: tl.Engine) -> None:
    engine.put("rig/level", 5.0)
    with engine["rig/level"].monitor() as monitor:
        assert monitor.next(timeout=20).value == 5.0
        assert monitor.next(timeout=0.0) is None


def test_a_callback_gets_each_reading_and_ends_with_its_exception(engine: tl.Engine) -> None:
    got: queue.Queue[Any] = queue.Queue()
    callbacks = engine.subscribe("rig/count", got.put, "all")
    assert got.get(timeout=20).has_value is False
    for value in range(10):
        engine.put("rig/count", value)
    assert [got.get(timeout=20).value for _ in range(10)] == list(range(10))
    callbacks.close()
    engine.put("rig/count", 77)
    assert got.empty()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_of_a_callback_ends_the_calls(engine: tl.Engine) -> None:
    called = threading.Event()

    def fail(_: Any) -> None:
        called.set()
        raise RuntimeError("broken")

    callbacks = engine.subscribe("rig/count", fail)
    assert called.wait(20)
    callbacks.close()
    assert isinstance(callbacks.error, RuntimeError)


def test_closing_during_a_wait_ends_it(engine: tl.Engine) -> None:
    monitor = engine["rig/level"].monitor()
    monitor.next(timeout=20)
    threading.Timer(0.05, engine.close).start()
    with pytest.raises(tl.Closed):
        next(monitor)
    with pytest.raises(tl.Closed):
        engine.get("rig/level")


def test_a_bad_contract_is_refused(engine: tl.Engine) -> None:
    with pytest.raises(ValueError, match="sometimes"):
        engine.monitor("rig/level", "sometimes")
