//! Checks of the tree, run as `cargo xtask <command>`.
//!
//! # Layout
//!
//! - [`layers`]: permitted dependencies between crates and between rooms, and permitted unsafe code.
//! - [`tidy`]: links, manifests, the tests that pages name, and crates that may not use threads and clocks.
//! - [`behaviours`]: which tests check which behaviours of the specification.
//! - [`docs`]: reference pages generated from the program, and facts that the texts repeat.
//! - [`picture`]: the picture in README, made by running commands.
//! - [`sbom`]: the bill of materials of the program.
//! - [`mutants`]: the tree with the bugs that the simulator must find.
//!
//! Below them: [`tree`] holds the files, [`words`] finds words in a line, [`markdown`] finds links and
//! headings, [`finding`] holds what a rule reports.
#![forbid(unsafe_code)]
// A command-line tool writes to standard output and standard error.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod behaviours;
mod docs;
mod finding;
mod layers;
mod markdown;
mod mutants;
mod picture;
mod sbom;
mod tidy;
mod tree;
mod words;

use std::process::ExitCode;

use crate::finding::Outcome;
use crate::tree::Tree;

const USAGE: &str = "\
cargo xtask <command>

  layers                 edges between crates and between rooms; where unsafe code may be
  tidy                   links, manifests, licences, and what crates without threads and clocks may use
  behaviours [--page]    every id that a test names exists; --page: write docs/reference/behaviours.md
  docs [--check]         write the generated reference pages and check the facts the texts repeat
       --binary PATH     the trunkline binary to ask (default: the newest one under the target folder)
       --require-binary  fail when there is no binary, instead of skipping the page made from it
  picture                run commands against the demo and write the picture of README
  sbom                   write the bill of materials of the program, in CycloneDX
       --output PATH     the file (default: target/sbom.cdx.json)
  mutants                make target/mutants/tree: this tree with the bugs planted on purpose
       --edit NAME       open a bug's patch for editing, in target/mutants/edit
       --save NAME       write the edited patch back
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(outcome) => outcome.report(),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<Outcome, String> {
    let Some((command, options)) = args.split_first() else {
        return Err(format!("no command given\n\n{USAGE}"));
    };
    let refuse_options = || match options.first() {
        Some(option) => Err(format!("`{command}` takes no option `{option}`\n\n{USAGE}")),
        None => Ok(()),
    };
    let root = tree::workspace_root()?;
    match command.as_str() {
        "layers" => refuse_options().and_then(|()| layers::run(&Tree::load(&root)?)),
        "tidy" => refuse_options().and_then(|()| tidy::run(&Tree::load(&root)?)),
        "behaviours" => behaviours::run(&Tree::load(&root)?, options),
        "mutants" => mutants::run(&root, options),
        "picture" => refuse_options().and_then(|()| picture::run(&Tree::load(&root)?)),
        "sbom" => sbom::run(&Tree::load(&root)?, options),
        "docs" => docs::run(&Tree::load(&root)?, options),
        other => Err(format!("there is no command `{other}`\n\n{USAGE}")),
    }
}
