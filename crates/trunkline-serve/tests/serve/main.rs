//! Tests a real session and a real client that are connected without a network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::type_complexity,
    reason = "tests may panic"
)]

mod agreed;
mod alarms;
mod audit;
mod budget;
mod bulk;
mod contracts;
mod control;
#[cfg(not(shuttle))]
mod convergence;
mod dead_peers;
mod forcing;
mod groups;
#[cfg(not(shuttle))]
mod hidden_names;
mod history;
mod hostile;
#[cfg(not(shuttle))]
mod ledger;
mod life;
mod logins;
mod matrix;
mod pressure;
mod provider;
mod readings;
mod resumption;
mod rig;
mod rules;
mod throughput;
mod versions;
mod watching;
mod why;
mod writes;
