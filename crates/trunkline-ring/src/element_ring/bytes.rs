//! The bytes of a ring. Each byte belongs to one end at a time.

#[cfg(not(loom))]
pub(super) use mapped::Bytes;
#[cfg(loom)]
pub(super) use traced::Bytes;

#[cfg(not(loom))]
mod mapped {
    use std::ptr::NonNull;

    /// The memory of a ring, possibly mapped twice.
    pub(crate) struct Bytes {
        pub(crate) start: NonNull<u8>,
        pub(crate) len: usize,
        /// The memory is mapped twice in a row: the byte at `i` is also at `len + i`.
        pub(crate) is_mirrored: bool,
    }

    impl Bytes {
        #[inline]
        pub(crate) fn len(&self) -> usize {
            self.len
        }

        /// Returns the number of contiguous bytes from `at` on.
        #[inline]
        pub(crate) fn in_one_piece(&self, at: usize) -> usize {
            if self.is_mirrored {
                self.len
            } else {
                self.len - at
            }
        }

        /// # Safety
        /// `at` is below `len`, `bytes.len()` is at most `len`, and the range belongs to the
        /// producer.
        #[inline(always)]
        pub(crate) unsafe fn write(&self, at: usize, bytes: &[u8]) {
            // SAFETY: as the caller guarantees; no slice of this program overlaps the producer's
            // range.
            unsafe {
                if bytes.len() > self.in_one_piece(at) {
                    return self.write_in_two(at, bytes);
                }
                let target = self.start.as_ptr().add(at);
                target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }

        /// # Safety
        /// As [`write`](Self::write), and the range wraps around the end.
        #[cold]
        unsafe fn write_in_two(&self, at: usize, bytes: &[u8]) {
            let whole = self.in_one_piece(at);
            let target = self.start.as_ptr();
            // SAFETY: as the caller guarantees; the wrapped part ends at `at` at most.
            unsafe {
                let (first, rest) = bytes.split_at_unchecked(whole);
                target
                    .add(at)
                    .copy_from_nonoverlapping(first.as_ptr(), whole);
                target.copy_from_nonoverlapping(rest.as_ptr(), rest.len());
            }
        }

        /// # Safety
        /// `at` is below `len`, `bytes.len()` is at most `len`, and the range belongs to the
        /// consumer.
        #[inline(always)]
        pub(crate) unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
            // SAFETY: as the caller guarantees; every byte is a valid value, even if another
            // program changes it during the copy.
            unsafe {
                if bytes.len() > self.in_one_piece(at) {
                    return self.read_in_two(at, bytes);
                }
                let source = self.start.as_ptr().add(at);
                source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
            }
        }

        /// # Safety
        /// As [`read`](Self::read), and the range wraps around the end.
        #[cold]
        unsafe fn read_in_two(&self, at: usize, bytes: &mut [u8]) {
            let whole = self.in_one_piece(at);
            let source = self.start.as_ptr();
            // SAFETY: as the caller guarantees; the wrapped part ends at `at` at most.
            unsafe {
                let (first, rest) = bytes.split_at_mut_unchecked(whole);
                source
                    .add(at)
                    .copy_to_nonoverlapping(first.as_mut_ptr(), whole);
                source.copy_to_nonoverlapping(rest.as_mut_ptr(), rest.len());
            }
        }

        /// Returns the two pieces of a range. The second is empty if the range is contiguous.
        ///
        /// # Safety
        /// As [`read`](Self::read), for as long as the slices live.
        pub(crate) unsafe fn pieces<'a>(&self, at: usize, len: usize) -> [&'a [u8]; 2] {
            let first = len.min(self.in_one_piece(at));
            // SAFETY: as the caller guarantees; the pieces lie in the memory.
            unsafe {
                [
                    std::slice::from_raw_parts(self.start.as_ptr().add(at), first),
                    std::slice::from_raw_parts(self.start.as_ptr(), len - first),
                ]
            }
        }

        /// Returns the two pieces of a range for writing. The second is empty if the range is
        /// contiguous.
        ///
        /// # Safety
        /// As [`write`](Self::write), for as long as the slices live.
        pub(crate) unsafe fn pieces_mut<'a>(&self, at: usize, len: usize) -> [&'a mut [u8]; 2] {
            let first = len.min(self.in_one_piece(at));
            // SAFETY: as the caller guarantees; the pieces lie in the memory, and do not overlap
            // because together they are at most `len` long.
            unsafe {
                [
                    std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), first),
                    std::slice::from_raw_parts_mut(self.start.as_ptr(), len - first),
                ]
            }
        }
    }
}

#[cfg(loom)]
mod traced {
    use crate::slab::Slab;
    use crate::sync::Arc;

    /// The same under loom, byte by byte, so that loom sees every access and reports a race.
    pub(crate) struct Bytes(pub(crate) Arc<Slab<u8>>);

    impl Bytes {
        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        pub(crate) unsafe fn write(&self, at: usize, bytes: &[u8]) {
            let (first, rest) = bytes.split_at(bytes.len().min(self.len() - at));
            // SAFETY: as the caller guarantees; loom reports concurrent access.
            unsafe {
                self.0.write_slice(at, first);
                self.0.write_slice(0, rest);
            }
        }

        pub(crate) unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
            let (first, rest) = bytes.split_at_mut(bytes.len().min(self.len() - at));
            // SAFETY: as above.
            unsafe {
                self.0.read_slice(at, first);
                self.0.read_slice(0, rest);
            }
        }
    }
}
