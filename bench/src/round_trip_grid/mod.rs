//! W1: the published round-trip grid. Every `period` a client that is subscribed writes a new value
//! to all its variables on an engine in another process; measured is, per value, the time from the
//! write to its notification.

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
/// Its periods, in milliseconds.
pub const PERIODS_MS: [u64; 4] = [10, 50, 100, 200];
/// In place of a period: ticks follow each other at once, and notifications are taken after the
/// last.
pub const AT_ONCE: u64 = 0;
/// Its types, by our names.
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
    /// As in settings and results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::I32 => "i32",
            Kind::F32 => "f32",
            Kind::String16 => "string16",
        }
    }

    /// The type of this name.
    pub fn named(name: &str) -> Outcome<Self> {
        let found = TYPES.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is no type of this scenario").into())
    }

    /// The string that carries the number of a tick.
    pub fn string_of(tick: u32) -> String {
        format!("{tick:016}")
    }
}

/// Variables on the other side, as the loop of this scenario uses them.
pub trait Registers {
    /// Makes the values of a tick; not measured.
    fn prepare(&mut self, tick: u32);

    /// Writes what was prepared to all variables, in as few calls as the system has for that.
    fn send(&mut self) -> Outcome<()>;

    /// Waits for notifications until `deadline` at the latest, and gives each one's variable and
    /// tick.
    fn receive(&mut self, deadline: Instant, notice: &mut dyn FnMut(usize, u32)) -> Outcome<()>;

    /// Updates of which the system has told so far that they will not be notified; `None` when it
    /// does not tell.
    fn told_lost(&self) -> Option<u64> {
        None
    }

    /// All ticks are over.
    fn finish(&mut self) -> Outcome<()> {
        Ok(())
    }
}

/// What one cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub variables: usize,
    pub kind: Kind,
    /// Time from one tick to the next.
    pub period: Duration,
    pub ticks: u32,
}

impl Grid {
    /// Reads the settings of a cell.
    pub fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            variables: settings.value("n")?,
            kind: Kind::named(&settings.value::<String>("type")?)?,
            period: Duration::from_millis(settings.value("t")?),
            ticks: settings.value("ticks")?,
        })
    }
}
