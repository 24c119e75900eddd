"""pyzmq, client and server: REQ and REP, PUB and SUB, PUSH and PULL. It has no batch."""

import struct
import sys

from common import ELEMENTS, MONITORED, VARIABLES, Updates, Window, await_line, free_port, rate_row, server, tell

RECORD = struct.Struct("=iid")
UPDATE = struct.Struct("=id")
AHEAD = 10_000
"""Updates that the publisher may be ahead."""


def started(stack, kind: str, *given: str):
    """Starts a server. Returns the process, its URL, and a context."""
    import zmq

    url = f"tcp://127.0.0.1:{free_port()}"
    process = stack.enter_context(server([sys.executable, "-m", "systems.pyzmq", kind, url, *given]))
    await_line(process, "READY")
    return process, url, stack.enter_context(zmq.Context())


def linked(stack, context, kind, url: str, **options):
    socket = stack.enter_context(context.socket(kind))
    socket.linger = 0
    for name, value in options.items():
        setattr(socket, name, value)
    socket.connect(url)
    return socket


class Calls:
    def __init__(self, stack) -> None:
        import zmq

        _, url, context = started(stack, "calls")
        socket = linked(stack, context, zmq.REQ, url)
        self._send, self._recv = socket.send, socket.recv

    def get(self, variable: int) -> float:
        self._send(RECORD.pack(variable, 0, 0.0))
        return RECORD.unpack(self._recv())[2]

    def put(self, variable: int, value: float) -> None:
        self._send(RECORD.pack(variable, 1, value))
        self._recv()


def readings(stack, rate, placement: str) -> dict:
    """One message per update."""
    import zmq

    window = stack.enter_context(Window.create())
    process, url, context = started(stack, "readings", window.path)
    socket = linked(stack, context, zmq.SUB, url, rcvhwm=0)
    socket.subscribe(b"")
    updates = Updates(MONITORED, window)
    receive, unpack, take = socket.recv, UPDATE.unpack, updates.take
    # The publisher says 0 until the subscription has arrived.
    while unpack(receive())[1] != 0.0:
        pass
    tell(process)
    while True:
        take(*unpack(receive()))
        if updates.count % Updates.EVERY == 0:
            timing = rate.poll(updates.count)
            if timing is not None:
                break
    invalid = [f"{updates.wrong} were lost or out of order"] * bool(updates.wrong)
    return rate_row("pyzmq", "op=readings", placement, timing, invalid)


class Stream:
    """Messages received without a copy, as arrays."""

    def __init__(self, stack) -> None:
        import zmq

        _, url, context = started(stack, "stream")
        self._socket = linked(stack, context, zmq.PULL, url, rcvhwm=10)

    def blocks(self):
        import numpy as np

        while True:
            yield np.frombuffer(self._socket.recv(copy=False).buffer, np.float64)


def serve(kind: str, url: str, path: str | None = None) -> None:
    import zmq

    socket = zmq.Context().socket({"calls": zmq.REP, "readings": zmq.PUB, "stream": zmq.PUSH}[kind])
    socket.sndhwm = 10 if kind == "stream" else 0
    socket.bind(url)
    print("READY", flush=True)
    if kind == "calls":
        values = [0.0] * VARIABLES
        while True:
            variable, is_put, value = RECORD.unpack(socket.recv())
            if is_put:
                values[variable] = value
            socket.send(RECORD.pack(variable, is_put, values[variable]))
    if kind == "stream":
        import numpy as np

        block = np.arange(ELEMENTS, dtype=np.float64)
        while True:
            # The message is sent later, so each has memory of its own.
            socket.send(block, copy=False)
            block = block + ELEMENTS
    import select
    import time

    while not select.select([sys.stdin], [], [], 0)[0]:
        socket.send(UPDATE.pack(0, 0.0))
        time.sleep(0.01)
    window = Window(path)
    send, pack = socket.send, UPDATE.pack
    number = 0
    while True:
        window.wait(number * MONITORED, AHEAD)
        number += 1
        value = float(number)
        for variable in range(MONITORED):
            send(pack(variable, value))


if __name__ == "__main__":
    serve(*sys.argv[1:])
