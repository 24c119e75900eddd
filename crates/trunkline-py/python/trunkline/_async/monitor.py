"""Monitors: the updates of variables as an iterator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any

from .._errors import Closed
from .._trunkline import Block, Event, Reading
from .requests import AsyncRequests
from .waiting import Background, monotonic


class AsyncMonitor:
    """The updates of one or more variables, in order, under a contract.

    An iterator of `Reading`. It does not end by itself: leave the loop, or close the monitor. Each
    reading says in `lost` how many updates were missed before it. If a variable cannot be monitored,
    or has ended, the iterator raises the reason once and goes on with the other variables. With
    `events=True` it raises nothing, and yields `Event` for these and for changes of the connection.
    """

    def __init__(
        self,
        requests: AsyncRequests,
        names: Sequence[str],
        contract: str,
        *,
        events: bool = False,
        only_changes: bool = False,
        max_age: float | None = None,
    ) -> None:
        requests.check()
        self._requests = requests
        patterns = [name for name in names if "*" in name]
        if patterns and len(patterns) < len(names):
            raise ValueError("a monitor has either names or patterns; use one for each")
        if patterns:
            self._subscription = requests.connection.subscribe_patterns(
                patterns, [], contract, requests.waiting.is_async, only_changes, max_age
            )
        else:
            self._subscription = requests.connection.subscribe(
                names,
                contract,
                is_async=requests.waiting.is_async,
                only_changes=only_changes,
                max_age=max_age,
            )
        self._events = events
        self._is_closed = False
        self.lost = 0
        """Number of updates missed so far, as far as it is known."""

    def __aiter__(self) -> AsyncMonitor:
        return self

    async def __anext__(self) -> Any:
        while True:
            item = self._subscription.pop()
            if item is None:
                self._check()
                await self._requests.waiting.next(self._subscription, None)
                continue
            item = self._select(item)
            if item is not None:
                return item

    async def next(self, timeout: float | None = None) -> Any:
        """Returns the next reading.

        Args:
            timeout: Seconds to wait; with `None`, without limit.

        Returns:
            A `Reading`, or an `Event` with `events=True`; `None` if nothing arrived in time.

        Raises:
            Error: A variable cannot be monitored, or has ended.
        """
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            item = self._subscription.pop()
            if item is None:
                self._check()
                left = None if deadline is None else max(deadline - monotonic(), 0.0)
                if not await self._requests.waiting.next(self._subscription, left):
                    return None
                continue
            item = self._select(item)
            if item is not None:
                return item

    async def take(self, count: int) -> AsyncIterator[Any]:
        """Yields the next `count` readings."""
        for _ in range(count):
            yield await self.__anext__()

    async def blocks(self) -> AsyncIterator[Block]:
        """Yields all readings that have arrived as a `Block` of NumPy arrays, again and again.

        Use this for thousands of readings per second.
        """
        while True:
            item = self._subscription.pop_block()
            if item is None:
                self._check()
                await self._requests.waiting.next(self._subscription, None)
            elif isinstance(item, Block):
                yield item
            else:
                item = self._select(item)
                if item is not None:
                    yield item

    def _select(self, item: Reading | Event) -> Any:
        if isinstance(item, Reading):
            self.lost += item.lost or 0
            return item
        if self._events:
            return item
        if item.kind in ("failed", "ended") and item.error is not None:
            raise item.error
        return None

    def _check(self) -> None:
        if self._is_closed or self._requests.is_closed:
            raise Closed("the monitor was closed", code="closed")
        self._requests.check()

    def close(self) -> None:
        """Ends the subscription."""
        self._is_closed = True
        self._subscription.close()

    async def __aenter__(self) -> AsyncMonitor:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncCallbacks:
    """Calls a function for each update, until it is closed."""

    def __init__(self, monitor: AsyncMonitor, function: Callable[[Any], object]) -> None:
        self._monitor = monitor
        self._function = function
        self.error: BaseException | None = None
        """The exception that ended the calls, raised by the function; `None` while they go on."""
        self._background = Background(self._run, "trunkline callbacks")

    async def _run(self) -> None:
        while True:
            try:
                item = await self._monitor.__anext__()
            except Closed:
                return
            except Exception as error:
                item = error
            try:
                self._function(item)
            except BaseException as error:
                self.error = error
                self._monitor.close()
                raise

    def close(self) -> None:
        """Ends the calls. A call in progress is completed first."""
        self._monitor.close()
        self._background.stop()

    async def __aenter__(self) -> AsyncCallbacks:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
