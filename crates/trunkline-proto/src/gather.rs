//! Throughput mode: gathers output, and sends the output when it reaches a given size or age.
//!
//! Without this mode, output is sent as soon as the transport accepts it, and batched only while
//! the transport is busy ("natural batching"). With this mode, a connection has one buffer per
//! direction, which all variables, requests and answers share in their original order:
//!
//! ```text
//! frames --> | gathered | --> transport     when the buffer contains `bytes` bytes,
//!                                           when the first byte has waited for `delay`,
//!                                           or at a flush
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use trunkline_types::Tick;
use trunkline_types::contract::parse_duration;
use trunkline_types::text::parse_size;

/// The two conditions for sending gathered bytes; whichever is met first applies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThroughputMode {
    /// Number of gathered bytes at which to send; 1 to [`THROUGHPUT_BYTES_MAX`].
    pub bytes: u32,
    /// Waiting time of the first gathered byte at which to send; 1 µs to [`THROUGHPUT_DELAY_MAX`].
    pub delay: Duration,
}

/// Maximum number of bytes that one direction of a connection gathers.
pub const THROUGHPUT_BYTES_MAX: u32 = 64 << 10;
/// Longest time for which bytes are gathered. It is far below the deadline of keep-alives, which
/// are not gathered.
pub const THROUGHPUT_DELAY_MAX: Duration = Duration::from_secs(1);
/// Minimum number of bytes requested from the producer at a time, even if less space is left in the
/// buffer. Smaller requests would be inefficient, and any excess is sent at once.
const REQUEST_BYTES_MIN: usize = 4 << 10;
/// Shortest delay; no output would be gathered with a shorter one.
const DELAY_MIN: Duration = Duration::from_micros(1);

impl ThroughputMode {
    /// 8 KiB and 10 ms.
    pub const DEFAULT: ThroughputMode = ThroughputMode {
        bytes: 8 << 10,
        delay: Duration::from_millis(10),
    };

    /// Returns the nearest values within the bounds, with the delay in whole microseconds.
    #[must_use]
    pub fn within_bounds(self) -> Self {
        let delay = self.delay.clamp(DELAY_MIN, THROUGHPUT_DELAY_MAX);
        Self {
            bytes: self.bytes.clamp(1, THROUGHPUT_BYTES_MAX),
            // At most one second, so the microseconds fit.
            delay: Duration::from_micros(delay.as_micros() as u64),
        }
    }
}

/// The text is not a throughput mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "invalid throughput mode; write a size and a time, such as 8KiB,10ms: 1 byte to 64KiB, 1us to 1s"
)]
pub struct ThroughputModeError;

/// Parses bytes and time separated by a comma: `8KiB,10ms`, `1500,500us`.
impl FromStr for ThroughputMode {
    type Err = ThroughputModeError;

    fn from_str(text: &str) -> Result<Self, ThroughputModeError> {
        let (bytes, delay) = text.split_once(',').ok_or(ThroughputModeError)?;
        let throughput = Self {
            bytes: parse_size(bytes)
                .and_then(|bytes| bytes.try_into().ok())
                .ok_or(ThroughputModeError)?,
            delay: parse_duration(delay).ok_or(ThroughputModeError)?,
        };
        match throughput.within_bounds() == throughput {
            true => Ok(throughput),
            false => Err(ThroughputModeError),
        }
    }
}

/// Writes the bytes and the delay, separated by a comma.
impl fmt::Display for ThroughputMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{:?}", self.bytes, self.delay)
    }
}

impl Default for ThroughputMode {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The send buffer of one direction. It contains at most [`ThroughputMode::bytes`] bytes plus one run
/// of frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gather {
    terms: ThroughputMode,
    bytes: Vec<u8>,
    /// Latest time at which to send the gathered bytes; `None` if there are none.
    due: Option<Tick>,
}

impl Gather {
    /// Creates an empty buffer.
    pub fn new(terms: ThroughputMode) -> Self {
        Self {
            terms: terms.within_bounds(),
            bytes: Vec::new(),
            due: None,
        }
    }

    /// Returns the terms in effect, within their bounds.
    pub fn terms(&self) -> ThroughputMode {
        self.terms
    }

    /// Returns the latest time to send the gathered bytes; `None` if there are none.
    pub fn poll_timeout(&self) -> Option<Tick> {
        self.due
    }

    /// Gathers the bytes that `produce` appends, and appends to `out` the bytes to send now, about
    /// `budget` bytes. `produce` gets the number of bytes to append. Like
    /// [`Endpoint::poll_output`](crate::Endpoint::poll_output), both `produce` and this method
    /// return true if more output is ready now.
    pub fn poll_output(
        &mut self,
        now: Tick,
        budget: usize,
        out: &mut Vec<u8>,
        mut produce: impl FnMut(usize, &mut Vec<u8>) -> bool,
    ) -> bool {
        let start = out.len();
        let full = self.terms.bytes as usize;
        let mut more = true;
        while more && out.len().saturating_sub(start) < budget {
            let before = self.bytes.len();
            let wanted_bytes = full
                .saturating_sub(before)
                .max(REQUEST_BYTES_MIN.min(budget));
            more = produce(wanted_bytes, &mut self.bytes);
            let has_grown = self.bytes.len() > before;
            if has_grown && self.due.is_none() {
                self.due = Some(now.saturating_add(self.terms.delay));
            }
            if self.bytes.len() >= full {
                self.release(out);
            }
            if !has_grown {
                break;
            }
        }
        if self.due.is_some_and(|due| due <= now) {
            self.release(out);
        }
        more
    }

    /// Returns true if the gathered bytes have waited long enough. The bytes are then released with
    /// the next output and need no further timeout, because a full transport may delay that output.
    pub fn expire(&mut self, now: Tick) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// Moves all gathered bytes to `out`, for a flush or before the connection closes.
    pub fn release(&mut self, out: &mut Vec<u8>) {
        self.due = None;
        out.append(&mut self.bytes);
    }
}
