"""npTDMS in R3 and R4: one cell, as `cell SCENARIO SYSTEM key=value...`; prints its row as JSON."""

import json
import os
import sys
import tempfile
import time

import numpy as np
from nptdms import ChannelObject, TdmsFile, TdmsWriter

PER_SEGMENT = 1 << 17
SLICE, SLICES_A_PASS = 1000, 1000
CHANNELS, VALUES = 1000, 100
INTERLEAVED_CHANNELS = 4


def passes(seconds, work):
    """Does it once unmeasured, then until the time is over, at least twice."""
    work()
    start, cpu, count = time.perf_counter(), time.process_time(), 0
    while count < 2 or time.perf_counter() - start < seconds:
        work()
        count += 1
    return count, time.perf_counter() - start, time.process_time() - cpu


def rates(bytes_a_pass, done):
    count, seconds, cpu = done
    total = bytes_a_pass * count
    return {"mb_per_s": total / 1e6 / seconds, "cpu_s_per_gb": cpu * 1e9 / total}


def specimen(path, what, segments):
    """The file of the other systems; npTDMS writes no interleaved data, so that one is patched in."""
    columns = INTERLEAVED_CHANNELS if what == "interleaved" else 1
    with TdmsWriter(path) as writer:
        for segment in range(segments):
            values = np.arange(segment * PER_SEGMENT, (segment + 1) * PER_SEGMENT, dtype=np.float64)
            rows = values.reshape(-1, columns)
            objects = [ChannelObject("g", f"c{n}", rows[:, n]) for n in range(columns)]
            writer.write_segment(objects)
    if columns > 1:
        interleave(path, columns)


def interleave(path, columns):
    """Sets the flag of each segment, and puts its values into rows."""
    with open(path, "r+b") as file:
        end, at = os.fstat(file.fileno()).st_size, 0
        while at < end:
            file.seek(at)
            lead = file.read(28)
            flags = int.from_bytes(lead[4:8], "little") | 1 << 5
            length, metadata = (int.from_bytes(lead[n : n + 8], "little") for n in (12, 20))
            file.seek(at + 4)
            file.write(flags.to_bytes(4, "little"))
            file.seek(at + 28 + metadata)
            values = np.fromfile(file, dtype=np.float64, count=(length - metadata) // 8)
            file.seek(at + 28 + metadata)
            file.write(np.ascontiguousarray(values.reshape(columns, -1).T).tobytes())
            at += 28 + length


def reading(settings, folder):
    what, segments, seconds = settings["what"], int(settings["segments"]), int(settings["ms"]) / 1e3
    path = os.path.join(folder, "specimen.tdms")
    specimen(path, what, segments)
    total = segments * PER_SEGMENT
    if what == "slices":
        random, wrong = np.random.default_rng(1), 0
        with TdmsFile.open(path) as file:
            channel = file["g"]["c0"]

            def slices():
                nonlocal wrong
                for start in random.integers(0, total - SLICE + 1, SLICES_A_PASS):
                    values = channel[start : start + SLICE]
                    wrong += int(values[0] != start) + int(values[-1] != start + SLICE - 1)

            done = passes(seconds, slices)
        figures = rates(SLICES_A_PASS * SLICE * 8, done)
        figures["us_per_slice"] = done[1] * 1e6 / (done[0] * SLICES_A_PASS)
        return figures, [f"{wrong} other values were read"] if wrong else []
    read = []

    def whole():
        read[:] = [channel[:] for channel in TdmsFile.read(path)["g"].channels()]

    done = passes(seconds, whole)
    right = all(
        np.array_equal(values, np.arange(n, total, len(read), dtype=np.float64)) for n, values in enumerate(read)
    )
    return rates(total * 8, done), [] if right else ["other values were read"]


def writing(settings, folder):
    segments, seconds = int(settings["segments"]), int(settings["ms"]) / 1e3
    path = os.path.join(folder, "written.tdms")
    columns = [np.arange(n * VALUES, (n + 1) * VALUES, dtype=np.float64) for n in range(CHANNELS)]

    def write():
        with TdmsWriter(path) as writer:
            for _ in range(segments):
                writer.write_segment([ChannelObject("g", f"c{n}", values) for n, values in enumerate(columns)])

    done = passes(seconds, write)
    payload = segments * CHANNELS * VALUES * 8
    figures = rates(payload, done)
    figures["values_per_s"] = payload / 8 * done[0] / done[1]
    figures["file_per_payload"] = os.path.getsize(path) / payload
    return figures, []


def main():
    _, scenario, system, *words = sys.argv[1:]
    settings = dict(word.split("=", 1) for word in words)
    parent = os.environ.get("TRUNKLINE_DISK", "target")
    with tempfile.TemporaryDirectory(prefix="bench-nptdms-", dir=parent) as folder:
        figures, invalid = (reading if scenario == "tdms_read" else writing)(settings, folder)
    row = {
        "scenario": scenario,
        "system": system,
        "case": "what=" + settings.get("what", "segments"),
        "repeat": 1,
        "placement": "near",
        "waiting": "none",
        "figures": figures,
        "invalid": invalid,
    }
    print(json.dumps(row))


main()
