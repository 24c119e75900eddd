//! Positions in a ring of any capacity: the lap and the index.

/// Converts between positions and slots of a ring.
///
/// A position is `lap << shift | index`, where the index has just enough bits for the capacity.
/// Positions only grow, and a `u64` never overflows in practice. Neither advancing by a few slots
/// nor finding a slot needs a division, for any capacity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PositionMap {
    capacity: u64,
    shift: u32,
    index_mask: u64,
}

impl PositionMap {
    /// Creates the map for a ring of `capacity` slots.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(
            capacity > 0,
            "the capacity of a ring is 0; use a capacity of 1 or more"
        );
        let capacity = capacity as u64;
        let shift = u64::BITS - (capacity - 1).leading_zeros();
        Self {
            capacity,
            shift,
            index_mask: (1 << shift) - 1,
        }
    }

    #[inline]
    pub(crate) fn index(self, position: u64) -> usize {
        (position & self.index_mask) as usize
    }

    /// Returns the number of complete laps before a position.
    #[inline]
    pub(crate) fn lap(self, position: u64) -> u64 {
        position >> self.shift
    }

    /// Returns the position `steps` slots after `position`; `steps` is at most the capacity.
    #[inline]
    pub(crate) fn advance(self, position: u64, steps: usize) -> u64 {
        let index = (position & self.index_mask) + steps as u64;
        if index < self.capacity {
            position + steps as u64
        } else {
            ((self.lap(position) + 1) << self.shift) | (index - self.capacity)
        }
    }

    /// Returns the number of slots from `from` up to `to`; 0 if `to` is before `from`.
    #[inline]
    pub(crate) fn distance(self, from: u64, to: u64) -> u64 {
        self.ordinal(to).saturating_sub(self.ordinal(from))
    }

    /// Returns the number of slots from the beginning up to a position.
    #[inline]
    fn ordinal(self, position: u64) -> u64 {
        self.lap(position) * self.capacity + (position & self.index_mask)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn position_is_an_ordinal_number_by_capacity(
            capacity in 1_usize..70,
            steps in prop::collection::vec(0_usize..70, 0..20),
        ) {
            let positions = PositionMap::new(capacity);
            let (mut position, mut ordinal) = (0, 0);
            for step in steps.into_iter().map(|s| s % (capacity + 1)) {
                let before = position;
                position = positions.advance(position, step);
                ordinal += step;
                prop_assert_eq!(positions.index(position), ordinal % capacity);
                prop_assert_eq!(positions.lap(position), (ordinal / capacity) as u64);
                prop_assert_eq!(positions.distance(before, position), step as u64);
                prop_assert_eq!(positions.distance(position + 1, before), 0);
            }
        }
    }
}
