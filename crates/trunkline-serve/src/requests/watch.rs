//! Watched patterns: sends pages of the existing names, then changes.

use std::collections::BTreeMap;

use trunkline_engine::fields::FieldPattern;
use trunkline_engine::{Watch, WatchProgress};
use trunkline_proto::limits::WATCHES_MAX;
use trunkline_proto::message::watch::{
    AppearedBuilder, AppearedHead, AppearedVariable, Listing, Unwatch, VanishedBuilder,
    VanishedHead, Watch as WatchFrame,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::{Pattern, StepBudget};

use super::Rejection;
use super::find::{SEARCH_STEPS, names_of, variables_of};
use crate::context::{Context, SLICE};

/// The patterns that one session watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_number: BTreeMap<u32, Entry>,
    /// The number of the watch at which the next turn begins.
    turn: u32,
}

#[derive(Debug)]
struct Entry {
    watch: Watch,
    /// The fields to report in place of the variables.
    fields: Option<FieldPattern>,
    /// The request number of the WATCH until the listing is complete, then 0.
    request: u32,
    progress: WatchProgress,
}

impl Watches {
    /// Returns true if any pattern is watched.
    pub(crate) fn are_any(&self) -> bool {
        !self.by_number.is_empty()
    }

    pub(crate) fn handle(
        &mut self,
        context: &mut Context,
        frame: &Frame<'_>,
    ) -> Result<(), Rejection> {
        let WatchFrame { watch, pattern } = WatchFrame::decode(frame)?;
        if self.by_number.contains_key(&watch) {
            let sentence = format!("watch {watch} is in use");
            return Err(Disconnect::Malformed { sentence }.into());
        }
        if self.by_number.len() >= WATCHES_MAX {
            let sentence = format!(
                "a session follows at most {WATCHES_MAX} patterns; end others, or use one that \
                 covers them"
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

    pub(crate) fn handle_unwatch(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let Unwatch { watch } = Unwatch::decode(frame)?;
        self.by_number.remove(&watch);
        Ok(())
    }

    /// Handles one slice of each pattern that has something to report, as long as the answers stay
    /// below `room` bytes. Returns true if there is more to do now.
    pub(crate) fn run_watches(&mut self, context: &mut Context, room: usize) -> bool {
        let news = context.consumer.take_names_changed();
        let mut more = false;
        // All patterns together take no more time than one search, and each pattern gets its turn.
        let mut budget = StepBudget::new(SEARCH_STEPS);
        let Watches { by_number, turn } = self;
        let looks = |entry: &Entry| news || entry.progress != WatchProgress::Idle;
        let around = by_number.range(*turn..).chain(by_number.range(..*turn));
        let looking = around.filter(|(_, entry)| looks(entry));
        let looking: Vec<u32> = looking.map(|(number, _)| *number).collect();
        for number in &looking {
            let Some(entry) = by_number.get_mut(number) else {
                continue;
            };
            // The pattern must be evaluated further, now or later.
            entry.progress = WatchProgress::More;
            if context.answers.len() >= room || budget.is_spent() {
                more = true;
                continue;
            }
            *turn = number.wrapping_add(1);
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
            if slice.begins_again {
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

    /// Returns true if a pattern is waiting until updates have been taken.
    pub(crate) fn is_waiting(&self) -> bool {
        let mut entries = self.by_number.values();
        entries.any(|entry| entry.progress == WatchProgress::Waits)
    }
}
