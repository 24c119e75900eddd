//! Counted buffers that are used again.

use std::collections::VecDeque;

use crate::sync::Arc;
use crate::update::Encoded;

/// Bytes that are kept for later values, at most.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// Buffers of values that have gone to whoever subscribes, all of one length: the oldest of them
/// holds the next value when all have let go of it. A writer whose blocks are taken as they come
/// then costs no allocation, and goes round in memory that the processor has at hand.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    given: VecDeque<Arc<[u8]>>,
}

impl Buffers {
    /// A value of `len` bytes as `fill` writes them; what it leaves is unspecified.
    pub(super) fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Encoded {
        let oldest = self
            .given
            .pop_front_if(|oldest| oldest.len() == len && Arc::get_mut(oldest).is_some());
        let mut buffer = oldest.unwrap_or_else(|| std::iter::repeat_n(0, len).collect());
        if let Some(bytes) = Arc::get_mut(&mut buffer) {
            fill(bytes);
        }
        if (self.given.len() + 1).saturating_mul(len) <= KEPT_BYTES_MAX {
            self.given.push_back(Arc::clone(&buffer));
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
    fn buffer_is_used_again_when_everybody_has_let_go_of_it() {
        let mut sut = Buffers::default();
        let first = value(&mut sut, 1);
        let second = value(&mut sut, 2);
        assert_eq!(first.as_slice(), [1; 1000], "somebody has it");
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
    fn what_is_kept_has_a_bound() {
        let mut sut = Buffers::default();
        let values: Vec<Encoded> = (0..3000).map(|n| value(&mut sut, n as u8)).collect();
        assert!(
            values
                .iter()
                .enumerate()
                .all(|(n, v)| v.as_slice() == [n as u8; 1000])
        );
        assert_eq!(sut.given.len(), KEPT_BYTES_MAX / 1000);
    }
}
