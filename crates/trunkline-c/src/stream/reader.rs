//! Readers of streams, with one writer or several.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use libc::size_t;
use trunkline::stream::{
    Acquired, FanInOptions, FanInValueReader, Member, Monitor, RunEnd, ValueReader,
};
use trunkline::types::Value;

use super::end::{End, bytes_of};
use super::options::{Given, Request, request, tl_stream_options};
use super::state::{properties_of, put_peers, tl_stream_peer, tl_stream_properties};
use crate::arguments::{Timeout, put, put_text, room};
use crate::errors::{Failure, tl_status};
use crate::values;
use crate::{entry, handles};

/// The reader of a stream. One thread at a time may read; all threads may close it and read its
/// properties.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_stream_reader = u64;

/// The run has elements; the writer goes on.
pub const TL_RUN_ELEMENTS: i32 = 0;
/// The writer was closed, and everything that it wrote was read.
pub const TL_RUN_CLOSED: i32 = 1;
/// The writer was aborted: its elements are incomplete.
pub const TL_RUN_ABORTED: i32 = 2;
/// The writer is gone or was created again.
pub const TL_RUN_FAULT: i32 = 3;

/// Consecutive elements of one of several writers, or the end of its stream.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_stream_run {
    /// Number of the writer at this reader, from 1.
    pub writer: u64,
    /// Number of elements; 0 at the end.
    pub count: u64,
    /// One of `TL_RUN_...`.
    pub kind: i32,
    /// Always 0.
    pub reserved: i32,
}

/// A reader with one writer or several.
#[allow(
    clippy::large_enum_variant,
    reason = "a program has few readers, and they are never moved"
)]
pub(crate) enum AnyReader {
    One {
        reader: ValueReader,
        /// The element that did not fit into the caller's buffer.
        waiting: Option<Value>,
        has_journal: bool,
        /// Number of elements that are lent.
        lent: usize,
    },
    Several {
        reader: FanInValueReader,
        /// The writer of the last run, and why its stream is incomplete.
        last: Option<(Arc<Member>, String)>,
    },
}

impl AnyReader {
    fn monitor(&self) -> Monitor {
        match self {
            AnyReader::One { reader, .. } => reader.monitor(),
            AnyReader::Several { reader, .. } => reader.monitor(),
        }
    }

    /// Returns the reader for a call that does not read elements as text.
    fn one(&mut self) -> Result<&mut ValueReader, Failure> {
        match self {
            AnyReader::One {
                waiting: Some(_), ..
            } => Err(Failure::argument(
                "an element waits for tl_stream_read_text, whose buffer was too short; read it first",
            )),
            AnyReader::One { reader, .. } => Ok(reader),
            AnyReader::Several { .. } => Err(has_several()),
        }
    }

    fn several(&mut self) -> Result<&mut FanInValueReader, Failure> {
        match self {
            AnyReader::Several { reader, .. } => Ok(reader),
            AnyReader::One { .. } => Err(has_one()),
        }
    }

    /// Closes the reader. With a journal and unless `destroys` is set, the next reader continues the
    /// stream.
    fn close(self, destroys: bool) -> Result<(), Failure> {
        match self {
            // The journal of a stream that has ended is emptied.
            AnyReader::One {
                reader,
                has_journal: true,
                ..
            } if !destroys && !reader.properties().is_ended => Ok(()),
            AnyReader::One { reader, .. } => Ok(reader.close()?),
            AnyReader::Several { reader, .. } => {
                reader.close();
                Ok(())
            }
        }
    }
}

fn has_one() -> Failure {
    Failure::argument("this reader has one writer; use tl_stream_read")
}

fn has_several() -> Failure {
    Failure::argument("this reader has several writers; use tl_stream_read_run")
}

/// Initialises the caller's memory, so that it can be lent as a slice.
fn initialised(room: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    for place in room.iter_mut() {
        place.write(0);
    }
    // SAFETY: every byte was written above, and the layouts are the same.
    unsafe { &mut *(std::ptr::from_mut(room) as *mut [u8]) }
}

fn create(request: Request<'_>) -> Result<AnyReader, Failure> {
    let has_journal = request.options.journal.is_some();
    let reader = ValueReader::create(request.url, &request.data_type, request.options)?;
    Ok(AnyReader::One {
        reader,
        waiting: None,
        has_journal,
        lent: 0,
    })
}

fn add(reader: AnyReader) -> Result<tl_stream_reader, Failure> {
    let monitor = reader.monitor();
    handles::add(End::new(reader, monitor))
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
        let (url, element_type) = ((url, url_length), (element_type, type_length));
        let given = Given::Plain {
            capacity,
            engine_port,
        };
        // SAFETY: the caller passes texts, as documented.
        let request =
            unsafe { request(url, element_type, (peer, peer_length), given, timeout_ms)? };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("reader", reader, 0)? };
        let created = add(create(request)?)?;
        // SAFETY: the same promise.
        unsafe { put("reader", reader, created) }
    })
}

/// Creates the reader of a stream with options, such as a journal. The parameters are those of
/// `tl_stream_writer_create_with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_reader_create_with(
    url: *const c_char,
    url_length: size_t,
    element_type: *const c_char,
    type_length: size_t,
    peer: *const c_char,
    peer_length: size_t,
    options: tl_stream_options,
    timeout_ms: i32,
    reader: *mut tl_stream_reader,
) -> tl_status {
    entry(|| {
        let (url, element_type) = ((url, url_length), (element_type, type_length));
        let given = Given::Options(options);
        // SAFETY: the caller passes texts, as documented.
        let request =
            unsafe { request(url, element_type, (peer, peer_length), given, timeout_ms)? };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("reader", reader, 0)? };
        let created = add(create(request)?)?;
        // SAFETY: the same promise.
        unsafe { put("reader", reader, created) }
    })
}

/// Creates a reader with several writers, and waits for the first ones. The writers are ordinary ones that
/// name this end as their peer; each has a buffer of the capacity in the options. Read it with
/// `tl_stream_read_run`.
///
/// `options`: from `tl_stream_options_create`, without a journal; 0 for none.
///
/// `writers_min`: number of writers to wait for. `writers_max`: largest number of writers at a time; 0 is
/// 64.
///
/// Errors: as `tl_stream_writer_create`; `TL_ERROR_ARGUMENT` for options with a journal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_fan_in_create(
    url: *const c_char,
    url_length: size_t,
    element_type: *const c_char,
    type_length: size_t,
    options: tl_stream_options,
    writers_min: size_t,
    writers_max: size_t,
    timeout_ms: i32,
    reader: *mut tl_stream_reader,
) -> tl_status {
    entry(|| {
        let (url, element_type) = ((url, url_length), (element_type, type_length));
        let given = Given::Options(options);
        // SAFETY: the caller passes texts, as documented.
        let request =
            unsafe { request(url, element_type, (std::ptr::null(), 0), given, timeout_ms)? };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("reader", reader, 0)? };
        let mut all = FanInOptions {
            options: request.options,
            writers_min,
            ..FanInOptions::default()
        };
        if writers_max > 0 {
            all.writers_max = writers_max;
        }
        let created = add(AnyReader::Several {
            reader: FanInValueReader::create(request.url, &request.data_type, all)?,
            last: None,
        })?;
        // SAFETY: the same promise.
        unsafe { put("reader", reader, created) }
    })
}

/// Waits for at least `minimum` elements, and reads all that are available, at most `capacity`. Fewer than
/// `minimum` only at the end of the stream, or before a gap.
///
/// `elements`: room for `capacity` elements of the stream's type, as for `tl_stream_write`.
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
        check_minimum(minimum, capacity)?;
        let read = object.wait(Timeout::of(timeout_ms)?, |end, part| {
            let reader = end.one()?;
            let bytes = bytes_of(reader.data_type(), element_bytes, capacity)?;
            // SAFETY: the caller passes an array with room for `capacity` elements, as documented.
            let space = unsafe { room::<u8>("elements", elements.cast(), bytes)? };
            let wanted = reader.available().min(capacity).max(minimum);
            let space = initialised(&mut space[..wanted * element_bytes]);
            Ok(reader.read_bytes_into(space, Some(part))?)
        })?;
        // SAFETY: the same promise.
        unsafe { put("count", count, read) }
    })
}

fn check_minimum(minimum: size_t, capacity: size_t) -> Result<(), Failure> {
    match minimum <= capacity {
        true => Ok(()),
        false => Err(Failure::argument(format!(
            "minimum is {minimum} and capacity {capacity}; the minimum must fit into the array"
        ))),
    }
}

/// Reads one element of any type as text: a string as it is, another type as the command line prints it.
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
            let AnyReader::One {
                reader, waiting, ..
            } = end
            else {
                return Err(has_several());
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

/// Waits for at least `minimum` elements, and lends all that are available, at most `maximum`, in the
/// memory of the reader, so that they need not be copied. They count as read when the program calls
/// `tl_stream_release`. Until then, other functions that use this reader give `TL_ERROR_BUSY`, also those
/// that close it.
///
/// `element_bytes`: size of one element, such as `sizeof(double)`; checks the type.
///
/// `elements`: where the address is stored. It is valid until `tl_stream_release`, and only then. Do not
/// write there.
///
/// `count`: where the number of elements is stored; fewer than `minimum` only as for `tl_stream_read`.
///
/// Errors: as `tl_stream_read`; then NULL and 0 are stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_acquire(
    reader: tl_stream_reader,
    element_bytes: size_t,
    minimum: size_t,
    maximum: size_t,
    timeout_ms: i32,
    elements: *mut *const c_void,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        // SAFETY: the caller passes places for both or NULL.
        unsafe {
            put("elements", elements, std::ptr::null())?;
            put("count", count, 0)?;
        }
        check_minimum(minimum, maximum)?;
        let (address, acquired) = object.lend(Timeout::of(timeout_ms)?, |end, part| {
            let reader = end.one()?;
            bytes_of(reader.data_type(), element_bytes, maximum)?;
            let wanted = reader.available().min(maximum).max(minimum);
            let region = reader.acquire_bytes_exactly(wanted, Some(part))?;
            let acquired = (region.as_ptr(), region.elements());
            // The elements are released by `tl_stream_release`. Their memory belongs to the reader, which
            // `End` keeps until then.
            std::mem::forget(region);
            if let AnyReader::One { lent, .. } = end {
                *lent = acquired.1;
            }
            Ok(acquired)
        })?;
        // SAFETY: the same promise.
        unsafe {
            put("elements", elements, address.cast())?;
            put("count", count, acquired)
        }
    })
}

/// Returns the memory that `tl_stream_acquire` has lent: its elements are read, and the writer can send
/// more.
///
/// Errors: `TL_ERROR_ARGUMENT` if nothing is lent.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_release(reader: tl_stream_reader) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        object.take_back(Timeout::of(0)?, |end, part| {
            if let AnyReader::One { reader, lent, .. } = end {
                // The same elements as before, because nothing else has used the reader meanwhile.
                drop(reader.acquire_bytes_exactly(std::mem::take(lent), Some(part))?);
            }
            Ok(())
        })
    })
}

/// Declares that the program has processed all elements that it has read. With a journal, they are not
/// delivered again after a crash; without one, this does nothing.
///
/// Errors: `TL_ERROR_SYSTEM` if the journal cannot be written.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_reader_commit(reader: tl_stream_reader) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        object.wait(Timeout::of(0)?, |end, _| Ok(end.one()?.commit()?))
    })
}

/// Waits for elements of any writer of a reader with several writers, or for the end of a writer's stream,
/// and reads up to `capacity` elements of that writer.
///
/// `elements`: room for `capacity` elements, as for `tl_stream_read`. `element_bytes`: size of one
/// element.
///
/// `capacity`: from 1.
///
/// `run`: where the writer and the number of elements are stored.
///
/// Errors: `TL_ERROR_TIMEOUT`, nothing was read; `TL_ERROR_ARGUMENT` for a reader with one writer;
/// `TL_FAULT_WRONG_TYPE`, `TL_ERROR_CLOSED`, `TL_ERROR_BUSY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_read_run(
    reader: tl_stream_reader,
    elements: *mut c_void,
    element_bytes: size_t,
    capacity: size_t,
    timeout_ms: i32,
    run: *mut tl_stream_run,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        if capacity == 0 {
            return Err(Failure::argument("capacity is 0; pass at least 1"));
        }
        let read = object.wait(Timeout::of(timeout_ms)?, |end, part| {
            let AnyReader::Several { reader, last } = end else {
                return Err(has_one());
            };
            let bytes = bytes_of(reader.data_type(), element_bytes, capacity)?;
            // SAFETY: the caller passes an array with room for `capacity` elements, as documented.
            let space = unsafe { room::<u8>("elements", elements.cast(), bytes)? };
            let acquired = reader.acquire_bytes_run(capacity, Some(part))?;
            let (writer, count, kind, reason) = match acquired {
                Acquired::Elements { writer, elements } => {
                    for (place, byte) in space.iter_mut().zip(elements.iter()) {
                        place.write(*byte);
                    }
                    let count = elements.elements() as u64;
                    (writer, count, TL_RUN_ELEMENTS, String::new())
                }
                Acquired::Ended { writer, end } => {
                    let (kind, reason) = match end {
                        RunEnd::Closed => (TL_RUN_CLOSED, String::new()),
                        RunEnd::Aborted { reason, .. } => (TL_RUN_ABORTED, reason),
                        RunEnd::Fault(fault) => (TL_RUN_FAULT, fault.to_string()),
                    };
                    (writer, 0, kind, reason)
                }
            };
            let read = tl_stream_run {
                writer: writer.number,
                count,
                kind,
                reserved: 0,
            };
            *last = Some((writer, reason));
            Ok(read)
        })?;
        // SAFETY: the caller passes a place for a run or NULL.
        unsafe { put("run", run, read) }
    })
}

/// Copies the URL of the writer of the last `tl_stream_read_run`.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` before the first run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_run_url(
    reader: tl_stream_reader,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let (writer, _) = last_run(reader)?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&writer.url, buffer, capacity, length) }
    })
}

/// Copies the reason why the last `tl_stream_read_run` ended with `TL_RUN_ABORTED` or `TL_RUN_FAULT`; the
/// empty text for the other kinds.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` before the first run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_run_reason(
    reader: tl_stream_reader,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let (_, reason) = last_run(reader)?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&reason, buffer, capacity, length) }
    })
}

fn last_run(reader: tl_stream_reader) -> Result<(Arc<Member>, String), Failure> {
    let object = handles::find::<End<AnyReader>>(reader)?;
    object.wait(Timeout::of(0)?, |end, _| match end {
        AnyReader::Several {
            last: Some(last), ..
        } => Ok(last.clone()),
        _ => Err(Failure::argument(
            "there was no run yet; call tl_stream_read_run first",
        )),
    })
}

/// Copies the writers of a reader with several writers: those that are connected, may come back, or have
/// elements left to read.
///
/// `writers`: room for `capacity` peers. `count`: where their number is stored; may be NULL. With a
/// capacity of 0, only the number is stored.
///
/// Errors: `TL_ERROR_ARGUMENT` for a reader with one writer; `TL_ERROR_SHORT_BUFFER`, and nothing is
/// copied; `TL_ERROR_BUSY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_reader_writers(
    reader: tl_stream_reader,
    writers: *mut tl_stream_peer,
    capacity: size_t,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<End<AnyReader>>(reader)?;
        let peers = object.wait(Timeout::of(0)?, |end, _| Ok(end.several()?.writers()))?;
        // SAFETY: the caller passes an array of `capacity` peers and a count, as documented.
        unsafe { put_peers(&peers, writers, capacity, count) }
    })
}

/// Closes a reader. Without a journal, the writer learns how far the stream was read, and can write no
/// more. With a journal, the next reader with this name and journal continues the stream.
///
/// Errors: `TL_ERROR_BUSY` while the program has memory from `tl_stream_acquire`; the reader stays open.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_reader_close(reader: tl_stream_reader) -> tl_status {
    entry(|| take(reader)?.close(false))
}

/// Closes a reader, also with a journal, ends its stream, and empties the journal.
///
/// Errors: as `tl_stream_reader_close`; `TL_ERROR_SYSTEM` if the journal was not emptied.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_reader_destroy(reader: tl_stream_reader) -> tl_status {
    entry(|| take(reader)?.close(true))
}

/// Takes the reader out, and ends its handle.
fn take(reader: tl_stream_reader) -> Result<AnyReader, Failure> {
    let end = handles::find::<End<AnyReader>>(reader)?.take()?;
    handles::remove::<End<AnyReader>>(reader)?;
    Ok(end)
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
