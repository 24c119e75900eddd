//! Deliveries not confirmed by the peer.

use std::collections::VecDeque;

use super::items::Items;
use crate::delivery::feed::{FeedEntry, SharedRun};
use crate::sync::Arc;

pub(crate) type ItemTable = Vec<ItemRef>;

/// An item, with the handle of its variable, so that the variable itself need not be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemRef {
    pub(crate) index: u32,
    pub(crate) handle: u32,
}

impl ItemRef {
    pub(crate) const EMPTY: Self = Self {
        index: u32::MAX,
        handle: 0,
    };
}

/// Represents a run in the queue. Runs have a separate queue.
const RUN: u32 = u32::MAX;
/// Represents a delivery that is not counted for any item.
const UNCOUNTED: u32 = u32::MAX - 1;

/// Deliveries not confirmed by the peer, oldest first. Empty if the peer does not confirm.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Item indices, `RUN` or `UNCOUNTED`.
    queue: Option<VecDeque<u32>>,
    runs: VecDeque<RunInFlight>,
    /// Number of unconfirmed deliveries in `runs`.
    in_runs: usize,
}

struct RunInFlight {
    table: Arc<ItemTable>,
    run: Arc<SharedRun>,
    confirmed: usize,
}

impl RunInFlight {
    /// Confirms up to `most` more updates. Returns their number, and true if they were the last.
    fn confirm(&mut self, most: usize, items: &mut Items) -> (usize, bool) {
        let updates = self.run.updates();
        let left = updates.get(self.confirmed..).unwrap_or_default();
        let confirmed = left.get(..most).unwrap_or(left);
        for (place, _) in confirmed {
            if let Some(item_ref) = self.table.get(*place as usize) {
                items.confirm(item_ref.index);
            }
        }
        self.confirmed += confirmed.len();
        (confirmed.len(), confirmed.len() == left.len())
    }
}

impl InFlight {
    pub(crate) fn confirmed_by_peer() -> Self {
        Self {
            queue: Some(VecDeque::new()),
            ..Self::default()
        }
    }

    pub(crate) fn tracks_confirmations(&self) -> bool {
        self.queue.is_some()
    }

    /// Adds a delivery, counted for an item or for none, if the peer confirms.
    #[inline]
    pub(super) fn push(&mut self, index: Option<u32>) {
        if let Some(queue) = &mut self.queue {
            queue.push_back(index.unwrap_or(UNCOUNTED));
        }
    }

    pub(crate) fn push_run(&mut self, table: &Arc<ItemTable>, run: &Arc<SharedRun>) {
        if let Some(queue) = &mut self.queue {
            queue.push_back(RUN);
            self.in_runs += run.updates().len();
            self.runs.push_back(RunInFlight {
                table: Arc::clone(table),
                run: Arc::clone(run),
                confirmed: 0,
            });
        }
    }

    /// Visits the unconfirmed entries of runs, each with the handle of its variable.
    pub(super) fn unconfirmed_entries(&self, visit: &mut dyn FnMut(u32, &FeedEntry)) {
        for one in &self.runs {
            for entry in one.run.entries().iter().skip(one.confirmed) {
                if let Some(item_ref) = one.table.get(entry.place as usize) {
                    visit(item_ref.handle, entry);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        let singly = self.queue.as_ref().map_or(0, VecDeque::len);
        singly - self.runs.len() + self.in_runs
    }

    /// Confirms the `records` oldest deliveries. Returns false if there are fewer.
    pub(crate) fn confirm(&mut self, records: u64, items: &mut Items) -> bool {
        let Some(queue) = &mut self.queue else {
            return records == 0;
        };
        let mut left = records;
        while left > 0 {
            match queue.front().copied() {
                None => return false,
                Some(RUN) => {
                    let Some(run) = self.runs.front_mut() else {
                        return false;
                    };
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let (confirmed, is_over) = run.confirm(most, items);
                    left -= confirmed as u64;
                    self.in_runs -= confirmed;
                    if is_over {
                        self.runs.pop_front();
                        queue.pop_front();
                    }
                }
                Some(index) => {
                    queue.pop_front();
                    left -= 1;
                    if index != UNCOUNTED {
                        items.confirm(index);
                    }
                }
            }
        }
        true
    }
}
