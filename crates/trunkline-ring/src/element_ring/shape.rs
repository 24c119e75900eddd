//! The element size, the capacity and the first position of a ring.

/// The element size and the capacity of a ring. The memory may be larger, never smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingShape {
    /// Size of an element in bytes; 0 if the size varies.
    element_bytes: usize,
    capacity: u64,
    bytes_max: usize,
}

impl RingShape {
    /// Creates the shape of a ring of `capacity` elements of `element_bytes` bytes each. Returns
    /// `None` if either is 0 or the address space is too small.
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

    /// Creates the shape of a ring of at most `capacity` elements with at most `bytes_max` bytes in
    /// total. Returns `None` if either is 0 or the address space is too small.
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

    /// Returns the size of an element in bytes; `None` if the size varies.
    #[inline]
    pub const fn element_bytes(self) -> Option<usize> {
        match self.element_bytes {
            0 => None,
            bytes => Some(bytes),
        }
    }

    #[inline]
    pub const fn capacity(self) -> u64 {
        self.capacity
    }

    #[inline]
    pub const fn bytes_max(self) -> usize {
        self.bytes_max
    }

    /// Returns true if elements must be counted, because their number cannot be derived from the
    /// number of bytes.
    #[inline]
    pub(super) const fn counts(self) -> bool {
        self.element_bytes == 0
    }
}

/// The first position of a ring: 0, unless a stream continues in new memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingStart {
    /// The position of its first byte.
    pub position: u64,
    /// Number of elements before it. Used only if the size of elements varies.
    pub elements: u64,
}
