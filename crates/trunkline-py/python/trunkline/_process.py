"""Notices that a process was forked.

A connection belongs to the process that made it: its threads do not exist in a child.
"""

from __future__ import annotations

import os

_forks = 0


def forks() -> int:
    """Returns the number of forks between the first process and this one."""
    return _forks


def _count() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count)
