"""Waits for native calls in a thread. Written by hand for each form."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .._errors import Closed
from .._trunkline import Call, PatternSubscription, Subscription

SLICE = 0.1
"""Longest time in seconds without a look at signals, and at whether the connection was closed."""


class Waiting:
    """Waits on behalf of one connection. Native code waits without the interpreter, in slices."""

    is_async = False

    def __init__(self) -> None:
        self._is_stopped = False

    def call(self, call: Call, timeout: float) -> Any:
        """Returns the answer of a call, or what is known of it at the timeout."""
        answer = call.wait(min(timeout, SLICE))
        if answer is None:
            deadline = time.monotonic() + timeout - SLICE
            while answer is None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return call.end(timeout)
                self._check()
                answer = call.wait(min(remaining, SLICE))
        return answer[0]

    def next(self, subscription: Subscription | PatternSubscription, timeout: float | None) -> bool:
        """Waits for a reading or an event. Returns false at the timeout."""
        if timeout is None:
            while not subscription.wait(SLICE):
                self._check()
            return True
        deadline = time.monotonic() + timeout
        while not subscription.wait(min(max(deadline - time.monotonic(), 0.0), SLICE)):
            self._check()
            if time.monotonic() >= deadline:
                return False
        return True

    def attempt(
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
            begin, tries_first: For event loops.
            timeout: Seconds; with `None`, without limit.
        """
        if timeout is None:
            while True:
                result = attempt(SLICE)
                if result is not None:
                    return result
                self._check()
        result = attempt(min(timeout, SLICE))
        if result is not None or timeout <= SLICE:
            return result
        deadline = time.monotonic() + timeout - SLICE
        while (left := deadline - time.monotonic()) > 0:
            self._check()
            result = attempt(min(left, SLICE))
            if result is not None:
                return result
        return None

    def interrupt(self) -> None:
        """Ends the calls that wait now: native code refuses their next slice."""

    def _check(self) -> None:
        if self._is_stopped:
            raise Closed("the connection was closed", code="closed")

    def stop(self) -> None:
        """Ends all waiting calls."""
        self._is_stopped = True


class Background:
    """Runs a function of the program beside it, until it is closed."""

    def __init__(self, run: Callable[[], None], name: str) -> None:
        # A daemon, so that a program can end without closing its subscriptions.
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits until the function has ended, unless it closes itself."""
        if threading.current_thread() is not self._thread:
            self._thread.join()


def monotonic() -> float:
    """Returns the time by which timeouts are counted, in seconds."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


def beside(function: Callable[[], Any]) -> Any:
    """Runs a native function that takes a moment."""
    return function()
