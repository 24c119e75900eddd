//! Handles WATCH: sends the existing names that match a pattern in pages, and then each change.

use std::collections::BTreeMap;

use trunkline_engine::fields::FieldPattern;
use trunkline_engine::{Watch, WatchProgress};
use trunkline_proto::limits::WATCHES_MAX;
use trunkline_proto::message::watch::{
    AppearedBuilder, AppearedHead, AppearedVariable, Listing, Unwatch, VanishedBuilder,
    VanishedHead, Watch as WatchFrame,
};
use trunkline_proto::{Disconnect, Fault, FaultCode};
use trunkline_types::{Pattern, StepBudget};

use super::Rejection;
use super::find::{SEARCH_STEPS, names_of, variables_of};
use crate::context::{Context, SLICE};
use crate::gate::Admitted;

/// The patterns that one session watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_number: BTreeMap<u32, Entry>,
    /// Number of the watch that is served first in the next call, so that watches take turns.
    next_watch: u32,
}

#[derive(Debug)]
struct Entry {
    watch: Watch,
    /// The fields to report instead of the variables; `None` to report the variables.
    fields: Option<FieldPattern>,
    /// Request number of the WATCH until the listing is complete, then 0.
    request: u32,
    progress: WatchProgress,
}

impl Watches {
    /// Returns true if the client watches no pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    pub(crate) fn handle(
        &mut self,
        context: &mut Context,
        frame: &Admitted<'_>,
    ) -> Result<(), Rejection> {
        let WatchFrame { watch, pattern } = WatchFrame::decode(frame)?;
        if self.by_number.contains_key(&watch) {
            let sentence = format!("watch {watch} is already in use");
            return Err(Disconnect::Malformed { sentence }.into());
        }
        if self.by_number.len() >= WATCHES_MAX {
            let sentence = format!(
                "a session can watch at most {WATCHES_MAX} patterns; end some of them, or use a \
                 pattern that matches more names"
            );
            return Err(Fault::new(FaultCode::LimitReached, sentence).into());
        }
        let pattern = Pattern::parse(pattern)
            .map_err(|error| Fault::new(FaultCode::BadPattern, error.to_string()))?;
        let (pattern, fields) = match FieldPattern::split(&pattern) {
            Some((body, fields)) => (body, Some(fields)),
            None => (pattern, None),
        };
        context.consumer.watch_names();
        let entry = Entry {
            fields,
            watch: Watch::new(pattern),
            request: frame.request(),
            progress: WatchProgress::More,
        };
        self.by_number.insert(watch, entry);
        Ok(())
    }

    pub(crate) fn handle_unwatch(&mut self, frame: &Admitted<'_>) -> Result<(), Disconnect> {
        let Unwatch { watch } = Unwatch::decode(frame)?;
        self.by_number.remove(&watch);
        Ok(())
    }

    /// Reports one slice of names for each pattern that may have changed, until the answers reach
    /// `room` bytes. Returns true if there is more to do now.
    pub(crate) fn run_watches(&mut self, context: &mut Context, room: usize) -> bool {
        let names_changed = context.consumer.take_names_changed();
        let mut more = false;
        // All patterns share the step budget of one search, and take turns.
        let mut budget = StepBudget::new(SEARCH_STEPS);
        let Watches {
            by_number,
            next_watch,
        } = self;
        let in_turn = by_number
            .range(*next_watch..)
            .chain(by_number.range(..*next_watch));
        let pending: Vec<u32> = in_turn
            .filter(|(_, entry)| names_changed || entry.progress != WatchProgress::Idle)
            .map(|(number, _)| *number)
            .collect();
        for number in &pending {
            let Some(entry) = by_number.get_mut(number) else {
                continue;
            };
            // If the budget is spent, the pattern remains pending for the next call.
            entry.progress = WatchProgress::More;
            if context.answers.len() >= room || budget.is_spent() {
                more = true;
                continue;
            }
            *next_watch = number.wrapping_add(1);
            let limit = variables_of(SLICE, entry.fields.as_ref());
            let slice = entry
                .watch
                .next(&context.consumer, &context.caller, limit, &mut budget);
            entry.progress = slice.progress;
            more |= slice.progress == WatchProgress::More;
            let (watch, revision) = (*number, slice.revision);
            let head = |listing| AppearedHead {
                watch,
                revision,
                listing,
            };
            let out = &mut context.answers.frames;
            if !slice.gone.is_empty() {
                let head = VanishedHead { watch, revision };
                let mut vanished = VanishedBuilder::begin(out, 0, &head);
                slice.gone.iter().for_each(|handle| vanished.push(handle));
                vanished.finish(false);
            }
            if slice.is_restarted {
                AppearedBuilder::begin(out, 0, &head(Listing::Restarted)).finish(false);
            }
            if slice.appeared.is_empty() && !slice.listed {
                continue;
            }
            let listing = match slice.listed {
                true => Listing::Complete,
                false => Listing::Unchanged,
            };
            let mut appeared = AppearedBuilder::begin(out, entry.request, &head(listing));
            for variable in &slice.appeared {
                for (name, data_type, access) in names_of(variable, entry.fields.as_ref()) {
                    appeared.push(&AppearedVariable {
                        handle: variable.handle(),
                        name: &name,
                        data_type,
                        access,
                    });
                }
            }
            appeared.finish(false);
            if slice.listed {
                entry.request = 0;
            }
        }
        more
    }

    /// Returns true if a pattern waits until the last updates of removed variables have been sent.
    pub(crate) fn is_waiting(&self) -> bool {
        let mut entries = self.by_number.values();
        entries.any(|entry| entry.progress == WatchProgress::Waiting)
    }
}
