//! The protocol of the single-element FIFO: several writers, several readers, four slots, no lock.
//!
//! Three kinds of word carry it:
//!
//! - `claims`: number of the last claim, and one parity bit per slot, turned by each claim of that
//!   slot. One compare-and-set takes the next number and a slot together, so numbers are dense and
//!   their order is the order of the claims.
//! - a `stamp` per slot: number of the write the slot holds or is being given, and the parity bit
//!   of its last claim *that has ended*. The parity bits of `claims` and `stamp` differ while a
//!   writer has the slot, and are equal while it is free. Only the writer that has the slot stores
//!   its stamp.
//! - `published`: number and slot of the newest complete write. It only grows.
//!
//! A writer claims a slot that is free and not the published one, stamps and fills it, raises
//! `published` to its number unless a newer write is there already, and gives the slot back. Of
//! four slots one is published, so three writers can be in the middle of a write, however long
//! each of them has been without a processor, and neither readers nor one another notice.
//!
//! A reader copies the published slot and then looks at its stamp: the copy is good if the slot
//! still belongs to that write. That fails only if the slot was claimed again meanwhile, which
//! takes at least one newer publication and a further write.
//!
//! # Why a claimed slot belongs to one writer
//!
//! A claim succeeds only on the very value of `claims` under which the slot was found free: since
//! every claim changes the number, no claim came between. The slot was found free by a stamp of
//! equal parity. That stamp cannot be an old one, from two claims of the slot ago: the writer that
//! claimed the slot last had loaded the stamp in between before it claimed, `claims` was loaded
//! with acquire after that claim, and a load never goes back behind one that happened before it.
//! So the last writer of the slot has given it back; its publication, if any, happened before, so
//! `published` names the slot now or never again until the slot's next writer publishes it.

use crate::snapshot::{Snapshot, check_width_of_slots, copy_in, copy_out, further_attempts};
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, zeroed_words};

pub(crate) const SLOTS: usize = 4;
/// Bits below the number, in a stamp and in `published`.
const SLOT_BITS: u32 = 2;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;

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
    /// `number << SLOTS | parities`.
    claims: AtomicU64,
    /// `number << SLOT_BITS | slot`.
    published: AtomicU64,
    /// `number << SLOT_BITS | parity`.
    stamps: [AtomicU64; SLOTS],
    words: S,
}

/// A slot that one writer has for itself.
#[derive(Debug, Clone, Copy)]
struct Claim {
    number: u64,
    slot: usize,
    /// Parity bit that gives the slot back.
    parity: u64,
    /// What was published when the slot was claimed.
    published: u64,
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
            claims: AtomicU64::new(0),
            published: AtomicU64::new(0),
            stamps: std::array::from_fn(|_| AtomicU64::new(0)),
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
        self.published.load(Ordering::Acquire) >> SLOT_BITS
    }

    #[inline]
    #[track_caller]
    pub(crate) fn write(&self, words: &[u64]) -> Result<u64, CellBusy> {
        check_width_of_slots(words.len(), self.words.as_ref(), SLOTS);
        let claim = self.claim()?;
        self.finish(claim, words);
        Ok(claim.number)
    }

    /// Fills a claimed slot, publishes it unless a newer write is there already, and gives it back.
    #[inline]
    fn finish(&self, claim: Claim, words: &[u64]) {
        let Claim {
            number,
            slot,
            parity,
            mut published,
        } = claim;
        let stamp = &self.stamps[slot];
        stamp.store(number << SLOT_BITS | (parity ^ 1), Ordering::Relaxed);
        // SYNC POINT, pairs with the acquire fence in `try_read`: a reader that sees one of the
        // words
        // stored below also sees the stamp above, and knows the slot is no longer what it copied.
        fence(Ordering::Release);
        copy_in(words_of(self.words.as_ref(), slot, words.len()), words);
        // SYNC POINT, pairs with the acquire load in `try_read`: words and stamp before the number.
        // The loop ends when a newer write is there, which then stays: this one is superseded. It
        // repeats only for each of the older writes, at most two, that get done meanwhile.
        let this = number << SLOT_BITS | slot as u64;
        while published < this {
            match self.published.compare_exchange_weak(
                published,
                this,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(newer) => published = newer,
            }
        }
        // SYNC POINT, pairs with the acquire load in `free_slot`: the next writer of this slot
        // comes after everything above.
        stamp.store(number << SLOT_BITS | parity, Ordering::Release);
    }

    #[inline]
    #[track_caller]
    pub(crate) fn read(&self, out: &mut [u64]) -> Snapshot {
        check_width_of_slots(out.len(), self.words.as_ref(), SLOTS);
        self.try_read(out).unwrap_or_else(|| self.read_again(out))
    }

    /// One attempt; `None` when writers overtook it. `out` has the declared width.
    #[inline]
    pub(crate) fn try_read(&self, out: &mut [u64]) -> Option<Snapshot> {
        let words = self.words.as_ref();
        let published = self.published.load(Ordering::Acquire);
        let slot = (published & SLOT_MASK) as usize;
        copy_out(words_of(words, slot, out.len()), out);
        // SYNC POINT, pairs with the release fence in `write`.
        fence(Ordering::Acquire);
        let stamp = self.stamps[slot].load(Ordering::Relaxed);
        let is_same_write = (stamp ^ published) >> SLOT_BITS == 0;
        is_same_write.then(|| Snapshot::complete(published >> SLOT_BITS))
    }

    /// The attempts after the first.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_again(&self, out: &mut [u64]) -> Snapshot {
        further_attempts(|| self.try_read(out)).unwrap_or_else(|| Snapshot::overtaken(self.count()))
    }

    /// Takes the next number, and a slot that is neither published nor taken.
    #[inline]
    fn claim(&self) -> Result<Claim, CellBusy> {
        for _ in 0..CLAIM_ROUNDS_MAX {
            let mut claims = self.claims.load(Ordering::Acquire);
            // A failed attempt means that another writer has claimed, so the loop goes on only
            // while writers get ahead.
            while let Some((slot, published)) = self.free_slot(claims) {
                let number = (claims >> SLOTS) + 1;
                let parities = (claims ^ 1 << slot) & ((1 << SLOTS) - 1);
                match self.claims.compare_exchange_weak(
                    claims,
                    number << SLOTS | parities,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    Ok(_) => {
                        let parity = parities >> slot & 1;
                        return Ok(Claim {
                            number,
                            slot,
                            parity,
                            published,
                        });
                    }
                    Err(newer) => claims = newer,
                }
            }
            spin_loop();
        }
        Err(CellBusy)
    }

    /// A slot that can be claimed if `claims` is still as given, and what was published meanwhile.
    #[inline]
    fn free_slot(&self, claims: u64) -> Option<(usize, u64)> {
        // Begin behind the last claim: while writers come one by one, the first slot looked at is
        // the one that readers left longest ago.
        let first = (claims >> SLOTS) as usize + 1;
        for slot in (first..first + SLOTS).map(|slot| slot % SLOTS) {
            // First the stamp, then `published`: see "Why a claimed slot belongs to one writer".
            let parity = self.stamps[slot].load(Ordering::Acquire) & 1;
            let published = self.published.load(Ordering::Relaxed);
            let is_taken = parity != claims >> slot & 1;
            if !is_taken && published & SLOT_MASK != slot as u64 {
                return Some((slot, published));
            }
        }
        None
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
