"""Signals, forks, the end of the interpreter, and many connections."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trunkline as tl


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in an interpreter that reports what is usually hidden."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
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
engine = tl.Engine.local({"rig": {"level": "f64"}})
engine.put("rig/level", 1.0)
read, write = os.pipe()
child = os.fork()
if child == 0:
    try:
        engine.get("rig/level")
    except tl.Error as error:
        os.write(write, error.code.encode())
    os._exit(0)
os.waitpid(child, 0)
print(os.read(read, 100).decode(), engine.get("rig/level"))
engine.close()
"""
    )
    assert done.stdout.split() == ["forked", "1.0"], done.stderr


def test_an_interpreter_ends_with_live_monitors_and_callbacks() -> None:
    done = python(
        """
import threading, trunkline as tl
engine = tl.Engine.local({"rig": {"level": "f64"}})
monitor = engine["rig/level"].monitor()
monitor.next()
got = threading.Event()
engine.subscribe("rig/level", lambda reading: got.set())
assert got.wait(20)
threading.Thread(target=lambda: next(monitor), daemon=True).start()
print("end")
"""
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


def test_connections_leave_no_threads_and_descriptors() -> None:
    def count() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    with tl.Engine.local({"rig": {"level": "f64"}}, listen="127.0.0.1:0") as engine:
        url = f"tl+tcp://{engine.addresses[0]}"
        for _ in range(2):
            tl.connect(url, timeout=20).close()
        before = count()
        for _ in range(50):
            with tl.connect(url, timeout=20) as one:
                one.put("rig/level", 1.0)
                with one["rig/level"].monitor() as monitor:
                    monitor.next(timeout=20)
        threads, descriptors = count()
    assert threads <= before[0] + 1
    assert descriptors <= before[1] + 3
