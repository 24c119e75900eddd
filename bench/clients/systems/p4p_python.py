"""p4p. Calls: the controller of epicscorelibs. Readings: a server of p4p, which is held back."""

import queue
import sys

from common import MONITORED, PATIENCE, VARIABLES, Updates, Window, await_line, rate_row, server, tell
from systems import epics_ioc

NAMES = [f"bench:v{number}" for number in range(VARIABLES)]


class Calls:
    def __init__(self, stack) -> None:
        epics_ioc.started(stack, VARIABLES)
        from p4p.client.thread import Context

        self._context = stack.enter_context(Context("pva"))
        self._context.get(NAMES, timeout=PATIENCE)

    def get(self, variable: int) -> float:
        return self._context.get(NAMES[variable])

    def put(self, variable: int, value: float) -> None:
        # Without a get before it, which only serves values that are not complete.
        self._context.put(NAMES[variable], value, get=False)

    def get_many(self) -> list[float]:
        return self._context.get(NAMES)

    def put_many(self, values: list[float]) -> None:
        self._context.put(NAMES, values, get=False)


def readings(stack, rate, placement: str) -> dict:
    """By callbacks."""
    local = epics_ioc.local_only()
    window = stack.enter_context(Window.create())
    process = stack.enter_context(server([sys.executable, "-m", "systems.p4p_python", window.path], **local))
    await_line(process, "READY")
    from p4p.client.thread import Context

    updates = Updates(MONITORED, window)
    context = stack.enter_context(Context("pva"))
    first, done = queue.Queue(), queue.Queue()

    def callback(number):
        def called(value):
            if isinstance(value, Exception):
                return
            if value == 0.0:
                first.put(number)
                return
            updates.take(number, value)
            if updates.count % Updates.EVERY == 0:
                timing = rate.poll(updates.count)
                if timing is not None:
                    done.put(timing)

        return called

    subscriptions = [context.monitor(NAMES[number], callback(number)) for number in range(MONITORED)]
    for _ in subscriptions:
        first.get(timeout=PATIENCE)
    tell(process)
    timing = done.get(timeout=PATIENCE)
    invalid = [f"{updates.wrong} were lost or out of order"] * bool(updates.wrong)
    return rate_row("p4p", "op=readings", placement, timing, invalid)


def serve(path: str) -> None:
    """A server whose variables count up, each at most one update ahead of the client."""
    from p4p.nt import NTScalar
    from p4p.server import Server
    from p4p.server.thread import SharedPV

    variables = [SharedPV(nt=NTScalar("d"), initial=0.0) for _ in range(MONITORED)]
    with Server(providers=[dict(zip(NAMES, variables))]):
        window = Window(path)
        print("READY", flush=True)
        sys.stdin.readline()
        written = number = 0
        while True:
            number += 1
            for variable in variables:
                if written % 8 == 0:
                    window.wait(written, MONITORED - Updates.EVERY)
                variable.post(float(number))
                written += 1


if __name__ == "__main__":
    serve(sys.argv[1])
