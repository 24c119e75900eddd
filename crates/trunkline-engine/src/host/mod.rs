//! What the engine's host does for it: stores state, records history, carries out orders, measures.

pub mod figures;
pub mod history;
pub(crate) mod orders;
pub mod store;
