"""Fixtures for pytest. They are available in every test once the package is installed.

    def test_alarm_closes_the_valve(local_engine):
        local_engine.deploy("rig", {"level": "f64", "valve": "bool"})
        ...
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._sync.engine import Engine


@pytest.fixture
def local_engine() -> Iterator[Engine]:
    """An engine in the process of the test, without variables. It stops after the test."""
    with Engine.local() as engine:
        yield engine
