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
