//! Late samples are older than the live value. They do not replace it and are delivered only to a
//! history (B-41).

use std::collections::VecDeque;

use trunkline_types::history::LATE_SEQUENCES;

use crate::delivery::outbox::{Outbox, Wakes};
use crate::outcome::LateKept;
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// Maximum number of late samples that may wait for their consumer. A sample that does not fit is
/// refused.
const SAMPLES_MAX: usize = 65_536;
/// Maximum total size of their values, in bytes.
const BYTES_MAX: usize = 16 << 20;

/// The late samples waiting for one consumer. Lock order: variable, then this.
#[derive(Debug)]
pub(crate) struct LateSamples {
    outbox: Arc<Outbox>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    samples: VecDeque<(u32, Update)>,
    bytes: usize,
    /// Total number of stored samples, including those already taken.
    count: u64,
    is_closed: bool,
}

impl LateSamples {
    pub(crate) fn of(outbox: &Arc<Outbox>) -> Self {
        Self {
            outbox: Arc::clone(outbox),
            queue: Mutex::default(),
        }
    }

    /// Stores a sample of the variable with this handle for the consumer. Its sequence comes from
    /// the range for late samples.
    pub(crate) fn keep(&self, handle: u32, update: &Update, wakes: &mut Wakes) -> LateKept {
        let mut queue = self.queue.lock();
        let bytes = queue.bytes + update.value.as_slice().len();
        if queue.is_closed {
            return LateKept::Nowhere;
        }
        if queue.samples.len() >= SAMPLES_MAX || bytes > BYTES_MAX {
            return LateKept::NoRoom;
        }
        queue.bytes = bytes;
        queue.count += 1;
        let sequence = LATE_SEQUENCES + queue.count;
        let update = Update {
            sequence,
            ..update.clone()
        };
        queue.samples.push_back((handle, update));
        drop(queue);
        self.outbox.ensure_woken(wakes);
        LateKept::History
    }

    /// Takes the oldest sample, with the handle of its variable.
    pub(crate) fn take(&self) -> Option<(u32, Update)> {
        let mut queue = self.queue.lock();
        let (handle, update) = queue.samples.pop_front()?;
        queue.bytes -= update.value.as_slice().len();
        Some((handle, update))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().samples.is_empty()
    }

    /// Rejects further samples. Samples that are waiting can still be taken.
    pub(crate) fn close(&self) {
        self.queue.lock().is_closed = true;
    }
}
