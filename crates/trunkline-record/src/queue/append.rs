//! What goes into a queue.

use std::io;
use std::ptr::NonNull;

use trunkline_ring::ReadRegion;

use super::slot::{PartState, Slot, after};
use super::{Reservation, WriteQueue};
use crate::backend::{Backend, Span, Wait};
use crate::error::{QueueError, Refused};

impl<B: Backend> WriteQueue<B> {
    /// Waits until one more segment may be outstanding, as long as the options say.
    ///
    /// # Errors
    /// [`QueueError::Busy`], [`QueueError::Failed`], [`QueueError::Closed`],
    /// [`QueueError::Backend`].
    pub fn make_room(&mut self) -> Result<(), QueueError> {
        if self.is_closed {
            return Err(QueueError::Closed);
        }
        self.poll()?;
        let since = self.backend.now();
        let until = since.saturating_add(self.options.wait);
        while self.outstanding() == self.slots.len() {
            if !self.step(Wait::Until(until))? && self.backend.now() >= until {
                return Err(QueueError::Busy {
                    outstanding: self.outstanding(),
                    waited: self.options.wait,
                });
            }
        }
        self.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Writes a segment: `header`, the region's bytes, then `behind`. Returns at once, unless as
    /// many are outstanding as may be.
    ///
    /// The region is written from where it lies, except the part of it that is no whole block,
    /// which is copied. It is given back as soon as it is in the file, or kept for
    /// [`take_returned`](Self::take_returned) when it `is_wanted_back`.
    ///
    /// # Errors
    /// [`Refused`], with the region; nothing of it was written.
    pub fn append(
        &mut self,
        header: &[u8],
        region: ReadRegion,
        behind: &[u8],
        is_wanted_back: bool,
    ) -> Result<(), Box<Refused>> {
        let ready = self.make_room();
        let fits = ready.and_then(|()| self.fits(&region));
        let checked = fits.and_then(|()| self.check(header, region.bytes(), behind));
        match checked.and_then(|end| self.reserve(end).map(|()| end)) {
            Ok(end) => {
                self.begin(header, Some(region), behind, is_wanted_back, end);
                Ok(())
            }
            Err(error) => Err(Box::new(Refused { region, error })),
        }
    }

    /// Writes a segment that is a header alone. Returns at once, unless as many are outstanding as
    /// may be.
    ///
    /// # Errors
    /// [`QueueError`]; nothing was written.
    pub fn append_header(&mut self, header: &[u8]) -> Result<(), QueueError> {
        self.make_room()?;
        let end = self.check(header, &[], &[])?;
        self.reserve(end)?;
        self.begin(header, None, &[], false, end);
        Ok(())
    }

    /// Makes sure that a segment with this region can be appended, whatever its header: waits until
    /// one more may be outstanding, and sets room on the disk aside.
    ///
    /// # Errors
    /// What [`append`](Self::append) would refuse it with.
    pub fn make_room_for(&mut self, region: &ReadRegion) -> Result<(), QueueError> {
        self.make_room()?;
        self.fits(region)?;
        let most = region.bytes().len() + self.staging.place_bytes();
        self.reserve(self.position.saturating_add(most as u64))
    }

    /// Whether a region can be written from where it lies.
    fn fits(&self, region: &ReadRegion) -> Result<(), QueueError> {
        let block_bytes = self.block_bytes;
        let address = region.bytes().as_ptr().addr();
        if !address.is_multiple_of(block_bytes) {
            return Err(QueueError::Unaligned {
                address,
                block_bytes,
            });
        }
        Ok(())
    }

    /// Where the segment would end.
    fn check(&self, header: &[u8], body: &[u8], behind: &[u8]) -> Result<u64, QueueError> {
        let block_bytes = self.block_bytes;
        let limit = self.options.header_bytes_max;
        if header.is_empty() || header.len() > limit {
            let bytes = header.len();
            return Err(QueueError::HeaderTooLong { bytes, limit });
        }
        let body_at = self.position + header.len() as u64;
        let end = body_at + (body.len() + behind.len()) as u64;
        let mut ends = [body_at, end].into_iter();
        let odd = ends.find(|end| !end.is_multiple_of(block_bytes as u64));
        // What staging has room for behind the header.
        let is_too_long = body.len() % block_bytes + behind.len() > 2 * block_bytes;
        match odd.or(is_too_long.then_some(end)) {
            Some(end) => Err(QueueError::OddBlocks { end, block_bytes }),
            None => Ok(end),
        }
    }

    /// Sets room aside up to `end` and further.
    fn reserve(&mut self, end: u64) -> Result<(), QueueError> {
        if self.reservation != Reservation::Ahead {
            return Ok(());
        }
        while self.reserved_to < end {
            let (from, bytes) = (self.reserved_to, self.options.reserve_bytes);
            match self.backend.reserve(from, bytes) {
                Ok(()) => self.reserved_to = from.saturating_add(bytes),
                Err(error) => match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        return Err(QueueError::DiskFull { bytes });
                    }
                    io::ErrorKind::Unsupported => {
                        self.reservation = Reservation::Unsupported;
                        return Ok(());
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        header: &[u8],
        region: Option<ReadRegion>,
        behind: &[u8],
        is_wanted_back: bool,
        end: u64,
    ) {
        let number = self.next;
        let place = self.place(number);
        let body = region.as_ref().map(ReadRegion::bytes).unwrap_or_default();
        let whole = body.len() / self.block_bytes * self.block_bytes;
        let (body, odd) = body.split_at(whole);
        let header_room = self.staging.place_bytes() - 2 * self.block_bytes;
        let staged = self.staging.bytes_mut(place);
        // Checked before: the header fits before the room for the odd end, and that into it.
        let pieces = [
            (0, header),
            (header_room, odd),
            (header_room + odd.len(), behind),
        ];
        for (at, piece) in pieces {
            if let Some(room) = staged.get_mut(at..at + piece.len()) {
                room.copy_from_slice(piece);
            }
        }
        self.bytes_copied += odd.len() as u64;
        let start = self.staging.place(place);
        let header_at = self.position;
        let body_at = header_at + header.len() as u64;
        let body = Span {
            start: NonNull::from(body).cast(),
            bytes: whole,
        };
        let parts = [
            PartState::waiting(body_at, body),
            PartState::waiting(
                body_at + whole as u64,
                Span {
                    start: after(start, header_room),
                    bytes: odd.len() + behind.len(),
                },
            ),
            PartState::waiting(
                header_at,
                Span {
                    start,
                    bytes: header.len(),
                },
            ),
        ];
        self.slots[place] = Slot {
            position: header_at,
            end,
            region,
            is_wanted_back,
            parts,
        };
        self.next += 1;
        self.position = end;
        self.go_on(number);
    }
}
