//! The 24-byte form of an item, and the data that does not fit there.

use trunkline_types::Lost;

use crate::update::Update;

/// One variable in one subscription. The variable itself is stored in `ItemVariables`.
#[derive(Clone, Copy, Default)]
pub(crate) struct VariableItem {
    pub(crate) subscription: u32,
    /// 18 bits of the coalesced count, a flag, and 13 bits of `unconfirmed`.
    pub(super) counts: u32,
    /// Sequence before the first update that counts for this subscription, below 8 more bits of
    /// `unconfirmed`.
    opened: u64,
    /// Sequence of the last delivery, below flags.
    last: u64,
}

/// Bits of a sequence. They last for 28 years at ten million updates a second.
const SEQUENCE: u64 = (1 << 53) - 1;
pub(super) const FIRST: u64 = 1 << 53;
pub(super) const REST: u64 = 1 << 54;
pub(super) const FEED: u64 = 1 << 55;
pub(super) const VARIABLE: u64 = 1 << 56;
/// The first delivery uses no credit.
const FREE: u64 = 1 << 57;
pub(super) const COALESCED: u32 = (1 << 18) - 1;
/// In `counts`: the item's [`Rest`] concerns the next delivery or confirmation.
pub(super) const PENDING: u32 = 1 << 18;
const UNCONFIRMED_HIGH_SHIFT: u32 = 19;
const UNCONFIRMED_LOW_SHIFT: u32 = 56;
/// Maximum counted in the item: more deliveries than a peer may leave unconfirmed over all its
/// items.
pub(super) const UNCONFIRMED_MAX: u32 = (1 << 21) - 1;

const _: () = assert!(size_of::<VariableItem>() == 24);

/// Data that only buffered contracts, filters, resumed subscriptions and large counts need.
#[derive(Default)]
pub(crate) struct Rest {
    /// The push number to read next from the ring (`last:n`).
    pub(crate) cursor: u64,
    /// The first reading of a buffered contract, until it is delivered.
    pub(crate) initial: Option<Box<Update>>,
    /// Updates held back by `only_changes` and reported.
    pub(crate) filtered: u64,
    pub(crate) queue: u64,
    pub(crate) disconnect: u64,
    pub(crate) repaired: u64,
    pub(super) untold: Lost,
    pub(super) coalesced: u64,
    pub(super) unconfirmed: u64,
}

impl VariableItem {
    /// Creates a variable item whose subscriber has everything up to `sequence`, except its first
    /// reading.
    pub(super) fn new(subscription: u32, sequence: u64) -> Self {
        let sequence = sequence & SEQUENCE;
        Self {
            subscription,
            counts: 0,
            opened: sequence,
            last: sequence | VARIABLE | FIRST,
        }
    }

    pub(crate) fn set_free(&mut self) {
        self.last |= FREE;
    }

    /// Returns true if it has credit for a first delivery that is still to come.
    pub(crate) fn has_free_credit(&self) -> bool {
        self.has(FIRST) && self.has(FREE)
    }

    pub(super) fn of_feed(subscription: u32) -> Self {
        Self {
            subscription,
            last: FEED,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u64) -> bool {
        self.last & flag != 0
    }

    pub(super) fn set(&mut self, flag: u64) {
        self.last |= flag;
    }

    pub(super) fn is_free(&self) -> bool {
        !self.has(FEED | VARIABLE)
    }

    pub(crate) fn is_first(&self) -> bool {
        self.has(FIRST)
    }

    pub(crate) fn opened_at(&self) -> u64 {
        self.opened & SEQUENCE
    }

    pub(super) fn set_opened_at(&mut self, sequence: u64) {
        self.opened = self.opened & !SEQUENCE | sequence & SEQUENCE;
    }

    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last & SEQUENCE
    }

    /// Sets the last delivery of an item. No other code changes it.
    #[inline]
    pub(super) fn set_last(&mut self, sequence: u64) {
        self.last = self.last & !(SEQUENCE | FIRST) | sequence & SEQUENCE;
    }

    #[inline]
    pub(super) fn is_variable(&self) -> bool {
        self.has(VARIABLE)
    }

    /// Counts one more unconfirmed delivery. Returns false if the item cannot count it.
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
        let low = (self.opened >> UNCONFIRMED_LOW_SHIFT) as u32;
        low | self.counts >> UNCONFIRMED_HIGH_SHIFT << 8
    }

    #[inline]
    pub(super) fn set_unconfirmed_here(&mut self, count: u32) {
        // The shift keeps the low 8 bits.
        let low = u64::from(count) << UNCONFIRMED_LOW_SHIFT;
        let high = (count >> 8) << UNCONFIRMED_HIGH_SHIFT;
        self.opened = self.opened & SEQUENCE | low;
        self.counts = self.counts & (COALESCED | PENDING) | high;
    }

    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.counts & PENDING != 0
    }
}

impl Rest {
    /// Returns true if it concerns the next delivery or confirmation.
    pub(super) fn is_pending(&self) -> bool {
        self.unconfirmed > 0 || self.untold != Lost::NONE
    }
}
