//! `tl`: the command `trunkline` under a shorter name.

use std::process::ExitCode;

fn main() -> ExitCode {
    trunkline_cli::run()
}
