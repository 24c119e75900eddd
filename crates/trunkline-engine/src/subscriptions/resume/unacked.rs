//! Updates that were sent but not confirmed, stored for the session that follows a lost one.

use std::collections::VecDeque;

use super::charge::Charge;
use crate::delivery::feed::FeedEntry;
use crate::delivery::outbox::Wakes;
use crate::write::EngineCore;

/// Divisor of the consumer's queue limit. Unacked updates may use that fraction of it, in addition
/// to the queued updates.
const SENT_PART: usize = 10;
/// Updates that were sent in `all` subscriptions but not confirmed, in the order of sending. The
/// `place` of each entry is the variable's handle instead of its place in the feed.
#[derive(Debug)]
pub(crate) struct Unacked {
    entries: VecDeque<FeedEntry>,
    /// The deliveries of these entries. Deliveries of other contracts lie in between.
    pieces: VecDeque<Piece>,
    /// Number of deliveries confirmed so far, of all contracts.
    confirmed: u64,
    pub(crate) charge: Charge,
}

#[derive(Debug)]
struct Piece {
    end: u64,
    count: usize,
}

impl Unacked {
    /// Creates an empty list. `queue_max` is the number of bytes that may be queued for the
    /// consumer.
    pub(crate) fn new(core: &EngineCore, queue_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            pieces: VecDeque::new(),
            confirmed: 0,
            charge: Charge::of(core, queue_max / SENT_PART),
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

    /// Adds entries singly, dropping older ones if there are not enough bytes for all. Only the
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
            let mut is_taken = self.charge.take(cost);
            while !is_taken && !self.entries.is_empty() {
                self.forget(self.entries.len().div_ceil(2), wakes);
                is_taken = self.charge.take(cost);
            }
            if is_taken {
                self.note(end, 1);
                self.entries.push_back(entry);
            }
        }
    }

    /// Records `count` more entries. The last one is the delivery before `end`.
    #[inline]
    fn note(&mut self, end: u64, count: usize) {
        match self.pieces.back_mut() {
            Some(last) if last.end + count as u64 == end => {
                last.end = end;
                last.count += count;
            }
            _ => self.pieces.push_back(Piece { end, count }),
        }
    }

    /// Drops entries after the peer has confirmed the oldest deliveries, of any contract.
    #[inline]
    pub(crate) fn confirm(&mut self, deliveries: usize, wakes: &mut Wakes) {
        self.confirmed += deliveries as u64;
        let mut over = 0;
        while let Some(piece) = self.pieces.front_mut() {
            let start = piece.end - piece.count as u64;
            if start >= self.confirmed {
                break;
            }
            let confirmed = ((self.confirmed - start) as usize).min(piece.count);
            over += confirmed;
            piece.count -= confirmed;
            if piece.count == 0 {
                self.pieces.pop_front();
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

    /// Drops the oldest entries. The rest of their piece still ends at the same delivery.
    fn forget(&mut self, count: usize, wakes: &mut Wakes) {
        let mut left = count.min(self.entries.len());
        let cost = self.entries.drain(..left).map(|entry| entry.cost()).sum();
        self.charge.give_back(cost, wakes);
        while left > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let gone = left.min(piece.count);
            left -= gone;
            piece.count -= gone;
            if piece.count == 0 {
                self.pieces.pop_front();
            }
        }
    }
}
