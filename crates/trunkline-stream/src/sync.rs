//! Where this crate's atomics come from.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
