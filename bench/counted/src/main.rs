//! Runs one path whose instructions `bench/instructions` counts, and prints the number of its
//! items.

#![allow(clippy::print_stdout)]

fn main() -> trunkline_counted::Outcome<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    println!("{}", trunkline_counted::run(&path)?);
    Ok(())
}
