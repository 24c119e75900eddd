//! The state of writes: regions, and the segments that contain them.

use std::io;
use std::ptr::NonNull;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::{BodySum, SegmentSum};

use crate::backend::Span;

/// The separately written parts of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The whole blocks, directly from the region's memory.
    Body = 0,
    /// The remaining bytes and the padding of their block, from staging.
    OddEnd = 1,
}

impl Part {
    pub(super) const ALL: [Self; 2] = [Self::Body, Self::OddEnd];
}

/// The progress of a part: what is still to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartState {
    pub(super) position: u64,
    pub(super) memory: Span,
    pub(super) is_running: bool,
    tries: u8,
}

/// Maximum number of times that a write is repeated because the system postponed it or made no
/// progress.
const TRIES_MAX: u8 = 100;

impl Default for PartState {
    fn default() -> Self {
        let nothing = Span {
            start: NonNull::dangling(),
            bytes: 0,
        };
        Self::waiting(0, nothing)
    }
}

impl PartState {
    pub(super) fn waiting(position: u64, memory: Span) -> Self {
        Self {
            position,
            memory,
            is_running: false,
            tries: 0,
        }
    }

    pub(super) fn is_written(&self) -> bool {
        self.memory.bytes == 0
    }

    /// Returns true if something is left to write and no write is running.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_running && !self.is_written()
    }

    /// Processes the result of a write. Another write handles the rest.
    pub(super) fn take(&mut self, result: io::Result<usize>, block_bytes: usize) -> io::Result<()> {
        let bytes = match result {
            Ok(bytes) => bytes.min(self.memory.bytes),
            Err(error) if is_put_off(&error) && self.tries < TRIES_MAX => {
                self.tries += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // The next write must begin on a block boundary.
        let bytes = match bytes == self.memory.bytes {
            true => bytes,
            false => bytes / block_bytes * block_bytes,
        };
        if bytes == 0 {
            self.tries += 1;
            if self.tries >= TRIES_MAX {
                return Err(rustix::io::Errno::IO.into());
            }
        }
        self.position += bytes as u64;
        self.memory = Span {
            start: after(self.memory.start, bytes),
            bytes: self.memory.bytes - bytes,
        };
        Ok(())
    }
}

fn is_put_off(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

/// Returns the address `bytes` after `start`, within the same memory or at its end.
pub(super) fn after(start: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    // SAFETY: `bytes` is at most the length of the memory that begins at `start`.
    unsafe { start.add(bytes) }
}

/// A region being written, or an empty slot for one.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The number of its segment.
    pub(super) segment: u64,
    /// Its position in the file.
    pub(super) position: u64,
    /// Held until it is in the file.
    pub(super) region: Option<ReadRegion>,
    pub(super) is_wanted_back: bool,
    /// The body and its unaligned end.
    pub(super) parts: [PartState; 2],
    /// With checksums: the sum of the bytes before it in its segment, without the header.
    pub(super) sum_before: BodySum,
}

impl Slot {
    pub(super) fn is_running(&self) -> bool {
        self.parts.iter().any(|part| part.is_running)
    }

    pub(super) fn is_written(&self) -> bool {
        self.parts.iter().all(PartState::is_written)
    }
}

/// An outstanding segment, or an empty place for one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) position: u64,
    pub(super) end: u64,
    /// The slots of its regions: the first, and one past the last.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The end that its header describes: that of one region, until the header is updated.
    pub(super) described_end: u64,
    pub(super) header: PartState,
    pub(super) header_bytes: usize,
    /// True while further regions may be added.
    pub(super) is_open: bool,
    pub(super) since: Duration,
    /// With checksums: the sum of everything after the header.
    pub(super) body_sum: BodySum,
    /// The sum of the whole segment, set when its header is written.
    pub(super) sum: Option<SegmentSum>,
}
