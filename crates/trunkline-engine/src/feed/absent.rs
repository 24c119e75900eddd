//! Members whose session broke, and what a log still has for who comes back.

use super::log::Log;
use super::{Event, Feed, FeedEntry, Room};
use crate::outbox::Wakes;
use crate::update::Update;

/// Entries of a log that are looked through for the updates of one variable: who comes back with
/// many variables must not keep the writers waiting.
const LOOK_BACK: usize = 1024;

impl Feed {
    /// The member's session is gone: from now on it holds the newest of what comes, as much as its
    /// bound allows, until it [departs](Feed::depart). Writers that wait for it go on.
    pub(crate) fn set_absent(&self, member: usize, wakes: &mut Wakes) {
        self.log.lock().set_absent(member, wakes);
    }

    /// Takes everything out that waits for a member, behind what is in `out`.
    pub(crate) fn take_rest(&self, member: usize, out: &mut Vec<FeedEntry>, wakes: &mut Wakes) {
        self.log.lock().take_rest(member, out, wakes);
    }

    /// Adds the updates of a place behind `after`, as far as they are among the newest entries.
    pub(crate) fn recent_of(&self, place: u32, after: u64, out: &mut Vec<Update>) {
        self.log.lock().recent_of(place, after, out);
    }
}

impl Log {
    fn set_absent(&mut self, member: usize, wakes: &mut Wakes) {
        self.settle_all();
        let Some(one) = self.members.get_mut(member).and_then(Option::as_mut) else {
            return;
        };
        one.absent = true;
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

    fn recent_of(&self, place: u32, after: u64, out: &mut Vec<Update>) {
        let newest = self.entries.iter().rev().take(LOOK_BACK);
        for entry in newest.filter(|entry| entry.place == place) {
            if let Event::Next(update) = &entry.event {
                if update.sequence <= after {
                    return;
                }
                out.push(update.clone());
            }
        }
    }

    /// An absent member goes past what it has held longest, until there is `room` and an eighth of
    /// its bound beside it, so that this is not to be done with every write.
    #[cold]
    pub(super) fn drop_oldest(&mut self, at: usize, room: Room, wakes: &mut Wakes) {
        let (start, total) = (self.start, self.total());
        let Some(one) = self.members.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let waiting = total.minus(one.passed);
        let updates = one.terms.elements_max - one.terms.elements_max / 8;
        let bytes = one.terms.bytes_max - one.terms.bytes_max / 8;
        let mut freed = Room::default();
        let fits = |freed: Room| {
            let left = waiting.minus(freed);
            freed.updates > 0
                && left.updates + room.updates <= updates
                && left.bytes.saturating_add(room.bytes) <= bytes
        };
        while !fits(freed)
            && let Some(entry) = one.backlog.pop_front()
        {
            freed.add(entry.room());
        }
        let from = one.cursor.saturating_sub(start) as usize;
        for entry in self.entries.iter().skip(from) {
            if fits(freed) {
                break;
            }
            freed.add(entry.room());
            one.cursor += 1;
        }
        if !freed.is_none() {
            one.pass(freed, waiting.minus(freed).is_none(), wakes);
        }
        self.trim();
    }
}
