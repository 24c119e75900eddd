//! I/O servers: a program of the user as the source of an engine's variables.
//!
//! The program publishes values when it has them, and takes orders from a queue. No function of the
//! program is called:
//!
//! ```text
//!  program --publish--> values of the items --scan of the thread "trunkline-io"--> engine
//!          <--next----- orders <----------------- send, request ----------------- engine
//!          --accept, refuse--> answer ----------------------------------------> engine
//! ```

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::size_t;
use trunkline::io::{Health, IoError, IoServer, ItemId, Scan, SendRefusal};
use trunkline::types::{LibraryDefinition, Quality, Reason, Tick, Timestamp, Value};
use trunkline::{ConnectOptions, Provider, ProviderOptions};

use crate::arguments::{Timeout, elements, names, put, put_text, text};
use crate::errors::{Failure, TL_ERROR_CLOSED, TL_ERROR_TIMEOUT, tl_status};
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

/// A value of an item, as the program has published it.
#[derive(Clone)]
struct Published {
    value: Option<Value>,
    quality: Quality,
    source_timestamp: Option<Timestamp>,
}

struct Order {
    number: u64,
    item: u32,
    /// `None` for a request.
    value: Option<Value>,
}

/// What the program has answered to the order in progress.
enum Answer {
    Accepted(Option<Published>),
    Refused(String),
}

#[derive(Default)]
struct Exchanged {
    last: Vec<Option<Published>>,
    /// Items that were published and not scanned.
    published: VecDeque<(u32, Published)>,
    is_opened: bool,
    orders: VecDeque<Order>,
    /// Number of the order whose answer the engine waits for, and its item.
    waiting: Option<(u64, u32)>,
    answer: Option<Answer>,
    orders_issued: u64,
    is_closing: bool,
}

impl Exchanged {
    /// Returns the newest value of each item.
    fn newest(&self) -> VecDeque<(u32, Published)> {
        let last = (0..).zip(&self.last);
        last.filter_map(|(item, last)| Some((item, last.clone()?)))
            .collect()
    }
}

/// The data that the program and the thread of the I/O server exchange.
struct Exchange {
    exchanged: Mutex<Exchanged>,
    changed: Condvar,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, Exchanged> {
        self.exchanged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct ProviderObject {
    exchange: Arc<Exchange>,
    items: usize,
    provider: Mutex<Option<Provider>>,
}

impl ProviderObject {
    fn check_item(&self, item: u32) -> Result<(), Failure> {
        match (item as usize) < self.items {
            true => Ok(()),
            false => Err(Failure::argument(format!(
                "there is no item {item}; this I/O server has {}, numbered from 0",
                self.items
            ))),
        }
    }

    fn publish(&self, list: impl IntoIterator<Item = (u32, Published)>) -> Result<(), Failure> {
        let mut exchanged = self.exchange.lock();
        if exchanged.is_closing {
            return Err(closed());
        }
        for (item, value) in list {
            if let Some(last) = exchanged.last.get_mut(item as usize) {
                *last = Some(value.clone());
            }
            // Before the engine is connected, only the newest value of an item counts.
            if exchanged.is_opened {
                exchanged.published.push_back((item, value));
                if exchanged.published.len() > PUBLISHED_MAX {
                    exchanged.published = exchanged.newest();
                }
            }
        }
        Ok(())
    }

    fn answer(&self, number: u64, answer: impl FnOnce(u32) -> Answer) -> Result<(), Failure> {
        let mut exchanged = self.exchange.lock();
        match exchanged.waiting {
            Some((waiting, item)) if waiting == number && exchanged.answer.is_none() => {
                let answer = answer(item);
                if let Answer::Accepted(Some(value)) = &answer
                    && let Some(last) = exchanged.last.get_mut(item as usize)
                {
                    *last = Some(value.clone());
                }
                exchanged.answer = Some(answer);
                self.exchange.changed.notify_all();
                Ok(())
            }
            _ => Err(Failure::new(
                TL_ERROR_TIMEOUT,
                format!(
                    "nobody waits for the answer to order {number} any more: it was answered already, or \
                     too late; if the device has the value, publish it"
                ),
            )),
        }
    }
}

/// Maximum number of values that wait for a scan. Above it, only the newest value of each item is kept.
const PUBLISHED_MAX: usize = 1 << 16;

fn closed() -> Failure {
    Failure::new(TL_ERROR_CLOSED, "the I/O server was closed")
}

/// The I/O server as the engine sees it.
struct Server {
    exchange: Arc<Exchange>,
    items: Vec<String>,
    period: Duration,
    order_timeout: Duration,
    takes_requests: bool,
    health: Health,
}

impl Server {
    fn device_failed(&self, item: ItemId, cause: &str) -> SendRefusal {
        SendRefusal::DeviceFailed {
            item: self.items.get(item.0 as usize).cloned().unwrap_or_default(),
            cause: cause.to_owned(),
        }
    }

    /// Passes an order to the program, and waits for its answer.
    fn order(&self, item: ItemId, value: Option<Value>) -> Result<Option<Published>, SendRefusal> {
        let mut exchanged = self.exchange.lock();
        exchanged.orders_issued += 1;
        let number = exchanged.orders_issued;
        exchanged.answer = None;
        exchanged.waiting = Some((number, item.0));
        exchanged.orders.push_back(Order {
            number,
            item: item.0,
            value,
        });
        self.exchange.changed.notify_all();
        let is_waiting =
            |exchanged: &mut Exchanged| exchanged.answer.is_none() && !exchanged.is_closing;
        let waited =
            self.exchange
                .changed
                .wait_timeout_while(exchanged, self.order_timeout, is_waiting);
        let (mut exchanged, _) = waited.unwrap_or_else(PoisonError::into_inner);
        exchanged.waiting = None;
        let answer = exchanged.answer.take();
        let was_taken = !exchanged.orders.iter().any(|order| order.number == number);
        exchanged.orders.retain(|order| order.number != number);
        match answer {
            Some(Answer::Accepted(value)) => Ok(value),
            Some(Answer::Refused(reason)) => Err(self.device_failed(item, &reason)),
            None if was_taken => Err(self.device_failed(
                item,
                "its program took the order and did not answer in time; the device may have the value",
            )),
            None => Err(self.device_failed(item, "its program does not take orders")),
        }
    }
}

impl IoServer for Server {
    fn libraries(&self, _name: &str) -> Vec<LibraryDefinition> {
        Vec::new()
    }

    fn item(&self, item: &str) -> Option<ItemId> {
        let index = self.items.iter().position(|known| known == item)?;
        Some(ItemId(index as u32))
    }

    fn open(&mut self, _now: Tick, _wall: Timestamp) -> Result<(), IoError> {
        let mut exchanged = self.exchange.lock();
        exchanged.is_opened = true;
        exchanged.published = exchanged.newest();
        drop(exchanged);
        self.health.record_open();
        Ok(())
    }

    fn scan(&mut self, _now: Tick, _wall: Timestamp, scan: &mut Scan) -> Result<(), IoError> {
        let published = std::mem::take(&mut self.exchange.lock().published);
        for (item, value) in published {
            publish(scan, ItemId(item), value);
        }
        self.health.record_scan(None);
        Ok(())
    }

    fn request(
        &mut self,
        item: ItemId,
        _now: Tick,
        _wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError> {
        let fresh = match self.takes_requests {
            true => self.order(item, None).ok().flatten(),
            false => None,
        };
        let last = || {
            self.exchange
                .lock()
                .last
                .get(item.0 as usize)
                .cloned()
                .flatten()
        };
        match fresh.or_else(last) {
            Some(value) => publish(scan, item, value),
            None => scan.fail(item, Reason::NoValue),
        }
        Ok(())
    }

    fn send(
        &mut self,
        item: ItemId,
        value: &Value,
        _now: Tick,
        _wall: Timestamp,
    ) -> Result<Value, SendRefusal> {
        let answer = self.order(item, Some(value.clone()));
        self.health.record_send(&answer);
        let read_back = answer?.and_then(|published| published.value);
        Ok(read_back.unwrap_or_else(|| value.clone()))
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn period(&self) -> Duration {
        self.period
    }
}

fn publish(scan: &mut Scan, item: ItemId, published: Published) {
    match published.value {
        Some(value) => match published.source_timestamp {
            Some(time) => scan.publish_at(item, value, published.quality, time),
            None => scan.publish(item, value, published.quality),
        },
        None => scan.fail(item, published.quality.reason()),
    }
}

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
/// `period_ms`: interval in milliseconds at which published values are delivered, from 1. Orders do not
/// wait for it.
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
    period_ms: u32,
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
        if period_ms == 0 || order_timeout_ms == 0 || flags & !TL_PROVIDER_TAKES_REQUESTS != 0 {
            return Err(Failure::argument(
                "period_ms and order_timeout_ms are at least 1, and flags are 0 or \
                 TL_PROVIDER_TAKES_REQUESTS",
            ));
        }
        let items: Vec<String> = names(items)?.into_iter().map(str::to_owned).collect();
        let url = match url {
            "" => "tl:///",
            url => url,
        };
        let engine = ConnectOptions::new(url)?;
        let exchange = Arc::new(Exchange {
            exchanged: Mutex::new(Exchanged {
                last: vec![None; items.len()],
                ..Exchanged::default()
            }),
            changed: Condvar::new(),
        });
        let count = items.len();
        let server = Server {
            exchange: Arc::clone(&exchange),
            items,
            period: Duration::from_millis(u64::from(period_ms)),
            order_timeout: Duration::from_millis(u64::from(order_timeout_ms)),
            takes_requests: flags & TL_PROVIDER_TAKES_REQUESTS != 0,
            health: Health::default(),
        };
        let started = Provider::start(&engine, &ProviderOptions::named(name), Box::new(server))?;
        let object = ProviderObject {
            exchange,
            items: count,
            provider: Mutex::new(Some(started)),
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("provider", provider, handles::add(object)?) }
    })
}

/// Stops an I/O server; its variables become bad. Waits for its thread. A thread that waits in
/// `tl_provider_next` returns `TL_ERROR_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn tl_provider_close(provider: tl_provider) -> tl_status {
    entry(|| {
        let object = handles::remove::<ProviderObject>(provider)?;
        object.exchange.lock().is_closing = true;
        object.exchange.changed.notify_all();
        let running = object
            .provider
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(running);
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
        let object = handles::find::<ProviderObject>(provider)?;
        let running = object
            .provider
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = running.as_ref().map(Provider::status).ok_or_else(closed)?;
        drop(running);
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

fn published(value: Value, quality: u32, source_timestamp_ns: i64) -> Published {
    Published {
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
        items.iter().try_for_each(|item| object.check_item(*item))?;
        object.publish(
            items.iter().zip(values).map(|(item, value)| {
                (*item, published(Value::F64(*value), 0, source_timestamp_ns))
            }),
        )
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
        object.check_item(item)?;
        let data_type = trunkline::types::text::parse_type(data_type).map_err(Failure::syntax)?;
        let value = values::of_text(value, &data_type)?;
        object.publish([(item, published(value, quality, source_timestamp_ns))])
    })
}

/// Publishes that an item cannot be read. Its variable becomes bad and keeps its last value.
///
/// `quality`: bits 2 to 15 are the reason, as in `tl_reading`; 0 is no reason.
#[unsafe(no_mangle)]
pub extern "C" fn tl_provider_fail(provider: tl_provider, item: u32, quality: u32) -> tl_status {
    entry(|| {
        let object = handles::find::<ProviderObject>(provider)?;
        object.check_item(item)?;
        let value = Published {
            value: None,
            quality: Quality::from_bits(quality),
            source_timestamp: None,
        };
        object.publish([(item, value)])
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
        let is_idle =
            |exchanged: &mut Exchanged| exchanged.orders.is_empty() && !exchanged.is_closing;
        let exchanged = object.exchange.lock();
        let changed = &object.exchange.changed;
        let mut exchanged = match limit {
            Some(limit) => changed
                .wait_timeout_while(exchanged, limit, is_idle)
                .map_or_else(
                    |poisoned| poisoned.into_inner().0,
                    |(exchanged, _)| exchanged,
                ),
            None => changed
                .wait_while(exchanged, is_idle)
                .unwrap_or_else(PoisonError::into_inner),
        };
        if exchanged.is_closing {
            return Err(closed());
        }
        let Some(next) = exchanged.orders.front() else {
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
            item: next.item,
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
        exchanged.orders.pop_front();
        Ok(())
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
        object.answer(number, |_| {
            Answer::Accepted(value.map(|value| published(value, 0, TL_TIME_NOW)))
        })
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
        object.answer(number, |_| Answer::Refused(reason))
    })
}
