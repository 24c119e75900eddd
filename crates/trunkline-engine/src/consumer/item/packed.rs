//! One item in 28 bytes, and what does not fit there.

use trunkline_types::Lost;

use crate::update::Update;

/// One variable under one subscription.
#[derive(Clone, Copy, Default)]
pub(crate) struct VariableItem {
    /// The slot of the variable's handle, flags above it, and above those 8 bits of `unconfirmed`.
    pub(super) head: u32,
    pub(crate) subscription: u32,
    /// 18 bits of what was coalesced, a flag, and 13 more bits of `unconfirmed`.
    pub(super) counts: u32,
    /// Sequence before the first update that counts for this subscription, below the generation
    /// of the handle.
    pub(super) opened_at: [u32; 2],
    /// Sequence of the last delivery.
    pub(super) last: [u32; 2],
}

pub(super) const HANDLE: u32 = crate::registry::SLOT;
/// Bits of `opened_at[1]` that are of the sequence: 53 in all, which last for 28 years at ten
/// million updates a second.
const OPENED_HIGH: u32 = HANDLE;
/// The first reading is still to be delivered.
pub(super) const FIRST: u32 = 1 << 21;
/// There is a [`Rest`] of it.
pub(super) const REST: u32 = 1 << 22;
/// It is no variable but a feed.
pub(super) const FEED: u32 = 1 << 23;
pub(super) const COALESCED: u32 = (1 << 18) - 1;
/// In `counts`: its [`Rest`] has what the next delivery tells, or the next confirmation is of.
pub(super) const PENDING: u32 = 1 << 18;
const UNCONFIRMED_HIGH_SHIFT: u32 = 19;
const UNCONFIRMED_LOW_SHIFT: u32 = 24;
const UNCONFIRMED_LOW: u32 = 0xff;
/// As many as are counted in the item: more than a peer may leave unconfirmed of all its items
/// together.
pub(super) const UNCONFIRMED_MAX: u32 = (1 << 21) - 1;

const _: () = assert!(size_of::<VariableItem>() == 28);
const _: () = assert!(FIRST > HANDLE);

/// What only buffered contracts, filters, resumed subscriptions and large counts need.
#[derive(Default)]
pub(crate) struct Rest {
    /// The ring's push number to read next (`last:n`).
    pub(crate) cursor: u64,
    /// The first reading of a buffered contract, until it is delivered.
    pub(crate) initial: Option<Box<Update>>,
    /// Held back by `only_changes` and told.
    pub(crate) filtered: u64,
    /// Dropped by the buffer and told.
    pub(crate) queue: u64,
    pub(crate) disconnect: u64,
    /// Handed over once more because the peer had something else.
    pub(crate) repaired: u64,
    /// Still to be told with the next delivery.
    pub(super) untold: Lost,
    /// Coalesced beyond what the item counts.
    pub(super) coalesced: u64,
    /// Unconfirmed beyond what the item counts.
    pub(super) unconfirmed: u64,
}

pub(super) fn split(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

pub(super) fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl VariableItem {
    pub(crate) fn handle(&self) -> u32 {
        let [_, high] = self.opened_at;
        self.head & HANDLE | high & !OPENED_HIGH
    }

    pub(crate) fn is_first(&self) -> bool {
        self.head & FIRST != 0
    }

    pub(crate) fn opened_at(&self) -> u64 {
        let [low, high] = self.opened_at;
        join([low, high & OPENED_HIGH])
    }

    pub(super) fn set_opened_at(&mut self, handle: u32, sequence: u64) {
        let [low, high] = split(sequence);
        self.opened_at = [low, high & OPENED_HIGH | handle & !HANDLE];
    }

    /// Sequence of the last delivery.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        join(self.last)
    }

    /// The one place where the last delivery of an item changes.
    #[inline]
    pub(super) fn set_last(&mut self, sequence: u64) {
        self.last = split(sequence);
        self.head &= !FIRST;
    }

    #[inline]
    pub(super) fn is_variable(&self) -> bool {
        self.head & HANDLE != 0 && self.head & FEED == 0
    }

    /// One delivery more is not confirmed; false when the item counts no further.
    #[inline]
    pub(super) fn count_unconfirmed(&mut self) -> bool {
        let count = self.unconfirmed_here();
        if count < UNCONFIRMED_MAX {
            self.set_unconfirmed_here(count + 1);
        }
        count < UNCONFIRMED_MAX
    }

    #[inline]
    pub(super) fn unconfirmed_here(&self) -> u32 {
        let low = self.head >> UNCONFIRMED_LOW_SHIFT;
        low | self.counts >> UNCONFIRMED_HIGH_SHIFT << 8
    }

    #[inline]
    pub(super) fn set_unconfirmed_here(&mut self, count: u32) {
        let low = (count & UNCONFIRMED_LOW) << UNCONFIRMED_LOW_SHIFT;
        let high = (count >> 8) << UNCONFIRMED_HIGH_SHIFT;
        self.head = self.head & !(UNCONFIRMED_LOW << UNCONFIRMED_LOW_SHIFT) | low;
        self.counts = self.counts & (COALESCED | PENDING) | high;
    }

    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.counts & PENDING != 0
    }
}

impl Rest {
    /// Whether the next delivery or confirmation has to look here.
    pub(super) fn is_pending(&self) -> bool {
        self.unconfirmed > 0 || self.untold != Lost::NONE
    }
}
