//! One file of a journal.

use std::sync::Arc;

use crate::journal::disk::DiskFile;

const SEGMENT_SUFFIX: &str = ".log";

/// A file with records.
#[derive(Debug)]
pub(in crate::journal) struct Segment {
    pub(in crate::journal) seq: u64,
    pub(in crate::journal) position: u64,
    pub(in crate::journal) file: Arc<dyn DiskFile>,
    /// Bytes of the file that are records, and what comes before them.
    pub(in crate::journal) len: u64,
    /// Bytes of the file when it was begun: of one that is written again, what stands behind `len`
    /// up to here was there before.
    pub(in crate::journal) old_len: u64,
    pub(in crate::journal) seed: u32,
    /// Bytes of it that are safe.
    pub(in crate::journal) safe: u64,
}

impl Segment {
    /// Bytes on the disk.
    pub(in crate::journal) fn file_len(&self) -> u64 {
        self.len.max(self.old_len)
    }
}

pub(in crate::journal) fn segment_name(seq: u64) -> String {
    format!("{seq:016x}{SEGMENT_SUFFIX}")
}

pub(in crate::journal) fn segment_seq(name: &str) -> Option<u64> {
    let seq = u64::from_str_radix(name.strip_suffix(SEGMENT_SUFFIX)?, 16).ok()?;
    (segment_name(seq) == name).then_some(seq)
}
