//! S_DATA frames whose payload is still arriving.

use super::walk::ElementWalk;

/// The range of a frame's payload that has not arrived yet.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    /// Position of the next byte.
    pub(super) position: u64,
    /// Number of missing bytes.
    pub(super) left: u64,
    pub(super) check: Option<Check>,
}

/// The state of a payload that counts as arrived only once its checksum is verified.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) expected: u32,
    /// Checksum of the bytes received so far.
    pub(super) crc32c: u32,
    /// The reader's position after the bytes received so far.
    pub(super) walk: ElementWalk,
}
