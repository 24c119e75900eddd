"""What the tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trunkline as tl

RIG: dict[str, tl.VariableDefinition | str] = {
    "level": tl.variable("f64", units="%", range=(0, 100), description="Level of the tank"),
    "count": "i32",
    "wide": "u64",
    "single": "f32",
    "open": "bool",
    "mode": "enum(OFF, MANUAL, AUTO)",
    "note": "string",
    "raw": "bytes",
    "at": "timestamp",
    "spectrum": "array(f64, *)",
    "image": "array(u16, 2, 3)",
    "names": "array(string, *)",
    "times": "array(timestamp, *)",
    "point": "struct(x: f64, name: string)",
    "wave": "waveform(f32)",
    "fixed": tl.variable("f64", access="read-only"),
}


@pytest.fixture
def engine() -> Iterator[tl.Engine]:
    """An engine in this process with one variable of each kind."""
    with tl.Engine.local({"rig": RIG}, timeout=20) as engine:
        yield engine
