//! How large a journal may become.

/// How large files may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// All of them together, in bytes. A reader's commits go beyond it, rather than wait.
    pub bytes_max: u64,
    /// When another one is begun.
    pub segment_bytes: u64,
}

impl Bounds {
    /// Segments of an eighth of the whole, at most 32 MiB.
    pub fn of(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            segment_bytes: (bytes_max >> 3).min(32 << 20),
        }
    }
}
