//! How much room there is on the disk, and for how long.

use std::time::Duration;

use super::RoomAlarm;

/// How often the file system is asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether there is room on the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum RoomState {
    /// There is.
    #[default]
    Enough,
    /// There is less than the alarm says.
    Low,
    /// There is none: nothing is taken.
    Full,
}

/// Room on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Room {
    /// Whether there is any.
    pub state: RoomState,
    /// Bytes that can still be written, with those that are set aside; none where the file system
    /// does not say.
    pub bytes: Option<u64>,
    /// When it is full, if it goes on as it did in the last seconds; none where nothing is written.
    pub full_in: Option<Duration>,
    /// How often it became less than the alarm says.
    pub alarms: u64,
}

/// Looks at it from time to time.
#[derive(Debug)]
pub(crate) struct RoomWatch {
    alarm: RoomAlarm,
    room: Room,
    is_full: bool,
    /// When it was looked at, and how far the file was then.
    last: Option<(Duration, u64)>,
    /// Bytes per second.
    rate: u64,
}

impl RoomWatch {
    pub(crate) fn new(alarm: RoomAlarm) -> Self {
        Self {
            alarm,
            room: Room::default(),
            is_full: false,
            last: None,
            rate: 0,
        }
    }

    pub(crate) fn room(&self) -> Room {
        self.room
    }

    /// Whether it is time to look again.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let due = |(then, _): (Duration, u64)| now.saturating_sub(then) >= LOOK_EVERY;
        self.last.is_none_or(due)
    }

    /// Takes what the file system says: `bytes` are left when the file has `accepted`.
    pub(crate) fn look(&mut self, now: Duration, bytes: Option<u64>, accepted: u64) {
        if let Some((then, before)) = self.last {
            let nanoseconds = now.saturating_sub(then).as_nanos().max(1);
            let written = u128::from(accepted.saturating_sub(before));
            let rate = u64::try_from(written * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX);
            self.rate = match self.rate {
                0 => rate,
                before => before / 2 + rate / 2,
            };
        }
        self.last = Some((now, accepted));
        self.room.bytes = bytes;
        let full_in = bytes.and_then(|bytes| {
            let milliseconds = (u128::from(bytes) * 1000).checked_div(u128::from(self.rate))?;
            u64::try_from(milliseconds).ok()
        });
        self.room.full_in = full_in.map(Duration::from_millis);
        self.judge();
    }

    /// Room could be set aside, or not.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        if self.is_full != is_full {
            self.is_full = is_full;
            self.judge();
        }
    }

    fn judge(&mut self) {
        let before = self.room.state;
        // What has been low has to become more than that, or it would be told again and again.
        let (bytes, time) = match before {
            RoomState::Enough => (self.alarm.bytes, self.alarm.time),
            _ => (
                self.alarm.bytes.saturating_add(self.alarm.bytes / 8),
                self.alarm.time.saturating_add(self.alarm.time / 4),
            ),
        };
        let is_low = self.room.bytes.is_some_and(|left| left < bytes)
            || self.room.full_in.is_some_and(|left| left < time);
        self.room.state = match (self.is_full, is_low) {
            (true, _) => RoomState::Full,
            (false, true) => RoomState::Low,
            (false, false) => RoomState::Enough,
        };
        self.room.alarms += u64::from(before == RoomState::Enough && self.room.state > before);
    }
}
