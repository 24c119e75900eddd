//! Runs one path whose instructions `bench/instructions` counts, and prints the number of its
//! items.

#![allow(clippy::print_stdout)]

fn main() -> trunkline_bench::Outcome<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    println!("{}", trunkline_bench::counted::run(&path)?);
    Ok(())
}
