//! Reads the arguments of C programs, and writes results into their memory.
//!
//! All functions check for NULL first. What they cannot check is the caller's promise in the header:
//! that a pointer leads to as many elements as the call says.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::slice;
use std::time::Duration;

use libc::size_t;
use trunkline::types::{FaultCode, Pattern};

use crate::errors::{Failure, TL_ERROR_LIMIT, TL_ERROR_NULL, TL_ERROR_SHORT_BUFFER, TL_ERROR_TEXT};

/// As the length of a text: the text ends at its first NUL byte, as C strings do.
pub const TL_NUL_TERMINATED: size_t = size_t::MAX;

/// As a timeout: no limit.
pub const TL_FOREVER: i32 = -1;

/// Longest wait between two looks at whether the object was closed.
const SLICE: Duration = Duration::from_millis(50);

/// Stands for no limit in the calls of the facade, which need one.
const NO_LIMIT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

fn null(what: &str) -> Failure {
    Failure::new(
        TL_ERROR_NULL,
        format!("{what} is NULL; pass the address of your memory"),
    )
}

/// Returns the caller's text. A text of length 0 may be NULL.
///
/// # Safety
/// `text` is NULL, or leads to `length` bytes, or to a text with a NUL byte if the length is
/// `TL_NUL_TERMINATED`. The memory does not change during `'a`.
pub(crate) unsafe fn text<'a>(
    what: &str,
    text: *const c_char,
    length: size_t,
) -> Result<&'a str, Failure> {
    let bytes: &[u8] = match length {
        0 => &[],
        _ if text.is_null() => return Err(null(what)),
        TL_NUL_TERMINATED => {
            // SAFETY: the caller promises a NUL byte.
            unsafe { CStr::from_ptr(text) }.to_bytes()
        }
        // SAFETY: the caller promises `length` bytes.
        length => unsafe { elements(what, text.cast::<u8>(), length)? },
    };
    str::from_utf8(bytes).map_err(|error| {
        Failure::new(
            TL_ERROR_TEXT,
            format!(
                "{what} is not valid UTF-8 after byte {}; pass UTF-8",
                error.valid_up_to()
            ),
        )
    })
}

/// Returns the caller's elements. No elements may be NULL.
///
/// # Safety
/// `first` is NULL or leads to `count` elements, which do not change during `'a`.
pub(crate) unsafe fn elements<'a, T>(
    what: &str,
    first: *const T,
    count: size_t,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(what, first, count)?;
    // SAFETY: not NULL, aligned, not longer than an address space, and the caller promises the rest.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Returns the caller's memory for elements, which the caller need not have initialised.
///
/// # Safety
/// `first` is NULL or leads to memory for `count` elements that nothing else uses during `'a`.
pub(crate) unsafe fn room<'a, T>(
    what: &str,
    first: *mut T,
    count: size_t,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(what, first, count)?;
    // SAFETY: not NULL, aligned, not longer than an address space, and the caller promises the rest.
    Ok(unsafe { slice::from_raw_parts_mut(first.cast(), count) })
}

/// As [`room`], for memory that the caller may leave out by passing NULL.
///
/// # Safety
/// As [`room`].
pub(crate) unsafe fn room_or_none<'a, T>(
    what: &str,
    first: *mut T,
    count: size_t,
) -> Result<Option<&'a mut [MaybeUninit<T>]>, Failure> {
    match first.is_null() {
        true => Ok(None),
        // SAFETY: the same promise.
        false => unsafe { room(what, first, count) }.map(Some),
    }
}

fn check<T>(what: &str, first: *const T, count: size_t) -> Result<(), Failure> {
    if first.is_null() {
        return Err(null(what));
    }
    if !first.is_aligned() {
        return Err(Failure::argument(format!(
            "{what} is not aligned to {} bytes; pass an array of its type",
            align_of::<T>()
        )));
    }
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(Failure::argument(format!(
            "{what} cannot have {count} elements; pass the number of elements of the array"
        ))),
    }
}

/// Stores a result.
///
/// # Safety
/// `place` is NULL or leads to memory for the result.
pub(crate) unsafe fn put<T>(what: &str, place: *mut T, result: T) -> Result<(), Failure> {
    // SAFETY: the same promise.
    let place = unsafe { room(what, place, 1)? };
    place[0].write(result);
    Ok(())
}

/// Stores a result unless `place` is NULL.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn put_or_none<T>(what: &str, place: *mut T, result: T) -> Result<(), Failure> {
    match place.is_null() {
        true => Ok(()),
        // SAFETY: the same promise.
        false => unsafe { put(what, place, result) },
    }
}

/// Copies a text and a NUL byte into the caller's buffer, and stores the length without the NUL byte.
/// If the buffer is too short, copies what fits and ends it between two characters.
///
/// # Safety
/// `buffer` is NULL or leads to memory for `capacity` bytes, `length` is NULL or leads to memory for
/// a length.
pub(crate) unsafe fn put_text(
    text: &str,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> Result<(), Failure> {
    // SAFETY: the same promise.
    unsafe { put_or_none("length", length, text.len())? };
    if capacity == 0 {
        return match length.is_null() {
            true => Err(null("length")),
            false => Ok(()),
        };
    }
    // SAFETY: the same promise.
    let space = unsafe { room("buffer", buffer.cast::<u8>(), capacity)? };
    let mut count = text.len().min(capacity - 1);
    while !text.is_char_boundary(count) {
        count -= 1;
    }
    for (to, byte) in space
        .iter_mut()
        .zip(text.as_bytes()[..count].iter().chain([&0]))
    {
        to.write(*byte);
    }
    match count == text.len() {
        true => Ok(()),
        false => Err(short("buffer", text.len() + 1, capacity)),
    }
}

/// Copies elements into the caller's array, and stores their number. Copies nothing if the array is
/// too short.
///
/// # Safety
/// `array` is NULL or leads to memory for `capacity` elements, `count` is NULL or leads to memory
/// for a count.
pub(crate) unsafe fn put_elements<T: Copy>(
    what: &str,
    elements: &[T],
    array: *mut T,
    capacity: size_t,
    count: *mut size_t,
) -> Result<(), Failure> {
    // SAFETY: the same promise.
    unsafe { put_or_none("count", count, elements.len())? };
    if capacity == 0 && !count.is_null() {
        return Ok(());
    }
    // SAFETY: the same promise.
    let space = unsafe { room(what, array, capacity)? };
    let Some(space) = space.get_mut(..elements.len()) else {
        return Err(short(what, elements.len(), capacity));
    };
    for (to, element) in space.iter_mut().zip(elements) {
        to.write(*element);
    }
    Ok(())
}

pub(crate) fn short(what: &str, needed: usize, capacity: usize) -> Failure {
    Failure::new(
        TL_ERROR_SHORT_BUFFER,
        format!("{what} has room for {capacity} and needs {needed}; call again with more room"),
    )
}

/// Splits a list of names, one per line. An empty last line does not count.
pub(crate) fn names(text: &str) -> Result<Vec<&str>, Failure> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() {
        return Err(Failure::argument(
            "there are no names; pass at least one, one per line",
        ));
    }
    let names: Vec<&str> = text
        .split('\n')
        .map(|name| name.strip_suffix('\r').unwrap_or(name))
        .collect();
    match u32::try_from(names.len()) {
        Ok(_) => Ok(names),
        Err(_) => Err(Failure::new(
            TL_ERROR_LIMIT,
            "there are more than 2^32 names",
        )),
    }
}

/// Returns the patterns of a list, one per line.
pub(crate) fn patterns(text: &str) -> Result<Vec<Pattern>, Failure> {
    names(text)?.into_iter().map(pattern).collect()
}

pub(crate) fn pattern(text: &str) -> Result<Pattern, Failure> {
    let parsed = Pattern::parse(text);
    parsed.map_err(|error| Failure::fault(FaultCode::BadPattern, error.to_string()))
}

/// Returns the limit for a call of the facade.
pub(crate) fn timeout(timeout_ms: i32) -> Result<Duration, Failure> {
    Ok(Timeout::of(timeout_ms)?.0.unwrap_or(NO_LIMIT))
}

/// The timeout of a call that waits for data.
#[derive(Clone, Copy)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

impl Timeout {
    pub(crate) fn of(timeout_ms: i32) -> Result<Self, Failure> {
        match u64::try_from(timeout_ms) {
            Ok(ms) => Ok(Self(Some(Duration::from_millis(ms)))),
            Err(_) if timeout_ms == TL_FOREVER => Ok(Self(None)),
            Err(_) => Err(Failure::argument(format!(
                "the timeout {timeout_ms} is negative; pass milliseconds, or TL_FOREVER for no limit"
            ))),
        }
    }

    /// Takes the next part of the wait; `None` if the timeout has passed. A timeout of 0 has one part.
    /// A call that waits in parts can be ended by another thread between two parts.
    pub(crate) fn parts(self) -> impl Iterator<Item = Duration> {
        self.parts_of(SLICE)
    }

    /// As [`parts`](Self::parts), with this longest part.
    pub(crate) fn parts_of(self, longest: Duration) -> impl Iterator<Item = Duration> {
        let mut left = self.0;
        let mut is_first = true;
        std::iter::from_fn(move || {
            let part = left.map_or(longest, |left| left.min(longest));
            let is_over = part.is_zero() && !is_first;
            is_first = false;
            left = left.map(|left| left - part);
            (!is_over).then_some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_timeout() {
        for ms in [0, 1, 49, 50, 51, 120] {
            let parts: Vec<Duration> = Timeout::of(ms).unwrap().parts().collect();
            assert!(!parts.is_empty());
            assert_eq!(
                parts.iter().sum::<Duration>(),
                Duration::from_millis(ms as u64)
            );
        }
        assert_eq!(
            Timeout::of(TL_FOREVER).unwrap().parts().take(1000).count(),
            1000
        );
        assert!(Timeout::of(-2).is_err());
    }

    #[test]
    fn names_stand_one_per_line() {
        assert_eq!(names("a\nb").unwrap(), ["a", "b"]);
        assert_eq!(names("a\r\nb\r\n").unwrap(), ["a", "b"]);
        assert_eq!(names("a\n\n").unwrap(), ["a", ""]);
        assert!(names("").is_err());
    }
}
