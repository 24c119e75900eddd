//! Members whose session broke, and the updates that a log still has for their return.

use std::collections::VecDeque;
use std::fmt;

use super::{Feed, FeedEntry, Room};
use crate::delivery::outbox::Wakes;
use crate::update::Update;

/// Data kept for an absent member outside its feed. It is older than everything queued in the feed,
/// and useless once an update in between is missing. Called under the feed's lock.
pub(crate) trait Older: fmt::Debug + Send {
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
