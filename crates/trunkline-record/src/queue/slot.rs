//! What is being written: regions, and the segments that they stand in.

use std::io;
use std::ptr::NonNull;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::{BodySum, SegmentSum};

use crate::backend::Span;

/// What a region is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Whole blocks of the region, where they lie.
    Body = 0,
    /// The rest of it, and what fills up its block, from staging.
    OddEnd = 1,
}

impl Part {
    pub(super) const ALL: [Self; 2] = [Self::Body, Self::OddEnd];
}

/// How far a part is: what of it is still to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartState {
    pub(super) position: u64,
    pub(super) memory: Span,
    pub(super) is_running: bool,
    tries: u8,
}

/// How often a write is begun again that the system has only put off.
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

    /// Whether there is something to be written that is not being written.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_running && !self.is_written()
    }

    /// Takes what a write came to; the rest is begun anew.
    pub(super) fn take(&mut self, result: io::Result<usize>, block_bytes: usize) -> io::Result<()> {
        let bytes = match result {
            Ok(bytes) => bytes.min(self.memory.bytes),
            Err(error) if is_put_off(&error) && self.tries < TRIES_MAX => {
                self.tries += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // The rest has to begin at a block again.
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

/// The address `bytes` further on, within the same memory or at its end.
pub(super) fn after(start: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    // SAFETY: what is added is at most the length of the memory that begins there.
    unsafe { start.add(bytes) }
}

/// A region that is being written, or a place for one.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The segment that it stands in.
    pub(super) segment: u64,
    /// Where in the file it begins.
    pub(super) position: u64,
    /// Until it is in the file.
    pub(super) region: Option<ReadRegion>,
    pub(super) is_wanted_back: bool,
    /// The body, and its odd end.
    pub(super) parts: [PartState; 2],
    /// Where there are checksums: that of what stands before it in its segment, behind the header.
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

/// A segment that is outstanding, or a place for one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) position: u64,
    pub(super) end: u64,
    /// The slots of its regions: the first, and the one behind the last.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Where it ends as its header has it: with one region, until it is made longer.
    pub(super) described_end: u64,
    pub(super) header: PartState,
    pub(super) header_bytes: usize,
    /// Whether further regions may still come in.
    pub(super) is_open: bool,
    pub(super) since: Duration,
    /// Where there are checksums: of what stands behind the header.
    pub(super) body_sum: BodySum,
    /// Of all of it, when its header is being written.
    pub(super) sum: Option<SegmentSum>,
}
