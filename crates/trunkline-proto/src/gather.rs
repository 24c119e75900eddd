//! Throughput mode: what is to be sent is gathered, and sent when it has become much or has waited
//! long.
//!
//! Without it everything is sent as soon as the transport takes it, and packed by itself where
//! there is much ("natural batching"). With it a connection has one buffer for each direction, which
//! all variables, requests and answers share in the order they were made:
//!
//! ```text
//! frames --> | gathered | --> transport     when `bytes` of them are there,
//!                                           when the first one has waited for `delay`,
//!                                           or at a flush
//! ```

use std::time::Duration;

use trunkline_types::Tick;

/// When what was gathered is sent: whichever comes first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Throughput {
    /// As soon as there are this many bytes; 1 to [`THROUGHPUT_BYTES_MAX`].
    pub bytes: u32,
    /// As soon as the first of them has waited this long; 1 µs to [`THROUGHPUT_DELAY_MAX`].
    pub delay: Duration,
}

/// Most bytes that one direction of a connection gathers.
pub const THROUGHPUT_BYTES_MAX: u32 = 64 << 10;
/// Longest time that bytes are gathered. Far below the deadline of keep-alives, which do not wait.
pub const THROUGHPUT_DELAY_MAX: Duration = Duration::from_secs(1);
/// Shortest one: below, there is nothing to gather.
const DELAY_MIN: Duration = Duration::from_micros(1);

impl Throughput {
    /// 8 KiB and 10 ms.
    pub const DEFAULT: Throughput = Throughput {
        bytes: 8 << 10,
        delay: Duration::from_millis(10),
    };

    /// The nearest figures within the bounds, in whole microseconds.
    #[must_use]
    pub fn within_bounds(self) -> Self {
        let delay = self.delay.clamp(DELAY_MIN, THROUGHPUT_DELAY_MAX);
        Self {
            bytes: self.bytes.clamp(1, THROUGHPUT_BYTES_MAX),
            // At most a second, which fits.
            delay: Duration::from_micros(delay.as_micros() as u64),
        }
    }
}

impl Default for Throughput {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The buffer of one direction. Holds at most [`Throughput::bytes`] and one run of frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gather {
    terms: Throughput,
    bytes: Vec<u8>,
    /// When the first of them has waited long enough.
    due: Option<Tick>,
}

impl Gather {
    /// An empty one.
    pub fn new(terms: Throughput) -> Self {
        Self {
            terms: terms.within_bounds(),
            bytes: Vec::new(),
            due: None,
        }
    }

    /// What it was made with.
    pub fn terms(&self) -> Throughput {
        self.terms
    }

    /// When what is gathered is to be sent at the latest; `None` while there is nothing.
    pub fn poll_timeout(&self) -> Option<Tick> {
        self.due
    }

    /// Takes in what `produce` appends, and appends to `out` what is to be sent now, about `budget`
    /// bytes of it. `produce` is given the room there is and says whether it has more at once, as
    /// [`Endpoint::poll_output`](crate::Endpoint::poll_output) does; so does this.
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
            more = produce(full.saturating_sub(before).max(1), &mut self.bytes);
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

    /// Appends everything that is gathered: a flush, or the end.
    pub fn release(&mut self, out: &mut Vec<u8>) {
        self.due = None;
        out.append(&mut self.bytes);
    }
}
