"""Hosts variables in this program, with a control loop, and lets other programs connect."""

import sys
import threading

import trunkline as tl

PERIOD = 0.01
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000

LIBRARY = {
    "setpoint": tl.variable("f64", units="%", range=(0, 100), initial=50.0),
    "level": tl.variable("f64", units="%", initial=0.0),
}

with tl.Engine.local({"tank": LIBRARY}, listen="127.0.0.1:0") as engine:
    print(f"trunkline monitor tank/level --url tl://{engine.addresses[0]}", flush=True)
    level, stop = 0.0, threading.Event()
    for _ in range(STEPS):
        level += 0.05 * (engine.get("tank/setpoint") - level)
        engine.put("tank/level", level)
        if stop.wait(PERIOD):
            break
    print(f"level {level:.1f} %")
