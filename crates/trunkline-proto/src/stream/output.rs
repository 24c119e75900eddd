//! The ranges and bytes that a link exchanges with its driver.

/// A range of bytes in the stream, and in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub position: u64,
    pub len: u64,
}

/// Access to the writer's ring, which the link needs for checksums and for the lengths of elements
/// of variable size.
pub trait RingBytes {
    /// Returns the one or two pieces of a range that was written and has not been freed. The second
    /// piece is empty if the range is contiguous. Both are empty if the range is not available.
    fn bytes(&self, position: u64, len: u64) -> [&[u8]; 2];
}

/// An empty ring, for a reader's link.
impl RingBytes for () {
    fn bytes(&self, _: u64, _: u64) -> [&[u8]; 2] {
        [&[], &[]]
    }
}
