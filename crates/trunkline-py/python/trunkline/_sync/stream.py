"""Lossless streams."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _process
from .._errors import Closed, Ended, Error, Gap
from .._streams import (
    CAPACITY,
    Left,
    Peer,
    Run,
    StreamProperties,
    Undelivered,
    as_elements,
    options,
    timed_out,
)
from .._trunkline import (
    Call,
    ReadLease,
    WriteLease,
    create_fan_in,
    create_fan_out,
    create_reader,
    create_writer,
)
from .waiting import Waiting

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

MARGIN = 5.0
"""Seconds beyond a timeout that native code respects by itself."""


class Endpoint:
    """What all ends of streams have. An endpoint connects at the start of its `with` block, at `open`,
    or at its first call."""

    def __init__(self, name: str, begin: Callable[[], Call], timeout: float | None) -> None:
        self.name = name
        """Name or URL of this endpoint."""
        self._begin = begin
        self._timeout = timeout
        self._native: Any = None
        self._waiting = Waiting()
        self._is_closed = False
        self._generation = _process.forks()

    def open(self) -> None:
        """Creates the endpoint, and waits until it is connected to its peer (NS-12).

        Raises:
            TimedOut: No peer has connected in time; the message has the cause.
            Disconnected: The engine of this machine, which keeps the names, does not answer.
            Denied: The account must not use the stream.
            Error: The name is taken, the peer has another type or direction, or there is no memory;
                `code` says which.
        """
        self._end()

    def _end(self) -> Any:
        if self._generation != _process.forks():
            raise Error(
                "this end of the stream belongs to the parent process",
                name=self.name,
                hint="create another one in the process that was forked",
                code="forked",
            )
        self._check_open()
        if self._native is None:
            limit = math.inf if self._timeout is None else self._timeout + MARGIN
            created = self._waiting.call(self._begin(), limit)
            # It may have been closed meanwhile.
            self._check_open()
            self._native = created
        return self._native

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(
                "this end of the stream was closed by this program",
                name=self.name,
                hint="create it again",
                code="closed",
            )

    def _finish(self, begin: Callable[[Any], Call], timeout: float | None) -> Any:
        """Closes the endpoint. Returns the answer; `None` if it was closed before or never opened."""
        if self._is_closed:
            return None
        self._is_closed = True
        if self._generation != _process.forks():
            return None
        if self._native is None:
            self._waiting.stop()
            return None
        call = begin(self._native)
        self._waiting.interrupt()
        try:
            return self._waiting.call(call, math.inf if timeout is None else timeout + MARGIN)
        finally:
            self._waiting.stop()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements. The endpoint must be open."""
        return self._opened().dtype

    @property
    def available(self) -> int:
        """Number of elements that can be read, those of a lease included, or for which there is room. 0
        before `open`."""
        return 0 if self._native is None else self._native.available

    @property
    def connected(self) -> bool:
        """True while the two ends are connected. Connections are restored automatically."""
        return self._native is not None and self.properties.connected

    @property
    def disconnections(self) -> int:
        """Number of times that the connection was lost, or ended with its stream (NS-53)."""
        return 0 if self._native is None else self.properties.disconnections

    @property
    def properties(self) -> StreamProperties:
        """The state of the endpoint at this moment. Works while another thread uses it, and after
        `close`. The endpoint must have been open."""
        return StreamProperties(**self._opened().properties)

    def _opened(self) -> Any:
        if self._native is None:
            raise Error(
                "this end of the stream is not open yet",
                name=self.name,
                hint="use it in a `with` block, or call open()",
                code="not-open",
            )
        return self._native

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open" if self._native is not None else "not open"
        return f"{type(self).__name__}({self.name!r}, {state})"


class Writer(Endpoint):
    """The writer of a stream with one reader; made by `writer` of an engine object.

    Elements stay in the writer's buffer until they have arrived in the reader's buffer, across lost
    connections. At the end of its `with` block, the writer waits up to 10 s until the reader has received
    everything; otherwise it raises `Gap`, or keeps the rest if it has a journal. If the block raises, the
    writer aborts the stream, and the reader learns that it is incomplete.
    """

    def write(self, elements: Any, timeout: float | None = None) -> None:
        """Writes all elements, or none (NS-30).

        Args:
            elements: Array of shape (n,) with the dtype of the stream, contiguous. Other sequences are
                converted if nothing of them is lost.
            timeout: Seconds to wait for room; with `None`, without limit.

        Raises:
            TimedOut: There was no room in time; nothing was written.
            TypeError, ValueError: The array has another dtype, shape, byte order or stride.
            Closed: The reader was closed, or this writer.
            Gap: The reader has lost its data, or is gone.
            Error: `elements` never fit into the buffer; `code` is "capacity".
        """
        end = self._end()
        array = as_elements(elements, end.dtype)
        done = self._waiting.attempt(
            lambda seconds: end.write(array, seconds),
            lambda: end.begin_write(array),
            timeout,
            tries_first=not end.has_journal,
        )
        if done is None:
            what = f"there was no room for {len(array)} elements"
            raise timed_out(self.name, what, timeout, "nothing was written; write again later")

    def write_one(self, element: Any, timeout: float | None = None) -> None:
        """Writes one element: a number, `bool`, nanoseconds of a timestamp, or a `dict` of a struct.

        Raises:
            Error: As `write`.
            TypeError, OverflowError: `element` is not of the stream's type.
        """
        end = self._end()
        done = self._waiting.attempt(
            lambda seconds: end.write_one(element, seconds),
            lambda: end.begin_write_one(element),
            timeout,
            tries_first=not end.has_journal,
        )
        if done is None:
            hint = "nothing was written; write again later"
            raise timed_out(self.name, "there was no room for an element", timeout, hint)

    def reserve(self, count: int, timeout: float | None = None) -> Reservation:
        """Lends room for `count` elements in the memory from which they are sent.

            with writer.reserve(1000) as room:
                np.sin(phase, out=room)

        The elements are written at the end of the block, or not at all if it raises. `room` is empty
        then. Until then, no other call can use the writer.

        Raises:
            TimedOut: There was no room in time.
        """
        return Reservation(lambda: self._reserve(count, timeout), count)

    def _reserve(self, count: int, timeout: float | None) -> WriteLease:
        end = self._end()
        lease = self._waiting.attempt(
            lambda seconds: end.reserve(count, seconds), lambda: end.begin_room(count), timeout
        )
        if lease is None:
            what = f"there was no room for {count} elements"
            raise timed_out(self.name, what, timeout, "nothing was written; try again later")
        return lease

    def flush(self, until: str = "received", timeout: float | None = None) -> None:
        """Sends all written elements now, and waits for the reader (NS-42 to NS-44).

        Args:
            until: "sent": the elements were handed to the network. "received": the reader can read
                them. "read": it has read them. "durable": they are in the reader's journal.
            timeout: Seconds to wait; with `None`, without limit. With 0 it does not wait (NS-49).

        Raises:
            TimedOut: They have not reached the stage; flushing continues.
            Error: The reader has no journal, for "durable"; `code` is "journal".
        """
        end = self._end()
        done = self._waiting.attempt(
            lambda seconds: end.flush(until, seconds),
            lambda: end.begin_flush(until),
            timeout,
            tries_first=timeout == 0,
        )
        if done is None:
            what = f"not all elements were {until}"
            raise timed_out(self.name, what, timeout, "flushing continues; look at the reader")

    def close(self, timeout: float | None = 10.0) -> Left:
        """Ends the stream: waits until the reader has received everything.

        Args:
            timeout: Seconds to wait. The rest is discarded then, and the reader is told; with a journal,
                it is kept for the next writer.

        Returns:
            What was not delivered; zeros if everything was, or if the writer was closed before.
        """
        left = self._finish(lambda end: end.begin_close(timeout), timeout)
        return Left(0, 0) if left is None else Left(*left)

    def abort(self, reason: str = "the writer's program aborted the stream") -> Left:
        """Ends the stream at once. The reader gets `Gap` with the reason after what has arrived (NS-45)."""
        left = self._finish(lambda end: end.begin_abort(reason), 1.0)
        return Left(0, 0) if left is None else Left(*left)

    def suspend(self) -> None:
        """Leaves the stream to the next writer with this name and journal. Without a journal, this is
        `close`."""
        if self._native is not None and not self._native.has_journal:
            self.close()
        self._finish(lambda end: end.begin_suspend(), 1.0)

    def __enter__(self) -> Writer:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        has_journal = self._native is not None and self._native.has_journal
        if kind is None:
            left = self.close()
            if left.elements > 0 and not has_journal:
                raise Gap(
                    f"the reader did not receive the last {left.elements} elements in time",
                    name=self.name,
                    hint="call close with a longer timeout before the end of the block",
                    code="not-received",
                )
        elif has_journal:
            self.suspend()
        else:
            self.abort(f"the writer's program has failed: {kind.__name__}: {error}")


class Reservation:
    """Room in the memory of a writer, in a `with` block."""

    def __init__(self, reserve: Callable[[], Any], count: int) -> None:
        self._reserve = reserve
        self._count = count
        self._lease: WriteLease | None = None
        self._room: NDArray[Any] | None = None

    def __enter__(self) -> NDArray[Any]:
        lease: WriteLease = self._reserve()
        room = lease.array()
        self._lease, self._room = lease, room
        return room

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lease, room = self._lease, self._room
        self._lease = self._room = None
        if lease is None or room is None:
            return
        if kind is not None:
            lease.release(room)
            return
        # Only a journal makes this wait.
        while not lease.commit(room, self._count, 0.1):
            pass


class Reader(Endpoint):
    """The reader of a stream with one writer; made by `reader` of an engine object.

    After the last element, calls raise `Ended`.
    """

    def read(self, count: int, timeout: float | None = None) -> NDArray[Any]:
        """Reads `count` elements, or none (NS-30).

        Args:
            count: Number of elements.
            timeout: Seconds to wait for them; with `None`, without limit.

        Returns:
            New array of shape (count,). It is shorter at the end of the stream (NS-48), and before
            elements that the writer has dropped.

        Raises:
            TimedOut: They did not arrive in time; nothing was read.
            Ended: The writer was closed, and everything was read.
            Gap: Elements are missing here, with `code` "lost", and the next call continues after them;
                or the writer was aborted, restarted or is gone, and the stream is over.
            Closed: This reader was closed.
        """
        end = self._end()
        array = self._waiting.attempt(
            lambda seconds: end.read(count, seconds), lambda: end.begin_ready(count), timeout
        )
        if array is None:
            raise self._not_arrived(count, timeout)
        return array

    def read_into(self, buffer: NDArray[Any], timeout: float | None = None) -> int:
        """Reads as many elements as `buffer` has, or none, without allocating memory.

        Args:
            buffer: Array of shape (n,) with the dtype of the stream, contiguous and writeable.
            timeout: Seconds to wait for them; with `None`, without limit.

        Returns:
            Number of elements read, from the beginning of `buffer`. Smaller than n only as for `read`.

        Raises:
            TimedOut, Ended, Gap, Closed: As `read`.
            TypeError, ValueError: The array has another dtype, shape, byte order or stride, or is
                read-only.
        """
        end = self._end()
        count = self._waiting.attempt(
            lambda seconds: end.read_into(buffer, seconds),
            lambda: end.begin_ready(len(buffer)),
            timeout,
        )
        if count is None:
            raise self._not_arrived(len(buffer), timeout)
        return count

    def read_available(self) -> NDArray[Any]:
        """Reads all elements that have arrived, without waiting (NS-36).

        Returns:
            New array of shape (n,); n can be 0.

        Raises:
            Ended, Gap, Closed: As `read`.
        """
        return (self._end()).read_available()

    def blocks(self, count: int, timeout: float | None = None) -> Iterator[NDArray[Any]]:
        """Yields arrays of `count` elements until the stream has ended; the last one may be shorter.

        Raises:
            TimedOut, Gap, Closed: As `read`.
        """
        while True:
            try:
                block = self.read(count, timeout)
            except Ended:
                return
            yield block

    def acquire(self, count: int, timeout: float | None = None) -> StreamLease:
        """Lends the next `count` elements, without copying them.

            with reader.acquire(1000) as view:
                print(view.mean())

        The view is an array of shape (count,) that cannot be written; shorter as for `read`. The
        elements count as read at the end of the block: the view is empty then, and slices of it show
        other elements, so copy what is needed later. Until then, no other call can use the reader.

        Raises:
            TimedOut, Ended, Gap, Closed: As `read`, at the start of the block.
        """
        return StreamLease(lambda: self._acquire(count, timeout))

    def _acquire(self, count: int, timeout: float | None) -> ReadLease:
        end = self._end()
        lease = self._waiting.attempt(
            lambda seconds: end.acquire(count, seconds), lambda: end.begin_ready(count), timeout
        )
        if lease is None:
            raise self._not_arrived(count, timeout)
        return lease

    def commit(self) -> None:
        """Declares that everything read so far was processed. With a journal, it is not delivered again
        after a crash."""
        (self._end()).commit()

    @property
    def lost(self) -> int:
        """Number of elements that a writer with several readers has dropped for this reader."""
        return self._opened().lost

    def close(self) -> None:
        """Closes the reader. Without a journal, the writer learns how far the stream was read, and gets
        `Closed`. With a journal, the next reader continues the stream."""
        self._finish(lambda end: end.begin_close(False), None)

    def destroy(self) -> None:
        """As `close` without a journal: ends the stream, and empties the journal."""
        self._finish(lambda end: end.begin_close(True), None)

    def _not_arrived(self, count: int, timeout: float | None) -> Exception:
        what = f"{count} elements did not arrive"
        return timed_out(self.name, what, timeout, "nothing was read; look at the writer")

    def __enter__(self) -> Reader:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class StreamLease:
    """Elements in the memory of a reader, in a `with` block."""

    def __init__(self, acquire: Callable[[], Any]) -> None:
        self._acquire = acquire
        self._lease: ReadLease | None = None
        self._view: NDArray[Any] | None = None

    def __enter__(self) -> NDArray[Any]:
        lease: ReadLease = self._acquire()
        view = lease.array()
        self._lease, self._view = lease, view
        return view

    def release(self) -> None:
        """Ends the lease before the end of the block. Ending it twice does nothing."""
        lease, view = self._lease, self._view
        self._lease = self._view = None
        if lease is not None and view is not None:
            lease.release(view)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class FanOutWriter(Endpoint):
    """A writer with any number of readers, each of which gets all elements; made by `fan_out_writer`.

    The readers are ordinary readers that name this endpoint as their peer.
    """

    def write(self, elements: Any, timeout: float | None = None) -> None:
        """Writes all elements for all readers, or none; see `write` of a writer.

        Raises:
            TimedOut: The slowest reader made no room, or there is no reader; nothing was written.
        """
        end = self._end()
        array = as_elements(elements, end.dtype)
        done = self._waiting.attempt(
            lambda seconds: end.write(array, seconds), lambda: end.begin_write(array), timeout
        )
        if done is None:
            what = f"there was no room for {len(array)} elements"
            raise timed_out(self.name, what, timeout, "nothing was written; look at the readers")

    def flush(self, until: str = "received", timeout: float | None = None) -> None:
        """As `flush` of a writer, for all readers that are there."""
        end = self._end()
        done = self._waiting.attempt(
            lambda seconds: end.flush(until, seconds),
            lambda: end.begin_flush(until),
            timeout,
            tries_first=timeout == 0,
        )
        if done is None:
            what = f"not all elements were {until} at every reader"
            raise timed_out(self.name, what, timeout, "flushing continues; look at the readers")

    def readers(self) -> list[Peer]:
        """Returns the readers that are connected or may come back."""
        return [Peer(*row) for row in self._opened().readers()]

    def departed(self) -> list[Undelivered]:
        """Returns the readers that have left since the last call, at most 64."""
        return [Undelivered(*row) for row in self._opened().departed()]

    def close(self, timeout: float | None = 10.0) -> list[Undelivered]:
        """Ends the stream: waits until all readers have received everything.

        Returns:
            What each reader that is still there has not received.
        """
        rows = self._finish(lambda end: end.begin_close(timeout), timeout)
        return [] if rows is None else [Undelivered(*row) for row in rows]

    def abort(
        self, reason: str = "the writer's program aborted the stream"
    ) -> list[Undelivered]:
        """Ends the stream at once. The readers get `Gap` with the reason after what has arrived."""
        rows = self._finish(lambda end: end.begin_abort(reason), 1.0)
        return [] if rows is None else [Undelivered(*row) for row in rows]

    def __enter__(self) -> FanOutWriter:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort(f"the writer's program has failed: {kind.__name__}: {error}")


class FanInReader(Endpoint):
    """A reader with any number of writers; made by `fan_in_reader`.

    The writers are ordinary writers that name this endpoint as their peer. Elements of one writer are
    in order; those of different writers are not ordered. The reader never ends by itself.
    """

    def read_run(self, limit: int, timeout: float | None = None) -> Run:
        """Reads up to `limit` elements of one writer. Writers take turns.

        Returns:
            Elements, or once the end of the stream of a writer, after its last element.

        Raises:
            TimedOut: Nothing arrived in time.
        """
        end = self._end()
        run = self._waiting.attempt(
            lambda seconds: end.read_run(limit, seconds), lambda: end.begin_read_run(limit), timeout
        )
        if run is None:
            hint = "nothing was read; look at the writers"
            raise timed_out(self.name, "no elements arrived", timeout, hint)
        return Run(*run)

    def writers(self) -> list[Peer]:
        """Returns the writers that are connected or may come back, or have elements left to read."""
        return [Peer(*row) for row in self._opened().writers()]

    def close(self) -> None:
        """Closes the reader. Each writer learns how far its stream was read."""
        self._finish(lambda end: end.begin_close(), None)

    def __enter__(self) -> FanInReader:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Streams:
    """Creates the ends of streams."""

    def _stream_engine(self) -> tuple[str | None, int | None]:
        """Returns the URL of the engine, and the port of an engine in this process."""
        return None, None

    def writer(
        self,
        name: str,
        dtype: DTypeLike = "f64",
        *,
        peer: str | None = None,
        buffer: int = CAPACITY,
        journal: str | os.PathLike[str] | None = None,
        journal_size: int | None = None,
        durability: str = "process",
        gone_after: float | None = None,
        insecure: bool = False,
        timeout: float | None = None,
    ) -> Writer:
        """Returns the writer of a stream. It connects at the start of its `with` block.

        Args:
            name: Name of this endpoint, such as "daq/raw", or a URL with a port of its own, such as
                "tl://localhost:5900/daq/raw", which needs no engine.
            dtype: Type of the elements: a Trunkline type as text, such as "f64" or
                "struct(t: timestamp, volts: f64)", or a NumPy dtype object. Text is never a NumPy name:
                "i8" has 8 bits.
            peer: Name or URL of the reader, if this end opens the connection. One of the two ends must
                name the other.
            buffer: Capacity of the writer's buffer in elements.
            journal: Folder that keeps the elements when the program stops; see the guide to streams.
            journal_size: Limit of the journal in bytes.
            durability: What written elements survive with a journal: "process", the end of the program;
                "disk", also a crash of the machine.
            gone_after: Seconds that a disconnected reader may be away; with `None`, without limit.
            insecure: Permits connections to other machines that are not encrypted.
            timeout: Seconds to wait for the reader at the start; with `None`, without limit.
        """
        engine, port = self._stream_engine()
        given = options(
            engine=engine,
            port=port,
            peer=peer,
            buffer=buffer,
            gone_after=gone_after,
            timeout=timeout,
            journal=journal,
            journal_size=journal_size,
            durability=durability,
            insecure=insecure,
        )
        return Writer(name, lambda: create_writer(name, dtype, given), timeout)

    def reader(
        self,
        name: str,
        dtype: DTypeLike = "f64",
        *,
        peer: str | None = None,
        buffer: int = CAPACITY,
        journal: str | os.PathLike[str] | None = None,
        journal_size: int | None = None,
        durability: str = "process",
        gone_after: float | None = None,
        insecure: bool = False,
        timeout: float | None = None,
    ) -> Reader:
        """Returns the reader of a stream. It connects at the start of its `with` block.

        Args:
            name, dtype, buffer, journal, journal_size, durability, insecure: As for `writer`.
            peer: Name or URL of the writer, if this end opens the connection.
            gone_after: Seconds that a disconnected writer may be away; with `None`, without limit.
            timeout: Seconds to wait for the writer at the start; with `None`, without limit.
        """
        engine, port = self._stream_engine()
        given = options(
            engine=engine,
            port=port,
            peer=peer,
            buffer=buffer,
            gone_after=gone_after,
            timeout=timeout,
            journal=journal,
            journal_size=journal_size,
            durability=durability,
            insecure=insecure,
        )
        return Reader(name, lambda: create_reader(name, dtype, given), timeout)

    def fan_out_writer(
        self,
        name: str,
        dtype: DTypeLike = "f64",
        *,
        readers: int = 1,
        readers_max: int = 64,
        quota: int | None = None,
        buffer: int = CAPACITY,
        gone_after: float | None = None,
        insecure: bool = False,
        timeout: float | None = None,
    ) -> FanOutWriter:
        """Returns a writer with any number of readers, which name it as their peer.

        Args:
            name, dtype, buffer, gone_after, insecure, timeout: As for `writer`.
            readers: Number of readers to wait for at the start. Each of these gets all elements.
            readers_max: Largest number of readers at a time.
            quota: With a number, the writer waits for no reader: a reader that is further behind loses
                the oldest elements, and its calls raise `Gap` with their number. With `None`, the writer
                waits for the slowest reader.
        """
        engine, port = self._stream_engine()
        given = options(
            engine=engine,
            port=port,
            peer=None,
            buffer=buffer,
            gone_after=gone_after,
            timeout=timeout,
            insecure=insecure,
        )
        return FanOutWriter(
            name,
            lambda: create_fan_out(name, dtype, given, readers, readers_max, quota),
            timeout,
        )

    def fan_in_reader(
        self,
        name: str,
        dtype: DTypeLike = "f64",
        *,
        writers: int = 1,
        writers_max: int = 64,
        buffer: int = CAPACITY,
        gone_after: float | None = None,
        insecure: bool = False,
        timeout: float | None = None,
    ) -> FanInReader:
        """Returns a reader with any number of writers, which name it as their peer.

        Args:
            name, dtype, gone_after, insecure, timeout: As for `reader`.
            writers: Number of writers to wait for at the start.
            writers_max: Largest number of writers at a time.
            buffer: Capacity of the buffer for each writer, in elements.
        """
        engine, port = self._stream_engine()
        given = options(
            engine=engine,
            port=port,
            peer=None,
            buffer=buffer,
            gone_after=gone_after,
            timeout=timeout,
            insecure=insecure,
        )
        return FanInReader(
            name,
            lambda: create_fan_in(name, dtype, given, writers, writers_max),
            timeout,
        )
