//! Computes the time at which each row is due.

use std::time::Duration;

use super::error::PlaybackError;
use super::recording::{Gap, Recording};
use super::times::RecordedTimes;

/// The speed of playback.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Pace {
    #[default]
    Original,
    /// A multiple of the original speed; 2.0 plays twice as fast.
    Scaled(f64),
    /// Playback as fast as possible.
    Full,
}

impl Pace {
    /// Returns the multiple of the original speed; `None` means as fast as possible.
    pub(crate) fn speed(self) -> Result<Option<f64>, PlaybackError> {
        match self {
            Self::Original => Ok(Some(1.0)),
            Self::Scaled(speed) if speed.is_finite() && speed > 0.0 => Ok(Some(speed)),
            Self::Scaled(speed) => Err(PlaybackError::Speed { speed }),
            Self::Full => Ok(None),
        }
    }
}

/// How playback treats rows that are missing from the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GapMode {
    /// Playback pauses for the duration of the gap.
    #[default]
    AsTime,
    /// The row after the gap follows immediately.
    Skipped,
}

/// Computes when each row is due, on a clock that the caller supplies.
///
/// Rows become due in order. If a row could not be played in time,
/// [`postpone_to`](Self::postpone_to) or [`postpone_by`](Self::postpone_by) delays this row and all
/// later rows. Playback does not catch up.
#[derive(Debug)]
pub struct Pacer {
    /// Multiple of the original speed; with `None`, every row is due at once.
    speed: Option<f64>,
    clock: RowClock,
    rows: u64,
    /// Number of the next row to be taken.
    next: u64,
    /// Time at which row 0 was due, without later delays.
    started_at: Option<Duration>,
    /// Total delay of later rows.
    delay: Duration,
}

/// Computes the time in nanoseconds between the first row and each row.
#[derive(Debug)]
enum RowClock {
    /// The rows have equal intervals, except at the gaps.
    EvenlySpaced {
        /// Interval between rows in nanoseconds.
        increment: f64,
        gaps: Vec<Gap>,
        /// Number of gaps passed so far, and number of rows missing in these gaps.
        passed: (usize, u64),
    },
    /// A channel contains the time of each row.
    Recorded(Box<RecordedTimes>),
}

impl Pacer {
    /// Creates a pacer for the rows of a recording.
    ///
    /// # Errors
    /// [`PlaybackError::NoTimes`], [`PlaybackError::Speed`].
    pub fn new(
        recording: &Recording,
        pace: Pace,
        gap_mode: GapMode,
    ) -> Result<Self, PlaybackError> {
        let speed = pace.speed()?;
        let clock = match (&recording.times, recording.increment()) {
            (Some(times), _) if speed.is_some() => {
                RowClock::Recorded(Box::new(RecordedTimes::new(recording, times, gap_mode)))
            }
            (_, Some(seconds)) => RowClock::EvenlySpaced {
                increment: seconds * 1e9,
                gaps: match gap_mode {
                    GapMode::AsTime => recording.gaps().to_vec(),
                    GapMode::Skipped => Vec::new(),
                },
                passed: (0, 0),
            },
            _ if speed.is_none() => RowClock::EvenlySpaced {
                increment: 0.0,
                gaps: Vec::new(),
                passed: (0, 0),
            },
            _ => {
                let channel = recording.channels().first();
                return Err(PlaybackError::NoTimes {
                    channel: channel.map_or(trunkline_tdms::ObjectPath::File, |c| c.path.clone()),
                });
            }
        };
        Ok(Self {
            speed,
            clock,
            rows: recording.rows(),
            next: 0,
            started_at: None,
            delay: Duration::ZERO,
        })
    }

    /// Takes the next rows that are due at `now`, at most `rows_max`, and returns their number.
    /// `now` is the time since an arbitrary point in the past. The first row is due at the first
    /// call.
    ///
    /// # Errors
    /// [`PlaybackError::Read`]: the channel of times cannot be read.
    pub fn take(&mut self, now: Duration, rows_max: u64) -> Result<u64, PlaybackError> {
        let rows_max = rows_max.min(self.rows - self.next);
        if rows_max == 0 {
            return Ok(0);
        }
        let Some(speed) = self.speed else {
            self.next += rows_max;
            return Ok(rows_max);
        };
        let started_at = *self.started_at.get_or_insert(now);
        let before = self.next;
        while self.next - before < rows_max {
            let (due, even_rows) = self.clock.offset_of(self.next)?;
            let elapsed = now.saturating_sub(started_at).saturating_sub(self.delay);
            let elapsed = elapsed.as_nanos() as f64 * speed;
            if due > elapsed {
                break;
            }
            // Evenly spaced rows are taken in one step instead of one by one.
            let rows = match &self.clock {
                RowClock::EvenlySpaced { increment, .. } => {
                    let later_rows = ((elapsed - due) / increment) as u64;
                    even_rows.min(later_rows.saturating_add(1))
                }
                RowClock::Recorded(_) => 1,
            };
            self.next += rows.min(rows_max - (self.next - before));
        }
        Ok(self.next - before)
    }

    /// Returns the time at which the next row is due, on the clock of [`take`](Self::take). Returns
    /// `None` if all rows were taken or if no time applies: before the first row, or at full speed.
    pub fn next_due(&mut self) -> Result<Option<Duration>, PlaybackError> {
        let (Some(speed), Some(started_at)) = (self.speed, self.started_at) else {
            return Ok(None);
        };
        if self.next == self.rows {
            return Ok(None);
        }
        let (due, _) = self.clock.offset_of(self.next)?;
        // The time is rounded up, so the row is due at that time. A file may contain a row more
        // than 584 years in the future; the conversion saturates, and the row is never due.
        let due = Duration::from_nanos(((due / speed).ceil() as u64).saturating_add(1));
        Ok(Some(
            started_at.saturating_add(self.delay).saturating_add(due),
        ))
    }

    /// Makes the next row due at `now` at the earliest, because the row was not available earlier.
    /// Returns the added delay.
    pub fn postpone_to(&mut self, now: Duration) -> Result<Duration, PlaybackError> {
        let delay = match self.next_due()? {
            Some(due) => now.saturating_sub(due),
            None => Duration::ZERO,
        };
        self.postpone_by(delay);
        Ok(delay)
    }

    /// Delays all rows that are not taken yet by `delay`, the time during which rows could not be
    /// taken.
    pub fn postpone_by(&mut self, delay: Duration) {
        self.delay = self.delay.saturating_add(delay);
    }

    /// Returns the number of rows taken.
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// Returns true once all rows were taken.
    pub fn is_over(&self) -> bool {
        self.next == self.rows
    }

    /// Returns the delay of the rows relative to their original times.
    pub fn lateness(&self) -> Duration {
        self.delay
    }
}

impl RowClock {
    /// Returns the time in nanoseconds between the first row and this row, and the number of evenly
    /// spaced rows that start with this row. Rows must be requested in order.
    fn offset_of(&mut self, row: u64) -> Result<(f64, u64), PlaybackError> {
        match self {
            Self::EvenlySpaced {
                increment,
                gaps,
                passed: (passed, lost),
            } => {
                while let Some(gap) = gaps.get(*passed).filter(|gap| gap.row <= row) {
                    // A gap before the first row causes no delay.
                    if gap.row > 0 {
                        *lost = lost.saturating_add(gap.lost);
                    }
                    *passed += 1;
                }
                let next_gap_row = gaps.get(*passed).map_or(u64::MAX, |gap| gap.row);
                let offset = (row as f64 + *lost as f64) * *increment;
                Ok((offset, next_gap_row.saturating_sub(row)))
            }
            Self::Recorded(times) => Ok((times.offset_of(row)?, 1)),
        }
    }
}
