"""The connection that all PVs share, and the thread that calls their callbacks."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ..._connect import native_connection
from ..._errors import Error
from ..._sync.engine import Engine
from ..._sync.requests import Requests
from ..._trunkline import Call, Event, Reading, Subscription, WakeQueue

RETRY_S = 1.0
"""Seconds after which a PV that does not exist is looked up again."""
EXIT_S = 5.0
"""Longest time that the end of the program waits for the outcomes of writes."""

log = logging.getLogger("trunkline.compat.epics")


class Watched(Protocol):
    """Something that the dispatcher waits for."""

    def advance(self, queue: WakeQueue, token: int) -> bool | None:
        """Handles what has arrived. Returns true if more may be there, and `None` at the end."""
        ...


class UpdatesOf:
    """The readings and events of a subscription."""

    def __init__(self, subscription: Subscription, function: Callable[[Reading | Event], None]) -> None:
        self._subscription = subscription
        self._function = function

    def advance(self, queue: WakeQueue, token: int) -> bool | None:
        if not self._subscription.poll(queue, token):
            return False
        item = self._subscription.pop()
        if item is None:
            # It was closed.
            return None
        guarded(self._function, item)
        return True


class AnswerOf:
    """The answer of a call, or its error."""

    def __init__(self, call: Call, function: Callable[[list[Any] | Error], None]) -> None:
        self._call = call
        self._function = function

    def advance(self, queue: WakeQueue, token: int) -> bool | None:
        try:
            answer = self._call.poll(queue, token)
        except Error as error:
            answer = (error,)
        if answer is None:
            return False
        guarded(self._function, answer[0])
        return None


class Dispatcher:
    """One thread that waits for all subscriptions and calls, and runs their callbacks one at a time."""

    def __init__(self) -> None:
        self._queue = WakeQueue()
        self._tokens = itertools.count()
        self._watched: dict[int, Watched] = {}
        self._added: deque[Watched] = deque()
        self._due: deque[tuple[float, Callable[[], None]]] = deque()
        self._waker_read, self._waker_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._is_stopped = False
        # A daemon, so that a program can end while it monitors.
        self._thread = threading.Thread(target=self._run, name="trunkline epics", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """True in a callback."""
        return threading.current_thread() is self._thread

    def watch(self, one: Watched) -> None:
        """Waits for a subscription or call from now on."""
        self._added.append(one)
        self._wake()

    def later(self, function: Callable[[], None]) -> None:
        """Calls a function after `RETRY_S`."""
        self._due.append((time.monotonic() + RETRY_S, function))
        self._wake()

    def stop(self) -> None:
        """Ends the thread. A callback in progress is completed first, if it does not take long."""
        self._is_stopped = True
        self._wake()
        if self.is_current:
            return
        self._thread.join(EXIT_S)
        if not self._thread.is_alive():
            os.close(self._waker_read)
            os.close(self._waker_write)

    def _wake(self) -> None:
        try:
            os.write(self._waker_write, b"x")
        except BlockingIOError:
            # The pipe is full, so the thread will wake anyway.
            pass

    def _run(self) -> None:
        ready: deque[int] = deque()
        while not self._is_stopped:
            self._wait(0.0 if ready else self._delay())
            ready.extend(self._queue.take())
            while self._added:
                token = next(self._tokens)
                self._watched[token] = self._added.popleft()
                ready.append(token)
            while self._due and self._due[0][0] <= time.monotonic():
                guarded(self._due.popleft()[1])
            for _ in range(len(ready)):
                token = ready.popleft()
                watched = self._watched.get(token)
                if watched is None:
                    continue
                again = watched.advance(self._queue, token)
                if again is None:
                    del self._watched[token]
                elif again:
                    ready.append(token)

    def _delay(self) -> float | None:
        return max(self._due[0][0] - time.monotonic(), 0.0) if self._due else None

    def _wait(self, seconds: float | None) -> None:
        poll = select.poll()
        poll.register(self._queue.fileno(), select.POLLIN)
        poll.register(self._waker_read, select.POLLIN)
        for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000):
            if descriptor == self._waker_read:
                os.read(self._waker_read, 4096)


def guarded(function: Callable[..., object], *arguments: Any, **named: Any) -> None:
    """Calls a function of the program. An exception is logged, and the other callbacks go on."""
    try:
        function(*arguments, **named)
    except Exception:
        log.exception("a callback of a PV has failed")


class Context:
    """The engine of all PVs, and their dispatcher.

    Args:
        engine: An engine that the program has connected; `None` for one of its own.
        url: As in `trunkline.connect`.
        prefix: As in `trunkline_name`.
    """

    def __init__(self, engine: Engine | None, url: str | None, prefix: str) -> None:
        self._owns_engine = engine is None
        self.engine = Engine(native_connection(url)) if engine is None else engine
        self.prefix = prefix
        self.dispatcher = Dispatcher()
        self.cache: dict[tuple[str, str], Any] = {}
        """PV objects of `get_pv`, by name and form."""
        self.pvs: weakref.WeakSet[Any] = weakref.WeakSet()
        """All PV objects."""
        self._has_unknown_writes = False

    @property
    def requests(self) -> Requests:
        """The requests of the connection."""
        requests = self.engine._requests  # pyright: ignore[reportPrivateUsage]
        requests.check()
        return requests

    def subscribe(self, name: str, function: Callable[[Reading | Event], None]) -> Subscription:
        """Calls a function for each reading and event of a variable, on the dispatcher's thread."""
        subscription = self.requests.connection.subscribe([name], "last:1000", is_async=True)
        self.dispatcher.watch(UpdatesOf(subscription, function))
        return subscription

    def answer(self, call: Call, function: Callable[[list[Any] | Error], None]) -> None:
        """Calls a function with the answer of a call, or with its error, on the dispatcher's thread."""
        self._has_unknown_writes = True
        self.dispatcher.watch(AnswerOf(call, function))

    def close(self) -> None:
        """Waits for the outcomes of writes, disconnects all PVs and ends the thread."""
        if self._has_unknown_writes and self.engine.state == "connected":
            try:
                self.engine.flush(EXIT_S)
            except Error as error:
                log.error("the outcomes of the last writes are not known: %s", error)
        for pv in list(self.pvs):
            pv.disconnect()
        self.dispatcher.stop()
        if self._owns_engine:
            self.engine.close()


_lock = threading.Lock()
_context: Context | None = None
_url: str | None = None
_prefix: str | None = None


def shared_context() -> Context:
    """Returns the connection of all PVs; connects if necessary."""
    global _context
    with _lock:
        if _context is None:
            _context = Context(None, _url, _chosen_prefix())
        return _context


def use(engine: Engine | str | None = None, *, prefix: str | None = None) -> None:
    """Selects the engine and the names of PVs. Disconnects all PVs that exist.

    Without this call, the first PV connects as `trunkline.connect()` does.

    Args:
        engine: An engine that the program has connected, a URL, or `None` as in `trunkline.connect`.
        prefix: Beginning of the names of variables, such as "epics/": the PV `BL:TEMP` is then the
            variable `epics/BL:TEMP`. With "", it is `BL/TEMP`. With `None`, the environment variable
            `TRUNKLINE_EPICS_PREFIX` decides.
    """
    global _context, _url, _prefix
    with _lock:
        before, _context = _context, None
        _url = engine if isinstance(engine, str) else None
        _prefix = prefix
        if isinstance(engine, Engine):
            _context = Context(engine, None, _chosen_prefix())
    if before is not None:
        before.close()


def _chosen_prefix() -> str:
    return os.environ.get("TRUNKLINE_EPICS_PREFIX", "") if _prefix is None else _prefix


atexit.register(use)
