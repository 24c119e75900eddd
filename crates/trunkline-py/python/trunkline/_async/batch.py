"""Writes that are carried out together."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from .._html import html_table
from .requests import AsyncRequests, raise_failures


class AsyncBatch:
    """Writes that are carried out together at the end of a `with` block."""

    def __init__(self, requests: AsyncRequests, atomic: bool, timeout: float | None) -> None:
        self._requests = requests
        self._atomic = atomic
        self._timeout = timeout
        self._values: dict[str, Any] = {}
        self.outcomes: list[Any] = []
        """One `Written` or exception for each write, in order; empty until the block has ended."""

    def put(self, name: str, value: Any) -> None:
        """Adds a write. A second write of the same variable replaces the first one."""
        self._values.pop(name, None)
        self._values[name] = value

    async def __aenter__(self) -> AsyncBatch:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None or not self._values:
            return
        self.outcomes = await self._requests.write_many(self._values, self._timeout, self._atomic)
        raise_failures(list(self._values), self.outcomes)

    def _repr_html_(self) -> str:
        outcomes = [*map(str, self.outcomes)] or [""] * len(self._values)
        rows = [(name, str(self._values[name]), one) for name, one in zip(self._values, outcomes)]
        return html_table(("name", "value", "outcome"), rows)
