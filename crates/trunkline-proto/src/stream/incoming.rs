//! S_DATA frames whose payload is still arriving.

use super::walk::ElementWalk;

/// The bytes of a frame that have not arrived yet.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) position: u64,
    pub(super) left: u64,
    pub(super) check: Option<Check>,
}

/// The state of a payload that counts as arrived only once its checksum is verified.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) expected: u32,
    pub(super) crc32c: u32,
    pub(super) walk: ElementWalk,
}
