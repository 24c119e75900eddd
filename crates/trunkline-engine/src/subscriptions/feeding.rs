//! Takes the pending updates of `all` subscriptions from their feeds.

use std::collections::HashMap;

use trunkline_types::ledger::EndedItem;

use super::drain::TAKE;
use super::in_flight::{InFlight, Seat, Table};
use super::membership::Membership;
use super::{Consumer, Sink};
use crate::delivery::feed::{Event, FeedEntry, Room, SharedRun, Taken};
use crate::delivery::outbox::Wakes;
use crate::sync::Arc;
use crate::update::Update;

impl Consumer {
    /// Delivers the entries of an `all` subscription as far as its credit allows, and its end after
    /// the last one. Returns true if more waits for the sink. Entries that wait for credit are
    /// marked by the grant.
    pub(super) fn deliver_feed(&mut self, id: u32, sink: &mut dyn Sink, wakes: &mut Wakes) -> bool {
        self.settle(id, wakes);
        let mut delivered = 0;
        loop {
            // Checked before entries are taken that would then have to be delivered one by one.
            if delivered >= TAKE || (delivered > 0 && !sink.wants()) {
                return true;
            }
            if !self.has_taken(id) {
                match self.take(id, sink.wants(), sink, wakes) {
                    Step::Run(count) => {
                        delivered += count;
                        continue;
                    }
                    Step::Entries => {}
                    Step::Nothing { ended } => {
                        self.remove_if_empty(id, wakes);
                        if ended {
                            self.end_overrun(id, sink, wakes);
                        }
                        return false;
                    }
                }
            }
            let (count, stop) = self.deliver_taken(id, sink, wakes);
            delivered += count;
            match stop {
                Stop::Credit => return false,
                Stop::Sink => return true,
                Stop::Taken => {}
            }
        }
    }

    pub(super) fn membership(&self, id: u32) -> Option<&Membership> {
        self.subscriptions.get(&id)?.feed.as_ref()
    }

    fn membership_mut(&mut self, id: u32) -> Option<&mut Membership> {
        self.subscriptions.get_mut(&id)?.feed.as_mut()
    }

    fn has_taken(&self, id: u32) -> bool {
        self.membership(id).is_some_and(|one| !one.taken.is_empty())
    }

    /// Takes the next entries from the feed. A run that is already encoded is delivered directly if
    /// the sink accepts it.
    fn take(&mut self, id: u32, runs: bool, sink: &mut dyn Sink, wakes: &mut Wakes) -> Step {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return Step::Nothing { ended: false };
        };
        let credit = subscription.credit.unwrap_or(u64::MAX);
        let Some(membership) = &mut subscription.feed else {
            return Step::Nothing { ended: false };
        };
        let accepts = |run: &SharedRun| u64::from(run.count()) <= credit && sink.takes(run);
        let accepts: Option<&dyn Fn(&SharedRun) -> bool> = match runs && self.shares_feeds {
            true => Some(&accepts),
            false => None,
        };
        let (feed, member) = (&membership.feed, membership.member);
        let run = match feed.take(member, accepts, &mut membership.taken) {
            Taken::Nothing { ended } => return Step::Nothing { ended },
            Taken::Entries => return Step::Entries,
            Taken::Run(run) => run,
            Taken::Fresh(start) => {
                let Some(run) = encode(membership, start, sink) else {
                    return Step::Entries;
                };
                if u64::from(run.count()) > credit || !sink.takes(&run) {
                    membership.taken.extend(run.entries().iter().cloned());
                    return Step::Entries;
                }
                run
            }
        };
        let feed = Arc::clone(&membership.feed);
        if let Some(known) = &mut subscription.credit {
            *known -= u64::from(run.count());
        }
        let confirmed = self.in_flight.is_kept();
        self.items.note_run(&membership.table, &run, confirmed);
        self.in_flight.push_run(&membership.table, &run);
        sink.deliver_run(id, &run);
        feed.pass(member, run.room(), wakes);
        Step::Run(run.count() as usize)
    }

    /// Delivers taken entries, at most as many as one turn allows. Returns their number and the
    /// reason for stopping.
    fn deliver_taken(&mut self, id: u32, sink: &mut dyn Sink, wakes: &mut Wakes) -> (usize, Stop) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return (0, Stop::Taken);
        };
        let Some(membership) = &mut subscription.feed else {
            return (0, Stop::Taken);
        };
        let mut passed = Room::default();
        let mut gone = None;
        let mut count = 0;
        let stop = loop {
            let Some(entry) = membership.taken.front() else {
                break Stop::Taken;
            };
            if count > 0 && !sink.wants() {
                break Stop::Sink;
            }
            if let (Event::Next(_), Some(most)) =
                (&entry.event, most_of(subscription.credit, count))
            {
                let mut next = NextUpdates {
                    entries: Some(membership.taken.iter().take(most)),
                    table: &membership.table,
                    items: &mut self.items,
                    in_flight: &mut self.in_flight,
                    room: Room::default(),
                };
                sink.deliver_all(id, &mut next);
                let room = next.room;
                if !room.is_none() {
                    if let Some(credit) = &mut subscription.credit {
                        *credit -= room.updates as u64;
                    }
                    let done = membership.taken.drain(..room.updates);
                    if let Some(sent) = &mut self.sent {
                        let handle_at = |place| handle_at(&membership.table, place);
                        let (count, left) = (room.updates, self.in_flight.len());
                        sent.extend(done, count, room.cost(), left, handle_at, wakes);
                    }
                    passed.add(room);
                    count += room.updates;
                    match count == TAKE {
                        true => break Stop::Taken,
                        false => continue,
                    }
                }
            }
            let index = membership.index_at(entry.place);
            let before = self.in_flight.len();
            match &entry.event {
                Event::Gone => gone = Some(index),
                Event::First(_) | Event::Next(_) | Event::Past(_)
                    if subscription.credit == Some(0) =>
                {
                    break Stop::Credit;
                }
                Event::First(update) | Event::Next(update) | Event::Past(update) => {
                    if let Some(credit) = &mut subscription.credit {
                        *credit -= 1;
                    }
                    if let Some(variable) = self.bound.get(index) {
                        let in_flight = &mut self.in_flight;
                        self.items
                            .hand_over_buffered(index, variable, update, 0, in_flight, sink);
                    }
                }
            }
            passed.add(entry.room());
            if let Event::Past(_) = &entry.event {
                let past = entry.past();
                membership.past.leave(past);
                self.past.give_back(past.cost(), wakes);
            }
            let in_flight = self.in_flight.len();
            if let Some(entry) = membership.taken.pop_front()
                && let Some(sent) = &mut self.sent
                && in_flight > before
            {
                let (table, cost) = (&membership.table, entry.cost());
                let handle_at = |place| handle_at(table, place);
                sent.extend(std::iter::once(entry), 1, cost, in_flight, handle_at, wakes);
            }
            count += 1;
            if gone.is_some() || count == TAKE {
                break Stop::Taken;
            }
        };
        // Room is made only now, because the delivered updates have left the engine's memory.
        membership.feed.pass(membership.member, passed, wakes);
        if let Some(index) = gone {
            self.end_gone(index, sink, wakes);
        }
        (count, stop)
    }

    /// Reports the end of a subscription, with the exact number of updates that each item misses.
    fn end_overrun(&mut self, id: u32, sink: &mut dyn Sink, wakes: &mut Wakes) {
        let Some(subscription) = self.subscriptions.get(&id) else {
            return;
        };
        let Some(membership) = &subscription.feed else {
            return;
        };
        let is_alone = !membership.feed.shut();
        let mut ended = Vec::with_capacity(subscription.items.len());
        for index in subscription.items.iter() {
            let Some(item) = self.items.get(index) else {
                continue;
            };
            let Some(variable) = self.bound.get(index) else {
                continue;
            };
            let mut state = variable.lock();
            let interest = match is_alone {
                true => state
                    .interests_mut()
                    .and_then(|i| i.remove_feed(&membership.feed)),
                // The other members continue. The feed holds nothing back.
                false => None,
            };
            let filtered = interest.map_or(0, |interest| interest.filtered);
            let held_back = filtered.saturating_sub(self.items.filtered(index));
            let behind = variable.sequence().saturating_sub(item.last());
            ended.push(EndedItem {
                handle: variable.handle(),
                last_sequence: item.last(),
                lost: behind.saturating_sub(held_back),
            });
        }
        let lost = ended.iter().map(|item| item.lost).sum();
        self.engine.losses().add_overrun(lost);
        self.unsubscribe(id, None, wakes);
        sink.overrun(id, &ended);
    }

    /// The item of a variable in an `all` subscription.
    pub(super) fn in_feed(&self, id: u32, handle: u32) -> Option<u32> {
        let (index, _) = self.membership(id)?.by_handle.get(&handle)?;
        Some(*index)
    }

    /// Returns true if a variable is in any of the `all` subscriptions.
    pub(crate) fn has_in_feed(&self, handle: u32) -> bool {
        let mut feeds = self
            .subscriptions
            .values()
            .filter_map(|one| one.feed.as_ref());
        feeds.any(|membership| membership.by_handle.contains_key(&handle))
    }

    /// The part of [`unsubscribe`](Self::unsubscribe) for `all`.
    pub(super) fn unsubscribe_feed(
        &mut self,
        id: u32,
        handles: Option<&[u32]>,
        wakes: &mut Wakes,
    ) -> usize {
        let Some(membership) = self.membership(id) else {
            return 0;
        };
        let closing: HashMap<u32, (u32, u32)> = match handles {
            None => membership.by_handle.clone(),
            Some(handles) => {
                let found = |handle: &u32| Some((*handle, *membership.by_handle.get(handle)?));
                handles.iter().filter_map(found).collect()
            }
        };
        let is_whole = closing.len() == membership.by_handle.len();
        if is_whole && membership.feed.depart_from_others(membership.member, wakes) {
            return self.leave_feed(id, wakes);
        }
        self.stop_sharing(id);
        let mut indices: Vec<u32> = closing.values().map(|(index, _)| *index).collect();
        indices.sort_unstable();
        let closed = indices.iter().filter(|index| self.close(**index, wakes));
        let closed = closed.count();
        // Only after the interests are removed, so that none of them adds entries any more.
        let places = closing.values().map(|(_, place)| *place).collect();
        if let Some(membership) = self.membership_mut(id) {
            let (freed, past) = membership.drop_taken(&places);
            membership.feed.remove_places(&places, freed, wakes);
            self.past.give_back(past, wakes);
        }
        self.remove_if_empty(id, wakes);
        closed
    }

    /// Ends a subscription whose feed continues without it.
    fn leave_feed(&mut self, id: u32, wakes: &mut Wakes) -> usize {
        let Some(subscription) = self.subscriptions.remove(&id) else {
            return 0;
        };
        for index in subscription.items.iter() {
            self.free(index);
        }
        if let Some(membership) = subscription.feed {
            self.past.give_back(membership.past.cost(), wakes);
            self.free(membership.mark);
        }
        subscription.items.len()
    }
}

/// Number of further updates that may be delivered at once, after `count` of this turn; `None` if
/// none.
fn most_of(credit: Option<u64>, count: usize) -> Option<usize> {
    let credit = credit.map_or(usize::MAX, |credit| {
        usize::try_from(credit).unwrap_or(usize::MAX)
    });
    Some(credit.min(TAKE - count)).filter(|most| *most > 0)
}

/// The next entries of a feed, as long as each is simply the next update of its item. Returning an
/// entry takes it.
struct NextUpdates<'a, I> {
    entries: Option<I>,
    table: &'a Table,
    items: &'a mut super::Items,
    in_flight: &'a mut InFlight,
    /// Room of the entries taken.
    room: Room,
}

impl<'a, I: Iterator<Item = &'a FeedEntry>> Iterator for NextUpdates<'a, I> {
    type Item = (u32, &'a Update);

    #[inline]
    fn next(&mut self) -> Option<(u32, &'a Update)> {
        let entry = self.entries.as_mut()?.next();
        let noted = entry.and_then(|entry| {
            let Event::Next(update) = &entry.event else {
                return None;
            };
            let Seat { index, handle } = *self.table.get(entry.place as usize)?;
            if !self.items.note_next(index, update.sequence, self.in_flight) {
                return None;
            }
            self.room.add(Room::one(update.value.as_slice().len()));
            Some((handle, update))
        });
        if noted.is_none() {
            // The next entry cannot be handled here, even if the sink asks again.
            self.entries = None;
        }
        noted
    }
}

/// Encodes the taken entries as one run for all members of the feed. Returns `None` if the sink
/// does not encode them.
fn encode(membership: &mut Membership, start: u64, sink: &mut dyn Sink) -> Option<Arc<SharedRun>> {
    let table = &membership.table;
    let handle_of = |entry: &FeedEntry| handle_at(table, entry.place);
    let mut run = membership.feed.spare_run().unwrap_or_default();
    let empty = Arc::get_mut(&mut run)?;
    if !empty.fill(start, &mut membership.taken, |entries, out| {
        let mut updates = entries.filter_map(|entry| match &entry.event {
            Event::Next(update) => Some((handle_of(entry), update)),
            Event::First(_) | Event::Past(_) | Event::Gone => None,
        });
        sink.encode(&mut updates, out)
    }) {
        return None;
    }
    membership.feed.put_run(&run);
    Some(run)
}

/// The result of taking entries.
enum Step {
    /// A run with this many updates was delivered.
    Run(usize),
    /// Entries were taken.
    Entries,
    Nothing {
        ended: bool,
    },
}

/// The reason why delivery stopped.
enum Stop {
    /// Everything taken is delivered, or others have their turn.
    Taken,
    Credit,
    Sink,
}

/// The handle of the variable at a place of a feed.
#[inline]
fn handle_at(table: &[Seat], place: u32) -> u32 {
    table.get(place as usize).unwrap_or(&Seat::EMPTY).handle
}
