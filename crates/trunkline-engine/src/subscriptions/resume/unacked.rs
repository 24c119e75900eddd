//! Updates that were sent but not confirmed, stored for the session that follows a lost one.

use std::collections::VecDeque;

use super::charge::Charge;
use crate::delivery::feed::FeedEntry;
use crate::delivery::outbox::Wakes;
use crate::write::EngineCore;

/// Unacked updates may use the consumer's queue limit divided by this number, in addition to the
/// queued updates.
const UNACKED_BYTES_DIVISOR: usize = 10;
/// Updates that were sent in `all` subscriptions but not confirmed, in the order of sending. The
/// `place` of each entry is the variable's handle instead of its place in the feed.
#[derive(Debug)]
pub(crate) struct Unacked {
    entries: VecDeque<FeedEntry>,
    /// The deliveries of these entries. Between these ranges are deliveries of other contracts.
    ranges: VecDeque<SentRange>,
    /// Number of deliveries confirmed so far, of all contracts.
    confirmed: u64,
    pub(crate) charge: Charge,
}

/// Consecutive deliveries of stored entries.
#[derive(Debug)]
struct SentRange {
    /// One past the number of the last delivery.
    end: u64,
    count: usize,
}

impl Unacked {
    /// Creates an empty list. `queue_max` is the number of bytes that may be queued for the
    /// consumer.
    pub(crate) fn new(core: &EngineCore, queue_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            ranges: VecDeque::new(),
            confirmed: 0,
            charge: Charge::of(core, queue_max / UNACKED_BYTES_DIVISOR),
        }
    }

    /// Adds `count` entries with a cost of `cost` bytes, which were the last ones sent. `in_flight`
    /// is the number of unconfirmed deliveries. `handle_at` returns the handle of the variable at a
    /// place.
    pub(crate) fn extend(
        &mut self,
        entries: impl Iterator<Item = FeedEntry>,
        count: usize,
        cost: usize,
        in_flight: usize,
        handle_at: impl Fn(u32) -> u32,
        wakes: &mut Wakes,
    ) {
        let end = self.confirmed + in_flight as u64;
        // Resolved now, because the number of a removed item is reused.
        let named = entries.map(|mut entry| {
            entry.place = handle_at(entry.place);
            entry
        });
        if !self.charge.take(cost) {
            return self.extend_singly(named, end - count as u64, wakes);
        }
        self.note(end, count);
        self.entries.extend(named);
    }

    /// Adds entries one by one, dropping older ones if there are not enough bytes for all. Only the
    /// newest entries without a gap are useful. `start` is the number of the first delivery.
    #[cold]
    fn extend_singly(
        &mut self,
        entries: impl Iterator<Item = FeedEntry>,
        start: u64,
        wakes: &mut Wakes,
    ) {
        for (end, entry) in (start + 1..).zip(entries) {
            let cost = entry.cost();
            let mut is_charged = self.charge.take(cost);
            while !is_charged && !self.entries.is_empty() {
                self.forget(self.entries.len().div_ceil(2), wakes);
                is_charged = self.charge.take(cost);
            }
            if is_charged {
                self.note(end, 1);
                self.entries.push_back(entry);
            }
        }
    }

    /// Records `count` more entries. The last one is the delivery before `end`.
    #[inline]
    fn note(&mut self, end: u64, count: usize) {
        match self.ranges.back_mut() {
            Some(last) if last.end + count as u64 == end => {
                last.end = end;
                last.count += count;
            }
            _ => self.ranges.push_back(SentRange { end, count }),
        }
    }

    /// Drops entries after the peer has confirmed the oldest deliveries, of any contract.
    #[inline]
    pub(crate) fn confirm(&mut self, deliveries: usize, wakes: &mut Wakes) {
        self.confirmed += deliveries as u64;
        let mut over = 0;
        while let Some(range) = self.ranges.front_mut() {
            let start = range.end - range.count as u64;
            if start >= self.confirmed {
                break;
            }
            let confirmed = ((self.confirmed - start) as usize).min(range.count);
            over += confirmed;
            range.count -= confirmed;
            if range.count == 0 {
                self.ranges.pop_front();
            }
        }
        if over > 0 {
            let over = over.min(self.entries.len());
            let cost = self.entries.drain(..over).map(|entry| entry.cost()).sum();
            self.charge.give_back(cost, wakes);
        }
    }

    /// Takes out everything, each entry with the handle of its variable.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, FeedEntry)> {
        self.entries.drain(..).map(|entry| (entry.place, entry))
    }

    /// Drops the oldest entries. The end of their range stays the same.
    fn forget(&mut self, count: usize, wakes: &mut Wakes) {
        let mut left = count.min(self.entries.len());
        let cost = self.entries.drain(..left).map(|entry| entry.cost()).sum();
        self.charge.give_back(cost, wakes);
        while left > 0
            && let Some(range) = self.ranges.front_mut()
        {
            let dropped = left.min(range.count);
            left -= dropped;
            range.count -= dropped;
            if range.count == 0 {
                self.ranges.pop_front();
            }
        }
    }
}
