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

use crate::snapshot::{READ_ATTEMPTS_MAX, Snapshot, check_width, copy_in, copy_out};
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, zeroed_words};

pub(crate) const SLOTS: usize = 4;
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

/// Where the four slots lie.
pub(crate) trait Slots {
    /// Width of a value, in words.
    fn width(&self) -> usize;
    /// The stamp of a slot; `slot` is below [`SLOTS`].
    fn stamp(&self, slot: usize) -> &AtomicU64;
    /// The words of a slot; `slot` is below [`SLOTS`].
    fn words(&self, slot: usize) -> &[AtomicU64];
}

/// Slots of a width chosen at run time, in one allocation: stamp and words of each in turn.
#[derive(Debug)]
pub(crate) struct BoxedSlots {
    memory: Box<[AtomicU64]>,
}

impl BoxedSlots {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            memory: zeroed_words(SLOTS * (1 + width)),
        }
    }
}

impl Slots for BoxedSlots {
    #[inline]
    fn width(&self) -> usize {
        self.memory.len() / SLOTS - 1
    }

    #[inline]
    fn stamp(&self, slot: usize) -> &AtomicU64 {
        &self.memory[slot * (self.memory.len() / SLOTS)]
    }

    #[inline]
    fn words(&self, slot: usize) -> &[AtomicU64] {
        let stride = self.memory.len() / SLOTS;
        &self.memory[slot * stride + 1..(slot + 1) * stride]
    }
}

/// The cell itself, wherever its slots lie.
#[derive(Debug)]
pub(crate) struct FourSlots<S> {
    /// `number << SLOTS | parities`.
    claims: AtomicU64,
    /// `number << SLOT_BITS | slot`.
    published: AtomicU64,
    pub(crate) slots: S,
}

/// A slot that one writer has for itself.
struct Claim {
    number: u64,
    slot: usize,
    /// Parity bit that gives the slot back.
    parity: u64,
}

impl<S: Slots> FourSlots<S> {
    /// A cell whose value number 0 is what slot 0 holds.
    pub(crate) fn new(slots: S) -> Self {
        Self {
            claims: AtomicU64::new(0),
            published: AtomicU64::new(0),
            slots,
        }
    }

    /// Number of the newest complete write; 0 before the first.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.published.load(Ordering::Acquire) >> SLOT_BITS
    }

    #[inline]
    #[track_caller]
    pub(crate) fn write(&self, words: &[u64]) -> Result<u64, CellBusy> {
        check_width(words.len(), self.slots.width());
        let Claim {
            number,
            slot,
            parity,
        } = self.claim()?;
        let stamp = self.slots.stamp(slot);
        stamp.store(number << 1 | (parity ^ 1), Ordering::Relaxed);
        // SYNC POINT, pairs with the acquire fence in `read`: a reader that sees one of the words
        // stored below also sees the stamp above, and knows the slot is no longer what it copied.
        fence(Ordering::Release);
        copy_in(self.slots.words(slot), words);
        // SYNC POINT, pairs with the acquire load in `read`: words and stamp before the number. A
        // newer write that is there already stays: this one has been superseded.
        self.published
            .fetch_max(number << SLOT_BITS | slot as u64, Ordering::Release);
        // SYNC POINT, pairs with the acquire load in `is_free`: the next writer of this slot comes
        // after everything above.
        stamp.store(number << 1 | parity, Ordering::Release);
        Ok(number)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn read(&self, out: &mut [u64]) -> Snapshot {
        check_width(out.len(), self.slots.width());
        let mut published = self.published.load(Ordering::Acquire);
        for _ in 0..READ_ATTEMPTS_MAX {
            let count = published >> SLOT_BITS;
            let slot = (published & SLOT_MASK) as usize;
            copy_out(self.slots.words(slot), out);
            // SYNC POINT, pairs with the release fence in `write`.
            fence(Ordering::Acquire);
            if self.slots.stamp(slot).load(Ordering::Relaxed) >> 1 == count {
                return Snapshot {
                    count,
                    complete: true,
                };
            }
            published = self.published.load(Ordering::Acquire);
        }
        Snapshot {
            count: published >> SLOT_BITS,
            complete: false,
        }
    }

    /// Takes the next number, and a slot that is neither published nor taken.
    #[inline]
    fn claim(&self) -> Result<Claim, CellBusy> {
        for _ in 0..CLAIM_ROUNDS_MAX {
            let mut claims = self.claims.load(Ordering::Acquire);
            // A failed attempt means that another writer has claimed, so the loop goes on only
            // while writers get ahead.
            while let Some(slot) = self.free_slot(claims) {
                let number = (claims >> SLOTS) + 1;
                let parities = (claims ^ 1 << slot) & ((1 << SLOTS) - 1);
                let next = number << SLOTS | parities;
                match self.claims.compare_exchange_weak(
                    claims,
                    next,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    Ok(_) => {
                        return Ok(Claim {
                            number,
                            slot,
                            parity: parities >> slot & 1,
                        });
                    }
                    Err(newer) => claims = newer,
                }
            }
            spin_loop();
        }
        Err(CellBusy)
    }

    /// A slot that could be claimed if `claims` is still as given.
    #[inline]
    fn free_slot(&self, claims: u64) -> Option<usize> {
        // Begin behind the last claim: while writers come one by one, the first slot looked at is
        // the one that readers left longest ago.
        let first = (claims >> SLOTS) as usize + 1;
        (0..SLOTS)
            .map(|offset| (first + offset) % SLOTS)
            .find(|&slot| self.is_free(slot, claims))
    }

    #[inline]
    fn is_free(&self, slot: usize, claims: u64) -> bool {
        // First the stamp, then `published`: see "Why a claimed slot belongs to one writer".
        let parity = self.slots.stamp(slot).load(Ordering::Acquire) & 1;
        let is_taken = parity != claims >> slot & 1;
        !is_taken && self.published.load(Ordering::Relaxed) & SLOT_MASK != slot as u64
    }
}
