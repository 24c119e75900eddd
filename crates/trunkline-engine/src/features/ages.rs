//! Marks values that are older than their variable's `max_age` as stale (B-12).
//!
//! A variable with a `max_age` is examined when its value would become too old, and at least once
//! per `max_age`; writes do no extra work. A value that is too old is published again as
//! `uncertain: stale` with its previous timestamps: the same sample, marked as old. The next write
//! of any value clears the mark.
//!
//! The age of a value is measured by the engine's monotonic clock, between two examinations. The
//! wall clock only locates the update between them, so setting it makes no value stale. A write
//! within the deadband confirms the value and keeps it fresh.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use trunkline_types::{Level, Moment, Quality, Reason, Tick};

use crate::delivery::outbox::Wakes;
use crate::sync::Mutex;
use crate::update::Update;
use crate::variable::Variable;
use crate::write::wall_clock::WallClock;
use crate::write::{Commit, View, commit_undelayed};

pub type Ages<'e> = View<'e, AgeTable>;

#[derive(Debug, Default)]
pub struct AgeTable {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Times at which variables are examined. An entry is valid only while it equals the `due` of
    /// its variable.
    queue: BinaryHeap<Reverse<(Tick, u32)>>,
    watched: HashMap<u32, Watched>,
}

#[derive(Debug)]
struct Watched {
    /// Time of the next examination.
    due: Tick,
    /// Time of the last examination.
    checked: Tick,
    /// The latest time at which the value was fresh.
    last_fresh: Tick,
    /// Sequence of the newest update at the last examination.
    sequence: u64,
    /// Number of confirming writes at the last examination.
    confirmed: u64,
}

impl Ages<'_> {
    pub(crate) fn watch(&self, handles: &[u32], now: Tick) {
        let mut ages = self.table.state.lock();
        let State { queue, watched } = &mut *ages;
        for handle in handles {
            let Some(variable) = self.core.variable(*handle) else {
                continue;
            };
            let Some(max_age) = variable.properties().max_age else {
                continue;
            };
            let entry = watched
                .entry(*handle)
                .or_insert_with(|| Watched::of(&variable, now));
            let due = entry.last_fresh.saturating_add(max_age);
            if entry.due != due {
                entry.due = due;
                queue.push(Reverse((due, *handle)));
            }
        }
    }

    /// Stops watching a removed variable. Removes invalid entries from the queue once they
    /// outnumber the valid ones.
    pub(crate) fn forget(&self, handle: u32) {
        let mut ages = self.table.state.lock();
        let State { queue, watched } = &mut *ages;
        if watched.remove(&handle).is_some() && queue.len() > 2 * watched.len() + QUEUE_SLACK {
            queue.retain(|Reverse((due, handle))| {
                watched.get(handle).is_some_and(|entry| entry.due == *due)
            });
        }
    }

    /// Marks values that have become too old, examining at most `slice` variables. Returns the time
    /// of the next call.
    pub(crate) fn mark_stale(
        &self,
        moment: Moment,
        slice: usize,
        wakes: &mut Wakes,
    ) -> Option<Tick> {
        let now = moment.now;
        let mut ages = self.table.state.lock();
        let State { queue, watched } = &mut *ages;
        for _ in 0..slice {
            let Reverse((due, handle)) = *queue.peek()?;
            if due > now {
                return Some(due);
            }
            queue.pop();
            let Some(entry) = watched.get_mut(&handle).filter(|entry| entry.due == due) else {
                continue;
            };
            let variable = self
                .core
                .variable(handle)
                .filter(|variable| !variable.is_gone());
            let max_age = variable.as_ref().and_then(|one| one.properties().max_age);
            let (Some(variable), Some(max_age)) = (variable, max_age) else {
                watched.remove(&handle);
                continue;
            };
            let is_fresh = entry.check(&variable, max_age, moment, &self.core.wall_clock, wakes);
            let from = if is_fresh { entry.last_fresh } else { now };
            // Even if `max_age` is very small, other variables are examined too.
            entry.due = from
                .saturating_add(max_age)
                .max(now.saturating_add(PERIOD_MIN));
            queue.push(Reverse((entry.due, handle)));
        }
        Some(now)
    }
}

/// Number of invalid entries up to which the queue is not cleaned.
const QUEUE_SLACK: usize = 1000;

/// Minimum time between two examinations of one variable.
const PERIOD_MIN: Duration = Duration::from_millis(1);

impl Watched {
    fn of(variable: &Variable, now: Tick) -> Self {
        let state = variable.lock();
        Self {
            due: Tick::MAX,
            checked: now,
            last_fresh: now,
            sequence: variable.sequence(),
            confirmed: state.confirmed(),
        }
    }

    /// Examines the variable, and marks a value that is too old. Returns true if the value is
    /// fresh.
    fn check(
        &mut self,
        variable: &Variable,
        max_age: Duration,
        moment: Moment,
        clock: &WallClock,
        wakes: &mut Wakes,
    ) -> bool {
        let Moment { now, wall } = moment;
        let mut state = variable.lock();
        let update = variable.update_locked(&state);
        let confirmed = state.confirmed();
        if confirmed != self.confirmed {
            self.last_fresh = now;
        } else if update.sequence != self.sequence {
            let stamp = update.engine_timestamp;
            let age = match variable.deployed().timestamps {
                true => clock.age(stamp, now, wall, self.checked),
                false => Duration::ZERO,
            };
            self.last_fresh =
                Tick::from_nanos(now.as_nanos().saturating_sub(age.as_nanos() as u64));
        }
        (self.sequence, self.confirmed, self.checked) = (update.sequence, confirmed, now);
        if now.since(self.last_fresh) < max_age {
            return true;
        }
        // A value that has not been measured since the start already has a reason that says so,
        // which must not be replaced.
        let has_other_reason = matches!(
            update.quality.reason(),
            Reason::Stale | Reason::Initial | Reason::Retained
        );
        let can_be_marked = update.sequence > 0
            && update.quality.level() != Level::Bad
            && !has_other_reason
            && !variable.is_blocked();
        if can_be_marked {
            let clock = update.quality;
            let quality = Quality::uncertain(Reason::Stale);
            let quality = quality.with_clock(clock.clock(), clock.clock_sync());
            let mut stale = Update {
                quality,
                writer: 0,
                ..update
            };
            let commit = Commit::at(moment);
            self.sequence = commit_undelayed(variable, &mut state, &mut stale, commit, wakes);
        }
        false
    }
}
