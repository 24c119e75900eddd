"""Recordings of variables, read back as TDMS files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import trunkline as tl

LIMIT = 30.0
"""Seconds after which a test has failed."""


@pytest.fixture
def engine() -> Iterator[tl.Engine]:
    daq = {"ai0": "f64", "ai1": "f64", "on": "bool"}
    with tl.Engine.local({"daq": daq, "other": {"x": "i32"}}, timeout=20) as engine:
        yield engine


def test_every_update_is_in_the_file(engine: tl.Engine, tmp_path: Path) -> None:
    path = tmp_path / "run42.tdms"
    properties = {"dut": "A17", "number": 42, "good": True, "limit": 2.5}
    with engine.record(
        path, ["daq/**"], properties=properties, preallocate="1MB", write_every=0.01
    ) as recorder:
        recorder.wait(timeout=LIMIT)
        for value in range(100):
            engine.put("daq/ai0", float(value))
        engine.put("daq/on", True)
        status = recorder.wait(samples=101, timeout=LIMIT)
        assert status.in_file >= 101
        assert recorder.bytes_written > 0
        assert recorder.lost == 0
    assert recorder.status.error is None
    with tl.open_tdms(path) as file:
        assert file.findings == []
        values = file["daq/ai0"]["value"][:]
        assert values[-100:].tolist() == [float(value) for value in range(100)]
        assert file["daq/ai0"]["time"].dtype.kind == "M"
        assert file["daq/on"]["value"][-1]
        assert "other/x" not in file
        assert properties.items() <= file.properties.items()
    assert path.stat().st_blocks * 512 < 1_000_000


def test_npTDMS_reads_a_recording(engine: tl.Engine, tmp_path: Path) -> None:
    nptdms = pytest.importorskip("nptdms")
    path = tmp_path / "run.tdms"
    with engine.record(path, "daq/ai0", properties={"dut": "A17"}):
        engine.put("daq/ai0", 1.5)
    with nptdms.TdmsFile.open(path) as file:
        assert file["daq/ai0"]["value"][-1] == 1.5
        assert file.properties["dut"] == "A17"


def test_nothing_to_record_is_an_error(engine: tl.Engine, tmp_path: Path) -> None:
    path = tmp_path / "none.tdms"
    recorder = engine.record(path, ["nothing/**"])
    assert recorder.wait(timeout=LIMIT).unmatched == ["nothing/**"]
    with pytest.raises(tl.NotFound, match="no variable has matched"):
        recorder.stop()
    assert not path.exists()


def test_unusable_files_are_refused(engine: tl.Engine, tmp_path: Path) -> None:
    existing = tmp_path / "existing.tdms"
    existing.write_bytes(b"kept")
    with pytest.raises(FileExistsError, match="another name"):
        engine.record(existing, ["daq/**"])
    assert existing.read_bytes() == b"kept"
    with pytest.raises(OSError):
        engine.record(tmp_path / "missing" / "x.tdms", ["daq/**"])
    with pytest.raises(ValueError, match="nothing to record"):
        engine.record(tmp_path / "x.tdms", [])
    with pytest.raises(ValueError, match="no number of bytes"):
        engine.record(tmp_path / "x.tdms", ["daq/**"], preallocate="ten")
    with pytest.raises(TypeError, match="property"):
        engine.record(tmp_path / "x.tdms", ["daq/**"], properties={"a": object()})
    with pytest.raises(OSError, match="preallocate"):
        engine.record(tmp_path / "x.tdms", ["daq/ai0"], preallocate="1000000TB")


def test_exception_of_the_block_is_kept_and_the_file_complete(
    engine: tl.Engine, tmp_path: Path
) -> None:
    path = tmp_path / "run.tdms"
    with pytest.raises(ZeroDivisionError), engine.record(path, ["daq/ai0"]) as recorder:
        recorder.wait(timeout=LIMIT)
        engine.put("daq/ai0", 7.0)
        raise ZeroDivisionError
    with tl.open_tdms(path) as file:
        assert file["daq/ai0"]["value"][-1] == 7.0
    assert recorder.stop().error is None


def test_waiting_for_updates_times_out(engine: tl.Engine, tmp_path: Path) -> None:
    with engine.record(tmp_path / "run.tdms", ["daq/ai0"]) as recorder:
        recorder.wait(timeout=LIMIT)
        with pytest.raises(tl.TimedOut, match="of 1000 updates"):
            recorder.wait(samples=1000, timeout=0)


def test_same_verbs_in_an_event_loop(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "run.tdms"
        async with tl.aio.AsyncEngine.local({"daq": {"ai0": "f64"}}) as engine:
            async with engine.record(path, ["daq/*"], write_every=0.01) as recorder:
                await recorder.wait(timeout=LIMIT)
                await engine.put("daq/ai0", 3.0)
                await recorder.wait(samples=1, timeout=LIMIT)
        with tl.open_tdms(path) as file:
            assert file["daq/ai0"]["value"][-1] == 3.0

    asyncio.run(asyncio.wait_for(run(), 2 * LIMIT))
