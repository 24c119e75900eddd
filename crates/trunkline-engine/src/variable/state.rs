//! The state protected by a variable's lock.

use trunkline_ring::{TABLE_VALUE_BYTES, TableEntry, TableValue, TableWriter};
use trunkline_types::definition::{generation_of, slot_of};
use trunkline_types::{Access, Properties};

use super::Variable;
use super::extensions::Extensions;
use crate::delivery::group_room::GroupRooms;
use crate::delivery::late::LateSamples;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::delivery::subscribers::{Kind, Subscriber, Subscribers};
use crate::outcome::{LateKept, Refusal};
use crate::sync::{Arc, Weak};
use crate::update::Update;

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Number of writes so far, whatever their outcome.
    pub(crate) offered: u64,
    /// Subscriptions with the contract `latest` and no filters.
    pub(crate) latest: LatestSubscribers,
    /// Allocated with the first subscriber of another kind, the first value that is too long for
    /// the cell, or the first write that was not applied.
    pub(crate) extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) subscribers: Subscribers,
    /// The value, if it is too long for the cell.
    pub(crate) shared: Option<Arc<[u8]>>,
    /// The current properties, if they differ from the deployed ones.
    pub(super) edited: Option<Arc<Properties>>,
    pub(super) extensions: Extensions,
    /// The consumer that takes late samples, if any.
    late: Option<Weak<LateSamples>>,
    /// The session that wrote the value last accepted by the device; 0 for none.
    put_by: u32,
    /// Allocated with the first write that was not applied.
    unapplied: Option<Box<Unapplied>>,
}

#[derive(Debug, Default)]
pub(crate) struct Unapplied {
    pub(crate) unchanged: u64,
    pub(crate) superseded: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) fifo_overflow: u64,
    pub(crate) upstream_lost: u64,
    /// The last refusal, and the sequence of the newest update at that time.
    pub(crate) last_refusal: Option<(u64, Refusal)>,
    /// The sequence of the newest update at the last unchanged write, and the number of unchanged
    /// writes while that update was the newest.
    pub(crate) unchanged_since: (u64, u64),
}

impl State {
    /// Returns the number of writes that confirmed the value without changing it.
    pub(crate) fn confirmed(&self) -> u64 {
        let extra = self.extra.as_deref();
        extra
            .and_then(|extra| extra.unapplied.as_deref())
            .map_or(0, |unapplied| unapplied.unchanged)
    }

    /// Returns the session that wrote the value last accepted by the variable's device.
    pub(crate) fn put_by(&self) -> Option<u32> {
        let put_by = self.extra.as_ref()?.put_by;
        (put_by > 0).then_some(put_by)
    }

    pub(crate) fn set_put_by(&mut self, session: u32) {
        self.extra.get_or_insert_default().put_by = session;
    }

    pub(super) fn edited(&self) -> Option<&Arc<Properties>> {
        self.extra.as_ref()?.edited.as_ref()
    }

    /// Returns the subscriptions other than plain `latest` ones, if there are any.
    #[inline]
    pub(crate) fn subscribers(&self) -> Option<&Subscribers> {
        let subscribers = &self.extra.as_ref()?.subscribers;
        (!subscribers.is_empty()).then_some(subscribers)
    }

    /// Returns the subscriptions other than plain `latest` ones, if there are any.
    #[inline]
    pub(crate) fn subscribers_mut(&mut self) -> Option<&mut Subscribers> {
        let subscribers = &mut self.extra.as_mut()?.subscribers;
        (!subscribers.is_empty()).then_some(subscribers)
    }

    /// Returns the subscriptions, allocating their structure if there is none yet.
    pub(crate) fn make_subscribers(&mut self) -> &mut Subscribers {
        &mut self.extra.get_or_insert_default().subscribers
    }

    /// Counts a write within the deadband of the newest update, which has the sequence `sequence`.
    pub(crate) fn count_unchanged(&mut self, sequence: u64) {
        self.count(1, |unapplied| &mut unapplied.unchanged);
        if let Some(unapplied) = self.unapplied_mut() {
            let since = &mut unapplied.unchanged_since;
            *since = match since.0 == sequence {
                true => (sequence, since.1 + 1),
                false => (sequence, 1),
            };
        }
    }

    /// Counts a write that was refused while `sequence` was the newest update.
    pub(crate) fn count_refused(&mut self, sequence: u64, refusal: &Refusal) {
        self.count(1, |unapplied| &mut unapplied.refused);
        if let Some(unapplied) = self.unapplied_mut() {
            unapplied.last_refusal = Some((sequence, refusal.clone()));
        }
    }

    pub(crate) fn set_late(&mut self, late: &Arc<LateSamples>) {
        self.extra.get_or_insert_default().late = Some(Arc::downgrade(late));
    }

    /// Stores a sample that is older than the live value for the history that records the variable,
    /// if any.
    pub(crate) fn keep_late(
        &self,
        variable: &Variable,
        update: &Update,
        wakes: &mut Wakes,
    ) -> LateKept {
        let late = self.extra.as_ref().and_then(|extra| extra.late.as_ref());
        match late.and_then(Weak::upgrade) {
            Some(late) => late.keep(variable.handle(), update, wakes),
            None => LateKept::Nowhere,
        }
    }

    fn unapplied_mut(&mut self) -> Option<&mut Unapplied> {
        self.extra.as_mut()?.unapplied.as_deref_mut()
    }

    pub(crate) fn unapplied(&self) -> Option<&Unapplied> {
        self.extra.as_ref()?.unapplied.as_deref()
    }

    /// Counts `count` writes that ended without being applied, in the counter that `which` selects.
    pub(crate) fn count(&mut self, count: u64, which: impl FnOnce(&mut Unapplied) -> &mut u64) {
        self.offered += count;
        let extra = self.extra.get_or_insert_default();
        *which(extra.unapplied.get_or_insert_default()) += count;
    }
}

impl State {
    pub(crate) fn add_subscriber(&mut self, subscriber: Subscriber) {
        if matches!(subscriber.kind, Kind::Mark) && !subscriber.only_changes {
            self.latest.add(subscriber.outbox, subscriber.item);
        } else {
            self.make_subscribers().add(subscriber);
        }
    }

    /// Removes a subscription. Returns `None` if it was a `latest` one without filters, or was not
    /// found.
    pub(crate) fn remove_subscriber(
        &mut self,
        outbox: &Arc<Outbox>,
        item: u32,
    ) -> Option<Subscriber> {
        if self.latest.remove(outbox, item) {
            return None;
        }
        self.subscribers_mut()?.remove(outbox, item)
    }

    /// Returns true if the item is a `latest` subscription without filters.
    pub(crate) fn is_plain(&self, outbox: &Arc<Outbox>, item: u32) -> bool {
        self.latest.items_of(outbox).any(|one| one == item)
    }

    /// Returns the items of a consumer, except those of `all` subscriptions.
    pub(crate) fn items_of(&self, outbox: &Arc<Outbox>) -> impl Iterator<Item = u32> {
        let others = self
            .subscribers()
            .map(Subscribers::iter)
            .into_iter()
            .flatten();
        let others = others.filter(|one| one.is_of(outbox));
        self.latest
            .items_of(outbox)
            .chain(others.map(|one| one.item))
    }

    /// Step 4, last part: delivers a numbered update to every subscription. Updates of a `group`
    /// enter the feeds once the group is complete.
    #[inline]
    pub(crate) fn announce(
        &mut self,
        update: &Update,
        changed: bool,
        group: Option<&mut GroupRooms>,
        wakes: &mut Wakes,
    ) {
        self.latest.announce(wakes);
        if let Some(subscribers) = self.subscribers_mut() {
            subscribers.announce(update, changed, group, wakes);
        }
    }

    /// Notifies every subscription, after its last update, that the variable was undeployed.
    pub(crate) fn announce_gone(&self, wakes: &mut Wakes) {
        self.latest.announce(wakes);
        if let Some(subscribers) = self.subscribers() {
            subscribers.announce_gone(wakes);
        }
    }

    /// Stores the current value in the variable's tables. The caller holds the lock.
    #[inline]
    pub(crate) fn mirror(&self, variable: &Variable) {
        if self.latest.has_tables() {
            self.mirror_now(variable);
        }
    }

    #[inline(never)]
    fn mirror_now(&self, variable: &Variable) {
        for table in self.latest.tables() {
            self.store_into(variable, table);
        }
    }

    pub(crate) fn store_into(&self, variable: &Variable, table: &TableWriter) {
        let handle = variable.handle();
        let (slot, generation) = (slot_of(handle) as usize, generation_of(handle));
        table.store(slot, generation, &self.table_entry(variable));
    }

    fn table_entry(&self, variable: &Variable) -> TableEntry {
        if variable.is_gone() {
            return TableEntry::Gone;
        }
        if variable.properties_locked(self).access == Access::WriteOnly {
            return TableEntry::Elsewhere;
        }
        // The lock is held, so no writer can overtake this read.
        let Some(update) = variable.cell.read(variable.data_type()) else {
            return TableEntry::Elsewhere;
        };
        let length = update.value.as_slice().len();
        if length > TABLE_VALUE_BYTES {
            return TableEntry::Elsewhere;
        }
        TableEntry::Value(TableValue {
            sequence: update.sequence,
            source_timestamp: update.source_timestamp.as_nanos(),
            engine_timestamp: update.engine_timestamp.as_nanos(),
            quality: update.quality.to_bits(),
            writer: update.writer,
            value: update.value.words(),
            length,
        })
    }
}

/// A subscription with the contract `latest` and no filters. It needs only a mark.
#[derive(Debug)]
pub(crate) struct LatestSubscriber {
    outbox: Arc<Outbox>,
    item: u32,
}

/// Item number that represents a table of last values instead of a subscription. No consumer has
/// that many items.
const TABLE: u32 = u32::MAX;

/// The `latest` subscriptions of one variable without filters. An engine may have millions of them,
/// so the list has no spare capacity. Tables of last values come first.
#[derive(Debug, Default)]
pub(crate) struct LatestSubscribers(Box<[LatestSubscriber]>);

impl LatestSubscribers {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn items_of(&self, outbox: &Arc<Outbox>) -> impl Iterator<Item = u32> {
        let own = self.0.iter().filter(|one| Arc::ptr_eq(&one.outbox, outbox));
        own.map(|one| one.item)
    }

    pub(crate) fn outboxes(&self) -> impl Iterator<Item = &Arc<Outbox>> {
        self.0.iter().map(|one| &one.outbox)
    }

    pub(crate) fn add(&mut self, outbox: Arc<Outbox>, item: u32) {
        let mut list = std::mem::take(&mut self.0).into_vec();
        list.reserve_exact(1);
        list.push(LatestSubscriber { outbox, item });
        self.0 = list.into_boxed_slice();
    }

    pub(crate) fn remove(&mut self, outbox: &Arc<Outbox>, item: u32) -> bool {
        let is_match =
            |one: &LatestSubscriber| one.item == item && Arc::ptr_eq(&one.outbox, outbox);
        let Some(place) = self.0.iter().position(is_match) else {
            return false;
        };
        let mut list = std::mem::take(&mut self.0).into_vec();
        list.swap_remove(place);
        self.0 = list.into_boxed_slice();
        true
    }

    /// From now on, stores changes in the table of `outbox`.
    pub(crate) fn add_table(&mut self, outbox: Arc<Outbox>) {
        let is_match =
            |one: &LatestSubscriber| one.item == TABLE && Arc::ptr_eq(&one.outbox, &outbox);
        if !self.0.iter().any(is_match) {
            self.add(outbox, TABLE);
            self.0.rotate_right(1);
        }
    }

    pub(crate) fn remove_table(&mut self, outbox: &Arc<Outbox>) {
        let is_match =
            |one: &LatestSubscriber| one.item == TABLE && Arc::ptr_eq(&one.outbox, outbox);
        if self.0.iter().any(is_match) {
            let mut list = std::mem::take(&mut self.0).into_vec();
            list.retain(|one| !is_match(one));
            self.0 = list.into_boxed_slice();
        }
    }

    pub(crate) fn leave_tables(&mut self) {
        if self.has_tables() {
            let mut list = std::mem::take(&mut self.0).into_vec();
            list.retain(|one| one.item != TABLE);
            self.0 = list.into_boxed_slice();
        }
    }

    #[inline]
    pub(crate) fn has_tables(&self) -> bool {
        self.0.first().is_some_and(|one| one.item == TABLE)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableWriter> {
        let tables = self.0.iter().take_while(|one| one.item == TABLE);
        tables.filter_map(|one| one.outbox.table.as_ref())
    }

    /// Marks the subscriptions. Tables come first and have no marks.
    #[inline]
    pub(crate) fn announce(&self, wakes: &mut Wakes) {
        let subscriptions = match self.has_tables() {
            true => self.0.get(self.tables().count()..).unwrap_or_default(),
            false => &self.0,
        };
        for one in subscriptions {
            one.outbox.mark(one.item, wakes);
        }
    }
}
