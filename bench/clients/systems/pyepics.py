"""pyepics. Calls: the controller of epicscorelibs. Readings: one of softioc, in Python, which is held back."""

import sys

from common import MONITORED, PATIENCE, VARIABLES, Updates, Window, await_line, rate_row, server, tell
from systems import epics_ioc

NAMES = [f"bench:v{number}" for number in range(VARIABLES)]


class Calls:
    def __init__(self, stack) -> None:
        epics_ioc.started(stack, VARIABLES)
        import epics

        self._epics = epics
        # Without a monitor: `get` asks the server.
        variables = [epics.PV(name, auto_monitor=False) for name in NAMES]
        for variable in variables:
            if not variable.wait_for_connection(timeout=PATIENCE):
                raise RuntimeError(f"{variable.pvname} did not connect")
        self._get = [variable.get for variable in variables]
        self._put = [variable.put for variable in variables]

    def get(self, variable: int) -> float:
        return self._get[variable]()

    def put(self, variable: int, value: float) -> None:
        self._put[variable](value, wait=True)

    def get_many(self) -> list[float]:
        return self._epics.caget_many(NAMES, timeout=PATIENCE)

    def put_many(self, values: list[float]) -> None:
        self._epics.caput_many(NAMES, values, wait="all")


def readings(stack, rate, placement: str) -> dict:
    """By callbacks of variables with a monitor."""
    local = epics_ioc.local_only()
    window = stack.enter_context(Window.create())
    process = stack.enter_context(server([sys.executable, "-m", "systems.pyepics", window.path], **local))
    await_line(process, "READY")
    import epics

    updates = Updates(MONITORED, window)
    result = []

    def called(pvname=None, value=None, number=0, **_):
        updates.take(number, value)
        if updates.count % Updates.EVERY == 0 and not result:
            timing = rate.poll(updates.count)
            if timing is not None:
                result.append(timing)

    variables = []
    for number in range(MONITORED):
        variable = epics.PV(NAMES[number], auto_monitor=epics.dbr.DBE_VALUE)
        variable.add_callback(called, number=number, run_now=False, with_ctrlvars=False)
        variables.append(variable)
    for variable in variables:
        if not variable.wait_for_connection(timeout=PATIENCE):
            raise RuntimeError(f"{variable.pvname} did not connect")
    epics.ca.pend_event(0.2)
    tell(process)
    while not result:
        epics.ca.pend_event(0.05)
    invalid = [f"{updates.wrong} were lost or out of order"] * bool(updates.wrong)
    return rate_row("pyepics", "op=readings", placement, result[0], invalid)


def serve(path: str) -> None:
    """A controller whose records count up, each at most one update ahead of the client."""
    from softioc import asyncio_dispatcher, builder, softioc

    records = [builder.aIn(name, initial_value=0.0) for name in NAMES[:MONITORED]]
    builder.LoadDatabase()
    softioc.iocInit(asyncio_dispatcher.AsyncioDispatcher())
    window = Window(path)
    print("READY", flush=True)
    sys.stdin.readline()
    written = number = 0
    while True:
        number += 1
        for record in records:
            if written % 8 == 0:
                window.wait(written, MONITORED - Updates.EVERY)
            record.set(float(number))
            written += 1


if __name__ == "__main__":
    serve(sys.argv[1])
