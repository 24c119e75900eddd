"""Trunkline's Python package; its engine is in a program of its library for C."""

import tempfile

import numpy as np

from common import (
    ELEMENTS, MONITORED, PATIENCE, VARIABLES, Invalid, await_line, free_port, program, rate_row, server, tell,
)

import trunkline as tl


def url(system: str, port: int) -> str:
    # A client of the same machine chooses shared memory unless its URL names another transport.
    return f"tl://127.0.0.1:{port}" if "shm" in system else f"tl+tcp://127.0.0.1:{port}"


def check_transport(system: str, transport: str | None) -> None:
    if transport != ("shared memory" if "shm" in system else "TCP"):
        raise Invalid(f"the transport was {transport}")


def connected(system: str, stack, role: str, variables: int):
    process = stack.enter_context(server([program("trunkline"), role, str(variables)]))
    engine = stack.enter_context(tl.connect(url(system, int(await_line(process, "LISTENING "))), timeout=PATIENCE))
    check_transport(system, engine.transport)
    return engine, process


class Calls:
    def __init__(self, stack, system: str) -> None:
        self._engine, _ = connected(system, stack, "serve", VARIABLES)
        self._names = [f"bench/v{number}" for number in range(VARIABLES)]
        variables = [self._engine[name] for name in self._names]
        self._get = [variable.get for variable in variables]
        self._put = [variable.put for variable in variables]

    def get(self, variable: int) -> float:
        return self._get[variable]()

    def put(self, variable: int, value: float) -> None:
        self._put[variable](value)

    def get_many(self) -> list[float]:
        return self._engine.get(self._names)

    def put_many(self, values: list[float]) -> None:
        self._engine.put(dict(zip(self._names, values)))


def readings(stack, system: str, rate, placement: str) -> dict:
    """One by one, as an iterator; the contract `all` holds the writer back."""
    monitor = subscribed(stack, system)
    last = {f"bench/v{number}": 0.0 for number in range(MONITORED)}
    count = wrong = 0
    for reading in monitor:
        name, value = reading.name, reading.value
        if value != last[name] + 1.0:
            wrong += 1
        last[name] = value
        count += 1
        if count % 64 == 0:
            timing = rate.poll(count)
            if timing is not None:
                break
    return rate_row(system, "op=readings", placement, timing, reasons(monitor, wrong))


def blocks(stack, system: str, rate, placement: str) -> dict:
    """As blocks of NumPy arrays: the values of each variable count up."""
    monitor = subscribed(stack, system)
    last = np.zeros(MONITORED)
    count = wrong = lost = taken = 0
    for block in monitor.blocks():
        item, value = block.item, block.value
        if rate.start is None:
            wrong += out_of_order(item, value, last)
        before = last.copy()
        last[item] = value
        wrong += int(np.count_nonzero(last - before != np.bincount(item, minlength=MONITORED)))
        lost += int(block.lost.sum())
        count += len(value)
        taken += 1
        timing = rate.poll(count)
        if timing is not None:
            break
    invalid = reasons(monitor, wrong) + ([f"{lost} were lost"] if lost else [])
    return rate_row(system, "op=blocks", placement, timing, invalid, readings_per_block=count / taken)


def out_of_order(item, value, last) -> int:
    """Returns the number of values that are not one more than the value before, for a warm-up."""
    order = np.argsort(item, kind="stable")
    item, value = item[order], value[order]
    starts = np.flatnonzero(np.diff(item.astype(np.int64), prepend=-1))
    steps = np.diff(value, prepend=0.0)
    steps[starts] = value[starts] - last[item[starts]]
    return int(np.count_nonzero(steps != 1.0))


def subscribed(stack, system: str):
    engine, process = connected(system, stack, "publish", MONITORED)
    monitor = stack.enter_context(engine.monitor([f"bench/v{number}" for number in range(MONITORED)], "all"))
    # Values before the first write: the subscription is complete when all have arrived.
    for _ in range(MONITORED):
        monitor.next(PATIENCE)
    tell(process)
    return monitor


def reasons(monitor, wrong: int) -> list[str]:
    return [f"{wrong} were out of order"] * bool(wrong) + [f"{monitor.lost} were lost"] * bool(monitor.lost)


class Stream:
    """Blocks copied into one array, or lent from the buffer of the reader."""

    def __init__(self, stack, system: str) -> None:
        where = f"tl://127.0.0.1:{free_port()}/bench/in"
        self._reader = tl.reader(where, "f64", buffer=10 * ELEMENTS, timeout=PATIENCE)
        # A writer that finds no Unix socket of the reader connects over TCP.
        elsewhere = {} if "shm" in system else {"XDG_RUNTIME_DIR": stack.enter_context(tempfile.TemporaryDirectory())}
        stack.enter_context(server([program("trunkline"), "stream", where, str(ELEMENTS)], **elsewhere))
        stack.enter_context(self._reader)
        check_transport(system, self._reader.properties.transport)
        self._is_leased = system.endswith("in-place")

    def blocks(self):
        if self._is_leased:
            while True:
                with self._reader.acquire(ELEMENTS, PATIENCE) as view:
                    yield view
        array = np.empty(ELEMENTS)
        while True:
            if self._reader.read_into(array, PATIENCE) != ELEMENTS:
                raise Invalid("the stream ended")
            yield array
