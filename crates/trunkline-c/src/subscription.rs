//! Subscriptions, with a queue that the program empties or with a callback.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libc::size_t;
use trunkline::types::{Contract, DataType, Reading};
use trunkline::{
    Batch, Callbacks, Client, ConnectionState, Event, FollowEvent, PatternSet, PatternSubscription,
    SubscribeOptions, Subscription,
};

use crate::arguments::{Timeout, names, patterns, put, put_or_none, put_text, text};
use crate::client::{ClientObject, tl_client};
use crate::errors::{Failure, tl_status};
use crate::readings::{
    ReadingsObject, Rows, TextEvent, Types, event_of, pattern_event_of, reading_of, tl_event,
    tl_reading, tl_readings,
};
use crate::{entry, handles};

/// A subscription to variables.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_subscription = u64;

/// Deliver only updates whose value or quality differs from the previous one.
pub const TL_SUBSCRIBE_ONLY_CHANGES: u32 = 1;
/// Do not deliver updates that this client wrote itself.
pub const TL_SUBSCRIBE_NOT_OWN: u32 = 2;
/// Do not resume an `all` subscription after it has overrun.
pub const TL_SUBSCRIBE_NO_REOPEN: u32 = 4;

/// A function of the program that is called with every reading of a subscription.
///
/// `context`: the pointer that was passed to `tl_subscribe_callback`.
///
/// `reading`: the reading, or NULL if this is an event. `event`: the event, or NULL if this is a
/// reading.
///
/// `text`, `text_length`: the value as text for a value that is not a number, the sentence of an event;
/// otherwise empty. UTF-8, without a NUL byte.
///
/// All pointers are valid during the call only. The calls come from a thread of the library, one at a
/// time. The function may call every function of this library, also `tl_subscription_close` for its
/// own subscription. It must not throw C++ exceptions and must not leave by longjmp.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_on_update = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        reading: *const tl_reading,
        event: *const tl_event,
        text: *const c_char,
        text_length: size_t,
    ),
>;

/// A subscription of either kind.
pub(crate) struct SubscriptionObject {
    client: Client,
    is_closing: AtomicBool,
    source: Source,
}

enum Source {
    Queue(Subscription),
    Callback(Mutex<Option<Callbacks>>),
    Patterns(PatternSubscription, Mutex<Vec<Option<Matched>>>),
}

/// A variable that matches the patterns of a subscription; its index is its item.
#[derive(Clone)]
struct Matched {
    name: Arc<str>,
    data_type: DataType,
}

impl SubscriptionObject {
    pub(crate) fn data_type(&self, item: u32) -> Option<DataType> {
        match &self.source {
            Source::Queue(subscription) => subscription.item(item)?.data_type,
            Source::Patterns(_, matched) => Some(matched_at(matched, item)?.data_type),
            Source::Callback(_) => None,
        }
    }

    /// Returns the newest value of an item that has arrived.
    fn value(&self, item: u32) -> Result<Option<Reading>, Failure> {
        match &self.source {
            Source::Queue(subscription) => Ok(subscription.value(item)),
            Source::Patterns(subscription, _) => Ok(subscription.value(item)),
            Source::Callback(_) => Err(has_callback()),
        }
    }

    fn name(&self, item: u32) -> Result<Option<Arc<str>>, Failure> {
        match &self.source {
            Source::Queue(subscription) => Ok(subscription.item(item).map(|item| item.name)),
            Source::Patterns(_, matched) => Ok(matched_at(matched, item).map(|item| item.name)),
            Source::Callback(_) => Err(has_callback()),
        }
    }

    /// Waits for readings or an event, and replaces `rows` with them. Returns false if nothing arrived.
    fn next(&self, rows: &mut Rows, most: usize, timeout: Duration) -> Result<bool, Failure> {
        match &self.source {
            Source::Queue(subscription) => {
                let mut batch = match std::mem::take(rows) {
                    Rows::Taken(batch) => batch,
                    _ => Batch::new(),
                };
                let has_some = subscription.next_batch(&mut batch, most, Some(timeout));
                *rows = Rows::Taken(batch);
                Ok(has_some)
            }
            Source::Patterns(subscription, matched) => {
                let (readings, event) = next_matched(subscription, matched, most, timeout);
                let has_some = !readings.is_empty() || event.is_some();
                *rows = Rows::Followed(readings, event);
                Ok(has_some)
            }
            Source::Callback(_) => Err(has_callback()),
        }
    }

    /// Returns an error once nothing more can arrive.
    fn check_open(&self) -> Result<(), Failure> {
        if self.is_closing.load(Ordering::Acquire) {
            return Err(Failure::closed("the subscription"));
        }
        match self.client.state() {
            ConnectionState::Closed { cause } => Err(Failure::from(&*cause)),
            ConnectionState::Connecting { .. } | ConnectionState::Connected(_) => Ok(()),
        }
    }
}

fn has_callback() -> Failure {
    Failure::argument(
        "this subscription has a callback, which gets all its readings; create one with tl_subscribe",
    )
}

fn matched_at(matched: &Mutex<Vec<Option<Matched>>>, item: u32) -> Option<Matched> {
    let matched = matched.lock().unwrap_or_else(PoisonError::into_inner);
    matched.get(item as usize)?.clone()
}

/// Takes up to `most` readings, and the event that follows them.
fn next_matched(
    subscription: &PatternSubscription,
    matched: &Mutex<Vec<Option<Matched>>>,
    most: usize,
    timeout: Duration,
) -> (Vec<(u32, Reading)>, Option<TextEvent>) {
    let mut readings = Vec::new();
    let mut next = subscription.next(Some(timeout));
    while let Some(event) = next {
        if let FollowEvent::Event(Event::Reading { item, reading }) = event {
            readings.push((item, reading));
            next = match readings.len() < most {
                true => subscription.try_next(),
                false => None,
            };
            continue;
        }
        let mut matched = matched.lock().unwrap_or_else(PoisonError::into_inner);
        if let FollowEvent::Appeared {
            item,
            name,
            data_type,
            ..
        } = &event
        {
            let index = *item as usize;
            if index >= matched.len() {
                matched.resize(index + 1, None);
            }
            matched[index] = Some(Matched {
                name: Arc::clone(name),
                data_type: data_type.clone(),
            });
        }
        if let FollowEvent::Gone { item, .. } = &event
            && let Some(place) = matched.get_mut(*item as usize)
        {
            *place = None;
        }
        return (readings, Some(pattern_event_of(&event)));
    }
    (readings, None)
}

struct Request<'a> {
    client: Arc<ClientObject>,
    names: Vec<&'a str>,
    contract: Contract,
    options: SubscribeOptions,
}

/// # Safety
/// Both texts are as documented in the header.
unsafe fn request<'a>(
    client: tl_client,
    (names, names_length): (*const c_char, size_t),
    (contract, contract_length): (*const c_char, size_t),
    flags: u32,
) -> Result<Request<'a>, Failure> {
    let client = handles::find::<ClientObject>(client)?;
    // SAFETY: the caller promises both texts.
    let (list, contract) = unsafe {
        (
            text("names", names, names_length)?,
            text("contract", contract, contract_length)?,
        )
    };
    Ok(Request {
        client,
        names: self::names(list)?,
        contract: contract.parse().map_err(Failure::syntax)?,
        options: options_of(flags)?,
    })
}

fn options_of(flags: u32) -> Result<SubscribeOptions, Failure> {
    let known = TL_SUBSCRIBE_ONLY_CHANGES | TL_SUBSCRIBE_NOT_OWN | TL_SUBSCRIBE_NO_REOPEN;
    if flags & !known != 0 {
        return Err(Failure::argument(format!(
            "the flags {flags:#x} contain unknown ones; combine TL_SUBSCRIBE_ constants, or pass 0"
        )));
    }
    Ok(SubscribeOptions {
        only_changes: flags & TL_SUBSCRIBE_ONLY_CHANGES != 0,
        own_suppressed: flags & TL_SUBSCRIBE_NOT_OWN != 0,
        reopen: flags & TL_SUBSCRIBE_NO_REOPEN == 0,
        ..SubscribeOptions::default()
    })
}

/// Subscribes to variables. The call does not wait for the engine: an error about one name arrives as
/// an event. The first reading of a variable is its current value.
///
/// `names`, `names_length`: the names, one per line. Their lines, from 0, are the items of the
/// readings.
///
/// `contract`, `contract_length`: what to deliver if not everything can be delivered at once: `latest`,
/// `last:1000`, `first:1000`, `all`, `all:100000` or `sampled:100ms`. Losses are in the readings.
///
/// `flags`: 0, or a sum of `TL_SUBSCRIBE_...`.
///
/// `subscription`: where the handle is stored. Close it with `tl_subscription_close`.
///
/// Errors: `TL_ERROR_SYNTAX` for another contract, `TL_ERROR_LIMIT`, `TL_ERROR_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_subscribe(
    client: tl_client,
    names: *const c_char,
    names_length: size_t,
    contract: *const c_char,
    contract_length: size_t,
    flags: u32,
    subscription: *mut tl_subscription,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes both texts, as documented.
        let asked = unsafe {
            request(
                client,
                (names, names_length),
                (contract, contract_length),
                flags,
            )?
        };
        let client = asked.client.client.clone();
        let object = SubscriptionObject {
            source: Source::Queue(client.subscribe(&asked.names, asked.contract, asked.options)?),
            is_closing: AtomicBool::new(false),
            client,
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("subscription", subscription, handles::add(object)?) }
    })
}

/// Subscribes to all variables that match patterns, also those that are created later.
/// `tl_subscription_next` reports in order which variables appear and vanish, by the events
/// `TL_EVENT_APPEARED` and `TL_EVENT_GONE`, and their readings between these.
///
/// `patterns`, `patterns_length`: names or patterns, such as `boiler/**`, one per line.
///
/// `excluded`, `excluded_length`: names or patterns to leave out, one per line; may be empty.
///
/// `contract`, `flags`, `subscription`: as for `tl_subscribe`.
///
/// Errors: `TL_FAULT_BAD_PATTERN`; those of `tl_subscribe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_subscribe_patterns(
    client: tl_client,
    patterns: *const c_char,
    patterns_length: size_t,
    excluded: *const c_char,
    excluded_length: size_t,
    contract: *const c_char,
    contract_length: size_t,
    flags: u32,
    subscription: *mut tl_subscription,
) -> tl_status {
    entry(|| {
        let client = handles::find::<ClientObject>(client)?.client.clone();
        // SAFETY: the caller passes texts, as documented.
        let (patterns, excluded, contract) = unsafe {
            (
                text("patterns", patterns, patterns_length)?,
                text("excluded", excluded, excluded_length)?,
                text("contract", contract, contract_length)?,
            )
        };
        let patterns = self::patterns(patterns)?;
        let excluded = match excluded {
            "" => Vec::new(),
            excluded => self::patterns(excluded)?,
        };
        let set = PatternSet {
            names: &[],
            patterns: &patterns,
            excluded: &excluded,
        };
        let contract = contract.parse().map_err(Failure::syntax)?;
        let followed = client.subscribe_patterns(&set, contract, options_of(flags)?)?;
        let object = SubscriptionObject {
            source: Source::Patterns(followed, Mutex::default()),
            is_closing: AtomicBool::new(false),
            client,
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("subscription", subscription, handles::add(object)?) }
    })
}

/// The address of the program's context, which the thread of the calls gets.
struct CallContext(*mut c_void);

// SAFETY: the library never uses what the pointer leads to; the header says that the function is called
// from another thread.
unsafe impl Send for CallContext {}

impl CallContext {
    fn address(&self) -> *mut c_void {
        self.0
    }
}

/// Subscribes to variables as `tl_subscribe` does, and calls a function with every reading and every
/// event, from a thread of the library. No task needs this function: `tl_subscription_next` delivers
/// the same.
///
/// `on_update`: the function; see `tl_on_update`. `context`: passed to the function; may be NULL.
///
/// Errors: as `tl_subscribe`, and `TL_ERROR_NULL` without a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_subscribe_callback(
    client: tl_client,
    names: *const c_char,
    names_length: size_t,
    contract: *const c_char,
    contract_length: size_t,
    flags: u32,
    on_update: tl_on_update,
    context: *mut c_void,
    subscription: *mut tl_subscription,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes both texts, as documented.
        let asked = unsafe {
            request(
                client,
                (names, names_length),
                (contract, contract_length),
                flags,
            )?
        };
        let on_update = on_update.ok_or_else(|| {
            Failure::new(
                crate::errors::TL_ERROR_NULL,
                "on_update is NULL; pass a function, or use tl_subscribe",
            )
        })?;
        let client = asked.client.client.clone();
        let object = SubscriptionObject {
            source: Source::Callback(Mutex::new(None)),
            is_closing: AtomicBool::new(false),
            client: client.clone(),
        };
        let handle = handles::add(object)?;
        // SAFETY: the caller passes a place for a handle or NULL. It is stored before the first call,
        // which may close the subscription.
        let stored = unsafe { put("subscription", subscription, handle) };
        let object = handles::find::<SubscriptionObject>(handle)?;
        let context = CallContext(context);
        let call = move |event: Event| {
            let (reading, other, text) = update_of(&event);
            let reading = reading
                .as_ref()
                .map_or(std::ptr::null(), std::ptr::from_ref);
            let other = other.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the function is the program's, and its pointers live until it returns.
            unsafe {
                on_update(
                    context.address(),
                    reading,
                    other,
                    text.as_ptr().cast(),
                    text.len(),
                )
            };
        };
        let started = stored.and_then(|()| {
            Ok(client.on_change(&asked.names, asked.contract, asked.options, call)?)
        });
        match started {
            Ok(callbacks) => {
                if let Source::Callback(place) = &object.source {
                    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
                    *place = Some(callbacks);
                    // The first calls may have closed the subscription already.
                    if object.is_closing.load(Ordering::Acquire) {
                        drop(place.take());
                    }
                }
                Ok(())
            }
            Err(failure) => {
                handles::remove::<SubscriptionObject>(handle)?;
                Err(failure)
            }
        }
    })
}

fn update_of(event: &Event) -> (Option<tl_reading>, Option<tl_event>, String) {
    match event {
        Event::Reading { item, reading } => {
            let out = reading_of(*item, reading);
            let is_text = out.has_value == 1 && out.value.is_nan();
            let text = match is_text {
                true => crate::values::as_text(&reading.sample.value, None),
                false => String::new(),
            };
            (Some(out), None, text)
        }
        event => {
            let (out, sentence) = event_of(Some(event));
            (None, Some(out), sentence)
        }
    }
}

/// Closes a subscription. A thread that waits in `tl_subscription_next` returns `TL_ERROR_CLOSED` within
/// 50 ms. A callback in progress is waited for, unless it is the one that calls this function; the
/// function is not called again.
#[unsafe(no_mangle)]
pub extern "C" fn tl_subscription_close(subscription: tl_subscription) -> tl_status {
    entry(|| {
        let object = handles::remove::<SubscriptionObject>(subscription)?;
        object.is_closing.store(true, Ordering::Release);
        if let Source::Callback(place) = &object.source {
            let callbacks = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(callbacks);
        }
        Ok(())
    })
}

/// Waits until something arrives, and replaces the contents of `readings` with up to `readings_max`
/// readings in order. An event after them, such as a lost connection, is in `tl_readings_event`; there
/// may be an event and no reading.
///
/// `readings_max`: from 1.
///
/// `timeout_ms`: longest wait in milliseconds, or `TL_FOREVER`; 0 takes only what has arrived.
///
/// `count`: where the number of readings is stored; may be NULL.
///
/// Errors: `TL_ERROR_TIMEOUT` if nothing arrived, `TL_ERROR_CLOSED` once the subscription or its client
/// is closed, `TL_ERROR_BUSY` if another thread uses `readings`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_subscription_next(
    subscription: tl_subscription,
    readings: tl_readings,
    readings_max: size_t,
    timeout_ms: i32,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<SubscriptionObject>(subscription)?;
        let readings = handles::find::<ReadingsObject>(readings)?;
        let waits = Timeout::of(timeout_ms)?;
        if readings_max == 0 {
            return Err(Failure::argument("readings_max is 0; pass at least 1"));
        }
        let mut contents = readings.lock()?;
        contents.types = Types::Subscribed(Arc::downgrade(&object));
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put_or_none("count", count, 0)? };
        let mut has_some = false;
        for part in waits.parts() {
            object.check_open()?;
            has_some = object.next(&mut contents.rows, readings_max, part)?;
            if has_some {
                break;
            }
        }
        let taken = contents.len();
        match has_some {
            // SAFETY: the same promise.
            true => unsafe { put_or_none("count", count, taken) },
            false => {
                object.check_open()?;
                Err(Failure::timeout(format!(
                    "nothing arrived within {timeout_ms} ms"
                )))
            }
        }
    })
}

/// Stores the newest value of an item that has arrived, at once and without taking it from the queue.
///
/// `has_reading`: where 1 is stored, or 0 if nothing has arrived yet; then `reading` is not stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_subscription_value(
    subscription: tl_subscription,
    item: u32,
    reading: *mut tl_reading,
    has_reading: *mut i32,
) -> tl_status {
    entry(|| {
        let object = handles::find::<SubscriptionObject>(subscription)?;
        let value = object.value(item)?;
        // SAFETY: the caller passes a place for the flag or NULL.
        unsafe { put("has_reading", has_reading, i32::from(value.is_some()))? };
        match value {
            // SAFETY: the caller passes a place for a reading or NULL.
            Some(value) => unsafe { put("reading", reading, reading_of(item, &value)) },
            None => Ok(()),
        }
    })
}

/// Copies the name of an item.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` if there is no such item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_subscription_item_name(
    subscription: tl_subscription,
    item: u32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<SubscriptionObject>(subscription)?;
        let found = object.name(item)?;
        let found = found.ok_or_else(|| Failure::argument(format!("there is no item {item}")))?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&found, buffer, capacity, length) }
    })
}
