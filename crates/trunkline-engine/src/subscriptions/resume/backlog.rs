//! Updates of a lost session that are stored outside its feeds, and their cost.
//!
//! These are the updates that were sent but never confirmed, and those taken out of the feeds. They
//! are older than everything queued there. When a feed drops the oldest updates of a variable, a
//! gap follows the stored ones, so they are dropped too.

use std::collections::HashMap;

use super::charge::Charge;
use crate::delivery::feed::{Older, Room};
use crate::delivery::outbox::Wakes;
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// Updates by the handles of their variables, and their bytes. Locked after a feed.
#[derive(Debug)]
pub(crate) struct Backlog {
    updates: HashMap<u32, Vec<Update>>,
    /// For each owed variable, the number of feeds that still contain every update after the stored
    /// ones.
    whole_in: HashMap<u32, usize>,
    /// Useless updates that have not been freed yet.
    over: Vec<Vec<Update>>,
    pub(crate) charge: Charge,
}

pub(crate) fn cost_of(update: &Update) -> usize {
    Room::one(update.value.as_slice().len()).cost()
}

impl Backlog {
    pub(crate) fn new(charge: Charge) -> Self {
        Self {
            updates: HashMap::new(),
            whole_in: HashMap::new(),
            over: Vec::new(),
            charge,
        }
    }

    /// Returns true if one of the feeds still contains every update of a variable after the stored
    /// ones.
    fn is_wanted(&self, handle: u32) -> bool {
        self.whole_in.get(&handle).is_some_and(|feeds| *feeds > 0)
    }

    /// Adds an update whose cost is already charged here.
    pub(crate) fn add_charged(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        if self.is_wanted(handle) {
            self.updates.entry(handle).or_default().push(update);
        } else {
            self.charge.give_back(cost_of(&update), wakes);
        }
    }

    /// Adds an update that was not charged before, if bytes can be spared or are freed by dropping
    /// older updates of its variable.
    pub(crate) fn add(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        if !self.is_wanted(handle) {
            return;
        }
        let cost = cost_of(&update);
        let is_taken = self.charge.take(cost) || {
            self.forget_before(handle, update.sequence, wakes);
            self.charge.take(cost)
        };
        if is_taken {
            self.updates.entry(handle).or_default().push(update);
        }
    }

    /// Adds an update that was queued until now, if its bytes were handed over, are free, or are
    /// freed by dropping the older half of all stored updates.
    pub(crate) fn add_waiting(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        if !self.is_wanted(handle) {
            return;
        }
        let cost = cost_of(&update);
        let is_taken = self.charge.take_over(cost) || {
            self.forget_older(wakes);
            self.charge.take_over(cost)
        };
        if is_taken {
            self.updates.entry(handle).or_default().push(update);
        } else {
            self.forget_before(handle, update.sequence, wakes);
        }
    }

    /// Drops the older half of the stored updates of each variable.
    #[cold]
    fn forget_older(&mut self, wakes: &mut Wakes) {
        let mut cost = 0;
        self.updates.retain(|_, known| {
            // The updates have several sources, so they may be out of order.
            known.sort_by_key(|one| one.sequence);
            let half = known.len().div_ceil(2);
            cost += known.drain(..half).map(|one| cost_of(&one)).sum::<usize>();
            !known.is_empty()
        });
        self.charge.give_back(cost, wakes);
    }

    /// Drops the stored updates of a variable up to `sequence`, because the update with that
    /// sequence is not stored.
    #[cold]
    fn forget_before(&mut self, handle: u32, sequence: u64, wakes: &mut Wakes) {
        let Some(known) = self.updates.get_mut(&handle) else {
            return;
        };
        let mut cost = 0;
        known.retain(|one| {
            let stays = one.sequence > sequence;
            cost += if stays { 0 } else { cost_of(one) };
            stays
        });
        if known.is_empty() {
            self.updates.remove(&handle);
        }
        self.charge.give_back(cost, wakes);
    }

    /// Returns a copy of the stored updates of a variable that are also needed elsewhere.
    pub(crate) fn of(&self, handle: u32) -> Option<Vec<Update>> {
        self.updates.get(&handle).cloned()
    }

    /// Takes the stored updates of a variable that are not needed elsewhere. Also returns their
    /// borrowed engine bytes, which the caller now owns.
    pub(crate) fn take(&mut self, handle: u32) -> Option<(Vec<Update>, usize)> {
        self.whole_in.remove(&handle);
        let known = self.updates.remove(&handle)?;
        let cost = known.iter().map(cost_of).sum();
        Some((known, self.charge.hand_over(cost)))
    }

    /// Drops the stored updates of a variable, and returns their cost.
    fn forget(&mut self, handle: u32, wakes: &mut Wakes) -> usize {
        let known = self.updates.remove(&handle).unwrap_or_default();
        let cost = known.iter().map(cost_of).sum();
        if cost > 0 {
            self.charge.give_back(cost, wakes);
        }
        cost
    }

    /// Marks all updates as useless, because no session can take over any more.
    /// [`drop_excess`](Self::drop_excess) frees the memory.
    pub(crate) fn forget_all(&mut self) {
        self.over
            .extend(self.updates.drain().map(|(_, known)| known));
        self.whole_in.clear();
    }

    /// Frees useless updates in slices of `budget` updates. Returns false if some remain.
    pub(crate) fn drop_excess(&mut self, budget: &mut usize, wakes: &mut Wakes) -> bool {
        let mut cost = 0;
        while *budget > 0
            && let Some(known) = self.over.last_mut()
        {
            let from = known.len().saturating_sub(*budget);
            *budget -= known.len() - from;
            cost += known.drain(from..).map(|one| cost_of(&one)).sum::<usize>();
            if known.is_empty() {
                self.over.pop();
            }
        }
        self.charge.give_back(cost, wakes);
        let is_over = self.over.is_empty();
        if is_over {
            self.charge.settle(wakes);
        }
        is_over
    }
}

/// Tracks, for an absent member of a feed, which stored updates are still useful, by the places of
/// their variables in the feed.
#[derive(Debug)]
pub(crate) struct BacklogBehind {
    kept: Arc<Mutex<Backlog>>,
    /// Handles of the variables for which the feed contains every update after the stored ones.
    whole: HashMap<u32, u32>,
    parted: HashMap<u32, u32>,
    /// Handles of variables that moved to `parted`, which `kept` does not reflect yet.
    missed: Vec<u32>,
}

impl BacklogBehind {
    /// Creates the tracker for a feed with these variables, by place.
    pub(crate) fn new(kept: &Arc<Mutex<Backlog>>, handles: HashMap<u32, u32>) -> Self {
        let mut locked = kept.lock();
        for handle in handles.values() {
            *locked.whole_in.entry(*handle).or_default() += 1;
        }
        drop(locked);
        Self {
            kept: Arc::clone(kept),
            whole: handles,
            parted: HashMap::new(),
            missed: Vec::new(),
        }
    }
}

impl Older for BacklogBehind {
    fn miss(&mut self, place: u32) {
        if let Some(handle) = self.whole.remove(&place) {
            self.parted.insert(place, handle);
            self.missed.push(handle);
        }
    }

    fn miss_all(&mut self) {
        self.missed.extend(self.whole.values());
        self.parted.extend(self.whole.drain());
    }

    fn forget_missed(&mut self, wakes: &mut Wakes) -> bool {
        if self.missed.is_empty() {
            return false;
        }
        let mut kept = self.kept.lock();
        let mut cost = 0;
        for handle in self.missed.drain(..) {
            if let Some(feeds) = kept.whole_in.get_mut(&handle) {
                *feeds = feeds.saturating_sub(1);
                if *feeds == 0 {
                    cost += kept.forget(handle, wakes);
                }
            }
        }
        if cost > 0 {
            kept.charge.settle(wakes);
        }
        cost > 0
    }

    fn begin_anew(&mut self) {
        if self.parted.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        for handle in self.parted.values() {
            if let Some(feeds) = kept.whole_in.get_mut(handle) {
                *feeds += 1;
            }
        }
        self.whole.extend(self.parted.drain());
    }
}
