//! Defines a segment, which is one file of a journal.

use std::sync::Arc;

use crate::journal::disk::DiskFile;

const SEGMENT_SUFFIX: &str = ".log";

/// A file with records.
#[derive(Debug)]
pub(in crate::journal) struct Segment {
    /// Number of the segment, counted from 1.
    pub(in crate::journal) seq: u64,
    /// Stream position of the first data in the segment, in bytes.
    pub(in crate::journal) position: u64,
    pub(in crate::journal) file: Arc<dyn DiskFile>,
    /// Length of the header and the records, in bytes.
    pub(in crate::journal) len: u64,
    /// Length of the file when the segment began. In a reused file, the bytes from `len` up to here
    /// are old content.
    pub(in crate::journal) old_len: u64,
    /// Seed for the checksums of the records.
    pub(in crate::journal) seed: u32,
    /// Length of the durable part, in bytes.
    pub(in crate::journal) safe: u64,
}

impl Segment {
    /// Size on the disk, in bytes.
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
