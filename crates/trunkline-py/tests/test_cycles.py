"""Opening and closing, again and again, leaves nothing behind.

`make soak` sets `SOAK_CYCLES` for a long run.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trunkline as tl
from trunkline.compat import epics

CYCLES = int(os.environ.get("SOAK_CYCLES", "500"))
WARM = 50
"""Cycles before the first measurement: caches and allocators fill."""
GROWTH_MAX = 8 << 20
"""Bytes that memory may grow in all cycles together."""


def resources() -> tuple[int, int, int]:
    """Returns the numbers of threads and descriptors, and the resident memory in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return (
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
        pages * os.sysconf("SC_PAGE_SIZE"),
    )


def connection(host: tl.Engine) -> None:
    with tl.connect(f"tl+tcp://{host.addresses[0]}", timeout=20) as one:
        one.put("rig/level", 1.0)
        with one["rig/level"].monitor() as monitor:
            monitor.next(timeout=20)


def monitor(host: tl.Engine) -> None:
    with host.monitor(["rig/level", "rig/nope"], events=True) as one:
        one.next(timeout=20)
    with host.monitor("rig/*") as one:
        one.next(timeout=20)


def callbacks(host: tl.Engine) -> None:
    host.subscribe("rig/level", id).close()


def objects(host: tl.Engine) -> None:
    with host.batch() as batch:
        batch.put("rig/level", 2.0)
    with host.lease("rig/level"), host.control("rig"):
        host.put("rig/spectrum", np.arange(1000.0))
    assert len(host.get("rig/spectrum")) == 1000
    with pytest.raises(tl.NotFound):
        host.get("rig/nope")


def pvs(host: tl.Engine) -> None:
    epics.use(host, prefix="")
    epics.PV("rig:level", callback=print_nothing).get()
    epics.caput("rig:level", 3)
    epics.use(None)


def local_engine(host: tl.Engine) -> None:
    with tl.Engine.local({"rig": {"level": "f64"}}) as one:
        one.put("rig/level", 1.0)


def live_view(host: tl.Engine) -> None:
    host.live("rig/level").close()


def print_nothing(**_: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("cycle", "share"),
    [
        (connection, 1.0),
        (monitor, 1.0),
        (objects, 0.2),
        # These wait for a thread, or start an engine.
        (callbacks, 0.02),
        (pvs, 0.1),
        (local_engine, 0.02),
        (live_view, 0.02),
    ],
)
def test_cycles_leave_nothing(cycle: Callable[[tl.Engine], None], share: float) -> None:
    variables = {"level": "f64", "spectrum": "array(f64, *)"}
    with tl.Engine.local({"rig": variables}, listen="127.0.0.1:0", timeout=20) as host:
        count = max(int(CYCLES * share), 10)
        for _ in range(min(WARM, count)):
            cycle(host)
        before = resources()
        for _ in range(count):
            cycle(host)
        threads, descriptors, memory = resources()
    # The engine ends its side of a connection a moment later.
    assert threads <= before[0] + 2
    assert descriptors <= before[1] + 4
    assert memory <= before[2] + GROWTH_MAX
