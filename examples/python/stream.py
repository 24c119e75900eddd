"""Moves samples from one program to another without loss: stream.py read | write

Start the reader and the writer, in any order; an engine runs on this machine.
"""

import sys

import numpy as np

import trunkline as tl

SAMPLES = 100_000
BLOCK = 1000


def write_samples(engine: tl.Engine) -> None:
    with engine.writer("daq/out", peer="daq/raw", buffer=2 * BLOCK, timeout=20) as writer:
        for first in range(0, SAMPLES, BLOCK):
            # All of the block or none of it. Waits while the reader's buffer is full.
            writer.write(np.arange(first, first + BLOCK, dtype=np.float64), timeout=10)
        writer.flush(until="read", timeout=10)
        print(writer.close().elements, "samples not delivered")


def read_samples(engine: tl.Engine) -> None:
    total, result = 0, 0.0
    with engine.reader("daq/raw", buffer=2 * BLOCK, timeout=20) as reader:
        try:
            while True:
                # A block where it is, without a copy; fewer samples at the end of the stream.
                with reader.acquire(BLOCK, timeout=10) as samples:
                    total += len(samples)
                    result += samples.sum()
        except tl.Ended:
            pass
    print(f"{total} samples, sum {result:.0f}")


with tl.connect() as engine:
    if sys.argv[1:] == ["write"]:
        write_samples(engine)
    else:
        read_samples(engine)
