//! Tests the guarantees of the specification for endpoints that are connected over TCP.
//!
//! Endpoints connect directly, or through a [`Proxy`](proxy::Proxy) that cuts and stalls connections,
//! and drops and alters frames.

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
