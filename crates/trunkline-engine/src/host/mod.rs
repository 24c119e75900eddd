//! What the engine's host does for it: stores state, carries out orders.

pub(crate) mod orders;
pub mod store;
