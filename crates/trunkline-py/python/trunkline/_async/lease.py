"""Leases of variables."""

from __future__ import annotations

from types import TracebackType

from .requests import AsyncRequests, raise_failures


class AsyncLease:
    """A lease of variables. While it is held, the engine refuses writes by other clients."""

    def __init__(self, requests: AsyncRequests, names: list[str], seconds: float) -> None:
        self._requests = requests
        self._names = names
        self._seconds = seconds

    async def acquire(self, timeout: float | None = None) -> None:
        """Acquires the lease of all variables.

        Raises:
            BatchError: Another client holds one of them. Those that were acquired are released.
        """
        try:
            await self._order("acquire", timeout)
        except BaseException:
            await self._order("release", timeout, strict=False)
            raise

    async def renew(self, timeout: float | None = None) -> None:
        """Lets the time of the lease begin again.

        Raises:
            BatchError: The lease has ended.
        """
        await self._order("renew", timeout)

    async def release(self, timeout: float | None = None) -> None:
        """Ends the lease."""
        await self._order("release", timeout, strict=False)

    async def _order(self, verb: str, timeout: float | None, strict: bool = True) -> None:
        handles = await self._requests.open_all(self._names, timeout)
        call = self._requests.connection.lease(handles, verb, self._seconds)
        results = await self._requests.call(call, timeout)
        if strict:
            raise_failures(self._names, results)

    async def __aenter__(self) -> AsyncLease:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()
