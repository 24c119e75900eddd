"""Runs the examples of examples/python."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trunkline as tl

from .test_documents import BOILER

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"


@pytest.mark.parametrize(
    ("example", "arguments", "expected"),
    [
        ("live_reading", ["boiler/level", "3"], "51.0"),
        ("setpoint", ["boiler/setpoint", "42"], "-> 42.0, update 2"),
        ("batch", [], "boiler/nope failed: no variable is named boiler/nope"),
        ("monitor", ["boiler/level", "3"], "missed in all:"),
        ("in_process", ["20"], "level "),
    ],
)
def test_an_example_runs(serve: Serve, example: str, arguments: list[str], expected: str) -> None:
    _, url = serve(BOILER)
    environment = {**os.environ, "TRUNKLINE_URL": url}
    with tl.connect(url, timeout=20) as engine:
        engine.put("boiler/setpoint", 10.0)
        stop = threading.Event()

        def write() -> None:
            while not stop.wait(0.005):
                engine.put("boiler/level", 51.0)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            done = subprocess.run(
                [sys.executable, "-X", "dev", str(EXAMPLES / f"{example}.py"), *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
        finally:
            stop.set()
            writer.join()
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    assert done.stderr == ""


def run_until(example: str, url: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts an I/O server, and waits until its engine uses it."""
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", str(EXAMPLES / f"{example}.py"), "--engine", url, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "delivers" in line and "delivers 0" not in line:
            return process
    raise AssertionError(process.communicate())


def test_the_io_server_runs(serve: Serve) -> None:
    _, url = serve("")
    process = run_until("io_server", url, "--name", "psu")
    with tl.connect(url, timeout=20) as engine:
        engine.put("psu/volts", 12.04)
        assert engine.get("psu/volts") == 12.0
        with engine["psu/amps"].monitor() as monitor:
            while not 1.0 < monitor.next(20).value < 1.4:
                pass
        engine.put("psu/interlock", True)
        with pytest.raises(tl.Rejected, match="set psu/interlock to false"):
            engine.put("psu/volts", 1.0)
    process.terminate()
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_the_pid_loop_controls(serve: Serve) -> None:
    _, url = serve(BOILER)
    with tl.connect(url, timeout=20) as engine:
        engine.put("boiler/level", 40.0)
        engine.put("boiler/setpoint", 0.0)
        process = run_until("pid", url, "--name", "pid", "input=boiler/level", "output=boiler/setpoint")
        with engine["boiler/setpoint"].monitor() as monitor:
            while monitor.next(20).value < 20.0:
                pass
        engine.put("pid/setpoint", 10.0)
        with engine["boiler/setpoint"].monitor() as monitor:
            while monitor.next(20).value > 0.0:
                pass
    process.terminate()
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
