//! Room on the disk, and the length of the file, ahead of what is written.

use std::io;

use super::sums::{self, SumsFile};
use super::{Reservation, WriteQueue};
use crate::backend::Backend;
use crate::error::QueueError;

/// At most this part of what a disk has left is set aside at a time.
const ROOM_SHARE: u64 = 8;

impl<B: Backend> WriteQueue<B> {
    /// Sets room aside for a segment with a body of so many bytes, whatever its header.
    pub(crate) fn reserve_for(&mut self, body: usize) -> Result<(), QueueError> {
        let most = body.saturating_add(self.copy_at);
        self.reserve(self.position.saturating_add(most as u64))
    }

    /// Sets room aside for a segment up to `end`, and the placeholder behind it, and further.
    pub(super) fn reserve(&mut self, end: u64) -> Result<(), QueueError> {
        let end = end.saturating_add(self.placeholder_bytes() as u64);
        if self.reservation != Reservation::Ahead {
            return Ok(());
        }
        let needed = end.saturating_sub(self.reserved_to);
        let reserved = self.reserve_ahead(needed).and_then(|()| {
            let sums = self.sums.as_mut();
            sums.map_or(Ok(()), SumsFile::reserve)
        });
        let Err(error) = reserved else {
            self.room.set_full(false);
            return Ok(());
        };
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                self.room.set_full(true);
                let bytes = match self.reserved_to < end {
                    true => needed,
                    false => sums::RESERVE_BYTES,
                };
                Err(QueueError::DiskFull { bytes })
            }
            io::ErrorKind::Unsupported => {
                self.reservation = Reservation::Unsupported;
                Ok(())
            }
            _ => Err(error.into()),
        }
    }

    fn reserve_ahead(&mut self, needed: u64) -> io::Result<()> {
        if needed == 0 {
            return Ok(());
        }
        let room = self.backend.room().unwrap_or(u64::MAX);
        if room < needed {
            // Trying in vain would take the rest of the disk, and leave it unused.
            return Err(io::ErrorKind::StorageFull.into());
        }
        // What is set aside is nobody else's: of a disk that is nearly full a part.
        let ahead = self.options.reserve_bytes.min(room / ROOM_SHARE);
        let bytes = ahead.max(needed);
        self.backend.reserve(self.reserved_to, bytes)?;
        self.reserved_to = self.reserved_to.saturating_add(bytes);
        Ok(())
    }

    /// Makes the file longer ahead, so that what is written up to `end` stays well within it.
    ///
    /// A reader that asks for the length when it opens the file takes that for the end. It must not
    /// see a segment that goes on behind, or it looks there for the next one. The opening segment
    /// makes no file longer: one that was not opened to the end is short.
    pub(super) fn lengthen(&mut self, end: u64) {
        let bytes = self.options.lengthen_bytes;
        if bytes == 0 || self.next == 0 || end.saturating_add(bytes) <= self.lengthened_to {
            return;
        }
        let length = end.saturating_add(bytes).saturating_add(bytes);
        match self.backend.lengthen(length) {
            Ok(()) => self.lengthened_to = length,
            // Then each write does, as slowly as that may be.
            Err(_) => self.options.lengthen_bytes = 0,
        }
    }
}
