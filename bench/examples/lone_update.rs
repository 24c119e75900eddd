//! Lone updates: see `trunkline_bench::lone_update`.
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml --example lone_update -- [period in us] [updates] [turns]
//! ```

fn main() -> trunkline_bench::Outcome<()> {
    trunkline_bench::lone_update::run(std::env::args().skip(1))
}
