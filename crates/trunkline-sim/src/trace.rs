//! Records the trace of a run: readable lines, and a hash over all events, which proves that a replay is
//! identical.

use std::collections::VecDeque;

use trunkline_types::Tick;

use crate::rng::mix;

/// Number of the last lines that are reported with a failure.
const LAST_LINES_MAX: usize = 60;

/// The trace of one run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    /// Number of events so far.
    pub events: u64,
    /// True to print every line to standard output.
    pub prints: bool,
    last_lines: VecDeque<String>,
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

    /// Adds a readable line to the last lines, and prints the line if `prints` is set.
    pub fn log(&mut self, now: Tick, line: impl FnOnce() -> String) {
        if self.last_lines.len() == LAST_LINES_MAX {
            self.last_lines.pop_front();
        }
        let line = format!("{:>12.6}  {}", now.as_nanos() as f64 / 1e9, line());
        if self.prints {
            print_line(&line);
        }
        self.last_lines.push_back(line);
    }

    /// Prints a line if `prints` is set, without adding it to the last lines.
    pub fn detail(&mut self, now: Tick, line: impl FnOnce() -> String) {
        if self.prints {
            print_line(&format!(
                "{:>12.6}  {}",
                now.as_nanos() as f64 / 1e9,
                line()
            ));
        }
    }

    /// Returns the hash over all events. Identical runs have the same hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the last lines.
    pub fn last_lines(&self) -> Vec<String> {
        self.last_lines.iter().cloned().collect()
    }
}

#[expect(clippy::print_stdout, reason = "the user requested the trace")]
fn print_line(line: &str) {
    println!("{line}");
}
