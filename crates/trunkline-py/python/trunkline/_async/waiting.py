"""Waits for native calls in an event loop. Written by hand for each form."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from typing import Any

from .._errors import Closed, Error
from .._trunkline import Call, PatternSubscription, Subscription, WakeQueue


class Waiting:
    """Waits on behalf of one connection.

    The event loop watches one descriptor, which is readable when calls can continue. No other thread
    calls Python.
    """

    is_async = True

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: WakeQueue | None = None
        self._tokens = itertools.count()
        self._waiters: dict[int, asyncio.Future[None]] = {}

    def _attach(self) -> tuple[asyncio.AbstractEventLoop, WakeQueue]:
        loop = asyncio.get_running_loop()
        if self._queue is None:
            self._queue = WakeQueue()
            self._loop = loop
            loop.add_reader(self._queue.fileno(), self._wake)
        elif self._loop is not loop:
            raise Error(
                "this connection belongs to another event loop",
                hint="connect in the loop that uses the connection",
                code="wrong-loop",
            )
        return loop, self._queue

    def _wake(self) -> None:
        assert self._queue is not None
        for token in self._queue.take():
            waiter = self._waiters.pop(token, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    async def _until(self, try_once: Callable[[WakeQueue, int], Any], timeout: float | None) -> Any:
        """Calls `try_once` until its result is true. Returns the last result at the timeout."""
        loop, queue = self._attach()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            token = next(self._tokens)
            waiter = loop.create_future()
            self._waiters[token] = waiter
            try:
                result = try_once(queue, token)
                if result:
                    return result
                if deadline is None:
                    await waiter
                    continue
                remaining = deadline - loop.time()
                if remaining <= 0:
                    return result
                timer = loop.call_later(remaining, _finish, waiter)
                try:
                    await waiter
                finally:
                    timer.cancel()
            finally:
                self._waiters.pop(token, None)

    async def call(self, call: Call, timeout: float) -> Any:
        """Returns the answer of a call, or what is known of it at the timeout."""
        answer = await self._until(call.poll, timeout)
        return call.end(timeout) if answer is None else answer[0]

    async def next(self, subscription: Subscription | PatternSubscription, timeout: float | None) -> bool:
        """Waits for a reading or an event. Returns false at the timeout."""
        return bool(await self._until(subscription.poll, timeout))

    async def attempt(
        self,
        attempt: Callable[[float], Any],
        begin: Callable[[], Call],
        timeout: float | None,
        *,
        tries_first: bool = True,
    ) -> Any:
        """Returns the first result of `attempt` that is not `None`; `None` at the timeout.

        Args:
            attempt: Gets the seconds that it may wait.
            begin: Begins to wait until an attempt can succeed. If the answer is not `None`, it is the
                result.
            timeout: Seconds; with `None`, without limit.
            tries_first: The first attempt takes no time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if tries_first:
                result = attempt(0.0)
                if result is not None:
                    return result
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None if tries_first else attempt(0.0)
            call = begin()
            try:
                answer = await self._until(call.poll, left)
            finally:
                call.cancel()
            if answer is None:
                return None
            if answer[0] is not None:
                return answer[0]
            tries_first = True

    def interrupt(self) -> None:
        """Ends the calls that wait now."""
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_exception(Closed("closed by this program", code="closed"))

    def stop(self) -> None:
        """Ends all waiting calls."""
        if self._queue is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._queue.fileno())
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_exception(Closed("the connection was closed", code="closed"))
        self._waiters.clear()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Background:
    """Runs a function of the program beside it, until it is closed."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._task = asyncio.get_running_loop().create_task(run(), name=name)

    def stop(self) -> None:
        """Ends the function at its next reading."""
        self._task.cancel()


def monotonic() -> float:
    """Returns the time by which timeouts are counted, in seconds."""
    return time.monotonic()


async def pause(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


async def beside(function: Callable[[], Any]) -> Any:
    """Runs a native function that takes a moment."""
    return await asyncio.to_thread(function)
