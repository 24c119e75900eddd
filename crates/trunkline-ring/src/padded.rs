//! A value alone on its cache lines.

use std::ops::Deref;

/// Keeps `T` on cache lines of its own, so that two threads that write neighbouring values do not
/// contend for one line.
///
/// 128 bytes and not 64, because x86-64 fetches lines in pairs and some Arm cores have such lines.
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
