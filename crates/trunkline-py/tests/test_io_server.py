"""I/O servers: fields, polls, orders, failures of the device, and the command line."""

from __future__ import annotations

import enum
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trunkline as tl
from .conftest import program

TIMEOUT = 20.0


class Mode(enum.Enum):
    OFF = "OFF"
    ON = "ON"


class Psu(tl.IoServer):
    """A power supply that only exists in memory."""

    volts = tl.field(float, units="V", range=(0, 30), writable=True)
    amps = tl.field(float, units="A", alarm={"hi": 2.5}, description="Output current {not a placeholder}")
    mode = tl.field(Mode, writable=True)
    limit = tl.field(float, writable=True, initial=1.5)
    serial = tl.field(str)
    trace = tl.field("array(f64, *)", path="trace/last")

    opened = 0
    failure: Exception | None = None
    release: threading.Event | None = None

    def open(self, config: tl.Config) -> None:
        self.opened += 1
        if self.failure is not None and "open" in str(self.failure):
            raise self.failure
        self.voltage = 0.0
        self.serial.publish(config.get("serial", "none"))

    def close(self) -> None:
        self.closed = True

    @tl.poll(0.002)
    def scan(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.amps.publish(self.voltage / 10)

    @volts.on_put
    def set_volts(self, volts: float) -> float | None:
        if volts > 25:
            raise tl.Rejected("the interlock is open", hint="close the door")
        if volts == 13:
            raise OSError("the cable was pulled")
        if volts == 14:
            return "fourteen"  # type: ignore[return-value]
        if self.release is not None:
            self.release.wait(TIMEOUT)
        self.voltage = round(volts)
        return self.voltage

    @mode.on_put
    def set_mode(self, mode: Mode) -> None:
        assert isinstance(mode, Mode)

    @amps.on_read
    def read_amps(self) -> float:
        return 42.0


@pytest.fixture
def listening() -> Iterator[tl.Engine]:
    """An engine in this process that other programs can reach."""
    with tl.Engine.local(listen="127.0.0.1:0", timeout=TIMEOUT) as engine:
        yield engine


@pytest.fixture
def psu(listening: tl.Engine) -> Iterator[Psu]:
    """A running I/O server `psu` of that engine."""
    with Psu.start(listening, config={"serial": "X7"}) as server:
        server.wait_ready(TIMEOUT)
        yield server


def until(monitor: tl.Monitor, condition: Callable[[tl.Reading], bool]) -> tl.Reading:
    """Returns the first reading that meets the condition."""
    deadline = time.monotonic() + TIMEOUT
    while (reading := monitor.next(TIMEOUT)) is not None and time.monotonic() < deadline:
        if condition(reading):
            return reading
    raise AssertionError("no such reading arrived")


def test_fields_are_variables_with_their_options(psu: Psu, listening: tl.Engine) -> None:
    assert listening.get("psu/serial") == "X7"
    assert listening.get("psu/limit") == 1.5
    with listening["psu/amps"].monitor() as monitor:
        until(monitor, lambda reading: reading.quality == "good")
    reading = listening.read("psu/amps")
    assert (reading.value, reading.units) == (0.0, "A")
    found = {one.name: one for one in listening.find("psu/**")}
    assert found["psu/amps"].access == "read-only"
    assert found["psu/mode"].data_type == "enum(OFF, ON)"
    assert found["psu/trace/last"].data_type == "array(f64, *)"
    assert [alarm.alarm for alarm in listening.alarms("psu/amps")] == ["hi"]


def test_a_write_returns_what_the_device_has(psu: Psu, listening: tl.Engine) -> None:
    listening.put("psu/volts", 12.4)
    assert listening.get("psu/volts") == 12.0
    assert psu.volts.value == 12.0
    with listening["psu/amps"].monitor() as monitor:
        until(monitor, lambda reading: reading.value == 1.2)
    listening.put("psu/mode", "ON")
    assert (listening.get("psu/mode"), psu.mode.value) == ("ON", Mode.ON)


def test_a_field_without_a_function_keeps_what_clients_write(psu: Psu, listening: tl.Engine) -> None:
    assert psu.limit.value == 1.5
    listening.put("psu/limit", 2.25)
    assert psu.limit.value == 2.25


def test_a_field_without_a_function_survives_the_end_of_the_server(listening: tl.Engine) -> None:
    with Psu.start(listening, config={"serial": "X7"}) as first:
        first.wait_ready(TIMEOUT)
        listening.put("psu/limit", 2.25)
        with listening["psu/limit"].monitor() as monitor:
            first.stop()
            until(monitor, lambda reading: reading.reason == "provider-gone")
    with Psu.start(listening, config={"serial": "X7"}) as second:
        assert second.limit.value in (1.5, 2.25), "before the engine is known, it is the initial value"
        second.wait_ready(TIMEOUT)
        assert second.limit.value == 2.25
        assert listening.get("psu/limit") == 2.25


def test_the_start_of_another_server_is_no_update(psu: Psu, listening: tl.Engine) -> None:
    before = listening.read("psu/serial").seq

    class Other(tl.IoServer):
        x = tl.field(float, initial=1.0)

        @x.on_read
        def read(self) -> float:
            return 1.0

    with Other.start(listening) as other:
        other.wait_ready(TIMEOUT)
        assert listening.get("other/x") == 1.0
        assert listening.read("psu/serial").seq == before


def test_a_refusal_reaches_the_client_and_changes_nothing(psu: Psu, listening: tl.Engine) -> None:
    listening.put("psu/volts", 5.0)
    with pytest.raises(tl.Rejected, match="the interlock is open; close the door"):
        listening.put("psu/volts", 26.0)
    with pytest.raises(tl.Rejected):
        listening.put("psu/volts", 31.0)  # outside the range
    with pytest.raises(tl.Rejected):
        listening.put("psu/amps", 1.0)  # an input
    assert listening.get("psu/volts") == 5.0


def test_an_exception_of_a_write_leaves_the_outcome_unknown(psu: Psu, listening: tl.Engine) -> None:
    opened = psu.opened
    with pytest.raises(tl.OutcomeUnknown, match="OSError: the cable was pulled"):
        listening.put("psu/volts", 13.0)
    psu.wait_ready(TIMEOUT)
    assert psu.opened == opened + 1, "the device was opened again"
    with pytest.raises(tl.OutcomeUnknown, match="returned a value that the variable cannot have"):
        listening.put("psu/volts", 14.0)


def test_a_failing_device_makes_its_fields_bad_until_it_works(psu: Psu, listening: tl.Engine) -> None:
    with listening["psu/amps"].monitor() as monitor, listening["psu/serial"].monitor() as serial:
        until(monitor, lambda reading: reading.quality == "good")
        psu.failure = ConnectionError("no answer")
        reading = until(monitor, lambda reading: reading.quality == "bad")
        assert (reading.reason, reading.has_value) == ("device-failure", True)
        until(serial, lambda reading: reading.reason == "device-failure")
        assert listening.read("psu/limit").quality == "good", "no device is behind this field"
        with pytest.raises(tl.Rejected, match="not open: ConnectionError: no answer"):
            listening.put("psu/volts", 1.0)
        psu.failure = None
        until(monitor, lambda reading: reading.quality == "good")
        until(serial, lambda reading: reading.quality == "good")
    assert psu.closed


def test_one_field_can_fail_and_have_a_doubtful_value(psu: Psu, listening: tl.Engine) -> None:
    with listening["psu/serial"].monitor() as monitor:
        until(monitor, lambda reading: reading.quality == "good")
        psu.serial.fail("sensor-failure")
        reading = until(monitor, lambda reading: reading.quality == "bad")
        assert (reading.value, reading.reason) == ("X7", "sensor-failure")
        psu.serial.publish("X8", reason="out-of-range", ts_ns=1_700_000_000_000_000_000)
        reading = until(monitor, lambda reading: reading.value == "X8")
        assert reading.quality != "good" and reading.ts_ns == 1_700_000_000_000_000_000
    with pytest.raises(ValueError, match="the reasons are"):
        psu.serial.fail("tired")


def test_values_of_a_wrong_type_are_refused_in_the_program(psu: Psu) -> None:
    with pytest.raises(TypeError):
        psu.amps.publish("much")  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        psu.trace.publish(np.zeros((2, 2)))
    with pytest.raises(tl.Error, match="there is no field nope; the fields are volts"):
        psu["nope"].publish(1)


def test_several_values_are_published_together(psu: Psu, listening: tl.Engine) -> None:
    psu.publish({"serial": "X9", "trace/last": np.arange(4.0)})
    with listening["psu/trace/last"].monitor() as monitor:
        reading = until(monitor, lambda reading: reading.quality == "good")
        assert list(reading.value) == [0.0, 1.0, 2.0, 3.0]
    assert listening.get("psu/serial") == "X9"


def test_a_client_that_asks_gets_a_fresh_value(psu: Psu, listening: tl.Engine) -> None:
    with listening["psu/amps"].monitor("all") as monitor:
        assert listening["psu/amps"].request().state == "applied"
        until(monitor, lambda reading: reading.value == 42.0)


def test_other_fields_are_updated_while_a_write_is_in_progress(listening: tl.Engine) -> None:
    class Slow(tl.IoServer):
        slow = tl.field(float, writable=True)
        count = tl.field(int)
        entered = threading.Event()
        release = threading.Event()

        @slow.on_put
        def set_slow(self, value: float) -> None:
            self.entered.set()
            self.release.wait(TIMEOUT)

        @tl.poll(0.001, own_thread=True)
        def counts(self) -> None:
            self.n = getattr(self, "n", 0) + 1
            self.count.publish(self.n)

    with Slow.start(listening) as server:
        server.wait_ready(TIMEOUT)
        writing = threading.Thread(target=listening.put, args=("slow/slow", 1.0))
        writing.start()
        assert server.entered.wait(TIMEOUT)
        with listening["slow/count"].monitor("all") as monitor:
            first = monitor.next(TIMEOUT).value
            until(monitor, lambda reading: reading.value > first + 3)
        server.release.set()
        writing.join()


def test_a_poll_in_its_own_thread_that_fails_opens_the_device_again(listening: tl.Engine) -> None:
    class Alone(tl.IoServer):
        x = tl.field(float)
        opened = 0

        def open(self, config: tl.Config) -> None:
            self.opened += 1

        @tl.poll(0.001, own_thread=True)
        def scan(self) -> None:
            if self.opened == 1:
                raise RuntimeError("once")
            self.x.publish(2.0)

    with Alone.start(listening) as server, tl.connect(f"tl+tcp://{listening.addresses[0]}") as client:
        server.wait_ready(TIMEOUT)
        with client["alone/x"].monitor() as monitor:
            until(monitor, lambda reading: reading.quality == "good")
        assert server.opened == 2


def test_fields_can_depend_on_the_settings(listening: tl.Engine) -> None:
    class Card(tl.IoServer):
        def fields(self, config: tl.Config) -> dict[str, tl.Field[Any]]:
            return {f"ai{n}": tl.field(np.float32, units="V") for n in range(config["channels"])}

        @tl.poll(0.01)
        def scan(self) -> None:
            for n in range(self.config["channels"]):
                self[f"ai{n}"].publish(np.float32(n))

    with Card.start(listening, name="card1", config={"channels": 3}) as server:
        server.wait_ready(TIMEOUT)
        assert [one.data_type for one in listening.find("card1/**")] == ["f32"] * 3
        with listening["card1/ai2"].monitor() as monitor:
            until(monitor, lambda reading: reading.value == 2.0)


def test_a_setting_that_nobody_reads_is_refused(listening: tl.Engine) -> None:
    with Psu.start(listening, config={"serial": "X7", "adress": 3}) as server:
        with pytest.raises(tl.TimedOut, match="there is no setting adress; remove it"):
            server.wait_ready(1)
    with pytest.raises(tl.Error, match="the setting visa is missing"):
        tl.Config().visa()


def test_an_engine_with_its_own_library_needs_no_other(serve: Any) -> None:
    _, url = serve(
        """
[[io]]
name = "supply"
driver = "process"

[library]
name = "rig"

[[variable]]
name = "percent"
type = "f64"
source = "supply:volts"
scale = { raw = [0, 30], eng = [0, 100] }
"""
    )
    with tl.connect(url) as engine, Psu.start(url, name="supply", publish=False):
        with engine["rig/percent"].monitor() as monitor:
            until(monitor, lambda reading: reading.reason != "provider-gone")
        engine.put("rig/percent", 50.0)
        assert engine.get("rig/percent") == 50.0
        assert not list(engine.find("supply/**"))


def test_the_connection_of_the_server_reads_other_variables(listening: tl.Engine) -> None:
    listening.deploy("plant", {"level": tl.variable("f64", initial=3.0)})

    class Loop(tl.IoServer):
        out = tl.field(float)

        @tl.poll(0.005)
        def control(self) -> None:
            self.out.publish(2 * self.engine.get("plant/level"))

    with Loop.start(listening) as server:
        server.wait_ready(TIMEOUT)
        with listening["loop/out"].monitor() as monitor:
            until(monitor, lambda reading: reading.value == 6.0)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: tl.field(complex), "no type of a variable"),
        (lambda: tl.poll(0.0), "at least 0.0001"),
        (lambda: tl.field(float).on_put(print), "not writable"),
    ],
)
def test_wrong_declarations_are_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        declare()


def test_coroutines_and_unknown_options_are_refused(listening: tl.Engine) -> None:
    with pytest.raises(TypeError, match="plain functions"):

        async def scan(self: tl.IoServer) -> None: ...

        tl.poll(1)(scan)

    class Wrong(tl.IoServer):
        x = tl.field(float, unit="V")

    with pytest.raises(ValueError, match='x: unknown key "unit"; did you mean "units"'):
        Wrong.start(listening)

    with pytest.raises(TypeError, match="give the field another name, and path='name'"):

        class Named(tl.IoServer):  # pyright: ignore[reportUnusedClass]
            name = tl.field(str)  # type: ignore[assignment]

    class Empty(tl.IoServer):
        pass

    with pytest.raises(tl.Error, match="has no fields"):
        Empty.start(listening)
    with pytest.raises(tl.Error, match="does not run"):
        _ = Psu().amps


# --- the command line ---

SERVER = """
import trunkline as tl

class Tank(tl.IoServer):
    "A tank."
    level = tl.field(float, units="%")
    valve = tl.field(bool, writable=True, initial=False)

    def open(self, config):
        self.at = float(config.get("level", 50))

    @tl.poll(0.01)
    def scan(self):
        self.level.publish(self.at)

    def close(self):
        print("closed", flush=True)

if __name__ == "__main__":
    Tank.main()
"""


@pytest.fixture
def tank(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the I/O server `tank` as a program."""
    file = tmp_path / "tank.py"
    file.write_text(SERVER)
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(file), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[str]) -> queue.Queue[str]:
    """Collects what a process prints."""
    found: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.put(line.rstrip())

    threading.Thread(target=read, daemon=True).start()
    return found


def wait_for(found: queue.Queue[str], pattern: str) -> None:
    while not re.search(pattern, found.get(timeout=TIMEOUT)):
        pass


def test_the_program_runs_until_it_is_killed(
    tank: Callable[..., subprocess.Popen[str]], listening: tl.Engine
) -> None:
    url = f"tl+tcp://{listening.addresses[0]}"
    first = tank("--engine", url, "level=70")
    wait_for(lines(first), "I/O server tank delivers 2 variables")
    with listening["tank/level"].monitor() as monitor:
        until(monitor, lambda reading: reading.value == 70.0)
        listening.put("tank/valve", True)
        os.kill(first.pid, signal.SIGKILL)
        reading = until(monitor, lambda reading: reading.quality == "bad")
        assert (reading.reason, reading.value) == ("provider-gone", 70.0)
        second = tank("--engine", url, "level=71")
        found = lines(second)
        until(monitor, lambda reading: reading.value == 71.0)
        second.send_signal(signal.SIGTERM)
        wait_for(found, "closed")
        assert second.wait(TIMEOUT) == 0


def test_the_program_lists_its_variables_and_tries_the_device(
    tank: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    out, _ = tank("--list", "--name", "t1").communicate(timeout=TIMEOUT)
    assert out.splitlines() == ["t1/level\tf64\tread-only\t%", "t1/valve\tbool\tread-write"]
    settings = tmp_path / "tank.toml"
    settings.write_text("level = 12\n")
    process = tank("--dry-run", "--config", str(settings), "--engine", "tl+tcp://127.0.0.1:1")
    out, errors = process.communicate(timeout=TIMEOUT)
    assert "<field level: 12.0>" in out, errors
    assert process.returncode == 0
    assert "<field valve: False>" in out, "the initial value"
    process = tank("--dry-run", "levle=3", "--engine", "tl+tcp://127.0.0.1:1")
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    assert "there is no setting levle" in errors
    process = tank("levle")
    _, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, "KEY=VALUE" in errors) == (2, True)


def test_a_dry_run_uses_no_engine(listening: tl.Engine, tmp_path: Path) -> None:
    listening.deploy("plant", {"actuator": tl.variable("f64", initial=1.0)})
    file = tmp_path / "loop.py"
    file.write_text(
        "import trunkline as tl\n"
        "class Loop(tl.IoServer):\n"
        "    x = tl.field(float)\n"
        "    @tl.poll(1)\n"
        "    def control(self):\n"
        "        self.engine.put('plant/actuator', 9.0)\n"
        "Loop.main()\n"
    )
    command = [sys.executable, str(file), "--dry-run", "--engine", f"tl+tcp://{listening.addresses[0]}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert (done.returncode, "a dry run uses no engine" in done.stderr) == (1, True)
    assert listening.get("plant/actuator") == 1.0
    assert not list(listening.find("loop/**"))


def test_the_program_trunkline_shows_why_a_field_is_bad(
    tank: Callable[..., subprocess.Popen[str]], serve: Any
) -> None:
    _, url = serve("")
    process = tank("--engine", url)
    wait_for(lines(process), "delivers 2 variables")
    process.kill()
    process.wait()
    with tl.connect(url) as engine:
        with engine["tank/level"].monitor() as monitor:
            until(monitor, lambda reading: reading.quality == "bad")
        command = [str(program()), "why", f"{url}/tank/level"]
        why = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert "I/O server tank is not running" in why.stdout
