//! The command `trunkline`.

use std::process::ExitCode;

fn main() -> ExitCode {
    trunkline_cli::run()
}
