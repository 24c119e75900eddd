//! The readings of a read, a subscription or a query of history, and their columns.

use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use libc::size_t;
use trunkline::proto::{EndReason, Fault};
use trunkline::types::{DataType, FaultCode, Lost, Position, Quality, Reading, Timestamp, Value};
use trunkline::{Batch, Event, FollowEvent, ReadingBuffer};

use crate::arguments::{put, put_elements, put_or_none, put_text, room_or_none, short};
use crate::errors::{Failure, TL_ERROR_BUSY, TL_OK, tl_status};
use crate::subscription::SubscriptionObject;
use crate::values::{self, TL_TYPE_UNKNOWN, tl_type};
use crate::{entry, handles};

/// Readings that a call has filled in: by `tl_read`, `tl_snapshot`, `tl_subscription_next` or
/// `tl_history`. Use one object again and again: filling it replaces its contents and reuses its memory.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_readings = u64;

/// The losses of the reading are unknown, because the engine was restarted meanwhile.
pub const TL_LOST_UNKNOWN: i64 = -1;

/// One reading: a sample as a reader receives it.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_reading {
    /// The value as a double if it is a number, a boolean or an enum; otherwise NaN.
    pub value: f64,
    /// The value as an integer if it is an integer, a boolean, an enum or a time (nanoseconds) that
    /// fits; otherwise 0.
    pub integer: i64,
    /// Time of the measurement, UTC nanoseconds since 1970.
    pub source_timestamp_ns: i64,
    /// Time at which the engine accepted the value, UTC nanoseconds since 1970.
    pub engine_timestamp_ns: i64,
    /// Number of the engine's start to which the sequence belongs.
    pub epoch: u64,
    /// Number of the update within the epoch, from 1; 0 if the variable was never written.
    pub sequence: u64,
    /// Number of updates lost between the previous reading of this item and this one, in violation of
    /// the contract; `TL_LOST_UNKNOWN` if the number is unknown.
    pub lost: i64,
    /// Number of updates that a newer value replaced, as the contract permits.
    pub coalesced: u64,
    /// Age of the value in nanoseconds if the value may be out of date, because the connection is down
    /// or the value is older than its maximum age; otherwise -1.
    pub stale_ns: i64,
    /// `TL_OK`, or the fault of this item; then all other members but `item` are 0 or NaN.
    pub status: tl_status,
    /// The type of the value.
    pub data_type: tl_type,
    /// Index of the item: its place in the list of variables or names, from 0.
    pub item: u32,
    /// Quality: bits 0 and 1 are 0 for good, 1 for uncertain, 2 for bad; bits 2 to 15 are the reason.
    pub quality: u32,
    /// 1 if the variable has a value, 0 if it was never written.
    pub has_value: u8,
    /// 1 if this client wrote the update itself.
    pub own: u8,
    /// Always 0.
    pub reserved: [u8; 6],
}

/// There is no event.
pub const TL_EVENT_NONE: i32 = 0;
/// The connection is up. Later readings are from this session.
pub const TL_EVENT_CONNECTED: i32 = 1;
/// The connection is down. Values that the program has may become stale.
pub const TL_EVENT_DISCONNECTED: i32 = 2;
/// An item cannot be subscribed. The client tries again if that may help.
pub const TL_EVENT_ITEM_ERROR: i32 = 3;
/// The engine has ended an item.
pub const TL_EVENT_ENDED: i32 = 4;
/// A variable matches the patterns, and readings of this item follow. The text is its name.
pub const TL_EVENT_APPEARED: i32 = 5;
/// A variable no longer exists or no longer matches; no readings of this item follow. The text is its
/// name. Another variable may get the same item.
pub const TL_EVENT_GONE: i32 = 6;
/// All variables that match the pattern have been reported; repeated on each new connection.
pub const TL_EVENT_LISTED: i32 = 7;
/// The engine refuses to watch a pattern.
pub const TL_EVENT_PATTERN_ERROR: i32 = 8;

/// What a subscription reports besides readings.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_event {
    /// Number of the engine's start, for `TL_EVENT_CONNECTED`; otherwise 0.
    pub epoch: u64,
    /// For `TL_EVENT_ENDED`: number of updates that were not delivered, which `lost` of the next
    /// reading includes as well; `TL_LOST_UNKNOWN` if unknown. Otherwise 0.
    pub lost: i64,
    /// One of `TL_EVENT_...`.
    pub kind: i32,
    /// The reason, for `TL_EVENT_DISCONNECTED`, `TL_EVENT_ITEM_ERROR`, `TL_EVENT_ENDED` and
    /// `TL_EVENT_PATTERN_ERROR`.
    pub status: tl_status,
    /// Index of the item, for `TL_EVENT_ITEM_ERROR`, `TL_EVENT_ENDED`, `TL_EVENT_APPEARED` and
    /// `TL_EVENT_GONE`; line of the pattern, from 0, for `TL_EVENT_LISTED` and `TL_EVENT_PATTERN_ERROR`;
    /// otherwise 0.
    pub item: u32,
    /// Always 0.
    pub reserved: u32,
}

/// The readings of one handle.
#[derive(Default)]
pub(crate) struct ReadingsObject {
    contents: Mutex<Contents>,
}

/// The contents of a readings object: readings, and the types of their items.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) rows: Rows,
    pub(crate) types: Types,
}

/// An event with its text.
pub(crate) type TextEvent = (tl_event, String);

/// Where the readings are.
pub(crate) enum Rows {
    Read(ReadingBuffer),
    Taken(Batch),
    Listed(Vec<(u32, Result<Reading, Fault>)>),
    /// Of a subscription by pattern, with the event that follows them and its text.
    Followed(Vec<(u32, Reading)>, Option<TextEvent>),
}

impl Default for Rows {
    fn default() -> Self {
        Rows::Listed(Vec::new())
    }
}

/// The types of the items, for text.
#[derive(Default)]
pub(crate) enum Types {
    #[default]
    Unknown,
    Listed(Vec<Option<DataType>>),
    Subscribed(Weak<SubscriptionObject>),
}

/// A reading of any source.
struct Row<'a> {
    item: u32,
    value: &'a Value,
    source_timestamp: Timestamp,
    engine_timestamp: Timestamp,
    quality: Quality,
    position: Position,
    lost: Lost,
    stale: Option<std::time::Duration>,
    own: bool,
}

impl Row<'_> {
    fn has_value(&self) -> bool {
        self.position.sequence > 0 && self.quality.has_value()
    }

    fn value(&self) -> Result<&Value, Failure> {
        match self.has_value() {
            true => Ok(self.value),
            false => Err(no_value(self.quality)),
        }
    }
}

pub(crate) fn no_value(quality: Quality) -> Failure {
    Failure::fault(
        FaultCode::NoValue,
        format!("the variable has no value yet: {quality}; `trunkline why` shows the cause"),
    )
}

pub(crate) fn lost_of(lost: Option<u64>) -> i64 {
    lost.map_or(TL_LOST_UNKNOWN, |lost| {
        i64::try_from(lost).unwrap_or(i64::MAX)
    })
}

impl Contents {
    pub(crate) fn len(&self) -> usize {
        match &self.rows {
            Rows::Read(buffer) => buffer.len(),
            Rows::Taken(batch) => batch.readings().len(),
            Rows::Listed(list) => list.len(),
            Rows::Followed(list, _) => list.len(),
        }
    }

    fn row(&self, index: usize) -> Result<(u32, Result<Row<'_>, &Fault>), Failure> {
        let row = match &self.rows {
            Rows::Read(buffer) => buffer.get(index).map(|result| {
                let row = result.map(|reading| Row {
                    item: index as u32,
                    value: reading.value(),
                    source_timestamp: reading.source_timestamp(),
                    engine_timestamp: reading.engine_timestamp(),
                    quality: reading.quality(),
                    position: reading.position(),
                    lost: Lost::NONE,
                    stale: reading.stale(),
                    own: reading.own(),
                });
                (index as u32, row)
            }),
            Rows::Taken(batch) => batch.readings().get(index).map(|reading| {
                let row = Row {
                    item: reading.item(),
                    value: reading.value(),
                    source_timestamp: reading.source_timestamp(),
                    engine_timestamp: reading.engine_timestamp(),
                    quality: reading.quality(),
                    position: reading.position(),
                    lost: reading.lost(),
                    stale: reading.stale(),
                    own: reading.own(),
                };
                (row.item, Ok(row))
            }),
            Rows::Listed(list) => list.get(index).map(|(item, result)| {
                (*item, result.as_ref().map(|reading| row_of(*item, reading)))
            }),
            Rows::Followed(list, _) => {
                let row = list.get(index);
                row.map(|(item, reading)| (*item, Ok(row_of(*item, reading))))
            }
        };
        row.ok_or_else(|| {
            Failure::argument(format!(
                "there is no reading {index}; this object has {} readings, numbered from 0",
                self.len()
            ))
        })
    }

    fn reading(&self, index: usize) -> Result<Row<'_>, Failure> {
        let (_, row) = self.row(index)?;
        row.map_err(Failure::from)
    }

    fn data_type(&self, item: u32) -> Option<DataType> {
        match &self.types {
            Types::Unknown => None,
            Types::Listed(types) => types.get(item as usize).cloned().flatten(),
            Types::Subscribed(subscription) => subscription.upgrade()?.data_type(item),
        }
    }

    fn event(&self) -> TextEvent {
        match &self.rows {
            Rows::Taken(batch) => event_of(batch.event()),
            Rows::Followed(_, Some(event)) => event.clone(),
            Rows::Read(_) | Rows::Listed(_) | Rows::Followed(_, None) => event_of(None),
        }
    }
}

fn row_of(item: u32, reading: &Reading) -> Row<'_> {
    Row {
        item,
        value: &reading.sample.value,
        source_timestamp: reading.sample.source_timestamp,
        engine_timestamp: reading.sample.engine_timestamp,
        quality: reading.sample.quality,
        position: reading.position,
        lost: reading.lost,
        stale: reading.stale,
        own: reading.own,
    }
}

/// Returns a reading of a callback.
pub(crate) fn reading_of(item: u32, reading: &Reading) -> tl_reading {
    c_reading(item, Ok(row_of(item, reading)))
}

fn c_reading(item: u32, row: Result<Row<'_>, &Fault>) -> tl_reading {
    let mut reading = tl_reading {
        value: f64::NAN,
        integer: 0,
        source_timestamp_ns: 0,
        engine_timestamp_ns: 0,
        epoch: 0,
        sequence: 0,
        lost: 0,
        coalesced: 0,
        stale_ns: 0,
        status: TL_OK,
        data_type: TL_TYPE_UNKNOWN,
        item,
        quality: 0,
        has_value: 0,
        own: 0,
        reserved: [0; 6],
    };
    let row = match row {
        Ok(row) => row,
        Err(fault) => {
            reading.status = Failure::from(fault).status;
            return reading;
        }
    };
    let has_value = row.has_value();
    if has_value {
        reading.value = values::as_f64(row.value).unwrap_or(f64::NAN);
        reading.integer = values::as_i64(row.value).unwrap_or(0);
    }
    reading.data_type = values::type_of_value(row.value);
    reading.source_timestamp_ns = row.source_timestamp.as_nanos();
    reading.engine_timestamp_ns = row.engine_timestamp.as_nanos();
    reading.epoch = row.position.epoch;
    reading.sequence = row.position.sequence;
    reading.lost = lost_of(row.lost.count());
    reading.coalesced = row.lost.coalesced;
    reading.stale_ns = row
        .stale
        .map_or(-1, |age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
    reading.quality = row.quality.to_bits();
    reading.has_value = u8::from(has_value);
    reading.own = u8::from(row.own);
    reading
}

const NO_EVENT: tl_event = tl_event {
    epoch: 0,
    lost: 0,
    kind: TL_EVENT_NONE,
    status: TL_OK,
    item: 0,
    reserved: 0,
};

/// Returns an event of a subscription by pattern that is no event of a subscription, and its text.
pub(crate) fn pattern_event_of(event: &FollowEvent) -> TextEvent {
    let mut out = NO_EVENT;
    let text = match event {
        FollowEvent::Appeared { item, name, .. } => {
            (out.kind, out.item) = (TL_EVENT_APPEARED, *item);
            name.to_string()
        }
        FollowEvent::Gone { item, name } => {
            (out.kind, out.item) = (TL_EVENT_GONE, *item);
            name.to_string()
        }
        FollowEvent::Listed { pattern } => {
            (out.kind, out.item) = (TL_EVENT_LISTED, *pattern as u32);
            String::new()
        }
        FollowEvent::PatternError { pattern, fault } => {
            let failure = Failure::from(fault);
            (out.kind, out.item) = (TL_EVENT_PATTERN_ERROR, *pattern as u32);
            out.status = failure.status;
            failure.message
        }
        FollowEvent::Event(event) => return event_of(Some(event)),
    };
    (out, text)
}

/// Returns an event and its sentence. A reading is no event.
pub(crate) fn event_of(event: Option<&Event>) -> TextEvent {
    let mut out = NO_EVENT;
    let sentence = match event {
        None | Some(Event::Reading { .. }) => String::new(),
        Some(Event::Connected { epoch, .. }) => {
            (out.kind, out.epoch) = (TL_EVENT_CONNECTED, *epoch);
            "connected".to_owned()
        }
        Some(Event::Disconnected { cause, .. }) => {
            let failure = Failure::from(&**cause);
            (out.kind, out.status) = (TL_EVENT_DISCONNECTED, failure.status);
            failure.message
        }
        Some(Event::ItemError { item, fault }) => {
            let failure = Failure::from(fault);
            (out.kind, out.status, out.item) = (TL_EVENT_ITEM_ERROR, failure.status, *item);
            failure.message
        }
        Some(Event::Ended {
            item,
            reason,
            lost,
            sentence,
            ..
        }) => {
            (out.kind, out.item) = (TL_EVENT_ENDED, *item);
            out.lost = lost_of(*lost);
            let code = match reason {
                EndReason::Overrun => FaultCode::Overrun,
                EndReason::Denied => FaultCode::Denied,
                EndReason::Gone | EndReason::Unknown(_) => FaultCode::Gone,
            };
            out.status = i32::from(code.number());
            sentence.to_string()
        }
    };
    (out, sentence)
}

impl ReadingsObject {
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Contents>, Failure> {
        match self.contents.try_lock() {
            Ok(contents) => Ok(contents),
            Err(TryLockError::Poisoned(contents)) => Ok(PoisonError::into_inner(contents)),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                TL_ERROR_BUSY,
                "another thread uses these readings; create an object for each thread",
            )),
        }
    }
}

fn with(readings: tl_readings, read: impl FnOnce(&Contents) -> Result<(), Failure>) -> tl_status {
    entry(|| {
        let object = handles::find::<ReadingsObject>(readings)?;
        let contents = object.lock()?;
        read(&contents)
    })
}

/// Creates an object for readings. Close it with `tl_readings_close`.
///
/// `readings`: where the handle is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_create(readings: *mut tl_readings) -> tl_status {
    entry(|| {
        let handle = handles::add(ReadingsObject::default())?;
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("readings", readings, handle) }
    })
}

/// Closes an object for readings.
#[unsafe(no_mangle)]
pub extern "C" fn tl_readings_close(readings: tl_readings) -> tl_status {
    entry(|| handles::remove::<ReadingsObject>(readings).map(drop))
}

/// Stores the number of readings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_count(readings: tl_readings, count: *mut size_t) -> tl_status {
    with(readings, |contents| {
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put("count", count, contents.len()) }
    })
}

/// Stores one reading.
///
/// `index`: from 0 to the count - 1.
///
/// Errors: `TL_ERROR_ARGUMENT` for another index. A fault of the item is in `reading->status`, and its
/// sentence comes from `tl_readings_message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_get(
    readings: tl_readings,
    index: size_t,
    reading: *mut tl_reading,
) -> tl_status {
    with(readings, |contents| {
        let (item, row) = contents.row(index)?;
        // SAFETY: the caller passes a place for a reading or NULL.
        unsafe { put("reading", reading, c_reading(item, row)) }
    })
}

/// Copies the columns of all readings into arrays of the caller. Each array has room for `capacity`
/// elements, or is NULL if the column is not needed. The columns are the members of `tl_reading`.
///
/// `statuses`: `TL_OK`, the fault of the item, `TL_FAULT_NO_VALUE` for a variable without a value, or
/// `TL_FAULT_WRONG_TYPE` if `values` is given and the value is not a number.
///
/// `count`: where the number of readings is stored; may be NULL.
///
/// Errors: `TL_ERROR_SHORT_BUFFER` if there are more than `capacity` readings; then nothing is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_columns(
    readings: tl_readings,
    items: *mut u32,
    values: *mut f64,
    source_timestamps_ns: *mut i64,
    qualities: *mut u32,
    sequences: *mut u64,
    lost: *mut i64,
    statuses: *mut tl_status,
    capacity: size_t,
    count: *mut size_t,
) -> tl_status {
    with(readings, |contents| {
        let rows = contents.len();
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put_or_none("count", count, rows)? };
        if rows > capacity {
            return Err(short("each column", rows, capacity));
        }
        // SAFETY: the caller passes arrays with `capacity` elements, of which `rows` are used, or NULL.
        let (mut items, mut values, mut times) = unsafe {
            (
                room_or_none("items", items, rows)?,
                room_or_none("values", values, rows)?,
                room_or_none("source_timestamps_ns", source_timestamps_ns, rows)?,
            )
        };
        // SAFETY: the same promise.
        let (mut qualities, mut sequences, mut losses, mut statuses) = unsafe {
            (
                room_or_none("qualities", qualities, rows)?,
                room_or_none("sequences", sequences, rows)?,
                room_or_none("lost", lost, rows)?,
                room_or_none("statuses", statuses, rows)?,
            )
        };
        for index in 0..rows {
            let (item, row) = contents.row(index)?;
            let number = row
                .as_ref()
                .map_err(|fault| Failure::from(*fault))
                .and_then(Row::value)
                .and_then(|value| match values.is_some() {
                    true => values::as_f64(value),
                    false => Ok(f64::NAN),
                });
            let status = number
                .as_ref()
                .map_or_else(|failure| failure.status, |_| TL_OK);
            let reading = c_reading(item, row);
            macro_rules! store {
                ($($column:ident = $cell:expr;)+) => {
                    $(if let Some(column) = &mut $column {
                        column[index].write($cell);
                    })+
                };
            }
            store! {
                items = item;
                values = number.as_ref().map_or(f64::NAN, |number| *number);
                times = reading.source_timestamp_ns;
                qualities = reading.quality;
                sequences = reading.sequence;
                losses = reading.lost;
                statuses = status;
            }
        }
        Ok(())
    })
}

/// Copies the value of a reading as text: strings as they are, all other types as the command line
/// prints them.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: the fault of the item; `TL_FAULT_NO_VALUE`; `TL_ERROR_SHORT_BUFFER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_text(
    readings: tl_readings,
    index: size_t,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with(readings, |contents| {
        let row = contents.reading(index)?;
        let text = values::as_text(row.value()?, contents.data_type(row.item).as_ref());
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&text, buffer, capacity, length) }
    })
}

/// Copies the value of a reading of type string or bytes, without a NUL byte at its end.
///
/// `bytes`: room for `capacity` bytes. `count`: where the number of bytes is stored; may be NULL. With
/// a capacity of 0, only the number is stored.
///
/// Errors: the fault of the item; `TL_FAULT_NO_VALUE`; `TL_FAULT_WRONG_TYPE`;
/// `TL_ERROR_SHORT_BUFFER`, and nothing is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_bytes(
    readings: tl_readings,
    index: size_t,
    bytes: *mut u8,
    capacity: size_t,
    count: *mut size_t,
) -> tl_status {
    with(readings, |contents| {
        let row = contents.reading(index)?;
        let value = values::as_bytes(row.value()?)?;
        // SAFETY: the caller passes an array of `capacity` bytes and a count, as documented.
        unsafe { put_elements("bytes", value, bytes, capacity, count) }
    })
}

/// Copies the elements of a reading that is an array or a waveform of numbers, in row-major order. A
/// single number is an array of one element.
///
/// `numbers`: room for `capacity` doubles. `count`: where the number of elements is stored; may be NULL.
/// With a capacity of 0, only the number is stored.
///
/// Errors: the fault of the item; `TL_FAULT_NO_VALUE`; `TL_FAULT_WRONG_TYPE`;
/// `TL_ERROR_SHORT_BUFFER`, and nothing is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_array_f64(
    readings: tl_readings,
    index: size_t,
    numbers: *mut f64,
    capacity: size_t,
    count: *mut size_t,
) -> tl_status {
    with(readings, |contents| {
        let row = contents.reading(index)?;
        let elements = values::as_f64_array(row.value()?)?;
        // SAFETY: the caller passes an array of `capacity` doubles and a count, as documented.
        unsafe { put_elements("numbers", &elements, numbers, capacity, count) }
    })
}

/// Copies the sentence of a reading's fault; the empty text if it has none.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_message(
    readings: tl_readings,
    index: size_t,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with(readings, |contents| {
        let sentence = match contents.row(index)? {
            (_, Ok(_)) => String::new(),
            (_, Err(fault)) => fault.to_string(),
        };
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&sentence, buffer, capacity, length) }
    })
}

/// Stores the event that follows the readings of `tl_subscription_next`, and copies its sentence, or for
/// `TL_EVENT_APPEARED` and `TL_EVENT_GONE` the name.
///
/// `event`: where the event is stored; its kind is `TL_EVENT_NONE` if there is none.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns"; may be NULL, 0 and NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_readings_event(
    readings: tl_readings,
    event: *mut tl_event,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with(readings, |contents| {
        let (out, sentence) = contents.event();
        // SAFETY: the caller passes a place for an event or NULL.
        unsafe { put("event", event, out)? };
        if capacity == 0 && length.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&sentence, buffer, capacity, length) }
    })
}
