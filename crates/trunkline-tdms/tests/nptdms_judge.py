"""npTDMS as judge of trunkline-tdms: writes files, and says what it reads in files.

    nptdms_judge.py write FOLDER COUNT SEED    random files, and what they hold
    nptdms_judge.py own FOLDER                 the files of npTDMS's own tests, and what they hold
    nptdms_judge.py read FOLDER                what the files in a folder hold
    nptdms_judge.py scale FOLDER COUNT SEED    files with random scales, and the scaled values

What NAME.tdms holds goes to NAME.dump, in the form that tests/dump/mod.rs describes.
"""

import random
import shutil
import struct
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
from nptdms import ChannelObject, GroupObject, RootObject, TdmsFile, TdmsWriter, types
from nptdms.timestamp import TdmsTimestamp, TimestampArray

KINDS = {
    "i1": "i1", "i2": "i2", "i4": "i4", "i8": "i8", "u1": "u1", "u2": "u2", "u4": "u4", "u8": "u8",
    "f4": "f4", "f8": "f8", "c8": "c8", "c16": "c16", "b1": "b1",
}
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NAMES = ["g", "h", "", "Dr. T's", "a/b", "''", "/'x'/'y'", "µ 🦀", "two\nlines", "name"]


def hexed(data):
    return "x" + bytes(data).hex()


def text_bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8")


def float_text(value):
    return "nan" if value != value else struct.pack(">d", float(value)).hex()


def property_text(value):
    if isinstance(value, (bool, np.bool_)):
        return f"b:{int(value)}"
    if isinstance(value, (int, np.integer)):
        return f"i:{int(value)}"
    if isinstance(value, (complex, np.complexfloating)):
        return f"c:{float_text(value.real)}:{float_text(value.imag)}"
    if isinstance(value, (float, np.floating)):
        return f"f:{float_text(value)}"
    if isinstance(value, TdmsTimestamp):
        return f"t:{int(value.seconds)}:{int(value.second_fractions)}"
    if isinstance(value, (str, bytes)):
        return f"s:{hexed(text_bytes(value))}"
    raise TypeError(f"a property of type {type(value)}")


def values_text(values):
    if isinstance(values, TimestampArray):
        pairs = zip(values.second_fractions, values.seconds)
        data = b"".join(struct.pack("<Qq", int(f), int(s)) for f, s in pairs)
        return f"time {len(values)} {hexed(data)}"
    if len(values) and isinstance(values[0], (str, bytes)):
        return f"str {len(values)} " + ",".join(hexed(text_bytes(v)) for v in values)
    values = np.asarray(values)
    name = KINDS[values.dtype.str[1:]]
    data = values.astype(values.dtype.newbyteorder("<")).tobytes()
    return f"{name} {len(values)} {hexed(data)}"


def dump(path):
    objects = {}

    def note(of, properties):
        lines = sorted((text_bytes(n), property_text(v)) for n, v in properties.items())
        objects[text_bytes(of)] = [f"p {hexed(n)} {v}" for n, v in lines]
        return objects[text_bytes(of)]

    file = TdmsFile.read(path, raw_timestamps=True)
    note("/", file.properties)
    for group in file.groups():
        note(group.path, group.properties)
        for channel in group.channels():
            lines = note(channel.path, channel.properties)
            scalers = channel.raw_scaler_data
            if scalers:
                for number in sorted(scalers):
                    lines.append(f"s {number} {values_text(scalers[number])}")
            elif len(channel.raw_data):
                lines.append(f"d {values_text(channel.raw_data)}")
    text = ""
    for of in sorted(objects):
        text += "".join(line + "\n" for line in [f"o {hexed(of)}", *objects[of]])
    path.with_suffix(".dump").write_text(text)


def name(rng):
    choice = rng.randrange(40)
    if choice == 0:
        return "long " * rng.randrange(1000, 6000)
    if choice < 4:
        points = (rng.randrange(1, 0xD800) for _ in range(rng.randrange(9)))
        return "".join(map(chr, points))
    return rng.choice(NAMES)


def number(rng):
    return rng.choice([float("inf"), -0.0, 5e-324, rng.uniform(-1e6, 1e6), float(rng.randrange(99))])


def integer(rng, kind):
    limits = np.iinfo(kind)
    return kind(rng.randrange(int(limits.min), int(limits.max) + 1))


def property_value(rng):
    choice = rng.randrange(13)
    if choice < 8:
        return integer(rng, INTEGERS[choice])
    if choice == 8:
        return np.float32(number(rng))
    if choice == 9:
        return number(rng)
    if choice == 10:
        return bool(rng.randrange(2))
    if choice == 11:
        micros = rng.randrange(-(2**50), 2**51)
        return np.datetime64(micros, "us")
    return name(rng)


def channel_values(rng, kind, count):
    if kind == "str":
        return [name(rng) for _ in range(count)]
    if kind == "time":
        micros = [rng.randrange(-(2**50), 2**51) for _ in range(count)]
        return np.array(micros, dtype="datetime64[us]")
    if kind == "b1":
        return np.array([bool(rng.randrange(2)) for _ in range(count)], dtype=bool)
    if kind in ("c8", "c16"):
        return np.array([complex(number(rng), number(rng)) for _ in range(count)], dtype=kind)
    if kind in ("f4", "f8"):
        return np.array([number(rng) for _ in range(count)], dtype=kind)
    dtype = np.dtype(kind)
    return np.array([integer(rng, dtype.type) for _ in range(count)], dtype=dtype)


def write_one(path, rng):
    kinds = {}
    version = rng.choice([4712, 4713])
    with TdmsWriter(str(path), version=version, index_file=bool(rng.randrange(2))) as writer:
        for _ in range(rng.randrange(1, 7)):
            objects = {}
            if rng.randrange(2):
                objects["/"] = RootObject({name(rng): property_value(rng)})
            for _ in range(rng.randrange(4)):
                group, channel = name(rng), name(rng)
                properties = {name(rng): property_value(rng) for _ in range(rng.randrange(3))}
                if rng.randrange(3) == 0:
                    objects[(group,)] = GroupObject(group, properties)
                kind = kinds.setdefault((group, channel), rng.choice([*KINDS, "str", "time"]))
                # A channel without values would be written without its type.
                values = channel_values(rng, kind, rng.randrange(1, 6))
                objects[(group, channel)] = ChannelObject(group, channel, values, properties)
            writer.write_segment(list(objects.values()))


def write(folder, count, seed):
    for at in range(count):
        path = folder / f"{seed}_{at}.tdms"
        write_one(path, random.Random(f"{seed} {at}"))
        dump(path)


def random_scales(rng):
    """Properties of a chain of scales, each on raw values or on one before it."""
    count = rng.randrange(1, 5)
    properties = {"NI_Number_Of_Scales": np.uint32(count)}
    for at in range(count):
        of = f"NI_Scale[{at}]_"
        kind = rng.choice(["Linear", "Polynomial", "Table", "Add", "Subtract", "AdvancedAPI"])
        properties[of + "Scale_Type"] = kind
        source = lambda: np.uint32(rng.choice([0xFFFFFFFF, *range(at)]))
        small = lambda: rng.uniform(-3, 3)
        if kind in ("Add", "Subtract"):
            properties[f"{of}{kind}_Left_Operand_Input_Source"] = source()
            properties[f"{of}{kind}_Right_Operand_Input_Source"] = source()
            continue
        properties[f"{of}{kind}_Input_Source"] = source()
        if kind == "Linear":
            properties[of + "Linear_Slope"] = small()
            properties[of + "Linear_Y_Intercept"] = small()
        if kind == "Polynomial":
            size = rng.randrange(5)
            properties[of + "Polynomial_Coefficients_Size"] = np.uint32(size)
            for i in range(size):
                properties[of + f"Polynomial_Coefficients[{i}]"] = small()
        if kind == "Table":
            size = rng.randrange(1, 6)
            before = sorted(rng.sample(range(-40, 40), size), reverse=bool(rng.randrange(2)))
            properties[of + "Table_Pre_Scaled_Values_Size"] = np.uint32(size)
            properties[of + "Table_Scaled_Values_Size"] = np.uint32(size)
            for i, value in enumerate(before):
                properties[of + f"Table_Pre_Scaled_Values[{i}]"] = float(value)
                properties[of + f"Table_Scaled_Values[{i}]"] = small()
    return properties


def random_sensor(rng):
    """Properties of one sensor's scale, and raw numbers that it can have."""
    kind = rng.choice(["Thermocouple", "RTD", "Thermistor", "Strain"])
    of = f"NI_Scale[0]_{kind}_"
    properties = {
        "NI_Number_Of_Scales": np.uint32(1),
        "NI_Scale[0]_Scale_Type": kind,
        of + "Input_Source": np.uint32(0xFFFFFFFF),
    }
    wires = rng.choice([2, 3, 4])
    lead = rng.uniform(0, 2)
    some = lambda low, high: [rng.uniform(low, high) for _ in range(9)]
    if kind == "Thermocouple":
        types = [10047, 10055, 10072, 10073, 10077, 10082, 10085, 10086]
        direction = rng.randrange(2)
        properties[of + "Thermocouple_Type"] = np.uint32(rng.choice(types))
        properties[of + "Scaling_Direction"] = np.uint32(direction)
        return properties, some(-150, 1200) if direction else some(-3000, 15000)
    if kind == "RTD":
        current, r0 = rng.uniform(1e-4, 2e-3), rng.choice([100.0, 1000.0])
        properties |= {
            of + "Current_Excitation": current,
            of + "R0_Nominal_Resistance": r0,
            of + "A": 3.9083e-3,
            of + "B": -5.775e-7,
            of + "C": -4.183e-12,
            of + "Lead_Wire_Resistance": lead,
            of + "Resistance_Configuration": np.uint32(wires),
        }
        return properties, [(r0 * share + lead) * current for share in some(0.2, 3)]
    if kind == "Thermistor":
        is_current = bool(rng.randrange(2))
        properties |= {
            of + "Excitation_Type": np.uint32(10134 if is_current else 10322),
            of + "Excitation_Value": 1e-4 if is_current else 2.5,
            of + "R1_Reference_Resistance": 5000.0,
            of + "Lead_Wire_Resistance": lead,
            of + "Resistance_Configuration": np.uint32(wires),
            of + "A": 1.1e-3,
            of + "B": 2.4e-4,
            of + "C": 7.5e-8,
            of + "Temperature_Offset": rng.choice([0.0, 273.15]),
        }
        return properties, some(0.1, 2.0)
    properties |= {
        of + "Configuration": np.uint32(
            rng.choice([10183, 10184, 10185, 10188, 10189, 10271, 10272])
        ),
        of + "Poisson_Ratio": 0.3,
        of + "Gage_Resistance": 350.0,
        of + "Lead_Wire_Resistance": lead,
        of + "Initial_Bridge_Voltage": rng.choice([0.0, 1e-4]),
        of + "Gage_Factor": 2.1,
        of + "Bridge_Shunt_Calibration_Gain_Adjustment": rng.choice([1.0, 1.02]),
        of + "Voltage_Excitation": 2.5,
    }
    return properties, some(-5e-3, 5e-3)


def scale(folder, count, seed):
    for at in range(count):
        rng = random.Random(f"{seed} {at}")
        path = folder / f"{at}.tdms"
        properties, values = random_scales(rng), [rng.uniform(-50, 50) for _ in range(9)]
        if at % 2:
            properties, values = random_sensor(rng)
        channel = ChannelObject("g", "c", np.array(values, dtype="f8"), properties)
        with TdmsWriter(str(path)) as writer:
            writer.write_segment([channel])
        scaled = TdmsFile.read(path)["g"]["c"][:]
        path.with_suffix(".scaled").write_text(" ".join(f"{v:.17e}" for v in scaled))


def own(folder):
    import nptdms.test
    from nptdms.test import scenarios

    for scenario in scenarios.get_scenarios():
        file, expected = scenario.values
        path = folder / f"{scenario.id}.tdms"
        path.write_bytes(file.get_bytes_io_file().read())
        dump(path)
        check(path, expected)
    for path in sorted((Path(nptdms.test.__file__).parent / "data").glob("*.tdms")):
        shutil.copy(path, folder)
        dump(folder / path.name)


def check(path, expected):
    """The scenario itself says what it holds; what npTDMS reads has to be that."""
    file = TdmsFile.read(path)
    for (group, channel), values in expected.items():
        np.testing.assert_array_equal(file[group][channel].data, values)


def main():
    command, folder, *rest = sys.argv[1:]
    folder = Path(folder)
    if command == "write":
        write(folder, int(rest[0]), int(rest[1]))
    elif command == "scale":
        scale(folder, int(rest[0]), int(rest[1]))
    elif command == "own":
        own(folder)
    else:
        for path in sorted(folder.glob("*.tdms")):
            dump(path)


if __name__ == "__main__":
    main()
