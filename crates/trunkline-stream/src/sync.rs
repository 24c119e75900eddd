//! The atomics of this crate.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
