//! Defines the size limits of a journal.

/// Size limits of a journal's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Limit for all files together, in bytes. Commits of a reader may exceed this limit, because
    /// they do not wait.
    pub bytes_max: u64,
    /// Size in bytes at which a new segment begins.
    pub segment_bytes: u64,
}

impl Bounds {
    /// Returns bounds with segments of one eighth of the total, at most 32 MiB.
    pub fn of(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            segment_bytes: (bytes_max >> 3).min(32 << 20),
        }
    }
}
