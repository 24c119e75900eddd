//! The state guarded by a variable's lock.

use trunkline_types::Properties;

use crate::alias::Bonds;
use crate::field::OpenField;
use crate::force::Forced;
use crate::interest::Interests;
use crate::latest::Plains;
use crate::lease::Hold;
use crate::outcome::Refusal;
use crate::sync::Arc;
use crate::variable::Variable;

/// The state guarded by the variable's lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Writes that have ended, with any outcome.
    pub(crate) offered: u64,
    /// Subscriptions with the contract `latest` and no filters.
    pub(crate) plains: Plains,
    /// Allocated with the first subscriber of another kind, the first value too long for the cell,
    /// or the first write that was not applied.
    pub(crate) extra: Option<Box<Extra>>,
}

/// The part of the state that most variables do not need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) interests: Interests,
    /// The value, if it is too long for the cell.
    pub(crate) shared: Option<Arc<[u8]>>,
    /// The current properties, if they differ from the deployed ones.
    pub(super) edited: Option<Arc<Properties>>,
    forced: Option<Box<Forced>>,
    /// Its open fields; see [`field`](crate::field).
    #[expect(
        clippy::box_collection,
        reason = "one word where most variables have none"
    )]
    fields: Option<Box<Vec<OpenField>>>,
    /// The lease or single writer that restricts writing.
    hold: Option<Box<Hold>>,
    /// The session that wrote the value the device accepted last; 0 for none.
    put_by: u32,
    /// Allocated with the first write that was not applied.
    unapplied: Option<Box<Unapplied>>,
    /// Set for an alias, and for a variable that has aliases.
    pub(crate) bonds: Option<Box<Bonds>>,
}

impl Extra {
    /// Returns true if a write to a plain variable has nothing to consider here except at most one
    /// `all` feed.
    #[inline]
    pub(crate) fn is_feed_at_most(&self) -> bool {
        self.has_only_interests() && self.interests.is_feed_at_most()
    }

    /// Like `is_feed_at_most`, with any number of feeds.
    pub(crate) fn has_only_feeds(&self) -> bool {
        self.has_only_interests() && self.interests.has_only_feeds()
    }

    #[inline]
    fn has_only_interests(&self) -> bool {
        self.edited.is_none()
            && self.forced.is_none()
            && self.fields.is_none()
            && self.hold.is_none()
            && self.bonds.is_none()
    }
}

/// Counters of the writes that were not applied.
#[derive(Debug, Default)]
pub(crate) struct Unapplied {
    pub(crate) unchanged: u64,
    pub(crate) superseded: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) fifo_overflow: u64,
    pub(crate) upstream_lost: u64,
    /// The last refusal, and the sequence of the newest update at that time.
    pub(crate) last_refusal: Option<(u64, Refusal)>,
    /// The sequence of the newest update at the last unchanged write, and the number of unchanged
    /// writes while it was the newest.
    pub(crate) unchanged_since: (u64, u64),
}

impl State {
    pub(crate) fn forced(&self) -> Option<&Forced> {
        self.extra.as_ref()?.forced.as_deref()
    }

    pub(crate) fn forced_mut(&mut self) -> Option<&mut Forced> {
        self.extra.as_mut()?.forced.as_deref_mut()
    }

    /// Forces the variable to a value, or releases it with `None`. Returns the previous forced
    /// state.
    pub(crate) fn put_forced(&mut self, forced: Option<Box<Forced>>) -> Option<Box<Forced>> {
        if forced.is_none() && self.extra.is_none() {
            return None;
        }
        std::mem::replace(&mut self.extra.get_or_insert_default().forced, forced)
    }

    /// Number of writes that confirmed the value without changing it.
    pub(crate) fn confirmed(&self) -> u64 {
        let extra = self.extra.as_deref();
        extra
            .and_then(|extra| extra.unapplied.as_deref())
            .map_or(0, |unapplied| unapplied.unchanged)
    }

    pub(crate) fn fields(&self) -> &[OpenField] {
        let extra = self.extra.as_ref();
        extra
            .and_then(|extra| extra.fields.as_deref())
            .map_or(&[], Vec::as_slice)
    }

    pub(crate) fn add_field(&mut self, field: OpenField) {
        let extra = self.extra.get_or_insert_default();
        extra.fields.get_or_insert_default().push(field);
    }

    /// Removes a field and frees the list if it becomes empty. Returns false if the field is not
    /// there.
    pub(crate) fn remove_field(&mut self, variable: &Arc<Variable>) -> bool {
        let Some(extra) = self.extra.as_mut() else {
            return false;
        };
        let Some(fields) = &mut extra.fields else {
            return false;
        };
        let before = fields.len();
        fields.retain(|open| !Arc::ptr_eq(&open.variable, variable));
        let is_removed = fields.len() < before;
        if fields.is_empty() {
            extra.fields = None;
        }
        is_removed
    }

    /// The session that wrote the value the variable's device accepted last.
    pub(crate) fn put_by(&self) -> Option<u32> {
        let put_by = self.extra.as_ref()?.put_by;
        (put_by > 0).then_some(put_by)
    }

    pub(crate) fn set_put_by(&mut self, session: u32) {
        self.extra.get_or_insert_default().put_by = session;
    }

    pub(crate) fn hold(&self) -> Option<&Hold> {
        self.extra.as_ref()?.hold.as_deref()
    }

    pub(crate) fn hold_mut(&mut self) -> Option<&mut Hold> {
        self.extra.as_mut()?.hold.as_deref_mut()
    }

    /// Returns the write restriction, allocating it if there is none yet.
    pub(crate) fn make_hold(&mut self) -> &mut Hold {
        let extra = self.extra.get_or_insert_default();
        extra.hold.get_or_insert_default()
    }

    pub(crate) fn drop_hold(&mut self) {
        if let Some(extra) = &mut self.extra {
            extra.hold = None;
        }
    }

    pub(super) fn edited(&self) -> Option<&Arc<Properties>> {
        self.extra.as_ref()?.edited.as_ref()
    }

    /// Returns true if a write has nothing to consider here except feeds.
    pub(crate) fn has_only_feeds(&self) -> bool {
        self.extra
            .as_ref()
            .is_none_or(|extra| extra.has_only_feeds())
    }

    pub(crate) fn interests(&self) -> Option<&Interests> {
        self.extra.as_ref().map(|extra| &extra.interests)
    }

    pub(crate) fn interests_mut(&mut self) -> Option<&mut Interests> {
        self.extra.as_mut().map(|extra| &mut extra.interests)
    }

    /// Returns the subscriptions, allocating the place for them if there is none yet.
    pub(crate) fn make_interests(&mut self) -> &mut Interests {
        &mut self.extra.get_or_insert_default().interests
    }

    /// Counts a write within the deadband of the newest update, whose sequence is `sequence`.
    pub(crate) fn count_unchanged(&mut self, sequence: u64) {
        self.count(1, |unapplied| &mut unapplied.unchanged);
        if let Some(unapplied) = self.unapplied_mut() {
            let since = &mut unapplied.unchanged_since;
            *since = match since.0 == sequence {
                true => (sequence, since.1 + 1),
                false => (sequence, 1),
            };
        }
    }

    /// Counts a write that was refused while `sequence` was the newest update.
    pub(crate) fn count_refused(&mut self, sequence: u64, refusal: &Refusal) {
        self.count(1, |unapplied| &mut unapplied.refused);
        if let Some(unapplied) = self.unapplied_mut() {
            unapplied.last_refusal = Some((sequence, refusal.clone()));
        }
    }

    fn unapplied_mut(&mut self) -> Option<&mut Unapplied> {
        self.extra.as_mut()?.unapplied.as_deref_mut()
    }

    pub(crate) fn unapplied(&self) -> Option<&Unapplied> {
        self.extra.as_ref()?.unapplied.as_deref()
    }

    /// Counts `count` writes that ended without being applied, in the counter that `which` selects.
    pub(crate) fn count(&mut self, count: u64, which: impl FnOnce(&mut Unapplied) -> &mut u64) {
        self.offered += count;
        let extra = self.extra.get_or_insert_default();
        *which(extra.unapplied.get_or_insert_default()) += count;
    }
}
