"""The limit: a socket of Python, and a program in C at the other end."""

import socket
import struct

from common import ELEMENTS, PATIENCE, VARIABLES, await_line, program, server

RECORD = struct.Struct("=iid")


def connected(process) -> socket.socket:
    port = int(await_line(process, "LISTENING "))
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    # Without a timeout, Python's calls go straight to the system.
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Calls:
    """Gets and puts as records of 16 bytes, answered by a record each."""

    def __init__(self, stack) -> None:
        self._connection = stack.enter_context(connected(stack.enter_context(server([program("raw"), "serve"]))))
        self._answers = bytearray(RECORD.size * VARIABLES)

    def get(self, variable: int) -> float:
        self._connection.sendall(RECORD.pack(variable, 0, 0.0))
        return RECORD.unpack(self._connection.recv(RECORD.size))[2]

    def put(self, variable: int, value: float) -> None:
        self._connection.sendall(RECORD.pack(variable, 1, value))
        self._connection.recv(RECORD.size)

    def get_many(self) -> list[float]:
        self._connection.sendall(b"".join([RECORD.pack(variable, 0, 0.0) for variable in range(VARIABLES)]))
        self._receive()
        return [value for _, _, value in RECORD.iter_unpack(self._answers)]

    def put_many(self, values: list[float]) -> None:
        self._connection.sendall(b"".join([RECORD.pack(variable, 1, value) for variable, value in enumerate(values)]))
        self._receive()

    def _receive(self) -> None:
        self._connection.recv_into(self._answers, len(self._answers), socket.MSG_WAITALL)


class Stream:
    """Blocks received into one array."""

    def __init__(self, stack) -> None:
        import numpy as np

        process = stack.enter_context(server([program("raw"), "stream", str(ELEMENTS)]))
        self._connection = stack.enter_context(connected(process))
        self._array = np.empty(ELEMENTS)
        self._memory = memoryview(self._array).cast("B")

    def blocks(self):
        while True:
            if self._connection.recv_into(self._memory, 0, socket.MSG_WAITALL) != len(self._memory):
                raise RuntimeError("the far end is gone")
            yield self._array
