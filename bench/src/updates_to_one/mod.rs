//! W5 and W6: variables updated as fast as possible in the process that hosts them; one subscriber
//! (W5), or several (W6), in another process take every update.

pub mod figures;
pub mod raw;
pub mod trunkline;

use std::time::{Duration, Instant};

use crate::Outcome;
use crate::settings::Settings;

/// Name of the scenario in results.
pub const SCENARIO: &str = "updates_to_one";
/// Numbers of variables of the published chart.
pub const VARIABLES: [usize; 4] = [1, 10, 100, 1000];
/// Numbers of variables with which other systems are measured.
pub const BESIDE_OTHERS: [usize; 3] = [1, 100, 1000];
/// Name of the scenario with several subscribers.
pub const SEVERAL: &str = "updates_to_many";
/// Numbers of subscribers of `SEVERAL`.
pub const SUBSCRIBERS: [usize; 3] = [1, 8, 32];
/// Number of variables of `SEVERAL`.
pub const SEVERAL_VARIABLES: usize = 100;
/// Updates per call of batched writes.
pub const PER_CALL: usize = 100;

/// Settings of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub variables: usize,
    /// Number of subscribers; each takes every update.
    pub subscribers: usize,
    /// Time before measuring.
    pub warm_up: Duration,
    pub measured: Duration,
}

impl Stream {
    pub fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            variables: settings.value("vars")?,
            subscribers: settings.value_or("subs", 1)?,
            warm_up: Duration::from_millis(settings.value_or("warm_ms", 1000)?),
            measured: Duration::from_millis(settings.value("ms")?),
        })
    }
}

impl Stream {
    pub fn case(&self, scenario: &str) -> String {
        match scenario {
            SCENARIO => format!("vars={}", self.variables),
            _ => format!("subs={} vars={}", self.subscribers, self.variables),
        }
    }

    /// Returns the settings for the process of the subscribers.
    pub fn settings(&self) -> Settings {
        Settings::default()
            .with("vars", self.variables)
            .with("subs", self.subscribers)
            .with("warm_ms", self.warm_up.as_millis())
            .with("ms", self.measured.as_millis())
    }
}

/// Counts for a subscriber, and checks that every update of each variable arrives once and in
/// order.
#[derive(Debug)]
pub struct Taken {
    next: Vec<u64>,
    pub count: u64,
    /// Updates that were not the next one of their variable.
    pub out_of_order: u64,
}

impl Taken {
    /// Creates the count. The values of each variable are 1, 2, 3 and so on.
    pub fn new(variables: usize) -> Self {
        Self {
            next: vec![1; variables],
            count: 0,
            out_of_order: 0,
        }
    }

    pub fn take(&mut self, variable: usize, value: f64) {
        self.count += 1;
        match self.next.get_mut(variable) {
            Some(next) if *next as f64 == value => *next += 1,
            Some(next) => {
                self.out_of_order += 1;
                *next = value as u64 + 1;
            }
            None => self.out_of_order += 1,
        }
    }
}

/// The window of one end: starts after the warm-up that follows the first update, and ends with the
/// last update.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    warm: Instant,
    start: Option<(Instant, u64, u64)>,
}

/// The results of an end in its window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub updates: u64,
    /// Length in seconds.
    pub seconds: f64,
    /// CPU nanoseconds, measured with the function passed to the window.
    pub cpu_ns: u64,
}

impl Window {
    /// Creates the window at the first update.
    pub fn open(warm_up: Duration) -> Self {
        Self {
            warm: Instant::now() + warm_up,
            start: None,
        }
    }

    /// Reads the clock; called every few hundred updates. `count` is the number so far.
    pub fn poll(&mut self, count: u64, cpu_ns: impl FnOnce() -> u64) -> Instant {
        let now = Instant::now();
        if self.start.is_none() && now >= self.warm {
            self.start = Some((now, count, cpu_ns()));
        }
        now
    }

    /// Returns when the measured time of a writer is over.
    pub fn end(&self, measured: Duration) -> Instant {
        self.start.map_or(self.warm, |(start, ..)| start) + measured
    }

    /// Ends the window at the last update. Returns `None` if the warm-up was not over.
    pub fn close(&self, count: u64, cpu_ns: u64) -> Option<Measured> {
        let (start, count_then, cpu_then) = self.start?;
        Some(Measured {
            updates: count - count_then,
            seconds: start.elapsed().as_secs_f64(),
            cpu_ns: cpu_ns - cpu_then,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_repeats_are_found() {
        let mut sut = Taken::new(2);
        for (variable, value) in [
            (0, 1.0),
            (1, 1.0),
            (0, 2.0),
            (0, 4.0),
            (0, 5.0),
            (0, 5.0),
            (7, 1.0),
        ] {
            sut.take(variable, value);
        }
        assert_eq!((sut.count, sut.out_of_order), (7, 3));
    }

    #[test]
    fn window_counts_from_the_end_of_the_warm_up() {
        let mut sut = Window::open(Duration::from_secs(3600));
        sut.poll(10, || 100);
        assert_eq!(sut.close(20, 200), None);
        let mut sut = Window::open(Duration::ZERO);
        sut.poll(10, || 100);
        sut.poll(15, || 150);
        let measured = sut.close(20, 200).unwrap();
        assert_eq!((measured.updates, measured.cpu_ns), (10, 100));
    }
}
