//! Alarms: their states, the actions of operators, and their changes.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use libc::size_t;
use trunkline::types::alarm::{
    AlarmAction, AlarmEntry, AlarmJournalQuery, AlarmRecord, AlarmState, AlarmStatus,
};
use trunkline::types::{Contract, Pattern, Timestamp};
use trunkline::{AlarmName, AlarmQuery, Client, Event, SubscribeOptions, Subscription};

use crate::arguments::{
    Timeout, names, pattern, put, put_or_none, put_text, room_or_none, short, text, timeout,
};
use crate::client::{Statuses, tl_client, with_client};
use crate::errors::{Failure, TL_ERROR_BUSY, tl_status};
use crate::history::{TL_TIME_OPEN, time_of};
use crate::{entry, handles};

/// The alarms that a query has found: `tl_alarms`.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_alarm_list = u64;

/// Changes of alarms, as they happen: `tl_follow_alarms`.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_alarm_changes = u64;

/// The alarm is not active, and no action is necessary.
pub const TL_ALARM_NORMAL: i32 = 0;
/// The alarm is active, and no operator has acknowledged it.
pub const TL_ALARM_UNACKNOWLEDGED: i32 = 1;
/// The alarm is active, and an operator has acknowledged it.
pub const TL_ALARM_ACKNOWLEDGED: i32 = 2;
/// The process returned to normal before an operator acknowledged the alarm.
pub const TL_ALARM_RETURNED_UNACKNOWLEDGED: i32 = 3;
/// The process returned to normal, but the alarm must be acknowledged and reset.
pub const TL_ALARM_LATCHED_UNACKNOWLEDGED: i32 = 4;
/// The process returned to normal, and the alarm is acknowledged, but must be reset.
pub const TL_ALARM_LATCHED_ACKNOWLEDGED: i32 = 5;
/// An operator has hidden the alarm for a limited time.
pub const TL_ALARM_SHELVED: i32 = 6;
/// A condition of the process suppresses the alarm.
pub const TL_ALARM_SUPPRESSED_BY_DESIGN: i32 = 7;
/// The alarm is out of service until an operator returns it to service.
pub const TL_ALARM_OUT_OF_SERVICE: i32 = 8;

/// Acknowledges an alarm.
pub const TL_ALARM_ACKNOWLEDGE: i32 = 1;
/// Resets a latched alarm.
pub const TL_ALARM_RESET: i32 = 2;
/// Hides an alarm for a time.
pub const TL_ALARM_SHELVE: i32 = 3;
/// Shows a shelved alarm again.
pub const TL_ALARM_UNSHELVE: i32 = 4;
/// Takes an alarm out of service.
pub const TL_ALARM_TAKE_OUT_OF_SERVICE: i32 = 5;
/// Returns an alarm to service.
pub const TL_ALARM_RETURN_TO_SERVICE: i32 = 6;

/// The full name of the variable.
pub const TL_ALARM_TEXT_VARIABLE: i32 = 0;
/// The name of the alarm, such as `hi`.
pub const TL_ALARM_TEXT_ALARM: i32 = 1;
/// The name of the state, such as `unacknowledged`.
pub const TL_ALARM_TEXT_STATE: i32 = 2;
/// The area.
pub const TL_ALARM_TEXT_AREA: i32 = 3;
/// What the alarm means.
pub const TL_ALARM_TEXT_DESCRIPTION: i32 = 4;
/// What the operator should do; empty in a change.
pub const TL_ALARM_TEXT_HELP: i32 = 5;
/// Who acknowledged the alarm; in a change, the operator who caused it, or the empty text.
pub const TL_ALARM_TEXT_WHO: i32 = 6;
/// The operator's comment.
pub const TL_ALARM_TEXT_COMMENT: i32 = 7;
/// What happened, such as `raise`; empty in a list.
pub const TL_ALARM_TEXT_EVENT: i32 = 8;

/// As the beginning of `tl_follow_alarms`: changes from now on.
pub const TL_SINCE_NOW: i64 = i64::MAX;

/// An alarm with its state, or a change of it. A time that does not apply is `TL_TIME_OPEN`.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_alarm {
    /// The value when the alarm was last raised; NaN if it is not a number.
    pub value: f64,
    /// In a list, the current limit or setpoint; in a change, the one when the alarm was raised. NaN if
    /// there is none.
    pub limit: f64,
    /// When the alarm was last raised, UTC nanoseconds since 1970.
    pub raised_ns: i64,
    /// When the process last returned to normal.
    pub cleared_ns: i64,
    /// When the alarm was acknowledged.
    pub acknowledged_ns: i64,
    /// Until when the alarm is shelved.
    pub shelved_until_ns: i64,
    /// Of a change: when it happened.
    pub changed_ns: i64,
    /// Of a change: its number in the engine's journal, from 1; 0 in a list.
    pub number: u64,
    /// State: one of `TL_ALARM_NORMAL` to `TL_ALARM_OUT_OF_SERVICE`.
    pub state: i32,
    /// Of a change: the state before it.
    pub previous_state: i32,
    /// From 1 to 1000; 1000 is the most urgent.
    pub priority: i32,
    /// 1 while the condition of the alarm is met, otherwise 0.
    pub is_active: i32,
}

fn alarm_of(record: &AlarmRecord, priority: u16, limit: Option<f64>) -> tl_alarm {
    let time = |time: Option<Timestamp>| time.map_or(TL_TIME_OPEN, Timestamp::as_nanos);
    tl_alarm {
        value: record.value.unwrap_or(f64::NAN),
        limit: limit.unwrap_or(f64::NAN),
        raised_ns: time(record.raised),
        cleared_ns: time(record.cleared),
        acknowledged_ns: time(record.acknowledged),
        shelved_until_ns: time(record.shelved_until),
        changed_ns: TL_TIME_OPEN,
        number: 0,
        state: i32::from(record.state.number()),
        previous_state: i32::from(record.state.number()),
        priority: i32::from(priority),
        is_active: i32::from(record.is_active),
    }
}

fn no_such_text(field: i32) -> Failure {
    Failure::argument(format!(
        "{field} is no text of an alarm; pass one of TL_ALARM_TEXT_"
    ))
}

/// What selects alarms, as the caller passed it.
struct Selected {
    pattern: Option<Pattern>,
    area: String,
    priority_min: u16,
}

/// # Safety
/// Both texts are as documented in the header.
unsafe fn selected(
    (pattern, pattern_length): (*const c_char, size_t),
    (area, area_length): (*const c_char, size_t),
    priority_min: i32,
) -> Result<Selected, Failure> {
    // SAFETY: the caller promises both texts.
    let (pattern, area) = unsafe {
        (
            text("pattern", pattern, pattern_length)?,
            text("area", area, area_length)?,
        )
    };
    Ok(Selected {
        pattern: match pattern {
            "" => None,
            pattern => Some(self::pattern(pattern)?),
        },
        area: area.to_owned(),
        priority_min: u16::try_from(priority_min).map_err(|_| {
            Failure::argument(format!(
                "the priority {priority_min} is not from 0 to 65535; pass 0 for all"
            ))
        })?,
    })
}

/// The alarms of one handle.
pub(crate) struct AlarmListObject(Vec<AlarmStatus>);

/// Queries alarms with their states.
///
/// `pattern`, `pattern_length`: only alarms of variables with matching names; empty for all.
///
/// `area`, `area_length`: only alarms of this area; empty for all.
///
/// `priority_min`: only alarms of at least this priority; 0 for all.
///
/// `states`, `states_length`: only alarms in these states, given by name, one per line, such as
/// `unacknowledged`; empty for all.
///
/// `alarms`: where the handle is stored. Close it with `tl_alarms_close`.
///
/// Errors: `TL_FAULT_BAD_PATTERN`; `TL_ERROR_ARGUMENT` for a state that does not exist;
/// `TL_ERROR_TIMEOUT`, `TL_ERROR_NOT_CONNECTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_alarms(
    client: tl_client,
    pattern: *const c_char,
    pattern_length: size_t,
    area: *const c_char,
    area_length: size_t,
    priority_min: i32,
    states: *const c_char,
    states_length: size_t,
    timeout_ms: i32,
    alarms: *mut tl_alarm_list,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes texts, as documented.
        let (selected, states) = unsafe {
            (
                selected((pattern, pattern_length), (area, area_length), priority_min)?,
                text("states", states, states_length)?,
            )
        };
        let states = match states {
            "" => Vec::new(),
            states => names(states)?
                .into_iter()
                .map(state_of)
                .collect::<Result<_, _>>()?,
        };
        let query = AlarmQuery {
            pattern: selected.pattern,
            area: selected.area,
            priority_min: selected.priority_min,
            states,
        };
        let found = object.client.alarms(query, timeout(timeout_ms)?)?;
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("alarms", alarms, handles::add(AlarmListObject(found))?) }
    })
}

fn state_of(name: &str) -> Result<AlarmState, Failure> {
    AlarmState::from_name(name).ok_or_else(|| {
        let names = AlarmState::ALL.map(AlarmState::name);
        Failure::argument(format!(
            "{name:?} is no state of an alarm; the states are {}",
            names.join(", ")
        ))
    })
}

/// Stores the number of alarms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_alarms_count(alarms: tl_alarm_list, count: *mut size_t) -> tl_status {
    entry(|| {
        let object = handles::find::<AlarmListObject>(alarms)?;
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put("count", count, object.0.len()) }
    })
}

impl AlarmListObject {
    fn get(&self, index: usize) -> Result<&AlarmStatus, Failure> {
        self.0.get(index).ok_or_else(|| {
            Failure::argument(format!(
                "there is no alarm {index}; the list has {}, numbered from 0",
                self.0.len()
            ))
        })
    }
}

/// Stores one alarm.
///
/// `index`: from 0 to the count - 1.
///
/// Errors: `TL_ERROR_ARGUMENT` for another index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_alarms_get(
    alarms: tl_alarm_list,
    index: size_t,
    alarm: *mut tl_alarm,
) -> tl_status {
    entry(|| {
        let object = handles::find::<AlarmListObject>(alarms)?;
        let status = object.get(index)?;
        let priority = status.definition.priority;
        let found = alarm_of(&status.record, priority, status.operand);
        // SAFETY: the caller passes a place for an alarm or NULL.
        unsafe { put("alarm", alarm, found) }
    })
}

/// Copies a text of an alarm.
///
/// `field`: one of `TL_ALARM_TEXT_...`.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` for another index or field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_alarms_text(
    alarms: tl_alarm_list,
    index: size_t,
    field: i32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<AlarmListObject>(alarms)?;
        let status = object.get(index)?;
        let (definition, record) = (&status.definition, &status.record);
        let found = match field {
            TL_ALARM_TEXT_VARIABLE => &status.variable,
            TL_ALARM_TEXT_ALARM => &definition.name,
            TL_ALARM_TEXT_STATE => record.state.name(),
            TL_ALARM_TEXT_AREA => &definition.area,
            TL_ALARM_TEXT_DESCRIPTION => &definition.description,
            TL_ALARM_TEXT_HELP => &definition.help,
            TL_ALARM_TEXT_WHO => &record.acknowledged_by,
            TL_ALARM_TEXT_COMMENT => &record.comment,
            TL_ALARM_TEXT_EVENT => "",
            field => return Err(no_such_text(field)),
        };
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(found, buffer, capacity, length) }
    })
}

/// Closes a list of alarms.
#[unsafe(no_mangle)]
pub extern "C" fn tl_alarms_close(alarms: tl_alarm_list) -> tl_status {
    entry(|| handles::remove::<AlarmListObject>(alarms).map(drop))
}

/// Applies an action to alarms.
///
/// `alarms`, `alarms_length`: the alarms, one per line, such as `boiler/level#hi`.
///
/// `action`: one of `TL_ALARM_ACKNOWLEDGE` to `TL_ALARM_RETURN_TO_SERVICE`.
///
/// `shelve_ms`: for `TL_ALARM_SHELVE`, how long the alarms are hidden, in milliseconds from 1; otherwise 0.
///
/// `comment`, `comment_length`: may be empty.
///
/// `states`: room for `capacity` states after the action, or NULL; -1 for an alarm that refused it.
///
/// `statuses`: room for `capacity` statuses, or NULL.
///
/// Errors: the first of the statuses that is not `TL_OK`, such as `TL_FAULT_UNKNOWN_FIELD` or
/// `TL_FAULT_DENIED`; the action was applied to the others all the same. `TL_ERROR_SHORT_BUFFER` if there
/// are more than `capacity` alarms and `states` or `statuses` is given: nothing was done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_act_on_alarms(
    client: tl_client,
    alarms: *const c_char,
    alarms_length: size_t,
    action: i32,
    shelve_ms: u32,
    comment: *const c_char,
    comment_length: size_t,
    timeout_ms: i32,
    states: *mut i32,
    statuses: *mut tl_status,
    capacity: size_t,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes texts, as documented.
        let (list, comment) = unsafe {
            (
                names(text("alarms", alarms, alarms_length)?)?,
                text("comment", comment, comment_length)?,
            )
        };
        let is_short = capacity < list.len() && !(states.is_null() && statuses.is_null());
        if is_short {
            return Err(short("states", list.len(), capacity));
        }
        // SAFETY: the caller passes arrays with `capacity` elements, as documented.
        let (mut states, mut statuses) = unsafe {
            (
                room_or_none("states", states, list.len())?,
                Statuses::new(statuses, list.len())?,
            )
        };
        let named = list.iter().map(|name| alarm_name(name));
        let named = named.collect::<Result<Vec<AlarmName>, Failure>>()?;
        let action = action_of(action, shelve_ms)?;
        let results = object
            .client
            .act_on_alarms(named, action, comment, timeout(timeout_ms)?)?;
        for (index, (name, result)) in list.iter().zip(results).enumerate() {
            let state = result
                .as_ref()
                .map_or(-1, |state| i32::from(state.number()));
            if let Some(place) = states.as_mut().and_then(|all| all.get_mut(index)) {
                place.write(state);
            }
            statuses.put(index, name, result.map(drop).map_err(Failure::from));
        }
        statuses.end()
    })
}

fn alarm_name(name: &str) -> Result<AlarmName, Failure> {
    match name.rsplit_once('#') {
        Some((variable, alarm)) => Ok(AlarmName {
            variable: variable.to_owned(),
            alarm: alarm.to_owned(),
        }),
        None => Err(Failure::argument(format!(
            "{name:?} is no alarm; pass the variable and the alarm, such as boiler/level#hi"
        ))),
    }
}

fn action_of(action: i32, shelve_ms: u32) -> Result<AlarmAction, Failure> {
    match (action, shelve_ms) {
        (TL_ALARM_ACKNOWLEDGE, 0) => Ok(AlarmAction::Acknowledge),
        (TL_ALARM_RESET, 0) => Ok(AlarmAction::Reset),
        (TL_ALARM_SHELVE, 1..) => Ok(AlarmAction::Shelve(Duration::from_millis(shelve_ms.into()))),
        (TL_ALARM_UNSHELVE, 0) => Ok(AlarmAction::Unshelve),
        (TL_ALARM_TAKE_OUT_OF_SERVICE, 0) => Ok(AlarmAction::TakeOutOfService),
        (TL_ALARM_RETURN_TO_SERVICE, 0) => Ok(AlarmAction::ReturnToService),
        _ => Err(Failure::argument(format!(
            "the action {action} does not exist, or does not fit {shelve_ms} ms; pass a time for \
             TL_ALARM_SHELVE only"
        ))),
    }
}

/// The variable with the number of the newest entry of the journal. It only signals that there are new
/// entries: the journal has each change exactly once, also across a reconnection.
const JOURNAL: &str = "_engine/alarms/journal";

/// Changes of alarms, and how far they were delivered.
pub(crate) struct AlarmChangesObject {
    client: Client,
    journal: Subscription,
    is_closing: AtomicBool,
    state: Mutex<Following>,
}

struct Following {
    query: AlarmJournalQuery,
    /// Entries that have arrived.
    entries: VecDeque<AlarmEntry>,
    /// True if the journal may have entries that have not arrived.
    is_behind: bool,
    /// Number and time of the last entry, to recognise the journal after a restart of the engine.
    newest: Option<(u64, Timestamp)>,
    epoch: Option<u64>,
    /// The entry that was delivered last.
    current: Option<AlarmEntry>,
}

impl AlarmChangesObject {
    fn lock(&self) -> Result<MutexGuard<'_, Following>, Failure> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(PoisonError::into_inner(state)),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                TL_ERROR_BUSY,
                "another thread uses these changes; follow the alarms once for each thread",
            )),
        }
    }

    /// Takes the entries of the journal that are new.
    fn fetch(&self, state: &mut Following, limit: Duration) -> Result<(), Failure> {
        let page = self.client.alarm_journal(state.query.clone(), limit)?;
        if let Some(last) = page.entries.last() {
            state.newest = Some((last.number, last.when));
            state.query.from = Some(last.number + 1);
            // A page from a number on has only later entries.
            state.query.since = None;
        }
        state.is_behind = page.next.is_some();
        if let Some(next) = page.next {
            state.query.from = Some(next);
        }
        state.entries.extend(page.entries);
        Ok(())
    }

    /// Begins with the first entry again if an engine that was restarted has another journal.
    fn note_start(
        &self,
        state: &mut Following,
        epoch: u64,
        limit: Duration,
    ) -> Result<(), Failure> {
        let is_restarted = state.epoch.is_some_and(|known| known != epoch);
        if let (true, Some((number, when))) = (is_restarted, state.newest) {
            let query = AlarmJournalQuery {
                from: Some(number),
                limit: 1,
                ..AlarmJournalQuery::default()
            };
            let page = self.client.alarm_journal(query, limit)?;
            let first = page.entries.first();
            if first.is_none_or(|entry| (entry.number, entry.when) != (number, when)) {
                state.query.from = None;
            }
        }
        state.epoch = Some(epoch);
        state.is_behind = true;
        Ok(())
    }
}

/// Follows the changes of alarms: each change is delivered once, in order, also those during a lost
/// connection, as far as the engine's journal still has them.
///
/// `pattern`, `area`, `priority_min`: as for `tl_alarms`.
///
/// `since_ns`: `TL_SINCE_NOW` for changes from now on; or UTC nanoseconds since 1970, to begin with the
/// recorded changes from then on; or `TL_TIME_OPEN` for all recorded changes.
///
/// `changes`: where the handle is stored. Close it with `tl_alarm_changes_close`.
///
/// Errors: as `tl_alarms`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_follow_alarms(
    client: tl_client,
    pattern: *const c_char,
    pattern_length: size_t,
    area: *const c_char,
    area_length: size_t,
    priority_min: i32,
    since_ns: i64,
    timeout_ms: i32,
    changes: *mut tl_alarm_changes,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes texts, as documented.
        let selected =
            unsafe { selected((pattern, pattern_length), (area, area_length), priority_min)? };
        let limit = timeout(timeout_ms)?;
        let client = object.client.clone();
        // Before the journal is read, so that no later change is missed.
        let journal =
            client.subscribe(&[JOURNAL], Contract::Latest, SubscribeOptions::default())?;
        let mut query = AlarmJournalQuery {
            pattern: selected.pattern,
            area: selected.area,
            priority_min: selected.priority_min,
            ..AlarmJournalQuery::default()
        };
        let mut newest = None;
        if since_ns == TL_SINCE_NOW {
            let last = AlarmJournalQuery {
                newest_first: true,
                limit: 1,
                ..AlarmJournalQuery::default()
            };
            let page = client.alarm_journal(last, limit)?;
            newest = page.entries.first().map(|entry| (entry.number, entry.when));
            query.from = newest.map(|(number, _)| number + 1);
        } else {
            query.since = time_of(since_ns);
        }
        let created = AlarmChangesObject {
            client,
            journal,
            is_closing: AtomicBool::new(false),
            state: Mutex::new(Following {
                query,
                entries: VecDeque::new(),
                is_behind: true,
                newest,
                epoch: None,
                current: None,
            }),
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("changes", changes, handles::add(created)?) }
    })
}

/// Waits for the next change of an alarm.
///
/// `alarm`: where the alarm is stored as it is after the change. Its texts come from
/// `tl_alarm_changes_text`.
///
/// `lost`: where the number of changes is stored that are missing before this one, because the engine's
/// journal had no room for them or has removed them; may be NULL. If it is not 0, `alarm` has no state,
/// and only its number and time are set.
///
/// Errors: `TL_ERROR_TIMEOUT` if there was no change; `TL_FAULT_UNKNOWN_NAME` if the engine has no variables
/// of its own, because its configuration sets `health = "0s"`; `TL_ERROR_NOT_CONNECTED`;
/// `TL_ERROR_CLOSED`; `TL_ERROR_BUSY` if another thread waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_alarm_changes_next(
    changes: tl_alarm_changes,
    timeout_ms: i32,
    alarm: *mut tl_alarm,
    lost: *mut u64,
) -> tl_status {
    entry(|| {
        let object = handles::find::<AlarmChangesObject>(changes)?;
        let waits = Timeout::of(timeout_ms)?;
        let limit = timeout(timeout_ms)?.max(Duration::from_secs(1));
        let mut state = object.lock()?;
        let begun = Instant::now();
        for part in waits.parts() {
            if object.is_closing.load(Ordering::Acquire) {
                return Err(Failure::closed("the list of changes"));
            }
            if state.entries.is_empty() && state.is_behind {
                object.fetch(&mut state, limit.saturating_sub(begun.elapsed()))?;
            }
            if let Some(entry) = state.entries.pop_front() {
                let (number, missing) = entry.event.parts();
                let mut changed = alarm_of(&entry.record, entry.priority, entry.record.operand);
                changed.number = entry.number;
                changed.changed_ns = entry.when.as_nanos();
                changed.previous_state = i32::from(entry.from.number());
                state.current = Some(entry);
                // SAFETY: the caller passes places for both or NULL.
                return unsafe {
                    let is_about_journal = [JOURNAL_LOST, JOURNAL_REMOVED].contains(&number);
                    let missing = if is_about_journal { missing } else { 0 };
                    put_or_none("lost", lost, missing)?;
                    put("alarm", alarm, changed)
                };
            }
            if state.is_behind {
                // A page may be empty although another one follows.
                continue;
            }
            match object.journal.next(Some(part)) {
                Some(Event::Reading { .. }) => state.is_behind = true,
                Some(Event::Connected { epoch, .. }) => {
                    let left = limit.saturating_sub(begun.elapsed());
                    object.note_start(&mut state, epoch, left)?;
                }
                Some(Event::ItemError { fault, .. }) => {
                    let mut failure = Failure::from(fault);
                    failure.message.push_str(
                        "; changes of alarms need the engine's own variables, which `health = \"0s\"` in \
                         its configuration switches off",
                    );
                    return Err(failure);
                }
                Some(Event::Disconnected { .. } | Event::Ended { .. }) | None => {}
            }
        }
        Err(Failure::timeout(format!(
            "no alarm changed within {timeout_ms} ms"
        )))
    })
}

/// The numbers of entries about the journal itself.
const JOURNAL_LOST: u8 = 40;
const JOURNAL_REMOVED: u8 = 41;

/// Copies a text of the change that `tl_alarm_changes_next` has delivered last.
///
/// `field`: one of `TL_ALARM_TEXT_...`.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` for another field, and before the first change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_alarm_changes_text(
    changes: tl_alarm_changes,
    field: i32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<AlarmChangesObject>(changes)?;
        let state = object.lock()?;
        let entry = state.current.as_ref().ok_or_else(|| {
            Failure::argument("there was no change yet; call tl_alarm_changes_next first")
        })?;
        let found = match field {
            TL_ALARM_TEXT_VARIABLE => &entry.variable,
            TL_ALARM_TEXT_ALARM => &entry.alarm,
            TL_ALARM_TEXT_STATE => entry.record.state.name(),
            TL_ALARM_TEXT_AREA => &entry.area,
            TL_ALARM_TEXT_DESCRIPTION => &entry.description,
            TL_ALARM_TEXT_HELP => "",
            TL_ALARM_TEXT_WHO => &entry.who,
            TL_ALARM_TEXT_COMMENT => &entry.comment,
            TL_ALARM_TEXT_EVENT => entry.event.name(),
            field => return Err(no_such_text(field)),
        };
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(found, buffer, capacity, length) }
    })
}

/// Ends following the changes of alarms. A thread that waits returns `TL_ERROR_CLOSED` within 50 ms.
#[unsafe(no_mangle)]
pub extern "C" fn tl_alarm_changes_close(changes: tl_alarm_changes) -> tl_status {
    entry(|| {
        let object = handles::remove::<AlarmChangesObject>(changes)?;
        object.is_closing.store(true, Ordering::Release);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use trunkline::types::alarm::JournalEvent;

    use super::*;

    #[test]
    fn states_have_the_numbers_of_the_constants() {
        let source = include_str!("alarms.rs");
        for state in AlarmState::ALL {
            let name = state.name().to_uppercase().replace('-', "_");
            let line = format!("pub const TL_ALARM_{name}: i32 = {};", state.number());
            assert!(source.contains(&line), "missing: {line}");
        }
        assert_eq!(JournalEvent::Lost(7).parts(), (JOURNAL_LOST, 7));
        assert_eq!(JournalEvent::Removed(8).parts(), (JOURNAL_REMOVED, 8));
    }
}
