//! Re-exports the atomic types that this crate uses.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
