//! Writes `vectors/values.json`, the golden vectors that the tests of every language read.
//!
//! `cargo run -p trunkline-types --example write_vectors`

#[path = "../tests/golden/mod.rs"]
mod golden;

fn main() -> std::io::Result<()> {
    std::fs::write(golden::path(), golden::render(&golden::vectors()))
}
