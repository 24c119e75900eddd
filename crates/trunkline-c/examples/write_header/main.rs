//! Writes `include/trunkline.h` from the sources. The test `header` fails until it was run after a change.
//!
//! `cargo run -p trunkline-c --example write_header`

mod header;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/trunkline.h");
    std::fs::write(path, header::text())
}
