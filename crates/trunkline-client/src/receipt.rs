//! What came in updates on a connection, and how much of it the engine was told.

use std::collections::VecDeque;

use crate::options::ClientOptions;

/// Of one connection.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    records: u64,
    /// Running digest of the records.
    digest: u64,
    acked: u64,
    unacked_bytes: usize,
    /// Wire subscriptions whose room is to be granted.
    grants: VecDeque<u32>,
}

impl Receipt {
    /// Update records, whether anybody wants them or not, and the sum of their digests.
    pub(crate) fn count_records(&mut self, records: u64, digest: u64) {
        self.records += records;
        self.digest = self.digest.wrapping_add(digest);
    }

    /// Whether these records were received, as far as their running digest shows.
    pub(crate) fn agrees(&self, records: u64, digest: u64) -> bool {
        (self.records, self.digest) == (records, digest)
    }

    /// Counts on from what the engine has sent, whatever arrived of it: a difference is found once,
    /// and what did not arrive takes up no window for ever.
    pub(crate) fn take_over(&mut self, records: u64, digest: u64) {
        (self.records, self.digest) = (records, digest);
        self.acked = self.acked.min(records);
    }

    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.unacked_bytes += bytes;
    }

    /// A wire subscription has room again.
    pub(crate) fn grant_due(&mut self, wire: u32) {
        if !self.grants.contains(&wire) {
            self.grants.push_back(wire);
        }
    }

    /// The next wire subscription whose room is to be granted.
    pub(crate) fn next_grant(&mut self) -> Option<u32> {
        self.grants.pop_front()
    }

    /// Records received; they count as acknowledged from now on.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        self.acked = self.records;
        self.unacked_bytes = 0;
        self.records
    }

    /// Whether anything is to be acknowledged, and whether it cannot wait for something else to be
    /// sent: a quarter of the window is, or there is room to grant.
    pub(crate) fn due(&self, options: &ClientOptions) -> (bool, bool) {
        let unacked = self.records - self.acked;
        let grants = !self.grants.is_empty();
        let records_due = unacked >= u64::from(options.window_records / 4).max(1);
        let bytes_due = self.unacked_bytes >= (options.window_bytes / 4).max(1) as usize;
        (unacked > 0 || grants, grants || records_due || bytes_due)
    }
}
