//! Defines segments, their chunks, and the progress of the writes of both.

use std::io;
use std::ptr::NonNull;
use std::time::Duration;

use rustix::io::Errno;
use trunkline_ring::ReadRegion;
use trunkline_tdms::{BodySum, SegmentSum};

use crate::backend::{Span, Token};
use crate::error::is_transient;

/// One write, identified by its kind and by the number of its segment or chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The placeholder of the segment with this number.
    Placeholder(u64),
    /// The whole blocks of the chunk with this number.
    Body(u64),
    /// The remaining bytes of the chunk with this number, and the padding of their block.
    Tail(u64),
    /// The header of the segment with this number.
    Header(u64),
}

impl Part {
    pub(super) fn token(self) -> Token {
        let (number, kind) = match self {
            Self::Placeholder(number) => (number, 0),
            Self::Body(number) => (number, 1),
            Self::Tail(number) => (number, 2),
            Self::Header(number) => (number, 3),
        };
        Token(number * 4 + kind)
    }

    pub(super) fn of(token: Token) -> Self {
        let number = token.0 / 4;
        match token.0 % 4 {
            0 => Self::Placeholder(number),
            1 => Self::Body(number),
            2 => Self::Tail(number),
            _ => Self::Header(number),
        }
    }
}

/// The bytes that a write still has to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartState {
    pub(super) position: u64,
    pub(super) memory: Span,
    pub(super) is_running: bool,
    /// Number of retries since the last progress.
    retries: u8,
}

/// Maximum number of consecutive retries of a write that the system postponed or that made no
/// progress.
const RETRIES_MAX: u8 = 100;

impl Default for PartState {
    fn default() -> Self {
        let empty = Span {
            start: NonNull::dangling(),
            bytes: 0,
        };
        Self::pending(0, empty)
    }
}

impl PartState {
    pub(super) fn pending(position: u64, memory: Span) -> Self {
        Self {
            position,
            memory,
            is_running: false,
            retries: 0,
        }
    }

    pub(super) fn is_written(&self) -> bool {
        self.memory.bytes == 0
    }

    /// Returns true if something is left to write and no write is running.
    pub(super) fn can_start(&self) -> bool {
        !self.is_running && !self.is_written()
    }

    /// Processes the result of a write. Bytes that remain need another write.
    pub(super) fn complete_write(
        &mut self,
        result: io::Result<usize>,
        block_bytes: usize,
    ) -> io::Result<()> {
        self.is_running = false;
        let bytes = match result {
            Ok(bytes) if bytes >= self.memory.bytes => self.memory.bytes,
            // The next write must begin on a block boundary.
            Ok(bytes) => bytes / block_bytes * block_bytes,
            Err(error) if is_transient(&error) => return self.count_retry(error),
            Err(error) => return Err(error),
        };
        if bytes == 0 {
            return self.count_retry(Errno::IO.into());
        }
        self.retries = 0;
        self.position += bytes as u64;
        self.memory = self.memory.after(bytes);
        Ok(())
    }

    /// Counts a retry. Returns the error if the write was already retried [`RETRIES_MAX`] times.
    fn count_retry(&mut self, error: io::Error) -> io::Result<()> {
        if self.retries == RETRIES_MAX {
            return Err(error);
        }
        self.retries += 1;
        Ok(())
    }
}

/// A part of a segment's values: one region, or data copied from several regions.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Number of the segment that contains the chunk.
    pub(super) segment: u64,
    pub(super) position: u64,
    /// The source of the chunk, which is kept until the chunk is in the file; `None` for copied
    /// data.
    pub(super) region: Option<ReadRegion>,
    /// True if the region is returned to the caller instead of being released.
    pub(super) returns_region: bool,
    pub(super) body: PartState,
    pub(super) tail: PartState,
    /// Checksum of the chunks before this one in its segment; `None` without checksums.
    pub(super) preceding_sum: Option<BodySum>,
}

impl Chunk {
    /// Returns true if the chunk is in the file, or if it has failed and none of its writes is
    /// running.
    pub(super) fn is_finished(&self, is_failed: bool) -> bool {
        let is_finished = |part: &PartState| part.is_written() || is_failed && !part.is_running;
        is_finished(&self.body) && is_finished(&self.tail)
    }
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) position: u64,
    pub(super) end: u64,
    /// Number of the segment's first chunk.
    pub(super) first_chunk: u64,
    /// Number of the segment's last chunk, plus one.
    pub(super) chunks_end: u64,
    /// Position in the file at which the segment ends according to its header. The header covers
    /// only the first chunk until it is completed.
    pub(super) described_end: u64,
    pub(super) placeholder: PartState,
    pub(super) header: PartState,
    pub(super) header_bytes: usize,
    /// True while further chunks may be added.
    pub(super) is_open: bool,
    pub(super) begun_at: Duration,
    /// Checksum of all bytes after the header; `None` without checksums.
    pub(super) body_sum: Option<BodySum>,
    /// Checksum of the whole segment, set when the header is completed.
    pub(super) sum: Option<SegmentSum>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_makes_progress_may_be_postponed_any_number_of_times() {
        let memory = vec![0_u8; 1000];
        let memory = Span {
            start: NonNull::from(memory.as_slice()).cast(),
            bytes: memory.len(),
        };
        let mut sut = PartState::pending(0, memory);
        let postponed = || Err(Errno::AGAIN.into());
        for written in 0..500 {
            assert_eq!(sut.position, written);
            sut.complete_write(postponed(), 1).unwrap();
            sut.complete_write(Ok(1), 1).unwrap();
        }
        for _ in 0..RETRIES_MAX / 2 {
            sut.complete_write(Ok(0), 1).unwrap();
            sut.complete_write(postponed(), 1).unwrap();
        }
        let error = sut.complete_write(postponed(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(sut.position, 500);
    }
}
