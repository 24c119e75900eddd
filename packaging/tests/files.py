"""Where the files are that the tests check."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
UNIT = ROOT / "packaging/systemd/trunkline.service"
CONFIGURATION = ROOT / "packaging/deb/trunkline.toml"


def program():
    """The newest built `trunkline`, or None."""
    built = [TARGET / profile / "trunkline" for profile in ("debug", "release")]
    built = [path for path in built if path.exists()]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def package():
    """The newest built Debian package, or None."""
    built = list((TARGET / "package").glob("trunkline_*.deb"))
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def settings(unit):
    """The settings of a unit, in order, as pairs of section.key and value."""
    section, found = "", []
    for line in unit.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.append((f"{section}.{key}", value))
    return found
