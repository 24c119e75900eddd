//! Tables of all systems of a cell, ours and others, beside their limit.

use super::medians::{Repeats, ratio};
use super::svg::Bars;
use super::{Plot, cells, figure};
use crate::peers::{PEERS, Peer, of};
use crate::record::Run;

/// One column: what it is, and the case it is of.
pub(super) type Column = (String, String);

/// What the rows of a table are about.
pub(super) struct Beside<'a> {
    pub run: &'a Run,
    pub scenario: &'static str,
    /// The systems above the others, with their names; the first is the limit.
    pub ours: &'a [(&'static str, &'static str)],
    pub columns: Vec<Column>,
    pub figure: &'static str,
    /// Written before a ratio.
    pub unit: &'static str,
    /// What the figure is divided by to be shown.
    pub divisor: f64,
}

impl Beside<'_> {
    fn value(&self, system: &str, case: &str) -> Option<f64> {
        Repeats::find(self.run, self.scenario, system, case).figure(self.figure)
    }

    /// The table, without a heading; nothing when no other system was measured.
    pub fn table(&self) -> String {
        let measured = measured(self.run, self.scenario);
        if measured.is_empty() {
            return "*Other systems were not measured in this run.*\n".to_owned();
        }
        let mut head = vec![String::new()];
        for (label, _) in &self.columns {
            head.push(format!("{label}, {}", self.unit));
            head.push("x raw".to_owned());
        }
        let mut text = cells(&head);
        text.push_str(&format!(
            "|---|{}\n",
            "---:|---:|".repeat(self.columns.len())
        ));
        for (system, name) in self.ours.iter().copied().chain(measured) {
            let mut row = vec![name.to_owned()];
            for (_, case) in &self.columns {
                let value = self.value(system, case);
                let limit = self.ours.first().and_then(|raw| self.value(raw.0, case));
                let repeats = Repeats::find(self.run, self.scenario, system, case);
                row.push(match value {
                    None if !repeats.invalid().is_empty() => "does not count".to_owned(),
                    _ => {
                        let value = figure(value.map(|value| value / self.divisor));
                        format!("{value}{}", super::mark(&repeats))
                    }
                });
                row.push(figure(ratio(value, limit)));
            }
            text.push_str(&cells(&row));
        }
        text
    }

    /// The same as bars; nothing to draw when no other system was measured.
    pub fn plot(&self, file: &'static str, title: &str) -> Plot {
        let others = measured(self.run, self.scenario);
        let systems = match others.is_empty() {
            true => Vec::new(),
            false => self.ours.iter().copied().chain(others).collect(),
        };
        let heights = |system| {
            let of = |(_, case): &Column| Some(self.value(system, case)? / self.divisor);
            self.columns.iter().map(of).collect()
        };
        let series = systems.into_iter();
        Plot::of_bars(
            file,
            &Bars {
                title: title.to_owned(),
                y_label: self.unit.to_owned(),
                groups: self.columns.iter().map(|(name, _)| name.clone()).collect(),
                series: series
                    .map(|(system, name)| (name.to_owned(), heights(system)))
                    .collect(),
            },
        )
    }
}

/// The best of the other systems in a cell, by its name; the smallest figure when `smallest`.
pub(super) fn best(
    run: &Run,
    scenario: &'static str,
    case: &str,
    name: &str,
    smallest: bool,
) -> Option<(&'static str, f64)> {
    let figures = of(scenario).filter_map(|peer| {
        let value = Repeats::find(run, scenario, peer.system, case).figure(name)?;
        Some((peer.name, value))
    });
    let by_figure = |one: &(_, f64), other: &(_, f64)| one.1.total_cmp(&other.1);
    if smallest {
        figures.min_by(by_figure)
    } else {
        figures.max_by(by_figure)
    }
}

/// Those measured in a scenario, with their names.
pub(super) fn measured(run: &Run, scenario: &'static str) -> Vec<(&'static str, &'static str)> {
    let is_there = |peer: &&Peer| {
        let mut rows = run.rows.iter();
        rows.any(|row| row.scenario == scenario && row.system == peer.system)
    };
    let peers = of(scenario).filter(is_there);
    peers.map(|peer| (peer.system, peer.name)).collect()
}

/// One thing, or several.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The name of the best, in brackets.
pub(super) fn called(best: Option<(&'static str, f64)>) -> String {
    best.map_or_else(String::new, |(name, _)| format!(" ({name})"))
}

/// Systems that were to be measured and did not run in any cell, with the reason.
pub(super) fn not_run(run: &Run) -> Vec<(&'static str, String)> {
    let reason = |peer: &'static Peer| {
        let mut rows = run.rows.iter().filter(|row| row.system == peer.system);
        let first = rows.next()?;
        let never = rows.chain([first]).all(|row| row.figures.is_empty());
        never.then(|| (peer.name, first.invalid.join("; ")))
    };
    PEERS.iter().filter_map(reason).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    fn run(rows: &[(&str, Option<f64>)]) -> Run {
        let row = |(system, rate): &(&str, Option<f64>)| {
            let mut row = Row::new("w5", system, "vars=1".to_owned(), "cross");
            match rate {
                Some(rate) => row.figure("updates_per_s", *rate),
                None => row.invalid.push("it failed: no package".to_owned()),
            }
            row
        };
        Run {
            machine: Machine::here("quick").unwrap(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn the_best_peer_and_those_that_did_not_run_are_named() {
        let sut = run(&[
            ("raw-tcp", Some(100.0)),
            ("trunkline", Some(50.0)),
            ("redis", Some(10.0)),
            ("zeromq", Some(20.0)),
            ("nats", None),
        ]);
        let best = best(&sut, "w5", "vars=1", "updates_per_s", false);
        assert_eq!(best, Some(("ZeroMQ", 20.0)));
        assert_eq!(
            not_run(&sut),
            [("NATS", "it failed: no package".to_owned())]
        );
        let table = Beside {
            run: &sut,
            scenario: "w5",
            ours: &[("raw-tcp", "raw TCP"), ("trunkline", "Trunkline")],
            columns: vec![("1 variable".to_owned(), "vars=1".to_owned())],
            figure: "updates_per_s",
            unit: "updates/s",
            divisor: 1.0,
        };
        assert!(table.plot("x.svg", "x").svg.is_some());
        let text = table.table();
        assert!(text.contains("| ZeroMQ | 20.0 | 0.200 |"), "{text}");
        assert!(text.contains("| NATS | does not count | - |"), "{text}");
    }
}
