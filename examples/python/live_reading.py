"""Shows a variable whenever it changes: live_reading.py [NAME [COUNT]]

Without an engine, start the demo first: `trunkline demo`.
"""

import sys

import trunkline as tl

name = sys.argv[1] if len(sys.argv) > 1 else "boiler/level"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 10

with tl.connect() as engine, engine.monitor(name, "latest") as monitor:
    for reading in monitor.take(count):
        print(reading.time, reading.value, reading.units, reading.quality)
