"""Runs the examples of the documentation, in the order of the page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

PAGES = Path(__file__).parents[3] / "docs" / "how-to"
PAGE = PAGES / "use-from-python.md"

BOILER = """
[engine]
store = "store"
history = "history"

[[history]]
variables = "boiler/**"

[library]
name = "boiler"

[[variable]]
name = "level"
type = "f64"
initial = 50.0

[[variable]]
name = "setpoint"
type = "f64"
range = [0, 100]

[[variable]]
name = "mode"
type = "enum(OFF, MANUAL, AUTO)"
"""

WRITER = """
import threading, trunkline as tl
def write(stop):
    with tl.connect() as engine:
        while not stop.wait(0.01):
            engine.put("boiler/level", 51.0)
stop = threading.Event()
writer = threading.Thread(target=write, args=(stop,))
writer.start()
"""


def test_the_how_to_runs(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 10
    _, url = serve(BOILER)
    monkeypatch.setenv("TRUNKLINE_URL", url)
    names: dict[str, Any] = {}
    exec(WRITER, names)
    try:
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
        with names["tl"].Engine.local() as engine:
            names["test_level"](engine)
        names["engine"].close()
    finally:
        names["stop"].set()
        names["writer"].join()


def test_the_how_to_about_io_servers_runs() -> None:
    page = PAGES / "io-servers-in-python.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
