//! Tracks the client's window: the amount of data that the engine may send without confirmation.

use std::collections::VecDeque;

use trunkline_proto::digest;
use trunkline_proto::message::hello::Hello;

/// Maximum number of unconfirmed records, even if the client requests a larger window, because each
/// record takes eight bytes of memory.
const RECORDS_MAX: u32 = 1 << 20;

/// Counts the records and bytes that were sent and not confirmed.
#[derive(Debug, Default)]
pub(crate) struct Window {
    records_max: u64,
    bytes_max: u64,
    /// Number of records sent since the session began.
    sent: u64,
    /// Running digest of these records.
    digest: u64,
    /// True if the digest includes the ends of items.
    counts_ends: bool,
    /// Number of records that the client has confirmed.
    confirmed: u64,
    /// Total size of the runs that are not completely confirmed, in bytes.
    bytes: u64,
    /// Runs that are not completely confirmed: the number of the last record, and the size in bytes.
    runs: VecDeque<(u64, u64)>,
    /// Size of the run that is being written, in bytes.
    run_bytes: u64,
}

impl Window {
    /// Creates the window that the client requests in its hello.
    pub(crate) fn of(hello: &Hello) -> Self {
        Self {
            records_max: u64::from(hello.window_records.clamp(1, RECORDS_MAX)),
            bytes_max: u64::from(hello.window_bytes.max(1)),
            ..Self::default()
        }
    }

    /// Includes the ends of items in the running digest. The client must do so too.
    pub(crate) fn count_ends(&mut self) {
        self.counts_ends = true;
    }

    pub(crate) fn send_end(&mut self, handle: u32) {
        if self.counts_ends {
            self.digest = self.digest.wrapping_add(digest::of_end(handle));
        }
    }

    /// Returns true if another record may be sent. That record may exceed the limit in bytes.
    pub(crate) fn has_room(&self) -> bool {
        self.sent - self.confirmed < self.records_max && self.bytes < self.bytes_max
    }

    /// Returns the number of records, and the number of bytes, that may be sent.
    pub(crate) fn room(&self) -> (u64, u64) {
        let records = self.sent - self.confirmed;
        (
            self.records_max.saturating_sub(records),
            self.bytes_max.saturating_sub(self.bytes),
        )
    }

    pub(crate) fn has_room_for(&self, records: u32) -> bool {
        self.sent - self.confirmed + u64::from(records) <= self.records_max
            && self.bytes < self.bytes_max
    }

    #[inline]
    pub(crate) fn send(&mut self, bytes: usize, digest: u64) {
        self.send_run(1, bytes, digest);
    }

    /// Counts records that are sent. `bytes` is their total size, and `digest` the sum of their digests.
    #[inline]
    pub(crate) fn send_run(&mut self, records: u32, bytes: usize, digest: u64) {
        self.sent += u64::from(records);
        self.digest = self.digest.wrapping_add(digest);
        self.bytes += bytes as u64;
        self.run_bytes += bytes as u64;
    }

    pub(crate) fn end_run(&mut self) {
        let bytes = std::mem::take(&mut self.run_bytes);
        self.runs.push_back((self.sent, bytes));
    }

    /// Handles the client's confirmation that it has received `records_received` records since the
    /// session began. Returns the number of newly confirmed records, or `None` if the client confirms
    /// more records than were sent.
    pub(crate) fn confirm(&mut self, records_received: u64) -> Option<u64> {
        if records_received > self.sent {
            return None;
        }
        let more = records_received.saturating_sub(self.confirmed);
        self.confirmed += more;
        while let Some((_, bytes)) = self.runs.pop_front_if(|(last, _)| *last <= self.confirmed) {
            self.bytes -= bytes;
        }
        Some(more)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sut(window_records: u32, window_bytes: u32) -> Window {
        Window::of(&Hello {
            window_records,
            window_bytes,
            ..Hello::default()
        })
    }

    #[test]
    fn unconfirmed_records_fill_the_window() {
        let mut sut = sut(2, 1000);
        sut.send(1, 0);
        assert!(sut.has_room());
        sut.send(1, 0);
        assert!(!sut.has_room());
        assert_eq!(sut.confirm(1), Some(1));
        assert!(sut.has_room());
    }

    #[test]
    fn unconfirmed_bytes_fill_the_window() {
        let mut sut = sut(100, 1000);
        sut.send(999, 0);
        assert!(sut.has_room());
        sut.send(5000, 0);
        sut.end_run();
        assert!(!sut.has_room());
        assert_eq!(sut.confirm(2), Some(2));
        assert_eq!((sut.has_room(), sut.bytes), (true, 0));
    }

    #[test]
    fn confirmation_of_more_records_than_were_sent_is_rejected() {
        let mut sut = sut(10, 1000);
        sut.send(1, 0);
        assert_eq!(
            (sut.confirm(1), sut.confirm(1), sut.confirm(0)),
            (Some(1), Some(0), Some(0))
        );
        assert_eq!(sut.confirm(2), None);
    }

    #[test]
    fn window_is_bounded_and_always_lets_one_record_pass() {
        assert!(sut(0, 0).has_room());
        assert_eq!(sut(u32::MAX, u32::MAX).records_max, u64::from(RECORDS_MAX));
    }
}
