//! Reads a metadata block through a small window in memory, without trusting the content.

use std::io;

use crate::data_type::TdmsType;
use crate::element::{ByteOrder, Element};
use crate::fault::{Fault, Finding};
use crate::property::PropertyValue;
use crate::read_at::ReadAt;
use crate::text::Text;
use crate::values::with_element;

/// Number of bytes of a block that are read at a time.
const WINDOW_BYTES: u64 = 32 * 1024;

/// The reason why a block cannot be read to the end.
#[derive(Debug)]
pub(crate) enum BlockError {
    /// The source cannot be read at this position.
    Source(u64, io::Error),
    /// The whole file is rejected, because it is inconsistent or exceeds a limit.
    Refused(Finding),
    /// The remaining block cannot be read, but other segments can be read.
    Unreadable(Finding),
}

/// A cursor over a metadata block.
#[derive(Debug)]
pub(crate) struct BlockCursor<'a, R: ?Sized> {
    source: &'a R,
    window: &'a mut Vec<u8>,
    /// Number of bytes of the window that have been consumed.
    consumed: usize,
    /// Position in the source of the first byte after the window.
    next: u64,
    end: u64,
    /// Difference between a position in the data file and the position in the source.
    shift: u64,
    order: ByteOrder,
}

impl<'a, R: ReadAt + ?Sized> BlockCursor<'a, R> {
    /// Creates a cursor over the `bytes` bytes of `source` that begin at `from`. In the data file,
    /// the same bytes begin at `position`.
    pub(crate) fn new(
        source: &'a R,
        window: &'a mut Vec<u8>,
        (from, position, bytes): (u64, u64, u64),
        order: ByteOrder,
    ) -> Self {
        window.clear();
        Self {
            source,
            window,
            consumed: 0,
            next: from,
            end: from + bytes,
            shift: position - from,
            order,
        }
    }

    /// Returns the position of the next byte in the data file.
    pub(crate) fn position(&self) -> u64 {
        self.next - (self.window.len() - self.consumed) as u64 + self.shift
    }

    fn remaining(&self) -> u64 {
        self.end - self.next + (self.window.len() - self.consumed) as u64
    }

    pub(crate) fn unreadable(&self, problem: &'static str) -> BlockError {
        BlockError::Unreadable(Finding {
            position: self.position(),
            fault: Fault::BadMetadata { problem },
        })
    }

    pub(crate) fn refuse(&self, position: u64, fault: Fault) -> BlockError {
        BlockError::Refused(Finding { position, fault })
    }

    fn take(&mut self, bytes: u64) -> Result<&[u8], BlockError> {
        if bytes > self.remaining() {
            return Err(self.unreadable("the block ends within a value"));
        }
        let bytes = bytes as usize;
        if self.window.len() - self.consumed < bytes {
            self.window.drain(..self.consumed);
            self.consumed = 0;
            let missing = (bytes - self.window.len()) as u64;
            let more = missing.max(WINDOW_BYTES).min(self.end - self.next) as usize;
            let old_len = self.window.len();
            self.window.resize(old_len + more, 0);
            let position = self.next;
            self.source
                .read_exact_at(&mut self.window[old_len..], position)
                .map_err(|error| BlockError::Source(position, error))?;
            self.next += more as u64;
        }
        let consumed_bytes = &self.window[self.consumed..self.consumed + bytes];
        self.consumed += bytes;
        Ok(consumed_bytes)
    }

    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), BlockError> {
        if bytes > self.remaining() {
            return Err(self.unreadable("the block ends within a value"));
        }
        let unread = (self.window.len() - self.consumed) as u64;
        let skipped_in_window = bytes.min(unread);
        self.consumed += skipped_in_window as usize;
        self.next += bytes - skipped_in_window;
        Ok(())
    }

    fn value<T: Element>(&mut self) -> Result<T, BlockError> {
        let order = self.order;
        Ok(T::decode(self.take(T::SIZE as u64)?, order))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BlockError> {
        self.value()
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BlockError> {
        self.value()
    }

    /// Reads a number of items, and checks that the remaining block is long enough for them. Each
    /// item has at least `bytes_min` bytes.
    pub(crate) fn count(&mut self, bytes_min: u64) -> Result<usize, BlockError> {
        let count = self.u32()?;
        match u64::from(count) * bytes_min <= self.remaining() {
            true => Ok(count as usize),
            false => Err(self.unreadable("a count is too large for the block")),
        }
    }

    /// Reads a string of at most `limit` bytes.
    pub(crate) fn string(&mut self, limit: u64) -> Result<&[u8], BlockError> {
        let position = self.position();
        let bytes = u64::from(self.u32()?);
        if bytes > self.remaining() {
            return Err(self.unreadable("a string is too long for the block"));
        }
        if bytes > limit {
            return Err(self.refuse(position, Fault::LongPath { bytes, limit }));
        }
        self.take(bytes)
    }

    pub(crate) fn property(&mut self) -> Result<(Text, PropertyValue), BlockError> {
        let name = Text::from(self.string(u64::MAX)?);
        let data_type = TdmsType::from_code(self.u32()?);
        let value: PropertyValue = with_element!(
            data_type,
            T => self.value::<T>()?.into(),
            match data_type {
                TdmsType::Void => PropertyValue::Void,
                TdmsType::String => PropertyValue::String(self.string(u64::MAX)?.into()),
                _ => return Err(self.unreadable("a property has an unknown type")),
            }
        );
        Ok((name, value))
    }
}
