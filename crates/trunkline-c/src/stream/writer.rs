//! Writers of streams, with one reader or several.

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::time::Duration;

use libc::size_t;
use trunkline::stream::{
    FanOutOptions, FanOutValueWriter, Monitor, Policy, StreamError, Undelivered, Until, ValueWriter,
};
use trunkline::types::DataType;

use super::end::{End, bytes_of};
use super::options::{Given, Request, request, tl_stream_options};
use super::state::{
    departed_of, properties_of, put_peers, put_url, tl_stream_departed, tl_stream_peer,
    tl_stream_properties,
};
use crate::arguments::{Timeout, elements, put, put_or_none, text};
use crate::errors::{Failure, tl_status};
use crate::values;
use crate::{entry, handles};

/// The writer of a stream. One thread at a time may write and flush; all threads may close it and read
/// its properties.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_stream_writer = u64;

/// Flush until the elements were handed to the transport.
pub const TL_UNTIL_SENT: i32 = 0;
/// Flush until the elements are in the reader's buffer.
pub const TL_UNTIL_AVAILABLE: i32 = 1;
/// Flush until the reader's program has read the elements.
pub const TL_UNTIL_READ: i32 = 2;
/// Flush until the elements are on the reader's disk. Needs a reader with a journal.
pub const TL_UNTIL_DURABLE: i32 = 3;

/// As the quota of a writer with several readers: the writer waits for the slowest reader.
pub const TL_NO_QUOTA: u64 = u64::MAX;

/// A writer with one reader or several.
pub(crate) enum AnyWriter {
    One {
        writer: ValueWriter,
        has_journal: bool,
    },
    Several {
        writer: FanOutValueWriter,
        departed: VecDeque<Undelivered>,
    },
}

/// Calls a method that both kinds of writers have.
macro_rules! either {
    ($any:expr, $writer:ident => $call:expr) => {
        match $any {
            AnyWriter::One {
                writer: $writer, ..
            } => $call,
            AnyWriter::Several {
                writer: $writer, ..
            } => $call,
        }
    };
}

impl AnyWriter {
    fn data_type(&self) -> &DataType {
        either!(self, writer => writer.data_type())
    }

    fn monitor(&self) -> Monitor {
        either!(self, writer => writer.monitor())
    }

    fn flush(&mut self, until: Until, timeout: Duration) -> Result<(), StreamError> {
        either!(self, writer => writer.flush(until, Some(timeout)))
    }

    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<(), StreamError> {
        either!(self, writer => writer.write_bytes(bytes, Some(timeout)))
    }

    fn one(&mut self) -> Result<&mut ValueWriter, Failure> {
        match self {
            AnyWriter::One { writer, .. } => Ok(writer),
            AnyWriter::Several { .. } => Err(Failure::argument(
                "this writer has several readers, and does not lend memory; use tl_stream_write",
            )),
        }
    }

    fn several(&mut self) -> Result<(&mut FanOutValueWriter, &mut VecDeque<Undelivered>), Failure> {
        match self {
            AnyWriter::Several { writer, departed } => Ok((writer, departed)),
            AnyWriter::One { .. } => Err(Failure::argument(
                "this writer has one reader; its properties are in tl_stream_writer_properties",
            )),
        }
    }

    /// Returns the number of elements that were not delivered.
    fn close(self, timeout: Option<Duration>) -> u64 {
        match self {
            AnyWriter::One { writer, .. } => writer.close(timeout).elements,
            AnyWriter::Several { writer, .. } => left_in_all(&writer.close(timeout)),
        }
    }

    fn abort_because(self, reason: &str) {
        match self {
            AnyWriter::One { writer, .. } => drop(writer.abort_because(reason)),
            AnyWriter::Several { writer, .. } => drop(writer.abort_because(reason)),
        }
    }
}

fn left_in_all(readers: &[Undelivered]) -> u64 {
    readers.iter().map(|reader| reader.left.elements).sum()
}

fn create(request: Request<'_>) -> Result<AnyWriter, Failure> {
    let has_journal = request.options.journal.is_some();
    let writer = ValueWriter::create(request.url, &request.data_type, request.options)?;
    Ok(AnyWriter::One {
        writer,
        has_journal,
    })
}

fn add(writer: AnyWriter) -> Result<tl_stream_writer, Failure> {
    let monitor = writer.monitor();
    handles::add(End::new(writer, monitor))
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
        let (url, element_type) = ((url, url_length), (element_type, type_length));
        let given = Given::Plain {
            capacity,
            engine_port,
        };
        // SAFETY: the caller passes texts, as documented.
        let request =
            unsafe { request(url, element_type, (peer, peer_length), given, timeout_ms)? };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("writer", writer, 0)? };
        let created = add(create(request)?)?;
        // SAFETY: the same promise.
        unsafe { put("writer", writer, created) }
    })
}

/// Creates the writer of a stream with options, such as a journal. Otherwise as
/// `tl_stream_writer_create`.
///
/// `options`: from `tl_stream_options_create`; 0 for none.
///
/// Errors: as `tl_stream_writer_create`; `TL_ERROR_SYSTEM` if the journal cannot be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_create_with(
    url: *const c_char,
    url_length: size_t,
    element_type: *const c_char,
    type_length: size_t,
    peer: *const c_char,
    peer_length: size_t,
    options: tl_stream_options,
    timeout_ms: i32,
    writer: *mut tl_stream_writer,
) -> tl_status {
    entry(|| {
        let (url, element_type) = ((url, url_length), (element_type, type_length));
        let given = Given::Options(options);
        // SAFETY: the caller passes texts, as documented.
        let request =
            unsafe { request(url, element_type, (peer, peer_length), given, timeout_ms)? };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("writer", writer, 0)? };
        let created = add(create(request)?)?;
        // SAFETY: the same promise.
        unsafe { put("writer", writer, created) }
    })
}

/// Creates a writer with several readers, each of which gets all elements, and waits for the first ones.
/// The readers are ordinary ones that name this end as their peer. `tl_stream_write`, `tl_stream_flush`
/// and `tl_stream_writer_close` apply to all of them.
///
/// `options`: from `tl_stream_options_create`, without a journal; 0 for none.
///
/// `readers_min`: number of readers to wait for; each of these gets all elements. `readers_max`: largest
/// number of readers at a time; 0 is 64.
///
/// `quota`: `TL_NO_QUOTA`: the writer waits for the slowest reader. Another number: the writer waits for
/// no reader, and a reader that is further behind loses the oldest elements and gets
/// `TL_ERROR_STREAM_LOST`.
///
/// Errors: as `tl_stream_writer_create`; `TL_ERROR_ARGUMENT` for options with a journal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_fan_out_create(
    url: *const c_char,
    url_length: size_t,
    element_type: *const c_char,
    type_length: size_t,
    options: tl_stream_options,
    readers_min: size_t,
    readers_max: size_t,
    quota: u64,
    timeout_ms: i32,
    writer: *mut tl_stream_writer,
) -> tl_status {
    entry(|| {
        let (url, element_type) = ((url, url_length), (element_type, type_length));
        let given = Given::Options(options);
        // SAFETY: the caller passes texts, as documented.
        let request =
            unsafe { request(url, element_type, (std::ptr::null(), 0), given, timeout_ms)? };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("writer", writer, 0)? };
        let mut all = FanOutOptions {
            options: request.options,
            policy: match quota {
                TL_NO_QUOTA => Policy::Slowest,
                quota => Policy::Quota(quota),
            },
            readers_min,
            ..FanOutOptions::default()
        };
        if readers_max > 0 {
            all.readers_max = readers_max;
        }
        let created = add(AnyWriter::Several {
            writer: FanOutValueWriter::create(request.url, &request.data_type, all)?,
            departed: VecDeque::new(),
        })?;
        // SAFETY: the same promise.
        unsafe { put("writer", writer, created) }
    })
}

/// Writes all elements of a stream, or none. Waits for room in the buffer.
///
/// `elements`: an array of `count` elements of the stream's type: numbers, booleans as bytes 0 and 1,
/// timestamps as `int64_t`, structs without padding.
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
            let bytes = bytes_of(end.data_type(), element_bytes, count)?;
            // SAFETY: the caller passes an array with `count` elements, as documented.
            let list = unsafe { self::elements::<u8>("elements", elements.cast(), bytes)? };
            Ok(end.write(list, part)?)
        })
    })
}

/// Writes one element of any type, given as text: a string as it is, another type as the command line
/// reads it.
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
        object.wait(Timeout::of(timeout_ms)?, |end, part| {
            let value = values::of_text(value, end.data_type())?;
            Ok(either!(end, writer => writer.write_many(std::slice::from_ref(&value), Some(part)))?)
        })
    })
}

/// Waits for room for `count` elements, and lends the memory from which they are sent, so that they need
/// not be copied. The program writes the elements there, and then calls `tl_stream_commit`. Until then,
/// other functions that use this writer give `TL_ERROR_BUSY`, also those that close it.
///
/// `element_bytes`: size of one element, such as `sizeof(double)`; checks the type.
///
/// `elements`: where the address is stored. It is valid until `tl_stream_commit`, and only then. Before
/// the program has written it, its content is undefined.
///
/// Errors: as `tl_stream_write`; `TL_ERROR_ARGUMENT` for a writer with several readers. NULL is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_reserve(
    writer: tl_stream_writer,
    element_bytes: size_t,
    count: size_t,
    timeout_ms: i32,
    elements: *mut *mut c_void,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        // SAFETY: the caller passes a place for an address or NULL.
        unsafe { put("elements", elements, std::ptr::null_mut())? };
        let address = object.lend(Timeout::of(timeout_ms)?, |end, part| {
            bytes_of(end.data_type(), element_bytes, count)?;
            // The memory belongs to the writer, which `End` keeps until the program has returned it.
            Ok(end.one()?.reserve(count, Some(part))?.as_mut_ptr())
        })?;
        // SAFETY: the same promise.
        unsafe { put("elements", elements, address.cast()) }
    })
}

/// Writes the first `count` elements of the memory that `tl_stream_reserve` has lent, and returns the
/// memory to the library. With a `count` of 0, nothing is written.
///
/// `timeout_ms`: only a journal makes this wait.
///
/// Errors: `TL_ERROR_TIMEOUT`: the journal is full; the memory is still lent. `TL_FAULT_WRONG_TYPE` if the
/// bytes are no valid elements; the memory is still lent. `TL_ERROR_ARGUMENT` if nothing is lent.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_commit(
    writer: tl_stream_writer,
    count: size_t,
    timeout_ms: i32,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        object.take_back(Timeout::of(timeout_ms)?, |end, part| {
            Ok(end.one()?.commit(count, Some(part))?)
        })
    })
}

/// Sends all written elements at once, and waits until they have reached a stage. With a timeout of 0, it
/// does not wait.
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
/// `undelivered`: where the number of elements is stored that the reader has not received, of several
/// readers their sum; may be NULL.
///
/// Errors: `TL_ERROR_BUSY` while the program has memory from `tl_stream_reserve`; the writer stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_close(
    writer: tl_stream_writer,
    timeout_ms: i32,
    undelivered: *mut u64,
) -> tl_status {
    entry(|| {
        let limit = Timeout::of(timeout_ms)?.0;
        let left = take(writer)?.close(limit);
        // SAFETY: the caller passes a place for a number or NULL.
        unsafe { put_or_none("undelivered", undelivered, left) }
    })
}

/// Takes the writer out, and ends its handle.
fn take(writer: tl_stream_writer) -> Result<AnyWriter, Failure> {
    let end = handles::find::<End<AnyWriter>>(writer)?.take()?;
    handles::remove::<End<AnyWriter>>(writer)?;
    Ok(end)
}

/// Closes a writer at once: the reader gets `TL_ERROR_STREAM_ABORTED` with the reason after the elements
/// that have arrived. For a program that cannot write everything.
///
/// Errors: as `tl_stream_writer_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_abort(
    writer: tl_stream_writer,
    reason: *const c_char,
    reason_length: size_t,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a text, as documented.
        let reason = unsafe { text("reason", reason, reason_length)? };
        take(writer)?.abort_because(reason);
        Ok(())
    })
}

/// Closes a writer with a journal without ending its stream: the next writer with this name and journal
/// continues it.
///
/// Errors: `TL_ERROR_ARGUMENT` for a writer without a journal, which stays open; those of
/// `tl_stream_writer_close`.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_writer_suspend(writer: tl_stream_writer) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        object.wait(Timeout::of(0)?, |end, _| match end {
            AnyWriter::One {
                has_journal: true, ..
            } => Ok(()),
            _ => Err(Failure::argument(
                "this writer has no journal; use tl_stream_writer_close or tl_stream_writer_abort",
            )),
        })?;
        drop(take(writer)?);
        Ok(())
    })
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

/// Copies the readers of a writer with several readers: those that are connected or may come back.
///
/// `readers`: room for `capacity` peers. `count`: where their number is stored; may be NULL. With a
/// capacity of 0, only the number is stored.
///
/// Errors: `TL_ERROR_ARGUMENT` for a writer with one reader; `TL_ERROR_SHORT_BUFFER`, and nothing is
/// copied; `TL_ERROR_BUSY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_readers(
    writer: tl_stream_writer,
    readers: *mut tl_stream_peer,
    capacity: size_t,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        let peers = object.wait(Timeout::of(0)?, |end, _| Ok(end.several()?.0.readers()))?;
        // SAFETY: the caller passes an array of `capacity` peers and a count, as documented.
        unsafe { put_peers(&peers, readers, capacity, count) }
    })
}

/// Copies the URL of one of the readers, by its number.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: as `tl_stream_writer_readers`; `TL_ERROR_ARGUMENT` if there is no such reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_reader_url(
    writer: tl_stream_writer,
    number: u64,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        let peers = object.wait(Timeout::of(0)?, |end, _| Ok(end.several()?.0.readers()))?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_url(&peers, number, buffer, capacity, length) }
    })
}

/// Takes the next of the readers that have left a writer with several readers. The writer keeps the last
/// 64.
///
/// `reader`: where the reader is stored. `has_reader`: where 1 is stored, or 0 if no other reader has
/// left; then `reader` is not stored.
///
/// Errors: `TL_ERROR_ARGUMENT` for a writer with one reader; `TL_ERROR_BUSY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_writer_departed(
    writer: tl_stream_writer,
    reader: *mut tl_stream_departed,
    has_reader: *mut i32,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyWriter>>(writer)?;
        let next = object.wait(Timeout::of(0)?, |end, _| {
            let (writer, departed) = end.several()?;
            departed.extend(writer.departed());
            // The bound of the writer, which holds for what waits here as well.
            while departed.len() > 64 {
                departed.pop_front();
            }
            Ok(departed.pop_front())
        })?;
        // SAFETY: the caller passes places for both or NULL.
        unsafe {
            put("has_reader", has_reader, i32::from(next.is_some()))?;
            match next {
                Some(next) => put("reader", reader, departed_of(&next)),
                None => Ok(()),
            }
        }
    })
}
