//! A frame of bytes whose head has come.

use super::walk::ElementWalk;

/// Bytes of a frame that are coming.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) position: u64,
    pub(super) left: u64,
    pub(super) check: Option<Check>,
}

/// Bytes that count only when their checksum is right.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) expected: u32,
    pub(super) crc32c: u32,
    pub(super) walk: ElementWalk,
}
