//! Updates of a lost session that are stored outside its feeds, and their cost.
//!
//! These are the updates that were sent but never confirmed, and those taken out of the feeds. They
//! are older than everything queued there. When a feed drops the oldest updates of a variable, a
//! gap follows the stored ones, so they are dropped too.

use std::collections::HashMap;

use super::charge::Charge;
use crate::delivery::feed::{Older, QueueSize};
use crate::delivery::outbox::Wakes;
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// Updates by the handles of their variables, and their bytes. Locked after a feed.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// The stored updates, by handle.
    updates: HashMap<u32, Vec<Update>>,
    /// For each owed variable, the number of feeds that still contain every update after the stored
    /// ones.
    gapless_feeds: HashMap<u32, usize>,
    /// Useless updates that have not been freed yet.
    useless: Vec<Vec<Update>>,
    pub(crate) charge: Charge,
}

pub(crate) fn cost_of(update: &Update) -> usize {
    QueueSize::one(update.value.as_slice().len()).cost()
}

impl Backlog {
    pub(crate) fn new(charge: Charge) -> Self {
        Self {
            updates: HashMap::new(),
            gapless_feeds: HashMap::new(),
            useless: Vec::new(),
            charge,
        }
    }

    /// Returns true if one of the feeds still contains every update of a variable after the stored
    /// ones.
    fn is_useful(&self, handle: u32) -> bool {
        self.gapless_feeds
            .get(&handle)
            .is_some_and(|feeds| *feeds > 0)
    }

    /// Adds an update whose cost is already charged here.
    pub(crate) fn add_charged(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        if self.is_useful(handle) {
            self.updates.entry(handle).or_default().push(update);
        } else {
            self.charge.give_back(cost_of(&update), wakes);
        }
    }

    /// Adds an update that was not charged before, if bytes can be spared or are freed by dropping
    /// older updates of its variable.
    pub(crate) fn add(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        if !self.is_useful(handle) {
            return;
        }
        let cost = cost_of(&update);
        let is_charged = self.charge.take(cost) || {
            self.forget_before(handle, update.sequence, wakes);
            self.charge.take(cost)
        };
        if is_charged {
            self.updates.entry(handle).or_default().push(update);
        }
    }

    /// Adds an update that was queued until now, if its bytes were handed over, are free, or are
    /// freed by dropping the older half of all stored updates.
    pub(crate) fn add_waiting(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        if !self.is_useful(handle) {
            return;
        }
        let cost = cost_of(&update);
        let is_charged = self.charge.take_over(cost) || {
            self.forget_older(wakes);
            self.charge.take_over(cost)
        };
        if is_charged {
            self.updates.entry(handle).or_default().push(update);
        } else {
            self.forget_before(handle, update.sequence, wakes);
        }
    }

    /// Drops the older half of the stored updates of each variable.
    #[cold]
    fn forget_older(&mut self, wakes: &mut Wakes) {
        let mut cost = 0;
        self.updates.retain(|_, stored| {
            // The updates have several sources, so they may be out of order.
            stored.sort_by_key(|one| one.sequence);
            let half = stored.len().div_ceil(2);
            cost += stored.drain(..half).map(|one| cost_of(&one)).sum::<usize>();
            !stored.is_empty()
        });
        self.charge.give_back(cost, wakes);
    }

    /// Drops the stored updates of a variable up to `sequence`, because the update with that
    /// sequence is not stored.
    #[cold]
    fn forget_before(&mut self, handle: u32, sequence: u64, wakes: &mut Wakes) {
        let Some(stored) = self.updates.get_mut(&handle) else {
            return;
        };
        let mut cost = 0;
        stored.retain(|one| {
            let stays = one.sequence > sequence;
            cost += if stays { 0 } else { cost_of(one) };
            stays
        });
        if stored.is_empty() {
            self.updates.remove(&handle);
        }
        self.charge.give_back(cost, wakes);
    }

    /// Returns a copy of the stored updates of a variable, for updates that other subscriptions
    /// need too.
    pub(crate) fn of(&self, handle: u32) -> Option<Vec<Update>> {
        self.updates.get(&handle).cloned()
    }

    /// Takes the stored updates of a variable that no other subscription needs. Also returns their
    /// borrowed engine bytes, which the caller now owns.
    pub(crate) fn take(&mut self, handle: u32) -> Option<(Vec<Update>, usize)> {
        self.gapless_feeds.remove(&handle);
        let stored = self.updates.remove(&handle)?;
        let cost = stored.iter().map(cost_of).sum();
        Some((stored, self.charge.hand_over(cost)))
    }

    /// Drops the stored updates of a variable, and returns their cost.
    fn forget(&mut self, handle: u32, wakes: &mut Wakes) -> usize {
        let stored = self.updates.remove(&handle).unwrap_or_default();
        let cost = stored.iter().map(cost_of).sum();
        if cost > 0 {
            self.charge.give_back(cost, wakes);
        }
        cost
    }

    /// Marks all updates as useless, because no session can take over any more.
    /// [`drop_excess`](Self::drop_excess) frees the memory.
    pub(crate) fn forget_all(&mut self) {
        self.useless
            .extend(self.updates.drain().map(|(_, stored)| stored));
        self.gapless_feeds.clear();
    }

    /// Frees useless updates in slices of `budget` updates. Returns false if some remain.
    pub(crate) fn drop_excess(&mut self, budget: &mut usize, wakes: &mut Wakes) -> bool {
        let mut cost = 0;
        while *budget > 0
            && let Some(stored) = self.useless.last_mut()
        {
            let from = stored.len().saturating_sub(*budget);
            *budget -= stored.len() - from;
            cost += stored.drain(from..).map(|one| cost_of(&one)).sum::<usize>();
            if stored.is_empty() {
                self.useless.pop();
            }
        }
        self.charge.give_back(cost, wakes);
        let is_done = self.useless.is_empty();
        if is_done {
            self.charge.settle(wakes);
        }
        is_done
    }
}

/// Tracks, for an absent member of a feed, which stored updates are still useful, by the places of
/// their variables in the feed.
#[derive(Debug)]
pub(crate) struct GapTracker {
    backlog: Arc<Mutex<Backlog>>,
    /// Handles of the variables for which the feed contains every update after the stored ones.
    gapless: HashMap<u32, u32>,
    /// Handles of the variables for which the feed has dropped an update after the stored ones.
    gapped: HashMap<u32, u32>,
    /// Handles of variables that moved to `gapped`, which `backlog` does not reflect yet.
    missed: Vec<u32>,
}

impl GapTracker {
    /// Creates the tracker for a feed with these variables, by place.
    pub(crate) fn new(backlog: &Arc<Mutex<Backlog>>, handles: HashMap<u32, u32>) -> Self {
        let mut locked = backlog.lock();
        for handle in handles.values() {
            *locked.gapless_feeds.entry(*handle).or_default() += 1;
        }
        drop(locked);
        Self {
            backlog: Arc::clone(backlog),
            gapless: handles,
            gapped: HashMap::new(),
            missed: Vec::new(),
        }
    }
}

impl Older for GapTracker {
    fn miss(&mut self, place: u32) {
        if let Some(handle) = self.gapless.remove(&place) {
            self.gapped.insert(place, handle);
            self.missed.push(handle);
        }
    }

    fn miss_all(&mut self) {
        self.missed.extend(self.gapless.values());
        self.gapped.extend(self.gapless.drain());
    }

    fn forget_missed(&mut self, wakes: &mut Wakes) -> bool {
        if self.missed.is_empty() {
            return false;
        }
        let mut backlog = self.backlog.lock();
        let mut cost = 0;
        for handle in self.missed.drain(..) {
            if let Some(feeds) = backlog.gapless_feeds.get_mut(&handle) {
                *feeds = feeds.saturating_sub(1);
                if *feeds == 0 {
                    cost += backlog.forget(handle, wakes);
                }
            }
        }
        if cost > 0 {
            backlog.charge.settle(wakes);
        }
        cost > 0
    }

    fn reset_gaps(&mut self) {
        if self.gapped.is_empty() {
            return;
        }
        let mut backlog = self.backlog.lock();
        for handle in self.gapped.values() {
            if let Some(feeds) = backlog.gapless_feeds.get_mut(handle) {
                *feeds += 1;
            }
        }
        self.gapless.extend(self.gapped.drain());
    }
}
