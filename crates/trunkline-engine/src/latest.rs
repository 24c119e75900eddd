//! The subscriptions of `latest` without filters, and what a commit does for all of them and the
//! others.

use trunkline_ring::TableWriter;

use crate::group::GroupRooms;
use crate::interest::{Interest, Interests, Kind};
use crate::outbox::{Outbox, Wakes};
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::State;

/// A subscription of `latest` without filters: the mark is all.
#[derive(Debug)]
pub(crate) struct Plain {
    outbox: Arc<Outbox>,
    item: u32,
}

/// The item of what is no subscription but a table of last values; no subscription has so many.
const TABLE: u32 = u32::MAX;

/// The subscriptions of `latest` without filters of one variable: there may be millions of them in
/// an engine, so the list is no longer than it has to be. Tables of last values come first.
#[derive(Debug, Default)]
pub(crate) struct Plains(Box<[Plain]>);

impl Plains {
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

    fn add(&mut self, outbox: Arc<Outbox>, item: u32) {
        let mut list = std::mem::take(&mut self.0).into_vec();
        list.reserve_exact(1);
        list.push(Plain { outbox, item });
        self.0 = list.into_boxed_slice();
    }

    fn remove(&mut self, outbox: &Arc<Outbox>, item: u32) -> bool {
        let is_it = |one: &Plain| one.item == item && Arc::ptr_eq(&one.outbox, outbox);
        let Some(place) = self.0.iter().position(is_it) else {
            return false;
        };
        let mut list = std::mem::take(&mut self.0).into_vec();
        list.swap_remove(place);
        self.0 = list.into_boxed_slice();
        true
    }

    /// From now on changes are to be stored into the table of `outbox`.
    pub(crate) fn add_table(&mut self, outbox: Arc<Outbox>) {
        let is_it = |one: &Plain| one.item == TABLE && Arc::ptr_eq(&one.outbox, &outbox);
        if !self.0.iter().any(is_it) {
            self.add(outbox, TABLE);
            self.0.rotate_right(1);
        }
    }

    pub(crate) fn remove_table(&mut self, outbox: &Arc<Outbox>) {
        let is_it = |one: &Plain| one.item == TABLE && Arc::ptr_eq(&one.outbox, outbox);
        if self.0.iter().any(is_it) {
            let mut list = std::mem::take(&mut self.0).into_vec();
            list.retain(|one| !is_it(one));
            self.0 = list.into_boxed_slice();
        }
    }

    /// It is stored into no table any more.
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

    /// Those that are subscriptions.
    #[inline]
    fn subscriptions(&self) -> &[Plain] {
        match self.0.first() {
            Some(first) if first.item == TABLE => {
                let tables = self.0.iter().take_while(|one| one.item == TABLE);
                self.0.get(tables.count()..).unwrap_or_default()
            }
            _ => &self.0,
        }
    }

    #[inline]
    fn announce(&self, wakes: &mut Wakes) {
        for one in self.subscriptions() {
            one.outbox.mark(one.item, wakes);
        }
    }
}

impl State {
    /// Adds a subscription other than of `all`.
    pub(crate) fn add_interest(&mut self, interest: Interest) {
        if matches!(interest.kind, Kind::Mark) && !interest.only_changes {
            self.plains.add(interest.outbox, interest.item);
        } else {
            self.make_interests().add(interest);
        }
    }

    /// Takes one out; `None` when it was one of `latest` without filters, or not there.
    pub(crate) fn remove_interest(&mut self, outbox: &Arc<Outbox>, item: u32) -> Option<Interest> {
        if self.plains.remove(outbox, item) {
            return None;
        }
        self.interests_mut()?.remove(outbox, item)
    }

    /// Whether an item is one of `latest` without filters.
    pub(crate) fn is_plain(&self, outbox: &Arc<Outbox>, item: u32) -> bool {
        self.plains.items_of(outbox).any(|one| one == item)
    }

    /// The items of a consumer, those of `all` aside.
    pub(crate) fn items_of(&self, outbox: &Arc<Outbox>) -> impl Iterator<Item = u32> {
        let others = self.interests().map(Interests::iter).into_iter().flatten();
        let others = others.filter(|one| one.is_of(outbox));
        self.plains
            .items_of(outbox)
            .chain(others.map(|one| one.item))
    }

    /// Tells the subscriptions of `latest` without filters.
    #[inline]
    pub(crate) fn announce_plain(&self, wakes: &mut Wakes) {
        self.plains.announce(wakes);
    }

    /// Step 4, last part: hands a numbered update to every subscription; what belongs to `group`
    /// goes into the feeds when all of it is there.
    pub(crate) fn announce(
        &mut self,
        update: &Update,
        changed: bool,
        group: Option<&mut GroupRooms>,
        wakes: &mut Wakes,
    ) {
        self.plains.announce(wakes);
        if let Some(interests) = self.interests_mut() {
            interests.announce(update, changed, group, wakes);
        }
    }

    /// Tells every subscription that the variable was undeployed, behind its last update.
    pub(crate) fn announce_gone(&self, wakes: &mut Wakes) {
        self.plains.announce(wakes);
        if let Some(interests) = self.interests() {
            interests.announce_gone(wakes);
        }
    }
}
