//! Lossless streams: writers and readers.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use libc::size_t;
use trunkline::stream::{
    Monitor, Options, Properties, Reader, StreamError, Until, ValueReader, ValueWriter, Writer,
};
use trunkline::types::text::parse_type;
use trunkline::types::{DataType, FaultCode, Value};

use crate::arguments::{Timeout, elements, put, put_or_none, put_text, room, text};
use crate::errors::{
    Failure, TL_ERROR_ARGUMENT, TL_ERROR_BUSY, TL_ERROR_LIMIT, TL_ERROR_STREAM_ABORTED,
    TL_ERROR_STREAM_ENDED, TL_ERROR_STREAM_LOST, TL_ERROR_STREAM_OVER, TL_ERROR_SYNTAX,
    TL_ERROR_SYSTEM, TL_ERROR_TIMEOUT, tl_status,
};
use crate::values;
use crate::{entry, handles};

/// The writer of a stream. One thread at a time may write and flush; all threads may close it and read
/// its properties.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_stream_writer = u64;

/// The reader of a stream. One thread at a time may read; all threads may close it and read its
/// properties.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_stream_reader = u64;

/// Flush until the elements were handed to the transport.
pub const TL_UNTIL_SENT: i32 = 0;
/// Flush until the elements are in the reader's buffer.
pub const TL_UNTIL_AVAILABLE: i32 = 1;
/// Flush until the reader's program has read the elements.
pub const TL_UNTIL_READ: i32 = 2;
/// Flush until the elements are on the reader's disk. Needs a reader with a journal.
pub const TL_UNTIL_DURABLE: i32 = 3;

/// The state of one end of a stream.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_stream_properties {
    /// Capacity of the buffer, in elements.
    pub capacity: u64,
    /// Of a writer: elements that the reader has not confirmed. Of a reader: elements that can be read.
    pub in_buffer: u64,
    /// Elements written or read since the end was created.
    pub total: u64,
    /// Number of times that the connection was lost, or ended with its stream.
    pub disconnections: u64,
    /// Time since the connection was lost in nanoseconds; -1 while connected and before the first
    /// connection.
    pub away_ns: i64,
    /// 1 while the two ends are connected, otherwise 0.
    pub is_connected: i32,
    /// 1 if the stream has ended in order, otherwise 0.
    pub is_ended: i32,
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        let status = match &error {
            StreamError::Url(_) | StreamError::RemoteHost { .. } => TL_ERROR_SYNTAX,
            StreamError::Capacity { .. }
            | StreamError::MultiplePeers
            | StreamError::SharedPort { .. }
            | StreamError::NoJournal => TL_ERROR_ARGUMENT,
            StreamError::TooMany { .. } | StreamError::TooLong { .. } => TL_ERROR_LIMIT,
            StreamError::Memory { .. }
            | StreamError::Random { .. }
            | StreamError::Tls(_)
            | StreamError::Start(_)
            | StreamError::Listen(_)
            | StreamError::NoDirectory { .. }
            | StreamError::NotEncrypted { .. }
            | StreamError::Journal(_) => TL_ERROR_SYSTEM,
            StreamError::NoPeer { .. } | StreamError::Timeout { .. } => TL_ERROR_TIMEOUT,
            StreamError::Refused { code, .. } => i32::from(code.number()),
            StreamError::UnequalLengths { .. }
            | StreamError::Type { .. }
            | StreamError::VariableSize { .. } => i32::from(FaultCode::WrongType.number()),
            StreamError::Lost { .. } => TL_ERROR_STREAM_LOST,
            StreamError::Ended => TL_ERROR_STREAM_ENDED,
            StreamError::Aborted { .. } => TL_ERROR_STREAM_ABORTED,
            StreamError::Fault(_) | StreamError::Element(_) | StreamError::Closed => {
                TL_ERROR_STREAM_OVER
            }
        };
        Self::new(status, error.to_string())
    }
}

/// An end of a stream that several threads have a handle of.
pub(crate) struct End<E> {
    end: Mutex<Option<E>>,
    monitor: Monitor,
    is_closing: AtomicBool,
}

impl<E> End<E> {
    fn new(end: E, monitor: Monitor) -> Self {
        Self {
            end: Mutex::new(Some(end)),
            monitor,
            is_closing: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<E>>, Failure> {
        match self.end.try_lock() {
            Ok(end) => Ok(end),
            Err(TryLockError::Poisoned(end)) => Ok(PoisonError::into_inner(end)),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                TL_ERROR_BUSY,
                "another thread uses this end of the stream; one thread at a time may read or write",
            )),
        }
    }

    /// Calls `attempt`, which changes nothing if it times out, until it succeeds, the timeout passes or
    /// another thread closes this end.
    fn wait<T>(
        &self,
        timeout: Timeout,
        mut attempt: impl FnMut(&mut E, Duration) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut guard = self.lock()?;
        let end = guard.as_mut().ok_or_else(closed)?;
        let mut last = Err(Failure::timeout("nothing happened in time"));
        for part in timeout.parts() {
            if self.is_closing.load(Ordering::Acquire) {
                return Err(closed());
            }
            last = attempt(end, part);
            match &last {
                Err(failure) if failure.status == TL_ERROR_TIMEOUT => {}
                _ => return last,
            }
        }
        last
    }

    /// Takes the end out. Waits until a call of another thread has noticed.
    fn take(&self) -> Option<E> {
        self.is_closing.store(true, Ordering::Release);
        self.end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

fn closed() -> Failure {
    Failure::closed("this end of the stream")
}

fn wrong_size(given: usize, needed: usize) -> Failure {
    Failure::fault(
        FaultCode::WrongType,
        format!(
            "an element of this stream has {needed} bytes, not {given}; pass an array of its type"
        ),
    )
}

fn not_plain(data_type: &DataType) -> Failure {
    Failure::fault(
        FaultCode::WrongType,
        format!("elements of type {data_type} are not numbers; use the functions for text"),
    )
}

/// The types of elements that have the same memory layout in C.
macro_rules! ends {
    ($($scalar:ident: $ty:ty;)+) => {
        /// A writer for elements of any type.
        pub(crate) enum AnyWriter {
            $($scalar(Writer<$ty>),)+
            Values(ValueWriter, DataType),
        }

        /// A reader for elements of any type.
        pub(crate) enum AnyReader {
            $($scalar(Reader<$ty>),)+
            /// With the element that did not fit into the caller's buffer.
            Values(ValueReader, Option<Value>),
        }

        impl AnyWriter {
            fn create(url: &str, data_type: &DataType, options: Options) -> Result<Self, StreamError> {
                Ok(match data_type {
                    $(DataType::$scalar => AnyWriter::$scalar(Writer::create(url, options)?),)+
                    other => AnyWriter::Values(ValueWriter::create(url, other, options)?, other.clone()),
                })
            }

            fn monitor(&self) -> Monitor {
                match self {
                    $(AnyWriter::$scalar(writer) => writer.monitor(),)+
                    AnyWriter::Values(writer, _) => writer.monitor(),
                }
            }

            fn flush(&mut self, until: Until, timeout: Duration) -> Result<(), StreamError> {
                match self {
                    $(AnyWriter::$scalar(writer) => writer.flush(until, Some(timeout)),)+
                    AnyWriter::Values(writer, _) => writer.flush(until, Some(timeout)),
                }
            }

            fn close(self, timeout: Option<Duration>) -> u64 {
                match self {
                    $(AnyWriter::$scalar(writer) => writer.close(timeout).elements,)+
                    AnyWriter::Values(writer, _) => writer.close(timeout).elements,
                }
            }

            fn abort_because(self, reason: &str) -> u64 {
                match self {
                    $(AnyWriter::$scalar(writer) => writer.abort_because(reason).elements,)+
                    AnyWriter::Values(writer, _) => writer.abort_because(reason).elements,
                }
            }

            /// # Safety
            /// `first` is NULL or leads to `count` elements of the stream's type, if an element has
            /// `element_bytes` bytes.
            unsafe fn write(
                &mut self,
                (first, element_bytes, count): (*const c_void, size_t, size_t),
                timeout: Duration,
            ) -> Result<(), Failure> {
                match self {
                    $(AnyWriter::$scalar(writer) => {
                        if element_bytes != size_of::<$ty>() {
                            return Err(wrong_size(element_bytes, size_of::<$ty>()));
                        }
                        // SAFETY: the caller promises elements of this size, and any bytes are a number.
                        let list = unsafe { elements::<$ty>("elements", first.cast(), count)? };
                        Ok(writer.write_many(list, Some(timeout))?)
                    })+
                    AnyWriter::Values(_, data_type) => Err(not_plain(data_type)),
                }
            }
        }

        impl AnyReader {
            fn create(url: &str, data_type: &DataType, options: Options) -> Result<Self, StreamError> {
                Ok(match data_type {
                    $(DataType::$scalar => AnyReader::$scalar(Reader::create(url, options)?),)+
                    other => AnyReader::Values(ValueReader::create(url, other, options)?, None),
                })
            }

            fn monitor(&self) -> Monitor {
                match self {
                    $(AnyReader::$scalar(reader) => reader.monitor(),)+
                    AnyReader::Values(reader, _) => reader.monitor(),
                }
            }

            /// # Safety
            /// `first` is NULL or leads to memory for `capacity` elements of the stream's type, if an
            /// element has `element_bytes` bytes.
            unsafe fn read(
                &mut self,
                (first, element_bytes, capacity): (*mut c_void, size_t, size_t),
                minimum: usize,
                timeout: Duration,
            ) -> Result<usize, Failure> {
                match self {
                    $(AnyReader::$scalar(reader) => {
                        if element_bytes != size_of::<$ty>() {
                            return Err(wrong_size(element_bytes, size_of::<$ty>()));
                        }
                        // SAFETY: the caller promises memory for elements of this size.
                        let space = unsafe { room::<$ty>("elements", first.cast(), capacity)? };
                        let wanted = reader.available().min(capacity).max(minimum);
                        let space = space[..wanted].init_with(<$ty>::default());
                        Ok(reader.read_into(space, Some(timeout))?)
                    })+
                    AnyReader::Values(reader, _) => Err(not_plain(reader.data_type())),
                }
            }
        }
    };
}

ends! {
    I8: i8;
    I16: i16;
    I32: i32;
    I64: i64;
    U8: u8;
    U16: u16;
    U32: u32;
    U64: u64;
    F32: f32;
    F64: f64;
}

/// Initialises the caller's memory, so that it can be lent as a slice.
trait InitWith<T> {
    fn init_with(&mut self, value: T) -> &mut [T];
}

impl<T: Copy> InitWith<T> for [MaybeUninit<T>] {
    fn init_with(&mut self, value: T) -> &mut [T] {
        for place in self.iter_mut() {
            place.write(value);
        }
        // SAFETY: every element was written above, and the layouts are the same.
        unsafe { &mut *(std::ptr::from_mut(self) as *mut [T]) }
    }
}

/// The settings of an end, as the caller passed them.
struct Asked<'a> {
    url: &'a str,
    data_type: DataType,
    options: Options,
}

/// # Safety
/// The texts are as documented in the header.
unsafe fn asked<'a>(
    (url, url_length): (*const c_char, size_t),
    (element_type, type_length): (*const c_char, size_t),
    (peer, peer_length): (*const c_char, size_t),
    capacity: size_t,
    engine_port: u16,
    timeout_ms: i32,
) -> Result<Asked<'a>, Failure> {
    // SAFETY: the caller promises all texts.
    let (url, element_type, peer) = unsafe {
        (
            text("url", url, url_length)?,
            text("element_type", element_type, type_length)?,
            text("peer", peer, peer_length)?,
        )
    };
    let mut options = match peer {
        "" => Options::default(),
        peer => trunkline::stream_options(peer).map_err(Failure::system)?,
    };
    options.timeout = Timeout::of(timeout_ms)?.0;
    if capacity > 0 {
        options.capacity = capacity;
    }
    if engine_port > 0 {
        options.directory_port = engine_port;
    }
    Ok(Asked {
        url,
        data_type: parse_type(element_type).map_err(Failure::syntax)?,
        options,
    })
}

/// Creates the writer of a stream, and waits until it is connected to its reader. One of the two ends
/// names the other as its peer.
///
/// `url`, `url_length`: name of this end, such as `daq/out`; an engine of this machine keeps the names.
///
/// `element_type`, `type_length`: the type of the elements, such as `f64`, `i16` or `string`. Both ends
/// need the same type.
///
/// `peer`, `peer_length`: name or URL of the reader, such as `daq/raw` or `tl://plant7/daq/raw`; empty
/// if the reader names this end.
///
/// `capacity`: capacity of the buffer in elements; 0 is 4096.
///
/// `engine_port`: port of the engine of this machine; 0 is 5850.
///
/// `timeout_ms`: longest wait for the reader in milliseconds, or `TL_FOREVER`.
///
/// `writer`: where the handle is stored. Close it with `tl_stream_writer_close`.
///
/// Errors: `TL_ERROR_TIMEOUT` if there is no reader in time; `TL_ERROR_SYNTAX`; `TL_ERROR_SYSTEM` if no
/// engine runs; `TL_FAULT_STREAM_TYPE` and others if the reader refuses: 0 is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_create(
    url: *const c_char,
    url_length: size_t,
    element_type: *const c_char,
    type_length: size_t,
    peer: *const c_char,
    peer_length: size_t,
    capacity: size_t,
    engine_port: u16,
    timeout_ms: i32,
    writer: *mut tl_stream_writer,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes texts, as documented.
        let asked = unsafe {
            let (url, element_type) = ((url, url_length), (element_type, type_length));
            asked(
                url,
                element_type,
                (peer, peer_length),
                capacity,
                engine_port,
                timeout_ms,
            )?
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("writer", writer, 0)? };
        let end = AnyWriter::create(asked.url, &asked.data_type, asked.options)?;
        let monitor = end.monitor();
        // SAFETY: the same promise.
        unsafe { put("writer", writer, handles::add(End::new(end, monitor))?) }
    })
}

/// Creates the reader of a stream, and waits until it is connected to its writer. The parameters are
/// those of `tl_stream_writer_create`; close the handle with `tl_stream_reader_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_reader_create(
    url: *const c_char,
    url_length: size_t,
    element_type: *const c_char,
    type_length: size_t,
    peer: *const c_char,
    peer_length: size_t,
    capacity: size_t,
    engine_port: u16,
    timeout_ms: i32,
    reader: *mut tl_stream_reader,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes texts, as documented.
        let asked = unsafe {
            let (url, element_type) = ((url, url_length), (element_type, type_length));
            asked(
                url,
                element_type,
                (peer, peer_length),
                capacity,
                engine_port,
                timeout_ms,
            )?
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("reader", reader, 0)? };
        let end = AnyReader::create(asked.url, &asked.data_type, asked.options)?;
        let monitor = end.monitor();
        // SAFETY: the same promise.
        unsafe { put("reader", reader, handles::add(End::new(end, monitor))?) }
    })
}

/// Writes all elements of a numeric stream, or none. Waits for room in the buffer.
///
/// `elements`: an array of `count` numbers of the stream's element type.
///
/// `element_bytes`: size of one element, such as `sizeof(double)`; checks the type.
///
/// Errors: `TL_ERROR_TIMEOUT`, nothing was written. `TL_ERROR_LIMIT` if the buffer can never hold so
/// many. `TL_FAULT_WRONG_TYPE`. `TL_ERROR_STREAM_OVER` if the reader is gone. `TL_ERROR_CLOSED`,
/// `TL_ERROR_BUSY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_write(
    writer: tl_stream_writer,
    elements: *const c_void,
    element_bytes: size_t,
    count: size_t,
    timeout_ms: i32,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        object.wait(Timeout::of(timeout_ms)?, |end, part| {
            // SAFETY: the caller passes an array with `count` elements, as documented.
            unsafe { end.write((elements, element_bytes, count), part) }
        })
    })
}

/// Writes one element, given as text: a string as it is, another type as the command line reads it. For
/// streams whose elements are not numbers.
///
/// Errors: as `tl_stream_write`, and `TL_FAULT_INVALID_VALUE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_write_text(
    writer: tl_stream_writer,
    value: *const c_char,
    value_length: size_t,
    timeout_ms: i32,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        // SAFETY: the caller passes a text, as documented.
        let value = unsafe { text("value", value, value_length)? };
        object.wait(Timeout::of(timeout_ms)?, |end, part| match end {
            AnyWriter::Values(writer, data_type) => {
                Ok(writer.write(&values::of_text(value, data_type)?, Some(part))?)
            }
            _ => Err(is_numeric()),
        })
    })
}

fn is_numeric() -> Failure {
    Failure::fault(
        FaultCode::WrongType,
        "the elements of this stream are numbers; use tl_stream_write and tl_stream_read",
    )
}

/// Sends all written elements at once, and waits until they have reached a stage.
///
/// `until`: one of `TL_UNTIL_...`.
///
/// Errors: `TL_ERROR_TIMEOUT`; the elements are on their way all the same. `TL_ERROR_ARGUMENT` for
/// another stage, or for `TL_UNTIL_DURABLE` if the reader has no journal.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_flush(
    writer: tl_stream_writer,
    until: i32,
    timeout_ms: i32,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        let until = match until {
            TL_UNTIL_SENT => Until::Sent,
            TL_UNTIL_AVAILABLE => Until::Available,
            TL_UNTIL_READ => Until::Read,
            TL_UNTIL_DURABLE => Until::Durable,
            other => {
                return Err(Failure::argument(format!(
                    "{other} is no stage of a flush; pass one of TL_UNTIL_"
                )));
            }
        };
        object.wait(Timeout::of(timeout_ms)?, |end, part| {
            Ok(end.flush(until, part)?)
        })
    })
}

/// Closes a writer once the reader has received all elements, or after the timeout.
///
/// `undelivered`: where the number of elements is stored that the reader has not received; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_close(
    writer: tl_stream_writer,
    timeout_ms: i32,
    undelivered: *mut u64,
) -> tl_status {
    entry(|| {
        let limit = Timeout::of(timeout_ms)?.0;
        let object = handles::remove::<End<AnyWriter>>(writer)?;
        let left = object.take().map_or(0, |end| end.close(limit));
        // SAFETY: the caller passes a place for a number or NULL.
        unsafe { put_or_none("undelivered", undelivered, left) }
    })
}

/// Closes a writer at once: the reader gets `TL_ERROR_STREAM_ABORTED` with the reason after the elements
/// that have arrived. For a program that cannot write everything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_abort(
    writer: tl_stream_writer,
    reason: *const c_char,
    reason_length: size_t,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a text, as documented.
        let reason = unsafe { text("reason", reason, reason_length)? };
        let object = handles::remove::<End<AnyWriter>>(writer)?;
        if let Some(end) = object.take() {
            end.abort_because(reason);
        }
        Ok(())
    })
}

/// Waits for at least `minimum` elements of a numeric stream, and reads all that are available, at most
/// `capacity`. Fewer than `minimum` only at the end of the stream, or before a gap.
///
/// `elements`: room for `capacity` numbers of the stream's element type.
///
/// `element_bytes`: size of one element, such as `sizeof(double)`; checks the type.
///
/// `minimum`: from 0, which does not wait, to `capacity`. `minimum == capacity` fills the array.
///
/// `count`: where the number of elements read is stored.
///
/// Errors: `TL_ERROR_TIMEOUT`, nothing was read. `TL_ERROR_STREAM_ENDED`, `TL_ERROR_STREAM_LOST`,
/// `TL_ERROR_STREAM_ABORTED`, `TL_ERROR_STREAM_OVER`, `TL_ERROR_CLOSED`, `TL_ERROR_BUSY`,
/// `TL_FAULT_WRONG_TYPE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_read(
    reader: tl_stream_reader,
    elements: *mut c_void,
    element_bytes: size_t,
    minimum: size_t,
    capacity: size_t,
    timeout_ms: i32,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put("count", count, 0)? };
        if minimum > capacity {
            return Err(Failure::argument(format!(
                "minimum is {minimum} and capacity {capacity}; the minimum must fit into the array"
            )));
        }
        let read = object.wait(Timeout::of(timeout_ms)?, |end, part| {
            // SAFETY: the caller passes an array with room for `capacity` elements, as documented.
            unsafe { end.read((elements, element_bytes, capacity), minimum, part) }
        })?;
        // SAFETY: the same promise.
        unsafe { put("count", count, read) }
    })
}

/// Reads one element as text: a string as it is, another type as the command line prints it. For streams
/// whose elements are not numbers.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: as `tl_stream_read`. After `TL_ERROR_SHORT_BUFFER`, the next call gets the same element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_read_text(
    reader: tl_stream_reader,
    timeout_ms: i32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        object.wait(Timeout::of(timeout_ms)?, |end, part| {
            let AnyReader::Values(reader, waiting) = end else {
                return Err(is_numeric());
            };
            let value = match waiting.take() {
                Some(value) => value,
                None => reader.read(Some(part))?,
            };
            let text = values::as_text(&value, Some(reader.data_type()));
            // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
            let put = unsafe { put_text(&text, buffer, capacity, length) };
            if put.is_err() || capacity == 0 {
                *waiting = Some(value);
            }
            put
        })
    })
}

/// Closes a reader. The writer learns how far the stream was read.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_reader_close(reader: tl_stream_reader) -> tl_status {
    entry(|| {
        let object = handles::remove::<End<AnyReader>>(reader)?;
        drop(object.take());
        Ok(())
    })
}

fn properties_of(properties: &Properties) -> tl_stream_properties {
    let away = properties
        .away_for
        .map(|away| i64::try_from(away.as_nanos()).unwrap_or(i64::MAX));
    tl_stream_properties {
        capacity: properties.capacity,
        in_buffer: properties.in_buffer,
        total: properties.total,
        disconnections: properties.disconnections,
        away_ns: away.unwrap_or(-1),
        is_connected: i32::from(properties.is_connected),
        is_ended: i32::from(properties.is_ended),
    }
}

/// Stores the state of a writer, at once, also while another thread waits in a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_properties(
    writer: tl_stream_writer,
    properties: *mut tl_stream_properties,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        // SAFETY: the caller passes a place for the properties or NULL.
        unsafe {
            put(
                "properties",
                properties,
                properties_of(&object.monitor.properties()),
            )
        }
    })
}

/// Stores the state of a reader, at once, also while another thread waits in a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_reader_properties(
    reader: tl_stream_reader,
    properties: *mut tl_stream_properties,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        // SAFETY: the caller passes a place for the properties or NULL.
        unsafe {
            put(
                "properties",
                properties,
                properties_of(&object.monitor.properties()),
            )
        }
    })
}
