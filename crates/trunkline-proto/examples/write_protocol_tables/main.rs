//! Writes the tables of `docs/reference/protocol.md` that are made from this crate.
//!
//! `cargo run -p trunkline-proto --example write_protocol_tables` after a change of a frame kind, a
//! fault or a limit; the test `reference` fails until it was run.

mod tables;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/protocol.md");
    let page = std::fs::read_to_string(&path)?;
    std::fs::write(path, tables::fill(&page)?)?;
    Ok(())
}
