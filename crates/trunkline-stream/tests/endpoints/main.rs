//! Endpoints of streams as programs use them, over TCP: the guarantees of the specification.
//!
//! A dial goes directly to its target, or through a [`Proxy`](proxy::Proxy) that cuts, stalls,
//! drops and alters on command.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod bad_input;
mod closing;
mod creation;
mod far;
mod flushing;
mod outages;
mod properties;
mod proxy;
mod raw;
mod reads_and_writes;
mod rig;
mod sides;
mod steps;
mod watching;

/// Ends are connected over TCP.
const NEAR: bool = false;
