"""What the clients have in common: placement, processes, clocks, and rows of results."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import socket
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

VARIABLES = 1000
"""Variables of the calls; a batch has all of them."""
MONITORED = 100
"""Variables of the readings."""
ELEMENTS = 100_000
"""Elements per call of a stream."""
SCENARIO = "clients"
NEAR, FAR = 0, 1
PATIENCE = 30.0
"""Seconds; longer than any server takes to start, and any answer to arrive."""
PROGRAMS = os.environ.get("TRUNKLINE_CLIENTS", "target/clients/bin")
"""Folder of the programs that `bench/clients/install` builds."""


class Invalid(Exception):
    """The row does not count, for this reason."""


class Missing(Exception):
    """The system is not installed."""


# --- placement ---------------------------------------------------------------


def cpus() -> list[int]:
    """The CPUs of both ends: the first two that the system allows; one twice if there is only one."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    allowed = sorted(os.sched_getaffinity(0))
    return [allowed[0], allowed[min(1, len(allowed) - 1)]]


def pin(end: int) -> str:
    """Puts this thread, and what it starts from now on, on the CPU of an end. Returns the placement."""
    both = cpus()
    os.sched_setaffinity(0, {both[end]})
    return "cross" if both[0] != both[1] else "same"


# --- processes ---------------------------------------------------------------


def program(name: str) -> str:
    path = os.path.join(PROGRAMS, name)
    if not os.path.exists(path):
        raise Missing(f"{name} was not built; run bench/clients/install")
    return os.path.abspath(path)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def server(command, **variables):
    """Runs a server on the far end's CPU. It ends with the block, or with this process."""
    far = cpus()[FAR]
    pin(NEAR)
    process = subprocess.Popen(
        ["taskset", "--cpu-list", str(far), "setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | variables,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def await_line(process, text: str) -> str:
    """Waits until a server prints a line with this text, and returns the rest of the line."""
    lines = []
    for line in process.stdout:
        if text in line:
            return line.split(text, 1)[1].strip()
        lines.append(line)
    raise RuntimeError(f"the server ended instead of printing {text!r}: {''.join(lines[-20:])}")


def tell(process) -> None:
    """Sends a server the line for which it waits."""
    process.stdin.write("\n")
    process.stdin.flush()


def await_connection(port: int) -> None:
    """Waits until something listens at a port."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing listens at port {port}")
        time.sleep(0.02)


# --- the window of a monitor -------------------------------------------------


class Window:
    """How many updates a client has received, in a file that a writer maps too.

    Servers that drop updates of slow clients are held back by it: the writer stays at most a number of updates
    ahead, so that nothing is lost and the client alone sets the pace.
    """

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)
        self.path = path

    @classmethod
    @contextlib.contextmanager
    def create(cls):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(8))
            file.flush()
            yield cls(file.name)

    @property
    def count(self) -> int:
        return struct.unpack_from("q", self._memory)[0]

    @count.setter
    def count(self, count: int) -> None:
        struct.pack_into("q", self._memory, 0, count)

    def wait(self, written: int, ahead: int) -> None:
        """Returns once a writer of `written` updates is less than `ahead` ahead. Call it every few updates."""
        while written - self.count >= ahead:
            time.sleep(2e-5)


class Updates:
    """Checks updates: each variable counts up by one."""

    EVERY = 32

    def __init__(self, variables: int, window: Window | None = None) -> None:
        self._last = [0.0] * variables
        self._window = window
        self.count = 0
        self.wrong = 0

    def take(self, variable: int, value: float) -> None:
        last = self._last
        if value != last[variable] + 1.0:
            # The first update that a subscription delivers is the value before the first write.
            if value == 0.0:
                return
            self.wrong += 1
        last[variable] = value
        self.count += 1
        if self._window is not None and self.count % self.EVERY == 0:
            self._window.count = self.count


# --- clocks ------------------------------------------------------------------


@dataclass
class Usage:
    """The time, the CPU time and the voluntary context switches of this process."""

    at: float = field(default_factory=time.perf_counter)
    used: resource.struct_rusage = field(default_factory=lambda: resource.getrusage(resource.RUSAGE_SELF))

    def since(self, start: Usage) -> tuple[float, float, int]:
        """Seconds, CPU seconds and switches since `start`."""
        cpu = [one.used.ru_utime + one.used.ru_stime for one in (self, start)]
        return self.at - start.at, cpu[0] - cpu[1], self.used.ru_nvcsw - start.used.ru_nvcsw


@dataclass
class Timing:
    """How long calls took."""

    calls: int
    seconds: float
    cpu_seconds: float
    switches: int

    @classmethod
    def of(cls, calls: int, start: Usage) -> Timing:
        return cls(calls, *Usage().since(start))


def timed(call, seconds: float, at_once: int = 16) -> Timing:
    """Calls `call(number)` again and again, with 0, 1, 2, ..., and looks at the clock every `at_once` calls."""
    number = 0
    start = Usage()
    end = start.at + seconds
    while True:
        for number in range(number, number + at_once):
            call(number)
        number += 1
        if time.perf_counter() >= end:
            return Timing.of(number, start)


async def timed_async(call, seconds: float, at_once: int = 16) -> Timing:
    """As `timed`, and awaits each call."""
    number = 0
    start = Usage()
    end = start.at + seconds
    while True:
        for number in range(number, number + at_once):
            await call(number)
        number += 1
        if time.perf_counter() >= end:
            return Timing.of(number, start)


@dataclass
class Rate:
    """What a reader took within the measured time."""

    warm_up: float
    seconds: float
    start: Usage | None = None
    first: int = 0
    begun: float | None = None

    def poll(self, count: int) -> Timing | None:
        """Call it every few readings with the number of all of them; returns the result once the time is over."""
        now = time.perf_counter()
        if self.begun is None:
            # The server starts before the first reading.
            self.begun = now
        if self.start is None:
            if now >= self.begun + self.warm_up:
                self.start, self.first = Usage(), count
        elif now >= self.start.at + self.seconds:
            return Timing.of(count - self.first, self.start)
        return None


# --- rows --------------------------------------------------------------------


def row(system: str, case: str, placement: str, waiting: str, figures: dict[str, float], invalid=()) -> dict:
    """A row of a result file. The repeat is filled in by the run."""
    return {
        "scenario": SCENARIO, "system": system, "case": case, "repeat": 1, "placement": placement, "waiting": waiting,
        "figures": dict(sorted(figures.items())), "invalid": list(invalid),
    }


def call_row(system: str, op: str, placement: str, timing: Timing, invalid=()) -> dict:
    """The row of calls of a client in Python."""
    switches = timing.switches / timing.calls
    figures = {
        "calls": timing.calls,
        "us": timing.seconds * 1e6 / timing.calls,
        "near_cpu_us": timing.cpu_seconds * 1e6 / timing.calls,
        "near_switches_per_wait": switches,
    }
    waiting = "mixed" if switches < 0.9 and not op.endswith("-many") else "sleeping"
    return row(system, f"lang=python op={op}", placement, waiting, figures, invalid)


def rate_row(system: str, case: str, placement: str, timing: Timing, invalid=(), **figures: float) -> dict:
    """The row of readings or elements. `near_cpu_share` near 1 means that the reader sets the pace."""
    figures |= {"per_s": timing.calls / timing.seconds, "near_cpu_share": timing.cpu_seconds / timing.seconds}
    return row(system, f"lang=python {case}", placement, "mixed", figures, invalid)


OPERATIONS = {"sync-get": "get", "sync-put": "put", "async-get": "get-many", "async-put": "put-many"}


def row_of_c(line: dict) -> dict:
    """The row of calls of a client in C, from the row of the scenario `call_cost` that its program prints."""
    words = dict(word.split("=") for word in line["case"].split())
    op = OPERATIONS[words["op"]]
    given = line["figures"]
    calls = 1 if op.endswith("-many") else given["calls"]
    figures = {
        "calls": given["calls"], "us": given["elapsed_ms"] * 1e3 / calls,
        "near_cpu_us": given["near_cpu_ms"] * 1e3 / calls,
    }
    if "near_switches_per_wait" in given:
        figures["near_switches_per_wait"] = given["near_switches_per_wait"]
    return row(line["system"], f"lang=c op={op}", line["placement"], line["waiting"], figures, line["invalid"])
