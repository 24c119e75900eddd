"""Reads and writes several variables in one round trip each."""

import trunkline as tl

with tl.connect() as engine:
    names = ["boiler/level", "boiler/setpoint", "boiler/nope"]
    for name, result in zip(names, engine.read(names)):
        if isinstance(result, tl.Error):
            print(name, "failed:", result)
        else:
            print(name, "=", result.value)

    # All of these values or none, with one timestamp.
    with engine.batch(atomic=True) as batch:
        batch.put("boiler/setpoint", 60.0)
        batch.put("boiler/mode", "AUTO")
    print("update", batch.outcomes[0].seq)
