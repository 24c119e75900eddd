"""TDMS files: reading piece by piece, and writing.

    with tl.open_tdms("run42.tdms") as file:
        channel = file["daq"]["ai0"]
        head = channel[:1000]
        for block in channel.blocks(1 << 20):
            ...

The classes have the shape of those of npTDMS. A file is opened by reading its metadata only; values are
read from the disk when they are asked for, and nothing else is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from ._optional import optional
from ._trunkline import TdmsChannelInfo, TdmsFileWriter, TdmsReader

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TdmsChannel", "TdmsFile", "TdmsGroup", "TdmsWriter", "open_tdms", "write_tdms"]

F = TypeVar("F", bound="TdmsFile")

BLOCK = 1 << 20
"""Number of values of a block, unless the program sets another one."""


class TdmsChannel:
    """A channel of a TDMS file."""

    def __init__(self, file: TdmsFile, info: TdmsChannelInfo) -> None:
        self._file = file
        self._info = info
        self.name = info.name
        self.group_name = info.group

    @property
    def path(self) -> str:
        """Path of the channel in the file, such as "/'daq'/'ai0'"."""
        return "/" + "/".join(
            "'" + part.replace("'", "''") + "'" for part in (self.group_name, self.name)
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values that are read, after scaling. Text has the dtype `object`."""
        return self._info.dtype

    @property
    def raw_dtype(self) -> np.dtype[Any]:
        """The dtype of the numbers in the file, before scaling."""
        return self._info.raw_dtype

    @property
    def data_type(self) -> str:
        """Type of the values in the file, such as "f64", "string" or "DAQmx"."""
        return self._info.data_type

    @property
    def scale_error(self) -> str | None:
        """Why the scales of the channel cannot be computed, so that raw numbers are read."""
        return self._info.scale_error

    @property
    def properties(self) -> dict[str, Any]:
        """Properties by name. Times are `numpy.datetime64`, in UTC."""
        return self._file.native.properties(self.group_name, self.name)

    @property
    def data(self) -> NDArray[Any]:
        """All values: a new array at each access, of shape (n,)."""
        return self[:]

    def read(
        self, offset: int = 0, length: int | None = None, *, scaled: bool = True
    ) -> NDArray[Any]:
        """Reads values from the disk.

        Args:
            offset: Number of the first value, from 0.
            length: Largest number of values; with `None`, all that follow.
            scaled: Engineering values; otherwise the numbers in the file.

        Returns:
            New array of shape (n,). Text is `str` in an array of objects. Times are `datetime64[ns]`, UTC.

        Raises:
            ValueError: `offset` or `length` is negative.
            Error: The file is damaged there; `code` is "damaged".
            Closed: The file was closed.
        """
        if offset < 0 or (length is not None and length < 0):
            raise ValueError("offset and length of values are not negative; use channel[-n:] instead")
        count = len(self) if length is None else length
        return self._file.native.read(self.group_name, self.name, offset, count, scaled)

    def read_data(
        self, offset: int = 0, length: int | None = None, scaled: bool = True
    ) -> NDArray[Any]:
        """As `read`; the name in npTDMS."""
        return self.read(offset, length, scaled=scaled)

    @property
    def raw_data(self) -> NDArray[Any]:
        """All numbers in the file, before scaling: a new array at each access."""
        return self.read(scaled=False)

    def as_dataframe(
        self, time_index: bool = False, absolute_time: bool = False, scaled_data: bool = True
    ) -> Any:
        """Returns a `pandas.DataFrame` with one column, named by the path; see that of a file."""
        return _frame([self], [self.path], time_index, absolute_time, scaled_data)

    def blocks(self, size: int = BLOCK, *, scaled: bool = True) -> Iterator[NDArray[Any]]:
        """Yields all values in arrays of `size` values; the last one may be shorter."""
        if size < 1:
            raise ValueError("a block has at least one value")
        for start in range(0, len(self), size):
            yield self.read(start, size, scaled=scaled)

    def data_chunks(self, size: int = BLOCK) -> Iterator[NDArray[Any]]:
        """Yields the scaled values in arrays of at most `size`, as `blocks`; for programs that know npTDMS."""
        return self.blocks(size)

    def time_track(self, *, absolute_time: bool = False) -> NDArray[Any]:
        """Returns the time of each value, from the properties `wf_...`.

        Args:
            absolute_time: `datetime64[ns]` in UTC, instead of seconds since the start.

        Raises:
            KeyError: The channel has no property `wf_increment`, or no start.
        """
        if self._info.waveform is None:
            raise KeyError(f"{self.path} has no property wf_increment, so the times are unknown")
        start, offset, increment = self._info.waveform
        seconds = offset + np.arange(len(self)) * increment
        if not absolute_time:
            return seconds
        if start is None:
            raise KeyError(f"{self.path} has no property wf_start_time, so the start is unknown")
        return np.datetime64(start, "ns") + np.round(seconds * 1e9).astype("timedelta64[ns]")

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> NDArray[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Reads one value, or those of a slice; nothing else is read from the disk."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self.read(start, max(stop - start, 0))
            numbers = range(start, stop, step)
            if not numbers:
                return self.read(0, 0)
            first, last = min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])
            values = self.read(first, last - first + 1)
            return np.ascontiguousarray(values[::step] if step > 0 else values[::-1][::-step])
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"{self.path} has {len(self)} values, so there is no number {index}")
        return self.read(position, 1)[0]

    def __len__(self) -> int:
        return self._info.count

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield from block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def __repr__(self) -> str:
        return f"TdmsChannel({self.path}, {len(self)} values of {self.dtype})"


class TdmsGroup(Mapping[str, TdmsChannel]):
    """A group of channels, by name."""

    def __init__(self, file: TdmsFile, name: str, channels: dict[str, TdmsChannel]) -> None:
        self._file = file
        self._channels = channels
        self.name = name

    @property
    def properties(self) -> dict[str, Any]:
        """Properties by name."""
        return self._file.native.properties(self.name)

    def channels(self) -> list[TdmsChannel]:
        """Returns the channels in the order of the file."""
        return list(self._channels.values())

    def as_dataframe(
        self, time_index: bool = False, absolute_time: bool = False, scaled_data: bool = True
    ) -> Any:
        """Returns a `pandas.DataFrame` with a column for each channel, named by it; see that of a file."""
        channels = self.channels()
        names = [one.name for one in channels]
        return _frame(channels, names, time_index, absolute_time, scaled_data)

    def __getitem__(self, name: str) -> TdmsChannel:
        try:
            return self._channels[name]
        except KeyError:
            raise KeyError(f"the group {self.name!r} has no channel {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._channels)

    def __len__(self) -> int:
        return len(self._channels)

    def __repr__(self) -> str:
        return f"TdmsGroup({self.name!r}, {len(self)} channels)"


class TdmsFile(Mapping[str, TdmsGroup]):
    """A TDMS file, by the names of its groups; made by `open_tdms`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.native = TdmsReader.open(self.path)
        """Used by the groups and channels."""
        self._groups: dict[str, TdmsGroup] = {}
        self._list()

    def _list(self) -> None:
        channels: dict[str, dict[str, TdmsChannel]] = {name: {} for name in self.native.groups()}
        for info in self.native.channels():
            channels.setdefault(info.group, {})[info.name] = TdmsChannel(self, info)
        self._groups = {name: TdmsGroup(self, name, of) for name, of in channels.items()}

    def refresh(self) -> None:
        """Reads the metadata again, for a file that is being written. Groups and channels that were
        looked up before keep their old length."""
        self.native.refresh()
        self._list()

    @property
    def properties(self) -> dict[str, Any]:
        """Properties of the file by name."""
        return self.native.properties()

    @property
    def findings(self) -> list[str]:
        """What is wrong with the file, as sentences; empty if it is sound. A file that is being written
        may end with an incomplete segment."""
        return self.native.findings()

    def groups(self) -> list[TdmsGroup]:
        """Returns the groups in the order of the file."""
        return list(self._groups.values())

    def as_dataframe(
        self, time_index: bool = False, absolute_time: bool = False, scaled_data: bool = True
    ) -> Any:
        """Returns a `pandas.DataFrame` with a column for each channel, named by its path.

        Args:
            time_index: The rows have the times of the values; see `time_track`.
            absolute_time: These are times in UTC.
            scaled_data: Engineering values; otherwise the numbers in the file.

        Raises:
            ImportError: The package pandas is not installed.
        """
        channels = [one for group in self.groups() for one in group.channels()]
        names = [one.path for one in channels]
        return _frame(channels, names, time_index, absolute_time, scaled_data)

    def close(self) -> None:
        """Closes the file. Arrays that were read stay valid."""
        self.native.close()

    def __getitem__(self, name: str) -> TdmsGroup:
        try:
            return self._groups[name]
        except KeyError:
            raise KeyError(f"{self.path} has no group {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __enter__(self: F) -> F:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.native.is_closed else ""
        return f"TdmsFile({self.path!r}, {len(self)} groups{state})"


class TdmsWriter:
    """Writes a new TDMS file, piece by piece.

        with tl.TdmsWriter("run42.tdms", properties={"dut": "A17"}) as file:
            file.write({"daq": {"ai0": volts, "ai1": amps}})

    Args:
        path: The file.
        properties: Properties of the file: numbers, `bool`, `str` or `numpy.datetime64`.
        replace: An existing file may be replaced.

    Raises:
        FileExistsError: The file exists.
        OSError: The file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        properties: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> None:
        self._native = TdmsFileWriter.create(os.fspath(path), replace)
        self._rows: list[tuple[str | None, str | None, dict[str, Any], Any]] = []
        self.set(properties or {})

    def set(
        self, properties: Mapping[str, Any], group: str | None = None, channel: str | None = None
    ) -> None:
        """Sets properties of the file, a group or a channel. They are written with the next values, or by
        `close`."""
        self._rows.append((group, channel, dict(properties), None))

    def write(self, groups: Mapping[str, Mapping[str, Any]]) -> int:
        """Appends values to channels, which are created if they are new.

        Args:
            groups: Arrays of shape (n,) by group and channel: numbers, `bool`, complex numbers,
                `datetime64`, or text. The dtype of a channel does not change.

        Returns:
            Number of bytes written.

        Raises:
            TypeError, ValueError: A value is none that a TDMS file can have, or has another dtype.
            OSError: The disk is full, or the file cannot be written.
        """
        rows = self._rows
        for group, channels in groups.items():
            rows = rows + [(group, name, {}, values) for name, values in channels.items()]
        written = self._native.write(rows)
        self._rows = []
        return written

    def close(self) -> None:
        """Writes what is left to the disk and closes the file."""
        if self._rows:
            self.write({})
        self._native.close()

    def __enter__(self) -> TdmsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_tdms(path: str | os.PathLike[str]) -> TdmsFile:
    """Opens a TDMS file, also while it is being written.

    Raises:
        FileNotFoundError, OSError: The file cannot be opened.
        Error: It is no TDMS file; `code` is "not-tdms".
    """
    return TdmsFile(path)


def write_tdms(
    path: str | os.PathLike[str],
    groups: Mapping[str, Mapping[str, Any]],
    *,
    properties: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> int:
    """Writes a TDMS file at once; see `TdmsWriter`.

    Returns:
        Number of bytes written.
    """
    with TdmsWriter(path, properties=properties, replace=replace) as file:
        return file.write(groups)


def _frame(
    channels: list[TdmsChannel],
    names: list[str],
    time_index: bool,
    absolute_time: bool,
    scaled_data: bool,
) -> Any:
    # Only programs that ask for a data frame need the package.
    pandas: Any = optional("pandas")
    columns: dict[str, Any] = {}
    for name, one in zip(names, channels):
        index: Any = one.time_track(absolute_time=absolute_time) if time_index else np.arange(len(one))
        columns[name] = pandas.Series(one.read(scaled=scaled_data), index=index)
    return pandas.DataFrame(columns)
