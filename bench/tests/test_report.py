"""Tests of bench/report.py."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import report

MACHINE = {
    "run": "quick", "date": "2026-11-21", "cpu": "A", "cpus": 2, "virtual_machine": True, "kernel": "Linux 6",
    "memory_gib": 24, "load_percent": 150, "version": "0.1.0",
}
PAGE = {
    "fit": "memory",
    "peers": {"redis": "Redis", "zeromq": "ZeroMQ", "aeron": "Aeron IPC", "nats": "NATS"},
    "scenario": [{
        "name": "updates", "heading": "Updates", "case": "vars={vars}", "part": [{
            "rows": [{"vars": [1, 10], "system": ["raw-tcp", "trunkline", "peers"]}],
            "columns": [
                {"head": "variables", "word": "vars"},
                {"head": "system", "word": "system"},
                {"head": "M/s", "figure": "rate", "per": 1e6},
                {"head": "x raw", "figure": "rate", "over": "raw-tcp"},
            ],
        }],
    }],
    "bar": [],
    "statement": [],
}


def row(system, rate, case="vars=1", repeat=1, invalid=(), scenario="updates"):
    figures = {} if rate is None else {"rate": rate}
    return {"scenario": scenario, "system": system, "case": case, "repeat": repeat, "placement": "cross",
            "waiting": "sleeping", "figures": figures, "invalid": list(invalid)}


def run(rows, file="a.jsonl", **machine):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / file
        path.write_text("\n".join(json.dumps(line) for line in [MACHINE | machine, *rows]))
        return report.Run(path)


def report_of(*runs):
    return report.Report(list(runs), PAGE, {})


class Test(unittest.TestCase):
    def test_figures_have_three_digits(self):
        shown = [report.figure(value) for value in [0.0, 0.01234, 1.5, 51.25, 1234.5, None]]
        self.assertEqual(shown, ["0", "0.0123", "1.50", "51.2", "1234", "-"])

    def test_only_repeats_that_count_are_in_the_median(self):
        rows = [row("redis", 3.0), row("redis", 900.0, repeat=2, invalid=["one was lost"]), row("redis", 1.0, repeat=3)]
        sut = report_of(run(rows))
        spec = {"scenario": "updates", "system": "redis", "case": "vars=1", "figure": "rate"}
        self.assertEqual(sut.value(spec, {}), 2.0)
        self.assertEqual(sut.value(spec | {"total": True}, {}), 4.0)
        self.assertIsNone(sut.value(spec | {"over": "raw-tcp"}, {}))

    def test_comparisons_are_of_the_newest_run_with_other_systems(self):
        older = run([row("raw-tcp", 2.0), row("trunkline", 1.0), row("redis", 4.0)], file="a.jsonl")
        newer = run([row("raw-tcp", 8.0), row("trunkline", 6.0)], file="b.jsonl", date="2026-11-23")
        sut = report_of(older, newer)
        bar = {"id": "V", "what": "rate{best}", "scenario": "updates", "case": "vars=1", "figure": "rate", "at_least": 1}
        self.assertEqual(sut.bar(bar | {"over": "raw-tcp"})[3], "0.750")
        compared = sut.bar(bar | {"over": {"most": "peers"}})
        self.assertEqual(compared[1:4], ["rate (Redis, run of 2026-11-21)", ">= 1", "0.250"])
        text = sut.text("")
        self.assertIn("| 1 | Redis |", text)
        self.assertIn("run of 2026-11-21, quick", text)
        self.assertIn("other systems of updates", text)

    def test_values_are_combined(self):
        sut = report_of(run([row("raw-tcp", 8.0), row("trunkline", 4.0), row("redis", 1.0), row("aeron", 2.0)]))
        context = {"scenario": "updates", "case": "vars={vars}", "vars": 1, "figure": "rate"}
        for spec, value in [
            ({"over": "raw-tcp"}, 0.5),
            ({"over": {"min": ["raw-tcp", {"max": ["redis", "aeron"]}]}}, 2.0),
            ({"over": {"sum": ["redis", {"system": "aeron", "times": 1.5}]}}, 1.0),
            ({"over": {"most": "peers"}}, 2.0),
            ({"over": {"most": "far-peers"}}, 4.0),
            ({"value": {"over": "redis"}, "over": {"system": "raw-tcp", "over": "redis"}}, 0.5),
            ({"inverse": 1e3}, 250.0),
            ({"over": {"max": ["raw-tcp", "nats"]}}, None),
        ]:
            self.assertEqual(sut.value(spec, context), value, spec)

    def test_each_scenario_is_of_its_newest_run_alone(self):
        first = run([row("redis", 1.0), row("redis", 1.0, scenario="other")], "b.jsonl")
        later = run([row("zeromq", 2.0)], "a.jsonl", time="11:00")
        sut = report_of(later, first)
        self.assertIs(sut.newest["updates"], later)
        self.assertIs(sut.newest["other"], first)
        self.assertIn("2026-11-21 11:00 UTC", later.origin("updates"))

    def test_page_says_what_was_not_measured_or_does_not_count(self):
        text = report_of(run([row("raw-tcp", 8e6), row("redis", 1e6, invalid=["3 updates out of order"]),
                              row("nats", None, invalid=["it failed: no package"])])).text("## Costs\n")
        for part in [
            "| 1 | raw TCP | 8.00 | 1.00 |",
            "| 1 | Redis | does not count | - |",
            "- NATS did not run: it failed: no package",
            "- updates `vars=1` redis, repeat 1: 3 updates out of order",
            "## Costs",
        ]:
            self.assertIn(part, text)
        self.assertNotIn("| 10 |", text)
        self.assertNotIn("Trunkline |", text)
        self.assertIn("*Not measured yet.*", report_of(run([])).text(""))


if __name__ == "__main__":
    unittest.main()
