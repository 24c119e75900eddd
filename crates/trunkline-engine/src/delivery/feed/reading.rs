//! Takes entries out of a log, one by one or in runs encoded for all members.

use std::collections::VecDeque;

use super::log::Log;
use super::member::WakeState;
use super::{Event, FeedEntry, RUN_BYTES, RUN_UPDATES_MAX, SharedRun, Taken};
use crate::sync::Arc;

impl Log {
    pub(super) fn take(
        &mut self,
        member: usize,
        accepts: Option<&dyn Fn(&SharedRun) -> bool>,
        out: &mut VecDeque<FeedEntry>,
    ) -> Taken {
        let (is_shared, start, end) = (self.is_shared(), self.start, self.end());
        let Some(one) = self.members.get_mut(member).and_then(Option::as_mut) else {
            return Taken::Nothing { ended: false };
        };
        if !one.ended {
            self.unwoken -= usize::from(one.is_unwoken());
            one.wake_state = WakeState::Draining;
        }
        if !one.backlog.is_empty() {
            move_behind(&mut one.backlog, out);
            return Taken::Entries;
        }
        if one.ended {
            return Taken::Nothing { ended: true };
        }
        if one.cursor >= end {
            one.wake_state = WakeState::Idle;
            self.add_unwoken();
            return Taken::Nothing { ended: false };
        }
        if !is_shared && one.cursor == start {
            one.cursor = end;
            self.start = end;
            self.runs.clear();
            move_behind(&mut self.entries, out);
            return Taken::Entries;
        }
        let cursor = one.cursor;
        let run = self.run_at(cursor).map(Arc::clone);
        match (accepts, run) {
            (Some(accepts), Some(run)) if accepts(&run) => {
                self.skip_to(member, run.end());
                Taken::Run(run)
            }
            (Some(_), None) => {
                self.copy_out(member, out);
                Taken::Fresh(cursor)
            }
            _ => {
                self.copy_out(member, out);
                Taken::Entries
            }
        }
    }

    /// Copies the next entries for a member: updates up to the start or end of an encoded run, or
    /// one entry of another kind.
    fn copy_out(&mut self, member: usize, out: &mut VecDeque<FeedEntry>) {
        let Some(cursor) = self.member(member).map(|one| one.cursor) else {
            return;
        };
        let until = match self.run_at(cursor) {
            Some(run) => run.end(),
            None => {
                let next = self.runs.iter().find(|run| run.start() > cursor);
                let next = next.map_or(u64::MAX, |run| run.start());
                next.min(cursor + RUN_UPDATES_MAX as u64)
            }
        };
        let from = cursor.saturating_sub(self.start) as usize;
        let entries = self
            .entries
            .iter()
            .skip(from)
            .take((until - cursor) as usize);
        let before = out.len();
        let mut bytes = 0;
        for entry in entries {
            let is_update = matches!(entry.event, Event::Next(_));
            if out.len() > before && (!is_update || bytes > RUN_BYTES) {
                break;
            }
            out.push_back(entry.clone());
            bytes += entry.room().bytes;
            if !is_update {
                break;
            }
        }
        let copied = (out.len() - before) as u64;
        self.skip_to(member, cursor + copied);
    }

    fn run_at(&self, cursor: u64) -> Option<&Arc<SharedRun>> {
        let place = self.runs.binary_search_by_key(&cursor, |run| run.start());
        self.runs.get(place.ok()?)
    }

    pub(super) fn put_run(&mut self, run: &Arc<SharedRun>) {
        let after = self
            .runs
            .partition_point(|known| known.start() < run.start());
        let is_free = |known: Option<&Arc<SharedRun>>| {
            known.is_none_or(|known| known.end() <= run.start() || run.end() <= known.start())
        };
        let before = after.checked_sub(1).and_then(|place| self.runs.get(place));
        // Not stored if the other members have already passed it, or if it overlaps another run.
        if run.start() >= self.start && is_free(before) && is_free(self.runs.get(after)) {
            self.runs.insert(after, Arc::clone(run));
        }
    }

    pub(super) fn drop_runs(&mut self) {
        let start = self.start;
        while let Some(run) = self.runs.pop_front_if(|run| run.end() <= start) {
            if self.spare_runs.len() < SPARE_RUNS_MAX {
                self.spare_runs.push_back(run);
            }
        }
    }

    pub(super) fn spare_run(&mut self) -> Option<Arc<SharedRun>> {
        // The oldest run is the first that all members have confirmed.
        self.spare_runs
            .pop_front_if(|run| Arc::strong_count(run) == 1)
    }
}

/// Maximum number of runs retained for their memory: about the number that is usually in flight to
/// the peers.
const SPARE_RUNS_MAX: usize = 64;

/// Appends all entries to `out`. If `out` is empty, swaps the buffers.
pub(super) fn move_behind(from: &mut VecDeque<FeedEntry>, out: &mut VecDeque<FeedEntry>) {
    if out.is_empty() {
        std::mem::swap(from, out);
    } else {
        out.append(from);
    }
}
