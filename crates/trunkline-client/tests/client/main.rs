//! The client against a fake engine, on a simulated clock: nothing here waits or opens anything.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod audit;
mod bulk;
mod connection;
mod contracts;
mod copies;
mod flushing;
mod history;
mod hostile;
mod ledger;
mod newest;
mod pages;
mod provider;
mod reconnect;
mod requests;
mod rig;
mod sharing;
mod typed;
mod watching;
mod writes;
