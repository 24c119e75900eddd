"""Notices that a process was forked.

A connection belongs to the process that made it: its threads do not exist in a child.
"""

from __future__ import annotations

import os

generation = 0
"""Number of forks between the first process and this one."""


def _count() -> None:
    global generation
    generation += 1


os.register_at_fork(after_in_child=_count)
