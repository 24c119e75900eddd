//! When a row is due.

use std::time::Duration;

use super::error::PlaybackError;
use super::recording::{Gap, Recording};
use super::times::RecordedTimes;

/// How fast a recording is played.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Pace {
    /// As it was recorded.
    #[default]
    Original,
    /// So many times as fast: 2.0 in half of the time.
    Scaled(f64),
    /// As fast as it goes.
    Full,
}

impl Pace {
    /// How many times as fast; none: as fast as it goes.
    ///
    /// # Errors
    /// [`PlaybackError::Speed`].
    pub(crate) fn speed(self) -> Result<Option<f64>, PlaybackError> {
        match self {
            Self::Original => Ok(Some(1.0)),
            Self::Scaled(speed) if speed.is_finite() && speed > 0.0 => Ok(Some(speed)),
            Self::Scaled(speed) => Err(PlaybackError::Speed { speed }),
            Self::Full => Ok(None),
        }
    }
}

/// What happens where rows are missing in the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gaps {
    /// The time that they took passes without rows.
    #[default]
    AsTime,
    /// The row behind the gap follows as if nothing was missing.
    Skipped,
}

/// Says when each row is due, in a time that it is given.
///
/// Rows are due in their order. When one could not be played in time, [`late`](Self::late) or
/// [`hold`](Self::hold) moves it and all behind it: what is late is not caught up with.
#[derive(Debug)]
pub struct Pacer {
    /// None: every row is due at once.
    speed: Option<f64>,
    clock: RowClock,
    rows: u64,
    /// The first row that was not due yet.
    next: u64,
    /// When row 0 was due, as far as nothing was late since.
    began: Option<Duration>,
    late: Duration,
}

/// How long after the first row each one was taken, in nanoseconds.
#[derive(Debug)]
enum RowClock {
    /// One as long after the other, with these gaps before.
    Even {
        increment: f64,
        gaps: Vec<Gap>,
        /// Gaps that are passed, and rows missing in them.
        passed: (usize, u64),
    },
    Told(Box<RecordedTimes>),
}

impl Pacer {
    /// When the rows of a recording are due.
    ///
    /// # Errors
    /// [`PlaybackError::NoRate`], [`PlaybackError::Speed`]; a file cannot be read.
    pub fn new(recording: &Recording, pace: Pace, gaps: Gaps) -> Result<Self, PlaybackError> {
        let speed = pace.speed()?;
        let clock = match (&recording.times, recording.increment()) {
            (Some(times), _) if speed.is_some() => {
                RowClock::Told(Box::new(RecordedTimes::new(recording, times, gaps)))
            }
            (_, Some(seconds)) => RowClock::Even {
                increment: seconds * 1e9,
                gaps: match gaps {
                    Gaps::AsTime => recording.gaps().to_vec(),
                    Gaps::Skipped => Vec::new(),
                },
                passed: (0, 0),
            },
            _ if speed.is_none() => RowClock::Even {
                increment: 0.0,
                gaps: Vec::new(),
                passed: (0, 0),
            },
            _ => {
                let channel = recording.channels().first();
                return Err(PlaybackError::NoRate {
                    channel: channel.map_or(trunkline_tdms::ObjectPath::File, |c| c.path.clone()),
                });
            }
        };
        Ok(Self {
            speed,
            clock,
            rows: recording.rows(),
            next: 0,
            began: None,
            late: Duration::ZERO,
        })
    }

    /// How many of the next rows are due at `now`, counted from any moment, at most `most`: they
    /// are given out. The first row is due when it is asked for.
    ///
    /// # Errors
    /// [`PlaybackError::Read`]: the channel of times cannot be read.
    pub fn take(&mut self, now: Duration, most: u64) -> Result<u64, PlaybackError> {
        let most = most.min(self.rows - self.next);
        if most == 0 {
            return Ok(0);
        }
        let Some(speed) = self.speed else {
            self.next += most;
            return Ok(most);
        };
        let began = *self.began.get_or_insert(now);
        let before = self.next;
        while self.next - before < most {
            let (due, together) = self.clock.after(self.next)?;
            let elapsed = now.saturating_sub(began).saturating_sub(self.late);
            let elapsed = elapsed.as_nanos() as f64 * speed;
            if due > elapsed {
                break;
            }
            // So many rows that it is not worth to ask for each.
            let rows = match &self.clock {
                RowClock::Even { increment, .. } => {
                    let more = ((elapsed - due) / increment) as u64;
                    together.min(more.saturating_add(1))
                }
                RowClock::Told(_) => 1,
            };
            self.next += rows.min(most - (self.next - before));
        }
        Ok(self.next - before)
    }

    /// When the next row is due, as [`take`](Self::take) counts time; none when all were given out,
    /// or it is due already.
    ///
    /// # Errors
    /// As of [`take`](Self::take).
    pub fn next_due(&mut self) -> Result<Option<Duration>, PlaybackError> {
        let (Some(speed), Some(began)) = (self.speed, self.began) else {
            return Ok(None);
        };
        if self.next == self.rows {
            return Ok(None);
        }
        let (due, _) = self.clock.after(self.next)?;
        // Rounded up, so that it is due then. What is further away than 584 years, as a file may
        // claim, is never due.
        let due = Duration::from_nanos(((due / speed).ceil() as u64).saturating_add(1));
        Ok(Some(began.saturating_add(self.late).saturating_add(due)))
    }

    /// The next row is due at `now` at the earliest: it was not there before. Returns by how much
    /// that moves it.
    ///
    /// # Errors
    /// As of [`take`](Self::take).
    pub fn late(&mut self, now: Duration) -> Result<Duration, PlaybackError> {
        let by = match self.next_due()? {
            Some(due) => now.saturating_sub(due),
            None => Duration::ZERO,
        };
        self.hold(by);
        Ok(by)
    }

    /// All rows that were not given out are due later by this: so long they could not be taken.
    pub fn hold(&mut self, by: Duration) {
        self.late = self.late.saturating_add(by);
    }

    /// Rows that were given out.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// Whether all were.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next == self.rows
    }

    /// By how much the rows are later than they should be.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.late
    }
}

impl RowClock {
    /// How long after the first row this one was taken, and how many rows from it on are evenly
    /// spaced. Asked for rows in their order.
    fn after(&mut self, row: u64) -> Result<(f64, u64), PlaybackError> {
        match self {
            Self::Even {
                increment,
                gaps,
                passed: (passed, lost),
            } => {
                while let Some(gap) = gaps.get(*passed).filter(|gap| gap.row <= row) {
                    // A gap before the first row is before everything.
                    if gap.row > 0 {
                        *lost = lost.saturating_add(gap.lost);
                    }
                    *passed += 1;
                }
                let next = gaps.get(*passed).map_or(u64::MAX, |gap| gap.row);
                let after = (row as f64 + *lost as f64) * *increment;
                Ok((after, next.saturating_sub(row)))
            }
            Self::Told(times) => Ok((times.after(row)?, 1)),
        }
    }
}
