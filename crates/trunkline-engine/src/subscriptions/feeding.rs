//! Takes the pending updates of `all` subscriptions from their feeds.

use super::Sink;
use super::drain::BATCH_MAX;
use super::in_flight::{InFlight, ItemRef, ItemTable};
use super::items::{ItemVariables, Items};
use super::membership::Membership;
use super::resume::Resume;
use crate::delivery::feed::{Event, FeedEntry, QueueSize, SharedRun, Taken};
use crate::delivery::outbox::Wakes;
use crate::sync::Arc;
use crate::update::Update;

/// An `all` subscription that is being drained, and the parts of its consumer involved.
pub(super) struct FeedDrain<'c> {
    pub(super) id: u32,
    pub(super) credit: &'c mut Option<u64>,
    pub(super) membership: &'c mut Membership,
    pub(super) items: &'c mut Items,
    pub(super) variables: &'c ItemVariables,
    pub(super) in_flight: &'c mut InFlight,
    pub(super) resume: &'c mut Resume,
    pub(super) shares_feeds: bool,
}

impl FeedDrain<'_> {
    /// Takes the next entries from the feed. If the sink accepts an encoded run, the run is
    /// delivered directly.
    pub(super) fn take(&mut self, sink: &mut dyn Sink, wakes: &mut Wakes) -> Step {
        let (runs, membership) = (sink.wants(), &mut *self.membership);
        let credit = self.credit.unwrap_or(u64::MAX);
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
        if let Some(known) = self.credit {
            *known -= u64::from(run.count());
        }
        let confirmed = self.in_flight.tracks_confirmations();
        self.items.note_run(&membership.table, &run, confirmed);
        self.in_flight.push_run(&membership.table, &run);
        sink.deliver_run(self.id, &run);
        feed.pass(member, run.room(), wakes);
        Step::Run(run.count() as usize)
    }

    /// Delivers taken entries, at most [`BATCH_MAX`]. Returns their number and the reason for
    /// stopping.
    pub(super) fn deliver_taken(
        &mut self,
        sink: &mut dyn Sink,
        wakes: &mut Wakes,
    ) -> (usize, Stop) {
        let membership = &mut *self.membership;
        let mut passed = QueueSize::default();
        let mut count = 0;
        let stop = loop {
            let Some(entry) = membership.taken.front() else {
                break Stop::Taken;
            };
            if count > 0 && !sink.wants() {
                break Stop::Sink;
            }
            if let (Event::Next(_), Some(most)) = (&entry.event, batch_size(*self.credit, count)) {
                let mut next = NextUpdates {
                    entries: Some(membership.taken.iter().take(most)),
                    table: &membership.table,
                    items: self.items,
                    in_flight: self.in_flight,
                    room: QueueSize::default(),
                };
                sink.deliver_all(self.id, &mut next);
                let room = next.room;
                if !room.is_none() {
                    if let Some(credit) = self.credit {
                        *credit -= room.updates as u64;
                    }
                    let done = membership.taken.drain(..room.updates);
                    if let Some(sent) = &mut self.resume.unacked {
                        let handle_at = |place| handle_at(&membership.table, place);
                        let (count, left) = (room.updates, self.in_flight.len());
                        sent.extend(done, count, room.cost(), left, handle_at, wakes);
                    }
                    passed.add(room);
                    count += room.updates;
                    match count == BATCH_MAX {
                        true => break Stop::Taken,
                        false => continue,
                    }
                }
            }
            let index = membership.index_at(entry.place);
            let (before, mut gone) = (self.in_flight.len(), None);
            match &entry.event {
                Event::Gone => gone = Some(index),
                Event::First(_) | Event::Next(_) | Event::Past(_) if *self.credit == Some(0) => {
                    break Stop::Credit;
                }
                Event::First(update) | Event::Next(update) | Event::Past(update) => {
                    if let Some(credit) = self.credit {
                        *credit -= 1;
                    }
                    if let Some(variable) = self.variables.get(index) {
                        let in_flight = &mut *self.in_flight;
                        self.items
                            .deliver_buffered(index, variable, update, 0, in_flight, sink);
                    }
                }
            }
            passed.add(entry.room());
            if let Event::Past(_) = &entry.event {
                let past = entry.past();
                membership.past.leave(past);
                self.resume.past.give_back(past.cost(), wakes);
            }
            let in_flight = self.in_flight.len();
            if let Some(entry) = membership.taken.pop_front()
                && let Some(sent) = &mut self.resume.unacked
                && in_flight > before
            {
                let (table, cost) = (&membership.table, entry.cost());
                let handle_at = |place| handle_at(table, place);
                sent.extend(std::iter::once(entry), 1, cost, in_flight, handle_at, wakes);
            }
            count += 1;
            if let Some(index) = gone {
                break Stop::Gone(index);
            }
            if count == BATCH_MAX {
                break Stop::Taken;
            }
        };
        // Frees the room only now, when the delivered updates have left the engine's memory.
        membership.feed.pass(membership.member, passed, wakes);
        (count, stop)
    }
}

/// Returns the number of updates that may be delivered at once, given that `count` of the batch are
/// already delivered; `None` if that is 0.
fn batch_size(credit: Option<u64>, count: usize) -> Option<usize> {
    let credit = credit.map_or(usize::MAX, |credit| {
        usize::try_from(credit).unwrap_or(usize::MAX)
    });
    Some(credit.min(BATCH_MAX - count)).filter(|most| *most > 0)
}

/// Iterates over the next entries of a feed, as long as each is the next update of its item without
/// losses in between. Yielding an entry records its delivery.
struct NextUpdates<'a, I> {
    entries: Option<I>,
    table: &'a ItemTable,
    items: &'a mut Items,
    in_flight: &'a mut InFlight,
    room: QueueSize,
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
            let ItemRef { index, handle } = *self.table.get(entry.place as usize)?;
            if !self.items.note_next(index, update.sequence, self.in_flight) {
                return None;
            }
            self.room.add(QueueSize::one(update.value.as_slice().len()));
            Some((handle, update))
        });
        if noted.is_none() {
            // The next entry needs the general path, even if the sink asks again.
            self.entries = None;
        }
        noted
    }
}

/// Encodes the taken entries as one run for all members of the feed. Returns `None` if the sink
/// does not encode.
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

pub(super) enum Step {
    /// A run with this many updates was delivered.
    Run(usize),
    Entries,
    Nothing {
        ended: bool,
    },
}

pub(super) enum Stop {
    /// All taken entries are delivered, or the batch is full and other subscriptions come next.
    Taken,
    Gone(u32),
    Credit,
    Sink,
}

#[inline]
fn handle_at(table: &[ItemRef], place: u32) -> u32 {
    table.get(place as usize).unwrap_or(&ItemRef::EMPTY).handle
}
