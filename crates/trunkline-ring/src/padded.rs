//! A value on separate cache lines.

use std::ops::Deref;

/// Places `T` on separate cache lines, so that two threads which write neighbouring values do not
/// contend for one line.
///
/// The alignment is 128 bytes rather than 64, because x86-64 fetches lines in pairs and some Arm
/// cores have lines of 128 bytes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
