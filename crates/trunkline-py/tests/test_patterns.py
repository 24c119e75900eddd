"""Monitors of patterns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trunkline as tl


def test_a_pattern_follows_variables_that_appear_and_disappear(engine: tl.Engine) -> None:
    engine.deploy("rack", {"a": "f64", "b": "f64"})
    with engine.monitor("rack/*", "all", events=True) as monitor:
        engine.put("rack/a", 1.0)
        seen: dict[str, Any] = {}
        appeared: set[str | None] = set()
        while seen.get("rack/a") != 1.0 or len(appeared) < 2:
            item = monitor.next(timeout=20)
            if isinstance(item, tl.Reading):
                seen[item.name] = item.value
            elif item.kind == "appeared":
                appeared.add(item.name)
        engine.deploy("rack", {"a": "f64", "c": "string"}, replace=True)
        engine.put("rack/c", "new")
        gone: set[str | None] = set()
        while seen.get("rack/c") != "new" or not gone:
            item = monitor.next(timeout=20)
            if isinstance(item, tl.Reading):
                seen[item.name] = item.value
            elif item.kind == "gone":
                gone.add(item.name)
    assert gone == {"rack/b"}


def test_blocks_of_a_pattern_have_the_names_of_its_variables(engine: tl.Engine) -> None:
    engine.deploy("rack", {f"v{index}": "f64" for index in range(10)})
    with engine.monitor("rack/**", "all") as monitor:
        values = {f"rack/v{index}": float(index) for index in range(10)}
        engine.put(values)
        got: dict[str, float] = {}
        while got != values:
            block = next(monitor.blocks())
            for item, value, seq in zip(block.item, block.value, block.seq):
                if seq > 0:
                    got[block.names[item]] = value


def test_names_and_patterns_cannot_be_mixed(engine: tl.Engine) -> None:
    with pytest.raises(ValueError, match="either names or patterns"):
        engine.monitor(["rig/level", "rig/*"])


def test_patterns_work_in_a_loop() -> None:
    async def test() -> None:
        async with tl.aio.AsyncEngine.local({"rig": {"a": "f64"}}) as engine:
            await engine.put("rig/a", 5.0)
            async with engine.monitor("rig/*") as monitor:
                assert (await monitor.next(timeout=20)).value == 5.0

    asyncio.run(test())
