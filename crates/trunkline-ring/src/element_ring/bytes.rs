//! The bytes of a ring, each of which belongs to one end at a time.

#[cfg(not(loom))]
pub(super) use mapped::Bytes;
#[cfg(loom)]
pub(super) use traced::Bytes;

#[cfg(not(loom))]
mod mapped {
    use std::ptr::NonNull;

    /// The memory of a ring, and how far beyond its end one may go on.
    pub(crate) struct Bytes {
        pub(crate) start: NonNull<u8>,
        pub(crate) len: usize,
        /// Mapped twice in a row: what lies at `i` lies at `len + i`.
        pub(crate) is_mirrored: bool,
    }

    impl Bytes {
        #[inline]
        pub(crate) fn len(&self) -> usize {
            self.len
        }

        /// Bytes from `at` on that lie in one piece.
        #[inline]
        pub(crate) fn in_one_piece(&self, at: usize) -> usize {
            if self.is_mirrored {
                self.len
            } else {
                self.len - at
            }
        }

        /// # Safety
        /// `at` is below `len`, `bytes.len()` is at most `len`, and the range is the producer's.
        #[inline(always)]
        pub(crate) unsafe fn write(&self, at: usize, bytes: &[u8]) {
            // SAFETY: as the caller vouches; no slice of this program overlaps what is the
            // producer's.
            unsafe {
                if bytes.len() > self.in_one_piece(at) {
                    return self.write_in_two(at, bytes);
                }
                let target = self.start.as_ptr().add(at);
                target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }

        /// # Safety
        /// As [`write`](Self::write), and the range goes over the end.
        #[cold]
        unsafe fn write_in_two(&self, at: usize, bytes: &[u8]) {
            let whole = self.in_one_piece(at);
            let target = self.start.as_ptr();
            // SAFETY: as the caller vouches; the part beyond the end is at most up to `at`.
            unsafe {
                let (first, rest) = bytes.split_at_unchecked(whole);
                target
                    .add(at)
                    .copy_from_nonoverlapping(first.as_ptr(), whole);
                target.copy_from_nonoverlapping(rest.as_ptr(), rest.len());
            }
        }

        /// # Safety
        /// `at` is below `len`, `bytes.len()` is at most `len`, and the range is the consumer's.
        #[inline(always)]
        pub(crate) unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
            // SAFETY: as the caller vouches; every byte is a value, whatever another program does
            // to it during the copy.
            unsafe {
                if bytes.len() > self.in_one_piece(at) {
                    return self.read_in_two(at, bytes);
                }
                let source = self.start.as_ptr().add(at);
                source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
            }
        }

        /// # Safety
        /// As [`read`](Self::read), and the range goes over the end.
        #[cold]
        unsafe fn read_in_two(&self, at: usize, bytes: &mut [u8]) {
            let whole = self.in_one_piece(at);
            let source = self.start.as_ptr();
            // SAFETY: as the caller vouches; the part beyond the end is at most up to `at`.
            unsafe {
                let (first, rest) = bytes.split_at_mut_unchecked(whole);
                source
                    .add(at)
                    .copy_to_nonoverlapping(first.as_mut_ptr(), whole);
                source.copy_to_nonoverlapping(rest.as_mut_ptr(), rest.len());
            }
        }

        /// The two pieces of a range; the second is empty when it lies in one.
        ///
        /// # Safety
        /// As [`read`](Self::read), for as long as the slices live.
        pub(crate) unsafe fn pieces<'a>(&self, at: usize, len: usize) -> [&'a [u8]; 2] {
            let first = len.min(self.in_one_piece(at));
            // SAFETY: as the caller vouches; the pieces lie in the memory.
            unsafe {
                [
                    std::slice::from_raw_parts(self.start.as_ptr().add(at), first),
                    std::slice::from_raw_parts(self.start.as_ptr(), len - first),
                ]
            }
        }

        /// The same to write into.
        ///
        /// # Safety
        /// As [`write`](Self::write), for as long as the slices live.
        pub(crate) unsafe fn pieces_mut<'a>(&self, at: usize, len: usize) -> [&'a mut [u8]; 2] {
            let first = len.min(self.in_one_piece(at));
            // SAFETY: as the caller vouches; the pieces lie in the memory, and do not overlap
            // because both together are at most `len`.
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
            // SAFETY: as the caller vouches; loom reports who is not alone.
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
