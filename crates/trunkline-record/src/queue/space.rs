//! Reserves disk space and extends the file ahead of the written data.

use std::io;

use super::sums::{self, SumsFile};
use super::{FreeSpaceMonitor, QueueOptions, Reservation};
use crate::backend::Backend;
use crate::error::QueueError;

/// Divisor that limits one reservation to a part of the disk's free space.
const ROOM_DIVISOR: u64 = 8;

/// The disk space reserved for a file, and the free space on its disk.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) reservation: Reservation,
    pub(super) monitor: FreeSpaceMonitor,
    reserve_bytes: u64,
    reserved_to: u64,
    /// Minimum number of bytes by which the file extends beyond its data; 0 after extending failed.
    lengthen_bytes: u64,
    /// The length to which the file was extended ahead of its writes.
    lengthened_to: u64,
}

impl Space {
    pub(super) fn new(options: &QueueOptions) -> Self {
        Self {
            reservation: match options.reserve_bytes {
                0 => Reservation::NotWanted,
                _ => Reservation::Ahead,
            },
            monitor: FreeSpaceMonitor::new(options.alarm),
            reserve_bytes: options.reserve_bytes,
            reserved_to: 0,
            lengthen_bytes: options.lengthen_bytes,
            lengthened_to: 0,
        }
    }

    /// Reserves space for data up to `end`, for data after it, and for checksums.
    pub(super) fn reserve(
        &mut self,
        backend: &mut dyn Backend,
        sums: Option<&mut SumsFile>,
        end: u64,
    ) -> Result<(), QueueError> {
        if self.reservation != Reservation::Ahead {
            return Ok(());
        }
        let needed = end.saturating_sub(self.reserved_to);
        let reserved = self
            .reserve_ahead(backend, needed)
            .and_then(|()| sums.map_or(Ok(()), SumsFile::reserve));
        let Err(error) = reserved else {
            self.monitor.set_full(false);
            return Ok(());
        };
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                self.monitor.set_full(true);
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

    fn reserve_ahead(&mut self, backend: &mut dyn Backend, needed: u64) -> io::Result<()> {
        if needed == 0 {
            return Ok(());
        }
        let free_space = backend.free_bytes().unwrap_or(u64::MAX);
        if free_space < needed {
            // A failed attempt would allocate the remaining space and leave it unused.
            return Err(io::ErrorKind::StorageFull.into());
        }
        // No other program can use reserved space, so only part of a nearly full disk is reserved.
        let ahead_bytes = self.reserve_bytes.min(free_space / ROOM_DIVISOR);
        let bytes = ahead_bytes.max(needed);
        backend.reserve(self.reserved_to, bytes)?;
        self.reserved_to = self.reserved_to.saturating_add(bytes);
        Ok(())
    }

    /// Extends the file ahead, so that data written up to `end` stays well within its length.
    ///
    /// A reader treats the length that the file had at the time of opening as the end. The reader
    /// must not see a segment that extends beyond this end, because it would look for the next
    /// segment there.
    pub(super) fn extend(&mut self, backend: &mut dyn Backend, end: u64) {
        let bytes = self.lengthen_bytes;
        if bytes == 0 || end.saturating_add(bytes) <= self.lengthened_to {
            return;
        }
        let length = end.saturating_add(bytes).saturating_add(bytes);
        match backend.extend(length) {
            Ok(()) => self.lengthened_to = length,
            // From now on each write extends the file, even if that is slow.
            Err(_) => self.lengthen_bytes = 0,
        }
    }

    /// Queries the free space of the file system. Data up to `position` has been appended.
    pub(super) fn query_room(&mut self, backend: &dyn Backend, position: u64) {
        let reserved_bytes = match self.reservation {
            Reservation::Ahead => self.reserved_to.saturating_sub(position),
            _ => 0,
        };
        let free_bytes = backend.free_bytes().ok();
        let free_bytes = free_bytes.map(|free_bytes| free_bytes.saturating_add(reserved_bytes));
        self.monitor.record(backend.now(), free_bytes, position);
    }
}
