"""Leases of variables."""

from __future__ import annotations

from types import TracebackType

from .requests import Requests, raise_failures


class Lease:
    """A lease of variables. While it is held, the engine refuses writes by other clients."""

    def __init__(self, requests: Requests, names: list[str], seconds: float) -> None:
        self._requests = requests
        self._names = names
        self._seconds = seconds

    def acquire(self, timeout: float | None = None) -> None:
        """Acquires the lease of all variables.

        Raises:
            BatchError: Another client holds one of them. Those that were acquired are released.
        """
        try:
            self._order("acquire", timeout)
        except BaseException:
            self._order("release", timeout, strict=False)
            raise

    def renew(self, timeout: float | None = None) -> None:
        """Lets the time of the lease begin again.

        Raises:
            BatchError: The lease has ended.
        """
        self._order("renew", timeout)

    def release(self, timeout: float | None = None) -> None:
        """Ends the lease."""
        self._order("release", timeout, strict=False)

    def _order(self, verb: str, timeout: float | None, strict: bool = True) -> None:
        handles = self._requests.open_all(self._names, timeout)
        call = self._requests.connection.lease(handles, verb, self._seconds)
        results = self._requests.call(call, timeout)
        if strict:
            raise_failures(self._names, results)

    def __enter__(self) -> Lease:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
