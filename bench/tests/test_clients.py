"""Tests of bench/clients."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest
import unittest.mock

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH / "clients")]
import common
import measure
import report

PAGE = tomllib.loads((BENCH / "report.toml").read_text())


def calls(us, system, op="get", repeat=1, invalid=()):
    timing = common.Timing(calls=100, seconds=us * 1e-4, cpu_seconds=us * 5e-5, switches=100)
    return common.call_row(system, op, "cross", timing, invalid) | {"repeat": repeat}


def rate(per_s, system, case, invalid=()):
    timing = common.Timing(calls=per_s, seconds=1.0, cpu_seconds=1.0, switches=0)
    return common.rate_row(system, case, "cross", timing, invalid)


def page_of(rows):
    """The bars of the clients as `what: measured`, and the whole page."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a-clients.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in [measure.machine("quick"), *rows]))
        one = report.Report([report.Run(path)], PAGE, {})
    bars = [bar for bar in PAGE["bar"] if bar["id"] in ["P1", "P2", "P3"]]
    bars = [bar | words for bar in bars for words in one.entries(bar.get("each", [{}]))]
    section = next(one.section(scenario) for scenario in PAGE["scenario"] if scenario["name"] == common.SCENARIO)
    return [one.bar(bar)[3:] for bar in bars], "\n".join(section)


class Test(unittest.TestCase):
    def test_updates_that_are_lost_or_repeated_are_counted_as_wrong(self):
        sut = common.Updates(2)
        for variable, value in [(0, 0.0), (1, 0.0), (0, 1.0), (1, 1.0), (0, 2.0)]:
            sut.take(variable, value)
        self.assertEqual((sut.count, sut.wrong), (3, 0))
        sut.take(0, 4.0)
        sut.take(1, 1.0)
        self.assertEqual((sut.count, sut.wrong), (5, 2))

    def test_a_writer_sees_how_many_updates_were_received(self):
        with common.Window.create() as window:
            sut = common.Updates(1, window)
            for value in range(1, 2 * sut.EVERY):
                sut.take(0, float(value))
            self.assertEqual(common.Window(window.path).count, sut.EVERY)

    def test_calls_that_did_not_wait_are_marked(self):
        spinning = common.Timing(calls=100, seconds=1.0, cpu_seconds=1.0, switches=10)
        waiting = [common.call_row("trunkline", op, "cross", spinning)["waiting"] for op in ["get", "get-many"]]
        self.assertEqual(waiting, ["mixed", "sleeping"])
        self.assertEqual(calls(50.0, "trunkline")["waiting"], "sleeping")

    def test_rows_of_c_programs_have_the_time_of_one_call(self):
        line = {
            "scenario": "call_cost", "system": "epics-ca", "case": "op=sync-get calls=1000", "repeat": 1,
            "placement": "cross", "waiting": "sleeping", "invalid": [],
            "figures": {"calls": 1000, "elapsed_ms": 90.0, "near_cpu_ms": 30.0, "near_switches_per_wait": 1.0},
        }
        one = common.row_of_c(line)
        self.assertEqual(one["case"], "lang=c op=get")
        self.assertEqual((one["figures"]["us"], one["figures"]["near_cpu_us"]), (90.0, 30.0))
        batch = common.row_of_c(line | {"case": "op=async-put calls=1000"})
        self.assertEqual((batch["case"], batch["figures"]["us"]), ("lang=c op=put-many", 90_000.0))

    def test_a_rate_is_that_of_the_time_after_the_warm_up(self):
        sut = common.Rate(warm_up=0.0, seconds=0.0)
        self.assertIsNone(sut.poll(100))
        self.assertEqual(sut.poll(140).calls, 40)

    def test_systems_take_turns_in_every_repeat(self):
        cells = list(measure.cells(2))
        self.assertEqual(len(set(cells)), len(cells))
        first, second = ([cell[1:] for cell in cells if cell[0] == repeat] for repeat in (1, 2))
        self.assertEqual(sorted(first), sorted(second))
        self.assertEqual([system for part, system in first if part == "c"], measure.PARTS["c"])
        self.assertEqual([system for part, system in second if part == "c"], measure.PARTS["c"][::-1])

    def test_every_system_has_a_module_and_a_name_in_the_report(self):
        named = set(PAGE["peers"])
        own = {"raw-socket", "raw-tcp"}
        for part, systems in measure.PARTS.items():
            for system in systems:
                self.assertTrue(system in named or system in own or system.startswith("trunkline"), system)
                if part != "c":
                    self.assertTrue((BENCH / "clients/systems" / f"{measure.MODULES[system]}.py").exists(), system)

    def test_bars_and_tables_are_made_of_the_rows(self):
        stream = "op=stream call=100000"
        rows = [
            *[calls(us, "raw-socket", repeat=repeat) for repeat, us in enumerate([50.0, 40.0, 900.0], 1)],
            *[calls(us, "trunkline", repeat=repeat) for repeat, us in enumerate([60.0, 55.0, 61.0], 1)],
            calls(80.0, "pyepics"), calls(70.0, "p4p"), calls(300.0, "asyncua"), calls(45.0, "pyzmq"),
            calls(1500.0, "trunkline", "get-many"), calls(2500.0, "trunkline", "put-many"),
            rate(100_000_000, "raw-socket", stream), rate(80_000_000, "trunkline", stream),
            rate(99_000_000, "trunkline-in-place", stream), rate(500_000_000, "trunkline-shm", stream),
            rate(150_000, "trunkline", "op=readings"), rate(6_000_000, "trunkline", "op=blocks"),
        ]
        bars, section = page_of(rows)
        wanted = [
            ["1.20", "met"], ["0.857", "met"], ["1.50", "met"], ["2.50", "met"], ["0.800", "met"], ["0.990", "met"],
            ["0.150", "not yet"], ["6.00", "met"],
        ]
        self.assertEqual(bars, wanted)
        self.assertIn("| pyzmq | 45.0 | 0.900 |", section)
        self.assertNotIn("### C:", section)

    def test_bars_are_not_met_by_rows_that_do_not_count(self):
        rows = [calls(50.0, "raw-socket"), calls(50.0, "trunkline", invalid=["1 variable has another value"])]
        bars, section = page_of(rows)
        self.assertEqual({tuple(bar) for bar in bars}, {("-", "not measured")})
        self.assertIn("does not count", section)

    def test_a_cell_is_measured_by_a_process_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            raw = pathlib.Path(folder) / "raw"
            subprocess.run(["cc", "-O1", "-o", raw, BENCH / "clients/c/raw.c", "-lm"], check=True)
            with unittest.mock.patch.dict(os.environ, {"TRUNKLINE_CLIENTS": folder}):
                rows = measure.run_cell("calls", "raw-socket", ["seconds=0.01", "warm-up=0"])
                missing = measure.run_cell("c", "trunkline", [])
        self.assertEqual([row["case"] for row in rows], [f"lang=python op={op}" for op in measure.OPS])
        self.assertEqual([row["invalid"] for row in rows], [[]] * 4)
        self.assertTrue(all(row["figures"]["us"] > 0 for row in rows))
        self.assertEqual(missing[0]["figures"], {})
        self.assertIn("run bench/clients/install", missing[0]["invalid"][0])


if __name__ == "__main__":
    unittest.main()
