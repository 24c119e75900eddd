"""A live view of variables for Jupyter; needs the package anywidget.

    engine.live(["boiler/level", "boiler/flow"], seconds=120)

The view has a row for each variable: its value with time and quality, and its trend. It works in JupyterLab,
Notebook, VS Code, Colab and marimo.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._errors import Error
from ._html import reading_cells
from ._trunkline import Connection, Event, Reading

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "live views need the package anywidget, which is not installed; pip install anywidget",
        name=error.name,
    ) from None

__all__ = ["LiveView"]

ROWS_MAX = 200
"""Greatest number of variables of a view. Others that match its patterns are counted in `omitted`."""
POINTS_MAX = 600
"""Greatest number of points of a trend."""
PERIOD_MIN_S = 0.1
"""Shortest time in seconds between two messages to the browser."""
UNITS_S = 1.0
"""Longest time in seconds to wait for the units of variables."""
SLICE_S = 0.1
"""Longest time in seconds until a closed view notices it."""


class LiveView(anywidget.AnyWidget):
    """A live view of variables; made by `live` of an engine object or variable.

    A thread follows the variables. It ends with `close()`, or when the connection is closed. Each point of a
    trend has the least, the greatest and the newest value of its period, so a short peak is visible.

    Attributes:
        rows: What is shown: a list of `name`, `value`, `units`, `time`, `quality`, as text.
        state: "connecting", "connected", "disconnected" or "closed".
        seconds: Length of the trends.
        omitted: Number of variables that match but are not shown.
    """

    _esm = Path(__file__).with_name("_live.js")
    rows: Any = traitlets.List(traitlets.Any()).tag(sync=True)
    state = traitlets.Unicode("connecting").tag(sync=True)
    seconds = traitlets.Float(60.0).tag(sync=True)
    omitted = traitlets.Int(0).tag(sync=True)
    _thread: threading.Thread | None = None

    def __init__(self, connection: Connection, names: str | Iterable[str], seconds: float = 60.0) -> None:
        if not seconds > 0:
            raise ValueError("the length of a trend must be greater than 0 s")
        given = [names] if isinstance(names, str) else list(names)
        patterns = [name for name in given if "*" in name]
        if patterns and len(patterns) < len(given):
            raise ValueError("a view has either names or patterns; use one for each")
        super().__init__(seconds=float(seconds))
        self._period = max(PERIOD_MIN_S, seconds / POINTS_MAX)
        self._trends: dict[str, Trend] = {}
        self._cells: dict[str, tuple[str, ...]] = {name: (name, "", "", "", "") for name in given[:ROWS_MAX]}
        self._unseen: set[str] = set(given[ROWS_MAX:])
        self._units: dict[str, str] = {}
        if patterns:
            self._cells = {}
            self._unseen = set()
            self._subscription: Any = connection.subscribe_patterns(
                patterns, [], "last:1000", False, False, None
            )
        else:
            self._subscription = connection.subscribe(given, "last:1000", is_async=False)
        self._connection = connection
        self._is_stopped = False
        self._lock = threading.Lock()
        self._widget: Any = self
        self._widget.on_msg(self._on_message)
        # A daemon, so that a program can end while a view is open.
        self._thread = threading.Thread(target=self._follow, name="trunkline live view", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        due = 0.0
        while not self._is_stopped:
            self._subscription.wait(SLICE_S)
            with self._lock:
                while (item := self._subscription.pop()) is not None:
                    self._take(item)
            if self._connection.state()[0] == "closed":
                break
            if time.monotonic() >= due:
                due = time.monotonic() + self._period
                self._look_up_units()
                self._publish()
        self._subscription.close()
        self.state = "closed"

    def _take(self, item: Reading | Event) -> None:
        if isinstance(item, Reading):
            name = item.name
            if name not in self._cells and len(self._cells) >= ROWS_MAX:
                self._unseen.add(name)
                return
            self._cells[name] = reading_cells(item)
            if is_number(item.value) and item.has_value:
                self._trends.setdefault(name, Trend()).add(item.ts_ns / 1e6, float(item.value))
        elif item.name is None:
            self.state = item.kind if item.kind in ("connected", "disconnected") else self.state
        elif item.error is not None and item.name in self._cells:
            self._cells[item.name] = (item.name, "", "", "", str(item.error))
            self._units.pop(item.name, None)

    def _look_up_units(self) -> None:
        """Asks for the units of new variables, which updates do not have."""
        new = [name for name in self._cells if name not in self._units]
        if not new:
            return
        try:
            answer = self._connection.open(new, False).wait(UNITS_S)
        except Error:
            return
        for name, opened in zip(new, [] if answer is None else answer[0]):
            self._units[name] = "" if isinstance(opened, Exception) else opened[0].units

    def _publish(self) -> None:
        with self._lock:
            points = {name: point for name, trend in self._trends.items() if (point := trend.close())}
            keys = ("name", "value", "units", "time", "quality")
            rows = [dict(zip(keys, cells)) for _, cells in sorted(self._cells.items())]
            for row in rows:
                row["units"] = self._units.get(row["name"], "")
            omitted = len(self._unseen)
        self.rows, self.omitted = rows, omitted
        if points:
            self._widget.send({"kind": "points", "points": {name: [point] for name, point in points.items()}})

    def _on_message(self, _: Any, content: Mapping[str, Any], buffers: Any) -> None:
        """Sends the trends to a view that was just opened."""
        if content.get("kind") == "opened":
            with self._lock:
                points = {name: list(trend.points) for name, trend in self._trends.items()}
            self._widget.send({"kind": "trends", "points": points})

    def close(self) -> None:
        """Ends the thread, and removes the view."""
        self._is_stopped = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        super().close()


class Trend:
    """The points of a trend: time in milliseconds, least, greatest and newest value."""

    def __init__(self) -> None:
        self.points: deque[list[float]] = deque(maxlen=POINTS_MAX)
        self._open: list[float] | None = None

    def add(self, time_ms: float, value: float) -> None:
        """Adds a value to the period that is not complete yet."""
        if not np.isfinite(value):
            return
        if self._open is None:
            self._open = [time_ms, value, value, value]
        else:
            _, least, greatest, _ = self._open
            self._open = [time_ms, min(least, value), max(greatest, value), value]

    def close(self) -> list[float] | None:
        """Ends the period. Returns its point, or `None` if it has no value."""
        point, self._open = self._open, None
        if point is not None:
            self.points.append(point)
        return point


def is_number(value: Any) -> bool:
    """Returns true for what has a trend."""
    return isinstance(value, (bool, int, float, np.number, np.bool_))
