"""W9: records chunks of samples into one file, with npTDMS or HDF5, to the return of fsync.

    recorder.py SYSTEM FILE CHUNK_BYTES BYTES

Prints the seconds and the CPU seconds that it took.
"""

import os
import sys
import time

import numpy


def with_nptdms(path, chunk, count):
    from nptdms import ChannelObject, TdmsWriter

    with open(path, "wb") as file:
        with TdmsWriter(file) as writer:
            channel = ChannelObject("bench", "samples", chunk)
            for _ in range(count):
                writer.write_segment([channel])
        file.flush()
        os.fsync(file.fileno())


def with_hdf5(path, chunk, count):
    import h5py

    with h5py.File(path, "w") as file:
        shape = (chunk.size * count,)
        samples = file.create_dataset("samples", shape=shape, dtype=chunk.dtype)
        for number in range(count):
            samples[number * chunk.size : (number + 1) * chunk.size] = chunk
        file.flush()
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def main():
    system, path, chunk_bytes, total = sys.argv[1:]
    chunk = numpy.arange(int(chunk_bytes) // 8, dtype=numpy.uint64)
    write = {"nptdms": with_nptdms, "hdf5": with_hdf5}[system]
    # The library is loaded, and has written something, before it is measured.
    write(path + ".warm", chunk, 1)
    os.remove(path + ".warm")
    start, cpu = time.perf_counter(), time.process_time()
    write(path, chunk, int(total) // int(chunk_bytes))
    print(time.perf_counter() - start, time.process_time() - cpu)


main()
