"""redis-py with hiredis, and Debian's server, which stores nothing on disk. 100 updates are published at once."""

import shutil
import socket
import sys
import tempfile

from common import MONITORED, VARIABLES, Missing, Updates, Window, await_connection, free_port, rate_row, server, tell

NAMES = [f"bench:v{number}" for number in range(VARIABLES)]
AHEAD = 10_000
"""Updates that the publisher may be ahead; the server keeps any number for a subscriber."""


def started(stack) -> int:
    path = shutil.which("redis-server")
    if path is None:
        raise Missing("its package redis-server is not installed")
    port = free_port()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    stack.enter_context(server([
        path, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder,
        "--client-output-buffer-limit", "pubsub 0 0 0",
    ]))
    await_connection(port)
    return port


class Calls:
    def __init__(self, stack) -> None:
        import redis

        self._client = stack.enter_context(redis.Redis(port=started(stack), single_connection_client=True))

    def get(self, variable: int) -> float:
        return float(self._client.get(NAMES[variable]))

    def put(self, variable: int, value: float) -> None:
        self._client.set(NAMES[variable], value)

    def get_many(self) -> list[float]:
        return [float(value) for value in self._client.mget(NAMES)]

    def put_many(self, values: list[float]) -> None:
        self._client.mset(dict(zip(NAMES, values)))


def readings(stack, rate, placement: str) -> dict:
    """One message per update."""
    import redis

    port = started(stack)
    window = stack.enter_context(Window.create())
    subscriber = stack.enter_context(redis.Redis(port=port)).pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe(*NAMES[:MONITORED])
    number_of = {name.encode(): number for number, name in enumerate(NAMES[:MONITORED])}
    for _ in range(MONITORED):
        subscriber.get_message(timeout=5)
    process = stack.enter_context(server([sys.executable, "-m", "systems.redis_python", str(port), window.path]))
    tell(process)
    updates = Updates(MONITORED, window)
    for message in subscriber.listen():
        updates.take(number_of[message["channel"]], float(message["data"]))
        if updates.count % Updates.EVERY == 0:
            timing = rate.poll(updates.count)
            if timing is not None:
                break
    invalid = [f"{updates.wrong} were lost or out of order"] * bool(updates.wrong)
    return rate_row("redis-py", "op=readings", placement, timing, invalid)


def publish(port: int, path: str) -> None:
    """Publishes as fast as possible: formats the commands by itself, because the client library is slower."""
    heads = [f"*3\r\n$7\r\nPUBLISH\r\n${len(name)}\r\n{name}\r\n" for name in NAMES[:MONITORED]]
    window = Window(path)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        answers = bytearray(MONITORED * len(":1\r\n"))
        sys.stdin.readline()
        number = 0
        while True:
            window.wait(number * MONITORED, AHEAD)
            number += 1
            tail = f"${len(str(float(number)))}\r\n{float(number)}\r\n"
            connection.sendall("".join([head + tail for head in heads]).encode())
            connection.recv_into(answers, len(answers), socket.MSG_WAITALL)


if __name__ == "__main__":
    publish(int(sys.argv[1]), sys.argv[2])
