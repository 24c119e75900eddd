//! The protocol of the single-element FIFO: several writers, several readers, four slots, no lock.
//!
//! ```text
//! head          the last claim       number | a parity bit per slot | its slot
//! stamp         one per slot         the claim whose write it holds; with BUSY while it is given
//! ```
//!
//! One compare-and-set of `head` takes the next number and a slot together, so numbers are dense
//! and their order is the order of the claims; it is the only locked operation of a write. A claim
//! turns the parity bit of its slot: where `head` and the slot's stamp differ in that bit, the slot
//! was claimed and its writer has not come to stamp it yet. Only the writer that has the slot
//! stores its stamp.
//!
//! A writer claims a slot that is free and does not hold the newest complete write, stamps it as
//! busy, fills it, and stamps it as complete: that publishes it. Of four slots one holds the newest
//! complete write, so three writers can be in the middle of one, however long each of them has been
//! without a processor, and neither readers nor one another notice.
//!
//! A reader looks at the slot of the last claim. Where that write is complete it is the newest;
//! else the complete slot with the largest number is. It copies the slot and then looks at its
//! stamp: the copy is good if the slot still belongs to that write. It fails only if a write was
//! claimed since the reader began.
//!
//! # Why a claimed slot belongs to one writer
//!
//! A claim succeeds only on the very value of `head` under which the slot was found free: since
//! every claim changes the number, no claim came between. The slot was found free by a stamp that
//! is not busy and has the parity bit that `head` has. That stamp cannot be an old one, from two
//! claims of the slot ago: the writer that claimed the slot last had loaded the stamp in between
//! before it claimed, `head` was loaded with acquire after that claim, and a load never goes back
//! behind one that happened before it. So the last writer of the slot has completed it.
//!
//! # Why the newest complete write stays
//!
//! A slot is claimed only where another one was complete with a larger number. So a reader that
//! finds the last claim incomplete, and no trace of a later one in any stamp, has seen the slot
//! that was newest when it loaded `head`: only a later claim could have taken it.

use std::cmp::Reverse;

use crate::snapshot::{
    READ_ATTEMPTS_MAX, Snapshot, check_width_of_slots, copy_in, copy_out, further_attempts,
};
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, zeroed_words};

pub(crate) const SLOTS: usize = 4;
/// In a claim: the slot, a parity bit per slot, the number.
const SLOT_MASK: u64 = SLOTS as u64 - 1;
const PARITY_SHIFT: u32 = 2;
const NUMBER_SHIFT: u32 = PARITY_SHIFT + SLOTS as u32;
/// In a stamp: the slot is being filled.
const BUSY: u64 = 1 << 63;

/// How often a writer that finds every slot taken looks again before it refuses the write.
///
/// Enough to outlast writers that are running on other processors; no number outlasts writers
/// that are not running.
const CLAIM_ROUNDS_MAX: usize = if cfg!(loom) { 1 } else { 64 };

/// The write found every slot in the hands of other writers; nothing was written.
///
/// Three writers were in the middle of a write, and stayed there. Write again, or let fewer
/// real-time threads write to one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellBusy;

impl std::fmt::Display for CellBusy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "three other writers were in the middle of a write: write again, or let fewer threads \
             write to one cell",
        )
    }
}

impl std::error::Error for CellBusy {}

/// The cell itself. `S` holds the words of its slots, one slot after the other.
#[derive(Debug)]
pub(crate) struct FourSlots<S> {
    /// The last claim.
    head: AtomicU64,
    /// The claim of what the slot holds.
    stamps: [AtomicU64; SLOTS],
    words: S,
}

/// A slot that one writer has for itself.
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

    /// The smaller, the newer. Before the first write all slots have number 0, and the value is in
    /// slot 0.
    fn age(self) -> (Reverse<u64>, usize) {
        (Reverse(self.number()), self.slot())
    }

    /// The next claim, of this slot.
    #[inline]
    fn next(self, slot: usize) -> Self {
        let number = self.number() + 1;
        let parities = (self.0 ^ parity(slot)) & (((1 << SLOTS) - 1) << PARITY_SHIFT);
        Self(number << NUMBER_SHIFT | parities | slot as u64)
    }
}

/// The parity bit of a slot, in a claim.
#[inline]
fn parity(slot: usize) -> u64 {
    1 << PARITY_SHIFT << slot
}

impl FourSlots<Box<[AtomicU64]>> {
    /// A cell for values of `width` words, zero until the first write.
    pub(crate) fn zeroed(width: usize) -> Self {
        Self::new(zeroed_words(SLOTS * width))
    }
}

impl<S: AsRef<[AtomicU64]>> FourSlots<S> {
    /// A cell whose value, until the first write, is what slot 0 holds.
    pub(crate) fn new(words: S) -> Self {
        Self {
            head: AtomicU64::new(0),
            stamps: std::array::from_fn(|slot| AtomicU64::new(slot as u64)),
            words,
        }
    }

    /// Width of a value, in words.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.words.as_ref().len() / SLOTS
    }

    /// Number of the newest complete write; 0 before the first.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        let head = Claim(self.head.load(Ordering::Acquire));
        match self.is_complete(head) {
            true => head.number(),
            false => self.count_apart(),
        }
    }

    #[cold]
    fn count_apart(&self) -> u64 {
        let found = (0..READ_ATTEMPTS_MAX).find_map(|_| self.newest());
        // Eight writes were claimed while this thread looked, of which at most three are not done.
        let at_least = || {
            let claimed = Claim(self.head.load(Ordering::Acquire)).number();
            claimed.saturating_sub(SLOTS as u64 - 1)
        };
        found.map_or_else(at_least, Claim::number)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn write(&self, words: &[u64]) -> Result<u64, CellBusy> {
        check_width_of_slots(words.len(), self.words.as_ref(), SLOTS);
        let claim = self.claim()?;
        self.finish(claim, words);
        Ok(claim.number())
    }

    /// Fills a claimed slot and completes it.
    #[inline]
    fn finish(&self, claim: Claim, words: &[u64]) {
        let slot = claim.slot();
        let stamp = &self.stamps[slot];
        // SYNC POINT, pairs with the acquire loads of stamps: who sees that the slot was claimed
        // also finds the claim in `head`, and does not look for it in vain again.
        stamp.store(claim.0 | BUSY, Ordering::Release);
        // SYNC POINT, pairs with the acquire fence in `copy`: a reader that sees one of the words
        // stored below also sees the stamp above, and knows the slot is no longer what it copied.
        fence(Ordering::Release);
        copy_in(words_of(self.words.as_ref(), slot, words.len()), words);
        // SYNC POINT, pairs with the acquire loads of stamps: words before the stamp. A reader gets
        // the words, and the next writer of this slot comes after everything above.
        stamp.store(claim.0, Ordering::Release);
    }

    #[inline]
    #[track_caller]
    pub(crate) fn read(&self, out: &mut [u64]) -> Snapshot {
        check_width_of_slots(out.len(), self.words.as_ref(), SLOTS);
        self.try_read(out).unwrap_or_else(|| self.read_again(out))
    }

    /// One attempt, while nobody is in the middle of the newest write. `out` has the declared
    /// width.
    #[inline]
    pub(crate) fn try_read(&self, out: &mut [u64]) -> Option<Snapshot> {
        let head = Claim(self.head.load(Ordering::Acquire));
        match self.is_complete(head) {
            true => self.copy(head, out),
            false => None,
        }
    }

    /// The attempts after the first.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_again(&self, out: &mut [u64]) -> Snapshot {
        further_attempts(|| self.copy(self.newest()?, out))
            .unwrap_or_else(|| Snapshot::overtaken(self.count()))
    }

    /// Copies what a slot holds; `None` when it was claimed again.
    #[inline]
    fn copy(&self, claim: Claim, out: &mut [u64]) -> Option<Snapshot> {
        let slot = claim.slot();
        copy_out(words_of(self.words.as_ref(), slot, out.len()), out);
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

    /// The newest complete write; `None` when another was claimed meanwhile.
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

    /// Takes the next number, and a slot that is neither taken nor holds the newest complete write.
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
            // Where another writer has claimed, the loop goes on: only while writers get ahead.
            head = Claim(newer);
        }
    }

    /// A slot that can be claimed if this still is the last claim.
    #[inline]
    fn free_slot(&self, head: Claim) -> Option<usize> {
        // While writers come one by one, the slot behind the last one's is the one that readers
        // left longest ago.
        let next = (head.slot() + 1) % SLOTS;
        match self.is_complete(head) && self.free(next, head).is_some() {
            true => Some(next),
            false => self.other_free_slot(head),
        }
    }

    /// [`free_slot`](Self::free_slot) while others are in the middle of a write.
    #[cold]
    fn other_free_slot(&self, head: Claim) -> Option<usize> {
        let slots = (1..=SLOTS).map(|behind| (head.slot() + behind) % SLOTS);
        let mut free = slots.filter_map(|slot| self.free(slot, head));
        // The older of two is not the newest complete write.
        let (one, other) = (free.next()?, free.next()?);
        Some(if one.age() < other.age() {
            other.slot()
        } else {
            one.slot()
        })
    }

    /// What a slot holds that nobody has, if this still is the last claim.
    #[inline]
    fn free(&self, slot: usize, head: Claim) -> Option<Claim> {
        // SYNC POINT, pairs with the release store in `finish`.
        let stamp = self.stamps[slot].load(Ordering::Acquire);
        let is_free = (stamp ^ head.0) & parity(slot) == 0 && stamp & BUSY == 0;
        is_free.then_some(Claim(stamp))
    }
}

/// The words of a slot; `width` is the declared width.
#[inline]
fn words_of(words: &[AtomicU64], slot: usize, width: usize) -> &[AtomicU64] {
    &words[slot * width..][..width]
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
