//! Features of variables beyond holding a value. Each module contains one feature: its data, its
//! part of a write, and its orders.

pub(crate) mod ages;
pub(crate) mod alarms;
pub(crate) mod alias;
pub(crate) mod audit;
pub(crate) mod control;
pub mod fields;
pub(crate) mod forcing;
pub(crate) mod groups;
pub(crate) mod leases;
pub(crate) mod libraries;
pub mod providers;
pub mod realtime;
pub(crate) mod tables;
