//! Tests of the client with a fake engine and a simulated clock. They never wait, and open no
//! sockets.

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
