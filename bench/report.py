#!/usr/bin/env python3
"""Writes RESULTS.md and plots/ from the result files.

    bench/report.py                  from bench/results into bench
    bench/report.py --folder FOLDER  from FOLDER/results into FOLDER
    bench/report.py --check          fails if RESULTS.md does not match the results; draws nothing

A scenario comes from the newest result file that contains it, and its parts, plots and bars with other
systems from the newest one that contains them too: never one table from two files. `report.toml`
defines the page. A scenario has parts (heading, text, table) and plots. A value is a figure of a
system in a case, written as a table of keys:

    scenario, system, case, figure   select the figure; a case is a set of `key=value` words
    total, inverse                   the sum of the repeats instead of the median; N divided by it
    sum, min, max                    of several values, which inherit the keys of the whole
    most, least                      the best of other systems: `peers`, `far-peers`, `near-peers`
    value, over                      a value and its divisor; a name alone is a system
    times, per                       numbers, words that are numbers, or a number for each system

Every other key is a word, used as `{word}` in texts. In `rows`, `across`, `each`, `lines`, `points`
and `values`, a list means one entry per element, the first key outermost. Rows without any
measured value are left out.
"""

import argparse
import difflib
import itertools
import json
import math
import pathlib
import statistics
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent

HEAD = """\
# Results

Written by `bench/report.py` from the files in `bench/results`; only the last part is edited by hand. \
[Measure performance](../docs/how-to/measure.md) explains how it was measured and how to read it."""

RULES = """\
Placement `cross`: one CPU per process, including its threads; `same`: both ends on one CPU. Waiting: raw \
blocks at once on both sides. So does Trunkline in W1 and W2, where spinning, its default, is off, except \
in the rows that name it and in the rows of shared memory that do not name sleeping. In all other scenarios \
with connections Trunkline waits as it does by default, even where raw sleeps: an end may spin for a while \
before it sleeps if that has helped recently. In the FIFOs of W7 both ends spin without limit.

Every figure is the median of the repeats of one run, in which the systems took turns cell by cell. Each \
scenario shows its newest run, which its section names. *Raw* is plain TCP with the least code that does \
the same work. Only `bench/run --peers` and `bench/run clients` measure other systems; tables, plots and bars with \
them use the newest such run, and name it if it is an older one. Each system has the settings that its documentation \
recommends for speed and stores nothing on disk, except in the history; its rows count only if nothing was \
lost, out of order or wrong. Ratios are to raw unless stated otherwise; figures of different runs must not be compared. An \
asterisk: an end was often answered before it could sleep (less than 0.9 voluntary context switches per \
wait), so the row does not measure sleeping ends. In W1 and W2 the machine causes this, because no program \
spins there; elsewhere, in the rows of Trunkline, either may be the cause."""

BARS = """\
A bar that is not met shows the distance to it. Bars against other systems compare with the best one of the \
same run, named in brackets. Instructions are those of `bench/instructions.toml`."""

STATEMENTS = """\
The published tests of shared variables state ratios and shapes rather than figures. The named scenario \
repeats each test; the figures are from the run of its section."""

# Keys that process a value. The values below it do not inherit them.
OPERATIONS = {
    "beside", "bracket", "bracket_show", "ends", "given", "head", "least", "mark", "max", "min", "most", "over",
    "per", "show", "sum", "times", "total", "value", "word",
}
# Keys whose lists do not mean one entry per element.
LISTS = {"cells", "given", "max", "min", "sum"}
NEAR = {"iceoryx2", "aeron"}
# Groups of other systems.
GROUPS = {
    "peers": lambda system: True,
    "near-peers": lambda system: system in NEAR,
    "far-peers": lambda system: system not in NEAR,
}


def figure(value):
    """Three digits, or a dash if it was not measured."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = min(max(2 - math.floor(math.log10(abs(value))), 0), 4)
    return f"{value:.{digits}f}"


def line(cells):
    return f"| {' | '.join(cells)} |"


def table(head, rows, are_numbers):
    marks = "".join("---:|" if is_number else "---|" for is_number in are_numbers)
    return "\n".join([line(head), f"|{marks}", *map(line, rows)])


class Run:
    """A result file: the machine, and a row for each system, cell and repeat."""

    def __init__(self, path):
        first, *rows = path.read_text().splitlines()
        self.file = path.name
        self.machine = json.loads(first)
        self.rows = [json.loads(row) for row in rows]
        self.systems = {}
        for row in self.rows:
            row["words"] = set(row["case"].split())
            self.systems.setdefault((row["scenario"], row["system"]), []).append(row)

    def age(self):
        return (self.machine["date"], self.machine.get("time", ""), self.file)

    def moment(self):
        time = self.machine.get("time", "")
        return f"{self.machine['date']} {time} UTC" if time else self.machine["date"]

    def kind(self):
        machine = self.machine
        how = "virtual machine" if machine["virtual_machine"] else "no virtual machine"
        return f"{machine['cpu']}, {machine['cpus']} CPUs, {how}, {machine['memory_gib']} GiB"

    def load(self):
        return f"{self.machine['load_percent'] / 100:.2f}"

    def origin(self, scenario):
        rows = (row for row in self.rows if row["scenario"] == scenario)
        placements = sorted({row["placement"] for row in rows} - {""})
        return (
            f"*`{scenario}`, run of {self.moment()}, {self.machine['run']}; {self.kind()}; placement: "
            f"{', '.join(placements)}; load before {self.load()}; `results/{self.file}`.*"
        )


class Report:
    def __init__(self, runs, page, instructions):
        self.page = page
        self.instructions = instructions
        self.peers = page["peers"]
        self.scenarios = [scenario["name"] for scenario in page["scenario"]]
        self.runs = sorted(runs, key=Run.age)
        self.newest = {row["scenario"]: run for run in self.runs for row in run.rows}
        # The newest runs with other systems.
        self.compared = {
            row["scenario"]: run for run in self.runs for row in run.rows if row["system"] in self.peers
        }

    # Values.

    def repeats(self, context):
        """The rows of a cell."""
        scenario = context["scenario"]
        run = (self.compared if context.get("is_compared") else self.newest).get(scenario)
        system = fill(context.get("system", "trunkline"), context)
        words = set(fill(context.get("case", ""), context).split())
        rows = run.systems.get((scenario, system), []) if run else []
        return [row for row in rows if words <= row["words"]]

    def value(self, spec, outer):
        """The value that `spec` selects within `outer`, or None if it was not measured."""
        spec = {"system": spec} if isinstance(spec, str) else spec
        here = {key: value for key, value in outer.items() if key not in OPERATIONS} | spec
        value = self.undivided(spec, here)
        if value is None:
            return None
        value *= number(spec.get("times", 1), here)
        value /= number(spec.get("per", 1), here)
        if "over" not in spec:
            return value
        limit = self.value(spec["over"], here)
        return value / limit if limit else None

    def undivided(self, spec, here):
        for name, function in [("sum", sum), ("min", min), ("max", max)]:
            if name in spec:
                values = [self.value(one, here) for one in spec[name]]
                return None if None in values else function(values)
        if "value" in spec:
            return self.value(spec["value"], here)
        for name in ["most", "least"]:
            if name in spec:
                best = self.best(spec[name], here, max if name == "most" else min)
                return best and best[0]
        name = fill(here["figure"], here)
        rows = (row for row in self.repeats(here) if not row["invalid"])
        values = [row["figures"][name] for row in rows if name in row["figures"]]
        if not values:
            return None
        value = sum(values) if spec.get("total") else statistics.median(values)
        return here["inverse"] / value if "inverse" in here else value

    def of_compared(self, spec, context):
        """`context`, with the run that has the other systems if `spec` names them."""
        is_compared = any(f'"{name}"' in json.dumps(spec) for name in GROUPS)
        return context | {"is_compared": True} if is_compared and self.is_older(context["scenario"]) else context

    def is_older(self, scenario):
        """Whether the newest run with other systems is not the newest run."""
        return self.compared.get(scenario) not in [None, self.newest.get(scenario)]

    def best(self, group, context, choose):
        """The best of a group of other systems, as its value and its name."""
        context = {key: value for key, value in context.items() if key not in OPERATIONS}
        values = ((self.value(system, context), self.peers[system]) for system in self.group(group))
        return choose((value for value in values if value[0] is not None), default=None)

    def group(self, name):
        """The systems of a name."""
        return [system for system in self.peers if GROUPS[name](system)] if name in GROUPS else [name]

    def entries(self, specs):
        """The entries of tables with lists."""
        for spec in specs:
            keys = [key for key in spec if key == "system" or isinstance(spec[key], list) and key not in LISTS]
            choices = [spec[key] if isinstance(spec[key], list) else [spec[key]] for key in keys]
            if "system" in keys:
                at = keys.index("system")
                choices[at] = [system for name in choices[at] for system in self.group(name)]
            for chosen in itertools.product(*choices):
                yield spec | dict(zip(keys, chosen))

    # Parts of the page.

    def name(self, context):
        system = context["system"]
        names = context.get("names", {})
        if names == "none":
            return system
        all_names = {"raw-tcp": "raw TCP", "trunkline": "Trunkline"} | self.peers | names
        return fill(all_names.get(system, system), context)

    def mark(self, context):
        """The mark of figures of an end that was often answered before it could sleep."""
        is_mixed = any(row["waiting"] == "mixed" and not row["invalid"] for row in self.repeats(context))
        return " *" if is_mixed else ""

    def cell(self, column, row):
        """A cell of a table, and whether it has a measured value."""
        context = row | column
        mark = self.mark(context) if column.get("mark") else ""
        if "word" in column:
            word = self.name(context) if column["word"] == "system" else context[column["word"]]
            if "per" in column:
                word = shown(word / column["per"], column.get("show"))
            return fill(str(word), context) + mark, False
        if "given" in column:
            given = self.page["given"][row["type"]][str(row["n"])][str(row["t"])]
            return f"{given[column['given']]:g}", False
        repeats = self.repeats(context)
        if "ends" in column:
            return next((row["waiting"] for row in repeats if not row["invalid"]), "-"), bool(repeats)
        if "beside" in column:
            cells = [self.cell({"mark": True} | as_table(one), row | column_words(column)) for one in column["beside"]]
            return " / ".join(text for text, _ in cells), any(is_there for _, is_there in cells)
        value = self.value(column, row)
        text = shown(value, column.get("show"))
        bracket = self.value(column["bracket"], context) if "bracket" in column else None
        if value is not None and bracket is not None:
            text += f" ({shown(bracket, column.get('bracket_show'))})"
        return text + mark, bool(repeats)

    def table(self, part, context):
        lead, columns = part.get("lead", []), part["columns"]
        across = part.get("across", [{}])
        head = [fill(column["head"], context) for column in lead]
        head += [fill(column["head"], context | one) for one in across for column in columns]
        numbers = None
        rows = []
        for row in self.entries(part["rows"]):
            if "cells" in row:
                rows.append(row["cells"])
                continue
            row = context | row
            cells = [self.cell(column, row)[0] for column in lead]
            is_measured = False
            for one in across:
                has_value = False
                for column in columns:
                    text, is_there = self.cell(column, row | one)
                    is_value = not {"word", "given", "ends"} & column.keys()
                    if text == "-" and is_there and is_value and not has_value and self.is_void(row | one | column):
                        text = "does not count"
                    has_value |= is_value
                    is_measured |= is_there
                    cells.append(text)
            if is_measured:
                rows.append(cells)
                all_columns = lead + columns * len(across)
                numbers = numbers or [is_number(column, row) for column in all_columns]
        return table(head, rows, numbers) if numbers else None

    def is_void(self, context):
        """True if repeats were measured and none of them counts."""
        repeats = self.repeats(context)
        return bool(repeats) and all(row["invalid"] for row in repeats)

    def part(self, part, context):
        """The blocks of a part; none if its table is empty."""
        blocks = []
        context = self.of_compared(part, context)
        if "heading" in part:
            blocks.append(f"### {fill(part['heading'], context)}")
        if context.get("is_compared"):
            blocks.append(self.compared[context["scenario"]].origin(context["scenario"]))
        if "special" in part:
            fit = self.fit()
            return [part["text"].format(**fit)] if fit else []
        if "values" in part:
            values = self.values(part, context)
            return [part["text"].format(*values)] if set(values) != {"-"} else []
        if "text" in part:
            blocks.append(part["text"])
        if "columns" in part:
            text = self.table(part, context)
            if text is None:
                return []
            blocks.append(text)
        return blocks

    def values(self, spec, context):
        return [shown(self.value(one, context), spec.get("show")) for one in self.entries(spec["values"])]

    def section(self, scenario):
        name = scenario["name"]
        run = self.newest.get(name)
        blocks = [f"## {scenario['heading']}", run.origin(name) if run else "*Not measured yet.*"]
        context = words_of(scenario) | {"scenario": name}
        for part in scenario["part"]:
            for words in self.entries(part.get("each", [{}])):
                blocks += self.part(part, context | words_of(part) | words)
        for plot in scenario.get("plot", []):
            if any(points for _, points, _ in self.series(plot, context)):
                blocks.append(f"![{plot['title']}](plots/{plot['file']})")
                if self.of_compared(plot, context).get("is_compared"):
                    blocks.append(f"*Run of {self.compared[name].moment()}.*")
        return blocks

    def head(self):
        rows = []
        for run in self.runs:
            names = [name for name in self.scenarios if self.newest.get(name) is run]
            older = [name for name in self.scenarios if self.is_older(name) and self.compared[name] is run]
            names += [f"other systems of {', '.join(older)}"] if older else []
            machine = run.machine
            program = f"Trunkline {machine['version']}"
            cells = [", ".join(names), run.moment(), machine["run"], run.kind(), machine["kernel"], program]
            if names:
                rows.append([*cells, run.load()])
        head = ["scenarios", "date", "run", "processor", "system", "program", "load before"]
        return [HEAD, table(head, rows, [False] * 6 + [True]), RULES]

    def bars(self):
        rows = []
        for bar in self.page["bar"]:
            for words in self.entries(bar.get("each", [{}])):
                rows.append(self.bar(bar | words))
        head = ["bar", "measure", "required", "measured", ""]
        return ["## Distance to the bars", BARS, table(head, rows, [False, False, True, True, False])]

    def bar(self, bar):
        bar = {key: value for key, value in bar.items() if key != "each"}
        bar = self.of_compared(bar, bar) if "scenario" in bar else bar
        words = dict(bar)
        if bar.get("special") == "instructions":
            several, one = (self.instructions[name]["measured"] for name in ["fan-out-32", "fan-out-1"])
            measured, words = several / one, words | {"several": several, "one": one}
        elif bar.get("special") == "fit":
            fit = self.fit()
            measured = fit and fit["deviation"]
        else:
            measured = self.value(bar, {})
            over = bar.get("over")
            if isinstance(over, dict) and ("most" in over or "least" in over):
                group = over.get("most") or over.get("least")
                best = self.best(group, bar, max if "most" in over else min)
                run = f", run of {self.compared[bar['scenario']].moment()}" if bar.get("is_compared") else ""
                words["best"] = f" ({best[1]}{run})" if best else ""
        limit = bar.get("at_most", bar.get("at_least"))
        sign = "<=" if "at_most" in bar else ">="
        verdict = "not measured"
        if measured is not None:
            verdict = "met" if (measured <= limit if sign == "<=" else measured >= limit) else "not yet"
        what = fill(fill(bar["what"], words), words)
        return [bar["id"], what, f"{sign} {limit:g}", figure(measured), verdict]

    def statements(self):
        rows = []
        for one in self.page["statement"]:
            here = one["here"].format(*self.values(one, one))
            rows.append([one["test"], one["stated"], one["redrawn"], here])
        head = ["test", "statement", "scenario", "measured"]
        return ["## T1 to T6", STATEMENTS, table(head, rows, [False] * 4)]

    def not_counting(self):
        """Every row that does not count, with its reason."""
        reasons = {}
        pairs = [(name, self.newest[name]) for name in self.scenarios if name in self.newest]
        pairs += [(name, self.compared[name]) for name in self.scenarios if self.is_older(name)]
        for _, run in pairs:
            for system in self.peers:
                rows = [row for row in run.rows if row["system"] == system]
                if rows and not any(row["figures"] for row in rows):
                    reasons.setdefault(system, "; ".join(rows[0]["invalid"]))
        lines = [f"- {self.peers[system]} did not run: {reason}" for system, reason in reasons.items()]
        for scenario, run in pairs:
            for row in run.rows:
                if row["scenario"] == scenario and row["invalid"] and row["system"] not in reasons:
                    where = f"{scenario} `{row['case']}` {row['system']}, repeat {row['repeat']}"
                    lines.append(f"- {where}: {'; '.join(row['invalid'])}")
        text = "\n".join(lines) or "None: every row met the rule of its scenario."
        return ["## Rows that do not count", text]

    def fit(self):
        """The least-squares line through the added bytes by number of variables."""
        context = {"scenario": self.page["fit"], "case": "what=memory vars={vars} type=f64", "figure": "bytes_per_variable"}
        counts = [500, 1000, 100_000, 1_000_000]
        each = [(count, self.value({"vars": count}, context)) for count in counts]
        points = [(count, bytes_each * count) for count, bytes_each in each if bytes_each is not None]
        if len(points) < 3:
            return None
        slope, intercept = statistics.linear_regression(*zip(*points))
        lines = [(slope * count + intercept, total) for count, total in points if count >= 100_000]
        deviation = max(abs((total - line) / line) * 100 for line, total in lines)
        return {"slope": slope, "intercept": intercept / 1024, "deviation": deviation}

    def text(self, costs):
        blocks = self.head() + self.bars()
        for scenario in self.page["scenario"]:
            blocks += self.section(scenario)
        blocks += self.statements()
        if costs:
            blocks += ["<!-- The rest is costs.md, word for word. -->", costs.strip("\n")]
        return "\n\n".join(blocks + self.not_counting()) + "\n"

    # Plots.

    def series(self, plot, context):
        """The lines or bars of a plot: name, points, and whether it is a limit."""
        context = self.of_compared(plot, context | words_of(plot))
        groups = list(self.entries(plot.get("groups") or [plot["points"]]))
        for one in self.entries(plot["lines"]):
            if "given" in one:
                pairs = one["given"] if "points" in plot else enumerate(one["given"])
                yield one["name"], [(x, y) for x, y in pairs], True
                continue
            points = []
            for at, group in enumerate(groups):
                here = context | one | group
                x = at
                if "points" in plot:
                    x = here[plot["x"]] if isinstance(plot["x"], str) else self.value(plot["x"], here)
                y = self.value({key: plot[key] for key in ["sum", "times", "per"] if key in plot}, here)
                if x is not None and y:
                    points.append((x / plot.get("x_per", 1), y))
            name = self.name(context | one)
            is_limit = not one["system"].startswith("trunkline") and one["system"] not in self.peers
            if points:
                yield fill(one.get("name", name), one | {"system": name}), points, is_limit

    def draw(self, folder):
        import matplotlib

        matplotlib.use("svg")
        import matplotlib.pyplot as pyplot

        matplotlib.rcParams |= {"svg.hashsalt": "trunkline", "svg.fonttype": "none"}
        folder.mkdir(parents=True, exist_ok=True)
        for scenario in self.page["scenario"]:
            context = words_of(scenario) | {"scenario": scenario["name"]}
            for plot in scenario.get("plot", []):
                series = list(self.series(plot, context))
                if not series:
                    continue
                drawing, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
                for number, (name, points, is_limit) in enumerate(series):
                    if "groups" in plot:
                        width = 0.8 / len(series)
                        places = [x - 0.4 + width * (number + 0.5) for x, _ in points]
                        axes.bar(places, [y for _, y in points], width, label=name, color=f"C{number % 10}",
                                 hatch="//" if number >= 10 else None)
                    else:
                        axes.plot(*zip(*points), "--" if is_limit else "-", marker="os^Dv"[number % 5], label=name)
                axes.set(title=plot["title"], ylabel=plot["y_label"], yscale="log")
                if "groups" in plot:
                    labels = [group.get("label", group.get("op")) for group in plot["groups"]]
                    axes.set_xticks(range(len(labels)), labels)
                else:
                    axes.set(xlabel=plot["x_label"], xscale="log")
                axes.minorticks_off()
                axes.grid(alpha=0.4)
                drawing.legend(loc="outside right upper", frameon=False)
                drawing.savefig(folder / plot["file"], metadata={"Date": None})
                pyplot.close(drawing)


def fill(text, words):
    """`text` with its words replaced; unknown words remain for a later call."""
    for key, value in words.items():
        if f"{{{key}" in text:
            text = text.replace(f"{{{key}}}", str(value))
            text = text.replace(f"{{{key}:.0f}}", f"{value:.0f}" if isinstance(value, float) else "")
    return text


def number(value, words):
    if isinstance(value, dict):
        return value[words["system"]]
    return words[value] if isinstance(value, str) else value


def is_number(column, row):
    return "ends" not in column and not isinstance(row.get(column.get("word")), str)


def shown(value, form):
    return form.format(value) if form and value is not None else figure(value)


def as_table(spec):
    return {"system": spec} if isinstance(spec, str) else spec


def column_words(column):
    return {key: value for key, value in column.items() if key not in OPERATIONS}


def words_of(table):
    """The keys that the values below a table inherit."""
    structure = {"part", "plot", "columns", "lead", "across", "rows", "each", "values", "text", "heading", "title",
                 "file", "groups", "lines", "points", "x", "x_label", "y_label", "x_per"}
    return {key: value for key, value in table.items() if key not in OPERATIONS | structure}


def main():
    arguments = argparse.ArgumentParser(description="Writes tables and plots of the results.")
    arguments.add_argument("--folder", type=pathlib.Path, default=HERE, help="folder of `results`, the page and the plots")
    arguments.add_argument("--check", action="store_true", help="fail if the page does not match the results")
    arguments = arguments.parse_args()
    folder = arguments.folder
    files = sorted((folder / "results").glob("*.jsonl"))
    if not files:
        sys.exit(f"error: there is no result file in {folder / 'results'}")
    page = tomllib.loads((HERE / "report.toml").read_text())
    instructions = tomllib.loads((HERE / "instructions.toml").read_text())
    report = Report([Run(path) for path in files], page, instructions)
    costs = folder / "costs.md"
    text = report.text(costs.read_text() if costs.exists() else "")
    target = folder / "RESULTS.md"
    if arguments.check:
        old = target.read_text().splitlines()
        differences = list(difflib.unified_diff(old, text.splitlines(), str(target), "from the results", lineterm=""))
        if differences:
            print("\n".join(differences))
            sys.exit("error: RESULTS.md is stale; run bench/report.py")
        return
    report.draw(folder / "plots")
    target.write_text(text)


if __name__ == "__main__":
    main()
