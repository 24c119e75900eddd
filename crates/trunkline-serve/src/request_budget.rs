//! The memory budget for the requests and items of all sessions.
//!
//! Each session has an [`Account`] of the memory that it takes for each [`Use`]. [`FLOOR_BYTES`]
//! for requests, and the same amount for items, are always available to it, so that a client with
//! few requests and items can continue while others fill the engine. A session that takes more than
//! that borrows the whole amount from the engine's [`RequestBudget`]. It may borrow at most half of
//! the budget, so that a single client cannot exhaust it.
//!
//! ```text
//!   session: frames + requests + libraries + loans + items --> Account --> RequestBudget: used <= max
//! ```
//!
//! Bytes are borrowed before the memory is allocated. A request or item that does not fit is
//! refused with the fault `memory-full`. The memory of a library or of a query that the host
//! carries out is a [`Loan`], which is charged to its session until the host has answered, even if
//! the session ends before that.

use trunkline_proto::{Fault, FaultCode};

use crate::sync::{Arc, AtomicUsize, Ordering};

/// Number of bytes that each session may always take for requests, and the same number for items,
/// even if the budget is exhausted.
const FLOOR_BYTES: usize = 64 << 10;
/// Amount that is borrowed and returned at a time, so that only few requests access the counter
/// shared by all sessions.
const CHUNK_BYTES: usize = 64 << 10;
/// Memory of an item in bytes: its entry, its mark, its place in its subscription, and its entry in
/// the variable.
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
    Requests,
    /// Libraries that are being received. Once received, a library is a [`Loan`].
    Libraries,
    /// Items of subscriptions. This must be the last variant, because `needed` counts it
    /// separately.
    Items,
}

/// The account of one session.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<RequestBudget>,
    /// Bytes taken, by [`Use`].
    bytes: [usize; 4],
    /// Number of bytes borrowed from the budget, including loans.
    borrowed: usize,
    lent: Arc<Lent>,
}

/// The loans of one session.
#[derive(Debug)]
struct Lent {
    budget: Arc<RequestBudget>,
    bytes: AtomicUsize,
    /// Number of bytes that an ended session has borrowed for its loans. They are returned after
    /// the last loan has ended.
    left_borrowed: AtomicUsize,
}

impl RequestBudget {
    pub fn new(max: usize) -> Self {
        Self {
            max,
            used: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
        }
    }

    /// Returns the number of bytes that sessions have borrowed. Sessions that stay within their
    /// floor for requests and for items borrow none.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the number of times that a request or an item was refused because the budget, or the
    /// session's share of it, was exhausted.
    pub fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    fn session_max(&self) -> usize {
        self.max / 2
    }

    fn borrow(&self, bytes: usize) -> bool {
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        // Relaxed: this is only a counter; no other data is published with it.
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
            lent: Arc::new(Lent {
                budget: Arc::clone(budget),
                bytes: AtomicUsize::new(0),
                left_borrowed: AtomicUsize::new(0),
            }),
        }
    }

    pub(crate) fn taken(&self, of: Use) -> usize {
        self.bytes[of as usize]
    }

    /// Sets the number of bytes taken for a use. If it fails, nothing changes.
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
                return Err(self.memory_full(needed));
            }
            self.borrowed = needed;
        } else {
            self.give_back_beyond(needed);
        }
        Ok(())
    }

    fn give_back_beyond(&mut self, needed: usize) {
        let spare = self.borrowed.saturating_sub(needed);
        if spare > CHUNK_BYTES || needed == 0 {
            self.budget.give_back(spare);
            self.borrowed -= spare;
        }
    }

    /// Returns the total number of bytes to borrow for all uses.
    fn needed(&self) -> usize {
        let to_borrow = |bytes: usize| match bytes <= FLOOR_BYTES {
            true => 0,
            false => bytes.checked_next_multiple_of(CHUNK_BYTES).unwrap_or(bytes),
        };
        let [other_uses @ .., items] = self.bytes;
        // Relaxed: a loan that ends in the meantime is noticed the next time.
        let lent = self.lent.bytes.load(Ordering::Relaxed);
        let other_uses = other_uses.into_iter().fold(lent, usize::saturating_add);
        to_borrow(other_uses).saturating_add(to_borrow(items))
    }

    pub(crate) fn add(&mut self, of: Use, more: usize) -> Result<(), Fault> {
        self.set(of, self.taken(of).saturating_add(more))
    }

    /// Lowers the number of bytes taken for a use to `bytes`, if it is higher.
    pub(crate) fn lower(&mut self, of: Use, bytes: usize) {
        if bytes < self.taken(of) {
            // Lowering never fails.
            let _ = self.set(of, bytes);
        }
    }

    /// Moves `bytes` of the bytes taken for a use into a loan. The session continues to borrow for
    /// them.
    pub(crate) fn lend_out(&mut self, of: Use, bytes: usize) -> Loan {
        let bytes = bytes.min(self.taken(of));
        self.bytes[of as usize] -= bytes;
        self.lent.bytes.fetch_add(bytes, Ordering::Relaxed);
        Loan {
            lent: Arc::clone(&self.lent),
            bytes,
        }
    }

    /// Returns the bytes that were borrowed for loans which have ended.
    pub(crate) fn settle(&mut self) {
        self.give_back_beyond(self.needed());
    }

    fn memory_full(&self, needed: usize) -> Fault {
        let max = self.budget.max();
        let share = self.budget.session_max();
        let sentence = match needed > share {
            true => format!(
                "the requests and items of one connection may take {share} bytes, and this needs \
                 {needed}; close subscriptions, send smaller requests, or raise `request_bytes_max`"
            ),
            false => format!(
                "the engine's memory for requests and items ({max} bytes) is full; try again when \
                 other clients have closed subscriptions or received their answers, or raise \
                 `request_bytes_max`"
            ),
        };
        Fault::new(FaultCode::MemoryFull, sentence)
    }
}

/// Memory of a session that is in use outside the session, such as by the host that carries out an
/// order. Dropping the loan returns it.
#[derive(Debug)]
pub(crate) struct Loan {
    lent: Arc<Lent>,
    bytes: usize,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.lent.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.bytes = [0; 4];
        self.settle();
        // The last reference, here or in a loan, returns the borrowed bytes.
        self.lent
            .left_borrowed
            .store(self.borrowed, Ordering::Relaxed);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.budget
            .give_back(self.left_borrowed.load(Ordering::Relaxed));
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
        one.set(Use::Requests, FLOOR_BYTES).unwrap();
        assert_eq!(budget.used(), 0, "within the floor");
        one.set(Use::Requests, 500 << 10).unwrap();
        assert_eq!(
            one.set(Use::Items, 100 << 10).unwrap_err().code,
            FaultCode::MemoryFull
        );
        assert_eq!(one.taken(Use::Items), 0);
        other.set(Use::Libraries, 512 << 10).unwrap();
        assert_eq!(budget.used(), 1 << 20);
        let mut third = Account::new(&budget);
        third.set(Use::Frames, FLOOR_BYTES).unwrap();
        assert!(third.add(Use::Frames, 1).is_err());
        assert_eq!(budget.refusals(), 2);
        one.lower(Use::Requests, 0);
        third.add(Use::Frames, 1).unwrap();
        drop((other, third));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn loans_count_within_the_share_of_their_session() {
        let budget = Arc::new(RequestBudget::new(1 << 20));
        let mut sut = Account::new(&budget);
        let half = 512 << 10;
        sut.set(Use::Libraries, half).unwrap();
        let loan = sut.lend_out(Use::Libraries, half);
        assert_eq!((sut.taken(Use::Libraries), budget.used()), (0, half));
        assert!(sut.set(Use::Items, 100 << 10).is_err());
        assert!(sut.set(Use::Libraries, half).is_err());
        drop(loan);
        sut.settle();
        assert_eq!(budget.used(), 0);
        sut.set(Use::Libraries, half).unwrap();
    }

    #[test]
    fn loans_never_exceed_the_budget_and_outlive_their_session() {
        let budget = Arc::new(RequestBudget::new(1 << 20));
        let mut others = [(); 2].map(|()| Account::new(&budget));
        for other in &mut others {
            other.set(Use::Requests, 512 << 10).unwrap();
        }
        let mut small = Account::new(&budget);
        small.set(Use::Libraries, FLOOR_BYTES).unwrap();
        let within_floor = small.lend_out(Use::Libraries, usize::MAX);
        assert_eq!(budget.used(), budget.max());
        drop(others);
        small.set(Use::Libraries, 100 << 10).unwrap();
        let beyond_floor = small.lend_out(Use::Libraries, usize::MAX);
        drop((small, within_floor));
        assert!(budget.used() >= 100 << 10, "{}", budget.used());
        drop(beyond_floor);
        assert_eq!(budget.used(), 0);
    }
}
