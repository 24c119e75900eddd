//! Limits the memory for the requests and items of all sessions.
//!
//! Each session has an [`Account`] of the memory that it uses for each [`MemoryUse`]. Each session may
//! always use [`FLOOR_BYTES`] for requests and the same amount for items, so that a client with few
//! requests and items can continue while other clients use up the budget. A session that needs more
//! borrows the whole amount from the engine's [`RequestBudget`]. A session may borrow at most half
//! of the budget, so that a single client cannot exhaust it.
//!
//! ```text
//!   session: frames + requests + libraries + loans + items --> Account --> RequestBudget: used <= max
//! ```
//!
//! A session borrows bytes before it allocates the memory. A request or item that does not fit is
//! refused with the fault `memory-full`. A library or a query that the host processes is a [`Loan`].
//! It remains charged to the session until the host has answered, even if the session ends first.

use trunkline_proto::{Fault, FaultCode};

use crate::sync::{Arc, AtomicUsize, Ordering};

/// Number of bytes that each session may use for requests even if the budget is exhausted. The same
/// number applies to items.
const FLOOR_BYTES: usize = 64 << 10;
/// Number of bytes that are borrowed at a time. Larger steps reduce the contention on the counter
/// that all sessions share.
const CHUNK_BYTES: usize = 64 << 10;
/// Memory of an item in bytes, in the session, in its subscription and in the variable.
pub(crate) const ITEM_BYTES: usize = 240;

/// The memory budget for the requests and items of all sessions of an engine.
#[derive(Debug)]
pub struct RequestBudget {
    max: AtomicUsize,
    used: AtomicUsize,
    refusals: AtomicUsize,
}

/// What a session uses memory for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemoryUse {
    /// Incomplete frames, and messages of which some parts have not arrived.
    Frames,
    /// Requests that have not been carried out.
    Requests,
    /// Libraries that are being received. A complete library is a [`Loan`].
    Libraries,
    /// Items of subscriptions. This must be the last variant, because `needed` counts it
    /// separately.
    Items,
}

/// The memory that one session uses and borrows.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<RequestBudget>,
    /// Bytes in use, indexed by [`MemoryUse`].
    bytes: [usize; 4],
    /// Number of bytes borrowed from the budget, including those for loans.
    borrowed: usize,
    loans: Arc<Loans>,
}

/// All loans of one session.
#[derive(Debug)]
struct Loans {
    budget: Arc<RequestBudget>,
    /// Total size of the current loans, in bytes.
    bytes: AtomicUsize,
    /// Number of bytes that the session had borrowed when it ended. They are returned when its last
    /// loan ends.
    borrowed_at_end: AtomicUsize,
}

impl RequestBudget {
    pub fn new(max: usize) -> Self {
        Self {
            max: AtomicUsize::new(max),
            used: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
        }
    }

    /// Returns the number of bytes that sessions have borrowed. A session that stays within its
    /// floors for requests and items borrows nothing.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes the limit. Memory that is in use beyond a lower limit stays in use.
    pub fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Returns the number of times that a request or an item was refused because the budget, or the
    /// session's share of it, was exhausted.
    pub fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    fn session_max(&self) -> usize {
        self.max() / 2
    }

    fn borrow(&self, bytes: usize) -> bool {
        let max = self.max();
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= max);
        // Relaxed is sufficient, because the counter publishes no other data.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum)
            .is_ok()
    }

    fn return_bytes(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Account {
    pub(crate) fn new(budget: &Arc<RequestBudget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: [0; 4],
            borrowed: 0,
            loans: Arc::new(Loans {
                budget: Arc::clone(budget),
                bytes: AtomicUsize::new(0),
                borrowed_at_end: AtomicUsize::new(0),
            }),
        }
    }

    /// Returns the number of bytes in use for one purpose.
    pub(crate) fn used(&self, purpose: MemoryUse) -> usize {
        self.bytes[purpose as usize]
    }

    /// Sets the number of bytes in use for one purpose. Changes nothing if the budget is exhausted.
    pub(crate) fn set(&mut self, purpose: MemoryUse, bytes: usize) -> Result<(), Fault> {
        let before = std::mem::replace(&mut self.bytes[purpose as usize], bytes);
        if before == bytes {
            return Ok(());
        }
        let needed = self.needed();
        if needed > self.borrowed {
            let is_granted =
                needed <= self.budget.session_max() && self.budget.borrow(needed - self.borrowed);
            if !is_granted {
                self.bytes[purpose as usize] = before;
                self.budget.refusals.fetch_add(1, Ordering::Relaxed);
                return Err(self.memory_full(needed));
            }
            self.borrowed = needed;
        } else {
            self.return_excess(needed);
        }
        Ok(())
    }

    /// Returns the borrowed bytes that exceed `needed` to the budget, if they are more than one chunk or
    /// if nothing is needed.
    fn return_excess(&mut self, needed: usize) {
        let spare = self.borrowed.saturating_sub(needed);
        if spare > CHUNK_BYTES || needed == 0 {
            self.budget.return_bytes(spare);
            self.borrowed -= spare;
        }
    }

    /// Returns the total number of bytes to borrow for all purposes.
    fn needed(&self) -> usize {
        let to_borrow = |bytes: usize| match bytes <= FLOOR_BYTES {
            true => 0,
            false => bytes.checked_next_multiple_of(CHUNK_BYTES).unwrap_or(bytes),
        };
        let [other_uses @ .., items] = self.bytes;
        // Relaxed is sufficient: the next call notices a loan that ends in the meantime.
        let loans = self.loans.bytes.load(Ordering::Relaxed);
        let other_uses = other_uses.into_iter().fold(loans, usize::saturating_add);
        to_borrow(other_uses).saturating_add(to_borrow(items))
    }

    pub(crate) fn add(&mut self, purpose: MemoryUse, more: usize) -> Result<(), Fault> {
        self.set(purpose, self.used(purpose).saturating_add(more))
    }

    /// Lowers the number of bytes in use for one purpose to `bytes`, if it is higher.
    pub(crate) fn lower(&mut self, purpose: MemoryUse, bytes: usize) {
        if bytes < self.used(purpose) {
            // Lowering never fails.
            let _ = self.set(purpose, bytes);
        }
    }

    /// Moves up to `bytes` of the bytes in use for one purpose into a loan. The loan remains charged
    /// to this account.
    pub(crate) fn lend(&mut self, purpose: MemoryUse, bytes: usize) -> Loan {
        let bytes = bytes.min(self.used(purpose));
        self.bytes[purpose as usize] -= bytes;
        self.loans.bytes.fetch_add(bytes, Ordering::Relaxed);
        Loan {
            loans: Arc::clone(&self.loans),
            bytes,
        }
    }

    /// Returns bytes to the budget that were borrowed for loans which have ended.
    pub(crate) fn return_ended_loans(&mut self) {
        self.return_excess(self.needed());
    }

    fn memory_full(&self, needed: usize) -> Fault {
        let max = self.budget.max();
        let share = self.budget.session_max();
        let sentence = match needed > share {
            true => format!(
                "the requests and items of one connection may use {share} bytes, but this one needs \
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

/// Memory that is charged to a session but used outside it, such as by the host that carries out an
/// order. Dropping the loan ends it.
#[derive(Debug)]
pub(crate) struct Loan {
    loans: Arc<Loans>,
    bytes: usize,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.loans.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.bytes = [0; 4];
        self.return_ended_loans();
        // `Loans` returns the remaining bytes when the last reference, here or in a loan, is dropped.
        self.loans
            .borrowed_at_end
            .store(self.borrowed, Ordering::Relaxed);
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        self.budget
            .return_bytes(self.borrowed_at_end.load(Ordering::Relaxed));
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
        one.set(MemoryUse::Requests, FLOOR_BYTES).unwrap();
        assert_eq!(budget.used(), 0, "within the floor");
        one.set(MemoryUse::Requests, 500 << 10).unwrap();
        assert_eq!(
            one.set(MemoryUse::Items, 100 << 10).unwrap_err().code,
            FaultCode::MemoryFull
        );
        assert_eq!(one.used(MemoryUse::Items), 0);
        other.set(MemoryUse::Libraries, 512 << 10).unwrap();
        assert_eq!(budget.used(), 1 << 20);
        let mut third = Account::new(&budget);
        third.set(MemoryUse::Frames, FLOOR_BYTES).unwrap();
        assert!(third.add(MemoryUse::Frames, 1).is_err());
        assert_eq!(budget.refusals(), 2);
        one.lower(MemoryUse::Requests, 0);
        third.add(MemoryUse::Frames, 1).unwrap();
        drop((other, third));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn changed_limit_applies_to_the_next_request() {
        let budget = Arc::new(RequestBudget::new(1 << 20));
        let mut sut = Account::new(&budget);
        let half = 512 << 10;
        sut.set(MemoryUse::Requests, half).unwrap();
        budget.set_max(512 << 10);
        assert!(sut.add(MemoryUse::Requests, half).is_err());
        assert_eq!(sut.used(MemoryUse::Requests), half, "what is in use stays");
        budget.set_max(4 << 20);
        sut.add(MemoryUse::Requests, half).unwrap();
    }

    #[test]
    fn loans_count_within_the_share_of_their_session() {
        let budget = Arc::new(RequestBudget::new(1 << 20));
        let mut sut = Account::new(&budget);
        let half = 512 << 10;
        sut.set(MemoryUse::Libraries, half).unwrap();
        let loan = sut.lend(MemoryUse::Libraries, half);
        assert_eq!((sut.used(MemoryUse::Libraries), budget.used()), (0, half));
        assert!(sut.set(MemoryUse::Items, 100 << 10).is_err());
        assert!(sut.set(MemoryUse::Libraries, half).is_err());
        drop(loan);
        sut.return_ended_loans();
        assert_eq!(budget.used(), 0);
        sut.set(MemoryUse::Libraries, half).unwrap();
    }

    #[test]
    fn loans_never_exceed_the_budget_and_outlive_their_session() {
        let budget = Arc::new(RequestBudget::new(1 << 20));
        let mut others = [(); 2].map(|()| Account::new(&budget));
        for other in &mut others {
            other.set(MemoryUse::Requests, 512 << 10).unwrap();
        }
        let mut small = Account::new(&budget);
        small.set(MemoryUse::Libraries, FLOOR_BYTES).unwrap();
        let within_floor = small.lend(MemoryUse::Libraries, usize::MAX);
        assert_eq!(budget.used(), budget.max());
        drop(others);
        small.set(MemoryUse::Libraries, 100 << 10).unwrap();
        let beyond_floor = small.lend(MemoryUse::Libraries, usize::MAX);
        drop((small, within_floor));
        assert!(budget.used() >= 100 << 10, "{}", budget.used());
        drop(beyond_floor);
        assert_eq!(budget.used(), 0);
    }
}
