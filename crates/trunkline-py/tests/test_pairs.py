"""Runs the examples of two languages against each other: a writer of one, a reader of the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trunkline as tl

from .conftest import program

Serve = Callable[..., tuple[subprocess.Popen[str], str]]
Command = tuple[list[str], dict[str, str]]

ROOT = Path(__file__).parents[3]
RING = [("rust", "c"), ("c", "csharp"), ("csharp", "python"), ("python", "rust")]

CONFIGURATION = """
[engine]
store = "none"

[library]
name = "boiler"

[[io]]
name = "tank"
driver = "process"

[[variable]]
name = "level"
type = "f64"

[[variable]]
name = "setpoint"
type = "f64"
range = [0, 100]
initial = 70

[[variable]]
name = "tank/setpoint"
type = "f64"
source = "tank:setpoint"
"""


class Programs:
    """The examples of all languages. Those of C and C# are compiled when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.built = program().parent
        for name in ("libtrunkline.so", "libtrunkline.so.0"):
            (folder / name).symlink_to(self.built / "libtrunkline_c.so")

    def command(self, language: str, name: str, url: str, *arguments: str) -> Command:
        """Returns the command that runs an example, and its environment."""
        environment = {**os.environ, "TRUNKLINE_URL": url, "LD_LIBRARY_PATH": str(self.folder)}
        if language == "rust":
            start = [str(self.built / "examples" / name)]
        elif language == "python":
            start = [sys.executable, str(ROOT / "examples" / "python" / f"{name}.py")]
        else:
            start = self._c(name) if language == "c" else self._csharp(name)
        return [*start, *arguments], environment

    def _c(self, name: str) -> list[str]:
        built = self.folder / f"{name}-c"
        if not built.exists():
            source = ROOT / "examples" / "c" / f"{name}.c"
            include = ROOT / "crates" / "trunkline-c" / "include"
            command = ["cc", str(source), "-I", str(include), "-L", str(self.folder)]
            subprocess.run([*command, "-ltrunkline", "-o", str(built)], check=True)
        return [str(built)]

    def _csharp(self, name: str) -> list[str]:
        if shutil.which("mcs") is None or shutil.which("mono") is None:
            pytest.skip("mono-mcs and mono-runtime are not installed")
        bindings = self.folder / "Trunkline.dll"
        if not bindings.exists():
            source = ROOT / "bindings" / "csharp" / "Trunkline.cs"
            library = ["mcs", "-unsafe", "-target:library", f"-out:{bindings}", str(source)]
            subprocess.run(library, check=True)
        built = self.folder / f"{name}.exe"
        if not built.exists():
            source = ROOT / "examples" / "csharp" / f"{name}.cs"
            subprocess.run(
                ["mcs", f"-out:{built}", f"-reference:{bindings}", str(source)], check=True
            )
        return ["mono", str(built)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    yield Programs(tmp_path_factory.mktemp("programs"))


def start(command: Command) -> subprocess.Popen[str]:
    arguments, environment = command
    return subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def printed(process: subprocess.Popen[str]) -> str:
    """Waits for the end of a program, and returns what it printed."""
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return output


def tcp(url: str) -> str:
    return url.replace("tl+tcp://", "tl://")


@pytest.mark.parametrize(("writer", "reader"), RING)
def test_a_stream_connects_two_languages(
    serve: Serve, programs: Programs, writer: str, reader: str
) -> None:
    _, url = serve(CONFIGURATION)
    port = url.rsplit(":", 1)[1]

    def arguments(language: str, role: str) -> list[str]:
        return [role] if language == "python" else [role, port]

    reading = start(programs.command(reader, "stream", url, *arguments(reader, "read")))
    writing = start(programs.command(writer, "stream", url, *arguments(writer, "write")))
    assert printed(writing) == "0 samples not delivered\n"
    assert printed(reading) == "100000 samples, sum 4999950000\n"


@pytest.mark.parametrize(("writer", "reader"), RING)
def test_a_setpoint_of_one_language_is_monitored_by_the_other(
    serve: Serve, programs: Programs, writer: str, reader: str
) -> None:
    _, url = serve(CONFIGURATION)
    variable = "boiler/setpoint"
    writes = [variable, "75"] if writer == "python" else [tcp(url), variable, "75"]
    written = printed(start(programs.command(writer, "setpoint", url, *writes)))
    assert "75" in written
    # The current value is the first reading of a monitor.
    reads = [variable, "1"] if reader == "python" else [tcp(url), variable, "all", "1"]
    assert "75" in printed(start(programs.command(reader, "monitor", url, *reads)))


@pytest.mark.parametrize(("server", "client"), [("rust", "csharp"), ("c", "rust"), ("csharp", "c")])
def test_an_io_server_of_one_language_confirms_a_setpoint_of_the_other(
    serve: Serve, programs: Programs, server: str, client: str
) -> None:
    _, url = serve(CONFIGURATION)
    orders = ["tank", "1"] if server == "rust" else ["1"]
    serving = start(programs.command(server, "io_server", url, tcp(url), *orders))
    variable = "boiler/tank/setpoint"
    with tl.connect(url, timeout=20) as engine, engine.monitor(variable, events=True) as monitor:
        for event in monitor:
            if isinstance(event, tl.Reading) and event.quality == "good":
                break
    # The device stores whole numbers, and the writer sees what it has now.
    written = programs.command(client, "setpoint", url, tcp(url), variable, "63.4")
    assert "63" in printed(start(written))
    printed(serving)
