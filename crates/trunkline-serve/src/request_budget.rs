//! The memory budget for the requests and items of all sessions.
//!
//! Each session has an [`Account`] of what it takes per [`Use`]. [`FLOOR_BYTES`] for requests, and
//! as many for items, are always available to it: a client with few of them continues while others
//! fill the engine. Beyond that, a session borrows from the engine's one [`RequestBudget`]. It may
//! borrow at most half of it, so that one client alone cannot fill it.
//!
//! ```text
//!   session: frames + requests + orders + items --> Account --> RequestBudget: used <= max
//! ```
//!
//! Bytes are borrowed before the memory is allocated. What does not fit is refused with the fault
//! `memory-full`.

use trunkline_proto::{Fault, FaultCode};

use crate::sync::{Arc, AtomicUsize, Ordering};

/// Bytes that each session may take for requests, and again for items, however full the engine is.
const FLOOR_BYTES: usize = 64 << 10;
/// Amount borrowed and given back at a time, so that few requests touch the counter shared by all
/// sessions.
const CHUNK_BYTES: usize = 64 << 10;
/// Memory of an item: its entry, its mark, its place in its subscription, and its entry in the
/// variable.
pub(crate) const ITEM_BYTES: usize = 240;

/// The memory budget for the requests and items of all sessions of an engine.
#[derive(Debug)]
pub struct RequestBudget {
    max: usize,
    used: AtomicUsize,
    refusals: AtomicUsize,
}

/// The uses for which a session takes memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// Incomplete frames, and incomplete messages in parts.
    Frames,
    /// Requests not yet carried out.
    Work,
    /// Libraries on their way to the host.
    Orders,
    /// Items of subscriptions. Must stay the last variant, because `needed` counts it separately.
    Items,
}

/// The account of one session.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<RequestBudget>,
    /// Bytes taken, by [`Use`].
    bytes: [usize; 4],
    /// Bytes borrowed from the budget.
    borrowed: usize,
}

impl RequestBudget {
    pub fn new(max: usize) -> Self {
        Self {
            max,
            used: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
        }
    }

    /// Returns the bytes that sessions have borrowed, without the floor of each session.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns how often a request or an item was refused because the budget or its share was
    /// exhausted.
    pub fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    fn session_max(&self) -> usize {
        self.max / 2
    }

    fn borrow(&self, bytes: usize) -> bool {
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        // Relaxed: this is only a counter, and nothing else is published with it.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum)
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Account {
    pub(crate) fn new(budget: &Arc<RequestBudget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: [0; 4],
            borrowed: 0,
        }
    }

    pub(crate) fn taken(&self, of: Use) -> usize {
        self.bytes[of as usize]
    }

    /// Sets the bytes taken for a use. Nothing changes if it fails.
    pub(crate) fn set(&mut self, of: Use, bytes: usize) -> Result<(), Fault> {
        let before = std::mem::replace(&mut self.bytes[of as usize], bytes);
        if before == bytes {
            return Ok(());
        }
        let needed = self.needed();
        if needed > self.borrowed {
            let is_lent =
                needed <= self.budget.session_max() && self.budget.borrow(needed - self.borrowed);
            if !is_lent {
                self.bytes[of as usize] = before;
                self.budget.refusals.fetch_add(1, Ordering::Relaxed);
                return Err(self.full(needed));
            }
            self.borrowed = needed;
        } else if self.borrowed - needed > CHUNK_BYTES || needed == 0 {
            self.budget.give_back(self.borrowed - needed);
            self.borrowed = needed;
        }
        Ok(())
    }

    /// Returns the bytes to borrow for all uses together.
    fn needed(&self) -> usize {
        let beyond_floor = |bytes: usize| match bytes <= FLOOR_BYTES {
            true => 0,
            false => bytes.checked_next_multiple_of(CHUNK_BYTES).unwrap_or(bytes),
        };
        let [requests @ .., items] = self.bytes;
        let requests = requests.iter().copied().fold(0, usize::saturating_add);
        beyond_floor(requests).saturating_add(beyond_floor(items))
    }

    pub(crate) fn add(&mut self, of: Use, more: usize) -> Result<(), Fault> {
        self.set(of, self.taken(of).saturating_add(more))
    }

    /// Lowers the bytes taken for a use, if they are more.
    pub(crate) fn lower(&mut self, of: Use, bytes: usize) {
        if bytes < self.taken(of) {
            // Lowering never fails.
            let _ = self.set(of, bytes);
        }
    }

    /// Moves the bytes taken for a use into a loan.
    pub(crate) fn lend_out(&mut self, of: Use) -> Loan {
        let bytes = self.taken(of);
        self.lower(of, 0);
        // The session's floor counts in a loan too, so this addition must not be refused.
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        Loan {
            budget: Arc::clone(&self.budget),
            bytes,
        }
    }

    fn full(&self, needed: usize) -> Fault {
        let max = self.budget.max();
        let share = self.budget.session_max();
        let sentence = match needed > share {
            true => format!(
                "the requests and items of one connection may take {share} bytes, and this needs \
                 {needed}; close subscriptions, send smaller requests, or raise `request_bytes_max`"
            ),
            false => format!(
                "the engine's memory for requests and items ({max} bytes) is full; try again when \
                 other clients have ended theirs, or raise `request_bytes_max`"
            ),
        };
        Fault::new(FaultCode::MemoryFull, sentence)
    }
}

/// Memory of a session that is in use elsewhere, such as by the host that carries out an order. It
/// is given back on drop.
#[derive(Debug)]
pub(crate) struct Loan {
    budget: Arc<RequestBudget>,
    bytes: usize,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.give_back(self.borrowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_memory_is_bounded_and_returned() {
        let budget = Arc::new(RequestBudget::new(1 << 20));
        let mut one = Account::new(&budget);
        let mut other = Account::new(&budget);
        one.set(Use::Work, FLOOR_BYTES).unwrap();
        assert_eq!(budget.used(), 0, "by right");
        one.set(Use::Work, 500 << 10).unwrap();
        assert_eq!(
            one.set(Use::Items, 100 << 10).unwrap_err().code,
            FaultCode::MemoryFull
        );
        assert_eq!(one.taken(Use::Items), 0);
        other.set(Use::Orders, 512 << 10).unwrap();
        assert_eq!(budget.used(), 1 << 20);
        let mut third = Account::new(&budget);
        third.set(Use::Frames, FLOOR_BYTES).unwrap();
        assert!(third.add(Use::Frames, 1).is_err());
        assert_eq!(budget.refusals(), 2);
        one.lower(Use::Work, 0);
        third.add(Use::Frames, 1).unwrap();
        drop((other, third));
        assert_eq!(budget.used(), 0);
    }
}
