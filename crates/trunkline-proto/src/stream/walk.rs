//! Finds the boundaries between the elements of a stream.

use super::options::ElementForm;
use super::output::RingBytes;

/// Size of the length prefix of an element of variable size, in bytes.
const LENGTH_BYTES: usize = 4;

/// Steps through the bytes of a stream, finds the boundaries of its elements, and counts them. The
/// bytes may arrive in pieces of any size. The bytes of elements of fixed size are not inspected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElementWalk {
    form: ElementForm,
    /// Maximum size of an element in bytes, including the length prefix.
    element_max: u64,
    position: u64,
    elements: u64,
    /// Start of the element that contains `position`.
    boundary: u64,
    /// The bytes of the length prefix received so far.
    length: [u8; LENGTH_BYTES],
    /// Number of bytes to the end of the element; `None` until the length prefix is complete.
    left: Option<u64>,
}

/// An element is longer than the buffer for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementTooLong {
    /// Size of the element in bytes, including the length prefix.
    pub bytes: u64,
}

impl ElementWalk {
    /// Starts at `position`, which must be between two elements, after `elements` elements. No
    /// element may be longer than `element_max` bytes.
    pub fn new(form: ElementForm, element_max: u64, position: u64, elements: u64) -> Self {
        Self {
            form,
            element_max,
            position,
            elements,
            boundary: position,
            length: [0; LENGTH_BYTES],
            left: None,
        }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn elements(&self) -> u64 {
        self.elements
    }

    pub fn boundary(&self) -> u64 {
        self.boundary
    }

    /// Advances over `bytes`, but not into element number `elements_max`, and returns the number of
    /// bytes passed.
    ///
    /// # Errors
    /// [`ElementTooLong`] if an element exceeds the maximum size; the walk has then stopped after its
    /// length prefix.
    pub fn advance(&mut self, bytes: &[u8], elements_max: u64) -> Result<u64, ElementTooLong> {
        if let ElementForm::Fixed(size) = self.form {
            return Ok(self.advance_fixed(size, bytes.len() as u64, elements_max));
        }
        let mut rest = bytes;
        while self.elements < elements_max && !rest.is_empty() {
            let left = match self.left {
                Some(left) => left,
                None => match self.read_length(&mut rest)? {
                    Some(left) => left,
                    None => break,
                },
            };
            let step = left.min(rest.len() as u64);
            // At most the length of the slice, so it fits a `usize`.
            rest = rest.get(step as usize..).unwrap_or_default();
            self.position = self.position.saturating_add(step);
            self.left = left.checked_sub(step).filter(|left| *left > 0);
            if self.left.is_none() {
                self.elements = self.elements.saturating_add(1);
                self.boundary = self.position;
            }
        }
        Ok((bytes.len() as u64).saturating_sub(rest.len() as u64))
    }

    /// Like [`advance`](Self::advance), for elements of fixed size, whose bytes need no inspection.
    pub(super) fn advance_fixed(&mut self, size: u32, bytes: u64, elements_max: u64) -> u64 {
        let size = u64::from(size.max(1));
        let offset = self.position.saturating_sub(self.boundary);
        let allowed_elements = elements_max.saturating_sub(self.elements);
        let allowed_bytes = allowed_elements.saturating_mul(size).saturating_sub(offset);
        let step = bytes.min(allowed_bytes);
        let offset = offset.saturating_add(step);
        let ended = offset.checked_div(size).unwrap_or(0);
        self.position = self.position.saturating_add(step);
        self.elements = self.elements.saturating_add(ended);
        self.boundary = self.boundary.saturating_add(ended.saturating_mul(size));
        step
    }

    /// Consumes the available bytes of the next length prefix. Once the prefix is complete, returns
    /// the number of bytes that follow it, which may be 0.
    fn read_length(&mut self, rest: &mut &[u8]) -> Result<Option<u64>, ElementTooLong> {
        loop {
            let have = self.position.saturating_sub(self.boundary);
            if have >= LENGTH_BYTES as u64 {
                let len = u64::from(u32::from_le_bytes(self.length));
                let bytes = len.saturating_add(LENGTH_BYTES as u64);
                if bytes > self.element_max {
                    return Err(ElementTooLong { bytes });
                }
                return Ok(Some(len));
            }
            let Some((byte, after)) = rest.split_first() else {
                return Ok(None);
            };
            // `have` is less than the four bytes of the length.
            if let Some(slot) = self.length.get_mut(have as usize) {
                *slot = *byte;
            }
            *rest = after;
            self.position = self.position.saturating_add(1);
        }
    }
}

/// Advances over `len` bytes of a writer's ring, but not into element number `elements_max`.
pub(super) fn walk(
    walk: &mut ElementWalk,
    ring: &dyn RingBytes,
    len: u64,
    elements_max: u64,
) -> u64 {
    if let ElementForm::Fixed(size) = walk.form {
        return walk.advance_fixed(size, len, elements_max);
    }
    let mut advanced = 0_u64;
    for piece in ring.bytes(walk.position(), len) {
        // The writer's own elements have no maximum size, so `advance` does not fail.
        let step = walk.advance(piece, elements_max).unwrap_or(0);
        advanced = advanced.saturating_add(step);
        if step < piece.len() as u64 {
            break;
        }
    }
    advanced
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(lengths: &[usize]) -> Vec<u8> {
        let element = |len: &usize| {
            let mut bytes = (*len as u32).to_le_bytes().to_vec();
            bytes.extend(std::iter::repeat_n(0xff, *len));
            bytes
        };
        lengths.iter().flat_map(element).collect()
    }

    proptest! {
        #[test]
        fn elements_are_found_at_any_split_of_the_bytes(
            lengths in prop::collection::vec(0..20_usize, 1..20),
            cuts in prop::collection::vec(1..9_usize, 1..100),
            max in 0..22_u64,
        ) {
            let bytes = stream(&lengths);
            let mut sut = ElementWalk::new(ElementForm::Variable, 24, 0, 0);
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let piece = &rest[..cut.min(rest.len())];
                let step = sut.advance(piece, max).unwrap();
                rest = &rest[step as usize..];
            }
            let mut ends = lengths.iter().scan(0, |end, len| {
                *end += 4 + *len as u64;
                Some(*end)
            });
            let ended = ends.clone().take_while(|end| *end <= sut.position()).count();
            prop_assert_eq!(sut.elements(), (ended as u64).min(max));
            let last = ends.nth((sut.elements() as usize).wrapping_sub(1)).unwrap_or(0);
            prop_assert_eq!(sut.boundary(), last);
            prop_assert_eq!(sut.position(), (bytes.len() - rest.len()) as u64);
            if sut.elements() == max {
                prop_assert_eq!(sut.position(), sut.boundary(), "stops before the next element");
            }
        }

        #[test]
        fn fixed_size_elements_are_counted_without_reading_them(
            size in 1..9_u32,
            steps in prop::collection::vec(0..50_usize, 0..20),
        ) {
            let mut sut = ElementWalk::new(ElementForm::Fixed(size), 9, 0, 0);
            let mut position = 0;
            for step in steps {
                position += sut.advance(&[0; 50][..step], 30).unwrap();
                prop_assert!(position <= 30 * u64::from(size));
                prop_assert_eq!(sut.position(), position);
                prop_assert_eq!(sut.elements(), position / u64::from(size));
                prop_assert_eq!(sut.boundary(), sut.elements() * u64::from(size));
            }
        }
    }

    #[test]
    fn an_element_longer_than_the_buffer_is_found_at_its_length() {
        let mut sut = ElementWalk::new(ElementForm::Variable, 10, 0, 0);
        let bytes = stream(&[6, 7]);
        assert_eq!(sut.advance(&bytes, 9), Err(ElementTooLong { bytes: 11 }));
        assert_eq!((sut.elements(), sut.boundary()), (1, 10));
    }
}
