//! The audit trail: who wrote what, and which orders were given.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use libc::size_t;
use trunkline::Client;
use trunkline::types::audit::{AuditEntry, AuditOutcome, AuditQuery};

use crate::arguments::{pattern, put, put_text, text, timeout};
use crate::client::{tl_client, with_client};
use crate::errors::{Failure, tl_status};
use crate::history::time_of;
use crate::{entry, handles};

/// A query of the audit trail, which delivers its entries one by one.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_audit_query = u64;

/// Who did it.
pub const TL_AUDIT_TEXT_WHO: i32 = 0;
/// From where: address, program and process, if known.
pub const TL_AUDIT_TEXT_FROM: i32 = 1;
/// What was done, such as `put` or `deploy`.
pub const TL_AUDIT_TEXT_ACTION: i32 = 2;
/// The full name of the variable, or of the library; empty for the whole engine.
pub const TL_AUDIT_TEXT_NAME: i32 = 3;
/// The value before.
pub const TL_AUDIT_TEXT_OLD: i32 = 4;
/// The value after, or a description of the change.
pub const TL_AUDIT_TEXT_NEW: i32 = 5;
/// Why the action was refused, or why its outcome is unknown; otherwise empty.
pub const TL_AUDIT_TEXT_REASON: i32 = 6;

/// The action was carried out.
pub const TL_AUDIT_DONE: i32 = 0;
/// The write changed nothing, because the value was within the deadband.
pub const TL_AUDIT_UNCHANGED: i32 = 1;
/// The action was refused, and changed nothing.
pub const TL_AUDIT_REFUSED: i32 = 2;
/// It is unknown whether anything was changed.
pub const TL_AUDIT_UNKNOWN: i32 = 3;
/// Entries are missing here, because the audit trail had no room for them: `lost` has their number.
pub const TL_AUDIT_LOST: i32 = 4;

/// An action that was carried out or tried.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_audit_entry {
    /// Number of the entry, from 1, without gaps.
    pub number: u64,
    /// Time at which the action ended, UTC nanoseconds since 1970.
    pub time_ns: i64,
    /// Number of missing entries, for `TL_AUDIT_LOST`; otherwise 0.
    pub lost: u64,
    /// One of `TL_AUDIT_DONE` to `TL_AUDIT_LOST`.
    pub outcome: i32,
    /// The number of the action in the protocol; `TL_AUDIT_TEXT_ACTION` is its name.
    pub action: i32,
}

/// A query, and how far its entries were delivered.
pub(crate) struct AuditObject {
    client: Client,
    state: Mutex<State>,
}

struct State {
    /// The next page; `None` after the last.
    query: Option<AuditQuery>,
    entries: VecDeque<AuditEntry>,
    current: Option<AuditEntry>,
}

/// Starts a query of the audit trail. Nothing is sent yet.
///
/// `pattern`, `pattern_length`: only entries about matching names; empty for all.
///
/// `who`, `who_length`: only entries of this principal; empty for all.
///
/// `since_ns`: only entries from then on, UTC nanoseconds since 1970; `TL_TIME_OPEN` for all.
///
/// `newest_first`: not 0 to begin with the newest entry.
///
/// `audit`: where the handle is stored. Close it with `tl_audit_close`.
///
/// Errors: `TL_FAULT_BAD_PATTERN`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit(
    client: tl_client,
    pattern: *const c_char,
    pattern_length: size_t,
    who: *const c_char,
    who_length: size_t,
    since_ns: i64,
    newest_first: i32,
    audit: *mut tl_audit_query,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes texts, as documented.
        let (pattern, who) = unsafe {
            (
                text("pattern", pattern, pattern_length)?,
                text("who", who, who_length)?,
            )
        };
        let query = AuditQuery {
            pattern: match pattern {
                "" => None,
                pattern => Some(self::pattern(pattern)?),
            },
            who: (!who.is_empty()).then(|| who.to_owned()),
            since: time_of(since_ns),
            newest_first: newest_first != 0,
            ..AuditQuery::default()
        };
        let created = AuditObject {
            client: object.client.clone(),
            state: Mutex::new(State {
                query: Some(query),
                entries: VecDeque::new(),
                current: None,
            }),
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("audit", audit, handles::add(created)?) }
    })
}

/// Stores the next entry of a query.
///
/// `has_entry`: where 1 is stored, or 0 at the end of the query; then `audited` is not stored.
///
/// Errors: `TL_FAULT_DENIED` without the right to read the audit trail; `TL_ERROR_TIMEOUT`;
/// `TL_ERROR_NOT_CONNECTED`. After an error, the next call tries the same entries again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_next(
    audit: tl_audit_query,
    timeout_ms: i32,
    audited: *mut tl_audit_entry,
    has_entry: *mut i32,
) -> tl_status {
    entry(|| {
        let object = handles::find::<AuditObject>(audit)?;
        let limit = timeout(timeout_ms)?;
        let mut state = object.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A page may be empty although more pages follow.
        while state.entries.is_empty()
            && let Some(query) = state.query.clone()
        {
            let page = object.client.audit(query.clone(), limit)?;
            state.entries.extend(page.entries);
            state.query = page.next.map(|next| AuditQuery {
                from: Some(next),
                ..query
            });
        }
        state.current = state.entries.pop_front();
        // SAFETY: the caller passes places for both or NULL.
        unsafe {
            put("has_entry", has_entry, i32::from(state.current.is_some()))?;
            match &state.current {
                Some(entry) => put("audited", audited, entry_of(entry)),
                None => Ok(()),
            }
        }
    })
}

fn entry_of(entry: &AuditEntry) -> tl_audit_entry {
    let (outcome, lost) = match &entry.outcome {
        AuditOutcome::Done | AuditOutcome::Applied(_) => (TL_AUDIT_DONE, 0),
        AuditOutcome::Unchanged(_) => (TL_AUDIT_UNCHANGED, 0),
        AuditOutcome::Refused(_) => (TL_AUDIT_REFUSED, 0),
        AuditOutcome::Unknown(_) => (TL_AUDIT_UNKNOWN, 0),
        AuditOutcome::Lost(count) => (TL_AUDIT_LOST, *count),
    };
    tl_audit_entry {
        number: entry.number,
        time_ns: entry.when.as_nanos(),
        lost,
        outcome,
        action: i32::from(entry.action.number()),
    }
}

/// Copies a text of the entry that `tl_audit_next` has stored last.
///
/// `field`: one of `TL_AUDIT_TEXT_...`.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` for another field, and if there is no entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_audit_text(
    audit: tl_audit_query,
    field: i32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<AuditObject>(audit)?;
        let state = object.state.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = state
            .current
            .as_ref()
            .ok_or_else(|| Failure::argument("there is no entry; call tl_audit_next first"))?;
        let found = match field {
            TL_AUDIT_TEXT_WHO => &entry.who,
            TL_AUDIT_TEXT_FROM => &entry.from,
            TL_AUDIT_TEXT_ACTION => entry.action.name(),
            TL_AUDIT_TEXT_NAME => &entry.name,
            TL_AUDIT_TEXT_OLD => &entry.old,
            TL_AUDIT_TEXT_NEW => &entry.new,
            TL_AUDIT_TEXT_REASON => match &entry.outcome {
                AuditOutcome::Refused(reason) | AuditOutcome::Unknown(reason) => reason,
                _ => "",
            },
            field => {
                return Err(Failure::argument(format!(
                    "{field} is no text of an entry; pass one of TL_AUDIT_TEXT_"
                )));
            }
        };
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(found, buffer, capacity, length) }
    })
}

/// Closes a query.
#[unsafe(no_mangle)]
pub extern "C" fn tl_audit_close(audit: tl_audit_query) -> tl_status {
    entry(|| handles::remove::<AuditObject>(audit).map(drop))
}
