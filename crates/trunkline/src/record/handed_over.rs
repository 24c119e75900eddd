//! Passes played updates to the client, and collects their outcomes.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_client::{NotTried, Write, WriteOutcome};
use trunkline_types::wire::encoded_len;

use super::RecordingError;
use crate::client::Client;
use crate::client::polled::PendingCall;

/// Maximum number of updates that wait for an outcome.
const WRITES_MAX: usize = 16_384;

/// Maximum size of these updates in bytes, except for a single batch that is larger.
const BYTES_MAX: usize = 4 << 20;

/// Maximum number of variables with a stored failure. Failures of other variables are only counted.
const VARIABLES_MAX: usize = 100;

/// The reason why played updates of a variable were not applied.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PlayFailure {
    /// Name of the variable.
    pub name: String,
    /// Code of the first failure, as in faults of the protocol, for programs.
    pub code: String,
    /// Description of the first failure, for people.
    pub sentence: String,
    /// Number of failed updates of the variable.
    pub updates: u64,
}

/// Updates that wait for an outcome, in order. Dropping this ends the wait, and cancels updates
/// that were not sent.
#[derive(Debug)]
pub(super) struct PendingUpdates<'a> {
    client: &'a Client,
    /// Each batch with the numbers of its variables, and its size in bytes.
    batches: VecDeque<(PendingCall<Vec<WriteOutcome>>, Vec<usize>, usize)>,
    writes: usize,
    bytes: usize,
    failures: Vec<(usize, PlayFailure)>,
}

impl<'a> PendingUpdates<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self {
            client,
            batches: VecDeque::new(),
            writes: 0,
            bytes: 0,
            failures: Vec::new(),
        }
    }

    /// Passes updates to the client, each with the number of its variable. Waits while too many
    /// updates have no outcome.
    pub(super) fn write(
        &mut self,
        updates: Vec<(usize, Write)>,
        name: impl Fn(usize) -> String,
        timeout: Duration,
    ) -> Result<(), RecordingError> {
        if updates.is_empty() {
            return Ok(());
        }
        let bytes = updates.iter().map(|(_, one)| encoded_len(&one.value)).sum();
        let is_too_much =
            self.writes + updates.len() > WRITES_MAX || self.bytes + bytes > BYTES_MAX;
        if is_too_much && !self.batches.is_empty() {
            self.client.flush(timeout)?;
        }
        self.take_outcomes(&name);
        let (variables, writes): (Vec<_>, Vec<_>) = updates.into_iter().unzip();
        let count = variables.len();
        let batch = self.client.clone().into_polled().write(writes)?;
        self.batches.push_back((batch, variables, bytes));
        self.writes += count;
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn take_outcomes(&mut self, name: impl Fn(usize) -> String) {
        while let Some((batch, ..)) = self.batches.front()
            && let Some(Ok(outcomes)) = batch.arrived()
        {
            let Some((_, variables, bytes)) = self.batches.pop_front() else {
                return;
            };
            self.writes -= variables.len();
            self.bytes -= bytes;
            for (variable, outcome) in variables.into_iter().zip(&outcomes) {
                self.note(variable, outcome, &name);
            }
        }
    }

    fn note(&mut self, variable: usize, outcome: &WriteOutcome, name: impl Fn(usize) -> String) {
        let (code, sentence) = match outcome {
            WriteOutcome::Refused(fault)
            | WriteOutcome::Unknown(fault)
            | WriteOutcome::NotTried(NotTried::Cancelled(fault)) => {
                (fault.code.to_string(), fault.sentence.clone())
            }
            WriteOutcome::NotTried(NotTried::WouldBlock) => (
                "would-block".to_owned(),
                "the write would have had to wait".to_owned(),
            ),
            WriteOutcome::Applied(_) | WriteOutcome::Unchanged(_) | WriteOutcome::Superseded => {
                return;
            }
        };
        if let Some((_, failure)) = self
            .failures
            .iter_mut()
            .find(|(number, _)| *number == variable)
        {
            failure.updates += 1;
        } else if self.failures.len() < VARIABLES_MAX {
            let failure = PlayFailure {
                name: name(variable),
                code,
                sentence,
                updates: 1,
            };
            self.failures.push((variable, failure));
        }
    }

    pub(super) fn failures(&self) -> Vec<PlayFailure> {
        let failures = self.failures.iter();
        failures.map(|(_, failure)| failure.clone()).collect()
    }
}
