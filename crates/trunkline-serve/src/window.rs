//! The client's window: the amount of data that the engine may send before the client confirms it.

use std::collections::VecDeque;

use trunkline_proto::digest;
use trunkline_proto::message::hello::Hello;

/// Maximum number of unconfirmed records, even if the client requests more: each takes eight bytes
/// of memory.
const RECORDS_MAX: u32 = 1 << 20;

/// The update records and bytes in flight.
#[derive(Debug, Default)]
pub(crate) struct Window {
    records_max: u64,
    bytes_max: u64,
    /// Number of records since the session began, and their running digest.
    sent: u64,
    digest: u64,
    /// True if ends of items are part of the digest.
    counts_ends: bool,
    confirmed: u64,
    /// Number of bytes of the unconfirmed records.
    bytes: u64,
    /// Runs in flight: the number of the last record, and the bytes of the run.
    runs: VecDeque<(u64, u64)>,
    /// Number of bytes of the run that is being written.
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

    /// Includes ends of items in the running digest, like the peer.
    pub(crate) fn count_ends(&mut self) {
        self.counts_ends = true;
    }

    pub(crate) fn send_end(&mut self, handle: u32) {
        if self.counts_ends {
            self.digest = self.digest.wrapping_add(digest::of_end(handle));
        }
    }

    /// Returns true if one more record may be sent. The last record may exceed the limit in bytes.
    pub(crate) fn has_room(&self) -> bool {
        self.sent - self.confirmed < self.records_max && self.bytes < self.bytes_max
    }

    /// Returns the number of records and bytes that may be sent.
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

    /// Counts records that are sent, with their total size.
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

    /// Confirms that the client has received `records_received` records since the session began.
    /// Returns the number of newly confirmed records, or `None` if the client claims more records
    /// than were sent.
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
    fn a_client_that_claims_more_than_was_sent_is_found_out() {
        let mut sut = sut(10, 1000);
        sut.send(1, 0);
        assert_eq!(
            (sut.confirm(1), sut.confirm(1), sut.confirm(0)),
            (Some(1), Some(0), Some(0))
        );
        assert_eq!(sut.confirm(2), None);
    }

    #[test]
    fn a_window_is_bounded_and_never_shut() {
        assert!(sut(0, 0).has_room());
        assert_eq!(sut(u32::MAX, u32::MAX).records_max, u64::from(RECORDS_MAX));
    }
}
