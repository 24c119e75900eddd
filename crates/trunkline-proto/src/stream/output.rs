//! The ring ranges and ring bytes that a link exchanges with its driver.

/// A range of bytes of the stream, which is also a range of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    pub position: u64,
    pub len: u64,
}

/// Access to the writer's ring, which the link needs for checksums and for the lengths of elements
/// of variable size.
pub trait RingBytes {
    /// Returns a written range that has not been freed, as one or two slices. The second slice is
    /// empty if the range is contiguous. Both slices are empty if the range is not available.
    fn bytes(&self, position: u64, len: u64) -> [&[u8]; 2];
}

/// An empty ring, for a reader's link.
impl RingBytes for () {
    fn bytes(&self, _: u64, _: u64) -> [&[u8]; 2] {
        [&[], &[]]
    }
}
