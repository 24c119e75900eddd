//! The time to wait before dialling again after a connection failed.

use std::time::Duration;

use trunkline_types::time::duration_nanos;

/// Exponential back-off with full jitter on every attempt, including the first (F3). The wait is
/// uniform between zero and a ceiling that doubles with each attempt.
///
/// Full jitter spreads the clients of a restarted engine evenly over the whole interval, so that
/// they do not reconnect in waves.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    attempts: u32,
}

impl Backoff {
    /// Ceiling of the first wait.
    pub const BASE: Duration = Duration::from_millis(100);
    /// Ceiling of any wait. A client must have the engine's values within 2 s after a fault is
    /// repaired, regardless of earlier events (B-11). The remaining 1.2 s is for the four round
    /// trips before the first values: connection, HELLO, names and subscription. An engine that
    /// cannot serve all of its clients assigns each client a time at which to try again.
    pub const CAP: Duration = Duration::from_millis(800);

    /// Creates a back-off whose first wait is below `base` and whose longest wait is below `cap`.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            attempts: 0,
        }
    }

    /// Returns the wait before the next attempt: `retry_after` as requested by the engine, plus the
    /// jitter, so that clients with the same `retry_after` do not all dial at the same time.
    /// `random` is a uniformly random number. The caller supplies it because this crate has no
    /// source of randomness.
    pub fn next(&mut self, random: u64, retry_after: Option<Duration>) -> Duration {
        let jitter = Duration::from_nanos(scale(random, duration_nanos(self.ceiling())));
        self.attempts = self.attempts.saturating_add(1);
        retry_after.unwrap_or(Duration::ZERO).saturating_add(jitter)
    }

    /// Must be called when the connection is up, so that the next failure starts at the first
    /// ceiling again.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }

    /// Number of attempts since the last [`reset`](Self::reset).
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    pub fn ceiling(&self) -> Duration {
        let factor = 1u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Self::BASE, Self::CAP)
    }
}

/// Maps a uniform `u64` to `0..ceiling`, without the bias of a modulo.
fn scale(random: u64, ceiling: u64) -> u64 {
    (u128::from(random).wrapping_mul(u128::from(ceiling)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_is_jittered_including_the_first() {
        let mut sut = Backoff::default();
        assert_eq!(sut.next(0, None), Duration::ZERO);
        let mut sut = Backoff::default();
        assert!(sut.next(u64::MAX, None) < Backoff::BASE);
        assert!(sut.next(u64::MAX / 2, None) <= Backoff::BASE);
    }

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let mut sut = Backoff::default();
        let mut ceilings = Vec::new();
        for _ in 0..6 {
            ceilings.push(sut.ceiling().as_millis());
            sut.next(1, None);
        }
        assert_eq!(ceilings, [100, 200, 400, 800, 800, 800]);
        for _ in 0..100 {
            sut.next(1, None);
        }
        assert_eq!(sut.ceiling(), Backoff::CAP);
    }

    #[test]
    fn requested_retry_time_is_honoured_and_jittered() {
        let mut sut = Backoff::default();
        let retry_after = Duration::from_secs(2);
        let wait = sut.next(u64::MAX, Some(retry_after));
        assert!(wait >= retry_after && wait < retry_after + Backoff::BASE);
    }

    #[test]
    fn a_successful_connection_resets_the_back_off() {
        let mut sut = Backoff::default();
        sut.next(7, None);
        sut.next(7, None);
        assert_eq!(sut.attempts(), 2);
        sut.reset();
        assert_eq!(sut.ceiling(), Backoff::BASE);
    }
}
