//! The trace of a run: a hash over all events, which proves that a replay is identical, and readable lines.

use std::collections::VecDeque;

use trunkline_types::Tick;

use crate::rng::mix;

/// Number of lines kept for the report of a failure.
const KEPT: usize = 60;

/// The trace of one run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    /// Number of events so far.
    pub events: u64,
    /// Prints every line to standard output.
    pub prints: bool,
    kept: VecDeque<String>,
}

impl Trace {
    /// Adds a number that describes an event.
    pub fn note(&mut self, number: u64) {
        self.hash = mix(self.hash ^ number);
    }

    /// Adds bytes that were sent over a connection.
    pub fn note_bytes(&mut self, bytes: &[u8]) {
        let mut hash = self.hash ^ bytes.len() as u64;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        self.hash = mix(hash);
    }

    /// Adds a readable line. It is kept, and printed if `prints` is set.
    pub fn log(&mut self, now: Tick, line: impl FnOnce() -> String) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let line = format!("{:>12.6}  {}", now.as_nanos() as f64 / 1e9, line());
        if self.prints {
            print_line(&line);
        }
        self.kept.push_back(line);
    }

    /// Prints a line if `prints` is set, without keeping it.
    pub fn detail(&mut self, now: Tick, line: impl FnOnce() -> String) {
        if self.prints {
            print_line(&format!(
                "{:>12.6}  {}",
                now.as_nanos() as f64 / 1e9,
                line()
            ));
        }
    }

    /// Returns the hash; equal for equal runs.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the last lines.
    pub fn last_lines(&self) -> Vec<String> {
        self.kept.iter().cloned().collect()
    }
}

#[expect(clippy::print_stdout, reason = "the trace is what was asked for")]
fn print_line(line: &str) {
    println!("{line}");
}
