"""Values, types and alarm severities as pyepics has them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._trunkline import Handle, Reading
from ..._waveform import Waveform

NO_ALARM = 0
MINOR_ALARM = 1
MAJOR_ALARM = 2
INVALID_ALARM = 3

SEVERITIES = ("NO_ALARM", "MINOR", "MAJOR", "INVALID")
STATUSES: Sequence[str] = (
    "NO_ALARM READ WRITE HIHI HIGH LOLO LOW STATE COS COMM TIMEOUT HW_LIMIT CALC SCAN LINK SOFT BAD_SUB "
    "UDF DISABLE SIMM READ_ACCESS WRITE_ACCESS"
).split()

STATUS_OF_REASON = {
    "access-denied": "READ_ACCESS",
    "device-failure": "READ",
    "inactive": "DISABLE",
    "initial": "UDF",
    "limits-exceeded": "HW_LIMIT",
    "no-value": "UDF",
    "out-of-range": "HW_LIMIT",
    "sensor-failure": "READ",
    "stale": "TIMEOUT",
    "timed-out": "TIMEOUT",
}
"""EPICS statuses by the reason of a quality. Other reasons are COMM if the value is bad, else SOFT."""

FTYPES = {"string": 0, "int": 1, "float": 2, "enum": 3, "char": 4, "long": 5, "double": 6}
FORMS = {"native": 0, "time": 14, "ctrl": 28}

NATIVE_TYPES = {
    "bool": "enum",
    "i8": "char",
    "u8": "char",
    "i16": "int",
    "u16": "long",
    "i32": "long",
    "u32": "long",
    "i64": "long",
    "u64": "long",
    "f32": "float",
    "f64": "double",
    "string": "string",
    "timestamp": "double",
}
DTYPES = {
    "bool": "bool",
    "i8": "i1",
    "u8": "u1",
    "i16": "i2",
    "u16": "u2",
    "i32": "i4",
    "u32": "u4",
    "i64": "i8",
    "u64": "u8",
    "f32": "f4",
    "f64": "f8",
    "timestamp": "i8",
}


class PvType(NamedTuple):
    """What the type of a variable is for pyepics."""

    native: str
    """"double", "long", "enum", "string", "char", ..., or "struct"."""
    element: str
    """Type of Trunkline of the value, or of its elements."""
    is_array: bool
    shape: tuple[int, ...] | None
    """Numbers of elements in each dimension; `None` if they vary."""
    labels: tuple[str, ...]
    """Labels of an enum; empty for other types."""

    @property
    def nelm(self) -> int | None:
        """Number of elements; `None` if it varies."""
        return None if self.shape is None else math.prod(self.shape)


def pv_type(handle: Handle) -> PvType:
    """Returns the type of a variable."""
    text = handle.data_type
    if handle.labels is not None:
        return PvType("enum", "enum", False, (), tuple(handle.labels))
    if text == "bool":
        return PvType("enum", "bool", False, (), ("False", "True"))
    if text == "bytes":
        return PvType("char", "u8", True, None, ())
    if found := re.fullmatch(r"array\((\w+)((?:, *(?:\d+|\*))+)\)", text):
        sizes = [size.strip() for size in found[2].split(",")[1:]]
        shape = None if "*" in sizes else tuple(map(int, sizes))
        return PvType(NATIVE_TYPES.get(found[1], "struct"), found[1], True, shape, ())
    if found := re.fullmatch(r"waveform\((\w+)[^)]*\)", text):
        return PvType(NATIVE_TYPES.get(found[1], "struct"), found[1], True, None, ())
    return PvType(NATIVE_TYPES.get(text, "struct"), text, False, (), ())


def to_epics(value: Any, of: PvType) -> Any:
    """Converts a value of a reading: enums to their numbers, everything with elements to flat arrays."""
    if of.is_array:
        if isinstance(value, Waveform):
            value = value.data
        if isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)
        array = np.asarray(value).ravel()
        if array.dtype == object:
            return array.tolist()
        return array.astype(np.float64) / 1e9 if of.element == "timestamp" else array
    if of.labels:
        return of.labels.index(value) if isinstance(value, str) else int(value)
    return value / 1e9 if of.element == "timestamp" else value


def from_epics(value: Any, of: PvType) -> Any:
    """Converts a value to be written as Channel Access does: text to numbers, numbers to labels, floats to
    whole numbers.

    Raises:
        ValueError, TypeError: The value does not fit the type.
    """
    if of.native == "struct":
        return value
    if of.is_array:
        return _array_from_epics(value, of)
    value = _scalar(value)
    if isinstance(value, bytes):
        value = value.decode()
    if of.element == "bool" and isinstance(value, bool):
        return value
    if of.labels:
        label = _label(value, of.labels)
        return label == "True" if of.element == "bool" else label
    if of.native == "string":
        return str(value)
    if of.element == "timestamp":
        return round(float(value) * 1e9)
    if of.native in ("double", "float"):
        return float(value)
    if isinstance(value, str):
        return int(value, 0) if re.fullmatch(r"\s*[+-]?0[xXbBoO]\w+\s*", value) else int(float(value))
    return int(value)


def shortened(value: Any, count: int | None, as_numpy: bool) -> Any:
    """Returns the first `count` elements of an array, as an array or as a list."""
    elements = value[:count]
    return elements if as_numpy or not hasattr(elements, "tolist") else elements.tolist()


def _scalar(value: Any) -> Any:
    """Returns the element of an array with one element, and a number of NumPy as one of Python."""
    return value.item() if hasattr(value, "item") else value


def _array_from_epics(value: Any, of: PvType) -> Any:
    if of.native == "char" and isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        return _of_length(np.frombuffer(raw + b"\0", np.uint8), of)
    if of.element == "string":
        return [str(one) for one in ([value] if isinstance(value, str) else value)]
    values = np.atleast_1d(np.asarray(value))
    if of.element == "timestamp":
        values = np.rint(values.astype(np.float64) * 1e9)
    return _of_length(values.astype(DTYPES[of.element]), of)


def _of_length(values: Any, of: PvType) -> Any:
    """Shortens an array, or appends zeros, as an EPICS array has them after its written elements."""
    if of.shape is None or values.shape == of.shape:
        return values
    filled: Any = np.zeros(math.prod(of.shape), values.dtype)
    flat = values.ravel()[: len(filled)]
    filled[: len(flat)] = flat
    return filled.reshape(of.shape)


def _label(value: Any, labels: tuple[str, ...]) -> str:
    if isinstance(value, str):
        if value in labels:
            return value
        if not value.strip().isdigit():
            raise ValueError(f"{value!r} is none of the states {', '.join(labels)}")
    number = int(value)
    if not 0 <= number < len(labels):
        raise ValueError(f"there is no state {number}; the states are 0 to {len(labels) - 1}")
    return labels[number]


def text_of(value: Any, of: PvType, precision: int | None) -> str:
    """Returns a value, as `to_epics` returns it, as text: labels, text of char arrays, floats with the
    precision of the variable."""
    if of.is_array:
        if of.native == "char":
            raw = bytes(np.asarray(value).astype(np.uint8))
            return raw.split(b"\0", 1)[0].decode(errors="replace").rstrip()
        return f"<array size={len(value)}, type=time_{of.native}>"
    if of.labels:
        return of.labels[int(value)]
    if of.native in ("double", "float") and precision is not None:
        is_extreme = 4 < abs(int(math.log10(abs(value) + 1e-9))) if np.isfinite(value) else True
        return f"{value:.{precision}{'g' if is_extreme else 'f'}}"
    return str(value)


def alarm_of(reading: Reading) -> tuple[int, int]:
    """Returns status and severity for the quality of a reading."""
    level = reading.quality
    if level == "good":
        return 0, NO_ALARM
    is_bad = level == "bad"
    status = STATUS_OF_REASON.get(reading.reason, "COMM" if is_bad else "SOFT")
    return STATUSES.index(status), INVALID_ALARM if is_bad else MINOR_ALARM
