//! `tl`: the `trunkline` command under a shorter name.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    trunkline_cli::run()
}
