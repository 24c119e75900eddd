"""TDMS files, beside npTDMS where it is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trunkline as tl
from trunkline.compat.nptdms import TdmsFile

RAMP = np.arange(1000, dtype=np.int32)
TIMES = np.array(["2026-01-01T00:00:00.000000001", "1950-06-01"], "datetime64[ns]")
COLUMNS: dict[str, Any] = {
    "ramp": RAMP,
    "volts": np.linspace(-1, 1, 1000),
    "single": np.linspace(-1, 1, 10, dtype=np.float32),
    "flags": np.array([True, False, True]),
    "texts": np.array(["one", "", "drei – три"], object),
    "times": TIMES,
    "complex": np.array([1 + 2j, -1j]),
    "u8": np.array([0, 255], np.uint8),
}


def optional(name: str) -> Any:
    module: Any = pytest.importorskip(name)
    return module


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.tdms"
    with tl.TdmsWriter(path, properties={"dut": "A17", "count": 3, "ok": True}) as file:
        file.set({"unit_string": "V", "wf_increment": 0.5, "wf_start_offset": 0.0}, "daq", "volts")
        file.set({"wf_start_time": np.datetime64(10, "s")}, "daq", "volts")
        file.write({"daq": {name: values[:1] for name, values in COLUMNS.items()}})
        file.write({"daq": {name: values[1:] for name, values in COLUMNS.items()}})
        file.set({"note": "last"}, "other")
    return path


def test_file_has_the_shape_of_groups_and_channels(path: Path) -> None:
    with tl.open_tdms(path) as file:
        assert [group.name for group in file.groups()] == ["daq", "other"]
        assert list(file["daq"]) == list(COLUMNS)
        assert file.properties == {"dut": "A17", "count": 3, "ok": True}
        assert file["other"].properties == {"note": "last"}
        assert file["daq"]["volts"].properties["unit_string"] == "V"
        assert file["daq"]["volts"].path == "/'daq'/'volts'"
        assert file.findings == []
        with pytest.raises(KeyError, match="no group"):
            file["nothing"]
        with pytest.raises(KeyError, match="no channel"):
            file["daq"]["nothing"]


@pytest.mark.parametrize("name", list(COLUMNS))
def test_values_come_back(path: Path, name: str) -> None:
    with tl.open_tdms(path) as file:
        channel = file["daq"][name]
        values = channel[:]
        assert channel.dtype == values.dtype == COLUMNS[name].dtype
        assert values.tolist() == COLUMNS[name].tolist()
        assert len(channel) == len(COLUMNS[name])
        assert channel.data.tolist() == values.tolist()


@pytest.mark.parametrize(
    "part",
    [
        slice(10, 20),
        slice(None, 5),
        slice(-5, None),
        slice(3, 900, 7),
        slice(None, None, -1),
        slice(900, 3, -7),
        slice(5, 5),
        slice(990, 2000),
        slice(20, 10),
    ],
)
def test_slices_are_those_of_arrays(path: Path, part: slice) -> None:
    with tl.open_tdms(path) as file:
        np.testing.assert_array_equal(file["daq"]["ramp"][part], RAMP[part])


def test_single_values(path: Path) -> None:
    with tl.open_tdms(path) as file:
        ramp = file["daq"]["ramp"]
        assert (ramp[0], ramp[-1], ramp[500]) == (0, 999, 500)
        for beyond in (1000, -1001):
            with pytest.raises(IndexError, match="1000 values"):
                ramp[beyond]
        with pytest.raises(ValueError, match="negative"):
            ramp.read(-1)
        assert sum(ramp) == RAMP.sum()


def test_blocks_have_all_values(path: Path) -> None:
    with tl.open_tdms(path) as file:
        blocks = list(file["daq"]["ramp"].blocks(300))
        assert [len(block) for block in blocks] == [300, 300, 300, 100]
        np.testing.assert_array_equal(np.concatenate(blocks), RAMP)
        with pytest.raises(ValueError, match="at least one"):
            next(file["daq"]["ramp"].blocks(0))


def test_time_track_follows_the_waveform_properties(path: Path) -> None:
    with tl.open_tdms(path) as file:
        assert file["daq"]["volts"].time_track()[:3].tolist() == [0, 0.5, 1]
        absolute = file["daq"]["volts"].time_track(absolute_time=True)
        assert absolute[2] == np.datetime64(11, "s")
        with pytest.raises(KeyError, match="wf_increment"):
            file["daq"]["ramp"].time_track()


def test_linear_scales_are_applied(tmp_path: Path) -> None:
    path = tmp_path / "scaled.tdms"
    with tl.TdmsWriter(path) as file:
        scale = {
            "NI_Number_Of_Scales": 1,
            "NI_Scaling_Status": "unscaled",
            "NI_Scale[0]_Scale_Type": "Linear",
            "NI_Scale[0]_Linear_Slope": 2.0,
            "NI_Scale[0]_Linear_Y_Intercept": 1.0,
            "NI_Scale[0]_Linear_Input_Source": 0xFFFFFFFF,
        }
        file.set(scale, "g", "c")
        file.write({"g": {"c": np.array([1, 2], np.int16)}})
    with tl.open_tdms(path) as file:
        channel = file["g"]["c"]
        assert channel[:].tolist() == [3.0, 5.0]
        assert channel.dtype == np.float64
        assert channel.raw_dtype == np.int16
        assert channel.read(scaled=False).tolist() == [1, 2]


def test_file_that_is_being_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "growing.tdms"
    with tl.TdmsWriter(path) as writer:
        writer.write({"g": {"c": [1.0]}})
        with tl.open_tdms(path) as file:
            assert file["g"]["c"][:].tolist() == [1.0]
            writer.write({"g": {"c": [2.0]}})
            file.refresh()
            assert file["g"]["c"][:].tolist() == [1.0, 2.0]


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        tl.open_tdms(tmp_path / "missing.tdms")
    with pytest.raises(OSError, match="regular file"):
        tl.open_tdms(tmp_path)
    other = tmp_path / "other.tdms"
    other.write_bytes(b"not a measurement" * 10)
    with pytest.raises(tl.Error) as raised:
        tl.open_tdms(other)
    assert raised.value.code == "not-tdms"
    with pytest.raises(FileExistsError, match="replace"):
        tl.TdmsWriter(other)
    tl.write_tdms(other, {"g": {"c": [1]}}, replace=True)
    assert tl.open_tdms(other)["g"]["c"][0] == 1


def test_bad_values_are_refused_and_the_file_stays_usable(tmp_path: Path) -> None:
    path = tmp_path / "values.tdms"
    with tl.TdmsWriter(path) as file:
        file.write({"g": {"c": np.zeros(2)}})
        with pytest.raises(ValueError):
            file.write({"g": {"c": np.zeros(2, np.int32)}})
        with pytest.raises(ValueError, match="dimension"):
            file.write({"g": {"c": np.zeros((2, 2))}})
        with pytest.raises(TypeError):
            file.write({"g": {"d": np.zeros(2, np.float16)}})
        with pytest.raises(TypeError, match="property"):
            tl.TdmsWriter(tmp_path / "x.tdms", properties={"a": object()}).close()
        file.write({"g": {"c": np.ones(1)}})
    with pytest.raises(tl.Closed):
        file.write({"g": {"c": np.ones(1)}})
    with tl.open_tdms(path) as read:
        channel = read["g"]["c"]
        assert channel[:].tolist() == [0, 0, 1]
    with pytest.raises(tl.Closed):
        channel[:]


def test_npTDMS_reads_the_same_values(path: Path) -> None:
    theirs: Any = optional("nptdms").TdmsFile.read(path)
    with tl.open_tdms(path) as ours:
        for name in COLUMNS:
            expected = theirs["daq"][name][:]
            values = ours["daq"][name][:]
            if values.dtype.kind == "M":
                expected, values = (one.astype("datetime64[us]") for one in (expected, values))
            assert values.tolist() == expected.tolist(), name
        assert theirs.properties["dut"] == ours.properties["dut"]
        np.testing.assert_array_equal(
            theirs["daq"]["volts"].time_track(), ours["daq"]["volts"].time_track()
        )


def test_files_of_npTDMS_are_read(tmp_path: Path) -> None:
    nptdms: Any = optional("nptdms")
    path = tmp_path / "theirs.tdms"
    with nptdms.TdmsWriter(str(path)) as writer:
        for start in (0, 500):
            values = np.arange(start, start + 500, dtype=np.float64)
            writer.write_segment([nptdms.ChannelObject("g", "it's", values, properties={"a": 1})])
    with tl.open_tdms(path) as file:
        np.testing.assert_array_equal(file["g"]["it's"][:], np.arange(1000.0))
        assert file["g"]["it's"].properties == {"a": 1}
        assert file["g"]["it's"].path == "/'g'/'it''s'"


def test_scripts_for_npTDMS_run(path: Path) -> None:
    for how in (TdmsFile.read, TdmsFile.open, TdmsFile.read_metadata):
        with how(path) as file:
            assert file["daq"]["ramp"][3] == 3
            assert len(file["daq"].channels()) == len(COLUMNS)
    with TdmsFile.open(path) as file:
        first = next(file.data_chunks(10))
        assert first["daq"]["ramp"].tolist() == list(range(10))
        try:
            importlib.import_module("pandas")
        except ImportError:
            return
        frame = file.as_dataframe()
        assert frame["/'daq'/'ramp'"].iloc[999] == 999
        assert file["daq"].as_dataframe()["ramp"].iloc[1] == 1
        volts = file["daq"]["volts"].as_dataframe(time_index=True)
        assert volts.index[2] == 1.0
        assert file["daq"]["ramp"].read_data(5, 2, False).tolist() == [5, 6]
        assert file["daq"]["ramp"].raw_data[7] == 7
