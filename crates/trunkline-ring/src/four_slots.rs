//! The protocol of the single-element FIFO: several writers, several readers, four slots, no lock.
//!
//! ```text
//! head          the last claim       number | a parity bit per slot | claimed slot
//! stamp         one per slot         the claim whose write the slot holds; BUSY while it is filled
//! ```
//!
//! One compare-and-set of `head` takes the next number and a slot at the same time. Numbers are
//! therefore consecutive and in the order of the claims. This is the only locked operation of a
//! write. A claim flips the parity bit of its slot: if `head` and the slot's stamp differ in that
//! bit, the slot was claimed and its writer has not stamped it yet. Only the writer that has
//! claimed the slot stores its stamp.
//!
//! A writer claims a slot that is free and does not hold the newest complete write. It stamps the
//! slot as busy, fills it, and stamps it as complete, which publishes the write. One of the four
//! slots holds the newest complete write. Three writers can therefore be in the middle of a write,
//! even preempted for any length of time, without any effect on readers or on one another.
//!
//! A reader checks the slot of the last claim. If that write is complete, it is the newest;
//! otherwise, the complete slot with the largest number holds the newest write. The reader copies
//! the slot and then checks its stamp: the copy is valid if the slot still belongs to that write.
//! The check fails only if a write was claimed since the reader began.
//!
//! # Why a claimed slot belongs to one writer
//!
//! A claim succeeds only if `head` still has the value with which the slot was found free. Since
//! every claim changes the number, no claim was made in between. The slot was found free by a stamp
//! that is not busy and has the same parity bit as `head`. That stamp cannot be an old one, from
//! two claims of the slot ago: before the last claim of the slot, the claiming writer had loaded
//! the stamp of the claim in between. `head` was loaded with acquire after that claim, and a load
//! never returns an older value than one that happened before it. So the last writer of the slot
//! has completed it.
//!
//! # Why the newest complete write is preserved
//!
//! A slot is claimed only if another slot was complete with a larger number. A reader that finds
//! the last claim incomplete, and no later claim in any stamp, has therefore seen the slot that was
//! newest when it loaded `head`: only a later claim could have taken it.

use std::cmp::Reverse;

use crate::last_value::{
    READ_ATTEMPTS_MAX, Snapshot, check_width_of_slots, copy_in, copy_out, further_attempts,
};
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, zeroed_words};

pub(crate) const SLOTS: usize = 4;
/// Layout of a claim, from the lowest bit: the slot, a parity bit per slot, the number.
const SLOT_MASK: u64 = SLOTS as u64 - 1;
const PARITY_SHIFT: u32 = 2;
const NUMBER_SHIFT: u32 = PARITY_SHIFT + SLOTS as u32;
/// Flag of a stamp: the slot is being filled.
const BUSY: u64 = 1 << 63;

/// Number of times that a writer which finds every slot taken tries again before it refuses the
/// write.
///
/// Writers that are running on other processors finish within these attempts. No number of attempts
/// would be sufficient for writers that are not running.
const CLAIM_ROUNDS_MAX: usize = if cfg!(loom) { 1 } else { 64 };

/// The write found every slot claimed by other writers; nothing was written.
///
/// Three writers were in the middle of a write and did not finish in time. Try the write again, or
/// use fewer real-time threads to write to the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellBusy;

impl std::fmt::Display for CellBusy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "three other writers were in the middle of a write; write again, or let fewer threads \
             write to one cell",
        )
    }
}

impl std::error::Error for CellBusy {}

#[derive(Debug)]
pub(crate) struct FourSlots {
    /// The last claim.
    head: AtomicU64,
    /// The claim whose write each slot holds.
    stamps: [AtomicU64; SLOTS],
    /// The words of the slots, one slot after the other.
    words: Box<[AtomicU64]>,
}

#[derive(Debug, Clone, Copy)]
struct Claim(u64);

impl Claim {
    #[inline]
    fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }

    #[inline]
    fn slot(self) -> usize {
        (self.0 & SLOT_MASK) as usize
    }

    /// Returns the sort key; the newest claim has the smallest key. Before the first write, all
    /// slots have number 0, and slot 0 holds the value.
    fn age(self) -> (Reverse<u64>, usize) {
        (Reverse(self.number()), self.slot())
    }

    /// Returns the claim that follows this one and takes `slot`.
    #[inline]
    fn next(self, slot: usize) -> Self {
        let number = self.number() + 1;
        let parities = (self.0 ^ parity(slot)) & (((1 << SLOTS) - 1) << PARITY_SHIFT);
        Self(number << NUMBER_SHIFT | parities | slot as u64)
    }
}

/// Returns the parity bit of a slot in a claim.
#[inline]
fn parity(slot: usize) -> u64 {
    1 << PARITY_SHIFT << slot
}

impl FourSlots {
    /// Creates a cell for values of `width` words, zero until the first write.
    pub(crate) fn new(width: usize) -> Self {
        Self {
            head: AtomicU64::new(0),
            stamps: std::array::from_fn(|slot| AtomicU64::new(slot as u64)),
            words: zeroed_words(SLOTS * width),
        }
    }

    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.words.len() / SLOTS
    }

    /// Returns the number of the newest complete write; 0 before the first.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        let head = Claim(self.head.load(Ordering::Acquire));
        match self.is_complete(head) {
            true => head.number(),
            false => self.count_without_head(),
        }
    }

    #[cold]
    fn count_without_head(&self) -> u64 {
        let found = (0..READ_ATTEMPTS_MAX).find_map(|_| self.newest());
        // Eight writes were claimed during the search; at most three of them are incomplete.
        let at_least = || {
            let claimed = Claim(self.head.load(Ordering::Acquire)).number();
            claimed.saturating_sub(SLOTS as u64 - 1)
        };
        found.map_or_else(at_least, Claim::number)
    }

    // Inlined in each caller, where `rest` is known to be empty or not.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn write_parts(&self, first: &[u64], rest: &[u64]) -> Result<u64, CellBusy> {
        check_width_of_slots(first.len() + rest.len(), &self.words, SLOTS);
        let claim = self.claim()?;
        self.finish(claim, first, rest);
        Ok(claim.number())
    }

    /// Fills a claimed slot and marks it as complete.
    #[inline]
    fn finish(&self, claim: Claim, first: &[u64], rest: &[u64]) {
        let slot = claim.slot();
        let stamp = &self.stamps[slot];
        // SYNC POINT, pairs with the acquire loads of stamps: a thread that sees this stamp also
        // finds the claim in `head`, so it does not retry with an old `head`.
        stamp.store(claim.0 | BUSY, Ordering::Release);
        // SYNC POINT, pairs with the acquire fence in `copy`: a reader that sees one of the words
        // stored below also sees the stamp above, and knows that the slot no longer holds what it
        // copied.
        fence(Ordering::Release);
        let words = words_of(&self.words, slot, first.len() + rest.len());
        let (first_words, rest_words) = words.split_at(first.len());
        copy_in(first_words, first);
        copy_in(rest_words, rest);
        // SYNC POINT, pairs with the acquire loads of stamps: the words are stored before the
        // stamp. A reader gets the words, and the next writer of this slot comes after everything
        // above.
        stamp.store(claim.0, Ordering::Release);
    }

    #[inline]
    #[track_caller]
    pub(crate) fn read(&self, out: &mut [u64]) -> Snapshot {
        check_width_of_slots(out.len(), &self.words, SLOTS);
        self.try_read(out).unwrap_or_else(|| self.read_again(out))
    }

    /// Makes one attempt; returns `None` while the newest claim is incomplete. `out` has the
    /// declared width.
    #[inline]
    pub(crate) fn try_read(&self, out: &mut [u64]) -> Option<Snapshot> {
        let head = Claim(self.head.load(Ordering::Acquire));
        match self.is_complete(head) {
            true => self.copy(head, out),
            false => None,
        }
    }

    /// Makes the attempts after the first.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_again(&self, out: &mut [u64]) -> Snapshot {
        further_attempts(|| self.copy(self.newest()?, out))
            .unwrap_or_else(|| Snapshot::overtaken(self.count()))
    }

    /// Copies the content of a slot; returns `None` if it was claimed again.
    #[inline]
    fn copy(&self, claim: Claim, out: &mut [u64]) -> Option<Snapshot> {
        let slot = claim.slot();
        copy_out(words_of(&self.words, slot, out.len()), out);
        // SYNC POINT, pairs with the release fence in `finish`.
        fence(Ordering::Acquire);
        let is_same_write = self.is_complete(claim);
        is_same_write.then(|| Snapshot::complete(claim.number()))
    }

    #[inline]
    fn is_complete(&self, claim: Claim) -> bool {
        // SYNC POINT, pairs with the release store in `finish`.
        self.stamps[claim.slot()].load(Ordering::Acquire) == claim.0
    }

    /// Returns the newest complete write, or `None` if another write was claimed in the meantime.
    fn newest(&self) -> Option<Claim> {
        let head = Claim(self.head.load(Ordering::Acquire));
        let mut newest: Option<Claim> = None;
        for stamp in &self.stamps {
            let stamp = stamp.load(Ordering::Acquire);
            let claim = Claim(stamp & !BUSY);
            if claim.number() > head.number() {
                return None;
            }
            let is_newer = newest.is_none_or(|newest| claim.age() < newest.age());
            if stamp & BUSY == 0 && is_newer {
                newest = Some(claim);
            }
        }
        newest
    }

    /// Takes the next number and a slot that is not claimed and does not hold the newest complete
    /// write.
    #[inline]
    fn claim(&self) -> Result<Claim, CellBusy> {
        let mut head = Claim(self.head.load(Ordering::Acquire));
        let mut rounds = 0;
        loop {
            let newer = match self.free_slot(head) {
                Some(slot) => {
                    let claim = head.next(slot);
                    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                    let swapped = self
                        .head
                        .compare_exchange_weak(head.0, claim.0, success, failure);
                    match swapped {
                        Ok(_) => return Ok(claim),
                        Err(newer) => newer,
                    }
                }
                None => {
                    let newer = self.head.load(Ordering::Acquire);
                    if newer == head.0 {
                        rounds += 1;
                        spin_loop();
                    }
                    newer
                }
            };
            if rounds == CLAIM_ROUNDS_MAX {
                return Err(CellBusy);
            }
            // If another writer has made a claim, the loop continues. It repeats only while other
            // writers make progress.
            head = Claim(newer);
        }
    }

    /// Returns a slot that can be claimed if `head` is still the last claim.
    #[inline]
    fn free_slot(&self, head: Claim) -> Option<usize> {
        // If writes do not overlap, readers used the slot after the last claimed slot least
        // recently.
        let next = (head.slot() + 1) % SLOTS;
        match self.is_complete(head) && self.free(next, head).is_some() {
            true => Some(next),
            false => self.other_free_slot(head),
        }
    }

    /// Implements [`free_slot`](Self::free_slot) for the case that other writers are in the middle
    /// of a write.
    #[cold]
    fn other_free_slot(&self, head: Claim) -> Option<usize> {
        let slots = (1..=SLOTS).map(|behind| (head.slot() + behind) % SLOTS);
        let mut free = slots.filter_map(|slot| self.free(slot, head));
        // The older of two complete slots does not hold the newest complete write.
        let (one, other) = (free.next()?, free.next()?);
        Some(if one.age() < other.age() {
            other.slot()
        } else {
            one.slot()
        })
    }

    /// Returns the content of an unclaimed slot, if `head` is still the last claim.
    #[inline]
    fn free(&self, slot: usize, head: Claim) -> Option<Claim> {
        // SYNC POINT, pairs with the release store in `finish`.
        let stamp = self.stamps[slot].load(Ordering::Acquire);
        let is_free = (stamp ^ head.0) & parity(slot) == 0 && stamp & BUSY == 0;
        is_free.then_some(Claim(stamp))
    }
}

#[inline]
fn words_of(words: &[AtomicU64], slot: usize, width: usize) -> &[AtomicU64] {
    &words[slot * width..][..width]
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
