//! Keeps the members of lost sessions in a feed until the sessions return.

use std::collections::VecDeque;
use std::fmt;

use super::{Feed, FeedEntry, QueueSize};
use crate::delivery::outbox::Wakes;
use crate::update::Update;

/// Data of an absent member, stored outside its feed. It is older than everything queued in the
/// feed, and becomes useless once an update between the two is missing. The methods are called
/// under the feed's lock.
pub(crate) trait Older: fmt::Debug + Send {
    /// Reports that an update of the variable at this place was dropped from the feed.
    fn miss(&mut self, place: u32);

    /// Reports that updates of any place may have been dropped.
    fn miss_all(&mut self);

    /// Drops data that has become useless. Returns true if this released bytes.
    fn forget_missed(&mut self, wakes: &mut Wakes) -> bool;

    /// Reports that all queued entries were taken out and stored as well, so that nothing is
    /// missing after the stored data.
    fn reset_gaps(&mut self);
}

impl Feed {
    /// Marks a member as absent because its session is lost. From now on it queues the newest
    /// updates, within its bound, until it [departs](Feed::depart). `older` is the data that
    /// precedes them. Wakes the writers that wait for the member.
    pub(crate) fn set_absent(&self, member: usize, older: Box<dyn Older>, wakes: &mut Wakes) {
        self.log.lock().set_absent(member, older, wakes);
    }

    /// Replaces the data that precedes the queue of an absent member. `catch_up` reports the
    /// updates missed so far to the new data.
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

    /// Takes out all entries queued for a member, to be stored elsewhere. Returns the number of
    /// engine bytes that stay borrowed for them; the caller now owns these bytes.
    pub(crate) fn take_rest(
        &self,
        member: usize,
        out: &mut VecDeque<FeedEntry>,
        wakes: &mut Wakes,
    ) -> usize {
        self.log.lock().take_rest(member, out, wakes)
    }

    /// Like [`Feed::pass`], for entries that were taken before and are stored elsewhere. Returns
    /// the number of engine bytes that stay borrowed for them; the caller now owns these bytes.
    pub(crate) fn hand_over(&self, member: usize, room: QueueSize, wakes: &mut Wakes) -> usize {
        match room.is_none() {
            true => 0,
            false => self.log.lock().hand_over(member, room, wakes),
        }
    }

    /// Drops the older data of the variable at this place, unless it is needed elsewhere. Called
    /// for each variable before a member leaves.
    pub(crate) fn miss(&self, member: usize, place: u32, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        let older = log.member_mut(member).and_then(|one| one.older.as_mut());
        if let Some(older) = older {
            older.miss(place);
            older.forget_missed(wakes);
        }
    }

    /// Searches the newest entries, at most `scan_budget` of them, for updates of a variable after
    /// sequence `after`, and adds these to `out`. Reduces `scan_budget` by the number of examined
    /// entries.
    pub(crate) fn recent_of(
        &self,
        place: u32,
        after: u64,
        scan_budget: &mut usize,
        out: &mut Vec<Update>,
    ) {
        self.log.lock().recent_of(place, after, scan_budget, out);
    }
}
