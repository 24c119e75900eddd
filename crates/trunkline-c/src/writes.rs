//! Writes: one value, many values, batches of mixed writes, and atomic groups.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use libc::size_t;
use trunkline::types::{FaultCode, Position, Quality, Timestamp, Value};
use trunkline::{NotTried, Write, WriteMode, WriteOutcome};

use crate::arguments::{elements, put, put_or_none, put_text, short, text, timeout};
use crate::client::{ClientObject, OpenVariable, Statuses, tl_client, tl_variable, with_client};
use crate::errors::{
    Failure, TL_ERROR_BUSY, TL_ERROR_NOT_SENT, TL_ERROR_SUPERSEDED, TL_ERROR_UNKNOWN_OUTCOME,
    TL_OK, tl_status,
};
use crate::values;
use crate::{entry, handles};

/// A list of writes that are sent together: a batch, or an atomic group.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_writes = u64;

/// The list was not written yet.
pub const TL_OUTCOME_NONE: i32 = 0;
/// The write became an update; `sequence` is its number.
pub const TL_OUTCOME_APPLIED: i32 = 1;
/// The value was within the deadband of the last one. Nothing changed.
pub const TL_OUTCOME_UNCHANGED: i32 = 2;
/// A newer write of the same variable replaced this one before it was sent.
pub const TL_OUTCOME_SUPERSEDED: i32 = 3;
/// A rule refused the write; `status` is the fault. Nothing changed.
pub const TL_OUTCOME_REFUSED: i32 = 4;
/// It is unknown whether the write was carried out.
pub const TL_OUTCOME_UNKNOWN: i32 = 5;
/// The write was not tried. Nothing changed; it may be tried again.
pub const TL_OUTCOME_NOT_TRIED: i32 = 6;

/// How a write ended. Every write has exactly one outcome.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_outcome {
    /// Number of the engine's start to which the sequence belongs; 0 without a position.
    pub epoch: u64,
    /// Number of the update that the write became or equals; 0 without one.
    pub sequence: u64,
    /// One of `TL_OUTCOME_...`.
    pub outcome: i32,
    /// `TL_OK` for an applied or unchanged write, otherwise the reason.
    pub status: tl_status,
}

/// The verb of a write: writes the value. The engine passes it to the I/O server of the variable and
/// waits for its answer.
pub const TL_VERB_PUT: i32 = 0;
/// Writes the engine's value only, and does not pass it to the I/O server.
pub const TL_VERB_SET: i32 = 1;
/// Forces the variable to the value, overriding its source and other writers.
pub const TL_VERB_FORCE: i32 = 2;
/// Passes the variable's current value to its I/O server. Has no value.
pub const TL_VERB_SEND: i32 = 3;
/// Requests a fresh value from the variable's I/O server. Has no value.
pub const TL_VERB_REQUEST: i32 = 4;
/// Ends forcing. Has no value.
pub const TL_VERB_UNFORCE: i32 = 5;

/// The writes of one handle, and the outcomes of their last sending.
pub(crate) struct WritesObject {
    client: tl_client,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    writes: Vec<Write>,
    names: Vec<Arc<str>>,
    outcomes: Vec<WriteOutcome>,
}

impl WritesObject {
    fn lock(&self) -> Result<MutexGuard<'_, State>, Failure> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(PoisonError::into_inner(state)),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                TL_ERROR_BUSY,
                "another thread uses these writes; create an object for each thread",
            )),
        }
    }
}

impl State {
    fn result(&self, index: usize) -> Result<(), Failure> {
        self.outcomes.get(index).map_or(Ok(()), result_of)
    }

    fn store_statuses(&self, mut statuses: Statuses<'_>) -> Result<(), Failure> {
        for (index, name) in self.names.iter().enumerate() {
            statuses.put(index, name, self.result(index));
        }
        statuses.end()
    }
}

/// Returns the failure of a write that was not carried out.
fn result_of(outcome: &WriteOutcome) -> Result<(), Failure> {
    match outcome {
        WriteOutcome::Applied(_) | WriteOutcome::Unchanged(_) => Ok(()),
        WriteOutcome::Superseded => Err(Failure::new(
            TL_ERROR_SUPERSEDED,
            "a newer write of the same variable replaced this one before it was sent",
        )),
        WriteOutcome::Refused(fault) => Err(fault.into()),
        WriteOutcome::Unknown(fault) => Err(Failure::new(
            TL_ERROR_UNKNOWN_OUTCOME,
            format!("it is unknown whether the write was carried out: {fault}"),
        )),
        WriteOutcome::NotTried(NotTried::WouldBlock) => Err(Failure::fault(
            FaultCode::WouldBlock,
            FaultCode::WouldBlock.meaning(),
        )),
        WriteOutcome::NotTried(NotTried::Cancelled(fault)) => Err(Failure::new(
            TL_ERROR_NOT_SENT,
            format!("the write was not sent, and never will be: {fault}"),
        )),
    }
}

fn outcome_of(outcome: Option<&WriteOutcome>) -> tl_outcome {
    let (kind, position) = match outcome {
        None => (TL_OUTCOME_NONE, Position::default()),
        Some(WriteOutcome::Applied(position)) => (TL_OUTCOME_APPLIED, *position),
        Some(WriteOutcome::Unchanged(position)) => (TL_OUTCOME_UNCHANGED, *position),
        Some(WriteOutcome::Superseded) => (TL_OUTCOME_SUPERSEDED, Position::default()),
        Some(WriteOutcome::Refused(_)) => (TL_OUTCOME_REFUSED, Position::default()),
        Some(WriteOutcome::Unknown(_)) => (TL_OUTCOME_UNKNOWN, Position::default()),
        Some(WriteOutcome::NotTried(_)) => (TL_OUTCOME_NOT_TRIED, Position::default()),
    };
    tl_outcome {
        epoch: position.epoch,
        sequence: position.sequence,
        outcome: kind,
        status: outcome
            .map_or(Ok(()), result_of)
            .map_or_else(|failure| failure.status, |()| TL_OK),
    }
}

/// Writes one value to each of the variables, given as a double, and waits for all outcomes. The value
/// is converted to the variable's type: a boolean takes 0 and 1, an enum the index of its label.
///
/// `statuses`: room for `count` statuses, or NULL: `TL_OK` if the write was carried out, otherwise the
/// reason.
///
/// Errors: the first of the statuses that is not `TL_OK`. `TL_FAULT_OUT_OF_RANGE` and
/// `TL_FAULT_WRONG_TYPE` for a value that is not one of the variable's type: then nothing was written.
/// `TL_ERROR_UNKNOWN_OUTCOME` if no answer arrived in time. `TL_ERROR_NOT_SENT`: not written, and never
/// will be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_write_f64(
    client: tl_client,
    variables: *const tl_variable,
    values: *const f64,
    count: size_t,
    timeout_ms: i32,
    statuses: *mut tl_status,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes arrays with `count` elements, as documented.
        let (variables, values, statuses) = unsafe {
            (
                elements("variables", variables, count)?,
                elements("values", values, count)?,
                Statuses::new(statuses, count)?,
            )
        };
        let convert =
            |variable: &OpenVariable, value: &f64| values::of_f64(*value, &variable.data_type);
        write(client, variables, values, timeout_ms, statuses, convert)
    })
}

/// As `tl_write_f64`, with integers: also for times, as nanoseconds, and for integers beyond 2^53.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_write_i64(
    client: tl_client,
    variables: *const tl_variable,
    values: *const i64,
    count: size_t,
    timeout_ms: i32,
    statuses: *mut tl_status,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes arrays with `count` elements, as documented.
        let (variables, values, statuses) = unsafe {
            (
                elements("variables", variables, count)?,
                elements("values", values, count)?,
                Statuses::new(statuses, count)?,
            )
        };
        let convert =
            |variable: &OpenVariable, value: &i64| values::of_i64(*value, &variable.data_type);
        write(client, variables, values, timeout_ms, statuses, convert)
    })
}

fn write<T>(
    client: tl_client,
    variables: &[tl_variable],
    values: &[T],
    timeout_ms: i32,
    statuses: Statuses<'_>,
    convert: impl Fn(&OpenVariable, &T) -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let object = handles::find::<ClientObject>(client)?;
    let list = object.list(variables)?;
    let mut state = State::default();
    for (variable, value) in list.into_iter().zip(values) {
        let value = convert(&variable, value).map_err(|failure| failure.of_item(&variable.name))?;
        state.writes.push(Write::new(variable.variable, value));
        state.names.push(variable.name);
    }
    let writes = std::mem::take(&mut state.writes);
    let outcomes = object.client.write(writes, timeout(timeout_ms)?);
    state.outcomes = outcomes.map_err(|error| object.failure(error.into()))?;
    state.store_statuses(statuses)
}

/// Writes one variable of any type, given as text, and waits for the outcome. Strings are taken as they
/// are; other types in the notation of the command line, such as `72.5`, `AUTO` or `[1, 2, 3]`.
///
/// Errors: as `tl_write_f64`, and `TL_FAULT_INVALID_VALUE` for a text that is no value of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_write_text(
    client: tl_client,
    variable: tl_variable,
    value: *const c_char,
    value_length: size_t,
    timeout_ms: i32,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a text, as documented.
        let value = unsafe { text("value", value, value_length)? };
        // SAFETY: NULL is no room for statuses.
        let statuses = unsafe { Statuses::new(std::ptr::null_mut(), 1)? };
        let convert =
            |variable: &OpenVariable, value: &&str| values::of_text(value, &variable.data_type);
        write(client, &[variable], &[value], timeout_ms, statuses, convert)
    })
}

/// Creates a list of writes of one client. Close it with `tl_writes_close`. One thread at a time may
/// use it.
///
/// `writes`: where the handle is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_writes_create(client: tl_client, writes: *mut tl_writes) -> tl_status {
    entry(|| {
        handles::find::<ClientObject>(client)?;
        let object = WritesObject {
            client,
            state: Mutex::default(),
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("writes", writes, handles::add(object)?) }
    })
}

/// Closes a list of writes.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_close(writes: tl_writes) -> tl_status {
    entry(|| handles::remove::<WritesObject>(writes).map(drop))
}

/// Removes all writes from the list, to fill it again.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_clear(writes: tl_writes) -> tl_status {
    entry(|| {
        let object = handles::find::<WritesObject>(writes)?;
        *object.lock()? = State::default();
        Ok(())
    })
}

fn add(
    writes: tl_writes,
    variable: tl_variable,
    value: impl FnOnce(&OpenVariable) -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let object = handles::find::<WritesObject>(writes)?;
    let client = handles::find::<ClientObject>(object.client)?;
    let variable = client.variable(variable)?;
    let value = value(&variable).map_err(|failure| failure.of_item(&variable.name))?;
    let mut state = object.lock()?;
    state.outcomes.clear();
    state.writes.push(Write::new(variable.variable, value));
    state.names.push(variable.name);
    Ok(())
}

/// Appends a write of a number, converted as by `tl_write_f64`.
///
/// Errors: `TL_FAULT_OUT_OF_RANGE`, `TL_FAULT_WRONG_TYPE`; then nothing is appended.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_add_f64(
    writes: tl_writes,
    variable: tl_variable,
    value: f64,
) -> tl_status {
    entry(|| {
        add(writes, variable, |variable| {
            values::of_f64(value, &variable.data_type)
        })
    })
}

/// Appends a write of an integer, converted as by `tl_write_i64`.
///
/// Errors: `TL_FAULT_OUT_OF_RANGE`, `TL_FAULT_WRONG_TYPE`; then nothing is appended.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_add_i64(
    writes: tl_writes,
    variable: tl_variable,
    value: i64,
) -> tl_status {
    entry(|| {
        add(writes, variable, |variable| {
            values::of_i64(value, &variable.data_type)
        })
    })
}

/// Appends a write of a value of any type, given as text, as by `tl_write_text`.
///
/// Errors: `TL_FAULT_INVALID_VALUE`; then nothing is appended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_writes_add_text(
    writes: tl_writes,
    variable: tl_variable,
    value: *const c_char,
    value_length: size_t,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a text, as documented.
        let value = unsafe { text("value", value, value_length)? };
        add(writes, variable, |variable| {
            values::of_text(value, &variable.data_type)
        })
    })
}

/// Appends a write of a variable of type bytes.
///
/// Errors: `TL_FAULT_WRONG_TYPE`; then nothing is appended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_writes_add_bytes(
    writes: tl_writes,
    variable: tl_variable,
    bytes: *const u8,
    count: size_t,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes an array with `count` elements, as documented.
        let bytes = unsafe { elements("bytes", bytes, count)? };
        add(writes, variable, |variable| {
            values::of_bytes(bytes, &variable.data_type)
        })
    })
}

/// Appends a write of an array of numbers with one dimension. Each number is converted to the element
/// type.
///
/// Errors: `TL_FAULT_OUT_OF_RANGE`, `TL_FAULT_WRONG_TYPE`; then nothing is appended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_writes_add_array_f64(
    writes: tl_writes,
    variable: tl_variable,
    numbers: *const f64,
    count: size_t,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes an array with `count` elements, as documented.
        let numbers = unsafe { elements("numbers", numbers, count)? };
        add(writes, variable, |variable| {
            values::of_f64_array(numbers, &variable.data_type)
        })
    })
}

/// Appends a write without a value: `TL_VERB_SEND`, `TL_VERB_REQUEST` or `TL_VERB_UNFORCE`.
///
/// Errors: `TL_ERROR_ARGUMENT` for another verb.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_add_order(
    writes: tl_writes,
    variable: tl_variable,
    verb: i32,
) -> tl_status {
    entry(|| {
        let order = match verb {
            TL_VERB_SEND => Write::send,
            TL_VERB_REQUEST => Write::request,
            TL_VERB_UNFORCE => Write::unforce,
            verb => {
                return Err(Failure::argument(format!(
                    "the verb {verb} needs a value, or does not exist; add the value, then call tl_writes_set_verb"
                )));
            }
        };
        add(writes, variable, |_| Ok(Value::Bool(false)))?;
        change_last(writes, |write| {
            *write = order(write.variable);
            Ok(())
        })
    })
}

fn change_last(
    writes: tl_writes,
    change: impl FnOnce(&mut Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let object = handles::find::<WritesObject>(writes)?;
    let mut state = object.lock()?;
    match state.writes.last_mut() {
        Some(last) => change(last),
        None => Err(Failure::argument(
            "the list is empty; add a write, then change it",
        )),
    }
}

/// Sets the verb of the last write: `TL_VERB_PUT` (as it is without this call), `TL_VERB_SET` or
/// `TL_VERB_FORCE`.
///
/// Errors: `TL_ERROR_ARGUMENT` for another verb, or if the list is empty.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_set_verb(writes: tl_writes, verb: i32) -> tl_status {
    entry(|| {
        let with_verb = match verb {
            TL_VERB_PUT => Write::new,
            TL_VERB_SET => Write::set,
            TL_VERB_FORCE => Write::force,
            verb => {
                return Err(Failure::argument(format!(
                    "the verb {verb} has no value, or does not exist; use tl_writes_add_order"
                )));
            }
        };
        change_last(writes, |write| {
            write.options.verb = with_verb(write.variable, Value::Bool(false)).options.verb;
            Ok(())
        })
    })
}

/// Makes the last write conditional: the engine refuses it with `TL_FAULT_CONFLICT` if the variable is
/// no longer at this position, which a reading or an outcome has stated.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_expect(writes: tl_writes, epoch: u64, sequence: u64) -> tl_status {
    entry(|| {
        change_last(writes, |write| {
            write.options.expected = Some(Position { epoch, sequence });
            Ok(())
        })
    })
}

/// Sets the source timestamp and the quality of the last write. Without this call, the engine sets the
/// timestamp, and the quality is good.
///
/// `source_timestamp_ns`: UTC nanoseconds since 1970. `quality`: as in `tl_reading`; 0 is good.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_stamp(
    writes: tl_writes,
    source_timestamp_ns: i64,
    quality: u32,
) -> tl_status {
    entry(|| {
        change_last(writes, |write| {
            write.options.source_timestamp = Some(Timestamp::from_nanos(source_timestamp_ns));
            write.options.quality = Some(Quality::from_bits(quality));
            Ok(())
        })
    })
}

/// Lets a newer write of the same variable replace the last write while it waits to be sent. It then
/// ends as `TL_OUTCOME_SUPERSEDED`.
#[unsafe(no_mangle)]
pub extern "C" fn tl_writes_newest(writes: tl_writes) -> tl_status {
    entry(|| {
        change_last(writes, |write| {
            write.mode = WriteMode::Newest;
            Ok(())
        })
    })
}

/// Sends all writes of the list in one round trip, and waits for all outcomes. The list keeps its
/// writes and can be sent again. The writes are not one transaction: see `tl_write_group`.
///
/// `statuses`: room for `capacity` statuses, or NULL; at least as many as there are writes.
///
/// Errors: as `tl_write_f64`. `tl_writes_outcome` has the outcome of each write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_write_batch(
    writes: tl_writes,
    timeout_ms: i32,
    statuses: *mut tl_status,
    capacity: size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<WritesObject>(writes)?;
        let client = handles::find::<ClientObject>(object.client)?;
        let has_statuses = !statuses.is_null();
        // SAFETY: the caller passes an array with `capacity` elements, as documented.
        let statuses = unsafe { Statuses::new(statuses, capacity)? };
        let mut state = object.lock()?;
        if has_statuses && capacity < state.writes.len() {
            return Err(short("statuses", state.writes.len(), capacity));
        }
        state.outcomes.clear();
        state.outcomes = client
            .client
            .write(state.writes.clone(), timeout(timeout_ms)?)
            .map_err(|error| client.failure(error.into()))?;
        state.store_statuses(statuses)
    })
}

/// Writes all of the list or nothing: the values have one engine timestamp and one commit number, and
/// subscribers see them together. A group has 1 to 4096 writes, each of another variable.
///
/// `commit`: where the commit number is stored, 0 if nothing was written; may be NULL.
///
/// Errors: the reason of the write that caused the refusal. `TL_ERROR_ARGUMENT` for a list that is empty
/// or too long. `tl_writes_outcome` has the outcome of each write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_write_group(
    writes: tl_writes,
    timeout_ms: i32,
    commit: *mut u64,
) -> tl_status {
    entry(|| {
        let object = handles::find::<WritesObject>(writes)?;
        let client = handles::find::<ClientObject>(object.client)?;
        // SAFETY: the caller passes a place for a number or NULL.
        unsafe { put_or_none("commit", commit, 0)? };
        let mut state = object.lock()?;
        state.outcomes.clear();
        let group = client
            .client
            .write_group(state.writes.clone(), timeout(timeout_ms)?)
            .map_err(|error| client.failure(error.into()))?;
        state.outcomes = group.outcomes;
        if let Some(number) = group.commit {
            // SAFETY: the same promise.
            unsafe { put_or_none("commit", commit, number)? };
        }
        let culprit = group.refused_member.unwrap_or(0);
        let name = state.names.get(culprit).cloned().unwrap_or_default();
        state
            .result(culprit)
            .map_err(|failure| failure.of_item(&name))?;
        // SAFETY: NULL is no room for statuses.
        state.store_statuses(unsafe { Statuses::new(std::ptr::null_mut(), 0)? })
    })
}

/// Queues all writes of the list, and returns at once. Their outcomes are only counted; `tl_flush` waits
/// for them.
///
/// `life_ms`: longest wait of the writes for a connection in milliseconds; then they are not sent.
///
/// Errors: `TL_ERROR_LIMIT` if too many writes wait already; then none is queued.
#[unsafe(no_mangle)]
pub extern "C" fn tl_write_untracked(writes: tl_writes, life_ms: u32) -> tl_status {
    entry(|| {
        let object = handles::find::<WritesObject>(writes)?;
        let client = handles::find::<ClientObject>(object.client)?;
        let state = object.lock()?;
        let life = Duration::from_millis(u64::from(life_ms));
        Ok(client.client.write_untracked(state.writes.clone(), life)?)
    })
}

/// Counts of a client's writes so far, by outcome.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_write_counts {
    /// All writes.
    pub issued: u64,
    /// Writes that became updates.
    pub applied: u64,
    /// Writes of a value within the deadband.
    pub unchanged: u64,
    /// Writes that a newer write replaced.
    pub superseded: u64,
    /// Writes that were refused.
    pub refused: u64,
    /// Writes that would have had to wait, although the call forbids it.
    pub would_block: u64,
    /// Writes whose outcome is unknown.
    pub unknown: u64,
    /// Writes that were never sent.
    pub cancelled: u64,
}

/// Sends all queued data, and waits until every write that was queued before has its outcome.
///
/// `counts`: where the counts of all writes of the client are stored; may be NULL.
///
/// Errors: `TL_ERROR_TIMEOUT`, `TL_ERROR_NOT_CONNECTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_flush(
    client: tl_client,
    timeout_ms: i32,
    counts: *mut tl_write_counts,
) -> tl_status {
    with_client(client, |object| {
        let done = object.client.flush(timeout(timeout_ms)?)?;
        let done = tl_write_counts {
            issued: done.issued,
            applied: done.applied,
            unchanged: done.unchanged,
            superseded: done.superseded,
            refused: done.refused,
            would_block: done.would_block,
            unknown: done.unknown,
            cancelled: done.cancelled,
        };
        // SAFETY: the caller passes a place for the counts or NULL.
        unsafe { put_or_none("counts", counts, done) }
    })
}

/// Stores the outcome of a write of the last `tl_write_batch` or `tl_write_group`, and copies the
/// sentence of its reason.
///
/// `index`: place of the write in the list, from 0.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns"; may be NULL, 0 and NULL.
///
/// Errors: `TL_ERROR_ARGUMENT` if there is no such write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_writes_outcome(
    writes: tl_writes,
    index: size_t,
    outcome: *mut tl_outcome,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<WritesObject>(writes)?;
        let state = object.lock()?;
        if index >= state.writes.len() {
            return Err(Failure::argument(format!(
                "there is no write {index}; the list has {}, numbered from 0",
                state.writes.len()
            )));
        }
        // SAFETY: the caller passes a place for an outcome or NULL.
        unsafe { put("outcome", outcome, outcome_of(state.outcomes.get(index)))? };
        if capacity == 0 && length.is_null() {
            return Ok(());
        }
        let sentence = state.result(index).err().map(|failure| failure.message);
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&sentence.unwrap_or_default(), buffer, capacity, length) }
    })
}
