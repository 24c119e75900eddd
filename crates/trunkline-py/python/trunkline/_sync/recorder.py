"""Records variables into TDMS files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from .. import _process
from .._errors import Error, NotFound, TimedOut
from .._recorder import RecorderStatus, byte_count
from .._trunkline import Connection
from .waiting import beside, monotonic, pause

PERIOD = 0.05
"""Seconds between two looks at the state of a recording."""


class Recorder:
    """A recording in progress; made by `record` of an engine object. It ends with its `with` block.

    A variable is a group in the file, with the channels `time`, `value` and `quality`. Lost updates are
    counted, and are marked in the file.
    """

    def __init__(
        self,
        connection: Connection,
        path: str | os.PathLike[str],
        names: Sequence[str],
        *,
        excluded: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        preallocate: int | str = 0,
        contract: str = "all",
        write_every: float = 1.0,
        checksums: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self._generation = _process.forks()
        self._recorder = connection.record(
            {
                "path": self.path,
                "names": list(names),
                "excluded": list(excluded),
                "contract": contract,
                "write_every": write_every,
                "has_sums": checksums,
                "properties": dict(properties or {}),
                "preallocate": byte_count(preallocate),
            }
        )

    @property
    def status(self) -> RecorderStatus:
        """The state of the recording: at this moment, or at its end."""
        return RecorderStatus(**self._recorder.status)

    @property
    def samples(self) -> int:
        """Number of updates that were recorded; the last ones are in memory until they are written."""
        return self.status.samples

    @property
    def bytes_written(self) -> int:
        """Size of the file in bytes."""
        return self.status.bytes

    @property
    def lost(self) -> int:
        """Number of updates that are missing. The file says where."""
        return self.status.lost

    def wait(self, samples: int = 0, timeout: float | None = None) -> RecorderStatus:
        """Waits until the recording follows all variables, and the file has this number of updates.

        Args:
            samples: Number of updates in the file, which survive the end of this program.
            timeout: Seconds to wait; with `None`, without limit.

        Raises:
            TimedOut: They were not recorded in time; the recording goes on.
            Error: The file cannot be written; `code` is "file".
        """
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            status = self.status
            if status.error is not None:
                raise self._failure(status.error)
            if status.following and status.in_file >= samples:
                return status
            if deadline is not None and monotonic() >= deadline:
                raise TimedOut(
                    f"{status.in_file} of {samples} updates were recorded within {timeout:g} s",
                    name=self.path,
                    hint="the recording goes on; see status.unmatched and status.refused",
                    code="timed-out",
                )
            pause(PERIOD)

    def stop(self) -> RecorderStatus:
        """Ends the recording: writes all updates that the engine had, and then the properties.

        Raises:
            Error: The file cannot be written; `code` is "file".
            NotFound: No variable has matched. There is no file then.
        """
        if self._generation != _process.forks():
            raise Error(
                "this recording belongs to the parent process",
                name=self.path,
                hint="stop it there",
                code="forked",
            )
        status = RecorderStatus(**beside(self._recorder.stop))
        if status.error is not None:
            raise self._failure(status.error)
        if status.variables == 0:
            if status.refused:
                name, reason = status.refused[0]
                raise Error(reason, name=name, hint="nothing was recorded", code="refused")
            raise NotFound(
                "no variable has matched, so nothing was recorded",
                name=self.path,
                hint="find() lists the variables",
                code="no-match",
            )
        return status

    def _failure(self, reason: str) -> Error:
        return Error(reason, name=self.path, code="file")

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
        elif self._generation == _process.forks():
            # The exception of the block says more than one about the file.
            beside(self._recorder.stop)
