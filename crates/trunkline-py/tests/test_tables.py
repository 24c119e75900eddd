"""Tables, and how objects look in notebooks."""

from __future__ import annotations

import pytest
import trunkline as tl


def test_a_table_has_all_variables_that_match(engine: tl.Engine) -> None:
    engine.put({"rig/level": 72.5, "rig/mode": "AUTO", "rig/note": "<b>hot & loud</b>"})
    table = engine.table("rig/*o*")
    names = [reading.name for reading in table]
    assert names == sorted(names)
    assert {"rig/mode", "rig/note", "rig/count", "rig/open"} <= set(names)
    assert table.errors == {}
    shown = table._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "&lt;b&gt;hot &amp; loud&lt;/b&gt;" in shown
    assert "<b>" not in shown


def test_a_table_passes_to_arrow(engine: tl.Engine) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    engine.put({"rig/level": 72.5, "rig/mode": "AUTO"})
    table = pyarrow.table(engine.table("rig/*e*")).drop_columns(["time"])
    rows = {row["name"]: row for row in table.to_pylist()}
    assert (rows["rig/level"]["value"], rows["rig/level"]["units"]) == (72.5, "%")
    assert (rows["rig/mode"]["value"], rows["rig/mode"]["text"]) == (None, "AUTO")
