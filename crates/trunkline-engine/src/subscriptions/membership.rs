//! A subscription's membership in a feed.

use std::collections::{HashMap, HashSet, VecDeque};

use super::in_flight::{ItemRef, ItemTable};
use crate::delivery::feed::{Event, Feed, FeedEntry, MemberOptions, QueueSize};
use crate::delivery::outbox::Outbox;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

#[derive(Debug)]
pub(super) struct Membership {
    pub(super) feed: Arc<Feed>,
    pub(super) member: usize,
    /// The index in the outbox that represents the subscription.
    pub(super) mark: u32,
    /// Item and handle of each variable, by the variable's place, which is its number in the feed.
    pub(super) table: Arc<ItemTable>,
    /// The item and the place of each variable, by handle.
    pub(super) by_handle: HashMap<u32, (u32, u32)>,
    /// Entries taken from the feed and not delivered yet.
    pub(super) taken: VecDeque<FeedEntry>,
    /// Size of the entries in `taken` that date from before the subscription.
    pub(super) past: QueueSize,
    /// True if no variable has been added to or removed from the subscription since it last looked for
    /// a feed to share.
    pub(super) is_settled: bool,
}

/// Removes a feed from a variable's subscribers.
pub(super) fn leave_feed(variable: &Variable, feed: &Arc<Feed>) {
    let mut state = variable.lock();
    if let Some(subscribers) = state.subscribers_mut()
        && subscribers.remove_feed(feed).is_some()
    {
        feed.remove_place();
    }
    variable.clear_slow_path(&state);
}

/// The updates of one item that are queued in a feed.
pub(super) struct WaitingOf {
    pub(super) count: u64,
    pub(super) newest: Option<u64>,
    /// True if the subscription has ended and will get nothing else.
    pub(super) ended: bool,
}

impl Membership {
    pub(super) fn new(outbox: &Arc<Outbox>, mark: u32, elements: u32, bytes: u32) -> Self {
        let options = MemberOptions {
            outbox: Arc::clone(outbox),
            mark,
            updates_max: elements as usize,
            bytes_max: bytes as usize,
        };
        Self {
            feed: Arc::new(Feed::new(options)),
            member: 0,
            mark,
            table: Arc::default(),
            by_handle: HashMap::new(),
            taken: VecDeque::new(),
            past: QueueSize::default(),
            is_settled: false,
        }
    }

    /// Adds a variable to the feed, which must not be shared. Returns its place.
    pub(super) fn add(&mut self, handle: u32, index: u32) -> u32 {
        let place = self.feed.add_place();
        let table = Arc::make_mut(&mut self.table);
        let needed = place as usize + 1;
        table.resize(needed.max(table.len()), ItemRef::EMPTY);
        if let Some(item_ref) = table.get_mut(place as usize) {
            *item_ref = ItemRef { index, handle };
        }
        self.by_handle.insert(handle, (index, place));
        place
    }

    /// Removes the feed from a variable's subscribers. For a shared feed, this happens only if the
    /// variable was undeployed; there are then no further updates that the other members could miss.
    pub(super) fn forget(&mut self, variable: &Variable) {
        self.by_handle.remove(&variable.handle());
        leave_feed(variable, &self.feed);
    }

    pub(super) fn waiting_of(&self, handle: u32) -> WaitingOf {
        let place = self
            .by_handle
            .get(&handle)
            .map_or(u32::MAX, |(_, place)| *place);
        let taken = self.taken.iter().filter(|entry| entry.is_update_of(place));
        let newest_taken = taken.clone().next_back().map(FeedEntry::sequence);
        let newest = self.feed.newest_of(self.member, place);
        WaitingOf {
            count: taken.count() as u64 + self.feed.waiting_of(self.member, place),
            newest: newest.or(newest_taken),
            ended: self.feed.has_ended(self.member),
        }
    }

    pub(super) fn index_at(&self, place: u32) -> u32 {
        let item_ref = self.table.get(place as usize);
        item_ref.unwrap_or(&ItemRef::EMPTY).index
    }

    /// Drops the taken entries of these places. Returns the size that the feed still counts
    /// for them, and the memory cost, in bytes, of those from before the subscription.
    pub(super) fn drop_taken(&mut self, places: &HashSet<u32>) -> (QueueSize, usize) {
        let mut freed = QueueSize::default();
        let before = self.past;
        let past = &mut self.past;
        self.taken.retain(|entry| {
            let stays = !places.contains(&entry.place);
            if !stays {
                freed.add(entry.room());
                past.leave(entry.past());
            }
            stays
        });
        (freed, before.cost() - self.past.cost())
    }

    /// Queues earlier updates of a variable before future ones.
    pub(super) fn put_past(&mut self, place: u32, updates: Vec<Update>) {
        for update in updates {
            self.past.add(QueueSize::one(update.value.as_slice().len()));
            let entry = FeedEntry {
                place,
                event: Event::Past(update),
            };
            self.taken.push_back(entry);
        }
    }
}
