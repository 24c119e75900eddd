//! What was sent and is not confirmed, kept for the session that comes after a broken one.

use std::collections::VecDeque;

use crate::budget::EngineBudget;
use crate::engine::Engine;
use crate::feed::FeedEntry;
use crate::outbox::Wakes;
use crate::sync::Arc;

/// On top of the bytes that may wait for the consumer one in so many is kept once it is sent.
const SENT_PART: usize = 10;
/// Borrowed at a time.
const CHUNK: usize = 16 << 10;
/// The same where there are many that hardly use any.
const FINE_CHUNK: usize = 1 << 10;

/// Bytes of the engine's budget for what is kept. What waits goes before it: nothing is lent from
/// the second half of the budget.
#[derive(Debug, Default)]
pub(super) struct Charge {
    engine: Option<Arc<EngineBudget>>,
    /// Bytes that it takes at most.
    max: usize,
    used: usize,
    borrowed: usize,
}

impl Charge {
    /// Of at most `max` bytes.
    pub(super) fn of(engine: &Engine, max: usize) -> Self {
        Self {
            engine: engine.memory().map(Arc::clone),
            max,
            ..Self::default()
        }
    }

    /// From now on at most `max` bytes.
    pub(super) fn limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Takes bytes; false when none are to spare.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        self.take_from(bytes, CHUNK, EngineBudget::borrow_spare)
    }

    /// Takes bytes for what waited until now, and was charged as that; false when none are left.
    pub(super) fn take_over(&mut self, bytes: usize) -> bool {
        self.take_from(bytes, FINE_CHUNK, |engine, bytes| {
            engine.borrow(bytes, false)
        })
    }

    #[inline]
    fn take_from(
        &mut self,
        bytes: usize,
        chunk: usize,
        borrow: impl FnOnce(&EngineBudget, usize) -> bool,
    ) -> bool {
        let used = self.used.saturating_add(bytes);
        if used > self.max {
            return false;
        }
        if used > self.borrowed
            && let Some(engine) = &self.engine
        {
            let more = (used - self.borrowed).next_multiple_of(chunk);
            if !borrow(engine, more) {
                return false;
            }
            self.borrowed += more;
        }
        self.used = used;
        true
    }

    #[inline]
    pub(super) fn give_back(&mut self, bytes: usize, wakes: &mut Wakes) {
        debug_assert!(bytes <= self.used, "more is given back than was taken");
        self.used = self.used.saturating_sub(bytes);
        if self.borrowed > self.used + 4 * CHUNK || self.used == 0 {
            self.shrink(CHUNK, wakes);
        }
    }

    /// Nothing more is taken for long: keeps no more than is used.
    pub(super) fn settle(&mut self, wakes: &mut Wakes) {
        self.shrink(FINE_CHUNK, wakes);
    }

    /// Writers may wait for what is given back.
    fn shrink(&mut self, chunk: usize, wakes: &mut Wakes) {
        let kept = self.used.next_multiple_of(chunk).min(self.borrowed);
        let surplus = self.borrowed - kept;
        if let Some(engine) = self.engine.as_ref().filter(|_| surplus > 0) {
            engine.give_back(surplus, wakes);
        }
        self.borrowed = kept;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used = 0;
        self.shrink(CHUNK, &mut Wakes::new());
    }
}

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
        if !self.charge.take(cost) {
            // A gap in the middle is of no use.
            drop(entries);
            return self.clear(wakes);
        }
        let end = self.confirmed + in_flight as u64;
        match self.pieces.back_mut() {
            Some(last) if last.end + count as u64 == end => {
                last.end = end;
                last.count += count;
            }
            _ => self.pieces.push_back(Piece { end, count }),
        }
        // Now: an item that has gone leaves its number to another one.
        self.entries.extend(entries.map(|mut entry| {
            entry.place = handle_at(entry.place);
            entry
        }));
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

    #[cold]
    fn clear(&mut self, wakes: &mut Wakes) {
        self.entries = VecDeque::new();
        self.pieces = VecDeque::new();
        self.charge.give_back(self.charge.used, wakes);
    }
}
