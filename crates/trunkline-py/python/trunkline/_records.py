"""What the verbs return, apart from readings."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple


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


class Step(NamedTuple):
    """A step on the way of a value from its source to this program."""

    stage: str
    verdict: str
    sentence: str
    next: str


def enum_type(labels: str, name: str = "Label") -> type[enum.Enum]:
    """Returns an enum with these labels, separated by spaces, for `Engine.var`.

    >>> Mode = enum_type("OFF MANUAL AUTO")
    >>> Mode.AUTO.value
    'AUTO'
    """
    return enum.Enum(name, {label: label for label in labels.split()})
