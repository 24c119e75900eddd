"""The interface of npTDMS for reading, on the reader of Trunkline.

    from trunkline.compat.nptdms import TdmsFile

`TdmsFile.read`, `open` and `read_metadata`, groups, channels and `as_dataframe` behave as in npTDMS, with
these differences: values are read from the disk at each access, as after `TdmsFile.open`; times have
nanoseconds; `data_chunks` yields arrays of equal size, without offsets. `as_hdf`, `raw_scaler_data` and
`tdms_version` do not exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ..tdms import TdmsChannel as _Channel
from ..tdms import TdmsFile as _File
from ..tdms import TdmsGroup as _Group

__all__ = ["TdmsChannel", "TdmsFile", "TdmsGroup"]

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
