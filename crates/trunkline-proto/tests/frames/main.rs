//! Every kind of frame: against the golden file, there and back for any content, and from a hostile
//! peer.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

#[path = "../../examples/write_vectors/fields/mod.rs"]
mod fields;
mod golden;
mod hostile;
mod reencode;
mod round_trip;
#[path = "../../examples/write_vectors/samples/mod.rs"]
mod samples;
