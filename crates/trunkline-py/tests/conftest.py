"""What the tests share."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trunkline as tl

RIG: dict[str, tl.VariableDefinition | str] = {
    "level": tl.variable("f64", units="%", range=(0, 100), description="Level of the tank"),
    "count": "i32",
    "wide": "u64",
    "single": "f32",
    "open": "bool",
    "mode": "enum(OFF, MANUAL, AUTO)",
    "note": "string",
    "raw": "bytes",
    "at": "timestamp",
    "spectrum": "array(f64, *)",
    "image": "array(u16, 2, 3)",
    "names": "array(string, *)",
    "times": "array(timestamp, *)",
    "point": "struct(x: f64, name: string)",
    "wave": "waveform(f32)",
    "fixed": tl.variable("f64", access="read-only"),
}


@pytest.fixture
def engine() -> Iterator[tl.Engine]:
    """An engine in this process with one variable of each kind."""
    with tl.Engine.local({"rig": RIG}, timeout=20) as engine:
        yield engine


def program() -> Path:
    """The program `trunkline` that the build made."""
    named = os.environ.get("TRUNKLINE_PROGRAM")
    return Path(named) if named else Path(__file__).parents[3] / "target" / "debug" / "trunkline"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are killed after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start_engine(arguments: list[str], folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Starts the program `trunkline`; returns the process and the URL of its engine."""
    process = subprocess.Popen(
        [str(program()), *arguments, "--json"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"127\.0\.0\.1:[0-9]+", line)
        if found:
            return process, f"tl+tcp://{found.group()}"
    raise AssertionError(f"the engine did not start: {process.communicate()}")


@pytest.fixture
def serve(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> Callable[..., tuple[subprocess.Popen[str], str]]:
    """Starts `trunkline serve` with a configuration; returns the process and the URL of its engine."""

    def start(configuration: str, listen: str = "127.0.0.1:0") -> tuple[subprocess.Popen[str], str]:
        file = tmp_path / "test.toml"
        file.write_text(configuration)
        file.chmod(0o600)
        process, url = start_engine(["serve", str(file), "--listen", listen], tmp_path)
        started.append(process)
        return process, url

    return start


@pytest.fixture
def demo(tmp_path: Path, started: list[subprocess.Popen[str]]) -> str:
    """Starts `trunkline demo`; returns the URL of its engine."""
    process, url = start_engine(["demo", "--listen", "127.0.0.1:0"], tmp_path)
    started.append(process)
    return url
