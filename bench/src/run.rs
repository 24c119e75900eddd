//! The order of a run: every cell with every system in turn, several times over.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::cells::{RAW, TRUNKLINE, TRUNKLINE_BATCHED};
use crate::machine::{Machine, load_percent};
use crate::record::{Row, Writer};
use crate::settings::Settings;
use crate::stages;
use crate::w1::{self, Kind};
use crate::{w2, w5, w7, w8};

/// Longer than any process of a cell runs.
const CELL_MAX: Duration = Duration::from_secs(900);
/// A load above this, in hundredths, is somebody else's work.
const QUIET_LOAD_PERCENT: u64 = 30;

/// All scenarios, in the order in which they are measured and reported.
pub const SCENARIOS: [&str; 6] = [
    w1::SCENARIO,
    w2::SCENARIO,
    w5::SCENARIO,
    w7::SCENARIO,
    w8::SCENARIO,
    stages::SCENARIO,
];

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Whether everything works: a few cells, a few seconds.
    Quick,
    /// Everything, as many ticks as fit into about twelve minutes.
    Default,
    /// Everything as published: 1002 ticks per cell of W1 in three repeats, a million synchronous
    /// calls in W2. About three and a half hours.
    Full,
}

/// A process to be started: one or several cells of one system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    scenario: &'static str,
    system: &'static str,
    settings: Settings,
}

/// Scenario, systems that take turns, settings.
type Cell = (&'static str, &'static [&'static str], Settings);

impl Extent {
    fn name(self) -> &'static str {
        match self {
            Extent::Quick => "quick",
            Extent::Default => "default",
            Extent::Full => "full",
        }
    }

    fn repeats(self) -> u32 {
        if self == Extent::Quick { 1 } else { 3 }
    }

    /// Periods and how many ticks of each, as a W1 cell takes them.
    fn periods(self) -> String {
        let ticks = |period| match (self, period) {
            (Extent::Quick, _) => 20,
            (Extent::Full, _) => 334,
            (Extent::Default, 10) => 100,
            (Extent::Default, 50) => 20,
            (Extent::Default, 100) => 10,
            (Extent::Default, _) => 8,
        };
        let periods: &[u64] = if self == Extent::Quick {
            &[10]
        } else {
            &w1::PERIODS_MS
        };
        let words = periods
            .iter()
            .map(|period| format!("{period}:{}", ticks(*period)));
        words.collect::<Vec<_>>().join(",")
    }

    /// The steps of one repeat. The systems of a cell follow each other; which comes first changes
    /// from repeat to repeat.
    fn steps(self, repeat: u32, scenarios: &[String]) -> Vec<Step> {
        let wanted = |name: &str| scenarios.is_empty() || scenarios.iter().any(|one| one == name);
        let mut cells: Vec<Cell> = Vec::new();
        if wanted(w1::SCENARIO) {
            let kinds: &[Kind] = if self == Extent::Quick {
                &[Kind::I32]
            } else {
                &w1::TYPES
            };
            for kind in kinds {
                for variables in w1::VARIABLES {
                    let settings = Settings::default()
                        .with("n", variables)
                        .with("type", kind.name())
                        .with("periods", self.periods());
                    cells.push((w1::SCENARIO, &[RAW, TRUNKLINE], settings));
                }
            }
        }
        if wanted(w2::SCENARIO) {
            let passes = if self == Extent::Quick { 2 } else { 9 };
            let all = w2::OPERATIONS.map(w2::Operation::name).join(",");
            let mut calls = vec![(w2::CALLS, passes, all.as_str())];
            match self {
                Extent::Quick => {}
                Extent::Default => calls.push((w2::MANY_CALLS, 1, "async-put,async-get")),
                Extent::Full => calls.push((w2::MANY_CALLS, 1, all.as_str())),
            }
            for (calls, passes, operations) in calls {
                let settings = Settings::default()
                    .with("calls", calls)
                    .with("passes", passes)
                    .with("operations", operations);
                cells.push((w2::SCENARIO, &[RAW, TRUNKLINE], settings));
            }
        }
        if wanted(w5::SCENARIO) {
            for variables in w5::VARIABLES {
                let (warm_ms, ms) = match self {
                    Extent::Quick => (100, 300),
                    Extent::Default => (1000, 1000),
                    Extent::Full => (1000, 5000),
                };
                let settings = Settings::default()
                    .with("vars", variables)
                    .with("warm_ms", warm_ms)
                    .with("ms", ms);
                cells.push((w5::SCENARIO, &[RAW, TRUNKLINE, TRUNKLINE_BATCHED], settings));
            }
        }
        if wanted(w7::SCENARIO) {
            let (rounds, round_us) = match self {
                Extent::Quick => (3, 500),
                Extent::Default => (15, 5000),
                Extent::Full => (15, 20_000),
            };
            for part in w7::PARTS {
                let settings = Settings::default()
                    .with("part", part)
                    .with("rounds", rounds)
                    .with("round_us", round_us);
                cells.push((w7::SCENARIO, &[w7::SYSTEMS], settings));
            }
        }
        if wanted(w8::SCENARIO) {
            cells.extend(self.w8_cells());
        }
        let mut steps = Vec::new();
        for (scenario, systems, settings) in cells {
            let mut systems = systems.to_vec();
            if repeat.is_multiple_of(2) {
                systems.reverse();
            }
            let step = |system| Step {
                scenario,
                system,
                settings: settings.clone(),
            };
            steps.extend(systems.into_iter().map(step));
        }
        steps
    }

    /// Memory, subscribed items, first full sets, restarts.
    fn w8_cells(self) -> Vec<Cell> {
        let is_quick = self == Extent::Quick;
        let cell = |what: &str, variables: usize| {
            Settings::default()
                .with("what", what)
                .with("vars", variables)
        };
        let mut cells: Vec<Cell> = Vec::new();
        let points = if is_quick { 2 } else { w8::POINTS.len() };
        for variables in &w8::POINTS[..points] {
            let settings = cell("memory", *variables).with("type", w8::TYPES[0]);
            cells.push((w8::SCENARIO, &[w8::memory::MAP, TRUNKLINE], settings));
        }
        let others = if is_quick { 1 } else { w8::TYPES.len() };
        for kind in &w8::TYPES[1..others] {
            for variables in &w8::POINTS[..2] {
                let settings = cell("memory", *variables).with("type", kind);
                cells.push((w8::SCENARIO, &[TRUNKLINE], settings));
            }
        }
        let connected = if is_quick { 1 } else { w8::CONNECTED.len() };
        for variables in &w8::CONNECTED[..connected] {
            for what in ["items-in-process", "items"] {
                cells.push((w8::SCENARIO, &[TRUNKLINE], cell(what, *variables)));
            }
            let passes = if is_quick { 1 } else { 5 };
            let settings = cell("connect", *variables).with("passes", passes);
            cells.push((w8::SCENARIO, &[RAW, TRUNKLINE], settings));
        }
        let restarts = if is_quick { 1 } else { 5 };
        let settings = cell("restart", w8::RESTARTED).with("restarts", restarts);
        cells.push((w8::SCENARIO, &[TRUNKLINE], settings));
        cells
    }
}

/// Measures, and writes the results into `folder`. Returns the file.
///
/// # Errors
/// The file cannot be written.
pub fn measure(extent: Extent, scenarios: &[String], folder: &Path) -> Outcome<PathBuf> {
    let selection = selection(scenarios)?;
    let machine = Machine::here(extent.name())?;
    if machine.load_percent > QUIET_LOAD_PERCENT {
        eprintln!(
            "the machine is busy (load {}): the figures will not be its best",
            load()?
        );
    }
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!(
        "{}-{}{selection}.jsonl",
        machine.date,
        machine.class()
    ));
    let mut writer = Writer::create(&path, &machine)?;
    let start = Instant::now();
    for repeat in 1..=extent.repeats() {
        for step in extent.steps(repeat, scenarios) {
            let seconds = start.elapsed().as_secs();
            let cell = step.settings.arguments().join(" ");
            eprintln!(
                "{seconds:>5} s  repeat {repeat}  {} {} {cell}",
                step.scenario, step.system
            );
            for mut row in rows_of(&step) {
                row.repeat = repeat;
                for reason in &row.invalid {
                    eprintln!("         {} does not count: {reason}", row.case);
                }
                writer.append(&row)?;
            }
        }
        if scenarios.is_empty() || scenarios.iter().any(|one| one == stages::SCENARIO) {
            eprintln!(
                "{:>5} s  repeat {repeat}  {}",
                start.elapsed().as_secs(),
                stages::SCENARIO
            );
            for mut row in stages::measure()? {
                row.repeat = repeat;
                writer.append(&row)?;
            }
        }
    }
    Ok(path)
}

/// What the name of a file says of a run of some scenarios only, so that it takes the place of no
/// other.
fn selection(scenarios: &[String]) -> Outcome<String> {
    if let Some(unknown) = scenarios
        .iter()
        .find(|name| !SCENARIOS.contains(&name.as_str()))
    {
        return Err(format!(
            "there is no scenario {unknown}; there are {}",
            SCENARIOS.join(", ")
        )
        .into());
    }
    let named = SCENARIOS
        .iter()
        .filter(|known| scenarios.iter().any(|name| name == *known));
    Ok(named.map(|name| format!("-{name}")).collect())
}

fn load() -> Outcome<String> {
    let percent = load_percent()?;
    Ok(format!("{}.{:02}", percent / 100, percent % 100))
}

/// What a step measured; when it failed, a row that says so.
fn rows_of(step: &Step) -> Vec<Row> {
    run_step(step).unwrap_or_else(|error| {
        let case = step.settings.arguments().join(" ");
        let mut row = Row::new(step.scenario, step.system, case, "");
        row.invalid.push(format!("it failed: {error}"));
        vec![row]
    })
}

fn run_step(step: &Step) -> Outcome<Vec<Row>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["cell", step.scenario, step.system])
        .args(step.settings.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("a cell without an output")?;
    let errors = child.stderr.take().ok_or("a cell without an output")?;
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody listens any more when the cell took too long.
            let _ = sender.send(line);
        }
    });
    let deadline = Instant::now() + CELL_MAX;
    let mut rows = Vec::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => rows.push(serde_json::from_str(&line)?),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                return Err("it did not end in time".into());
            }
        }
    }
    if child.wait()?.success() {
        return Ok(rows);
    }
    let sentences: Vec<String> = BufReader::new(errors)
        .lines()
        .map_while(Result::ok)
        .collect();
    Err(sentences.join("; ").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_of_a_cell_follow_each_other_and_change_places() {
        let first = Extent::Default.steps(1, &[]);
        let second = Extent::Default.steps(2, &[]);
        assert_eq!(first.len(), second.len());
        assert_eq!((first[0].system, first[1].system), (RAW, TRUNKLINE));
        assert_eq!((second[0].system, second[1].system), (TRUNKLINE, RAW));
        assert_eq!(first[0].settings, first[1].settings);
        // 15 connections of W1, two numbers of calls, four numbers of variables with three systems.
        let published = 15 * 2 + 2 * 2 + 4 * 3;
        // Two halves of W7; memory at four points beside a map and of five more types at two of
        // them; of two numbers of variables items in two ways and first sets of two systems; a
        // restart.
        assert_eq!(first.len(), published + 2 + (4 * 2 + 5 * 2 + 2 * 4 + 1));
    }

    #[test]
    fn a_run_can_be_limited_to_a_scenario() {
        let steps = Extent::Full.steps(1, &["w2".to_owned()]);
        assert!(steps.iter().all(|step| step.scenario == "w2"));
        let names = ["w8".to_owned(), "w7".to_owned()];
        assert_eq!(selection(&names).unwrap(), "-w7-w8");
        assert_eq!(selection(&[]).unwrap(), "");
        let error = selection(&["w9".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("w9") && error.contains("w8"), "{error}");
        assert!(Extent::Full.periods().starts_with("10:334,50:334"));
    }
}
