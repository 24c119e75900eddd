//! W1: the published round-trip grid. Every `period`, a subscribed client writes a new value to all
//! its variables on an engine in another process. It measures the time from each write to its
//! notification.

pub mod cell;
pub mod raw;
pub mod trunkline;

use std::time::{Duration, Instant};

use crate::Outcome;
use crate::settings::Settings;

/// Name of the scenario in results.
pub const SCENARIO: &str = "round_trip_grid";
/// Numbers of variables of the published grid.
pub const VARIABLES: [usize; 5] = [1, 10, 50, 100, 500];
/// Periods of the grid, in milliseconds.
pub const PERIODS_MS: [u64; 4] = [10, 50, 100, 200];
/// Used as a period: ticks follow each other at once, and notifications are taken after the last
/// one.
pub const AT_ONCE: u64 = 0;
/// Types of the grid.
pub const TYPES: [Kind; 3] = [Kind::I32, Kind::F32, Kind::String16];

/// Type of the variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    I32,
    F32,
    /// Strings of 16 characters.
    String16,
}

impl Kind {
    /// Returns the name in settings and results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::I32 => "i32",
            Kind::F32 => "f32",
            Kind::String16 => "string16",
        }
    }

    pub fn named(name: &str) -> Outcome<Self> {
        let found = TYPES.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is not a type of this scenario").into())
    }

    /// Returns the string that contains the number of a tick.
    pub fn string_of(tick: u32) -> String {
        format!("{tick:016}")
    }
}

/// The operations on the server's variables that this scenario needs.
pub trait Registers {
    /// Prepares the values of a tick. Not measured.
    fn prepare(&mut self, tick: u32);

    /// Writes the prepared values to all variables, in as few calls as the system allows.
    fn send(&mut self) -> Outcome<()>;

    /// Waits for notifications until `deadline` at most, and passes on the variable and tick of
    /// each.
    fn receive(&mut self, deadline: Instant, notice: &mut dyn FnMut(usize, u32)) -> Outcome<()>;

    /// Returns the updates that the system has reported as lost; `None` if it does not report
    /// losses.
    fn told_lost(&self) -> Option<u64> {
        None
    }

    /// Called after the last tick.
    fn finish(&mut self) -> Outcome<()> {
        Ok(())
    }
}

/// The parameters of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub variables: usize,
    pub kind: Kind,
    pub period: Duration,
    pub ticks: u32,
}

impl Grid {
    pub fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            variables: settings.value("n")?,
            kind: Kind::named(&settings.value::<String>("type")?)?,
            period: Duration::from_millis(settings.value("t")?),
            ticks: settings.value("ticks")?,
        })
    }
}
