"""Carries out the steps of table.txt with the Python package, and prints them with their results.

    python driver.py URL TABLE
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import trunkline as tl

LIMIT = 20.0


def value_of(text: str) -> Any:
    """Returns the value that a step gives, as a program would pass it."""
    if text.startswith("["):
        return [value_of(part) for part in text.strip("[]").split(", ") if part]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"[{', '.join(shown(element) for element in value.tolist())}]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def word(error: Exception) -> str:
    """Returns the word of the table for an error."""
    match error:
        case tl.BatchError():
            return word(next(iter(error.errors.values())))
        case tl.TimedOut():
            return "timeout"
        case tl.Ended() | tl.Gap() if error.code in ("ended", "aborted"):
            return f"stream-{error.code}"
        case tl.Error(code="capacity"):
            return "limit"
        case tl.Error():
            return error.code
        case TypeError():
            return "wrong-type"
        case OverflowError():
            return "out-of-range"
        case _:
            raise error


def reading_value(reading: Any) -> str:
    return shown(reading.value) if reading.has_value else "-"


def outcome(written: Any) -> str:
    return word(written) if isinstance(written, Exception) else f"{written.state} {written.seq}"


class Driver:
    def __init__(self, url: str) -> None:
        self.engines = [tl.connect(url, timeout=LIMIT) for _ in range(2)]
        self.monitors: dict[str, Any] = {}
        self.writers: dict[str, Any] = {}
        self.readers: dict[str, Any] = {}
        self.leases: dict[str, Any] = {}

    def run(self, step: str) -> str:
        engine = self.engines[0]
        if step.startswith("other "):
            engine, step = self.engines[1], step.removeprefix("other ")
        limit = LIMIT
        for suffix, seconds in ((" now", 0.0), (" briefly", 0.02)):
            if step.endswith(suffix):
                step, limit = step.removesuffix(suffix), seconds
        verb, _, rest = step.partition(" ")
        first, _, more = rest.partition(" ")
        try:
            match verb:
                case "get":
                    return shown(engine.get(first))
                case "read":
                    return self.read(engine, first)
                case "put":
                    return outcome(engine.put(first, value_of(more)))
                case "force":
                    return outcome(engine[first].force(value_of(more)))
                case "unforce":
                    return outcome(engine[first].unforce())
                case "batch" | "group":
                    return self.batch(engine, rest, verb == "group")
                case "snapshot":
                    return "; ".join(map(reading_value, engine.snapshot(rest.split())))
                case "find":
                    return "; ".join(sorted(found.name for found in engine.find(rest)))
                case "lease":
                    lease = engine.lease(first, LIMIT)
                    lease.acquire()
                    self.leases[first] = lease
                case "release":
                    self.leases.pop(first).release()
                case "monitor":
                    contract, *names = more.split()
                    self.monitors[first] = engine.monitor(names, contract)
                case "next":
                    monitor = self.monitors[first]
                    return "; ".join(self.next(monitor) for _ in range(int(more)))
                case "poll":
                    reading = self.monitors[first].next(timeout=0)
                    return "timeout" if reading is None else shown(reading.value)
                case "close":
                    self.monitors.pop(first).close()
                case "open":
                    self.open(engine, first, *more.split())
                case "write":
                    writer = self.writers[first]
                    writer.write(np.array(more.split(), dtype=writer.dtype), timeout=limit)
                case "flush":
                    self.writers[first].flush(until=more, timeout=limit)
                case "read-stream":
                    return self.elements(self.readers[first].read(int(more), timeout=limit))
                case "take":
                    return self.elements(self.readers[first].read_available())
                case "end":
                    return str(self.writers.pop(first).close().elements)
                case "abort":
                    self.writers.pop(first).abort(more)
                case "stop":
                    self.readers.pop(first).close()
                case _:
                    raise ValueError(f"there is no step {verb}")
        except Exception as error:
            return word(error)
        return "ok"

    def read(self, engine: Any, name: str) -> str:
        reading = engine.read(name)
        bits = reading.quality_bits
        quality = reading.quality + (f":{bits >> 2 & 0x3FFF}" if bits >> 2 & 0x3FFF else "")
        forced = " forced" if reading.is_forced else ""
        return f"{reading_value(reading)} {quality}{forced} {reading.seq}"

    def batch(self, engine: Any, rest: str, atomic: bool) -> str:
        batch = engine.batch(atomic=atomic)
        try:
            with batch:
                for write in rest.split("; "):
                    name, _, value = write.partition(" ")
                    batch.put(name, value_of(value))
        except tl.BatchError:
            pass
        return "; ".join(map(outcome, batch.outcomes))

    def next(self, monitor: Any) -> str:
        reading = monitor.next(timeout=LIMIT)
        if reading is None:
            return "timeout"
        lost = "unknown" if reading.lost is None else reading.lost
        return f"{reading.name} {shown(reading.value)}" + (f" lost {lost}" if lost else "")

    def open(self, engine: Any, name: str, dtype: str, capacity: str) -> None:
        reader = engine.reader(f"{name}/reader", dtype, buffer=int(capacity), timeout=LIMIT)
        writer = engine.writer(
            f"{name}/writer", dtype, peer=f"{name}/reader", buffer=int(capacity), timeout=LIMIT
        )
        thread = threading.Thread(target=reader.open)
        thread.start()
        writer.open()
        thread.join()
        self.writers[name], self.readers[name] = writer, reader

    def elements(self, array: Any) -> str:
        return " ".join(map(shown, array.tolist()))


def main() -> None:
    url, table = sys.argv[1:]
    driver = Driver(url)
    with open(table, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                step = line.partition(" =>")[0]
                print(f"{step} => {driver.run(step)}".rstrip())
    for engine in driver.engines:
        engine.close()


main()
