//! The cost of rights in a write: see `trunkline_bench::gate_cost`.
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml --example gate_cost -- [rounds]
//! ```

fn main() -> trunkline_bench::Outcome<()> {
    trunkline_bench::gate_cost::run(std::env::args().skip(1))
}
