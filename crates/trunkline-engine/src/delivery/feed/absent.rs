//! Members whose session broke, and the updates that a log still has for their return.

use std::collections::VecDeque;
use std::fmt;

use super::log::Log;
use super::member::Attention;
use super::reading::move_behind;
use super::{Event, Feed, FeedEntry, Room};
use crate::delivery::outbox::Wakes;
use crate::update::Update;

/// Data kept for an absent member outside its feed. It is older than everything queued in the feed,
/// and useless once an update in between is missing. Called under the feed's lock.
pub(crate) trait Older: fmt::Debug + Send {
    /// Reports that a queued update of this place was dropped.
    fn miss(&mut self, place: u32);

    /// Reports that updates of any place may be dropped.
    fn miss_all(&mut self);

    /// Drops the data that has become useless. Returns true if bytes were returned.
    fn forget_missed(&mut self, wakes: &mut Wakes) -> bool;

    /// Reports that everything queued was taken out to be kept as well, so that nothing is missing
    /// after it.
    fn begin_anew(&mut self);
}

impl Feed {
    /// Marks a member as absent because its session is gone. From now on it holds the newest
    /// updates, as many as its bound allows, until it [departs](Feed::depart). `older` precedes
    /// them. Wakes the writers that wait for the member.
    pub(crate) fn set_absent(&self, member: usize, older: Box<dyn Older>, wakes: &mut Wakes) {
        self.log.lock().set_absent(member, older, wakes);
    }

    /// Replaces the data that precedes what an absent member holds. `catch_up` reports to it the
    /// updates missed so far.
    pub(crate) fn replace_older(
        &self,
        member: usize,
        mut older: Box<dyn Older>,
        wakes: &mut Wakes,
        catch_up: &mut dyn FnMut(&mut dyn Older),
    ) {
        let mut log = self.log.lock();
        catch_up(&mut *older);
        older.forget_missed(wakes);
        if let Some(one) = log.member_mut(member) {
            one.older = Some(older);
        }
    }

    /// Takes out everything queued for a member, to be kept elsewhere. Returns the number of engine
    /// bytes that stay borrowed for it; the caller owns them from now on.
    pub(crate) fn take_rest(
        &self,
        member: usize,
        out: &mut VecDeque<FeedEntry>,
        wakes: &mut Wakes,
    ) -> usize {
        self.log.lock().take_rest(member, out, wakes)
    }

    /// Like [`Feed::pass`], for entries that were taken before and are kept elsewhere. Returns the
    /// number of engine bytes that stay borrowed for them; the caller owns them from now on.
    pub(crate) fn hand_over(&self, member: usize, room: Room, wakes: &mut Wakes) -> usize {
        match room.is_none() {
            true => 0,
            false => self.log.lock().hand_over(member, room, wakes),
        }
    }

    /// Called before a member leaves, for each place that leaves before it. Drops the older data of
    /// that place unless it is needed elsewhere.
    pub(crate) fn miss(&self, member: usize, place: u32, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        let older = log.member_mut(member).and_then(|one| one.older.as_mut());
        if let Some(older) = older {
            older.miss(place);
            older.forget_missed(wakes);
        }
    }

    /// Adds the updates of a place after sequence `after`, if they are among the newest `looks`
    /// entries. Subtracts the entries examined from `looks`, so that the rest can be spent
    /// elsewhere.
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
        let was_unattended = one.is_unattended() && !one.ended;
        // There is no consumer to be marked.
        one.attention = Attention::Coming;
        self.unattended -= usize::from(was_unattended);
        one.wake_parked(wakes);
        self.wake_parked(wakes);
    }

    fn take_rest(
        &mut self,
        member: usize,
        out: &mut VecDeque<FeedEntry>,
        wakes: &mut Wakes,
    ) -> usize {
        self.settle_all();
        let (start, end, is_alone) = (self.start, self.end(), self.live == 1);
        let Some(one) = self.members.get_mut(member).and_then(Option::as_mut) else {
            return 0;
        };
        let before = out.len();
        move_behind(&mut one.backlog, out);
        if !one.ended {
            if is_alone && one.cursor <= start {
                // No other member takes these entries.
                move_behind(&mut self.entries, out);
                self.start = end;
            } else {
                let from = one.cursor.saturating_sub(start) as usize;
                out.extend(self.entries.iter().skip(from).cloned());
            }
            one.cursor = end;
            if let Some(older) = &mut one.older {
                older.begin_anew();
            }
        }
        let mut freed = Room::default();
        let taken = out.iter().skip(before);
        taken.for_each(|entry| freed.add(entry.room()));
        let lent = match freed.is_none() {
            true => 0,
            false => self.hand_over(member, freed, wakes),
        };
        self.drop_runs();
        self.trim();
        lent
    }

    fn hand_over(&mut self, member: usize, room: Room, wakes: &mut Wakes) -> usize {
        self.settle_all();
        let total = self.total();
        let Some(one) = self.member_mut(member) else {
            return 0;
        };
        let mut passed = one.passed;
        passed.add(room);
        let lent = one.hand_over(room, total.minus(passed).is_none(), wakes);
        self.wake_parked(wakes);
        lent
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

    /// Drops an absent member's oldest entries until its bound has `room`. It drops at least an
    /// eighth of the queue, so that this is not needed for every write. If the member gives way to
    /// others, it drops at least as much as is added. Returns false if nothing was left.
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

    /// Drops the older data of a member with nothing queued, because the engine lacks bytes for new
    /// updates. Returns false if there was none.
    #[cold]
    pub(super) fn drop_older(&mut self, at: usize, wakes: &mut Wakes) -> bool {
        self.member_mut(at).is_some_and(|one| one.miss_all(wakes))
    }
}
