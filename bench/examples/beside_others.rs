//! A small write concurrent with clients that request much: see `trunkline_bench::beside_others`.
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml --example beside_others -- [variables] [seconds] [peers]
//! ```

fn main() -> trunkline_bench::Outcome<()> {
    trunkline_bench::beside_others::run(std::env::args().skip(1))
}
