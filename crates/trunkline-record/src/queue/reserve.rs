//! Reserves disk space and extends the file ahead of what is written.

use std::io;

use super::sums::{self, SumsFile};
use super::{Reservation, WriteQueue};
use crate::backend::Backend;
use crate::error::QueueError;

/// At most this fraction (1/8) of a disk's free space is reserved at a time.
const ROOM_SHARE: u64 = 8;

impl<B: Backend> WriteQueue<B> {
    /// Reserves space for a segment with a body of `body` bytes, whatever its header.
    pub(crate) fn reserve_for(&mut self, body: usize) -> Result<(), QueueError> {
        let most = body.saturating_add(self.copy_at);
        self.reserve(self.position.saturating_add(most as u64))
    }

    /// Reserves space for a segment up to `end`, the placeholder after it, and more ahead.
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
            // A failed attempt would allocate the rest of the disk and leave it unused.
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Nobody else can use reserved space, so only a part of a nearly full disk is reserved.
        let ahead = self.options.reserve_bytes.min(room / ROOM_SHARE);
        let bytes = ahead.max(needed);
        self.backend.reserve(self.reserved_to, bytes)?;
        self.reserved_to = self.reserved_to.saturating_add(bytes);
        Ok(())
    }

    /// Extends the file ahead, so that data written up to `end` stays well within its length.
    ///
    /// A reader takes the file's length at the time of opening for the end. It must not see a
    /// segment that extends beyond, because it would look there for the next one. The opening
    /// segment does not extend the file, so a file that was not opened completely stays short.
    pub(super) fn lengthen(&mut self, end: u64) {
        let bytes = self.options.lengthen_bytes;
        if bytes == 0 || self.next == 0 || end.saturating_add(bytes) <= self.lengthened_to {
            return;
        }
        let length = end.saturating_add(bytes).saturating_add(bytes);
        match self.backend.lengthen(length) {
            Ok(()) => self.lengthened_to = length,
            // From then on each write extends the file, however slow that is.
            Err(_) => self.options.lengthen_bytes = 0,
        }
    }
}
