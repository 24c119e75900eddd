//! I/O servers: a program of the user as the source of an engine's variables.
//!
//! The program publishes values when it has them, and takes orders from a queue. No function of the
//! program is called:
//!
//! ```text
//!  program --publish--> values of the items --------> engine
//!          <--next----- orders <--------------------- engine
//!          --accept, refuse--> answers -------------> engine
//! ```

use std::ffi::c_char;
use std::time::Duration;

use libc::size_t;
use trunkline::io::{ItemId, Published};
use trunkline::types::{Quality, Timestamp, Value};
use trunkline::{ConnectOptions, OrderAnswer, QueuedProvider, QueuedProviderOptions};

use crate::arguments::{Timeout, elements, names, put, put_text, text};
use crate::errors::{Failure, tl_status};
use crate::values::{self, tl_type, type_of_value};
use crate::{entry, handles};

/// An I/O server in this process.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_provider = u64;

/// The order is a value that a client has written to the variable of the item.
pub const TL_ORDER_WRITE: i32 = 1;
/// The order is a request for a fresh value of the item.
pub const TL_ORDER_REQUEST: i32 = 2;

/// What a client wants of an item.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_order {
    /// Number of the order, for the answer.
    pub number: u64,
    /// The value as a double if it is a number, a boolean or an enum; otherwise NaN.
    pub value: f64,
    /// The value as an integer if it is one; otherwise 0.
    pub integer: i64,
    /// `TL_ORDER_WRITE` or `TL_ORDER_REQUEST`.
    pub kind: i32,
    /// Index of the item in the list of `tl_provider_start`, from 0.
    pub item: u32,
    /// Type of the value; `TL_TYPE_UNKNOWN` for a request.
    pub data_type: tl_type,
    /// Always 0.
    pub reserved: i32,
}

/// The state of an I/O server.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_provider_status {
    /// 1 while the engine uses this I/O server, otherwise 0.
    pub is_provided: i32,
    /// Number of variables that it delivers.
    pub variables: u32,
    /// Number of variables whose source names an item that does not exist.
    pub missing: u32,
    /// Always 0.
    pub reserved: u32,
}

pub(crate) struct ProviderObject(QueuedProvider);

/// Passes requests for fresh values to the program as orders. Without it, they are answered with the
/// last published value.
pub const TL_PROVIDER_TAKES_REQUESTS: u32 = 1;

/// Starts an I/O server in this process: the program becomes the source of all variables of an engine
/// with `source = "NAME:ITEM"`. The engine need not run yet. When the program ends for any reason, the
/// variables become bad.
///
/// `url`, `url_length`: the engine, as for `tl_connect`.
///
/// `name`, `name_length`: the name in `source`.
///
/// `items`, `items_length`: names of the items, one per line. Their lines, from 0, are their numbers.
///
/// `order_timeout_ms`: longest wait of the engine for the program's answer to an order, from 1.
///
/// `flags`: 0 or `TL_PROVIDER_TAKES_REQUESTS`.
///
/// `provider`: where the handle is stored. Close it with `tl_provider_close`.
///
/// Errors: `TL_ERROR_SYNTAX` for the URL, `TL_ERROR_ARGUMENT`, `TL_ERROR_SYSTEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_provider_start(
    url: *const c_char,
    url_length: size_t,
    name: *const c_char,
    name_length: size_t,
    items: *const c_char,
    items_length: size_t,
    order_timeout_ms: u32,
    flags: u32,
    provider: *mut tl_provider,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes texts, as documented.
        let (url, name, items) = unsafe {
            (
                text("url", url, url_length)?,
                text("name", name, name_length)?,
                text("items", items, items_length)?,
            )
        };
        if order_timeout_ms == 0 || flags & !TL_PROVIDER_TAKES_REQUESTS != 0 {
            return Err(Failure::argument(
                "order_timeout_ms is at least 1, and flags are 0 or TL_PROVIDER_TAKES_REQUESTS",
            ));
        }
        let items: Vec<String> = names(items)?.into_iter().map(str::to_owned).collect();
        let url = match url {
            "" => "tl:///",
            url => url,
        };
        let engine = ConnectOptions::new(url)?;
        let options = QueuedProviderOptions {
            name: name.to_owned(),
            items,
            libraries: Vec::new(),
            order_timeout: Duration::from_millis(u64::from(order_timeout_ms)),
            takes_requests: flags & TL_PROVIDER_TAKES_REQUESTS != 0,
        };
        let object = ProviderObject(QueuedProvider::start(&engine, options)?);
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("provider", provider, handles::add(object)?) }
    })
}

/// Stops an I/O server; its variables become bad. A thread that waits in `tl_provider_next` returns `TL_ERROR_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn tl_provider_close(provider: tl_provider) -> tl_status {
    entry(|| {
        // Other threads may still use it. The last one drops it.
        handles::remove::<ProviderObject>(provider)?.0.stop();
        Ok(())
    })
}

/// Stores the state of an I/O server, and copies the current failure of the engine or the connection to
/// it; the empty text if there is none.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns"; may be NULL, 0 and NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_provider_state(
    provider: tl_provider,
    status: *mut tl_provider_status,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let now = handles::find::<ProviderObject>(provider)?.0.status();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let out = tl_provider_status {
            is_provided: i32::from(now.is_provided),
            variables: number(now.variables),
            missing: number(now.missing),
            reserved: 0,
        };
        // SAFETY: the caller passes a place for the state or NULL.
        unsafe { put("status", status, out)? };
        if capacity == 0 && length.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe {
            put_text(
                &now.engine_error.unwrap_or_default(),
                buffer,
                capacity,
                length,
            )
        }
    })
}

/// As the time of a published value: the engine sets the time.
pub const TL_TIME_NOW: i64 = i64::MIN;

fn published(item: u32, value: Value, quality: u32, source_timestamp_ns: i64) -> Published {
    Published {
        item: ItemId(item),
        value: Some(value),
        quality: Quality::from_bits(quality),
        source_timestamp: (source_timestamp_ns != TL_TIME_NOW)
            .then(|| Timestamp::from_nanos(source_timestamp_ns)),
    }
}

/// Publishes numbers: raw values of numeric items, which the engine converts and scales.
///
/// `items`: numbers of `count` items. `values`: their values.
///
/// `source_timestamp_ns`: time of the measurement of all values, UTC nanoseconds since 1970, or
/// `TL_TIME_NOW`.
///
/// Errors: `TL_ERROR_ARGUMENT` for an item that does not exist; then nothing is published.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_provider_publish_f64(
    provider: tl_provider,
    items: *const u32,
    values: *const f64,
    count: size_t,
    source_timestamp_ns: i64,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ProviderObject>(provider)?;
        // SAFETY: the caller passes arrays with `count` elements, as documented.
        let (items, values) = unsafe {
            (
                elements("items", items, count)?,
                elements("values", values, count)?,
            )
        };
        let values = items.iter().zip(values);
        let values: Vec<Published> = values
            .map(|(item, value)| published(*item, Value::F64(*value), 0, source_timestamp_ns))
            .collect();
        Ok(object.0.publish(&values)?)
    })
}

/// Publishes one value of an item with any plain type, given as text.
///
/// `data_type`, `type_length`: the type of the variable, such as `f64`, `bool`, `string` or
/// `enum(OFF, AUTO)`.
///
/// `quality`: as in `tl_reading`; 0 is good. `source_timestamp_ns`: as for `tl_provider_publish_f64`.
///
/// Errors: `TL_ERROR_SYNTAX` for the type, `TL_FAULT_INVALID_VALUE`, `TL_ERROR_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_provider_publish_text(
    provider: tl_provider,
    item: u32,
    data_type: *const c_char,
    type_length: size_t,
    value: *const c_char,
    value_length: size_t,
    quality: u32,
    source_timestamp_ns: i64,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ProviderObject>(provider)?;
        // SAFETY: the caller passes texts, as documented.
        let (data_type, value) = unsafe {
            (
                text("data_type", data_type, type_length)?,
                text("value", value, value_length)?,
            )
        };
        let data_type = trunkline::types::text::parse_type(data_type).map_err(Failure::syntax)?;
        let value = values::of_text(value, &data_type)?;
        let value = published(item, value, quality, source_timestamp_ns);
        Ok(object.0.publish(&[value])?)
    })
}

/// Publishes that an item cannot be read. Its variable becomes bad and keeps its last value.
///
/// `quality`: bits 2 to 15 are the reason, as in `tl_reading`; 0 is no reason.
#[unsafe(no_mangle)]
pub extern "C" fn tl_provider_fail(provider: tl_provider, item: u32, quality: u32) -> tl_status {
    entry(|| {
        let object = handles::find::<ProviderObject>(provider)?;
        let value = Published {
            item: ItemId(item),
            value: None,
            quality: Quality::from_bits(quality),
            source_timestamp: None,
        };
        Ok(object.0.publish(&[value])?)
    })
}

/// Waits for the next order. Answer it with `tl_provider_accept` or `tl_provider_refuse` before the
/// order timeout; the engine and the client wait for the answer.
///
/// `order`: where the order is stored.
///
/// `buffer`, `capacity`, `length`: the value as text, if it is not a number; see "Texts that the library
/// returns"; may be NULL, 0 and NULL. After `TL_ERROR_SHORT_BUFFER`, the next call gets the same order.
///
/// Errors: `TL_ERROR_TIMEOUT` if there is no order, `TL_ERROR_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_provider_next(
    provider: tl_provider,
    timeout_ms: i32,
    order: *mut tl_order,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ProviderObject>(provider)?;
        let limit = Timeout::of(timeout_ms)?.0;
        let Some(next) = object.0.peek_order(limit)? else {
            return Err(Failure::timeout(format!(
                "no order arrived within {timeout_ms} ms"
            )));
        };
        let value = next.value.as_ref();
        let out = tl_order {
            number: next.number,
            value: value
                .and_then(|value| values::as_f64(value).ok())
                .unwrap_or(f64::NAN),
            integer: value
                .and_then(|value| values::as_i64(value).ok())
                .unwrap_or(0),
            kind: if value.is_some() {
                TL_ORDER_WRITE
            } else {
                TL_ORDER_REQUEST
            },
            item: next.item.0,
            data_type: value.map_or(values::TL_TYPE_UNKNOWN, type_of_value),
            reserved: 0,
        };
        if capacity > 0 || !length.is_null() {
            let text = value
                .map(|value| values::as_text(value, None))
                .unwrap_or_default();
            // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
            unsafe { put_text(&text, buffer, capacity, length)? };
        }
        // SAFETY: the caller passes a place for an order or NULL.
        unsafe { put("order", order, out)? };
        match object.0.take_order(next.number) {
            true => Ok(()),
            false => Err(Failure::timeout("another thread has taken the order")),
        }
    })
}

/// Accepts an order with the number that the device has now, which may differ from the one that was
/// written. The variable gets this value.
///
/// `number`: from the order. `data_type`: the type of the order, or of the item for a request, one of
/// `TL_TYPE_BOOL` to `TL_TYPE_F64` or `TL_TYPE_ENUM`; `TL_TYPE_UNKNOWN` accepts the value as it was
/// written.
///
/// Errors: `TL_ERROR_TIMEOUT` if the answer is too late: the client was told that the device did not
/// answer. `TL_ERROR_ARGUMENT` for another type.
#[unsafe(no_mangle)]
pub extern "C" fn tl_provider_accept(
    provider: tl_provider,
    number: u64,
    data_type: tl_type,
    value: f64,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ProviderObject>(provider)?;
        let value = match data_type {
            values::TL_TYPE_UNKNOWN => None,
            values::TL_TYPE_ENUM => Some(Value::Enum(value as u32)),
            other => {
                let known = values::scalar_of(other).ok_or_else(|| {
                    Failure::argument(format!("{other} is not the type of a number"))
                })?;
                Some(values::of_f64(value, &known)?)
            }
        };
        let answer = match value {
            Some(value) => OrderAnswer::Has {
                value,
                quality: Quality::GOOD,
                source_timestamp: None,
            },
            None => OrderAnswer::Done,
        };
        Ok(object.0.answer(number, answer)?)
    })
}

/// Refuses an order. The client gets the reason, and the device keeps its value.
///
/// `number`: from the order. `reason`, `reason_length`: a sentence that says what to do.
///
/// Errors: `TL_ERROR_TIMEOUT` if the answer is too late.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_provider_refuse(
    provider: tl_provider,
    number: u64,
    reason: *const c_char,
    reason_length: size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ProviderObject>(provider)?;
        // SAFETY: the caller passes a text, as documented.
        let reason = unsafe { text("reason", reason, reason_length)? }.to_owned();
        Ok(object.0.answer(number, OrderAnswer::Refused(reason))?)
    })
}
