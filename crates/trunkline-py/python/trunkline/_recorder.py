"""The state of recordings."""

from __future__ import annotations

import re
from typing import NamedTuple

PREFIXES = ("", "K", "M", "G", "T")
UNITS = {
    "": 1,
    **{f"{prefix}B": 1000**n for n, prefix in enumerate(PREFIXES)},
    **{f"{prefix}IB": 1024**n for n, prefix in enumerate(PREFIXES) if n > 0},
}


class RecorderStatus(NamedTuple):
    """The state of a recording."""

    variables: int
    """Number of variables in the file."""
    samples: int
    """Number of updates that were recorded, those in memory included."""
    in_file: int
    """Number of updates in the file, which survive the end of this program."""
    on_disk: int
    """Number of updates that survive a loss of power."""
    bytes: int
    """Size of the file."""
    lost: int
    """Known number of updates that are missing."""
    unknown_gaps: int
    """Number of times that an unknown number of updates was lost."""
    connected: bool
    following: bool
    """True once the first reading of every variable has arrived."""
    moved: str | None
    """Where the file is, if it was moved or removed meanwhile."""
    free_bytes: int | None
    """Free space on the disk."""
    error: str | None
    """Why the file cannot be written; `None` if it can."""
    unmatched: list[str]
    """Patterns and names that have matched no variable so far."""
    refused: list[tuple[str, str]]
    """Variables that are not recorded, and why; at most 100."""


def byte_count(size: int | str) -> int:
    """Returns a number of bytes, such as 10 ** 10 or "10GB" or "10GiB".

    Raises:
        ValueError: It is no number of bytes.
    """
    if isinstance(size, str):
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", size.strip())
        unit = UNITS.get(found.group(2).upper()) if found else None
        if found is None or unit is None:
            raise ValueError(f"{size!r} is no number of bytes; use one such as 10GB or 10GiB")
        return int(float(found.group(1)) * unit)
    if size < 0:
        raise ValueError("a number of bytes is not negative")
    return size
