//! One segment that is outstanding.

use std::io;
use std::ptr::NonNull;

use trunkline_ring::ReadRegion;
use trunkline_tdms::SegmentSum;

use crate::backend::Span;
use crate::error::FailedStep;

/// What a segment is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Whole blocks of the region, where they lie.
    Body = 0,
    /// The rest of it, and what fills up its block, from staging.
    OddEnd = 1,
    /// Once both are in the file.
    Header = 2,
}

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::Body, Self::OddEnd, Self::Header];

    pub(super) fn step(self) -> FailedStep {
        match self {
            Self::Body | Self::OddEnd => FailedStep::Body,
            Self::Header => FailedStep::Header,
        }
    }
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

/// A segment that is outstanding, or a place for one.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) position: u64,
    pub(super) end: u64,
    /// Until it is in the file.
    pub(super) region: Option<ReadRegion>,
    pub(super) is_wanted_back: bool,
    pub(super) parts: [PartState; 3],
    /// Where there are checksums.
    pub(super) sum: Option<SegmentSum>,
}

impl Default for Slot {
    fn default() -> Self {
        let nothing = Span {
            start: NonNull::dangling(),
            bytes: 0,
        };
        Self {
            position: 0,
            end: 0,
            region: None,
            is_wanted_back: false,
            parts: [PartState::waiting(0, nothing); 3],
            sum: None,
        }
    }
}

impl Slot {
    pub(super) fn is_running(&self) -> bool {
        self.parts.iter().any(|part| part.is_running)
    }

    pub(super) fn is_body_written(&self) -> bool {
        let [body, odd_end, _] = &self.parts;
        body.is_written() && odd_end.is_written()
    }

    pub(super) fn is_written(&self) -> bool {
        self.parts.iter().all(PartState::is_written)
    }

    /// Whether there is something of a part to be written, and now.
    pub(super) fn may_begin(&self, part: Part) -> bool {
        let state = &self.parts[part as usize];
        let is_due = part != Part::Header || self.is_body_written();
        is_due && !state.is_running && !state.is_written()
    }
}
