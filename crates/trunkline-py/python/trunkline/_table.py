"""The current values of many variables as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from ._errors import Error
from ._history import as_text
from ._html import readings_table
from ._optional import optional
from ._trunkline import Reading


class Table(Sequence[Reading]):
    """Readings of variables, ordered by name.

    Attributes:
        errors: The exceptions of variables that could not be read, by name.
    """

    def __init__(self, readings: list[Reading], errors: dict[str, Error]) -> None:
        self._readings = readings
        self.errors = errors

    @overload
    def __getitem__(self, index: int) -> Reading: ...
    @overload
    def __getitem__(self, index: slice) -> list[Reading]: ...
    def __getitem__(self, index: int | slice) -> Reading | list[Reading]:
        return self._readings[index]

    def __len__(self) -> int:
        return len(self._readings)

    def __iter__(self) -> Iterator[Reading]:
        return iter(self._readings)

    def __repr__(self) -> str:
        return f"Table({len(self)} variables)"

    def _repr_html_(self) -> str:
        return readings_table(self._readings)

    def to_arrow(self) -> Any:
        """Returns a `pyarrow.Table`.

        Its columns are `name`, `value` (double; null for values that are no numbers), `text` (strings,
        labels, structs as JSON), `units`, `time` and `quality`.

        Raises:
            ImportError: The package pyarrow is not installed.
        """
        pa: Any = optional("pyarrow")
        values = [reading.value for reading in self._readings]
        numbers = [
            float(value) if isinstance(value, (bool, int, float)) else None for value in values
        ]
        times = np.array([reading.ts_ns for reading in self._readings], np.int64)
        return pa.table(
            {
                "name": pa.array([reading.name for reading in self._readings], pa.string()),
                "value": pa.array(numbers, pa.float64()),
                "text": pa.array([as_text(value) for value in values], pa.string()),
                "units": pa.array([reading.units for reading in self._readings], pa.string()),
                "time": pa.array(times, pa.timestamp("ns", "UTC")),
                "quality": pa.array([reading.quality for reading in self._readings], pa.string()),
            }
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Passes the table to polars, pandas, DuckDB and others that take Arrow streams."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Returns a `pandas.DataFrame`; needs pandas and pyarrow."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Returns a `polars.DataFrame`; needs polars and pyarrow."""
        polars: Any = optional("polars")
        return polars.DataFrame(self.to_arrow())
