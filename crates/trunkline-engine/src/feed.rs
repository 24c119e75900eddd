//! The bounded log behind an `all` subscription: every update of its variables in commit order.
//!
//! A write reserves room before it is numbered and fills it at commit, so commit cannot fail. Lock
//! order: variable, then feed.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_types::Tick;

use crate::outbox::{Outbox, Wakes};
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// One entry: which item of the consumer, and its update.
#[derive(Clone, Debug)]
pub(crate) struct FeedEntry {
    pub(crate) item: u32,
    pub(crate) update: Update,
}

/// What reserving room came to.
pub(crate) enum Reserve {
    /// The room is there; commit or release it.
    Reserved,
    /// The subscription has ended with `overrun`; nothing is to be pushed.
    Ended,
    /// The feed is full and writers may wait for it.
    WouldBlock {
        /// When it ends instead.
        until: Tick,
    },
}

/// The log of one subscription.
#[derive(Debug)]
pub(crate) struct Feed {
    elements_max: usize,
    bytes_max: usize,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<FeedEntry>,
    bytes: usize,
    reserved: usize,
    reserved_bytes: usize,
    /// Since when writers have found it full.
    full_since: Option<Tick>,
    ended: bool,
    /// Consumers whose writes wait for room here.
    parked: Vec<Arc<Outbox>>,
}

impl Feed {
    pub(crate) fn new(elements: u32, bytes: u32) -> Self {
        Self {
            elements_max: elements as usize,
            bytes_max: bytes as usize,
            log: Mutex::new(Log::default()),
        }
    }

    /// Reserves room for one update of `bytes`. `stall` is how long the variable's owner lets writers
    /// wait for a full feed.
    pub(crate) fn reserve(&self, bytes: usize, now: Tick, stall: Duration) -> Reserve {
        let mut log = self.log.lock();
        if log.ended {
            return Reserve::Ended;
        }
        let elements = log.entries.len() + log.reserved;
        let full = elements >= self.elements_max
            || (elements > 0 && log.bytes + log.reserved_bytes + bytes > self.bytes_max);
        if !full {
            log.reserved += 1;
            log.reserved_bytes += bytes;
            return Reserve::Reserved;
        }
        let until = log.full_since.get_or_insert(now).saturating_add(stall);
        if now < until {
            return Reserve::WouldBlock { until };
        }
        log.ended = true;
        Reserve::Ended
    }

    /// Gives reserved room back: the write was not committed after all.
    pub(crate) fn release(&self, bytes: usize) {
        let mut log = self.log.lock();
        log.reserved -= 1;
        log.reserved_bytes -= bytes;
    }

    /// Fills reserved room.
    pub(crate) fn commit(&self, item: u32, update: &Update) {
        let bytes = update.value.as_slice().len();
        let mut log = self.log.lock();
        log.reserved -= 1;
        log.reserved_bytes -= bytes;
        log.bytes += bytes;
        log.entries.push_back(FeedEntry { item, update: update.clone() });
    }

    /// Takes up to `limit` entries and wakes writers that waited for room. Returns whether more is left.
    pub(crate) fn take(&self, limit: usize, out: &mut Vec<FeedEntry>, wakes: &mut Wakes) -> bool {
        let mut log = self.log.lock();
        let count = limit.min(log.entries.len());
        let mut freed = 0;
        for entry in log.entries.drain(..count) {
            freed += entry.update.value.as_slice().len();
            out.push(entry);
        }
        if count > 0 {
            log.bytes -= freed;
            log.full_since = None;
            for outbox in log.parked.drain(..) {
                wakes.add(&outbox);
            }
        }
        !log.entries.is_empty()
    }

    /// Asks for `outbox` to be woken at the next room. False when there is room already.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        let mut log = self.log.lock();
        let full = log.full_since.is_some() && !log.ended;
        if full && !log.parked.iter().any(|parked| Arc::ptr_eq(parked, outbox)) {
            log.parked.push(Arc::clone(outbox));
        }
        full
    }

    /// Entries of one item that wait.
    pub(crate) fn waiting_of(&self, item: u32) -> u64 {
        self.log.lock().entries.iter().filter(|entry| entry.item == item).count() as u64
    }

    /// Whether it ended with `overrun`; what was in it before is still to be taken.
    pub(crate) fn has_ended(&self) -> bool {
        self.log.lock().ended
    }

    /// Ends it because its consumer goes; waiting writers go on.
    pub(crate) fn close(&self, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        log.ended = true;
        log.entries.clear();
        log.bytes = 0;
        for outbox in log.parked.drain(..) {
            wakes.add(&outbox);
        }
    }
}
