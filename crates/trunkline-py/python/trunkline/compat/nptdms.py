"""The interface of npTDMS for reading, on the reader of Trunkline.

    from trunkline.compat.nptdms import TdmsFile

`TdmsFile.read`, `open` and `read_metadata`, groups, channels, `as_dataframe` and `tdms_file.as_dataframe`
behave as in npTDMS, with these differences: values are read from the disk at each access, as after
`TdmsFile.open`; times have nanoseconds; `data_chunks` yields blocks of equal size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..tdms import TdmsChannel as _Channel
from ..tdms import TdmsFile as _File
from ..tdms import TdmsGroup as _Group

__all__ = ["TdmsFile"]

TdmsGroup = _Group
TdmsChannel = _Channel


class TdmsFile(_File):
    """A TDMS file."""

    @staticmethod
    def read(file: str | os.PathLike[str], **options: Any) -> TdmsFile:
        """Opens a file. The options of npTDMS are accepted and have no effect."""
        return TdmsFile(file)

    @staticmethod
    def open(file: str | os.PathLike[str], **options: Any) -> TdmsFile:
        """Opens a file. The options of npTDMS are accepted and have no effect."""
        return TdmsFile(file)

    @staticmethod
    def read_metadata(file: str | os.PathLike[str], **options: Any) -> TdmsFile:
        """Opens a file. The options of npTDMS are accepted and have no effect."""
        return TdmsFile(file)

    def data_chunks(self, size: int = 1 << 20) -> Iterator[dict[str, dict[str, Any]]]:
        """Yields arrays by group and channel, `size` values of each channel at a time."""
        longest = max((len(one) for group in self.groups() for one in group.channels()), default=0)
        for start in range(0, longest, size):
            yield {
                group.name: {one.name: one.read(start, size) for one in group.channels()}
                for group in self.groups()
            }

    def as_dataframe(
        self, time_index: bool = False, absolute_time: bool = False, scaled_data: bool = True
    ) -> Any:
        """Returns a `pandas.DataFrame` with a column for each channel, named by its path.

        Raises:
            ImportError: The package pandas is not installed.
        """
        channels = [one for group in self.groups() for one in group.channels()]
        names = [one.path for one in channels]
        return _frame(channels, names, time_index, absolute_time, scaled_data)


def group_dataframe(
    group: _Group,
    time_index: bool = False,
    absolute_time: bool = False,
    scaled_data: bool = True,
) -> Any:
    """Returns a `pandas.DataFrame` with a column for each channel of a group, named by the channel."""
    channels = group.channels()
    names = [one.name for one in channels]
    return _frame(channels, names, time_index, absolute_time, scaled_data)


def _frame(
    channels: list[_Channel],
    names: list[str],
    time_index: bool,
    absolute_time: bool,
    scaled_data: bool,
) -> Any:
    import importlib

    pandas: Any = importlib.import_module("pandas")
    columns: dict[str, Any] = {}
    for name, one in zip(names, channels):
        index: Any = one.time_track(absolute_time=absolute_time) if time_index else np.arange(len(one))
        columns[name] = pandas.Series(one.read(scaled=scaled_data), index=index)
    return pandas.DataFrame(columns)
