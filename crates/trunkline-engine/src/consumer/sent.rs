//! What was sent and is not confirmed, kept for the session that comes after a broken one.

use std::collections::VecDeque;

use super::charge::Charge;
use crate::engine::Engine;
use crate::feed::FeedEntry;
use crate::outbox::Wakes;

/// On top of the bytes that may wait for the consumer one in so many is kept once it is sent.
const SENT_PART: usize = 10;
/// What was sent under `all` and is not confirmed, in the order in which it was; in place of its
/// place in the feed each entry has the variable's handle.
#[derive(Debug)]
pub(super) struct Sent {
    entries: VecDeque<FeedEntry>,
    /// Which deliveries they were: between them are those of other contracts.
    pieces: VecDeque<Piece>,
    /// Deliveries that were ever confirmed, of all contracts.
    confirmed: u64,
    pub(super) charge: Charge,
}

/// Entries that were delivered with nothing between them.
#[derive(Debug)]
struct Piece {
    /// The number of the delivery after the last of them.
    end: u64,
    count: usize,
}

impl Sent {
    /// `queue_max`: bytes that may wait for the consumer.
    pub(super) fn new(engine: &Engine, queue_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            pieces: VecDeque::new(),
            confirmed: 0,
            charge: Charge::of(engine, queue_max / SENT_PART),
        }
    }

    /// These entries, `count` of them which take `cost` bytes, were the last that was sent, and
    /// `in_flight` deliveries are not confirmed; `handle_at` says whose each place is.
    pub(super) fn extend(
        &mut self,
        entries: impl Iterator<Item = FeedEntry>,
        (count, cost): (usize, usize),
        in_flight: usize,
        handle_at: impl Fn(u32) -> u32,
        wakes: &mut Wakes,
    ) {
        let end = self.confirmed + in_flight as u64;
        // Now: an item that has gone leaves its number to another one.
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

    /// Where there are no bytes for all that comes, older ones go: only what is the newest without
    /// a gap is of use. `start` is the number of the first delivery.
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

    /// So many further entries are here, the last of which was the delivery before `end`.
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

    /// The peer has confirmed the oldest deliveries, of whatever contracts.
    #[inline]
    pub(super) fn confirm(&mut self, deliveries: usize, wakes: &mut Wakes) {
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

    /// Takes everything out, each entry with the handle of its variable.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, FeedEntry)> {
        self.entries.drain(..).map(|entry| (entry.place, entry))
    }

    /// Drops the oldest entries. Those left of their piece still end where it does.
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
