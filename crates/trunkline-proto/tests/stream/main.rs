//! Both ends of a stream over a network in memory that loses, delays and reorders, in simulated
//! time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod closing;
mod creation;
mod directory;
mod drops;
mod hostile;
mod impostor;
mod journals;
mod meeting;
mod properties;
mod rig;
mod steps;
mod successors;
mod timing;
