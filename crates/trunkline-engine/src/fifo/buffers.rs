//! Reusable reference-counted buffers.

use std::collections::VecDeque;

use crate::sync::Arc;
use crate::update::Encoded;

/// Maximum total size of the buffers kept for reuse.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// Buffers of published values, all of the same length. The oldest one is reused for the next value
/// once no subscriber has a reference to it. If subscribers take blocks promptly, a writer needs no
/// allocation, and cycles through memory that is in the processor's cache.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    published: VecDeque<Arc<[u8]>>,
}

impl Buffers {
    /// Returns a value of `len` bytes as written by `fill`. Bytes that `fill` does not write are
    /// unspecified.
    pub(crate) fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Encoded {
        let oldest = self
            .published
            .pop_front_if(|oldest| oldest.len() == len && Arc::get_mut(oldest).is_some());
        let mut buffer = oldest.unwrap_or_else(|| std::iter::repeat_n(0, len).collect());
        if let Some(bytes) = Arc::get_mut(&mut buffer) {
            fill(bytes);
        }
        let most = KEPT_BYTES_MAX / len.max(1);
        // A subscriber may hold the oldest buffer forever. The list then drops that buffer, and the
        // others remain in use.
        while self.published.len() >= most.max(1) {
            self.published.pop_front();
        }
        if most > 0 {
            self.published.push_back(Arc::clone(&buffer));
        }
        Encoded::from_shared(buffer)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn value(buffers: &mut Buffers, byte: u8) -> Encoded {
        buffers.fill(1000, |bytes| bytes.fill(byte))
    }

    #[test]
    fn buffer_is_reused_when_all_references_are_dropped() {
        let mut sut = Buffers::default();
        let first = value(&mut sut, 1);
        let second = value(&mut sut, 2);
        assert_eq!(
            first.as_slice(),
            [1; 1000],
            "the value still refers to the buffer"
        );
        let place = first.as_slice().as_ptr();
        drop(first);
        let third = value(&mut sut, 3);
        assert_eq!(third.as_slice().as_ptr(), place);
        assert_eq!(
            (second.as_slice()[0], third.as_slice()),
            (2, &[3; 1000][..])
        );
    }

    #[test]
    fn permanently_held_value_does_not_stop_reuse_of_the_others() {
        let mut sut = Buffers::default();
        let kept = value(&mut sut, 7);
        let most = KEPT_BYTES_MAX / 1000;
        // One buffer per value, up to the maximum.
        (0..most).for_each(|_| drop(value(&mut sut, 1)));
        let places: Vec<_> = sut.published.iter().map(|buffer| buffer.as_ptr()).collect();
        assert_eq!(places.len(), most);
        for place in &places {
            assert_eq!(value(&mut sut, 2).as_slice().as_ptr(), *place);
        }
        assert_eq!(kept.as_slice(), [7; 1000]);
        // None is reused for another length, and each is dropped as others are added.
        (0..4).for_each(|_| drop(sut.fill(KEPT_BYTES_MAX / 2, |_| {})));
        assert_eq!(sut.published.len(), 2);
        drop(sut.fill(KEPT_BYTES_MAX + 1, |_| {}));
        assert_eq!(sut.published.len(), 0);
    }

    #[test]
    fn kept_buffers_are_bounded() {
        let mut sut = Buffers::default();
        let values: Vec<Encoded> = (0..3000).map(|n| value(&mut sut, n as u8)).collect();
        assert!(
            values
                .iter()
                .enumerate()
                .all(|(n, v)| v.as_slice() == [n as u8; 1000])
        );
        assert_eq!(sut.published.len(), KEPT_BYTES_MAX / 1000);
    }
}
