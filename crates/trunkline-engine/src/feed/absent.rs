//! Members whose session broke, and what a log still has for who comes back.

use std::fmt;

use super::log::Log;
use super::{Event, Feed, FeedEntry, Room};
use crate::outbox::Wakes;
use crate::update::Update;

/// What is kept of an absent member beside its feed, and is older than all that waits there: it is
/// of no use once something between is missing. Called under the feed's lock.
pub(crate) trait Older: fmt::Debug + Send {
    /// Something that waited at this place was dropped.
    fn miss(&mut self, place: u32);

    /// Something may be dropped at any place.
    fn miss_all(&mut self);

    /// Drops what is of no use since. Returns whether bytes were given back.
    fn forget_missed(&mut self, wakes: &mut Wakes) -> bool;

    /// All that waited was taken out, to be kept as well: nothing is missing behind that.
    fn begin_anew(&mut self);
}

impl Feed {
    /// The member's session is gone: from now on it holds the newest of what comes, as much as its
    /// bound allows, until it [departs](Feed::depart); `older` goes before that. Writers that wait
    /// for it go on.
    pub(crate) fn set_absent(&self, member: usize, older: Box<dyn Older>, wakes: &mut Wakes) {
        self.log.lock().set_absent(member, older, wakes);
    }

    /// Takes everything out that waits for a member, behind what is in `out`.
    pub(crate) fn take_rest(&self, member: usize, out: &mut Vec<FeedEntry>, wakes: &mut Wakes) {
        self.log.lock().take_rest(member, out, wakes);
    }

    /// Adds the updates of a place behind `after`, as far as they are among the newest `looks`
    /// entries; what is left of those is for others.
    pub(crate) fn recent_of(
        &self,
        place: u32,
        after: u64,
        looks: &mut usize,
        out: &mut Vec<Update>,
    ) {
        self.log.lock().recent_of(place, after, looks, out);
    }
}

impl Log {
    fn set_absent(&mut self, member: usize, older: Box<dyn Older>, wakes: &mut Wakes) {
        self.settle_all();
        let Some(one) = self.members.get_mut(member).and_then(Option::as_mut) else {
            return;
        };
        one.older = Some(older);
        one.forget_full();
        if one.asleep && !one.ended {
            // There is nobody to be marked.
            one.asleep = false;
            self.asleep -= 1;
        }
        one.wake_parked(wakes);
        self.wake_parked(wakes);
    }

    fn take_rest(&mut self, member: usize, out: &mut Vec<FeedEntry>, wakes: &mut Wakes) {
        self.settle_all();
        let (start, end, total) = (self.start, self.end(), self.total());
        let Some(one) = self.members.get_mut(member).and_then(Option::as_mut) else {
            return;
        };
        let before = out.len();
        out.extend(one.backlog.drain(..));
        if !one.ended {
            let from = one.cursor.saturating_sub(start) as usize;
            out.extend(self.entries.iter().skip(from).cloned());
            one.cursor = end;
        }
        if let Some(older) = &mut one.older {
            older.begin_anew();
        }
        let mut freed = Room::default();
        let taken = out.iter().skip(before);
        taken.for_each(|entry| freed.add(entry.room()));
        if !freed.is_none() {
            let mut passed = one.passed;
            passed.add(freed);
            one.pass(freed, total.minus(passed).is_none(), wakes);
        }
        self.trim();
    }

    fn recent_of(&self, place: u32, after: u64, looks: &mut usize, out: &mut Vec<Update>) {
        for entry in self.entries.iter().rev().take(*looks) {
            *looks -= 1;
            if entry.place == place
                && let Event::Next(update) = &entry.event
            {
                if update.sequence <= after {
                    return;
                }
                out.push(update.clone());
            }
        }
    }

    /// An absent member goes past what it has held longest, until its bound has `room`: past an
    /// eighth of what waits, so that this is not to be done with every write; where it gives way to
    /// others past as much as comes. False when nothing was left.
    #[cold]
    pub(super) fn drop_oldest(&mut self, at: usize, room: Room, wakes: &mut Wakes) -> bool {
        let (start, total) = (self.start, self.total());
        let Some(one) = self.members.get_mut(at).and_then(Option::as_mut) else {
            return false;
        };
        let waiting = total.minus(one.passed);
        let least = match one.gives_way() {
            true => (1, room.cost()),
            false => (1 + waiting.updates / 8, 0),
        };
        let (updates, bytes) = (one.terms.elements_max, one.terms.bytes_max);
        let fits = |freed: Room| {
            let left = waiting.minus(freed);
            freed.updates >= least.0
                && freed.cost() >= least.1
                && left.updates + room.updates <= updates
                && left.bytes.saturating_add(room.bytes) <= bytes
        };
        let mut freed = Room::default();
        while !fits(freed)
            && let Some(entry) = one.backlog.pop_front()
        {
            freed.add(entry.room());
            if let Some(older) = &mut one.older {
                older.miss(entry.place);
            }
        }
        let from = one.cursor.saturating_sub(start) as usize;
        for entry in self.entries.iter().skip(from) {
            if fits(freed) {
                break;
            }
            freed.add(entry.room());
            one.cursor += 1;
            if let Some(older) = &mut one.older {
                older.miss(entry.place);
            }
        }
        if let Some(older) = &mut one.older {
            older.forget_missed(wakes);
        }
        if !freed.is_none() {
            one.pass(freed, waiting.minus(freed).is_none(), wakes);
        }
        self.trim();
        !freed.is_none()
    }

    /// Nothing of it waits, and the engine has no bytes for what comes: what is kept of it
    /// elsewhere goes. False when that was nothing.
    #[cold]
    pub(super) fn drop_older(&mut self, at: usize, wakes: &mut Wakes) -> bool {
        let one = self.members.get_mut(at).and_then(Option::as_mut);
        let older = one.and_then(|one| one.older.as_mut());
        older.is_some_and(|older| {
            older.miss_all();
            older.forget_missed(wakes)
        })
    }
}
