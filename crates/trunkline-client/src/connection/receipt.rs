//! Update records received on a connection, and their acknowledgement to the engine.

use std::collections::VecDeque;

use crate::options::ClientOptions;

#[derive(Debug, Default)]
pub(crate) struct Receipt {
    records: u64,
    digest: u64,
    acked: u64,
    unacked_bytes: usize,
    /// Remote subscriptions that have credit to grant.
    grants: VecDeque<u32>,
}

impl Receipt {
    /// Counts update records, wanted or not, and adds the sum of their digests.
    pub(crate) fn count_records(&mut self, records: u64, digest: u64) {
        self.records += records;
        self.digest = self.digest.wrapping_add(digest);
    }

    /// Returns true if the engine's number of records and running digest match.
    pub(crate) fn agrees(&self, records: u64, digest: u64) -> bool {
        (self.records, self.digest) == (records, digest)
    }

    /// Continues from the engine's totals, whatever arrived. A difference is thus reported once,
    /// and lost records do not occupy the window for ever.
    pub(crate) fn take_over(&mut self, records: u64, digest: u64) {
        (self.records, self.digest) = (records, digest);
        self.acked = self.acked.min(records);
    }

    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.unacked_bytes += bytes;
    }

    /// Schedules a grant for a remote subscription that has credit to return.
    pub(crate) fn grant_due(&mut self, remote: u32) {
        if !self.grants.contains(&remote) {
            self.grants.push_back(remote);
        }
    }

    /// Takes the next remote subscription that has credit to grant.
    pub(crate) fn next_grant(&mut self) -> Option<u32> {
        self.grants.pop_front()
    }

    /// Returns the number of records received, and counts them as acknowledged.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        self.acked = self.records;
        self.unacked_bytes = 0;
        self.records
    }

    /// Returns two flags: there is something to acknowledge, and it must be sent without waiting
    /// for other output. The second is true at a quarter of the window, or if there is credit to
    /// grant.
    pub(crate) fn due(&self, options: &ClientOptions) -> (bool, bool) {
        let unacked = self.records - self.acked;
        let grants = !self.grants.is_empty();
        let records_due = unacked >= u64::from(options.window_records / 4).max(1);
        let bytes_due = self.unacked_bytes >= (options.window_bytes / 4).max(1) as usize;
        (unacked > 0 || grants, grants || records_due || bytes_due)
    }
}
