//! Segments, the chunks that they consist of, and the writes of both.

use std::io;
use std::ptr::NonNull;
use std::time::Duration;

use rustix::io::Errno;
use trunkline_ring::ReadRegion;
use trunkline_tdms::{BodySum, SegmentSum};

use crate::backend::{Span, Token};
use crate::error::is_transient;

/// One write, with the number of its segment or chunk. Its token encodes both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Placeholder(u64),
    /// The whole blocks of a chunk.
    Body(u64),
    /// The remaining bytes of a chunk, and the padding of their block.
    Tail(u64),
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

/// The progress of a write: the bytes that are still to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartState {
    pub(super) position: u64,
    pub(super) memory: Span,
    pub(super) is_running: bool,
    /// The number of retries since a write last made progress.
    retries: u8,
}

/// Maximum number of times that a write is retried because the system postponed it or it made no
/// progress.
const RETRIES_MAX: u8 = 100;

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
            retries: 0,
        }
    }

    pub(super) fn is_written(&self) -> bool {
        self.memory.bytes == 0
    }

    /// Returns true if something is left to write and no write is running.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_running && !self.is_written()
    }

    /// Processes the result of a write. The remaining bytes need another write.
    pub(super) fn take(&mut self, result: io::Result<usize>, block_bytes: usize) -> io::Result<()> {
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

    /// Returns the error if the write has been retried [`RETRIES_MAX`] times.
    fn count_retry(&mut self, error: io::Error) -> io::Result<()> {
        if self.retries == RETRIES_MAX {
            return Err(error);
        }
        self.retries += 1;
        Ok(())
    }
}

/// Values that follow one header: a region, or data that was copied.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) segment: u64,
    pub(super) position: u64,
    /// Held until it is in the file.
    pub(super) region: Option<ReadRegion>,
    pub(super) is_wanted_back: bool,
    pub(super) body: PartState,
    pub(super) tail: PartState,
    /// With checksums: the sum of the bytes before it in its segment, without the header.
    pub(super) sum_before: Option<BodySum>,
}

impl Chunk {
    /// Returns true if the chunk is in the file or, after a failure, none of its writes is running.
    pub(super) fn is_done(&self, is_failed: bool) -> bool {
        let is_done = |part: &PartState| part.is_written() || is_failed && !part.is_running;
        is_done(&self.body) && is_done(&self.tail)
    }
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) position: u64,
    pub(super) end: u64,
    /// Number of its first chunk.
    pub(super) first_chunk: u64,
    /// One past the number of its last chunk.
    pub(super) chunks_end: u64,
    /// The end that its header describes: that of one chunk, until the header is completed.
    pub(super) described_end: u64,
    pub(super) placeholder: PartState,
    pub(super) header: PartState,
    pub(super) header_bytes: usize,
    /// True while further chunks may be added.
    pub(super) is_open: bool,
    pub(super) begun_at: Duration,
    /// With checksums: the sum of everything after the header.
    pub(super) body_sum: Option<BodySum>,
    /// The sum of the whole segment, set when its header is completed.
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
        let mut sut = PartState::waiting(0, memory);
        let postponed = || Err(Errno::AGAIN.into());
        for written in 0..500 {
            assert_eq!(sut.position, written);
            sut.take(postponed(), 1).unwrap();
            sut.take(Ok(1), 1).unwrap();
        }
        for _ in 0..RETRIES_MAX / 2 {
            sut.take(Ok(0), 1).unwrap();
            sut.take(postponed(), 1).unwrap();
        }
        let error = sut.take(postponed(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(sut.position, 500);
    }
}
