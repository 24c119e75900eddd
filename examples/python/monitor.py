"""Follows a variable with a slow program, and shows what it missed: monitor.py [NAME [COUNT]]"""

import sys
import time

import trunkline as tl

name = sys.argv[1] if len(sys.argv) > 1 else "boiler/level"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 10

with tl.connect() as engine, engine.monitor(name, "last:5") as monitor:
    for reading in monitor.take(count):
        missed = "an unknown number" if reading.lost is None else reading.lost
        print(reading.seq, reading.value, f"({missed} missed before it)")
        time.sleep(0.05)  # slower than the updates
    print("missed in all:", monitor.lost)
