"""Signals, forks, the end of the interpreter, and many connections."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trunkline as tl


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in an interpreter that reports what is usually hidden."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_an_interrupt_ends_a_wait(engine: tl.Engine) -> None:
    # A shell starts programs in the background with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with engine["rig/level"].monitor() as monitor:
        monitor.next(timeout=20)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            monitor.next()
    signal.signal(signal.SIGINT, before)
    assert engine.read("rig/level").has_value is False


def test_a_fork_is_refused_with_a_sentence() -> None:
    done = python(
        """
import os, trunkline as tl
from trunkline.compat import epics
engine = tl.Engine.local({"rig": {"level": "f64"}})
engine.put("rig/level", 1.0)
monitor = engine["rig/level"].monitor()
monitor.next()
epics.use(engine, prefix="")
assert epics.caget("rig:level") == 1.0
read, write = os.pipe()
child = os.fork()
if child == 0:
    for use in (
        lambda: engine.get("rig/level"),
        lambda: monitor.next(),
        lambda: engine.control("rig").take(),
        lambda: epics.caput("rig:level", 2),
        lambda: engine.live("rig/level"),
    ):
        try:
            use()
        except tl.Error as error:
            os.write(write, error.code.encode() + b" ")
    engine.close()
    os._exit(0)
os.waitpid(child, 0)
print(os.read(read, 100).decode(), engine.get("rig/level"))
epics.use(None)
engine.close()
"""
    )
    assert done.stdout.split() == ["forked"] * 5 + ["1.0"], done.stderr


def test_an_interpreter_ends_with_live_monitors_and_callbacks(tmp_path: Path) -> None:
    done = python(
        """
import sys, threading, trunkline as tl
from trunkline.compat import epics
engine = tl.Engine.local({"rig": {"level": "f64"}})
monitor = engine["rig/level"].monitor()
monitor.next()
got = threading.Event()
engine.subscribe("rig/level", lambda reading: got.set())
assert got.wait(20)
threading.Thread(target=lambda: next(monitor), daemon=True).start()
epics.use(engine, prefix="")
called = threading.Event()
pv = epics.PV("rig:level", callback=lambda **_: called.set())
assert called.wait(20)
view = engine.live("rig/level")
recorder = engine.record(sys.argv[1], "rig/**")
recorder.__enter__()
control = engine.control("rig")
control.take()
print("end")
""",
        str(tmp_path / "run.tdms"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "end\n"
    assert done.stderr == ""


def test_no_engine_is_an_error_with_its_cause(tmp_path: Path) -> None:
    with pytest.raises(tl.Disconnected) as caught:
        tl.connect(f"tl+unix://{tmp_path}/nothing", timeout=0.2)
    assert caught.value.code == "not-connected"
    with pytest.raises(tl.Disconnected):
        tl.connect("tl://user@host:port", timeout=0.2)


CLOSED_USES: dict[str, Callable[[tl.Engine], object]] = {
    "alarm_journal": lambda engine: engine.alarm_journal(),
    "alarms": lambda engine: engine.alarms(),
    "audit": lambda engine: engine.audit(),
    "batch": lambda engine: batch_of(engine),
    "control": lambda engine: engine.control("rig").take(),
    "controls": lambda engine: engine.controls(),
    "deploy": lambda engine: engine.deploy("other", {"x": "f64"}),
    "find": lambda engine: engine.find(),
    "flush": lambda engine: engine.flush(),
    "get": lambda engine: engine.get("rig/level"),
    "get many": lambda engine: engine.get(["rig/level", "rig/count"]),
    "history": lambda engine: engine.history("rig/**"),
    "lease": lambda engine: engine.lease("rig/level").acquire(),
    "live": lambda engine: engine.live("rig/level"),
    "monitor": lambda engine: engine.monitor("rig/level"),
    "publish": lambda engine: engine.publish("rig/fixed", 1.0),
    "put": lambda engine: engine.put("rig/level", 1.0),
    "put many": lambda engine: engine.put({"rig/level": 1.0}),
    "put_nowait": lambda engine: engine.put_nowait("rig/level", 1.0),
    "reader": lambda engine: engine.reader("rig/stream"),
    "record": lambda engine: engine.record("nothing.tdms", "rig/**"),
    "snapshot": lambda engine: engine.snapshot(["rig/level"]),
    "subscribe": lambda engine: engine.subscribe("rig/level", print),
    "table": lambda engine: engine.table(),
    "undeploy": lambda engine: engine.undeploy("rig"),
    "variable": lambda engine: engine["rig/level"].describe(),
    "wait_connected": lambda engine: engine.wait_connected(),
    "why": lambda engine: engine.why("rig/level"),
}


def batch_of(engine: tl.Engine) -> None:
    with engine.batch(atomic=True) as batch:
        batch.put("rig/level", 1.0)


@pytest.mark.parametrize("use", CLOSED_USES)
def test_a_closed_connection_cannot_be_used(engine: tl.Engine, use: str) -> None:
    # A variable that is open must not be used either.
    engine.read(["rig/level", "rig/count"])
    engine.close()
    engine.close()
    with pytest.raises(tl.Closed):
        CLOSED_USES[use](engine)


def test_a_call_that_the_connection_ends_is_closed(engine: tl.Engine) -> None:
    requests = engine._requests  # pyright: ignore[reportPrivateUsage]
    call = requests.connection.follow_control(1_000_000)
    engine.close()
    with pytest.raises(tl.Closed):
        requests.call(call, 20)


def test_closing_ends_the_wait_for_control(engine: tl.Engine) -> None:
    with tl.Engine.local({"rig": {"level": "f64"}}, listen="127.0.0.1:0") as host:
        url = f"tl+tcp://{host.addresses[0]}"
        with tl.connect(url, timeout=20) as one, tl.connect(url, timeout=20) as other:
            one.control("rig").take()
            control = other.control("rig")
            control.request()
            threading.Timer(0.05, other.close).start()
            with pytest.raises(tl.Closed):
                control.wait()
