"""Writes a setpoint, and reports whether the engine accepted it: setpoint.py [NAME VALUE]"""

import sys

import trunkline as tl

name = sys.argv[1] if len(sys.argv) > 1 else "boiler/setpoint"
value = float(sys.argv[2]) if len(sys.argv) > 2 else 55.0

with tl.connect() as engine:
    before = engine.read(name)
    try:
        # Refused if another program has written it since `before` was read.
        written = engine[name].put(value, expect=before)
    except tl.Rejected as error:
        sys.exit(f"refused: {error}")
    except tl.OutcomeUnknown as error:
        sys.exit(f"it is not known whether the value was written: {error}")
    print(f"{name}: {before.value} -> {value}, update {written.seq}")
