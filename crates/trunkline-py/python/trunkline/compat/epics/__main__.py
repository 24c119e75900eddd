"""Runs a script that was written for pyepics: `python -m trunkline.compat.epics script.py arguments`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from trunkline.compat import epics

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("name a script: python -m trunkline.compat.epics script.py [arguments]")
    sys.modules["epics"] = epics
    sys.modules["epics.pv"] = epics.pv
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
