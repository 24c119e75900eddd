"""How objects look in notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table for notebooks. All text is escaped."""
    cells = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    lines = [f"<tr>{cells}</tr>"]
    for one in rows:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in one)
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"
