"""The asynchronous classes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trunkline as tl

from .conftest import RIG


def run(test: Callable[[tl.aio.AsyncEngine], Awaitable[None]]) -> None:
    """Runs a test with an engine, in an event loop that complains about slow and lost calls."""

    async def with_engine() -> None:
        async with tl.aio.AsyncEngine.local({"rig": RIG}, timeout=20) as engine:
            await test(engine)

    asyncio.run(with_engine(), debug=True)


def test_both_forms_have_the_same_methods() -> None:
    pairs = [
        (tl.Engine, tl.aio.AsyncEngine),
        (tl.Variable, tl.aio.AsyncVariable),
        (tl.Monitor, tl.aio.AsyncMonitor),
        (tl.Batch, tl.aio.AsyncBatch),
        (tl.Callbacks, tl.aio.AsyncCallbacks),
    ]
    for blocking, asynchronous in pairs:
        names = [
            {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}
            for kind in (blocking, asynchronous)
        ]
        assert names[0] == names[1]
        for name in names[0]:
            ours, theirs = getattr(blocking, name), getattr(asynchronous, name)
            if inspect.isfunction(ours):
                parameters = [list(inspect.signature(one).parameters) for one in (ours, theirs)]
                assert parameters[0] == parameters[1], name


def test_many_calls_wait_at_the_same_time() -> None:
    async def test(engine: tl.aio.AsyncEngine) -> None:
        await engine.put({"rig/level": 1.0, "rig/count": 2})
        values = await asyncio.gather(
            *(engine.get(name) for _ in range(100) for name in ("rig/level", "rig/count"))
        )
        assert values == [1.0, 2] * 100

    run(test)


def test_a_monitor_is_an_asynchronous_iterator() -> None:
    async def test(engine: tl.aio.AsyncEngine) -> None:
        async with engine["rig/count"].monitor("all") as monitor:
            assert (await monitor.next(timeout=20)).has_value is False
            for value in range(100):
                await engine.put_nowait("rig/count", value)
            got = [reading.value async for reading in monitor.take(100)]
            assert got == list(range(100))
            assert await monitor.next(timeout=0.0) is None

    run(test)


def test_callbacks_run_in_the_loop() -> None:
    async def test(engine: tl.aio.AsyncEngine) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Any]] = loop.create_future()
        got: list[Any] = []

        def add(reading: tl.Reading) -> None:
            got.append(reading.value)
            if len(got) == 4:
                done.set_result(got)

        callbacks = engine.subscribe("rig/count", add, "all")
        for value in range(3):
            await engine.put("rig/count", value)
        assert (await asyncio.wait_for(done, 20))[1:] == [0, 1, 2]
        callbacks.close()

    run(test)


def test_an_exception_of_a_callback_ends_the_calls_in_the_loop() -> None:
    async def test(engine: tl.aio.AsyncEngine) -> None:
        called = asyncio.Event()

        def fail(_: Any) -> None:
            called.set()
            raise RuntimeError("broken")

        problems: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: problems.append(about))
        callbacks = engine.subscribe("rig/count", fail)
        await asyncio.wait_for(called.wait(), 20)
        callbacks.close()
        assert isinstance(callbacks.error, RuntimeError)
        assert await engine.put("rig/count", 1)

    run(test)


def test_closing_during_a_wait_ends_it_in_the_loop() -> None:
    async def test(engine: tl.aio.AsyncEngine) -> None:
        monitor = engine["rig/level"].monitor()
        await monitor.next(timeout=20)
        waiting = asyncio.ensure_future(monitor.__anext__())
        await asyncio.sleep(0)
        engine.close()
        with pytest.raises(tl.Closed):
            await asyncio.wait_for(waiting, 20)
        with pytest.raises(tl.Closed):
            await engine.get("rig/level")
        with pytest.raises(tl.Closed):
            await engine.control("rig").take()

    run(test)


def test_a_cancelled_call_leaves_nothing() -> None:
    async def test(engine: tl.aio.AsyncEngine) -> None:
        async with engine["rig/level"].monitor() as monitor:
            await monitor.next(timeout=20)
            for _ in range(50):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(monitor.next(), 0.001)
            await engine.put("rig/level", 4.0)
            assert (await monitor.next(timeout=20)).value == 4.0

    run(test)


def test_errors_are_raised_where_they_are_awaited() -> None:
    async def test(engine: tl.aio.AsyncEngine) -> None:
        with pytest.raises(tl.NotFound):
            await engine.get("rig/nope")
        with pytest.raises(tl.Rejected):
            await engine.put("rig/level", 1000.0)
        with pytest.raises(TypeError):
            await engine.put("rig/level", "high")

    run(test)


def test_another_loop_is_refused() -> None:
    engine = tl.aio.AsyncEngine.local({"rig": RIG})

    async def get() -> Any:
        return await engine.read("rig/level")

    asyncio.run(get())
    with pytest.raises(tl.Error, match="another event loop"):
        asyncio.run(get())
    engine.close()


def test_synchronous_calls_work_inside_a_running_loop() -> None:
    """Jupyter runs every cell in a loop."""

    async def test() -> None:
        with tl.Engine.local({"rig": RIG}) as engine:
            engine.put("rig/level", 2.0)
            assert engine.get("rig/level") == 2.0

    asyncio.run(test())
