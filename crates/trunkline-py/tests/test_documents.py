"""Runs the examples of the documentation, in the order of the page."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trunkline as tl
from trunkline.compat import epics

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"
PAGE = HOW_TO / "use-from-python.md"
OTHER_PACKAGES = HOW_TO / "coming-from-other-packages.md"

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
units = "%"
range = [0, 100]
initial = 50.0

[[variable]]
name = "setpoint"
type = "f64"
range = [0, 100]

[[variable]]
name = "mode"
type = "enum(OFF, MANUAL, AUTO)"
initial = "OFF"
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


def columns(section: str) -> tuple[list[str], list[str]]:
    """Returns the code of the first column of a section, a cell each, and that of the second one. Blocks between
    the tables are in both."""
    left: list[str] = []
    right: list[str] = []
    found = re.compile(r"```python\n(.*?)```|^\| ([^|\n]+) \| (`[^|\n]+`) \|$", re.DOTALL | re.MULTILINE)
    for block, first, second in found.findall(section):
        for column, cell in ((left, first), (right, second)):
            column.append(block or "\n".join(re.findall(r"`(.*?)`", cell)))
    return left, right


def section(page: Path, heading: str) -> str:
    """Returns the text below a heading."""
    return page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


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
    page = HOW_TO / "io-servers-in-python.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("package", ["pyepics", "p4p", "npTDMS", "nidaqmx"])
def test_the_lines_for_users_of_other_packages_run(
    package: str, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, url = serve(BOILER)
    monkeypatch.setenv("TRUNKLINE_URL", url)
    monkeypatch.chdir(tmp_path)
    theirs, ours = columns(section(OTHER_PACKAGES, package))
    assert len(ours) >= 10
    names: dict[str, Any] = {"tl": tl, "np": np, "show": print}
    for lines in ours:
        exec(compile(lines, str(OTHER_PACKAGES), "exec"), names)
    if engine := names.get("engine"):
        engine.close()
    # The other two packages need their own servers and devices.
    if package == "pyepics":
        monkeypatch.setitem(sys.modules, "epics", epics)
    elif package != "npTDMS":
        return
    names = {"np": np}
    for lines in theirs:
        if "tl." not in lines:
            exec(compile(lines, str(OTHER_PACKAGES), "exec"), names)
    epics.use(None)
