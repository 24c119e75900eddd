//! How fast this crate is beside what it is measured by: a bare seqlock, a mutex, `rtrb` and
//! crossbeam's `ArrayQueue`, in one run.
//!
//! ```text
//! cargo run --release -p trunkline-ring --example ring_speed
//! ```
//!
//! Every contender runs once per round, in turn, so that whatever disturbs the machine disturbs
//! them alike; the table gives the median of the rounds, and its ratio to the first line of its
//! group. The two-thread groups want two idle processors.

// A measuring program reads the clock and prints.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]
#![cfg_attr(loom, allow(unused))]

#[cfg(not(loom))]
#[path = "ring_speed/cells.rs"]
mod cells;
#[cfg(not(loom))]
#[path = "ring_speed/fifos.rs"]
mod fifos;
#[cfg(not(loom))]
#[path = "ring_speed/marks.rs"]
mod marks;
#[cfg(not(loom))]
#[path = "ring_speed/seqlock.rs"]
mod seqlock;

#[cfg(not(loom))]
#[path = "ring_speed/streams.rs"]
mod streams;

#[cfg(not(loom))]
use std::time::Instant;

#[cfg(not(loom))]
const ROUNDS: usize = 15;

/// Contenders that do the same work; the first is what the others are compared with.
#[cfg(not(loom))]
struct Group {
    title: String,
    /// Unit of work that the time is given per.
    per: &'static str,
    contenders: Vec<Contender>,
}

#[cfg(not(loom))]
struct Contender {
    name: &'static str,
    /// Does the work once and returns the nanoseconds per unit.
    round: Box<dyn FnMut() -> f64>,
}

#[cfg(not(loom))]
impl Group {
    fn new(title: impl Into<String>, per: &'static str) -> Self {
        Self {
            title: title.into(),
            per,
            contenders: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, round: impl FnMut() -> f64 + 'static) -> Self {
        self.contenders.push(Contender {
            name,
            round: Box::new(round),
        });
        self
    }

    fn run(mut self) {
        let mut times = vec![Vec::new(); self.contenders.len()];
        for _ in 0..ROUNDS {
            for (contender, times) in self.contenders.iter_mut().zip(&mut times) {
                times.push((contender.round)());
            }
        }
        println!("\n{} (ns per {})", self.title, self.per);
        let medians: Vec<f64> = times.iter().cloned().map(median).collect();
        for ((contender, median), t) in self.contenders.iter().zip(&medians).zip(&times) {
            let ratio = median / medians[0];
            println!(
                "  {:44} {median:9.2} {ratio:7.2} x  best {:.2}",
                contender.name,
                t.iter().copied().fold(f64::MAX, f64::min)
            );
        }
    }
}

#[cfg(not(loom))]
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Nanoseconds that one of `count` calls takes.
#[cfg(not(loom))]
fn nanoseconds_per_call(count: u64, mut call: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for number in 0..count {
        call(number);
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

#[cfg(not(loom))]
fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if "cells".starts_with(&wanted) {
        cells::run();
    }
    if "fifos".starts_with(&wanted) {
        fifos::run();
    }
    if "marks".starts_with(&wanted) {
        marks::run();
    }
    if "streams".starts_with(&wanted) {
        streams::run();
    }
}

#[cfg(loom)]
fn main() {}
