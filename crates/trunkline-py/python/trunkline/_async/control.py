"""Control of folders."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from .._errors import Error, TimedOut
from .._records import ControlEntry
from .requests import AsyncRequests
from .waiting import monotonic

FOLLOW_S = 5.0
"""Longest time in seconds that one request waits for a change."""


class AsyncControl:
    """Control of a folder; made by `control` of an engine object.

    While it is held, the engine refuses writes by other clients to the variables in the folder. It ends with
    the connection, when its time has passed, or when a supervisor takes it; the engine does not give it back
    automatically.
    """

    def __init__(
        self,
        requests: AsyncRequests,
        folder: str,
        level: str,
        only_this_program: bool,
        seconds: float | None,
    ) -> None:
        self._requests = requests
        self._level = level
        self._only_this_program = only_this_program
        self._seconds = seconds
        self.folder = folder
        """The folder, such as "boiler" or "boiler/pump"."""

    async def take(self, timeout: float | None = None) -> ControlEntry:
        """Takes control now.

        Raises:
            Rejected: Another client has control; the message names it.
            Denied: You have no right to write every variable of the folder.
        """
        return ControlEntry(**await self._begin(False, timeout))

    async def request(self, timeout: float | None = None) -> ControlEntry:
        """Takes control, or waits for it in the engine's queue: `is_waiting` of the answer says which. The
        holder sees the request. `wait` waits until it is granted, and `release` withdraws it.

        Raises:
            Denied: As `take`.
        """
        return ControlEntry(**await self._begin(True, timeout))

    async def wait(self, timeout: float | None = None) -> ControlEntry:
        """Waits until a request is granted.

        Args:
            timeout: Seconds to wait; with `None`, without limit.

        Raises:
            TimedOut: It was not granted in time, and is still waiting.
            Error: There is no request, because it was withdrawn or the connection was interrupted.
        """
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            revision, entries = await self._list(self.folder, True)
            own = [one for one in entries if one.is_own and one.folder == self.folder]
            if not own:
                raise Error(
                    "this program neither has control nor waits for it",
                    name=self.folder,
                    hint="request it again",
                    code="not-controlled",
                )
            if not own[0].is_waiting:
                return own[0]
            left = FOLLOW_S if deadline is None else min(deadline - monotonic(), FOLLOW_S)
            if left <= 0:
                raise TimedOut("control was not granted in time", name=self.folder, code="timed-out")
            try:
                await self._requests.call(self._requests.connection.follow_control(revision), left)
            except TimedOut:
                continue

    async def requests(self, timeout: float | None = None) -> list[ControlEntry]:
        """Returns the requests of other clients for this folder and for folders that overlap it."""
        entries = (await self._list(self.folder, False, timeout))[1]
        return [one for one in entries if one.is_waiting and not one.is_own]

    async def give(self, request: ControlEntry, timeout: float | None = None) -> None:
        """Hands control over to a client that waits for it.

        Args:
            request: One of `requests`.

        Raises:
            Error: This program does not have control, or the request was withdrawn.
        """
        self._requests.check()
        call = self._requests.connection.give_control(self.folder, request.number)
        await self._requests.call(call, timeout)

    async def release(self, timeout: float | None = None) -> None:
        """Ends control, or withdraws the request. The client that has waited longest gets control.

        Raises:
            Rejected: This program has neither; `code` is "not-controlled".
        """
        self._requests.check()
        await self._requests.call(self._requests.connection.release_control(self.folder), timeout)

    async def _begin(self, waits: bool, timeout: float | None) -> Any:
        self._requests.check()
        call = self._requests.connection.take_control(
            self.folder, self._level, self._only_this_program, self._seconds, waits
        )
        return await self._requests.call(call, timeout)

    async def _list(
        self, folder: str, own: bool, timeout: float | None = None
    ) -> tuple[int, list[ControlEntry]]:
        self._requests.check()
        call = self._requests.connection.controls(folder, own)
        revision, entries = await self._requests.call(call, timeout)
        return revision, [ControlEntry(**one) for one in entries]

    async def __aenter__(self) -> AsyncControl:
        await self.take()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.release()
        except Error as problem:
            # It may have ended in the block, with its time or because it was handed over.
            if problem.code != "not-controlled":
                raise
