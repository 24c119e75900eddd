//! The `trunkline` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    trunkline_cli::run()
}
