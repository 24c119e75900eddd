"""The recorded history."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from ._html import html_table
from ._optional import optional
from ._trunkline import parse_time

TimeLike = Union[None, int, str, datetime.datetime, "np.datetime64"]
"""Nanoseconds since 1970 UTC, RFC 3339, a duration before now ("-1h"), or an object with a time."""

ROW_COLUMNS = ("ts_ns", "value", "quality_bits", "epoch", "seq")
BUCKET_COLUMNS = (
    "ts_ns",
    "count",
    "bad",
    "lost",
    "first",
    "last",
    "min",
    "max",
    "mean",
    "time_mean",
)


class Series:
    """What was recorded of one variable, in columns of equal length.

    Attributes:
        name: Full name of the variable.
        data_type: Type of its values. A variable that had several types has one series for each.
        units: Engineering unit; empty if there is none.
        columns: NumPy arrays by name. Of rows: `ts_ns`, `value`, `quality_bits`, `epoch`, `seq`. Of
            buckets: `ts_ns` (their starts), `count`, `bad`, `lost`, `first`, `last`, `min`, `max`,
            `mean`, `time_mean` (weighted with the time for which each value held).
        events: `(ts_ns, event, lost)`, such as starts of the engine and losses.
    """

    def __init__(self, parts: list[Mapping[str, Any]]) -> None:
        first = parts[0]
        self.name: str = first["name"]
        self.data_type: str = first["data_type"]
        self.units: str = first["units"]
        names = ROW_COLUMNS if "value" in first else BUCKET_COLUMNS
        self.columns: dict[str, NDArray[Any]] = {
            name: np.concatenate([part[name] for part in parts]) for name in names
        }
        self.events: list[tuple[int, str, int]] = [
            event for part in parts for event in part.get("events", ())
        ]

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.columns[column]

    def __len__(self) -> int:
        return len(self.columns["ts_ns"])

    @property
    def time(self) -> NDArray[np.datetime64]:
        """The times as `datetime64[ns]`, UTC."""
        return self.columns["ts_ns"].astype("datetime64[ns]")

    def __repr__(self) -> str:
        kind = "rows" if "value" in self.columns else "buckets"
        return f"Series({self.name!r}, {len(self)} {kind})"


class History(Mapping[str, Series]):
    """The answer of a history query: a series for each variable, by its name.

    A variable that had several types has the newest one here; `series` has all of them.
    """

    def __init__(self, series: list[Series]) -> None:
        self.series = series
        self._by_name = {one.name: one for one in series}

    def __getitem__(self, name: str) -> Series:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"History({sum(map(len, self.series))} rows of {len(self)} variables)"

    def _repr_html_(self) -> str:
        heads = ("name", "type", "units", "rows", "from", "to")
        rows = [
            (one.name, one.data_type, one.units, str(len(one)), *map(str, one.time[[0, -1]]))
            for one in self.series
            if len(one)
        ]
        return html_table(heads, rows)

    def to_arrow(self) -> Any:
        """Returns a `pyarrow.Table` with the samples.

        Losses and other events are not in it: a series has them in `events`, and `trunkline history export`
        writes them as rows.

        Rows have `variable`, `time`, `value` (double), `integer` (the exact value of integers of 64
        bits), `text` (strings, labels, structs as JSON), `quality`, `epoch` and `sequence`. Arrays and
        waveforms are null; the series have them. Buckets have their statistics instead.

        Raises:
            ImportError: The package pyarrow is not installed.
        """
        pa: Any = optional("pyarrow")
        tables: list[Any] = []
        for one in self.series:
            columns: dict[str, Any] = {
                "variable": pa.array([one.name] * len(one), pa.string()),
                "time": pa.array(one["ts_ns"], pa.timestamp("ns", "UTC")),
            }
            if "value" in one.columns:
                columns |= value_columns(pa, one["value"])
                columns["quality"] = pa.array(one["quality_bits"].astype(np.int32))
                columns["epoch"] = pa.array(one["epoch"].astype(np.int64))
                columns["sequence"] = pa.array(one["seq"].astype(np.int64))
            else:
                columns |= {name: pa.array(one[name]) for name in BUCKET_COLUMNS[1:]}
            tables.append(pa.table(columns))
        return pa.concat_tables(tables) if tables else pa.table({})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Passes the table to polars, pandas, DuckDB and others that take Arrow streams."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Returns a `pandas.DataFrame`; needs pandas and pyarrow."""
        return self.to_arrow().to_pandas()

    def plot(self, axes: Any = None) -> Any:
        """Draws the series with matplotlib, and returns the axes.

        Rows are drawn as steps, with gaps while the quality was bad; text and labels are on an axis of
        categories. Buckets are drawn as their mean, within the band from the least to the greatest value.

        Args:
            axes: Axes of matplotlib; new ones if `None`.

        Raises:
            ImportError: The package matplotlib is not installed.
            ValueError: A series has arrays, structs or waveforms; use its columns.
        """
        for one in self.series:
            if "value" in one.columns and not is_drawable(one):
                raise ValueError(f"{one.name} is {one.data_type}, which has no line; draw its values one by one")
        if axes is None:
            axes = optional("matplotlib.pyplot").subplots(layout="constrained")[1]
        for one in self.series:
            label = f"{one.name} [{one.units}]" if one.units else one.name
            if "value" in one.columns:
                axes.plot(one.time, drawn_values(one), label=label, drawstyle="steps-post")
            else:
                (line,) = axes.plot(one.time, one["mean"], label=label)
                axes.fill_between(
                    one.time, one["min"], one["max"], alpha=0.3, color=line.get_color()
                )
        if self.series:
            axes.legend()
        return axes


def is_drawable(series: Series) -> bool:
    """Returns true if each row is one number or text."""
    values = series["value"]
    return values.dtype != object or all(isinstance(value, str) for value in values.tolist())


def drawn_values(series: Series) -> NDArray[Any]:
    """Returns the values of rows, with NaN in the place of numbers that must not be used."""
    values = series["value"]
    if values.dtype == object:
        return values
    return np.where(series["quality_bits"] & 3 > 1, np.nan, values.astype(np.float64))


def value_columns(pa: Any, values: NDArray[Any]) -> dict[str, Any]:
    """Returns the columns `value`, `integer` and `text` of rows."""
    nothing = pa.nulls(len(values))
    is_wide = values.dtype in (np.dtype(np.int64), np.dtype(np.uint64))
    number, text = nothing, nothing
    if values.dtype == object:
        text = pa.array([as_text(value) for value in values.tolist()], pa.string())
    else:
        number = pa.array(values.astype(np.float64))
    return {
        "value": number.cast(pa.float64()),
        "integer": pa.array(values.astype(np.int64)) if is_wide else nothing.cast(pa.int64()),
        "text": text.cast(pa.string()),
    }


def as_text(value: Any) -> str | None:
    """Returns a value that is no number as text; `None` for arrays."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, dict) else None


def joined(pages: list[dict[str, Any]]) -> History:
    """Joins the parts of each series, which may stand in several pages."""
    parts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for part in pages:
        parts.setdefault((part["name"], part["data_type"]), []).append(part)
    return History([Series(one) for one in parts.values()])


def history_form(points: int | None, every: float | None, agg: str) -> tuple[str, int]:
    """Returns the form of a query, and its width."""
    width = 0 if every is None else round(every * 1e9)
    if points is not None:
        if every is not None or points < 1:
            raise ValueError("give a number of points of at least 1, or the seconds of a bucket")
        return "points", points
    if agg in ("interpolated", "stepped"):
        return agg, width
    if every is not None:
        if width < 1:
            raise ValueError("the seconds of a bucket must be greater than 0")
        return "buckets", width
    if agg in ("rows", "last", "total"):
        return agg, 0
    raise ValueError(f"there is no {agg!r}; agg is rows, last, total, interpolated or stepped")


def nanoseconds(time: TimeLike, now: int) -> int | None:
    """Returns a time in nanoseconds since 1970 UTC; `None` if there is none."""
    if time is None or isinstance(time, int):
        return time
    if isinstance(time, str):
        return parse_time(time, now)
    if isinstance(time, datetime.datetime):
        if time.tzinfo is None:
            raise ValueError("a datetime without time zone is ambiguous; add tzinfo")
        since = time - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return int(time.astype("datetime64[ns]").astype(np.int64))
