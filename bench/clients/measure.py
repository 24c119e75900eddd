#!/usr/bin/env python3
"""Measures clients in Python and C beside those of other systems: the scenario `clients`.

    measure.py run [--quick] --results FOLDER   measures everything, in turn, and writes a result file
    measure.py cell PART SYSTEM [key=value ...] measures one system, and prints its rows

`bench/run clients` builds what this needs, and starts it. A part is `calls`, `readings`, `stream` or `c`. Each
cell is a process on the first CPU, with a server of its own on the second one. The settings are `seconds`
and `warm-up`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# Servers in Python find the modules, too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

from common import (
    ELEMENTS, NEAR, VARIABLES, Invalid, Missing, Rate, call_row, pin, program, rate_row, row, row_of_c,
    timed,
)

ROOT = HERE.parents[1]
REPEATS = 7

MODULES = {
    "raw-socket": "raw", "trunkline": "trunkline_python", "trunkline-shm": "trunkline_python",
    "trunkline-in-place": "trunkline_python", "trunkline-shm-in-place": "trunkline_python",
    "trunkline-blocks": "trunkline_python", "trunkline-shm-blocks": "trunkline_python", "pyepics": "pyepics",
    "p4p": "p4p_python", "asyncua": "asyncua_python", "pyzmq": "pyzmq", "redis-py": "redis_python",
}
"""The module of each system in Python."""
PARTS = {
    "calls": ["raw-socket", "trunkline", "trunkline-shm", "pyepics", "p4p", "asyncua", "pyzmq", "redis-py"],
    "readings": [
        "trunkline", "trunkline-shm", "trunkline-blocks", "trunkline-shm-blocks", "pyepics", "p4p", "asyncua",
        "pyzmq", "redis-py",
    ],
    "stream": [
        "raw-socket", "trunkline", "trunkline-in-place", "trunkline-shm", "trunkline-shm-in-place", "pyzmq",
    ],
    "c": ["raw-tcp", "trunkline", "trunkline-shm", "epics-ca", "open62541"],
}
"""The systems of each part, in turn."""
C_PROGRAMS = {"raw-tcp": "raw", "trunkline": "trunkline", "trunkline-shm": "trunkline"}
"""The programs in C; the other ones are in the folder of `bench/peers/install`."""
PEER_PROGRAMS = {"epics-ca": "ca", "open62541": "opcua"}
OPS = ["get", "put", "get-many", "put-many"]


# --- one cell ----------------------------------------------------------------


class Settings:
    def __init__(self, words: list[str]) -> None:
        given = dict(word.split("=", 1) for word in words)
        self.seconds = float(given.get("seconds", 1.5))
        self.warm_up = float(given.get("warm-up", 0.5))


def created(kind, stack, system: str):
    """An object of a system; the modules of Trunkline have several systems."""
    return kind(stack, system) if system.startswith("trunkline") else kind(stack)


def measure_calls(stack, system: str, module, settings: Settings, placement: str) -> list[dict]:
    """One row for each operation that the system has."""
    calls = created(module.Calls, stack, system)
    # A client whose calls are coroutines runs them itself.
    wait = getattr(calls, "wait", lambda result: result)
    time_calls = getattr(calls, "time", timed)
    ops = [op for op in OPS if hasattr(calls, op.replace("-", "_"))]
    written = [float(number) + 0.5 for number in range(VARIABLES)]
    for number in range(VARIABLES):
        wait(calls.put(number, written[number]))

    def read_back() -> list[float]:
        if "get-many" in ops:
            return list(wait(calls.get_many()))
        return [wait(calls.get(number)) for number in range(VARIABLES)]

    def put_many(number: int):
        written[:] = [float(number + place) for place in range(VARIABLES)]
        return calls.put_many(written)

    def put(number: int):
        place = number % VARIABLES
        written[place] = float(number)
        return calls.put(place, written[place])

    steps = {
        "get": lambda number: calls.get(number % VARIABLES),
        "put": put,
        "get-many": lambda number: calls.get_many(),
        "put-many": put_many,
    }
    rows = []
    for op in ops:
        at_once = 1 if op.endswith("-many") else 16
        time_calls(steps[op], settings.warm_up, at_once)
        timing = time_calls(steps[op], settings.seconds, at_once)
        # The next operation reads what this one has written.
        wrong = sum(got != wanted for got, wanted in zip(read_back(), written, strict=True))
        invalid = [f"{wrong} variables do not have the value that was put"] * bool(wrong)
        if op == "get":
            wrong = sum(wait(calls.get(number)) != written[number] for number in range(VARIABLES))
            invalid += [f"{wrong} gets returned another value than was put"] * bool(wrong)
        rows.append(call_row(system, op, placement, timing, invalid))
    return rows


def measure_readings(stack, system: str, module, settings: Settings, placement: str) -> list[dict]:
    rate = Rate(settings.warm_up, settings.seconds)
    if not system.startswith("trunkline"):
        return [module.readings(stack, rate, placement)]
    measure = module.blocks if system.endswith("blocks") else module.readings
    return [measure(stack, system.removesuffix("-blocks"), rate, placement)]


def measure_stream(stack, system: str, module, settings: Settings, placement: str) -> list[dict]:
    """Every element is checked before the measured time, and both ends of each block within it."""
    import numpy as np

    stream = created(module.Stream, stack, system)
    counted = np.arange(ELEMENTS, dtype=np.float64)
    rate = Rate(settings.warm_up, settings.seconds)
    count = wrong = 0
    for block in stream.blocks():
        if rate.start is None:
            wrong += not np.array_equal(block, counted + count)
        else:
            wrong += block[0] != count or block[-1] != count + ELEMENTS - 1 or len(block) != ELEMENTS
        count += ELEMENTS
        timing = rate.poll(count)
        if timing is not None:
            break
    invalid = [f"{wrong} blocks were not as they were sent"] * bool(wrong)
    mb_per_s = timing.calls * 8 / timing.seconds / 1e6
    case = f"op=stream call={ELEMENTS}"
    return [rate_row(system, case, placement, timing, invalid, mb_per_s=mb_per_s)]


def measure_c(system: str, settings: Settings) -> list[dict]:
    """The program of a client in C prints the rows of the scenario `call_cost`."""
    if system in C_PROGRAMS:
        path = program(C_PROGRAMS[system])
    else:
        folder = pathlib.Path(os.environ.get("TRUNKLINE_PEERS", "target/peers"))
        path = folder.resolve() / "bin" / PEER_PROGRAMS[system]
        if not path.exists():
            raise Missing("it could not be built; see the output of bench/clients/install")
    passes = max(2, round(settings.seconds * 10))
    command = [str(path), "cell", "call_cost", system, f"calls={VARIABLES}", f"passes={passes}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"its program ended with {done.returncode}")
    return [row_of_c(json.loads(line)) for line in done.stdout.splitlines()]


def measure_cell(part: str, system: str, settings: Settings) -> list[dict]:
    if part == "c":
        return measure_c(system, settings)
    placement = pin(NEAR)
    module = importlib.import_module(f"systems.{MODULES[system]}")
    measure = {"calls": measure_calls, "readings": measure_readings, "stream": measure_stream}[part]
    with contextlib.ExitStack() as stack:
        return measure(stack, system, module, settings, placement)


def failed_row(part: str, system: str, reason: str) -> dict:
    """The row of a cell without figures."""
    lang = "c" if part == "c" else "python"
    return row(system, f"lang={lang} part={part}", "", "", {}, [reason])


# --- a run -------------------------------------------------------------------


def machine(run: str) -> dict:
    """The machine, the time and the extent of a run, as the first line of every result file has them."""
    info = pathlib.Path("/proc/cpuinfo").read_text().splitlines()

    def entry(name: str) -> str:
        values = (line.split(":", 1)[1] for line in info if line.split(":")[0].strip() == name)
        return next(values, "").strip()

    memory = pathlib.Path("/proc/meminfo").read_text().split()
    memory_kib = int(memory[memory.index("MemTotal:") + 1])
    now = time.strftime("%Y-%m-%d %H:%M", time.gmtime()).split()
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    return {
        "run": run, "date": now[0], "time": now[1], "cpu": entry("model name") or "unknown",
        "cpus": len(os.sched_getaffinity(0)), "virtual_machine": "hypervisor" in entry("flags").split(),
        "kernel": f"Linux {os.uname().release}", "memory_gib": (memory_kib + (1 << 19)) >> 20,
        "load_percent": int(os.getloadavg()[0] * 100), "version": workspace["package"]["version"],
    }


def file_name(head: dict) -> str:
    kind = "vm" if head["virtual_machine"] else "metal"
    return f"{head['date']}-{kind}-{head['cpus']}cpu-{os.uname().machine}-clients.jsonl"


def cells(repeats: int):
    """The cells in the order of a run: the systems of a part take turns. Every second time, in reverse order."""
    for repeat in range(1, repeats + 1):
        for part, systems in PARTS.items():
            for system in systems if repeat % 2 else reversed(systems):
                yield repeat, part, system


def run_cell(part: str, system: str, words: list[str]) -> list[dict]:
    """The rows of a cell, measured by a process of its own."""
    command = [sys.executable, __file__, "cell", part, system, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return [failed_row(part, system, "it did not end within three minutes")]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip().splitlines() or ["its process said nothing"])[-1]
        return [failed_row(part, system, reason)]
    return [json.loads(line) for line in lines]


def measure_all(is_quick: bool, results: pathlib.Path, chosen: list[str]) -> pathlib.Path:
    head = machine("quick" if is_quick else "default")
    if head["load_percent"] > 50:
        load = head["load_percent"] / 100
        print(f"warning: the load of this machine is {load:.2f}; the figures will be wrong", file=sys.stderr)
    results.mkdir(parents=True, exist_ok=True)
    path = results / file_name(head)
    words = ["seconds=0.1", "warm-up=0.1"] if is_quick else []
    with path.open("w") as file:
        print(json.dumps(head, separators=(",", ":")), file=file)
        for repeat, part, system in cells(1 if is_quick else REPEATS):
            if chosen and part not in chosen:
                continue
            for one in run_cell(part, system, words):
                one["repeat"] = repeat
                print(json.dumps(one, separators=(",", ":")), file=file, flush=True)
                told = one["figures"].get("us") or one["figures"].get("per_s") or float("nan")
                print(f"{repeat} {system} {one['case']}: {told:.4g} {'; '.join(one['invalid'])}", file=sys.stderr)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures clients in Python and C.")
    commands = parser.add_subparsers(dest="command", required=True)
    whole = commands.add_parser("run", help="measure everything, and write a result file")
    whole.add_argument("--quick", action="store_true", help="only check that everything works")
    whole.add_argument("--results", type=pathlib.Path, required=True, help="folder of the result files")
    whole.add_argument("parts", nargs="*", choices=[[], *PARTS], help="only these parts")
    cell = commands.add_parser("cell", help="measure one system, and print its rows")
    cell.add_argument("part", choices=PARTS)
    cell.add_argument("system")
    cell.add_argument("settings", nargs="*", metavar="key=value")
    given = parser.parse_args()
    if given.command == "run":
        print(measure_all(given.quick, given.results, given.parts))
        return
    try:
        rows = measure_cell(given.part, given.system, Settings(given.settings))
    except (Invalid, Missing) as reason:
        rows = [failed_row(given.part, given.system, str(reason))]
    for one in rows:
        print(json.dumps(one), flush=True)
    # Some libraries wait for their threads, or print, at the end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
