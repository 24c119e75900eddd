//! Room in the audit trail, claimed before the audited action is carried out.

use std::time::Duration;

use trunkline_types::{AuditMode, Tick};

use super::{AUDIT_NOTES_MAX, Audit, AuditLog};
use crate::delivery::outbox::Outbox;
use crate::sync::Arc;
use crate::variable::Variable;
use crate::write::WriteVerb;

/// Maximum time that a claim waits for the host to take notes.
pub const AUDIT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Time after which a claim is retried even without a wake-up, because dropping another claim also
/// frees room.
const CLAIM_RETRY: Duration = Duration::from_millis(100);

/// Room claimed for future entries. Dropping the last clone releases the room.
#[derive(Clone, Default, Debug)]
pub struct AuditRoom(Option<Arc<Claim>>);

#[derive(Debug)]
struct Claim {
    audit: Arc<AuditLog>,
    count: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAuditRoom {
    /// The host has not stored the waiting notes yet. Retry when woken, but no later than this
    /// time.
    Wait(Tick),
    /// The host has stored nothing for [`AUDIT_WAIT_MAX`]. The action must be refused.
    Unstored,
}

impl AuditRoom {
    /// Returns true if room is claimed. Without a claim, a note may be lost, and is then counted.
    pub(crate) fn is_claimed(&self) -> bool {
        self.0.is_some()
    }

    /// Returns this room if the variable requires a complete audit trail, otherwise no room.
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

impl Audit<'_> {
    /// Claims room in the audit trail for `count` entries. If no host stores the audit trail,
    /// returns an empty claim without waiting.
    pub fn claim(&self, count: usize, now: Tick) -> Result<AuditRoom, NoAuditRoom> {
        let audit = self.table;
        if count == 0 || audit.host_outbox.lock().is_none() {
            return Ok(AuditRoom::default());
        }
        let mut notes = audit.notes.lock();
        if notes.fits(count, AUDIT_NOTES_MAX) {
            notes.claimed += count;
            let audit = Arc::clone(audit);
            return Ok(AuditRoom(Some(Arc::new(Claim { audit, count }))));
        }
        if notes.waiting.is_empty() {
            // The host has nothing to take, so it is not the cause of the shortage.
            notes.full_since = Some(now);
        }
        let end = notes
            .full_since
            .get_or_insert(now)
            .saturating_add(AUDIT_WAIT_MAX);
        match now < end {
            true => Err(NoAuditRoom::Wait(end.min(now.saturating_add(CLAIM_RETRY)))),
            false => Err(NoAuditRoom::Unstored),
        }
    }

    /// Claims room for a client's action on this variable, unless the variable's audit may lose
    /// notes.
    pub(crate) fn claim_for(
        &self,
        variable: &Variable,
        verb: WriteVerb,
        now: Tick,
    ) -> Result<AuditRoom, NoAuditRoom> {
        let needs_room = match variable.properties().audit {
            AuditMode::Complete => true,
            AuditMode::BestEffort => false,
            AuditMode::Off => matches!(verb, WriteVerb::Force | WriteVerb::Unforce),
        };
        self.claim(usize::from(needs_room), now)
    }
}

impl AuditLog {
    /// Registers `outbox` to be woken when the host takes notes. Returns false if the host has
    /// taken notes after the last failed claim.
    pub(super) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        // Dropped after the lock is released, because outboxes may own claimed room.
        let _ended: Vec<Arc<Outbox>>;
        let mut notes = self.notes.lock();
        if notes.full_since.is_none() {
            return false;
        }
        // An outbox without other references belongs to an ended consumer.
        let is_ended = |known: &mut Arc<Outbox>| Arc::strong_count(known) == 1;
        _ended = notes.parked.extract_if(.., is_ended).collect();
        if !notes.parked.iter().any(|known| Arc::ptr_eq(known, outbox)) {
            notes.parked.push(Arc::clone(outbox));
        }
        true
    }
}
