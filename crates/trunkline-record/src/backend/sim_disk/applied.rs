//! A write that has reached the simulated disk.

use super::super::Write;

/// Size of a sector, which a disk writes completely or not at all.
const SECTOR_BYTES: usize = 512;

/// A write that is in the file.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) position: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) is_durable: bool,
}

impl Applied {
    /// # Safety
    /// The memory of the write is mapped.
    pub(super) unsafe fn of(write: &Write, bytes: usize) -> Self {
        // SAFETY: guaranteed by the caller; `bytes` is at most the length of the memory.
        let bytes = unsafe { std::slice::from_raw_parts(write.memory.start.as_ptr(), bytes) };
        Self {
            position: write.position,
            bytes: bytes.to_vec(),
            is_durable: false,
        }
    }

    /// Returns about the first half, in whole sectors.
    pub(super) fn half(&self) -> Self {
        let mut half = self.clone();
        half.bytes
            .truncate((self.bytes.len() / 2).next_multiple_of(SECTOR_BYTES));
        half
    }

    pub(super) fn apply(&self, file: &mut Vec<u8>) {
        // Positions in a test's file are indices of a `Vec`.
        let (from, to) = (
            self.position as usize,
            self.position as usize + self.bytes.len(),
        );
        if file.len() < to {
            file.resize(to, 0);
        }
        if let Some(place) = file.get_mut(from..to) {
            place.copy_from_slice(&self.bytes);
        }
    }

    pub(super) fn applied_to(&self, file: &[u8]) -> Vec<u8> {
        let mut file = file.to_vec();
        self.apply(&mut file);
        file
    }
}
