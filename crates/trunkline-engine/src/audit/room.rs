//! Room in the audit, claimed before what is to be noted is carried out.

use std::time::Duration;

use trunkline_types::{AuditMode, Tick};

use super::{AUDIT_NOTES_MAX, Audit};
use crate::engine::Engine;
use crate::outbox::Outbox;
use crate::sync::Arc;
use crate::variable::Variable;
use crate::write::Verb;

/// How long a claim waits for a host that takes no notes.
pub const AUDIT_PATIENCE: Duration = Duration::from_secs(2);
/// How soon a claim is tried again, whether somebody was woken or not: room also comes when
/// another claim is given back.
const LOOK: Duration = Duration::from_millis(100);

/// Room for entries that are to come. What is left of it is given back when the last copy is
/// dropped.
#[derive(Clone, Default, Debug)]
pub struct AuditRoom(Option<Arc<Claim>>);

#[derive(Debug)]
struct Claim {
    audit: Arc<Audit>,
    count: usize,
}

/// Why the audit has no room now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAuditRoom {
    /// Its host has not stored what waits yet: try again when woken, or then at the latest.
    Wait(Tick),
    /// Its host has stored nothing for [`AUDIT_PATIENCE`].
    Unstored,
}

impl AuditRoom {
    /// Whether there is room. Without, what is noted may be lost, and is then counted.
    pub(crate) fn is_claimed(&self) -> bool {
        self.0.is_some()
    }

    /// This room, where the variable's audit is to be complete.
    pub(crate) fn of(&self, variable: &Variable) -> Self {
        match variable.properties().audit {
            AuditMode::Complete => self.clone(),
            AuditMode::BestEffort | AuditMode::Off => Self::default(),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.audit.notes.lock().claimed -= self.count;
    }
}

impl Engine {
    /// Claims room in the audit for `count` entries. Where nobody keeps the audit there is nothing
    /// to wait for, and no room.
    ///
    /// # Errors
    /// The audit is full.
    pub fn claim_audit(&self, count: usize, now: Tick) -> Result<AuditRoom, NoAuditRoom> {
        let audit = self.audit();
        if count == 0 || audit.keeper.lock().is_none() {
            return Ok(AuditRoom::default());
        }
        let mut notes = audit.notes.lock();
        if notes.fits(count, AUDIT_NOTES_MAX) {
            notes.claimed += count;
            let audit = Arc::clone(audit);
            return Ok(AuditRoom(Some(Arc::new(Claim { audit, count }))));
        }
        if notes.waiting.is_empty() {
            // The host has nothing to take: it is not its fault.
            notes.full_since = Some(now);
        }
        let end = notes
            .full_since
            .get_or_insert(now)
            .saturating_add(AUDIT_PATIENCE);
        match now < end {
            true => Err(NoAuditRoom::Wait(end.min(now.saturating_add(LOOK)))),
            false => Err(NoAuditRoom::Unstored),
        }
    }

    /// Claims room for what a client does to this variable, unless its audit may miss it.
    pub(crate) fn claim_for(
        &self,
        variable: &Variable,
        verb: Verb,
        now: Tick,
    ) -> Result<AuditRoom, NoAuditRoom> {
        let needs_room = match variable.properties().audit {
            AuditMode::Complete => true,
            AuditMode::BestEffort => false,
            AuditMode::Off => matches!(verb, Verb::Force | Verb::Unforce),
        };
        self.claim_audit(usize::from(needs_room), now)
    }

    /// Asks for `outbox` to be woken when the host takes notes. False when it has since a claim
    /// last failed.
    pub(crate) fn park_for_audit(&self, outbox: &Arc<Outbox>) -> bool {
        // Dropped after the lock: what it holds may have claimed room.
        let _ended: Vec<Arc<Outbox>>;
        let mut notes = self.audit().notes.lock();
        if notes.full_since.is_none() {
            return false;
        }
        // Of a consumer that has ended nothing else is left.
        let is_ended = |known: &mut Arc<Outbox>| Arc::strong_count(known) == 1;
        _ended = notes.parked.extract_if(.., is_ended).collect();
        if !notes.parked.iter().any(|known| Arc::ptr_eq(known, outbox)) {
            notes.parked.push(Arc::clone(outbox));
        }
        true
    }
}
