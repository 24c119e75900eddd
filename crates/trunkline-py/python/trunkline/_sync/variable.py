"""One variable of an engine."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .._errors import BadQuality, NoValue
from .._records import Written
from .._trunkline import Handle, Reading

if TYPE_CHECKING:
    from .engine import Engine
    from .monitor import Callbacks, Monitor

T = TypeVar("T")


class Variable(Generic[T]):
    """A variable, by its name. Nothing is sent until a method needs the engine."""

    def __init__(self, engine: Engine, name: str, of: type[T] | None = None) -> None:
        self._engine = engine
        self._of = of
        self.name = name
        """Full name of the variable."""

    def get(self, timeout: float | None = None) -> T:
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
        reading = self._engine._read_one(self.name, timeout)
        return cast(T, checked_value(reading, self._of))

    def read(self, timeout: float | None = None) -> Reading:
        """Reads the value with its time, quality and number.

        Raises:
            NotFound, TimedOut, Disconnected: As `get`.
        """
        return self._engine._read_one(self.name, timeout)

    def put(
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
        return self._engine._write_one(
            self.name, plain(value), "put", timeout, ts_ns=ts_ns, expect=expect
        )

    def set(self, value: T, timeout: float | None = None) -> Written:
        """Writes the engine's value only. It is not passed on to the variable's source."""
        return self._engine._write_one(self.name, plain(value), "set", timeout)

    def send(self, timeout: float | None = None) -> Written:
        """Passes the current value on to the variable's source."""
        return self._engine._write_one(self.name, None, "send", timeout)

    def request(self, timeout: float | None = None) -> Written:
        """Asks the variable's source for a fresh value, and waits until it was read."""
        return self._engine._write_one(self.name, None, "request", timeout)

    def force(self, value: T, timeout: float | None = None) -> Written:
        """Forces the value, whatever the source and other writers write."""
        return self._engine._write_one(self.name, plain(value), "force", timeout)

    def unforce(self, timeout: float | None = None) -> Written:
        """Ends forcing. The variable shows the value of its source again."""
        return self._engine._write_one(self.name, None, "unforce", timeout)

    def describe(self, timeout: float | None = None) -> Handle:
        """Returns what is configured: type, units, range, description, access, labels."""
        return self._engine._open_one(self.name, timeout)

    def monitor(
        self, contract: str = "last:1000", *, events: bool = False, only_changes: bool = False
    ) -> Monitor:
        """Follows the updates; see `monitor` of the engine object."""
        return self._engine.monitor(
            [self.name], contract, events=events, only_changes=only_changes
        )

    def subscribe(
        self, function: Callable[[Any], object], contract: str = "last:1000"
    ) -> Callbacks:
        """Calls a function for each update; see `subscribe` of the engine object."""
        return self._engine.subscribe([self.name], function, contract)

    def __repr__(self) -> str:
        about = self._engine._describe_known(self.name)
        return f"{type(self).__name__}({self.name!r}{about})"


def plain(value: Any) -> Any:
    """Returns the label of an enum member, and every other value unchanged."""
    return value.value if isinstance(value, enum.Enum) else value


def checked_value(reading: Reading, of: type[Any] | None) -> Any:
    """Returns the value of a reading that can be used.

    Raises:
        NoValue: The variable was never written.
        BadQuality: The quality is bad.
        TypeError: The value is not of the type `of`.
    """
    if not reading.has_value:
        raise NoValue(
            "the variable has no value yet",
            name=reading.name,
            hint="wait for its source, or write it",
            code="no-value",
        )
    if reading.quality_bits & 3 > 1:
        raise BadQuality(
            f"the quality of the value is bad ({reading.reason})",
            name=reading.name,
            hint="use read() to get it with its quality",
            code="bad-quality",
        )
    value = reading.value
    if of is None or type(value) is of:
        return value
    if issubclass(of, enum.Enum):
        return of(value)
    if of is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, of):
        return value
    raise TypeError(f"{reading.name} is {type(value).__name__}, but this program expects {of.__name__}")
