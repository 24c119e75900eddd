//! What may lie in a ring, and where its counting begins.

/// What may lie in a ring at a time. The memory may be larger, never smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingShape {
    /// Bytes of an element; 0 when elements vary.
    element_bytes: usize,
    capacity: u64,
    bytes_max: usize,
}

impl RingShape {
    /// `capacity` elements of `element_bytes` each. `None` when either is 0 or there is no such
    /// memory.
    #[must_use]
    pub const fn fixed(element_bytes: usize, capacity: usize) -> Option<Self> {
        let Some(bytes_max) = element_bytes.checked_mul(capacity) else {
            return None;
        };
        if bytes_max == 0 || bytes_max > isize::MAX as usize / 2 {
            return None;
        }
        Some(Self {
            element_bytes,
            capacity: capacity as u64,
            bytes_max,
        })
    }

    /// At most `capacity` elements, and at most `bytes_max` bytes of them all. `None` when either
    /// is 0 or there is no such memory.
    #[must_use]
    pub const fn variable(bytes_max: usize, capacity: usize) -> Option<Self> {
        if capacity == 0 || bytes_max == 0 || bytes_max > isize::MAX as usize / 2 {
            return None;
        }
        Some(Self {
            element_bytes: 0,
            capacity: capacity as u64,
            bytes_max,
        })
    }

    /// Bytes of an element; `None` when elements vary.
    #[must_use]
    #[inline]
    pub const fn element_bytes(self) -> Option<usize> {
        match self.element_bytes {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// Elements that may lie in the ring.
    #[must_use]
    #[inline]
    pub const fn capacity(self) -> u64 {
        self.capacity
    }

    /// Bytes that may lie in the ring.
    #[must_use]
    #[inline]
    pub const fn bytes_max(self) -> usize {
        self.bytes_max
    }

    /// Whether elements have to be counted, because bytes do not tell.
    #[inline]
    pub(super) const fn counts(self) -> bool {
        self.element_bytes == 0
    }
}

/// Where the counting of a ring begins: at 0, unless a stream goes on in new memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingStart {
    /// The position of its first byte.
    pub position: u64,
    /// Elements before it. Of use only where elements vary.
    pub elements: u64,
}
