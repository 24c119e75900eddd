//! A run: starts the processes of its plan one after the other and collects their rows.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Outcome;
use crate::history;
use crate::machine::{Machine, load_percent};
use crate::peers;
use crate::plan::{Extent, SCENARIOS, Step};
use crate::record::{Row, Writer};
use crate::recorder;
use crate::stages;

/// Longer than any process of a cell runs.
const CELL_MAX: Duration = Duration::from_secs(1800);
/// Longest time that a cell of another system may take.
const PEER_MAX: Duration = Duration::from_secs(45);
/// The same in the history, where servers start and catch up, and files are made first.
const HISTORY_MAX: Duration = Duration::from_secs(300);
/// A cell of another system that takes longer is measured once.
const PEER_LONG: Duration = Duration::from_secs(12);
/// The same in the history, for as long as that.
const HISTORY_LONG: Duration = Duration::from_secs(60);
/// Load, in hundredths, above which other programs disturb the run.
const QUIET_LOAD_PERCENT: u64 = 30;

/// Measures and writes a result file into `folder`. Returns its path.
pub fn measure(
    extent: Extent,
    scenarios: &[String],
    with_peers: bool,
    folder: &Path,
) -> Outcome<PathBuf> {
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
    // Other systems that take long or fail are not measured again.
    let mut once = BTreeSet::new();
    for repeat in 1..=extent.repeats() {
        for step in extent.steps(repeat, scenarios, with_peers) {
            if once.contains(&step) {
                continue;
            }
            let seconds = start.elapsed().as_secs();
            let cell = step.settings.arguments().join(" ");
            eprintln!(
                "{seconds:>5} s  repeat {repeat}  {} {} {cell}",
                step.scenario, step.system
            );
            let begun = Instant::now();
            let rows = rows_of(&step);
            let is_peer = peers::named(step.system);
            if is_peer.is_some_and(|peer| begun.elapsed() > long(&step) || peer.program().is_err())
            {
                once.insert(step);
            }
            for mut row in rows {
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

/// Returns the part of the file name that tells a run of some scenarios from others.
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

/// Returns the rows of a step, or a row with the reason of its failure.
fn rows_of(step: &Step) -> Vec<Row> {
    run_step(step).unwrap_or_else(|error| {
        let case = step.settings.arguments().join(" ");
        let mut row = Row::new(step.scenario, step.system, case, "");
        let is_there = peers::named(step.system).is_none_or(|peer| peer.program().is_ok());
        row.invalid.push(match is_there {
            true => format!("it failed: {error}"),
            false => error.to_string(),
        });
        vec![row]
    })
}

/// Returns the time after which a cell of another system is not measured again.
fn long(step: &Step) -> Duration {
    match step.scenario {
        history::SCENARIO => HISTORY_LONG,
        _ => PEER_LONG,
    }
}

fn run_step(step: &Step) -> Outcome<Vec<Row>> {
    let (program, most) = match peers::named(step.system) {
        None => (std::env::current_exe()?, CELL_MAX),
        // In these scenarios a cell of this program starts the other system.
        Some(_) if step.scenario == recorder::SCENARIO => (std::env::current_exe()?, PEER_MAX),
        Some(_) if step.scenario == history::SCENARIO => (std::env::current_exe()?, HISTORY_MAX),
        Some(peer) => (peer.program()?, PEER_MAX),
    };
    let mut child = Command::new(program)
        .args(["cell", step.scenario, step.system])
        .args(step.settings.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = Pid::from_child(&child);
    let output = child.stdout.take().ok_or("a cell without an output")?;
    let errors = child.stderr.take().ok_or("a cell without an output")?;
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Fails only if the cell took too long and the receiver is gone.
            let _ = sender.send(line);
        }
    });
    let deadline = Instant::now() + most;
    let mut rows = Vec::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => rows.push(serde_json::from_str(&line)?),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                // Ends the process and those that it has started. Fails only if it has ended
                // already.
                let _ = kill_process_group(group, Signal::KILL);
                child.wait()?;
                return Err(format!("it did not end within {} s", most.as_secs()).into());
            }
        }
    }
    let is_success = child.wait()?.success();
    // So that nothing disturbs the next cell.
    let _ = kill_process_group(group, Signal::KILL);
    if is_success {
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
    fn a_run_can_be_limited_to_a_scenario() {
        let names = ["footprint".to_owned(), "in_process".to_owned()];
        assert_eq!(selection(&names).unwrap(), "-in_process-footprint");
        assert_eq!(selection(&[]).unwrap(), "");
        let error = selection(&["w99".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("w99") && error.contains("footprint"),
            "{error}"
        );
    }
}
