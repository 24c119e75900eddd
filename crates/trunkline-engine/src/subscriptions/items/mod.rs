//! The items of a consumer: each is one variable in one subscription, with its side of the ledger.
//!
//! There may be two million items, so each takes only 24 bytes. Its variable is stored separately
//! (`ItemVariables`), and so is the data that few items need (`ItemExtra`). The number of deliveries is
//! computed from the sequences instead of counted.

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

use std::collections::HashMap;

use trunkline_types::Lost;

use super::in_flight::{InFlight, ItemRef, ItemTable};
use super::sink::{Delivery, Sink};
use crate::delivery::feed::SharedRun;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

/// Number of items or references in a chunk. A chunk is allocated as a whole; growing a single list
/// would need twice the memory.
const CHUNK: usize = 1024;

/// One variable in one subscription. The variable itself is stored in `ItemVariables`.
#[derive(Clone, Copy, Default)]
pub(crate) struct VariableItem {
    pub(crate) subscription: u32,
    /// Bit fields: the coalesced count (18 bits), the flag [`PENDING`], and the upper 13 bits of
    /// the unconfirmed count.
    counts: u32,
    /// Bit fields: the sequence before the first update that counts for this subscription, and the
    /// lower 8 bits of the unconfirmed count.
    opened: u64,
    /// Bit fields: the sequence of the last delivery, and flags.
    last: u64,
}

/// Bits of a sequence. They suffice for 28 years at ten million updates per second.
const SEQUENCE_MASK: u64 = (1 << 53) - 1;
/// In `last`: the first delivery is still to come.
const AWAITS_FIRST: u64 = 1 << 53;
/// In `last`: the item has an entry in [`Items::extras`].
const HAS_EXTRA: u64 = 1 << 54;
/// In `last`: the index stands for the feed of an `all` subscription.
const FEED: u64 = 1 << 55;
/// In `last`: the index stands for a variable in a subscription.
const VARIABLE: u64 = 1 << 56;
/// In `last`: the first delivery uses no credit.
const FIRST_IS_FREE: u64 = 1 << 57;
const COALESCED_MASK: u32 = (1 << 18) - 1;
/// In `counts`: the item's [`ItemExtra`] matters for the next delivery or confirmation.
const PENDING: u32 = 1 << 18;
const UNCONFIRMED_HIGH_SHIFT: u32 = 19;
const UNCONFIRMED_LOW_SHIFT: u32 = 56;
/// Maximum unconfirmed count that the item itself can store. A peer may leave fewer deliveries
/// unconfirmed over all its items.
const UNCONFIRMED_MAX: u32 = (1 << 21) - 1;

const _: () = assert!(size_of::<VariableItem>() == 24);

/// Data needed only for buffered contracts, filters, resumed subscriptions and large counts.
#[derive(Default)]
pub(crate) struct ItemExtra {
    /// The push number to read next from the ring (`last:n`).
    pub(crate) cursor: u64,
    /// The first reading of a buffered contract, until it is delivered.
    pub(crate) initial: Option<Box<Update>>,
    /// Number of updates that `only_changes` filtered out and that were reported.
    pub(crate) filtered: u64,
    /// Number of updates that the item's own buffer dropped.
    pub(crate) queue: u64,
    /// Number of updates missed while disconnected.
    pub(crate) disconnect: u64,
    /// Number of times that the last delivery was resent, because the peer had a different value.
    pub(crate) repaired: u64,
    /// Losses to report with the next delivery.
    unreported: Lost,
    /// Coalesced updates beyond the range of the item's own count.
    coalesced: u64,
    /// Unconfirmed deliveries beyond the range of the item's own count.
    unconfirmed: u64,
}

impl VariableItem {
    /// Creates a variable item whose subscriber has every update up to `sequence`, except its first
    /// reading.
    fn new(subscription: u32, sequence: u64) -> Self {
        let sequence = sequence & SEQUENCE_MASK;
        Self {
            subscription,
            counts: 0,
            opened: sequence,
            last: sequence | VARIABLE | AWAITS_FIRST,
        }
    }

    pub(crate) fn set_first_is_free(&mut self) {
        self.last |= FIRST_IS_FREE;
    }

    /// Returns true if the first delivery is still to come and uses no credit.
    pub(crate) fn has_free_credit(&self) -> bool {
        self.has(AWAITS_FIRST) && self.has(FIRST_IS_FREE)
    }

    fn of_feed(subscription: u32) -> Self {
        Self {
            subscription,
            last: FEED,
            ..Self::default()
        }
    }

    #[inline]
    fn has(&self, flag: u64) -> bool {
        self.last & flag != 0
    }

    fn set(&mut self, flag: u64) {
        self.last |= flag;
    }

    fn is_free(&self) -> bool {
        !self.has(FEED | VARIABLE)
    }

    pub(crate) fn awaits_first(&self) -> bool {
        self.has(AWAITS_FIRST)
    }

    pub(crate) fn opened_at(&self) -> u64 {
        self.opened & SEQUENCE_MASK
    }

    fn set_opened_at(&mut self, sequence: u64) {
        self.opened = self.opened & !SEQUENCE_MASK | sequence & SEQUENCE_MASK;
    }

    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last & SEQUENCE_MASK
    }

    /// Sets the sequence of the last delivery of an item. No other code changes it.
    #[inline]
    fn set_last(&mut self, sequence: u64) {
        self.last = self.last & !(SEQUENCE_MASK | AWAITS_FIRST) | sequence & SEQUENCE_MASK;
    }

    #[inline]
    fn is_variable(&self) -> bool {
        self.has(VARIABLE)
    }

    /// Counts one more unconfirmed delivery. Returns false if that exceeds the range of the item.
    #[inline]
    fn count_unconfirmed(&mut self) -> bool {
        let count = self.unconfirmed_inline();
        if count < UNCONFIRMED_MAX {
            self.set_unconfirmed_inline(count + 1);
        }
        count < UNCONFIRMED_MAX
    }

    #[inline]
    fn unconfirmed_inline(&self) -> u32 {
        let low = (self.opened >> UNCONFIRMED_LOW_SHIFT) as u32;
        low | self.counts >> UNCONFIRMED_HIGH_SHIFT << 8
    }

    #[inline]
    fn set_unconfirmed_inline(&mut self, count: u32) {
        // The shift leaves the low 8 bits.
        let low = u64::from(count) << UNCONFIRMED_LOW_SHIFT;
        let high = (count >> 8) << UNCONFIRMED_HIGH_SHIFT;
        self.opened = self.opened & SEQUENCE_MASK | low;
        self.counts = self.counts & (COALESCED_MASK | PENDING) | high;
    }

    #[inline]
    fn is_pending(&self) -> bool {
        self.counts & PENDING != 0
    }
}

impl ItemExtra {
    /// Returns true if the data matters for the next delivery or confirmation.
    fn is_pending(&self) -> bool {
        self.unconfirmed > 0 || self.unreported != Lost::NONE
    }
}

/// The meaning of an outbox index.
pub(crate) enum Slot<'a> {
    Variable(&'a VariableItem),
    /// The feed of an `all` subscription.
    Feed {
        subscription: u32,
    },
}

/// The items by index. An index is reused once its item is removed and all its deliveries are
/// confirmed.
#[derive(Default)]
pub(crate) struct Items {
    chunks: Vec<Vec<VariableItem>>,
    len: u32,
    free: Vec<u32>,
    /// Indices of removed items, with the number of their unconfirmed deliveries.
    retired: HashMap<u32, u64>,
    extras: HashMap<u32, ItemExtra>,
    variables: usize,
}

/// The update that a new subscriber already has, if any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResumePoint {
    Nothing,
    Sequence(u64),
    /// An update of another engine start, or one unknown to this engine start.
    Unknown,
}

/// An update of an item, with the losses before it.
pub(crate) struct ItemUpdate<'a> {
    pub(crate) index: u32,
    pub(crate) variable: &'a Arc<Variable>,
    pub(crate) update: &'a Update,
    pub(crate) lost: Lost,
    /// Number of updates that `only_changes` filtered out since the previous delivery.
    pub(crate) filtered: u64,
}

impl Items {
    /// Number of variable items over all subscriptions.
    pub(crate) fn variable_count(&self) -> usize {
        self.variables
    }

    /// The index that the next insertion will use.
    pub(crate) fn next_index(&self) -> u32 {
        // At most `ITEMS_MAX` items and the same number of feeds, which fits.
        self.free.last().copied().unwrap_or(self.len)
    }

    /// Adds an item. `current` is the sequence at which a subscriber has everything; `None` if there
    /// is none, because the sequence is that of a former variable. `had` is the update that the
    /// subscriber already has. `first` is the sequence of the first update to deliver: the current
    /// one, an earlier one found in a feed, or the one that the variable will get. Returns the item's
    /// index.
    pub(crate) fn insert(
        &mut self,
        subscription: u32,
        current: Option<u64>,
        had: ResumePoint,
        first: u64,
    ) -> u32 {
        let item = VariableItem::new(subscription, first.saturating_sub(1));
        let index = self.put(item);
        self.variables += 1;
        let had = match had {
            ResumePoint::Nothing => return index,
            ResumePoint::Unknown => {
                // The number of updates in between cannot be known.
                self.make_pending(index).unreported.unknown = true;
                return index;
            }
            ResumePoint::Sequence(had) => had,
        };
        if let Some(item) = self.get_mut(index) {
            item.set_opened_at(had);
            if current == Some(had) {
                // The subscriber already has the current update, so there is nothing to deliver.
                item.set_last(had);
            }
        }
        let missed = first.saturating_sub(1).saturating_sub(had);
        if missed > 0 {
            let extra = self.make_pending(index);
            extra.disconnect = missed;
            extra.unreported.disconnect = missed;
        }
        index
    }

    /// Adds an index for the feed of a subscription, and returns it.
    pub(crate) fn insert_feed(&mut self, subscription: u32) -> u32 {
        self.put(VariableItem::of_feed(subscription))
    }

    fn put(&mut self, item: VariableItem) -> u32 {
        if let Some(index) = self.free.pop() {
            if let Some(slot) = self.place_mut(index) {
                *slot = item;
            }
            return index;
        }
        let index = self.len;
        self.len += 1;
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(item),
            None => {
                // A consumer with one item needs no full chunk; one with many items has full
                // chunks.
                let mut chunk = match self.chunks.is_empty() {
                    true => Vec::new(),
                    false => Vec::with_capacity(CHUNK),
                };
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
        index
    }

    pub(crate) fn remove(&mut self, index: u32) {
        let unconfirmed = self.unconfirmed(index);
        let Some(slot) = self.place_mut(index).filter(|slot| !slot.is_free()) else {
            return;
        };
        let item = std::mem::take(slot);
        self.variables -= usize::from(item.is_variable());
        if item.has(HAS_EXTRA) {
            self.extras.remove(&index);
        }
        match unconfirmed {
            0 => self.free.push(index),
            left => drop(self.retired.insert(index, left)),
        }
        self.free_if_empty();
    }

    /// Frees all memory if no item is left.
    fn free_if_empty(&mut self) {
        if self.free.len() == self.len as usize {
            *self = Self::default();
        }
    }

    fn place(&self, index: u32) -> Option<&VariableItem> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    #[inline]
    fn place_mut(&mut self, index: u32) -> Option<&mut VariableItem> {
        let index = index as usize;
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    pub(crate) fn slot(&self, index: u32) -> Option<Slot<'_>> {
        let item = self.place(index).filter(|item| !item.is_free())?;
        Some(match item.has(FEED) {
            false => Slot::Variable(item),
            true => Slot::Feed {
                subscription: item.subscription,
            },
        })
    }

    /// Returns one more than the largest index in use.
    pub(crate) fn end(&self) -> u32 {
        self.len
    }

    /// Records that the last delivery is repeated. An update counts as unconfirmed until the peer
    /// confirms the repetition.
    pub(crate) fn repair(&mut self, index: u32, is_update: bool, in_flight: &mut InFlight) {
        if self.get(index).is_none() {
            return;
        }
        self.make_extra(index).repaired += 1;
        self.note_sent(index, is_update, in_flight);
    }

    pub(crate) fn get(&self, index: u32) -> Option<&VariableItem> {
        self.place(index).filter(|item| item.is_variable())
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut VariableItem> {
        self.place_mut(index).filter(|item| item.is_variable())
    }

    pub(crate) fn extra(&self, index: u32) -> Option<&ItemExtra> {
        self.extras.get(&index)
    }

    pub(crate) fn extra_mut(&mut self, index: u32) -> Option<&mut ItemExtra> {
        self.extras.get_mut(&index)
    }

    /// Returns the data that few items have, creating it if necessary.
    pub(crate) fn make_extra(&mut self, index: u32) -> &mut ItemExtra {
        if let Some(item) = self.get_mut(index) {
            item.set(HAS_EXTRA);
        }
        self.extras.entry(index).or_default()
    }

    /// Like [`make_extra`](Self::make_extra), for data that matters for the next delivery or
    /// confirmation.
    fn make_pending(&mut self, index: u32) -> &mut ItemExtra {
        if let Some(item) = self.get_mut(index) {
            item.counts |= PENDING;
        }
        self.make_extra(index)
    }

    /// Lets the next delivery or confirmation skip [`ItemExtra`] if it contains nothing pending.
    fn settle_pending(&mut self, index: u32) {
        let is_pending = self.extras.get(&index).is_some_and(ItemExtra::is_pending);
        if !is_pending && let Some(item) = self.get_mut(index) {
            item.counts &= !PENDING;
        }
    }

    /// Returns the number of updates that `only_changes` filtered out and that were reported.
    pub(crate) fn filtered(&self, index: u32) -> u64 {
        self.extra(index).map_or(0, |extra| extra.filtered)
    }

    /// Returns the number of deliveries that the peer has not confirmed; 0 if it does not confirm.
    pub(crate) fn unconfirmed(&self, index: u32) -> u64 {
        let here = self.get(index).map_or(0, VariableItem::unconfirmed_inline);
        u64::from(here) + self.extra(index).map_or(0, |extra| extra.unconfirmed)
    }

    pub(crate) fn coalesced(&self, index: u32) -> u64 {
        let here = self
            .get(index)
            .map_or(0, |item| item.counts & COALESCED_MASK);
        u64::from(here) + self.extra(index).map_or(0, |extra| extra.coalesced)
    }

    pub(crate) fn add_coalesced(&mut self, index: u32, more: u64) {
        let Some(item) = self.get_mut(index) else {
            return;
        };
        let sum = u64::from(item.counts & COALESCED_MASK).saturating_add(more);
        match u32::try_from(sum).ok().filter(|sum| *sum <= COALESCED_MASK) {
            Some(sum) => item.counts = item.counts & !COALESCED_MASK | sum,
            None => {
                item.counts &= !COALESCED_MASK;
                let extra = self.make_extra(index);
                extra.coalesced = extra.coalesced.saturating_add(sum);
            }
        }
    }

    /// Returns the number of delivered updates: all that the item has passed, except those it
    /// missed.
    pub(crate) fn delivered(&self, index: u32) -> u64 {
        let Some(item) = self.get(index) else {
            return 0;
        };
        let missed = self
            .extra(index)
            .map_or(0, |extra| extra.filtered + extra.queue + extra.disconnect);
        let passed = item.last().saturating_sub(item.opened_at());
        passed
            .saturating_sub(missed)
            .saturating_sub(self.coalesced(index))
    }

    /// Records a delivery until the peer confirms it, if the peer confirms at all. `counts` is
    /// false if the delivery is not counted for the item.
    #[inline]
    fn note_sent(&mut self, index: u32, counts: bool, in_flight: &mut InFlight) {
        if !in_flight.tracks_confirmations() {
            return;
        }
        in_flight.push(counts.then_some(index));
        if counts
            && let Some(item) = self.get_mut(index)
            && !item.count_unconfirmed()
        {
            self.make_pending(index).unconfirmed += 1;
        }
    }

    /// Confirms one delivery of an item, which may have been removed in the meantime.
    #[inline]
    pub(super) fn confirm(&mut self, index: u32) {
        let Some(item) = self.get_mut(index) else {
            return self.confirm_retired(index);
        };
        if !item.is_pending() || !self.confirm_extra(index) {
            let Some(item) = self.get_mut(index) else {
                return;
            };
            let count = item.unconfirmed_inline();
            item.set_unconfirmed_inline(count.saturating_sub(1));
        }
    }

    /// Returns true if [`ItemExtra`] counted this delivery.
    #[cold]
    fn confirm_extra(&mut self, index: u32) -> bool {
        let extra = self.extras.get_mut(&index);
        let Some(extra) = extra.filter(|extra| extra.unconfirmed > 0) else {
            return false;
        };
        extra.unconfirmed -= 1;
        self.settle_pending(index);
        true
    }

    #[cold]
    fn confirm_retired(&mut self, index: u32) {
        if let Some(left) = self.retired.get_mut(&index) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.retired.remove(&index);
                self.free.push(index);
                self.free_if_empty();
            }
        }
    }

    /// Records that a whole run was delivered. Every item in it already had its first reading.
    /// `confirmed` is true if the peer will confirm the deliveries.
    pub(crate) fn note_run(&mut self, table: &ItemTable, run: &SharedRun, confirmed: bool) {
        for (place, sequence) in run.updates() {
            let Some(ItemRef { index, .. }) = table.get(*place as usize).copied() else {
                continue;
            };
            let Some(item) = self.place_mut(index).filter(|item| item.is_variable()) else {
                continue;
            };
            item.set_last(*sequence);
            if confirmed && !item.count_unconfirmed() {
                self.make_pending(index).unconfirmed += 1;
            }
        }
    }

    /// Records the delivery of an item's next update in the simple case: it follows the last one,
    /// there are no losses to report before it, and the count fits in the item. Otherwise returns
    /// false.
    #[inline]
    pub(crate) fn note_next(
        &mut self,
        index: u32,
        sequence: u64,
        in_flight: &mut InFlight,
    ) -> bool {
        let Some(item) = self.place_mut(index) else {
            return false;
        };
        let is_next = item.is_variable() && sequence == item.last() + 1;
        if !is_next || item.is_pending() {
            return false;
        }
        if in_flight.tracks_confirmations() {
            if !item.count_unconfirmed() {
                return false;
            }
            in_flight.push(Some(index));
        }
        item.set_last(sequence);
        true
    }

    /// Delivers the newest update unless this item already has it. `held_back` is the number of
    /// updates that `only_changes` has filtered out since the previous delivery.
    pub(crate) fn deliver_newest(
        &mut self,
        index: u32,
        variable: &Arc<Variable>,
        update: &Update,
        held_back: u64,
        in_flight: &mut InFlight,
        sink: &mut dyn Sink,
    ) {
        let Some(item) = self.get(index) else { return };
        let news = update.sequence.saturating_sub(item.last());
        if !item.awaits_first() && news <= held_back {
            return;
        }
        let coalesced = news.saturating_sub(1).saturating_sub(held_back);
        if coalesced > 0 {
            self.add_coalesced(index, coalesced);
        }
        let lost = Lost {
            coalesced,
            ..Lost::NONE
        };
        let update = ItemUpdate {
            index,
            variable,
            update,
            lost,
            filtered: held_back,
        };
        self.deliver(update, in_flight, sink);
    }

    /// Delivers an update of a buffered contract. Buffered contracts do not coalesce, so updates
    /// that were neither delivered nor dropped were filtered.
    pub(crate) fn deliver_buffered(
        &mut self,
        index: u32,
        variable: &Arc<Variable>,
        update: &Update,
        queue: u64,
        in_flight: &mut InFlight,
        sink: &mut dyn Sink,
    ) {
        let last = self.get(index).map_or(0, VariableItem::last);
        let between = update.sequence.saturating_sub(last).saturating_sub(1);
        let filtered = between.saturating_sub(queue);
        if queue > 0 {
            self.make_extra(index).queue += queue;
        }
        let lost = Lost {
            queue,
            ..Lost::NONE
        };
        let update = ItemUpdate {
            index,
            variable,
            update,
            lost,
            filtered,
        };
        self.deliver(update, in_flight, sink);
    }

    pub(crate) fn deliver(
        &mut self,
        update: ItemUpdate<'_>,
        in_flight: &mut InFlight,
        sink: &mut dyn Sink,
    ) {
        let ItemUpdate {
            index,
            variable,
            update,
            mut lost,
            filtered,
        } = update;
        if filtered > 0 {
            self.make_extra(index).filtered += filtered;
        }
        let Some(item) = self.get_mut(index) else {
            return;
        };
        let (is_pending, subscription) = (item.is_pending(), item.subscription);
        // The reading of a variable without a value has sequence 0.
        item.set_last(update.sequence.max(item.last()));
        if is_pending && let Some(extra) = self.extras.get_mut(&index) {
            lost = lost.plus(std::mem::take(&mut extra.unreported));
            self.settle_pending(index);
        }
        // The reading of a variable that was never written is delivered, but does not count as an
        // update.
        let counts = update.sequence > 0;
        self.note_sent(index, counts, in_flight);
        sink.deliver(&Delivery {
            subscription,
            variable,
            update,
            lost,
            filtered,
        });
    }
}

/// The variables of a consumer's items.
///
/// An item keeps its variable alive, so that queued updates can still be delivered after the
/// variable was removed and its slot reused. There may be two million items, and a reference is as
/// long as all the other data read by a delivery, so references are stored separately.
#[derive(Debug, Default)]
pub(crate) struct ItemVariables {
    chunks: Vec<Vec<Option<Arc<Variable>>>>,
    len: usize,
}

impl ItemVariables {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Arc<Variable>> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)?.as_ref()
    }

    pub(crate) fn put(&mut self, index: u32, variable: &Arc<Variable>) {
        let index = index as usize;
        let (chunk, place) = (index / CHUNK, index % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        let Some(chunk) = self.chunks.get_mut(chunk) else {
            return;
        };
        if chunk.len() <= place {
            // A consumer with one item needs no full chunk; one with many items fills its chunks.
            match place {
                0 => {}
                _ => chunk.reserve_exact(CHUNK - chunk.len()),
            }
            chunk.resize_with(place + 1, || None);
        }
        if let Some(known) = chunk.get_mut(place) {
            self.len += usize::from(known.is_none());
            *known = Some(Arc::clone(variable));
        }
    }

    /// Removes a variable, and frees all memory if it was the last one.
    pub(crate) fn take(&mut self, index: u32) -> Option<Arc<Variable>> {
        let index = index as usize;
        let chunk = self.chunks.get_mut(index / CHUNK)?;
        let taken = chunk.get_mut(index % CHUNK)?.take()?;
        self.len -= 1;
        if self.len == 0 {
            self.chunks = Vec::new();
        }
        Some(taken)
    }
}
