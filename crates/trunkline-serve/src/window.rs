//! What the client lets the engine send before it confirms.

use std::collections::VecDeque;

use trunkline_proto::digest;
use trunkline_proto::message::hello::Hello;

/// Records that a client may leave unconfirmed, whatever it says: eight bytes are kept for each.
const RECORDS_MAX: u32 = 1 << 20;

/// Update records and bytes on their way.
#[derive(Debug, Default)]
pub(crate) struct Window {
    records_max: u64,
    bytes_max: u64,
    /// Records since the session began, and the running digest of them.
    sent: u64,
    digest: u64,
    /// Ends count in it, too.
    counts_ends: bool,
    confirmed: u64,
    /// Bytes of the records that are not confirmed.
    bytes: u64,
    /// Runs on their way: the number of the last record, and the run's bytes.
    runs: VecDeque<(u64, u64)>,
    /// Bytes of the run that is being written.
    run_bytes: u64,
}

impl Window {
    /// As the client asks for in its hello.
    pub(crate) fn of(hello: &Hello) -> Self {
        Self {
            records_max: u64::from(hello.window_records.clamp(1, RECORDS_MAX)),
            bytes_max: u64::from(hello.window_bytes.max(1)),
            ..Self::default()
        }
    }

    /// The peer counts ends in its running digest, too.
    pub(crate) fn count_ends(&mut self) {
        self.counts_ends = true;
    }

    /// The end of an item is sent.
    pub(crate) fn send_end(&mut self, handle: u32) {
        if self.counts_ends {
            self.digest = self.digest.wrapping_add(digest::of_end(handle));
        }
    }

    /// Whether one more record may be sent. The last one may go over the bytes.
    pub(crate) fn has_room(&self) -> bool {
        self.sent - self.confirmed < self.records_max && self.bytes < self.bytes_max
    }

    /// Records and bytes that may be sent; the last record may go over the bytes.
    pub(crate) fn room(&self) -> (u64, u64) {
        let records = self.sent - self.confirmed;
        (
            self.records_max.saturating_sub(records),
            self.bytes_max.saturating_sub(self.bytes),
        )
    }

    /// Whether so many more records may be sent together.
    pub(crate) fn has_room_for(&self, records: u32) -> bool {
        self.sent - self.confirmed + u64::from(records) <= self.records_max
            && self.bytes < self.bytes_max
    }

    /// A record of so many bytes is sent, which adds this to the digest.
    #[inline]
    pub(crate) fn send(&mut self, bytes: usize, digest: u64) {
        self.send_run(1, bytes, digest);
    }

    /// Records of so many bytes together are sent.
    #[inline]
    pub(crate) fn send_run(&mut self, records: u32, bytes: usize, digest: u64) {
        self.sent += u64::from(records);
        self.digest = self.digest.wrapping_add(digest);
        self.bytes += bytes as u64;
        self.run_bytes += bytes as u64;
    }

    /// The run that the records sent last are part of is complete.
    pub(crate) fn end_run(&mut self) {
        let bytes = std::mem::take(&mut self.run_bytes);
        self.runs.push_back((self.sent, bytes));
    }

    /// The client has received so many records since the session began. How many more than it said
    /// before; `None` when it claims more than were sent.
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

    /// Records sent since the session began.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The running digest of the records sent.
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
    fn records_that_are_not_confirmed_use_the_window_up() {
        let mut sut = sut(2, 1000);
        sut.send(1, 0);
        assert!(sut.has_room());
        sut.send(1, 0);
        assert!(!sut.has_room());
        assert_eq!(sut.confirm(1), Some(1));
        assert!(sut.has_room());
    }

    #[test]
    fn bytes_of_runs_that_are_not_confirmed_use_the_window_up() {
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
