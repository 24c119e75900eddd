"""How objects look in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ._trunkline import Reading


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table for notebooks. All text is escaped."""
    cells = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    lines = [f"<tr>{cells}</tr>"]
    for one in rows:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in one)
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


def readings_table(readings: Iterable[Reading]) -> str:
    """Returns a table with a row for each reading."""
    return html_table(("name", "value", "units", "time", "quality"), map(reading_cells, readings))


def reading_table(reading: Reading) -> str:
    """Returns a table with one reading."""
    return readings_table([reading])


def reading_cells(reading: Reading) -> tuple[str, str, str, str, str]:
    """Returns name, value, unit, time and quality of a reading as text."""
    quality = f"{reading.quality}: {reading.reason}" if reading.reason else reading.quality
    if not reading.has_value:
        return reading.name, "", reading.units, "", quality
    return reading.name, str(reading.value), reading.units, str(reading.time), quality
