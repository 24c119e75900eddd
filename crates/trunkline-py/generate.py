#!/usr/bin/env python3
"""Generates the synchronous classes of the package from the asynchronous ones.

    ./generate.py           writes python/trunkline/_sync
    ./generate.py --check   fails if that would change something

The package `unasync` does the work: it leaves out `async` and `await`, and replaces names.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import unasync

PACKAGE = Path(__file__).parent / "python" / "trunkline"
BY_HAND = {"__init__.py", "waiting.py"}
NAMES = {
    "AsyncBatch": "Batch",
    "AsyncCallbacks": "Callbacks",
    "AsyncControl": "Control",
    "AsyncEngine": "Engine",
    "AsyncMonitor": "Monitor",
    "AsyncRequests": "Requests",
    "AsyncVariable": "Variable",
    "AsyncEndpoint": "Endpoint",
    "AsyncFanInReader": "FanInReader",
    "AsyncFanOutWriter": "FanOutWriter",
    "AsyncLease": "Lease",
    "AsyncReader": "Reader",
    "AsyncRecorder": "Recorder",
    "AsyncReservation": "Reservation",
    "AsyncStreamLease": "StreamLease",
    "AsyncStreams": "Streams",
    "AsyncWriter": "Writer",
    "AsyncIterator": "Iterator",
}


def main() -> int:
    is_check = sys.argv[1:] == ["--check"]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "_async"), Path(folder, "_sync")
        shutil.copytree(PACKAGE / "_async", source)
        rule = unasync.Rule(f"{source}/", f"{target}/", additional_replacements=NAMES)
        files = [path for path in sorted(source.glob("*.py")) if path.name not in BY_HAND]
        unasync.unasync_files([str(path) for path in files], [rule])
        stale = []
        for path in files:
            text = (target / path.name).read_text()
            place = PACKAGE / "_sync" / path.name
            if place.exists() and place.read_text() == text:
                continue
            stale.append(place)
            if not is_check:
                place.write_text(text)
    if is_check and stale:
        print("run crates/trunkline-py/generate.py; these files are not current:", *stale)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
