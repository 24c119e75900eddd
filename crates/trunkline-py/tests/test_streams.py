"""Lossless streams: the ends in two threads or tasks of one process, through a real engine."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trunkline as tl

LIMIT = 30.0
"""Seconds after which a test has failed."""


@pytest.fixture
def engine() -> Iterator[tl.Engine]:
    with tl.Engine.local(listen="127.0.0.1:0") as engine:
        yield engine


class Beside:
    """Runs a function in a thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the call has not returned"
        if self._error is not None:
            raise self._error
        return self._result


def pair(
    engine: tl.Engine, dtype: Any = "f64", buffer: int = 4096, **options: Any
) -> tuple[tl.Writer, tl.Reader]:
    reader = engine.reader("daq/raw", dtype, buffer=buffer, timeout=LIMIT)
    writer = engine.writer("daq/out", dtype, peer="daq/raw", buffer=buffer, timeout=LIMIT, **options)
    opening = Beside(reader.open)
    writer.open()
    opening.result()
    return writer, reader


def test_elements_arrive_in_order_and_the_end_is_reported(engine: tl.Engine) -> None:
    """Behaviour: NS-12, NS-30, NS-47, NS-48."""
    writer, reader = pair(engine)
    with reader:
        with writer:
            writer.write(np.arange(1000.0))
            writer.write_one(1000.0)
            assert writer.connected
            closing = Beside(lambda: reader.read(600, LIMIT))
            np.testing.assert_array_equal(closing.result(), np.arange(600.0))
        assert len(reader.read(1000, LIMIT)) == 401
        with pytest.raises(tl.Ended) as raised:
            reader.read(1, LIMIT)
    assert raised.value.name == "daq/raw"
    assert isinstance(raised.value, EOFError)


def test_write_is_all_or_nothing(engine: tl.Engine) -> None:
    """Behaviour: NS-30, NS-33."""
    writer, reader = pair(engine, buffer=100)
    with reader, writer:
        written = 0
        with pytest.raises(tl.TimedOut, match="nothing was written"):
            while True:
                writer.write(np.full(60, float(written)), timeout=0)
                written += 60
        assert written > 0
        assert len(reader.read(60, LIMIT)) == 60
        with pytest.raises(tl.Error) as raised:
            writer.write(np.zeros(101))
        assert raised.value.code == "capacity"
        rest = 0
        while rest < written - 60:
            rest += len(reader.read(60, LIMIT))
        with pytest.raises(tl.TimedOut, match="nothing was read"):
            reader.read(1, timeout=0)


def test_read_into_fills_an_array(engine: tl.Engine) -> None:
    """Behaviour: NS-30, NS-36."""
    writer, reader = pair(engine, "i32")
    with reader, writer:
        writer.write([1, 2, 3, 4, 5])
        buffer = np.zeros(3, np.int32)
        assert reader.read_into(buffer, LIMIT) == 3
        assert buffer.tolist() == [1, 2, 3]
        writer.flush("received", LIMIT)
        available = reader.read(2, LIMIT)
        assert available.dtype == np.int32
        assert available.tolist() == [4, 5]
        assert len(reader.read_available()) == 0


def test_leased_view_shows_the_buffer_until_its_block_ends(engine: tl.Engine) -> None:
    writer, reader = pair(engine)
    with reader, writer:
        writer.write(np.arange(10.0))
        with reader.acquire(4, LIMIT) as view:
            assert view.tolist() == [0, 1, 2, 3]
            assert reader.connected
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 1
            with pytest.raises(ValueError):
                view.flags.writeable = True
            with pytest.raises(tl.Error) as raised:
                reader.read(1)
            assert raised.value.code == "leased"
        assert view.size == 0
        assert reader.read(6, LIMIT).tolist() == [4, 5, 6, 7, 8, 9]


def test_lease_outlives_its_reader(engine: tl.Engine) -> None:
    writer, reader = pair(engine)
    writer.write(np.arange(10.0))
    with reader.acquire(10, LIMIT) as view:
        part = view[2:]
        reader.close()
        with pytest.raises(tl.Closed):
            reader.read(1)
        del reader
        gc.collect()
        assert part.tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
    # The memory stays valid as long as an array refers to it, whatever it contains.
    assert part.sum() is not None
    writer.abort()


def test_lease_that_was_forgotten_gives_its_elements_back(engine: tl.Engine) -> None:
    writer, reader = pair(engine)
    with reader, writer:
        writer.write(np.arange(4.0))
        lease = reader.acquire(3, LIMIT)
        assert lease.__enter__().tolist() == [0, 1, 2]
        del lease
        gc.collect()
        assert reader.read(1, LIMIT).tolist() == [3]


def test_room_is_filled_in_place(engine: tl.Engine) -> None:
    writer, reader = pair(engine)
    with reader, writer:
        with writer.reserve(5, LIMIT) as room:
            room[:] = np.arange(5.0)
        assert room.size == 0
        with pytest.raises(KeyError), writer.reserve(5, LIMIT) as room:
            room[:] = -1
            raise KeyError
        writer.write_one(5.0)
        assert reader.read(6, LIMIT).tolist() == [0, 1, 2, 3, 4, 5]


def test_flush_waits_until_elements_were_read(engine: tl.Engine) -> None:
    """Behaviour: NS-42, NS-43, NS-49."""
    writer, reader = pair(engine)
    with reader, writer:
        writer.write(np.zeros(10))
        writer.flush("received", LIMIT)
        with pytest.raises(tl.TimedOut, match="not all elements were read"):
            writer.flush("read", 0.01)
        writer.flush("read", 0)
        flushing = Beside(lambda: writer.flush("read", LIMIT))
        reader.read(10, LIMIT)
        flushing.result()
        with pytest.raises(tl.Error) as raised:
            writer.flush("durable", LIMIT)
        assert raised.value.code == "journal"
        with pytest.raises(ValueError, match="no stage"):
            writer.flush("soon")


@pytest.mark.parametrize(
    ("array", "error", "says"),
    [
        (np.zeros(4, np.float32), TypeError, "astype"),
        (np.zeros(4, ">f8"), ValueError, "byte order"),
        (np.zeros(8)[::2], ValueError, "ascontiguousarray"),
        (np.zeros((2, 2)), ValueError, "ravel"),
        (["a"], TypeError, "astype"),
        (b"12345678", TypeError, "astype"),
    ],
)
def test_unsuitable_arrays_are_refused(
    engine: tl.Engine, array: Any, error: type[Exception], says: str
) -> None:
    writer, reader = pair(engine)
    with reader, writer:
        with pytest.raises(error, match=says):
            writer.write(array)
        if hasattr(array, "dtype"):
            with pytest.raises(error, match=says):
                reader.read_into(array)
        read_only = np.zeros(1)
        read_only.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            reader.read_into(read_only)
        writer.write(read_only)
        assert reader.read(1, LIMIT).tolist() == [0]


def test_lossy_values_are_refused(engine: tl.Engine) -> None:
    writer, reader = pair(engine, "i8")
    with reader, writer:
        with pytest.raises(TypeError):
            writer.write([1.5])
        with pytest.raises(TypeError):
            writer.write_one(1.5)
        with pytest.raises(OverflowError):
            writer.write_one(300)
        writer.write([1, -2])
        assert reader.read(2, LIMIT).tolist() == [1, -2]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("bool", np.array([True, False])),
        (np.uint16, np.array([1, 65535], np.uint16)),
        ("timestamp", np.array(["2026-01-01", "NaT"], "datetime64[ns]")),
        (
            "struct(t: timestamp, volts: f64, ok: bool)",
            np.array(
                [(np.datetime64(1, "ns"), 2.5, True), (np.datetime64(2, "ns"), -1.0, False)],
                [("t", "datetime64[ns]"), ("volts", "f8"), ("ok", "?")],
            ),
        ),
    ],
)
def test_types_of_fixed_size(engine: tl.Engine, dtype: Any, values: np.ndarray[Any, Any]) -> None:
    writer, reader = pair(engine, dtype)
    with reader, writer:
        writer.write(values)
        read = reader.read(len(values), LIMIT)
        assert read.dtype == values.dtype
        assert read.tobytes() == values.tobytes()


def test_text_is_a_type_of_trunkline_and_objects_are_of_numpy(engine: tl.Engine) -> None:
    with pytest.raises(ValueError):
        engine.reader("a", "float64").open()
    with pytest.raises(ValueError, match="no NumPy dtype"):
        engine.reader("a", "string").open()
    with pytest.raises(ValueError, match="byte order"):
        engine.reader("a", np.dtype(">f8")).open()
    with pytest.raises(ValueError, match="nanoseconds"):
        engine.reader("a", np.dtype("datetime64[us]")).open()


def test_types_must_agree(engine: tl.Engine) -> None:
    reader = engine.reader("daq/raw", "f64", timeout=LIMIT)
    opening = Beside(reader.open)
    with pytest.raises(tl.Error) as raised:
        engine.writer("daq/out", "i32", peer="daq/raw", timeout=LIMIT).open()
    assert "i32" in str(raised.value)
    with pytest.raises(tl.Error):
        opening.result()


def test_missing_peer_times_out(engine: tl.Engine) -> None:
    writer = engine.writer("daq/out", peer="daq/nowhere", timeout=0.05)
    with pytest.raises(tl.TimedOut) as raised:
        writer.open()
    assert raised.value.code == "no-peer"
    assert writer.available == 0
    assert not writer.connected


def test_closing_ends_a_wait(engine: tl.Engine) -> None:
    writer, reader = pair(engine)
    reading = Beside(lambda: reader.read(1))
    reader.close()
    with pytest.raises(tl.Closed):
        reading.result()
    reader.close()
    with pytest.raises(tl.Closed):
        for _ in range(1000):
            writer.write(np.zeros(4000), LIMIT)
    assert writer.close().in_doubt == 0


def test_closing_ends_the_wait_for_a_peer(engine: tl.Engine) -> None:
    reader = engine.reader("daq/raw")
    opening = Beside(reader.open)
    reader.close()
    with pytest.raises(tl.Closed):
        opening.result()
    with pytest.raises(tl.Closed):
        reader.open()


def test_failure_of_the_program_aborts_the_stream(engine: tl.Engine) -> None:
    """Behaviour: NS-45."""
    writer, reader = pair(engine)
    with reader:
        with pytest.raises(ZeroDivisionError), writer:
            writer.write(np.zeros(3))
            writer.flush("received", LIMIT)
            raise ZeroDivisionError("no volts")
        assert len(reader.read(3, LIMIT)) == 3
        with pytest.raises(tl.Gap, match="no volts") as raised:
            reader.read(1, LIMIT)
        assert raised.value.code == "aborted"


def test_properties_tell_the_state(engine: tl.Engine) -> None:
    """Behaviour: NS-50, NS-51, NS-53."""
    writer, reader = pair(engine)
    with reader:
        with writer:
            writer.write(np.zeros(10))
            writer.flush("received", LIMIT)
            assert reader.available == 10
            assert writer.available <= 4096
            properties = writer.properties
            assert (properties.data_type, properties.total) == ("f64", 10)
            assert properties.capacity == 4096
            assert reader.disconnections == 0
            reader.read(10, LIMIT)
        assert reader.properties.peer == "tl://localhost/daq/out"


def test_blocks_end_with_the_stream(engine: tl.Engine) -> None:
    writer, reader = pair(engine)
    with reader:
        with writer:
            writer.write(np.arange(10.0))
            blocks = Beside(lambda: [len(block) for block in reader.blocks(4, LIMIT)])
        assert blocks.result() == [4, 4, 2]


def test_a_reader_with_a_journal_that_is_closed_at_the_end_ends_the_stream(
    engine: tl.Engine, tmp_path: Path
) -> None:
    def read() -> int:
        reader = engine.reader("daq/raw", journal=tmp_path / "reader", timeout=LIMIT)
        reader.open()
        count = 0
        try:
            while True:
                count += len(reader.read(1000, timeout=LIMIT))
        except tl.Ended:
            reader.close()
        return count

    # The second stream with the same journals begins anew.
    for _ in range(2):
        reading = Beside(read)
        writer = engine.writer("daq/out", peer="daq/raw", journal=tmp_path / "writer", timeout=LIMIT)
        writer.open()
        writer.write(np.zeros(50_000), timeout=LIMIT)
        assert writer.close(timeout=LIMIT) == (0, 0)
        assert reading.result() == 50_000


def test_a_block_that_ends_before_everything_was_received_raises(
    engine: tl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = tl.Writer.close

    def without_time(writer: tl.Writer, timeout: float | None = None) -> tl.Left:
        close(writer, LIMIT)
        return tl.Left(5, 0)

    monkeypatch.setattr(tl.Writer, "close", without_time)
    reader = engine.reader("daq/raw", timeout=LIMIT)
    opening = Beside(reader.open)
    with pytest.raises(tl.Gap, match="did not receive the last 5 elements"):
        with engine.writer("daq/out", peer="daq/raw", timeout=LIMIT):
            opening.result()
    reader.close()


def test_journal_keeps_elements_across_programs(engine: tl.Engine, tmp_path: Path) -> None:
    def reader() -> tl.Reader:
        return engine.reader("daq/raw", journal=tmp_path / "reader", timeout=LIMIT)

    def writer() -> tl.Writer:
        return engine.writer("daq/out", peer="daq/raw", journal=tmp_path / "writer", timeout=LIMIT)

    first = writer()
    opening = Beside(first.open)
    with reader() as reading:
        opening.result()
        first.write([1.0, 2.0])
        first.flush("durable", LIMIT)
        assert reading.read(1, LIMIT).tolist() == [1.0]
        reading.commit()
        first.write([3.0])
        first.suspend()
    second = writer()
    opening = Beside(second.open)
    with reader() as reading:
        opening.result()
        with second.reserve(1, LIMIT) as room:
            room[0] = 4.0
        assert reading.read(3, LIMIT).tolist() == [2.0, 3.0, 4.0]
        closing = Beside(second.close)
        with pytest.raises(tl.Ended):
            reading.read(1, LIMIT)
        assert closing.result() == (0, 0)


def test_each_of_many_readers_gets_everything(engine: tl.Engine) -> None:
    readers = [engine.reader(f"r/{n}", peer="daq/all", timeout=LIMIT) for n in range(3)]
    writer = engine.fan_out_writer("daq/all", readers=3, timeout=LIMIT)
    opening = [Beside(reader.open) for reader in readers]
    with writer:
        for one in opening:
            one.result()
        assert len(writer.readers()) == 3
        writer.write(np.arange(100.0), LIMIT)
        for reader in readers:
            assert len(reader.read(100, LIMIT)) == 100
        writer.flush("read", LIMIT)
        assert [left.elements for left in writer.close()] == [0, 0, 0]
    for reader in readers:
        reader.close()


def test_slow_reader_learns_what_it_lost(engine: tl.Engine) -> None:
    reader = engine.reader("r/slow", peer="daq/all", buffer=10, timeout=LIMIT)
    writer = engine.fan_out_writer("daq/all", quota=10, buffer=100, timeout=LIMIT)
    opening = Beside(reader.open)
    with writer:
        opening.result()
        for start in range(0, 10_000, 10):
            writer.write(np.arange(start, start + 10.0), LIMIT)
        got, lost = 0, 0
        with reader:
            closing = Beside(writer.close)
            while True:
                try:
                    got += len(reader.read(1, LIMIT))
                except tl.Gap as gap:
                    assert gap.code == "lost"
                    lost = reader.lost
                except tl.Ended:
                    break
            assert lost > 0
            assert got + lost == 10_000
        closing.result()


def test_many_writers_are_told_apart(engine: tl.Engine) -> None:
    writers = [engine.writer(f"w/{n}", peer="all/in", timeout=LIMIT) for n in range(2)]
    reader = engine.fan_in_reader("all/in", writers=2, timeout=LIMIT)
    opening = [Beside(writer.open) for writer in writers]
    with reader:
        for n, (writer, one) in enumerate(zip(writers, opening)):
            one.result()
            writer.write(np.full(10, float(n)))
        assert len(reader.writers()) == 2
        closing = [Beside(writer.close) for writer in writers]
        got: dict[str, int] = {}
        ends = 0
        while ends < 2:
            run = reader.read_run(100, LIMIT)
            if run.elements is None:
                assert run.end == "closed"
                ends += 1
                continue
            name = run.url[-1]
            assert set(run.elements) == {float(name)}
            got[name] = got.get(name, 0) + len(run.elements)
        assert got == {"0": 10, "1": 10}
        for one in closing:
            one.result()
        with pytest.raises(tl.TimedOut):
            reader.read_run(1, timeout=0)


def test_port_of_its_own_needs_no_engine() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"tl://localhost:{port}/daq/raw"
    opening = Beside(tl.reader(url, timeout=LIMIT).open)
    with tl.writer("out", peer=url, timeout=LIMIT) as writer:
        opening.result()
        assert writer.properties.peer == url


def test_engine_without_a_port_is_refused() -> None:
    with tl.Engine.local() as engine, pytest.raises(tl.Error, match="listen"):
        engine.writer("daq/raw")


def test_same_verbs_in_an_event_loop(engine: tl.Engine) -> None:
    async def run() -> None:
        async with tl.aio.AsyncEngine.local(listen="127.0.0.1:0") as loop_engine:
            reader = loop_engine.reader("daq/raw", buffer=100, timeout=LIMIT)
            writer = loop_engine.writer("daq/out", peer="daq/raw", buffer=100, timeout=LIMIT)
            await asyncio.gather(reader.open(), writer.open())
            async with reader:
                async with writer:
                    reading = asyncio.create_task(reader.read(5, LIMIT))
                    await writer.write(np.arange(5.0), LIMIT)
                    assert (await reading).tolist() == [0, 1, 2, 3, 4]

                    async def write_all() -> None:
                        for start in range(0, 1000, 50):
                            await writer.write(np.arange(start, start + 50.0), LIMIT)
                        async with writer.reserve(2, LIMIT) as room:
                            room[:] = 7
                        await writer.flush("read", LIMIT)

                    writing = asyncio.create_task(write_all())
                    buffer = np.empty(50)
                    for start in range(0, 1000, 50):
                        assert await reader.read_into(buffer, LIMIT) == 50
                        assert buffer[0] == start
                    async with reader.acquire(2, LIMIT) as view:
                        assert view.tolist() == [7, 7]
                    await writing

                    with pytest.raises(tl.TimedOut):
                        await reader.read(1, 0.01)
                    cancelled = asyncio.create_task(reader.read(1))
                    await asyncio.sleep(0)
                    cancelled.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await cancelled
                    await writer.write_one(1.0)
                    assert (await reader.read(1, LIMIT)).tolist() == [1]
                    waiting = asyncio.create_task(reader.read(1))
                    await asyncio.sleep(0)
                    await reader.close()
                    with pytest.raises(tl.Closed):
                        await waiting
                    await writer.abort()

    asyncio.run(asyncio.wait_for(run(), 2 * LIMIT))


class Interrupt(BaseException):
    pass


@contextmanager
def interrupted_soon() -> Generator[None, None, None]:
    """Raises `Interrupt` in the main thread, as Ctrl-C raises `KeyboardInterrupt`."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(Interrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_signals_interrupt_every_wait(engine: tl.Engine) -> None:
    with interrupted_soon():
        engine.reader("daq/raw").open()
    writer, reader = pair(engine, buffer=10)
    with reader:
        with interrupted_soon():
            reader.read(1)
        with interrupted_soon(), reader.acquire(1):
            pass
        with interrupted_soon():
            while True:
                writer.write(np.zeros(10))
        with interrupted_soon():
            writer.flush("read")
        assert len(reader.read(10, LIMIT)) == 10
        writer.abort()


def in_process(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with this package in a process of its own."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


OPEN_PAIR = """
    import os, sys, threading
    import numpy as np
    import trunkline as tl
    engine = tl.Engine.local(listen="127.0.0.1:0")
    reader = engine.reader("r", timeout=20)
    writer = engine.writer("w", peer="r", timeout=20)
    opening = threading.Thread(target=reader.open)
    opening.start()
    writer.open()
    opening.join()
    writer.write(np.zeros(10))
"""


def test_program_ends_with_open_streams_and_leases() -> None:
    done = in_process(OPEN_PAIR + "    view = reader.acquire(5).__enter__()\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_program_ends_while_threads_wait() -> None:
    done = in_process(
        OPEN_PAIR
        + "    threading.Thread(target=reader.read, args=(100,), daemon=True).start()\n"
        + "    threading.Thread(target=lambda: writer.flush('read'), daemon=True).start()\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_forked_process_must_create_streams_again() -> None:
    done = in_process(
        OPEN_PAIR
        + """
    child = os.fork()
    if child == 0:
        try:
            writer.write(np.zeros(1))
        except tl.Error as error:
            assert error.code == "forked", error
            writer.close()
            reader.close()
            del writer, reader
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(reader.read(10, 20)) == 10
    writer.abort()
    reader.close()
    engine.close()
    """
    )
    assert done.returncode == 0, done.stderr


def test_endpoints_leave_no_threads_and_descriptors(engine: tl.Engine) -> None:
    def count() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    def once() -> None:
        writer, reader = pair(engine)
        with reader:
            with writer:
                writer.write(np.zeros(10))
                with reader.acquire(5, LIMIT) as view:
                    assert len(view) == 5
                assert len(reader.read(5, LIMIT)) == 5

    for _ in range(3):
        once()
    before = count()
    for _ in range(30):
        once()
    threads, descriptors = count()
    assert threads <= before[0] + 4
    assert descriptors <= before[1] + 10


def test_several_peers_and_journals_in_an_event_loop(tmp_path: Path) -> None:
    async def run() -> None:
        async with tl.aio.AsyncEngine.local(listen="127.0.0.1:0") as engine:
            out = engine.fan_out_writer("all/out", readers=1, timeout=LIMIT)
            reader = engine.reader("r", peer="all/out", timeout=LIMIT)
            await asyncio.gather(out.open(), reader.open())
            async with reader, out:
                reading = asyncio.create_task(reader.read(3, LIMIT))
                await out.write([1.0, 2.0, 3.0], LIMIT)
                assert (await reading).tolist() == [1, 2, 3]
                await out.flush("read", LIMIT)

            into = engine.fan_in_reader("all/in", writers=1, timeout=LIMIT)
            writer = engine.writer("w", peer="all/in", timeout=LIMIT)
            await asyncio.gather(into.open(), writer.open())
            async with into, writer:
                run = asyncio.create_task(into.read_run(10, LIMIT))
                await writer.write([4.0], LIMIT)
                assert (await run).url == "tl://localhost/w"

            kept = engine.reader("k", journal=tmp_path / "k", durability="disk", timeout=LIMIT)
            source = engine.writer(
                "s", peer="k", journal=tmp_path / "s", durability="disk", timeout=LIMIT
            )
            await asyncio.gather(kept.open(), source.open())
            async with kept, source:
                await source.write([5.0], LIMIT)
                async with source.reserve(1, LIMIT) as room:
                    room[0] = 6.0
                await source.flush("durable", LIMIT)
                assert (await kept.read(2, LIMIT)).tolist() == [5, 6]

    asyncio.run(asyncio.wait_for(run(), 2 * LIMIT))


def test_threads_share_a_reader(engine: tl.Engine) -> None:
    writer, reader = pair(engine)
    with reader:
        readers = [
            Beside(lambda: sum(float(block.sum()) for block in reader.blocks(7, LIMIT)))
            for _ in range(3)
        ]
        with writer:
            for start in range(0, 7000, 70):
                writer.write(np.arange(start, start + 70.0), LIMIT)
        assert sum(one.result() for one in readers) == sum(range(7000))
