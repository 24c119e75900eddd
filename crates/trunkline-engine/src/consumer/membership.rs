//! A subscription's part in a feed.

use std::collections::{HashMap, HashSet, VecDeque};

use super::in_flight::{Seat, Table};
use crate::feed::{Event, Feed, FeedEntry, Room, Terms};
use crate::outbox::Outbox;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

/// What a subscription knows of the feed that it is in.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) feed: Arc<Feed>,
    /// Its number there.
    pub(super) member: usize,
    /// The index in the outbox that stands for the subscription.
    pub(super) mark: u32,
    /// The item at each place of the feed.
    pub(super) table: Arc<Table>,
    /// The item of each variable, and its place.
    pub(super) by_handle: HashMap<u32, (u32, u32)>,
    /// Taken out of the feed and not delivered yet.
    pub(super) taken: VecDeque<FeedEntry>,
    /// What is in it from before the subscription.
    pub(super) past: Room,
    /// Its variables are as they were when it last looked for others with the same.
    pub(super) is_settled: bool,
}

/// Takes a feed out of a variable's interests.
pub(super) fn leave_feed(variable: &Variable, feed: &Arc<Feed>) {
    let mut state = variable.lock();
    if let Some(interests) = state.interests_mut()
        && interests.remove_feed(feed).is_some()
    {
        feed.remove_place();
    }
    variable.forget_attended(&state);
}

/// What of an item waits in a feed.
pub(super) struct WaitingOf {
    pub(super) count: u64,
    /// The number of the newest of it.
    pub(super) newest: Option<u64>,
    /// The subscription has ended, and gets nothing else.
    pub(super) ended: bool,
}

impl Membership {
    pub(super) fn new(outbox: &Arc<Outbox>, mark: u32, elements: u32, bytes: u32) -> Self {
        let terms = Terms {
            outbox: Arc::clone(outbox),
            mark,
            elements_max: elements as usize,
            bytes_max: bytes as usize,
        };
        Self {
            feed: Arc::new(Feed::new(terms)),
            member: 0,
            mark,
            table: Arc::default(),
            by_handle: HashMap::new(),
            taken: VecDeque::new(),
            past: Room::default(),
            is_settled: false,
        }
    }

    /// Adds a variable to the feed, which is not shared; returns its place.
    pub(super) fn add(&mut self, handle: u32, index: u32) -> u32 {
        let place = self.feed.add_place();
        let table = Arc::make_mut(&mut self.table);
        let needed = place as usize + 1;
        table.resize(needed.max(table.len()), Seat::EMPTY);
        if let Some(seat) = table.get_mut(place as usize) {
            *seat = Seat { index, handle };
        }
        self.by_handle.insert(handle, (index, place));
        place
    }

    /// Takes the feed out of a variable's interests. Where others share it the variable is gone:
    /// they have all it had, too.
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
        let seat = self.table.get(place as usize);
        seat.unwrap_or(&Seat::EMPTY).index
    }

    /// Room of the entries that were taken, as the feed still counts it, of these places; and what
    /// those cost that are from before the subscription.
    pub(super) fn drop_taken(&mut self, places: &HashSet<u32>) -> (Room, usize) {
        let mut freed = Room::default();
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

    /// Puts what was found of a variable before what comes.
    pub(super) fn put_past(&mut self, place: u32, updates: Vec<Update>) {
        for update in updates {
            self.past.add(Room::one(update.value.as_slice().len()));
            let entry = FeedEntry {
                place,
                event: Event::Past(update),
            };
            self.taken.push_back(entry);
        }
    }
}
