//! Tracks the progress of one outstanding read into a region.

use std::io;
use std::ptr::NonNull;

use trunkline_ring::WriteRegion;

use super::error::ReadFault;
use crate::backend::Span;
use crate::error::is_transient;

/// Maximum number of consecutive retries of a read that the system postponed. The same maximum
/// applies separately to reads that made no progress.
const RETRIES_MAX: u8 = 100;

/// The separately read parts of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Whole blocks, which are read directly into the region.
    Body = 0,
    /// Partial blocks, and data whose alignment in memory differs from that in the file. They are
    /// read into staging memory and copied to the region.
    Bounced = 1,
}

impl Part {
    pub(super) const ALL: [Self; 2] = [Self::Body, Self::Bounced];
}

/// A piece of the file still to be read, and the memory to read it into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) position: u64,
    pub(super) memory: Span,
}

impl Piece {
    pub(super) const EMPTY: Self = Self {
        position: 0,
        memory: Span {
            start: NonNull::dangling(),
            bytes: 0,
        },
    };

    pub(super) fn is_read(&self) -> bool {
        self.memory.bytes == 0
    }

    /// Returns the piece without its first `bytes`, which must not exceed its length.
    fn after(self, bytes: usize) -> Self {
        Self {
            position: self.position + bytes as u64,
            memory: self.memory.after(bytes),
        }
    }

    /// Splits the piece into its first `bytes` and the rest.
    fn split(self, bytes: usize) -> (Self, Self) {
        let mut first = self;
        first.memory.bytes = bytes;
        (first, self.after(bytes))
    }
}

/// Splits a region into a body of whole blocks of `block_bytes`, and the pieces before and after
/// the body.
pub(super) fn split_at_blocks(whole: Piece, block_bytes: usize) -> (Piece, [Piece; 2]) {
    let bytes = whole.memory.bytes;
    // The remainder is less than the block size, which is a `usize`.
    let block_offset = (whole.position % block_bytes as u64) as usize;
    let has_equal_offset = whole.memory.start.as_ptr().addr() % block_bytes == block_offset;
    let head_bytes = match has_equal_offset {
        true => ((block_bytes - block_offset) % block_bytes).min(bytes),
        false => bytes,
    };
    let (head, rest) = whole.split(head_bytes);
    let body_bytes = rest.memory.bytes / block_bytes * block_bytes;
    let (body, tail) = rest.split(body_bytes);
    (body, [head, tail])
}

/// A region being read into, or an empty slot for one.
#[derive(Debug)]
pub(super) struct Slot {
    /// The region to fill; `None` in an empty slot, and after the region was finished or dropped.
    pub(super) region: Option<WriteRegion>,
    /// Length of the region in bytes.
    pub(super) bytes: u64,
    body: Piece,
    bounced: [Piece; 2],
    pub(super) is_running: [bool; 2],
    /// Number of times that the system postponed a read of each part since its last progress.
    postponed_counts: [u8; 2],
    /// Number of reads of each part that read less than a block since its last progress.
    short_counts: [u8; 2],
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            region: None,
            bytes: 0,
            body: Piece::EMPTY,
            bounced: [Piece::EMPTY; 2],
            is_running: [false; 2],
            postponed_counts: [0; 2],
            short_counts: [0; 2],
        }
    }
}

impl Slot {
    /// Creates a slot that fills a region with the file's bytes from `position` on.
    pub(super) fn new(mut region: WriteRegion, position: u64, block_bytes: usize) -> Self {
        let bytes = region.bytes_mut();
        let memory = Span {
            bytes: bytes.len(),
            start: NonNull::from(bytes).cast(),
        };
        let (body, bounced) = split_at_blocks(Piece { position, memory }, block_bytes);
        Self {
            region: Some(region),
            bytes: memory.bytes as u64,
            body,
            bounced,
            ..Self::default()
        }
    }

    /// Returns the next piece of a part to read, or an empty piece if the part is complete.
    pub(super) fn next_piece(&self, part: Part) -> Piece {
        match part {
            Part::Body => self.body,
            Part::Bounced => {
                let unread = self.bounced.into_iter().find(|piece| !piece.is_read());
                unread.unwrap_or(Piece::EMPTY)
            }
        }
    }

    pub(super) fn is_read(&self) -> bool {
        Part::ALL
            .iter()
            .all(|part| self.next_piece(*part).is_read())
    }

    pub(super) fn is_reading(&self) -> bool {
        self.is_running.contains(&true)
    }

    /// Returns true if a part has something left to read and no read is running.
    pub(super) fn may_start(&self, part: Part) -> bool {
        !self.next_piece(part).is_read() && !self.is_running[part as usize]
    }

    /// Processes the result of a read. Returns the number of bytes that were read of the part's
    /// piece; the remaining bytes need another read. `result` also counts `block_offset` bytes
    /// before the piece.
    pub(super) fn complete_read(
        &mut self,
        part: Part,
        result: io::Result<usize>,
        block_offset: usize,
        block_bytes: usize,
    ) -> Result<usize, ReadFault> {
        let (postponed, short) = (
            &mut self.postponed_counts[part as usize],
            &mut self.short_counts[part as usize],
        );
        let read = match result {
            Ok(0) => return Err(ReadFault::Ended),
            Ok(bytes) => bytes,
            Err(error) if is_transient(&error) && *postponed < RETRIES_MAX => {
                *postponed += 1;
                return Ok(0);
            }
            Err(error) => return Err(ReadFault::of(&error)),
        };
        let piece = match part {
            Part::Body => Some(&mut self.body),
            Part::Bounced => self.bounced.iter_mut().find(|piece| !piece.is_read()),
        };
        let Some(piece) = piece else { return Ok(0) };
        let piece_bytes = piece.memory.bytes;
        let bytes = match part {
            Part::Body if read >= piece_bytes => piece_bytes,
            // The next read must begin on a block boundary.
            Part::Body => read / block_bytes * block_bytes,
            Part::Bounced => read.saturating_sub(block_offset).min(piece_bytes),
        };
        *piece = piece.after(bytes);
        if bytes > 0 {
            (*postponed, *short) = (0, 0);
        } else if *short < RETRIES_MAX {
            *short += 1;
        } else {
            // Repeated reads of less than a block mean that the file ends here.
            return Err(ReadFault::Ended);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may panic")]

    use super::*;

    /// A postponed read does not mean that the file has ended.
    ///
    /// Behaviour: ZC-25.
    #[test]
    fn repeatedly_deferred_read_is_not_the_end_of_the_file() {
        let error = rustix::io::Errno::AGAIN.raw_os_error();
        let postponed = || Err(io::Error::from_raw_os_error(error));
        let mut memory = vec![0_u8; 8192];
        let offset = memory.as_ptr().align_offset(4096);
        let mut sut = Slot {
            body: Piece {
                position: 0,
                memory: Span {
                    start: NonNull::from(&mut memory[offset..][..4096]).cast(),
                    bytes: 4096,
                },
            },
            ..Slot::default()
        };
        let mut take = |result| sut.complete_read(Part::Body, result, 0, 4096);
        for _ in 0..RETRIES_MAX {
            assert_eq!(take(postponed()), Ok(0));
        }
        // This read returns less than a block.
        assert_eq!(take(Ok(100)), Ok(0));
        assert_eq!(take(postponed()), Err(ReadFault::System(error)));
        // The maximum number of short reads means that the file has ended.
        for _ in 1..RETRIES_MAX {
            assert_eq!(take(Ok(100)), Ok(0));
        }
        assert_eq!(take(Ok(100)), Err(ReadFault::Ended));
    }

    /// Behaviour: ZC-13.
    #[test]
    fn data_with_equal_alignment_is_read_in_place_in_whole_blocks() {
        let mut memory = vec![0_u8; 8 * 4096];
        let offset = memory.as_ptr().align_offset(4096);
        let mut lengths = |position, block_offset: usize, bytes| {
            let memory = &mut memory[offset + block_offset..][..bytes];
            let start = NonNull::from(memory).cast();
            let memory = Span { start, bytes };
            let (body, [head, tail]) = split_at_blocks(Piece { position, memory }, 4096);
            assert_eq!(head.position, position);
            assert_eq!(body.position, position + head.memory.bytes as u64);
            assert_eq!(tail.position, body.position + body.memory.bytes as u64);
            [head, body, tail].map(|piece| piece.memory.bytes)
        };
        assert_eq!(lengths(8192, 0, 8192), [0, 8192, 0]);
        assert_eq!(lengths(8192, 0, 8200), [0, 8192, 8]);
        assert_eq!(lengths(8200, 8, 12_288), [4088, 8192, 8]);
        assert_eq!(lengths(8200, 8, 100), [100, 0, 0]);
        assert_eq!(lengths(8200, 0, 12_288), [12_288, 0, 0]);
        assert_eq!(lengths(0, 0, 100), [0, 0, 100]);
    }
}
