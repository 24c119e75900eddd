//! Compiles and runs C and C++ programs against the library.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails if its setup fails; it prints what it skips"
)]

mod compiler;
mod csharp;
mod examples;
#[path = "../../examples/write_header/header.rs"]
mod header;
mod installation;
mod languages;
mod programs;
mod table;

use std::fs;
use std::path::Path;

#[test]
fn header_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/trunkline.h");
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == header::text(),
        "run `cargo run -p trunkline-c --example write_header`, and look at the difference"
    );
}

/// A panic that leaves a function of C ends the process, so every function of the header must catch it.
#[test]
fn every_function_catches_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = [folder.join("stream"), folder];
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    let mut functions = 0;
    for path in paths.filter(|path| path.is_file()) {
        let text = fs::read_to_string(&path).unwrap();
        for body in text.split("#[unsafe(no_mangle)]").skip(1) {
            functions += 1;
            let (signature, rest) = body.split_once("-> tl_status {").unwrap();
            let start = rest.trim_start();
            let name = signature.split("fn ").nth(1).unwrap_or_default();
            let name = name.split('(').next().unwrap_or_default();
            // These two store no message, because they read it. `with` and `with_client` begin with `entry`.
            let is_caught = ["entry(", "with(", "with_client("]
                .iter()
                .any(|call| start.starts_with(call));
            let reads_message = ["tl_last_error", "tl_last_error_message"].contains(&name);
            assert!(is_caught || reads_message, "{}: {name}", path.display());
        }
    }
    assert!(functions > 60, "{functions}");
}
