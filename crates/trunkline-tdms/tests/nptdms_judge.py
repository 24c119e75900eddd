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


def scale(folder, count, seed):
    for at in range(count):
        rng = random.Random(f"{seed} {at}")
        path = folder / f"{at}.tdms"
        values = np.array([rng.uniform(-50, 50) for _ in range(9)], dtype="f8")
        channel = ChannelObject("g", "c", values, random_scales(rng))
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
