//! Converts points in time between the file format and timestamps.

use std::fmt;

use trunkline_types::Timestamp;

/// Number of seconds from 1904-01-01T00:00:00Z, the epoch of TDMS files, to 1970-01-01T00:00:00Z.
const EPOCH_SECONDS: i64 = 2_082_844_800;
/// Number of nanoseconds in a second.
const NANOS: i128 = 1_000_000_000;

/// A point in time in a file, in UTC: whole seconds since 1904-01-01T00:00:00Z without leap
/// seconds, and a fraction of a second that is never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TdmsTime {
    /// Whole seconds since 1904, rounded down.
    pub seconds: i64,
    /// Fraction of a second, in units of 2^-64 s.
    pub fraction: u64,
}

impl TdmsTime {
    /// Returns true if both parts are zero, which means an unknown time in files.
    pub fn is_unset(self) -> bool {
        self == Self::default()
    }

    /// Returns the number of nanoseconds since 1970-01-01T00:00:00Z, rounded down.
    pub fn unix_nanos(self) -> i128 {
        let seconds = i128::from(self.seconds) - i128::from(EPOCH_SECONDS);
        let subsecond_nanos = (u128::from(self.fraction) * NANOS as u128) >> 64;
        seconds * NANOS + subsecond_nanos as i128
    }

    /// Returns the timestamp, rounded down to nanoseconds; `None` if it is outside the years 1677
    /// to 2262.
    ///
    /// A time that was converted from a [`Timestamp`] is converted back to the same timestamp.
    pub fn to_timestamp(self) -> Option<Timestamp> {
        i64::try_from(self.unix_nanos())
            .ok()
            .map(Timestamp::from_nanos)
    }
}

impl From<Timestamp> for TdmsTime {
    /// Converts a timestamp. The fraction is rounded up, which makes the conversion back exact.
    fn from(time: Timestamp) -> Self {
        let nanos = i128::from(time.as_nanos());
        let subsecond_nanos = nanos.rem_euclid(NANOS) as u128;
        Self {
            seconds: nanos.div_euclid(NANOS) as i64 + EPOCH_SECONDS,
            fraction: (subsecond_nanos << 64).div_ceil(NANOS as u128) as u64,
        }
    }
}

impl fmt::Display for TdmsTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_timestamp() {
            Some(time) => fmt::Display::fmt(&time, f),
            None => write!(f, "{} s after 1904", self.seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_a_second_before_1904_counts_forward() {
        let nanos = -(EPOCH_SECONDS * 1_000_000_000) - 500_000_000;
        let time = TdmsTime::from(Timestamp::from_nanos(nanos));
        let expected = TdmsTime {
            seconds: -1,
            fraction: 1 << 63,
        };
        assert_eq!(time, expected);
    }

    #[test]
    fn out_of_range_time_is_not_clamped() {
        for seconds in [i64::MIN, i64::MAX, 0, 20_000_000_000] {
            let fraction = u64::MAX;
            let time = TdmsTime { seconds, fraction };
            assert_eq!(time.to_timestamp().is_some(), seconds == 0, "{seconds}");
            assert!(!time.to_string().is_empty());
        }
    }

    proptest! {
        #[test]
        fn every_nanosecond_round_trips(nanos in any::<i64>()) {
            let time = Timestamp::from_nanos(nanos);
            prop_assert_eq!(TdmsTime::from(time).to_timestamp(), Some(time));
        }

        #[test]
        fn nanoseconds_of_current_years_round_trip(nanos in 0..4_000_000_000_000_000_000_i64) {
            let time = Timestamp::from_nanos(nanos);
            prop_assert_eq!(TdmsTime::from(time).to_timestamp(), Some(time));
        }
    }
}
