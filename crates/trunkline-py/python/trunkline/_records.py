"""What the verbs return, apart from readings."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from ._errors import BadQuality, NoValue
from ._trunkline import Reading


class VariableDefinition(NamedTuple):
    """The definition of a variable; made by `variable`."""

    data_type: str
    options: dict[str, Any]


def variable(data_type: str, **options: Any) -> VariableDefinition:
    """Defines a variable of a library.

    Args:
        data_type: `bool`, `i32`, `f64`, `string`, `array(f64, 1000)`, `enum(OFF, ON)`, ...; see the reference
            of types.
        options: `description`, `units`, `range=(low, high)`, `precision`, `access`, `initial`,
            `retain`.
    """
    return VariableDefinition(data_type, options)


def definition_rows(
    variables: Mapping[str, VariableDefinition | str],
) -> list[tuple[str, str, dict[str, Any]]]:
    """Returns path, type and options of each variable."""
    rows: list[tuple[str, str, dict[str, Any]]] = []
    for path, one in variables.items():
        definition = variable(one) if isinstance(one, str) else one
        rows.append((path, definition.data_type, definition.options))
    return rows


class Written(NamedTuple):
    """The outcome of a write that was not refused."""

    state: str
    """"applied"; "unchanged" within the deadband; "superseded" by a newer write of this program."""
    epoch: int
    """The engine's epoch, which changes with every start."""
    seq: int
    """Number of the update within the epoch."""


class Found(NamedTuple):
    """A variable that a search has found."""

    name: str
    data_type: str
    access: str


class Alarm(NamedTuple):
    """An alarm of a variable, with its state. Times are nanoseconds since 1970 UTC."""

    variable: str
    alarm: str
    state: str
    """"normal", "unacknowledged", "acknowledged", "returned-unacknowledged", "shelved", ..."""
    is_active: bool
    priority: int
    """From 1 to 1000; 1000 is the most urgent."""
    area: str
    value: float | None
    """The value when the alarm was last raised; `None` if it is no number."""
    limit: float | None
    raised_ns: int | None
    cleared_ns: int | None
    acknowledged_ns: int | None
    acknowledged_by: str
    comment: str
    shelved_until_ns: int | None
    description: str
    help: str


class AlarmChange(NamedTuple):
    """An entry of the alarm journal: a change of an alarm."""

    number: int
    """Number of the entry. The numbers have no gaps."""
    ts_ns: int
    """Time of the change by the engine's clock, nanoseconds since 1970 UTC."""
    event: str
    """What happened, such as "raised" or "acknowledged"; "lost" and "removed" if entries are missing."""
    variable: str
    alarm: str
    before: str
    """The state before the change."""
    state: str
    """The state after the change."""
    is_active: bool
    priority: int
    area: str
    who: str
    """The operator; empty if the engine changed the state."""
    comment: str
    value: float | None
    """The value when the alarm was last raised; `None` if it is no number."""
    limit: float | None
    description: str
    missing: int
    """Number of missing entries of "lost" and "removed"; otherwise 0."""


class AuditEntry(NamedTuple):
    """An entry of the audit trail: who did what."""

    number: int
    """Number of the entry. The numbers have no gaps."""
    ts_ns: int
    """Time at which the action ended, by the engine's clock, nanoseconds since 1970 UTC."""
    who: str
    """The account or user that the engine has established."""
    origin: str
    """Address, program and process; the program's own statements are not verified."""
    action: str
    """What was done, such as "put", "force" or "deploy"."""
    name: str
    """Full name of the variable, or name of the library; empty for the whole engine."""
    data_type: str
    """Type of `old` and `new`; empty if there are no values."""
    old: str
    """The value before, as text."""
    new: str
    """The value to be written, as text; or a description of the change."""
    outcome: str
    """"done", "applied", "unchanged", "refused", "unknown" or "lost"."""
    message: str
    """The rule that refused the action, or the cause why its outcome is unknown."""
    epoch: int | None
    """Epoch of the update that the write became."""
    seq: int | None
    """Number of the update that the write became."""
    previous: str | None
    """Hash of the previous entry."""
    hash: str | None
    """Hash of this entry."""


class ControlEntry(NamedTuple):
    """Control of a folder, or a request for it."""

    number: int
    """Number of the control or request; requests are granted in the order of their numbers."""
    folder: str
    is_waiting: bool
    """True for a request."""
    level: str
    """"operator" or "supervisor"."""
    only_one_program: bool
    """True if only the program that took control may write; otherwise all programs of its user."""
    by: str
    """The holder, or the client that waits, with its origin."""
    since_ns: int
    """Time at which control was granted or requested, nanoseconds since 1970 UTC."""
    left: float | None
    """Seconds until control ends; `None` if it ends with its connection."""
    is_own: bool
    """True if this program has control or waits."""


class Step(NamedTuple):
    """A step on the way of a value from its source to this program."""

    stage: str
    verdict: str
    sentence: str
    next: str


def enum_type(labels: str, name: str = "Label") -> Any:
    """Returns an enum with these labels, separated by spaces, for `Engine.var`.

    >>> Mode = tl.enum("OFF MANUAL AUTO")
    >>> Mode.AUTO.value
    'AUTO'
    """
    return enum.Enum(name, {label: label for label in labels.split()})


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
