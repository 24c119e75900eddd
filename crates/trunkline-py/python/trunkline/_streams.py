"""What streams return, and their options."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ._errors import TimedOut

if TYPE_CHECKING:
    from numpy.typing import NDArray

CAPACITY = 131_072
"""Capacity of a buffer in elements, unless the program sets another one."""


class Left(NamedTuple):
    """The elements that a reader had not received when its writer was closed."""

    elements: int
    """Number of elements that the reader has not confirmed."""
    in_doubt: int
    """Number of these that may have arrived, because the connection was lost."""


class Peer(NamedTuple):
    """One of several peers of an endpoint."""

    number: int
    """Number of the peer at this endpoint, from 1."""
    url: str
    program: str
    connected: bool
    waiting: int
    """Elements that the reader has not confirmed, or that have arrived from the writer and are not read."""
    lost: int
    """Elements that were dropped because the reader was too slow."""


class Undelivered(NamedTuple):
    """The elements that one of several readers had not received when it left, or at the end."""

    number: int
    url: str
    program: str
    elements: int
    in_doubt: int
    lost: int
    fault: str | None
    """The reason why the reader left; `None` if it stayed until the end."""


class Run(NamedTuple):
    """Consecutive elements of one of several writers, or the end of its stream."""

    writer: int
    """Number of the writer at this reader, from 1."""
    url: str
    program: str
    elements: NDArray[Any] | None
    """At least one element; `None` at the end."""
    end: str | None
    """"closed", "aborted" or "fault" at the end, and `None` before."""
    reason: str | None
    """Why the stream is incomplete; `None` if it is not."""


class StreamProperties(NamedTuple):
    """The state of an endpoint at one moment."""

    url: str
    data_type: str
    capacity: int
    """Capacity of the buffer, in elements."""
    in_buffer: int
    """Elements that the reader has not confirmed, or that can be read."""
    total: int
    """Elements written or read since the endpoint was created."""
    connected: bool
    disconnections: int
    """Number of times that the connection was lost, or ended with its stream."""
    ended: bool
    away_for: float | None
    """Seconds since the connection was lost; `None` while connected."""
    last_disconnect: str | None
    peer: str | None
    peer_program: str | None
    peer_account: str | None
    """The account or local user that opened the connection; `None` if this endpoint opened it."""
    members: list[tuple[str, str | None, float | None]]
    """URL, account and seconds away of each of several peers."""
    transport: str | None
    fault: str | None
    journal: str | None
    """Why the journal cannot be used; `None` if it can or if there is none."""


def options(
    *,
    engine: str | None,
    port: int | None,
    peer: str | None,
    buffer: int,
    gone_after: float | None,
    timeout: float | None,
    journal: str | os.PathLike[str] | None = None,
    journal_size: int | None = None,
    durability: str = "process",
    insecure: bool = False,
) -> dict[str, Any]:
    """Returns the options of an endpoint for the native part."""
    return {
        "engine": engine,
        "port": port,
        "peer": peer,
        "capacity": buffer,
        "gone_after": gone_after,
        "timeout": timeout,
        "journal": None if journal is None else os.fspath(journal),
        "journal_size": journal_size,
        "durability": durability,
        "insecure": insecure,
        "program": os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python",
    }


def as_elements(elements: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns an array unchanged, and other sequences as an array, if nothing of them is lost.

    Raises:
        TypeError: The values are of another kind, such as fractions for a stream of integers.
        OverflowError: A value is outside the range of the dtype.
    """
    if isinstance(elements, np.ndarray):
        return cast("NDArray[Any]", elements)
    given = np.asarray(elements)
    rule = "safe" if hasattr(elements, "dtype") else "same_kind"
    if dtype.names is None and given.size and not np.can_cast(given.dtype, dtype, rule):
        raise TypeError(
            f"values of {given.dtype} are no elements of {dtype}; convert them with astype, or "
            "create the stream with another dtype"
        )
    return np.asarray(elements, dtype=dtype)


def timed_out(name: str, what: str, timeout: float | None, hint: str) -> TimedOut:
    """Returns the exception of a call of a stream that did not succeed in time."""
    seconds = 0.0 if timeout is None else timeout
    return TimedOut(f"{what} within {seconds:g} s", name=name, hint=hint, code="timed-out")
