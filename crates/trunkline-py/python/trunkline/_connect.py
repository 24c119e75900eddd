"""Which engine a program connects to."""

from __future__ import annotations

import os
import sys

from ._trunkline import Connection, default_url


def engine_url(url: str | None) -> str:
    """Returns `url`, the environment's `TRUNKLINE_URL`, the selected context, or the engine of this machine."""
    return url or os.environ.get("TRUNKLINE_URL") or default_url() or "tl:///"


def native_connection(url: str | None) -> Connection:
    """Starts to connect to the engine that `engine_url` returns."""
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    return Connection.connect(engine_url(url), program)
