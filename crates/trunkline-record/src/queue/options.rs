//! Defines the options of a queue.

use std::num::NonZeroUsize;
use std::time::Duration;

/// Default size in bytes below which regions are copied, if copying is allowed. A separate write of
/// a smaller region costs more CPU time and takes longer than the copy, as decision 0035 measured.
pub const COPY_BELOW_BYTES: usize = 128 << 10;

/// Options of a [`WriteQueue`](super::WriteQueue).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueOptions {
    /// Maximum number of outstanding regions, and of outstanding segments. Default: 4.
    pub outstanding_max: NonZeroUsize,
    /// Maximum time that [`append`](super::WriteQueue::append) waits when the maximum number is
    /// outstanding. Default: 5 s.
    pub wait: Duration,
    /// Maximum length of a header in bytes. This much memory is allocated for each outstanding
    /// segment. Default: 64 KiB.
    pub header_bytes_max: usize,
    /// Number of bytes of disk space reserved at a time; 0 reserves none. Default: 256 MiB.
    pub reserve_bytes: u64,
    /// Minimum number of bytes by which the file extends beyond the data written so far; the actual
    /// number may be up to twice as large. With 0, each write extends the file. The extra bytes are
    /// zeros, and closing the file removes them. Default: 32 MiB.
    ///
    /// The extra length has two benefits. Some file systems, such as ext4, execute writes that
    /// extend a file one at a time and in their own threads. In addition, a reader that opens the
    /// file during recording has time to read the headers before the recording reaches the length
    /// that the file had when it was opened.
    pub lengthen_bytes: u64,
    /// Selects the regions that are copied. With `None`, regions that cannot be written in place
    /// are refused. By default, small and unaligned regions are copied.
    pub copying: Option<Copying>,
    /// Creates a checksum file for each file that [`tdms_queue`](crate::tdms_queue) opens. The CPU
    /// then reads every byte once, but copies none. Default: false.
    pub has_sums: bool,
    /// The conditions under which the disk counts as nearly full.
    pub alarm: FreeSpaceAlarm,
    /// The behaviour of a recording when the disk is full. By default it refuses rows.
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
            alarm: FreeSpaceAlarm::default(),
            full_disk: FullDisk::default(),
        }
    }
}

impl QueueOptions {
    /// Returns the number of concurrent writes that a backend must support for these options.
    pub fn writes_max(&self) -> usize {
        // These writes may run at the same time: a region's body and its unaligned end, the headers
        // of earlier segments, and the placeholders of those segments and of the next one.
        4 * self.outstanding_max.get() + 1
    }

    /// Returns the maximum length in bytes of a region that is copied.
    pub(super) fn copy_bytes_max(&self) -> usize {
        self.copying.map_or(0, |copying| copying.segment_bytes)
    }
}

/// Selects the regions that are copied, and how they are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copying {
    /// Regions of fewer bytes are copied; with 0, only unaligned regions are copied. Default:
    /// [`COPY_BELOW_BYTES`].
    pub below_bytes: usize,
    /// Maximum number of bytes collected from copied regions for one segment. A longer region is
    /// not copied. This much memory is allocated for each outstanding segment. Default: 1 MiB.
    pub segment_bytes: usize,
    /// Age after which the next call writes collected data. Default: 1 s.
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

/// The conditions under which the disk counts as nearly full. One of them suffices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeSpaceAlarm {
    /// The disk counts as nearly full if fewer bytes than this are free. Default: 1 GiB.
    pub bytes: u64,
    /// The disk counts as nearly full if the current rate fills it in less than this time. Default:
    /// 60 s.
    pub time: Duration,
}

impl Default for FreeSpaceAlarm {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            time: Duration::from_secs(60),
        }
    }
}

/// The behaviour of a recording when the disk is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FullDisk {
    /// Regions are refused; the caller keeps them and can try again.
    #[default]
    Refuse,
    /// Rows are accepted, discarded, and counted as lost. Writing resumes automatically once there
    /// is space, and the missing rows are recorded as a gap.
    Discard,
}
