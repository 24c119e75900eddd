//! W7: the cost of a variable within one process, compared with what programs use otherwise: one
//! value shared by threads (T1), and a FIFO between two threads (T2). Then single parts of the
//! program: the mark set, the engine's calls, both ends of a stream, a link and its server, with
//! and without encryption.
//!
//! All systems of a cell take turns round by round in one process, so that disturbances affect all
//! alike. A row is the median of the rounds.

mod engine_calls;
mod fifos;
mod links;
mod marks;
mod seqlock;
mod stream_ends;
mod tls;
mod values;

use std::fmt;
use std::time::Duration;

use crate::Outcome;
use crate::record::Row;
use crate::settings::Settings;
use crate::statistics::median;

pub use self::fifos::PAYLOADS;

/// Name of the scenario in results.
pub const SCENARIO: &str = "in_process";
/// All systems of a cell run in one process.
pub const SYSTEMS: &str = "all";
/// The parts of the scenario, as the setting `part` names them.
pub const PARTS: [&str; 7] = [
    "values",
    "fifos",
    "marks",
    "engine-calls",
    "stream-ends",
    "links",
    "tls",
];
/// Elements of each FIFO.
pub const CAPACITY: usize = 100;
/// Tries per number of calls; the quickest one counts.
const TRIES: u32 = 5;

/// Result of one round of a system.
#[derive(Clone, Copy, Debug)]
struct Timed {
    elapsed: Duration,
    /// Wrong readings, or elements lost or out of order.
    wrong: u64,
}

/// One system in one cell: makes the given number of calls, or moves that many elements.
struct Contender {
    system: &'static str,
    round: Box<dyn FnMut(u64) -> Timed>,
}

impl Contender {
    fn new(system: &'static str, round: impl FnMut(u64) -> Timed + 'static) -> Self {
        Self {
            system,
            round: Box::new(round),
        }
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender")
            .field("system", &self.system)
            .finish_non_exhaustive()
    }
}

/// Systems that do the same work.
#[derive(Debug)]
struct Cell {
    case: String,
    waiting: &'static str,
    contenders: Vec<Contender>,
}

/// Measures a part of the scenario: settings `part`, `rounds`, `round_us`.
pub fn measure(settings: &Settings, placement: &str) -> Outcome<Vec<Row>> {
    let rounds: usize = settings.value("rounds")?;
    let round = Duration::from_micros(settings.value("round_us")?);
    let mut rows = Vec::new();
    match settings.value::<String>("part")?.as_str() {
        "values" => {
            for case in values::cases() {
                rows.extend(run(values::cell(case)?, rounds, round, "one thread"));
            }
        }
        "fifos" => {
            for payload in PAYLOADS {
                rows.extend(run(fifos::cell(payload)?, rounds, round, placement));
            }
        }
        "marks" => {
            for what in marks::WHATS {
                rows.extend(run(marks::cell(what)?, rounds, round, "one thread"));
            }
        }
        "engine-calls" => rows.extend(run(engine_calls::cell()?, rounds, round, "one thread")),
        "stream-ends" => {
            for doubles in stream_ends::DOUBLES {
                rows.extend(run(
                    stream_ends::cell(doubles)?,
                    rounds,
                    round,
                    "one thread",
                ));
            }
        }
        "tls" => {
            for case in tls::CASES {
                rows.extend(run(tls::cell(case)?, rounds, round, placement));
            }
        }
        "links" => rows.extend(run(links::cell()?, rounds, round, placement)),
        other => return Err(format!("in_process has no part {other}").into()),
    }
    Ok(rows)
}

/// Measures all systems of a cell in turns.
fn run(mut cell: Cell, rounds: usize, round: Duration, placement: &str) -> Vec<Row> {
    let counts: Vec<u64> = cell
        .contenders
        .iter_mut()
        .map(|contender| count_for(contender, round))
        .collect();
    let mut times = vec![Vec::new(); cell.contenders.len()];
    let mut wrong = vec![0; cell.contenders.len()];
    for _ in 0..rounds {
        for (number, contender) in cell.contenders.iter_mut().enumerate() {
            let timed = (contender.round)(counts[number]);
            times[number].push(timed.elapsed.as_nanos() as f64 / counts[number] as f64);
            wrong[number] += timed.wrong;
        }
    }
    let mut rows = Vec::new();
    for (number, contender) in cell.contenders.iter().enumerate() {
        let mut row = Row::new(SCENARIO, contender.system, cell.case.clone(), placement);
        row.waiting = cell.waiting.to_owned();
        row.figure("ns", median(&times[number]).unwrap_or(0.0));
        row.figure(
            "best_ns",
            times[number].iter().copied().fold(f64::MAX, f64::min),
        );
        row.figure("per_round", counts[number] as f64);
        row.require(wrong[number] == 0, || {
            format!(
                "{} of what was read was not what was written",
                wrong[number]
            )
        });
        rows.push(row);
    }
    rows
}

/// Returns the number of calls that fill about a round. It uses the quickest of several tries: a
/// disturbed one would make the rounds too short. This also warms the system up.
fn count_for(contender: &mut Contender, round: Duration) -> u64 {
    let mut count = 1000;
    while quickest(contender, count) < round / 2 {
        count *= 2;
    }
    count
}

fn quickest(contender: &mut Contender, count: u64) -> Duration {
    let tries = (0..TRIES).map(|_| (contender.round)(count).elapsed);
    tries.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn rows(part: &str) -> Vec<Row> {
        let settings = Settings::default()
            .with("part", part)
            .with("rounds", 2)
            .with("round_us", 20);
        measure(&settings, "cross").unwrap()
    }

    #[test]
    fn every_system_reads_what_it_wrote() {
        for part in PARTS {
            let rows = rows(part);
            let systems: BTreeSet<&str> = rows.iter().map(|row| row.system.as_str()).collect();
            let has_few = matches!(part, "marks" | "stream-ends" | "links" | "tls");
            assert!(systems.len() > 5 || has_few, "{systems:?}");
            for row in &rows {
                assert_eq!(row.invalid, Vec::<String>::new(), "{row:?}");
                assert!(row.figures["ns"] > 0.0, "{row:?}");
            }
        }
    }

    #[test]
    fn system_that_returns_wrong_data_is_rejected() {
        let contender = |wrong| {
            Contender::new("some", move |_| Timed {
                elapsed: Duration::from_millis(1),
                wrong,
            })
        };
        let cell = Cell {
            case: "op=read".to_owned(),
            waiting: "none",
            contenders: vec![contender(0), contender(3)],
        };
        let rows = run(cell, 2, Duration::from_millis(1), "one thread");
        assert!(rows[0].invalid.is_empty());
        assert!(
            rows[1].invalid[0].starts_with("6 of what was read"),
            "{rows:?}"
        );
        assert_eq!(rows[0].figures["ns"], 1000.0);
    }
}
