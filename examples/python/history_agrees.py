#!/usr/bin/env python3
"""Checks from outside that the history of an engine agrees with everything else that is known.

    python3 -m venv venv && venv/bin/pip install duckdb
    venv/bin/python history_agrees.py [--minutes 2] [--trunkline PATH]

It needs `duckdb` from PyPI, and the program `trunkline`. It serves a small plant in a temporary
folder, writes to it through the command line, kills the engine with SIGKILL, and fills the disk of
the history once. For this, the history is on a small tmpfs, in a name space of this program; where
programs may not create one, the disk is not filled, and the script says so.

Afterwards it compares, exactly:

- every write that was acknowledged, with the rows of `trunkline history` and with the Parquet files
- the sequences of each start of the engine with what the events account for
- the intervals of `trunkline history --every` and `--points` with the rows
- a `trunkline monitor --since` that ran all the time with the rows
- the journal of the alarms with the values that crossed the limits

It prints a table, and exits with 1 if anything disagrees.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

PLANT = """
[engine]
store = "plant.db"
history = "disk/plant.history"
health = "200ms"

[library]
name = "plant"

[[variable]]
name = "level"
type = "f64"
units = "%"
alarm.hi = 80
alarm.lo = 20

[[variable]]
name = "pressure"
type = "f32"
alarm.hi_hi = 9

[[variable]]
name = "count"
type = "i64"

[[variable]]
name = "mode"
type = "enum(OFF, AUTO, HAND)"

[[variable]]
name = "pump"
type = "bool"

[[variable]]
name = "note"
type = "string"

[[history]]
variables = "**"
"""
# Alarm of a variable, and whether a value is beyond its limit.
ALARMS = {
    ("plant/level", "hi"): lambda value: value > 80,
    ("plant/level", "lo"): lambda value: value < 20,
    ("plant/pressure", "hi_hi"): lambda value: value > 9,
}
DISK_BYTES = 64 << 20
# Seconds from one batch of writes to the next: short, so that kills hit some.
INTERVAL = 0.02
# Says that the process is in its own name space.
INSIDE = "HISTORY_AGREES_INSIDE"

Row = collections.namedtuple("Row", "name epoch sequence time value")


def nanos(text):
    """Nanoseconds since 1970 of a time such as 2026-11-28T12:05:40.970151757Z."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.datetime.fromisoformat(whole + "+00:00")
    return int(moment.timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0") or 0)


def row_of(line):
    # Of several writes of one variable in a batch, only the last answer has a time.
    time_of = nanos(line["ts"]) if "ts" in line else None
    value = as_f32(line["value"]) if line["type"] == "f32" else line["value"]
    return Row(line["name"], line["epoch"], line["seq"], time_of, value)


def as_f32(number):
    """The f32 that is nearest to a number, with all of its digits."""
    return struct.unpack("f", struct.pack("f", number))[0]


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


class Plant:
    """An engine that is served, killed and served again at one place."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.environment = dict(
            os.environ,
            TRUNKLINE_URL=f"tl://{self.address}",
            TRUNKLINE_TIMEOUT="30s",
            XDG_STATE_HOME=str(folder / "state"),
        )
        (folder / "plant.toml").write_text(PLANT)
        self.engine, self.starts, self.kills = None, 0, []

    def start(self):
        command = [self.program, "serve", "plant.toml", "--listen", self.address]
        self.engine = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        self.starts += 1
        for line in self.engine.stdout:
            if line.startswith("Listening on"):
                return
        raise SystemExit("the engine does not start")

    def kill(self):
        """Kills the engine. The time is that before the kill."""
        self.kills.append(time.time_ns())
        self.engine.kill()
        self.engine.wait()

    def stop(self):
        self.engine.send_signal(signal.SIGTERM)
        self.engine.wait()

    def run(self, *arguments, text=None):
        return subprocess.run(
            [self.program, *arguments], cwd=self.folder, env=self.environment,
            input=text, capture_output=True, text=True,
        )

    def lines(self, *arguments):
        """The lines of JSON on standard output, and those on standard error."""
        ran = self.run(*arguments, "--json")
        if ran.returncode not in (0, 7):
            raise SystemExit(f"trunkline {' '.join(arguments)}: {ran.stderr}")
        return [[json.loads(line) for line in out.splitlines()] for out in (ran.stdout, ran.stderr)]

    def wait(self, name, condition):
        ran = self.run("monitor", name, "--until", condition, "--for", "60s")
        if ran.returncode != 0:
            figures = self.run("get", "_engine/history/*").stdout
            raise SystemExit(f"{name} never has {condition}: {ran.stderr}{figures}")


class Writer(threading.Thread):
    """Writes batches through the command line, and keeps what was acknowledged and when."""

    def __init__(self, plant, rate, chance):
        super().__init__()
        self.plant, self.batch, self.chance = plant, max(1, round(rate * INTERVAL)), chance
        self.acknowledged, self.unanswered = [], set()
        self.number, self.level, self.is_over = 0, 50.0, threading.Event()

    def value(self):
        """The next variable and value. No value is that before it, so each is an update."""
        self.number += 1
        self.level = min(100.0, max(0.0, self.level + self.chance.uniform(-8, 8)))
        level = self.level + self.number * 1e-9
        pressure = self.number % 4096 / 400
        return self.chance.choice([
            ("plant/level", level),
            ("plant/pressure", as_f32(pressure)),
            ("plant/count", (1 << 60) + self.number),
            ("plant/mode", ("OFF", "AUTO", "HAND")[self.number % 3]),
            ("plant/pump", self.number % 2 == 1),
            ("plant/note", f"note {self.number}, \u00e4\U0001f6a2"),
        ])

    def run(self):
        while not self.is_over.is_set():
            begin = time.monotonic()
            values = [self.value() for _ in range(self.batch)]
            rows = "".join(f'{name},"{text_of(value)}"\n' for name, value in values)
            ran = self.plant.run("put", "--csv", "-", "--json", text="name,value\n" + rows)
            now = time.time_ns()
            lines = [json.loads(line) for line in ran.stdout.splitlines()]
            answers = [line for line in lines if line.get("outcome") in ("applied", "unchanged")]
            applied = [one for one in answers if one["outcome"] == "applied"]
            self.acknowledged += [(row_of(one), now) for one in applied]
            if len(answers) < len(values):
                # A batch that a kill has interrupted: anything of it may have been written.
                self.unanswered.update(values)
            self.is_over.wait(max(0, begin + INTERVAL - time.monotonic()))


class Follower:
    """`monitor --since` of a variable, over all kills."""

    def __init__(self, plant, name):
        command = [plant.program, "monitor", name, "--since", "1h", "--json"]
        self.file = open(plant.folder / "followed.jsonl", "w+")
        self.process = subprocess.Popen(
            command, env=plant.environment, stdout=self.file, stderr=subprocess.DEVNULL)

    def end(self):
        """Stops, and returns the readings."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.file.seek(0)
        lines = [json.loads(line) for line in self.file]
        # A variable that has no value yet has a reading as well.
        return [row_of(line) for line in lines if line["seq"] > 0]


def fill_disk(plant, disk):
    """Leaves no room for the history, until this is noticed and for a while afterwards."""
    ballast = disk / "ballast"
    with open(ballast, "wb") as file:
        try:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        except OSError:
            pass
    plant.wait("_engine/history/failing", "value = true")
    listed, _ = plant.lines("alarm", "ls", "_engine/**")
    alarms = [one for one in listed if one["name"] == "_engine/history/failing" and one["active"]]
    time.sleep(3)
    ballast.unlink()
    plant.wait("_engine/history/failing", "value = false")
    return len(alarms)


def play(plant, writer, seconds, kills, disk):
    """Lets the plant run, with its faults at even distances. Returns the alarms of a full disk."""
    faults = ["kill"] * kills
    if disk:
        faults.insert(1, "disk")
    alarms = None
    for fault in faults:
        time.sleep(seconds / (len(faults) + 1) + writer.chance.uniform(-1, 1))
        print(f"{fault} after {len(writer.acknowledged)} acknowledged writes", flush=True)
        if fault == "kill":
            plant.kill()
            plant.start()
        else:
            alarms = fill_disk(plant, disk)
    time.sleep(seconds / (len(faults) + 1))
    return alarms


def rows_of_files(folder):
    """All rows of the Parquet files that the catalogue lists: readings and events."""
    import duckdb

    catalogue = sqlite3.connect(f"file:{folder}/catalogue.sqlite?mode=ro", uri=True)
    paths = catalogue.execute("SELECT path FROM part").fetchall()
    catalogue.close()
    if not paths:
        return [], []
    files = [f"{folder}/{path}" for (path,) in paths]
    found = duckdb.connect().read_parquet(files, hive_partitioning=True).query("history", """
        SELECT variable, epoch, sequence, epoch_ns(time), value, integer, text, event, count
        FROM history
    """).fetchall()
    readings, events = [], []
    for name, epoch, sequence, when, value, integer, text, event, count in found:
        if event is not None:
            events.append((name, event, when, count))
            continue
        if name == "plant/pump":
            value = value == 1
        elif integer is not None:
            value = integer
        elif text is not None:
            value = text
        readings.append(Row(name, epoch, sequence, when, value))
    return readings, events


class Table:
    """What was compared, and what disagrees."""

    def __init__(self):
        self.lines, self.is_wrong = [], False

    def add(self, what, compared, wrong, remark=""):
        wrong = list(wrong)
        self.is_wrong |= bool(wrong)
        self.lines.append((what, str(compared), str(len(wrong)), remark))
        for one in wrong[:5]:
            print(f"{what}: {one}", file=sys.stderr)

    def show(self):
        lines = [("COMPARED", "NUMBER", "WRONG", "REMARK"), *self.lines]
        widths = [max(len(line[column]) for line in lines) for column in range(3)]
        for what, number, wrong, remark in lines:
            text = f"{what:{widths[0]}}   {number:>{widths[1]}}   {wrong:>{widths[2]}}   {remark}"
            print(text.rstrip())


def key(row):
    return row.name, row.epoch, row.sequence


def duplicates(rows):
    counts = collections.Counter(key(row) for row in rows)
    return [one for one, count in counts.items() if count > 1]


def check_writes(table, history, writer, kills, bound):
    """Acknowledged writes and the rows of the history, in both directions."""
    table.add("rows of the history, each once", len(history), duplicates(history))
    recorded = {key(row): row for row in history}
    newest = {(row.name, row.epoch): row.sequence for row in sorted(history, key=key)}
    missing, other, late, gaps = [], [], [], 0
    for row, when in writer.acknowledged:
        found = recorded.get(key(row))
        if found is None and row.sequence < newest.get((row.name, row.epoch), 0):
            # The check of the sequences tells whether an event counts it.
            gaps += 1
        elif found is None:
            # The kill that ended the start in which it was written.
            kill = next((kill for kill in kills if kill >= when), None)
            age = None if kill is None else kill - when
            (late if age is not None and age <= bound else missing).append((age, row))
        elif found.value != row.value or row.time not in (None, found.time):
            other.append((row, found))
    oldest = max((age for age, _ in late), default=0) / 1e6
    remark = f"{len(late)} more were acknowledged at most {oldest:.1f} ms before a kill" if late else ""
    table.add("acknowledged writes in the history", len(writer.acknowledged), missing, remark)
    present = len(writer.acknowledged) - len(missing) - len(late) - gaps
    table.add("their values and times", present, other)
    acknowledged = {key(row) for row, _ in writer.acknowledged}
    unknown = [row for row in history if key(row) not in acknowledged]
    unanswered = collections.defaultdict(set)
    for name, value in writer.unanswered:
        unanswered[name].add(value)
    wrong = [row for row in unknown if row.value not in unanswered[row.name]]
    table.add("other rows are writes without an answer", len(unknown), wrong)
    return late


def check_sequences(table, history, events, writer, late):
    """Sequences of each start and variable have no gap that no event accounts for."""
    starts = sorted({when for _, event, when, _ in events if event == "started"})
    epochs = collections.defaultdict(list)
    for row in history:
        epochs[row.name, row.epoch].append(row)
    acknowledged = collections.defaultdict(int)
    for row, _ in writer.acknowledged:
        one = (row.name, row.epoch)
        acknowledged[one] = max(acknowledged[one], row.sequence)
    lost_late = {(row.name, row.epoch) for _, row in late}
    wrong, total, ends = [], 0, []
    for (name, epoch), rows in epochs.items():
        sequences = {row.sequence for row in rows}
        gaps = max(sequences) - len(sequences)
        first = min(row.time for row in rows)
        begin = max((start for start in starts if start <= first), default=0)
        end = min((start for start in starts if start > first), default=1 << 63)
        counted = [count for variable, event, when, count in events
                   if event == "lost" and variable == name and begin <= when < end]
        total += sum(count or 0 for count in counted)
        if None in counted or sum(counted) != gaps:
            wrong.append(f"{name} of start {epoch}: {gaps} are missing, events count {counted}")
        if acknowledged[name, epoch] > max(sequences) and (name, epoch) not in lost_late:
            ends.append(f"{name} of start {epoch}: its end is missing without a kill")
    table.add("sequences of each start without gaps", len(epochs), wrong, f"{total} counted as lost")
    table.add("ends of the starts", len(epochs), ends)


def check_events(table, events, plant):
    """`started`, `stopped` and `interrupted` alternate, as the engine was started and ended."""
    own = sorted({(when, event) for _, event, when, _ in events
                  if event in ("started", "stopped", "interrupted")})
    found = [event for _, event in own]
    kills = len(plant.kills)
    expected = ["started", "interrupted"] * kills + ["started", "stopped", "started"]
    wrong = [] if found == expected else [f"{found} instead of {expected}"]
    table.add("starts, stops and interruptions", len(own), wrong)
    for (when, event), kill in zip((one for one in own if one[1] == "interrupted"), plant.kills):
        if not 0 <= kill - when < 10_000_000_000:
            table.add("times of interruptions", 1, [f"{when}, killed at {kill}"])


def check_interruptions(table, history, events):
    """What was recorded of a start is before its interruption."""
    wrong = []
    cuts = sorted({when for _, event, when, _ in events if event == "interrupted"})
    starts = sorted({when for _, event, when, _ in events if event == "started"})
    for cut in cuts:
        next_start = min((start for start in starts if start > cut), default=cut)
        between = [row for row in history if cut < row.time < next_start]
        wrong += [f"{row} is {(row.time - cut) / 1e6:.3f} ms after the interruption" for row in between]
    table.add("rows before an interruption", len(cuts), wrong)


def check_files(table, plant, history, events, last_epoch):
    """The Parquet files, and the rows that are in the log only."""
    folder = plant.folder / "disk/plant.history"
    expected = {row for row in history if row.epoch != last_epoch}
    for _ in range(600):
        readings, file_events = rows_of_files(folder)
        if len(readings) >= len(expected):
            break
        time.sleep(0.1)
    table.add("rows of the Parquet files, each once", len(readings), duplicates(readings))
    found = set(readings)
    table.add("rows in the files and in the history", len(found), found ^ expected)
    log = [row for row in history if row.epoch == last_epoch]
    table.add("rows of the log", len(log), [] if log else ["none"])
    # The history shows events of all variables with each variable, and those of the newest start.
    newest = max(when for _, event, when, _ in events if event == "started")
    of_files = {(event, when, count) for _, event, when, count in file_events}
    shown = {(event, when, count) for _, event, when, count in events if when < newest}
    table.add("events in the files and in the history", len(shown), shown - of_files)


def check_intervals(table, plant, history):
    """`--every` and `--points` against the rows."""
    rows = [row for row in history if row.name == "plant/level"]
    for form in (["--every", "10s"], ["--points", "100"]):
        lines, _ = plant.lines("history", "plant/level", "--since", "24h", *form)
        wrong = []
        for line in lines:
            start = nanos(line["ts"])
            end = start + round(line["width"] * 1e9)
            values = [row.value for row in rows if start <= row.time < end]
            found = [line["count"], line.get("min"), line.get("max"), line.get("first"), line.get("last")]
            own = [len(values)] + ([min(values), max(values), values[0], values[-1]] if values else [None] * 4)
            is_mean = not values or abs(line["mean"] - sum(values) / len(values)) < 1e-6
            if found != own or not is_mean:
                wrong.append(f"{line} instead of {own}")
        if sum(line["count"] for line in lines) != len(rows):
            wrong.append("not every row is in an interval")
        table.add("intervals of " + " ".join(form), len(lines), wrong)


def check_followed(table, followed, history):
    """`monitor --since` has every recorded row once, in the order of each start."""
    wrong = [f"{one} came twice" for one in duplicates(followed)]
    came = {key(row): row for row in followed}
    rows = [row for row in history if row.name == "plant/count"]
    wrong += [f"{row} did not come" for row in rows if came.get(key(row)) != row]
    pairs = zip(followed, followed[1:])
    wrong += [f"{after} came after {before}" for before, after in pairs
              if before.epoch == after.epoch and before.sequence >= after.sequence]
    table.add("readings of monitor --since", len(followed), wrong)


def check_alarms(table, plant, history, writer, bound):
    """Values that crossed a limit, and the entries of the journal."""
    entries, _ = plant.lines("alarm", "journal", "plant/**")
    # Also those that were acknowledged, and not recorded before a kill.
    every = {key(row): row._replace(time=when) for row, when in writer.acknowledged}
    every.update((key(row), row) for row in history)
    for (name, alarm), is_beyond in ALARMS.items():
        rows = [row for row in every.values() if row.name == name]
        rows.sort(key=lambda row: (row.time, row.sequence))
        crossed, unsure = collections.Counter(), set()
        epoch, before = None, None
        for row in rows:
            now = is_beyond(row.value)
            if row.epoch != epoch:
                # What the alarm was before depends on writes around the kill.
                unsure.add(row.time)
            elif now != before:
                crossed["raise" if now else "clear", row.time] += 1
            epoch, before = row.epoch, now
        journal = collections.Counter(
            (one["event"], nanos(one["ts"])) for one in entries
            if (one["name"], one["alarm"]) == (name, alarm))

        def is_sure(entry):
            near = any(-bound <= kill - entry[1] <= bound for kill in plant.kills)
            return not near and entry[1] not in unsure

        expected = collections.Counter({one: n for one, n in crossed.items() if is_sure(one)})
        found = collections.Counter({one: n for one, n in journal.items() if is_sure(one)})
        wrong = [f"not in the journal: {one}" for one in sorted((expected - found).elements())]
        wrong += [f"only in the journal: {one}" for one in sorted((found - expected).elements())]
        remark = f"{(journal - found).total()} near a kill or a start"
        table.add(f"changes of the alarm {name}#{alarm}", expected.total(), wrong, remark)


def examine(plant, writer, followed, alarms, bound):
    table = Table()
    lines, notices = plant.lines("history", "plant/**", "--since", "24h")
    history = [row_of(line) for line in lines]
    events = [(one["name"], one["event"], nanos(one["ts"]), one.get("count")) for one in notices]
    late = check_writes(table, history, writer, plant.kills, bound)
    check_sequences(table, history, events, writer, late)
    check_events(table, events, plant)
    check_interruptions(table, history, events)
    check_files(table, plant, history, events, max(row.epoch for row in history))
    check_intervals(table, plant, history)
    check_followed(table, followed, history)
    check_alarms(table, plant, history, writer, bound)
    if alarms is not None:
        table.add("alarm while the disk was full", alarms, [] if alarms == 1 else [f"{alarms} alarms"])
    table.show()
    return 1 if table.is_wrong else 0


def run(arguments, folder, disk):
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}, {folder}", flush=True)
    plant = Plant(arguments.trunkline, folder)
    plant.start()
    follower = Follower(plant, "plant/count")
    writer = Writer(plant, arguments.rate, chance)
    writer.start()
    try:
        alarms = play(plant, writer, arguments.minutes * 60, arguments.kills, disk)
        writer.is_over.set()
        writer.join()
        # The start after a stop writes the files; what is written then is in the log.
        last, _ = writer.acknowledged[-1]
        plant.stop()
        plant.start()
        more = Writer(plant, 100 / INTERVAL, chance)
        more.is_over.wait = lambda _: more.is_over.set()
        more.number = writer.number
        more.run()
        writer.acknowledged += more.acknowledged
        counts = [row for row, _ in more.acknowledged if row.name == "plant/count"]
        wait_for_reading(follower, counts[-1])
        assert last.epoch != counts[-1].epoch, "the engine was started again"
        return examine(plant, writer, follower.end(), alarms, int(arguments.bound * 1e9))
    finally:
        writer.is_over.set()
        writer.join()
        follower.process.kill()
        plant.engine.kill()


def wait_for_reading(follower, row):
    """Waits until the follower has printed the newest reading."""
    text = f'"seq":{row.sequence},'
    for _ in range(600):
        with open(follower.file.name) as file:
            if any(text in line and f'"epoch":{row.epoch}' in line for line in file):
                return
        time.sleep(0.1)
    print("monitor --since has not shown the newest reading after a minute", file=sys.stderr)


def small_disk(folder):
    """Makes `disk` a small file system. Returns nothing if that is not permitted."""
    disk = folder / "disk"
    disk.mkdir()
    if os.environ.get(INSIDE) != "yes":
        print("the disk is not filled: this program may not create a name space")
        return None
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    ran = subprocess.run(mount, capture_output=True, text=True)
    if ran.returncode != 0:
        print(f"the disk is not filled: {ran.stderr.strip()}")
        return None
    return disk


def enter_name_space():
    """Runs this program again in a name space of its own, in which it may mount; if it can."""
    if INSIDE in os.environ or shutil.which("unshare") is None:
        return
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*own, "true"], capture_output=True).returncode == 0:
        os.environ[INSIDE] = "yes"
        os.execvp(own[0], [*own, sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2, help="how long the plant runs")
    parser.add_argument("--rate", type=int, default=1000, help="writes per second, about")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--bound", type=float, default=0.5,
                        help="age in seconds at which an acknowledged write must survive a kill")
    parser.add_argument("--trunkline", default="trunkline", help="the program")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    program = shutil.which(arguments.trunkline)
    if program is None:
        parser.error(f"{arguments.trunkline} is not a program")
    arguments.trunkline = os.path.abspath(program)
    enter_name_space()
    with tempfile.TemporaryDirectory(prefix="history-agrees-") as folder:
        folder = pathlib.Path(folder)
        disk = small_disk(folder)
        try:
            return run(arguments, folder, disk)
        finally:
            if disk:
                subprocess.run(["umount", "--lazy", str(disk)], check=False)


if __name__ == "__main__":
    sys.exit(main())
