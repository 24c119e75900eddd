//! Writes `vectors/frames.json`: golden frames of every kind, for the tests of every
//! implementation.
//!
//! `cargo run -p trunkline-proto --example write_vectors` after a deliberate change of the
//! protocol; the test `golden` fails until it was run.

mod fields;
mod samples;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/frames.json");
    std::fs::write(path, samples::document())
}
