"""asyncua, client and server, without security."""

import asyncio
import sys

from common import (
    MONITORED, PATIENCE, VARIABLES, Updates, Window, await_line, free_port, rate_row, server, tell, timed_async,
)

AHEAD = 5000
"""Updates that the server may be ahead; its queues have more room."""


def nodes(client, count: int) -> list:
    return [client.get_node(f"ns=2;i={1000 + number}") for number in range(count)]


async def connected(url: str):
    from asyncua import Client

    client = Client(url, timeout=PATIENCE)
    # The client checks by itself whether the server is alive, which costs a call now and then.
    await client.connect()
    return client


class Calls:
    """The calls are coroutines; `time` runs them in one loop."""

    def __init__(self, stack) -> None:
        from asyncua import ua

        url = f"opc.tcp://127.0.0.1:{free_port()}"
        process = stack.enter_context(server([sys.executable, "-m", "systems.asyncua_python", url, str(VARIABLES)]))
        await_line(process, "READY")
        self._runner = stack.enter_context(asyncio.Runner())
        self._client = self._runner.run(connected(url))
        stack.callback(lambda: self._runner.run(self._client.disconnect()))
        self._nodes = nodes(self._client, VARIABLES)
        self._value = lambda value: ua.DataValue(ua.Variant(value, ua.VariantType.Double))

    def get(self, variable: int):
        return self._nodes[variable].read_value()

    def put(self, variable: int, value: float):
        return self._nodes[variable].write_value(self._value(value))

    def get_many(self):
        return self._client.read_values(self._nodes)

    def put_many(self, values: list[float]):
        return self._client.write_values(self._nodes, [self._value(value) for value in values])

    def wait(self, call):
        async def waited():
            return await call

        return self._runner.run(waited())

    def time(self, call, seconds: float, at_once: int):
        return self._runner.run(timed_async(call, seconds, at_once))


def readings(stack, rate, placement: str) -> dict:
    """By a handler; the server publishes every 10 ms."""
    url = f"opc.tcp://127.0.0.1:{free_port()}"
    window = stack.enter_context(Window.create())
    command = [sys.executable, "-m", "systems.asyncua_python", url, str(MONITORED), window.path]
    process = stack.enter_context(server(command))
    await_line(process, "READY")
    updates = Updates(MONITORED, window)

    async def measured():
        client = await connected(url)
        every = nodes(client, MONITORED)
        number_of = {node.nodeid: number for number, node in enumerate(every)}
        result = asyncio.get_running_loop().create_future()

        class Handler:
            def datachange_notification(self, node, value, data):
                updates.take(number_of[node.nodeid], value)
                if updates.count % Updates.EVERY == 0 and not result.done():
                    timing = rate.poll(updates.count)
                    if timing is not None:
                        result.set_result(timing)

        subscription = await client.create_subscription(10, Handler())
        await subscription.subscribe_data_change(every, queuesize=10 * AHEAD, sampling_interval=0)
        tell(process)
        timing = await asyncio.wait_for(result, PATIENCE)
        await subscription.delete()
        await client.disconnect()
        return timing

    with asyncio.Runner() as runner:
        timing = runner.run(measured())
    invalid = [f"{updates.wrong} were lost or out of order"] * bool(updates.wrong)
    return rate_row("asyncua", "op=readings", placement, timing, invalid)


async def serve(url: str, count: int, path: str | None) -> None:
    import logging

    from asyncua import Server, ua

    logging.disable(logging.ERROR)
    one = Server()
    await one.init()
    one.set_endpoint(url)
    one.set_security_policy([ua.SecurityPolicyType.NoSecurity])
    await one.register_namespace("bench")
    variables = []
    for number in range(count):
        node_id = ua.NodeId(1000 + number, 2)
        variable = await one.nodes.objects.add_variable(node_id, f"v{number}", 0.0)
        await variable.set_writable()
        variables.append(variable)
    async with one:
        print("READY", flush=True)
        if path is None:
            await asyncio.Event().wait()
        window = Window(path)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        written = number = 0
        while True:
            number += 1
            value = ua.DataValue(ua.Variant(float(number), ua.VariantType.Double))
            for variable in variables:
                while written - window.count >= AHEAD:
                    await asyncio.sleep(0.0005)
                await one.write_attribute_value(variable.nodeid, value)
                written += 1
            # The loop also publishes.
            await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None))
