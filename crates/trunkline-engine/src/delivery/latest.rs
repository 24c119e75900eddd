//! Subscriptions with the contract `latest` and no filters.

use trunkline_ring::TableWriter;

use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::Arc;

/// A subscription with the contract `latest` and no filters. It needs only a mark.
#[derive(Debug)]
pub(crate) struct LatestSubscriber {
    outbox: Arc<Outbox>,
    item: u32,
}

/// Item number that denotes a table of last values instead of a subscription. No subscription has
/// that many items.
const TABLE: u32 = u32::MAX;

/// The `latest` subscriptions without filters of one variable. An engine may have millions of them,
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
        let is_it = |one: &LatestSubscriber| one.item == item && Arc::ptr_eq(&one.outbox, outbox);
        let Some(place) = self.0.iter().position(is_it) else {
            return false;
        };
        let mut list = std::mem::take(&mut self.0).into_vec();
        list.swap_remove(place);
        self.0 = list.into_boxed_slice();
        true
    }

    /// Stores changes in the table of `outbox` from now on.
    pub(crate) fn add_table(&mut self, outbox: Arc<Outbox>) {
        let is_it = |one: &LatestSubscriber| one.item == TABLE && Arc::ptr_eq(&one.outbox, &outbox);
        if !self.0.iter().any(is_it) {
            self.add(outbox, TABLE);
            self.0.rotate_right(1);
        }
    }

    pub(crate) fn remove_table(&mut self, outbox: &Arc<Outbox>) {
        let is_it = |one: &LatestSubscriber| one.item == TABLE && Arc::ptr_eq(&one.outbox, outbox);
        if self.0.iter().any(is_it) {
            let mut list = std::mem::take(&mut self.0).into_vec();
            list.retain(|one| !is_it(one));
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

    #[inline]
    fn subscriptions(&self) -> &[LatestSubscriber] {
        match self.0.first() {
            Some(first) if first.item == TABLE => {
                let tables = self.0.iter().take_while(|one| one.item == TABLE);
                self.0.get(tables.count()..).unwrap_or_default()
            }
            _ => &self.0,
        }
    }

    #[inline]
    pub(crate) fn announce(&self, wakes: &mut Wakes) {
        for one in self.subscriptions() {
            one.outbox.mark(one.item, wakes);
        }
    }
}
