//! Reports the outcome of each write on one line.

use std::time::Duration;

use trunkline::{CallError, Opened, Write, WriteOutcome};
use trunkline_types::{Lost, Position, Quality, Reading, Sample, Value};

use super::Item;
use super::pairs::Pair;
use crate::connection::{Connection, SUPERSEDED, metadata, outcome_unknown, outcome_word};
use crate::output::ReadingView;
use crate::output::readings::{Change, ReadingPrinter};
use crate::{CliError, Context, Exit, Problem, Tally};

/// The outcome of a write that did not fail: its name, the position of the update, and the number of
/// the group.
type Outcome = (&'static str, Option<Position>, Option<u64>);

pub(super) struct Report<'a> {
    pub(super) context: &'a Context,
    pub(super) printer: ReadingPrinter,
    pub(super) name_width: usize,
    /// True if the writes carry values; otherwise the engine determines the new values.
    pub(super) has_values: bool,
    /// Remark on an unchanged variable.
    pub(super) unchanged: &'static str,
    pub(super) tally: Tally,
}

impl Report<'_> {
    /// Reports writes whose outcome the command does not wait for.
    pub(super) fn report_sent(mut self, pairs: &[Pair], items: &[Item]) -> Result<Exit, CliError> {
        for ((name, _), item) in pairs.iter().zip(items) {
            match item {
                Item::Invalid(problem) => self.failed(problem)?,
                Item::Sent { opened, value, .. } => {
                    let outcome = ("sent", None, None);
                    self.print_change((name, opened, value), None, outcome, "not confirmed")?;
                }
            }
        }
        Ok(self.tally.exit())
    }

    /// Sends the writes, waits for their outcomes, and reports them.
    pub(super) fn write_and_report(
        mut self,
        connection: &Connection,
        pairs: &[Pair],
        items: &[Item],
        writes: Vec<Write>,
        is_atomic: bool,
    ) -> Result<Exit, CliError> {
        let first_problem = items.iter().find_map(|item| match item {
            Item::Invalid(problem) if is_atomic => Some(problem),
            _ => None,
        });
        if let Some(first_problem) = first_problem {
            return self.not_sent(first_problem, pairs, items);
        }
        let started = self.context.clock.now();
        let (client, timeout) = (&connection.client, connection.timeout());
        let result = match is_atomic {
            _ if writes.is_empty() => Ok((Vec::new(), None)),
            false => client
                .write(writes, timeout)
                .map(|outcomes| (outcomes, None)),
            true => {
                (client.write_group(writes, timeout)).map(|ended| (ended.outcomes, ended.commit))
            }
        };
        let elapsed = self.context.clock.now().since(started);
        if let Err(CallError::Write(error)) = &result {
            return Err(Problem::usage(error.to_string()).into());
        }
        // A call fails as a whole only if it sent none of its writes.
        let call_problem = result.as_ref().err().map(|error| {
            let cause = connection.failed(error);
            let sentence = format!("not written: {}", cause.message);
            Problem::new(cause.exit, cause.code, sentence)
        });
        let (outcomes, commit) = result.unwrap_or_default();
        let readings = self.read_back(connection, items, &outcomes);
        let mut remark = confirmed_by(connection, elapsed);
        if let Some(commit) = commit {
            remark = format!("group {commit}, {remark}");
        }
        for ((name, _), item) in pairs.iter().zip(items) {
            let (opened, value, index) = match item {
                Item::Invalid(problem) => {
                    self.failed(problem)?;
                    continue;
                }
                Item::Sent {
                    opened,
                    value,
                    index,
                } => (opened, value, *index),
            };
            let outcome = outcomes.get(index);
            let no_outcome = || Err(call_problem.clone().unwrap_or_else(outcome_unknown));
            let (word, position) = match outcome.map_or_else(no_outcome, outcome_word) {
                Ok(outcome) => outcome,
                Err(problem) => {
                    self.failed(&problem.with_name(name))?;
                    continue;
                }
            };
            let remark = match outcome {
                Some(WriteOutcome::Unchanged(_)) => self.unchanged,
                Some(WriteOutcome::Superseded) => SUPERSEDED,
                _ => &remark,
            };
            // The line reports the outcome of this write, even if another write has already followed.
            // A request without a value cannot be matched exactly, because the device may have
            // delivered further values in the meantime.
            let matches_write = |reading: &&Reading| match position {
                Some(at) if self.has_values => reading.position == at,
                Some(at) => {
                    reading.position.epoch == at.epoch && reading.position.sequence >= at.sequence
                }
                None => !self.has_values,
            };
            let reading = readings
                .get(index)
                .and_then(Option::as_ref)
                .filter(matches_write);
            let outcome = (word, position, position.and(commit));
            self.print_change((name, opened, value), reading, outcome, remark)?;
        }
        Ok(self.tally.exit())
    }

    /// Reads the variables again, because the engine may have coerced a value to its range, or a device
    /// may have delivered another value. The result has the order of the writes.
    fn read_back(
        &self,
        connection: &Connection,
        items: &[Item],
        outcomes: &[WriteOutcome],
    ) -> Vec<Option<Reading>> {
        if outcomes.is_empty() {
            return Vec::new();
        }
        let variables = items.iter().filter_map(|item| match item {
            Item::Sent { opened, .. } => Some(opened.variable),
            Item::Invalid(_) => None,
        });
        let variables: Vec<_> = variables.collect();
        // If this call fails, the written value is shown.
        let readings = connection.call(|client, wait| client.read(&variables, wait));
        readings.into_iter().flatten().map(Result::ok).collect()
    }

    fn print_change(
        &mut self,
        (name, opened, value): (&str, &Opened, &Value),
        reading: Option<&Reading>,
        (outcome, position, commit): Outcome,
        remark: &str,
    ) -> Result<(), CliError> {
        let metadata = metadata(opened);
        let received = self.context.clock.wall();
        let view = |reading| ReadingView::new(name, &metadata, reading, received);
        let old = opened.reading.as_ref().map(view);
        // If the engine was not asked, or already has a newer value, show the written value.
        let assumed = Reading {
            sample: Sample {
                value: value.clone(),
                source_timestamp: received,
                engine_timestamp: received,
                quality: Quality::GOOD,
            },
            position: position.unwrap_or_default(),
            lost: Lost::NONE,
            stale: None,
            own: true,
        };
        let new = ReadingView {
            has_value: match reading {
                Some(reading) => reading.has_value(),
                None => self.has_values,
            },
            ..view(reading.unwrap_or(&assumed))
        };
        self.printer.print_change(&Change {
            old: old.as_ref(),
            new,
            is_assumed: reading.is_none(),
            position,
            outcome,
            commit,
            remark,
        })
    }

    fn not_sent(
        mut self,
        first_problem: &Problem,
        pairs: &[Pair],
        items: &[Item],
    ) -> Result<Exit, CliError> {
        let name = first_problem.name.as_deref().unwrap_or("another");
        let sentence = format!("not written: the whole group was refused because of {name}");
        let other = Problem::new(first_problem.exit, "group-refused", sentence);
        for ((name, _), item) in pairs.iter().zip(items) {
            match item {
                Item::Invalid(problem) => self.failed(problem)?,
                Item::Sent { .. } => self.failed(&other.clone().with_name(name))?,
            }
        }
        Ok(self.tally.exit())
    }

    fn failed(&mut self, problem: &Problem) -> Result<(), CliError> {
        let exit = self.context.show(problem, self.name_width)?;
        self.tally.item_failed(exit);
        Ok(())
    }
}

fn confirmed_by(connection: &Connection, elapsed: Duration) -> String {
    let millis = elapsed.as_secs_f64() * 1e3;
    format!(
        "confirmed by {}@{}, {millis:.1} ms",
        connection.engine_name, connection.address
    )
}
