//! Result files: a line of JSON about the machine, then one line per measured cell.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::machine::Machine;

/// Voluntary context switches per wait from which an end counts as sleeping.
const SLEEPING_SHARE_MIN: f64 = 0.9;

/// One measurement of one system in one cell of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the scenario, such as `round_trip_grid`.
    pub scenario: String,
    /// Name of the system: `trunkline`, the limit `raw-tcp` or another system; in `in_process` a
    /// cell, a FIFO or a lock.
    pub system: String,
    /// The cell, as `key=value` words.
    pub case: String,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// CPUs of the processes.
    pub placement: String,
    /// How the ends waited: `sleeping`, or `mixed` if an answer often arrived before an end could
    /// sleep. Raw always blocks at once. Trunkline does in `round_trip_grid` and `call_cost` unless
    /// the cell names spinning; elsewhere it may spin before it sleeps. In `in_process`, `none` do
    /// not wait and FIFOs are `spinning`, like memory in `same_host`.
    pub waiting: String,
    /// Figures by name; names end in their unit.
    pub figures: BTreeMap<String, f64>,
    /// Reasons why the row does not count; empty if it counts.
    pub invalid: Vec<String>,
}

impl Row {
    /// Creates a row without figures.
    pub fn new(scenario: &str, system: &str, case: String, placement: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            system: system.to_owned(),
            case,
            repeat: 1,
            placement: placement.to_owned(),
            waiting: "sleeping".to_owned(),
            figures: BTreeMap::new(),
            invalid: Vec::new(),
        }
    }

    pub fn figure(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), value);
    }

    /// Enters how often an end slept per wait. From 0.9 on, it counts as sleeping. The last wait is
    /// not counted.
    pub fn slept(&mut self, end: &str, switches: u64, waits: f64) {
        self.figure(&format!("{end}_switches_per_wait"), switches as f64 / waits);
        if (switches + 1) as f64 / waits < SLEEPING_SHARE_MIN {
            self.waiting = "mixed".to_owned();
        }
    }

    /// Enters a reason why the row does not count, unless `holds`.
    pub fn require(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.invalid.push(otherwise());
        }
    }
}

/// Appends to a result file, so that an interrupted run keeps its rows.
#[derive(Debug)]
pub struct Writer(File);

impl Writer {
    pub fn create(path: &Path, machine: &Machine) -> Outcome<Self> {
        let mut file = File::create(path)?;
        writeln!(file, "{}", serde_json::to_string(machine)?)?;
        Ok(Self(file))
    }

    pub fn append(&mut self, row: &Row) -> Outcome<()> {
        writeln!(self.0, "{}", serde_json::to_string(row)?)?;
        Ok(self.0.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_seldom_slept_makes_the_row_mixed() {
        let row = |switches| {
            let mut row = Row::new(
                "round_trip_grid",
                "raw-tcp",
                "n=10 t=50".to_owned(),
                "cross",
            );
            row.slept("near", 100, 100.0);
            row.slept("far", switches, 100.0);
            row.waiting
        };
        assert_eq!(
            (row(89), row(88)),
            ("sleeping".to_owned(), "mixed".to_owned())
        );
    }

    #[test]
    fn file_has_a_line_of_the_machine_and_one_of_each_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let machine = Machine::here("default").unwrap();
        let mut row = Row::new(
            "round_trip_grid",
            "raw-tcp",
            "n=10 t=50".to_owned(),
            "cross",
        );
        row.figure("mean_us", 51.25);
        row.require(false, || "two were lost".to_owned());
        let mut sut = Writer::create(&path, &machine).unwrap();
        sut.append(&row).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], serde_json::to_string(&machine).unwrap());
        assert_eq!(serde_json::from_str::<Row>(lines[1]).unwrap(), row);
    }
}
