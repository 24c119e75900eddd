"""One variable of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .._html import html_table, reading_table
from .._records import Written, checked_value, plain
from .._trunkline import Handle, Reading
from .monitor import AsyncCallbacks, AsyncMonitor
from .requests import AsyncRequests

if TYPE_CHECKING:
    from ..jupyter import LiveView

T = TypeVar("T")


class AsyncVariable(Generic[T]):
    """A variable, by its name. Nothing is sent until a method needs the engine."""

    def __init__(self, requests: AsyncRequests, name: str, of: type[T] | None = None) -> None:
        self._requests = requests
        self._of = of
        self.name = name
        """Full name of the variable."""

    async def get(self, timeout: float | None = None) -> T:
        """Reads the value from the engine.

        Args:
            timeout: Seconds to wait for the answer; with `None`, the timeout of the engine object.

        Returns:
            The value. NumPy arrays are copies, in C order.

        Raises:
            NoValue: The variable was never written.
            BadQuality: The value must not be used. `read` returns it.
            NotFound: There is no such variable.
            TimedOut: No answer arrived in time.
            Disconnected: There is no connection.
        """
        reading = await self._requests.read_one(self.name, timeout)
        return cast(T, checked_value(reading, self._of))

    async def read(self, timeout: float | None = None) -> Reading:
        """Reads the value with its time, quality and number.

        Raises:
            NotFound, TimedOut, Disconnected: As `get`.
        """
        return await self._requests.read_one(self.name, timeout)

    async def put(
        self,
        value: T,
        timeout: float | None = None,
        *,
        ts_ns: int | None = None,
        expect: Reading | None = None,
    ) -> Written:
        """Writes the value, and waits until the owner of the variable has accepted it.

        Args:
            value: A value of the variable's type.
            timeout: Seconds to wait for the outcome; with `None`, the timeout of the engine object.
            ts_ns: Time of the measurement, nanoseconds since 1970 UTC; with `None`, the engine's time.
            expect: The write is refused if the variable has changed since this reading.

        Raises:
            Rejected: A rule refused the write; nothing was written.
            OutcomeUnknown: The write was sent, and its outcome did not arrive.
            TypeError, ValueError, OverflowError: `value` is not of the variable's type.
            NotFound, TimedOut, Disconnected: As `get`; nothing was written.
        """
        return await self._requests.write_one(
            self.name, plain(value), "put", timeout, ts_ns=ts_ns, expect=expect
        )

    async def set(self, value: T, timeout: float | None = None) -> Written:
        """Writes the engine's value only. It is not passed on to the variable's source."""
        return await self._requests.write_one(self.name, plain(value), "set", timeout)

    async def send(self, timeout: float | None = None) -> Written:
        """Passes the current value on to the variable's source."""
        return await self._requests.write_one(self.name, None, "send", timeout)

    async def request(self, timeout: float | None = None) -> Written:
        """Asks the variable's source for a fresh value, and waits until it was read."""
        return await self._requests.write_one(self.name, None, "request", timeout)

    async def force(self, value: T, timeout: float | None = None) -> Written:
        """Forces the value, whatever the source and other writers write."""
        return await self._requests.write_one(self.name, plain(value), "force", timeout)

    async def unforce(self, timeout: float | None = None) -> Written:
        """Ends forcing. The variable shows the value of its source again."""
        return await self._requests.write_one(self.name, None, "unforce", timeout)

    async def describe(self, timeout: float | None = None) -> Handle:
        """Returns what is configured: type, units, range, description, access, labels."""
        return await self._requests.open_one(self.name, timeout)

    def monitor(
        self, contract: str = "last:1000", *, events: bool = False, only_changes: bool = False
    ) -> AsyncMonitor:
        """Follows the updates; see `monitor` of the engine object."""
        return AsyncMonitor(
            self._requests, [self.name], contract, events=events, only_changes=only_changes
        )

    def subscribe(
        self, function: Callable[[Any], object], contract: str = "last:1000"
    ) -> AsyncCallbacks:
        """Calls a function for each update; see `subscribe` of the engine object."""
        return AsyncCallbacks(self.monitor(contract), function)

    def live(self, seconds: float = 60.0) -> LiveView:
        """Shows the variable in a notebook, with its trend; see `live` of the engine object."""
        self._requests.check()
        # Only notebooks need its packages.
        from ..jupyter import LiveView

        return LiveView(self._requests.connection, self.name, seconds)

    def __repr__(self) -> str:
        about = self._requests.describe_known(self.name)
        return f"{type(self).__name__}({self.name!r}{about})"

    def _repr_html_(self) -> str:
        reading = self._requests.peek(self.name)
        if isinstance(reading, Reading):
            return reading_table(reading)
        return html_table(("name", ""), [(self.name, str(reading))])
