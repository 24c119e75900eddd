//! What the engine's host does for it: stores state, keeps alarms, records history, carries out orders.

pub mod alarms;
pub mod history;
pub(crate) mod orders;
pub mod store;
