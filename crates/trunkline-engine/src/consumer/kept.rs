//! What is kept of a broken session beside what waits in its feeds, and what that costs.
//!
//! It is what was sent and never confirmed, and what was taken out of the feeds: older than
//! anything that waits there. So where a feed drops the oldest of a variable there is a gap behind
//! it, and it goes as well.

use std::collections::HashMap;

use super::charge::Charge;
use crate::feed::{Older, Room};
use crate::outbox::Wakes;
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// Updates by the handles of their variables, and their bytes. Its lock comes after a feed's.
#[derive(Debug)]
pub(super) struct Kept {
    updates: HashMap<u32, Vec<Update>>,
    /// Of each variable that is owed, the feeds that hold everything that came behind what is here.
    whole_in: HashMap<u32, usize>,
    pub(super) charge: Charge,
}

/// What an update costs while it is kept.
pub(super) fn cost_of(update: &Update) -> usize {
    Room::one(update.value.as_slice().len()).cost()
}

impl Kept {
    pub(super) fn new(charge: Charge) -> Self {
        Self {
            updates: HashMap::new(),
            whole_in: HashMap::new(),
            charge,
        }
    }

    /// Adds an update, where bytes are to spare, or become free when the older half of what is kept
    /// goes.
    pub(super) fn add(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        self.put(handle, update, Charge::take, wakes);
    }

    /// [`add`](Self::add) of what has waited until now, in bytes that are free again.
    pub(super) fn add_waiting(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        self.put(handle, update, Charge::take_over, wakes);
    }

    fn put(
        &mut self,
        handle: u32,
        update: Update,
        take: impl Fn(&mut Charge, usize) -> bool,
        wakes: &mut Wakes,
    ) {
        if self.whole_in.get(&handle).is_none_or(|feeds| *feeds == 0) {
            // What came behind it was dropped meanwhile.
            return;
        }
        let cost = cost_of(&update);
        let is_taken = take(&mut self.charge, cost) || {
            self.forget_older(wakes);
            take(&mut self.charge, cost)
        };
        if is_taken {
            self.updates.entry(handle).or_default().push(update);
        } else {
            // Only what is the newest without a gap is of use.
            self.forget(handle, wakes);
        }
    }

    /// Drops the older half of what is kept of each variable.
    #[cold]
    fn forget_older(&mut self, wakes: &mut Wakes) {
        let mut cost = 0;
        self.updates.retain(|_, known| {
            let half = known.len().div_ceil(2);
            cost += known.drain(..half).map(|one| cost_of(&one)).sum::<usize>();
            !known.is_empty()
        });
        self.charge.give_back(cost, wakes);
        self.charge.settle(wakes);
    }

    /// What is kept of a variable, which others are to get as well.
    pub(super) fn of(&self, handle: u32) -> Option<Vec<Update>> {
        self.updates.get(&handle).cloned()
    }

    /// What is kept of a variable that nobody else is to get.
    pub(super) fn take(&mut self, handle: u32, wakes: &mut Wakes) -> Option<Vec<Update>> {
        self.whole_in.remove(&handle);
        let known = self.updates.remove(&handle)?;
        let cost = known.iter().map(cost_of).sum();
        self.charge.give_back(cost, wakes);
        Some(known)
    }

    /// Drops what is kept of a variable; returns what it cost.
    fn forget(&mut self, handle: u32, wakes: &mut Wakes) -> usize {
        let known = self.updates.remove(&handle).unwrap_or_default();
        let cost = known.iter().map(cost_of).sum();
        if cost > 0 {
            self.charge.give_back(cost, wakes);
        }
        cost
    }

    /// Nobody comes back for it any more.
    pub(super) fn forget_all(&mut self, wakes: &mut Wakes) {
        let known = self.updates.drain().flat_map(|(_, known)| known);
        let cost = known.map(|one| cost_of(&one)).sum();
        self.whole_in.clear();
        self.charge.give_back(cost, wakes);
        self.charge.settle(wakes);
    }
}

/// What a feed's absent member knows of what is kept, by the variables' places in the feed.
#[derive(Debug)]
pub(super) struct KeptBehind {
    kept: Arc<Mutex<Kept>>,
    /// Handles of the variables of which it holds everything that came behind.
    whole: HashMap<u32, u32>,
    /// Of the others.
    parted: HashMap<u32, u32>,
    /// Of those that have become such, and this is still to be noted.
    missed: Vec<u32>,
}

impl KeptBehind {
    /// Of a feed with these variables, by place.
    pub(super) fn new(kept: &Arc<Mutex<Kept>>, handles: HashMap<u32, u32>) -> Self {
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

impl Older for KeptBehind {
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
