//! Copied regions: small ones, which are collected into segments, and unaligned ones.
//!
//! They are collected in the place of the next segment, so that they are copied only once.

use std::io;

use trunkline_ring::ReadRegion;

use super::append::{Body, put};
use super::{Copying, Reservation, WritePath, WriteQueue};
use crate::backend::Backend;
use crate::error::QueueError;

impl<B: Backend> WriteQueue<B> {
    /// Returns true if a region must be copied before it is written.
    pub(crate) fn is_to_be_copied(&self, region: &ReadRegion) -> bool {
        let Some(copying) = self.options.copying else {
            return false;
        };
        let bytes = region.bytes().len();
        let has_to_be = bytes < copying.below_bytes || !self.is_aligned(region);
        has_to_be && bytes <= copying.segment_bytes
    }

    /// Returns the bytes that can still be collected before they must become a segment.
    pub(crate) fn room_to_collect(&self) -> usize {
        self.options.copy_bytes_max() - self.collected
    }

    /// Returns true if collected data has reached its maximum age.
    pub(crate) fn is_collected_old(&self) -> bool {
        let is_old = |copying: Copying| {
            let age = self.now().saturating_sub(self.collected_since);
            age >= copying.age_max
        };
        self.collected > 0 && self.options.copying.is_some_and(is_old)
    }

    /// Ensures that a region can be collected and become a segment later.
    ///
    /// # Errors
    /// As [`make_room`](Self::make_room), and [`QueueError::DiskFull`].
    pub(crate) fn make_room_to_collect(&mut self) -> Result<(), QueueError> {
        if self.collected > 0 {
            // The room was reserved before and is still there.
            self.poll()?;
            return self.failure.map_or(Ok(()), |failure| Err(failure.into()));
        }
        self.make_room()?;
        self.reserve_for(self.options.copy_bytes_max())
    }

    /// Copies a region. Room must have been reserved.
    pub(crate) fn collect(&mut self, region: &ReadRegion) {
        if self.collected == 0 {
            self.collected_since = self.now();
        }
        self.copy(region.bytes());
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) {
        let place = self.place(self.next);
        let at = self.copy_at + self.collected;
        put(self.staging.bytes_mut(place), at, bytes);
        self.collected += bytes.len();
        self.regions_copied += 1;
        self.bytes_copied += bytes.len() as u64;
        self.path = Some(WritePath::Copied);
    }

    /// Writes the collected data as a segment: `header`, the data, `behind`.
    ///
    /// # Errors
    /// [`QueueError`]; the data stays collected.
    pub(crate) fn append_collected(
        &mut self,
        header: &[u8],
        behind: &[u8],
    ) -> Result<(), QueueError> {
        let end = self.check(header, self.collected, behind)?;
        self.begin(header, Body::Collected, behind, end);
        Ok(())
    }

    /// Queries the room of the file system, at most once per interval.
    pub(super) fn look_at_room(&mut self) {
        let now = self.backend.now();
        if !self.room.is_due(now) {
            return;
        }
        self.look_at_place();
        let ahead = match self.reservation {
            Reservation::Ahead => self.reserved_to.saturating_sub(self.position),
            _ => 0,
        };
        let left: io::Result<u64> = self.backend.room();
        let left = left.ok().map(|left| left.saturating_add(ahead));
        self.room.look(now, left, self.position);
    }
}
