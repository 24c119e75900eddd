//! How a queue writes.

use std::num::NonZeroUsize;
use std::time::Duration;

/// Regions of fewer bytes are copied, where copying is allowed: below this a write for each costs
/// more CPU time, and takes longer, than the copy (measured; decision 0035).
pub const COPY_BELOW_BYTES: usize = 128 << 10;

/// How a queue writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueOptions {
    /// Regions that may be outstanding, and segments. Unless set, 4.
    pub outstanding_max: NonZeroUsize,
    /// How long [`append`](super::WriteQueue::append) waits when as many are. Unless set, 5 s.
    pub wait: Duration,
    /// Longest header. Memory for it is set aside for each outstanding segment. Unless set, 64 KiB.
    pub header_bytes_max: usize,
    /// Room on the disk that is set aside at a time; 0: none. Unless set, 256 MiB.
    pub reserve_bytes: u64,
    /// By how much a file is at least longer than what is written, up to twice as much; 0: each
    /// write makes it longer. The rest is zeros, and is cut off when the file is closed. Unless
    /// set, 32 MiB.
    ///
    /// A file system may do writes that make a file longer one at a time, and in threads of its
    /// own, as ext4 does. And a reader that opens the file while it is recorded has time to read
    /// the headers before the recording comes to where the file ended then.
    pub lengthen_bytes: u64,
    /// Which regions are copied. With none, those that cannot be written from where they lie are
    /// refused. Unless set, small ones are, and those that do not begin where a direct write may.
    pub copying: Option<Copying>,
    /// Whether a file that [`tdms_queue`](crate::tdms_queue) opens gets checksums beside it. The
    /// CPU then reads every byte once, and copies none. Unless set, it does not.
    pub has_sums: bool,
    /// When the disk is called nearly full.
    pub alarm: RoomAlarm,
    /// What a recording does when the disk is full. Unless set, it refuses rows.
    pub full_disk: FullDisk,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            outstanding_max: const { NonZeroUsize::new(4).unwrap() },
            wait: Duration::from_secs(5),
            header_bytes_max: 64 << 10,
            reserve_bytes: 256 << 20,
            lengthen_bytes: 32 << 20,
            copying: Some(Copying::default()),
            has_sums: false,
            alarm: RoomAlarm::default(),
            full_disk: FullDisk::default(),
        }
    }
}

impl QueueOptions {
    /// Writes that a backend has to run at a time for this.
    #[must_use]
    pub fn writes_max(&self) -> usize {
        // A region's body and its odd end run at the same time, headers of segments before it, and
        // placeholders of those and of the next one.
        4 * self.outstanding_max.get() + 1
    }

    /// Longest region that is copied.
    pub(super) fn copy_bytes_max(&self) -> usize {
        self.copying.map_or(0, |copying| copying.segment_bytes)
    }
}

/// Which regions are copied, and what becomes of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copying {
    /// Regions of fewer bytes are; 0: only those that do not begin where a direct write may. Unless
    /// set, [`COPY_BELOW_BYTES`].
    pub below_bytes: usize,
    /// Regions that are copied are collected into segments of at most so many bytes. A longer one
    /// is not copied. Memory for it is set aside for each outstanding segment. Unless set, 1 MiB.
    pub segment_bytes: usize,
    /// What is collected is written when it is so old, at the next call. Unless set, 1 s.
    pub age_max: Duration,
}

impl Default for Copying {
    fn default() -> Self {
        Self {
            below_bytes: COPY_BELOW_BYTES,
            segment_bytes: 1 << 20,
            age_max: Duration::from_secs(1),
        }
    }
}

/// When the disk is called nearly full: as soon as one of both is so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoomAlarm {
    /// There is room for fewer bytes. Unless set, 1 GiB.
    pub bytes: u64,
    /// It is full in less time, if it goes on as it did. Unless set, 60 s.
    pub time: Duration,
}

impl Default for RoomAlarm {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            time: Duration::from_secs(60),
        }
    }
}

/// What a recording does when the disk is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FullDisk {
    /// It hands regions back: the caller holds them, and tries again.
    #[default]
    Refuse,
    /// It stops: rows are taken, lost and counted. It goes on by itself when there is room, with
    /// the rows that are missing as a gap.
    Lose,
}
