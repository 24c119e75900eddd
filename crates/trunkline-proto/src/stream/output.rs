//! What a link hands its driver to send and to receive into.

/// A range of the stream, and of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where it begins.
    pub position: u64,
    /// Its bytes.
    pub len: u64,
}

/// The writer's ring, as far as the link looks into it: for checksums, and for the lengths of
/// elements that vary.
pub trait RingBytes {
    /// The two pieces of a range that has been written and not been freed; the second is empty when
    /// it lies in one. Empty when the range is not there.
    fn bytes(&self, position: u64, len: u64) -> [&[u8]; 2];
}

/// Nothing: what a reader's link looks into.
impl RingBytes for () {
    fn bytes(&self, _: u64, _: u64) -> [&[u8]; 2] {
        [&[], &[]]
    }
}
