//! The runs of a results folder, put together: each scenario is of one run, its newest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::machine::Machine;
use crate::plan::SCENARIOS;
use crate::record::Run;

/// A run and the file it is in.
#[derive(Debug)]
pub(super) struct Measured {
    /// Its name, without the folder.
    pub file: String,
    pub run: Run,
}

/// All runs, oldest first; at least one.
#[derive(Debug)]
pub(super) struct Results(Vec<Measured>);

impl Results {
    /// The runs of every result file in `folder`.
    ///
    /// # Errors
    /// There is none, or one cannot be read.
    pub fn of_folder(folder: &Path) -> Outcome<Self> {
        let mut runs = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                runs.push(Measured::read(&path)?);
            }
        }
        if runs.is_empty() {
            return Err(format!("there is no result file in {}", folder.display()).into());
        }
        runs.sort_by(|one, other| one.age_key().cmp(&other.age_key()));
        Ok(Self(runs))
    }

    /// One run alone.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_file(path: &Path) -> Outcome<Self> {
        Ok(Self(vec![Measured::read(path)?]))
    }

    /// The newest run with rows of a scenario. Never rows of two runs: they are not to be compared.
    pub fn with(&self, scenario: &str) -> Option<&Measured> {
        let has_it = |one: &&Measured| one.run.rows.iter().any(|row| row.scenario == scenario);
        self.0.iter().rev().find(has_it)
    }

    /// The run that the section of a scenario is of; any, none of whose rows it is, when it was
    /// never measured.
    pub fn of(&self, scenario: &str) -> &Run {
        let any = &self.0[self.0.len() - 1];
        &self.with(scenario).unwrap_or(any).run
    }

    /// The runs that something on the page is of, with the scenarios that are.
    pub fn used(&self) -> Vec<(&Measured, Vec<&'static str>)> {
        let scenarios_of = |one: &Measured| {
            let is_its = |name: &&str| self.with(name).is_some_and(|run| run.file == one.file);
            SCENARIOS.into_iter().filter(|name| is_its(name)).collect()
        };
        let all = self.0.iter().map(|one| (one, scenarios_of(one)));
        all.filter(|(_, scenarios): &(_, Vec<_>)| !scenarios.is_empty())
            .collect()
    }
}

impl Measured {
    fn read(path: &Path) -> Outcome<Self> {
        let name = path.file_name().unwrap_or_default();
        let run = Run::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            file: name.to_string_lossy().into_owned(),
            run,
        })
    }

    fn age_key(&self) -> (&str, &str, &str) {
        let machine = &self.run.machine;
        (&machine.date, &machine.time, &self.file)
    }

    /// Below the heading of a scenario: what run it is of, and where its processes ran.
    pub fn origin(&self, scenario: &str) -> String {
        let machine = &self.run.machine;
        let rows = self.run.rows.iter().filter(|row| row.scenario == scenario);
        let placements: BTreeSet<&str> = rows
            .map(|row| row.placement.as_str())
            .filter(|placement| !placement.is_empty())
            .collect();
        let placements: Vec<&str> = placements.into_iter().collect();
        format!(
            "*Run of {}, {}; {}; placement: {}; load before it {:.2}; `results/{}`.*",
            moment(machine),
            machine.run,
            kind(machine),
            placements.join(", "),
            machine.load_percent as f64 / 100.0,
            self.file
        )
    }
}

/// When it was.
pub(super) fn moment(machine: &Machine) -> String {
    match machine.time.as_str() {
        "" => machine.date.clone(),
        time => format!("{} {time} UTC", machine.date),
    }
}

/// What kind of machine it is.
pub(super) fn kind(machine: &Machine) -> String {
    let how = match machine.virtual_machine {
        true => "virtual machine",
        false => "no virtual machine",
    };
    format!(
        "{}, {} CPUs, {how}, {} GiB",
        machine.cpu, machine.cpus, machine.memory_gib
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Row, Writer};

    fn write(folder: &Path, file: &str, time: &str, scenarios: &[&str]) {
        let mut machine = Machine::here("default").unwrap();
        machine.date = "2026-11-21".to_owned();
        machine.time = time.to_owned();
        let mut writer = Writer::create(&folder.join(file), &machine).unwrap();
        for scenario in scenarios {
            let row = Row::new(scenario, "trunkline", file.to_owned(), "cross");
            writer.append(&row).unwrap();
        }
    }

    #[test]
    fn each_scenario_is_of_its_newest_run_alone() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a-later.jsonl", "11:00", &["w7"]);
        write(folder.path(), "b-first.jsonl", "", &["w1", "w7"]);
        write(folder.path(), "c-unused.jsonl", "09:00", &["w7"]);
        let sut = Results::of_folder(folder.path()).unwrap();
        assert_eq!(sut.with("w7").unwrap().file, "a-later.jsonl");
        assert_eq!(sut.with("w1").unwrap().file, "b-first.jsonl");
        assert!(sut.with("w2").is_none());
        assert!(sut.of("w2").rows.iter().all(|row| row.scenario != "w2"));
        let used = sut.used();
        let names: Vec<(&str, &[&str])> = used
            .iter()
            .map(|(measured, names)| (measured.file.as_str(), names.as_slice()))
            .collect();
        assert_eq!(
            names,
            [("b-first.jsonl", &["w1"][..]), ("a-later.jsonl", &["w7"])]
        );
        let origin = sut.with("w7").unwrap().origin("w7");
        for part in ["2026-11-21 11:00 UTC", "a-later.jsonl", "placement: cross;"] {
            assert!(origin.contains(part), "{part} in {origin}");
        }
    }

    #[test]
    fn a_folder_without_results_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let error = Results::of_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no result file"), "{error}");
    }
}
