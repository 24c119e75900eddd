"""Runs the scenarios of variables and streams, which have the same results in every language."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Serve = Callable[..., tuple[subprocess.Popen[str], str]]

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def test_python_has_the_results_of_the_table(serve: Serve) -> None:
    _, url = serve((SCENARIOS / "engine.toml").read_text())
    table = SCENARIOS / "table.txt"
    done = subprocess.run(
        [sys.executable, "-X", "dev", str(SCENARIOS / "driver.py"), url, str(table)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    steps = [line for line in table.read_text().splitlines() if line and not line.startswith("#")]
    assert len(steps) > 100
    assert done.stdout.splitlines() == steps
