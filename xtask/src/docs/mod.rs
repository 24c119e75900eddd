//! `cargo xtask docs`: reference pages generated from their source, and facts that the texts repeat.
//!
//! - [`cli`] writes `docs/reference/cli.md` and the schema of the output from the binary's description
//!   of itself.
//! - [`blocks`] fills the marked parts of pages: the crates in the README, the keys of the JSON
//!   output and of configuration files, ...
//! - [`summary`] finds pages that the book does not list.
//! - [`facts`] compares facts in the texts with the manifests.

mod blocks;
mod cli;
mod facts;
mod summary;

use std::fs;
use std::path::PathBuf;

pub(crate) use self::cli::newest_binary;
use crate::finding::{Finding, Outcome};
use crate::tree::Tree;

const RULE: &str = "docs";

#[derive(Debug, Default)]
struct Options {
    check: bool,
    require_binary: bool,
    binary: Option<PathBuf>,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--check" => options.check = true,
                "--require-binary" => options.require_binary = true,
                "--binary" => {
                    let path = words.next().ok_or("`--binary` needs a path")?;
                    options.binary = Some(PathBuf::from(path));
                }
                other => return Err(format!("`docs` takes no option `{other}`")),
            }
        }
        Ok(options)
    }
}

/// A page with its expected content.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    path: String,
    text: String,
}

/// Writes the generated pages, or compares them with `--check`. Checks the rest in both cases.
pub(crate) fn run(tree: &Tree, words: &[String]) -> Result<Outcome, String> {
    let options = Options::parse(words)?;
    let mut outcome = Outcome::default();
    let mut pages = blocks::fill(tree, &mut outcome.findings)?;
    match cli::ask(tree, &options)? {
        cli::Answer::Help(help, schema) => {
            pages.extend(blocks::json_page(tree, &schema, &mut outcome.findings)?);
            pages.push(Page {
                path: blocks::SCHEMA.to_owned(),
                text: schema,
            });
            outcome.findings.extend(facts::exit_codes(tree, &help));
            pages.extend(blocks::configuration(tree, &help, &mut outcome.findings));
            pages.push(Page {
                path: cli::PAGE.to_owned(),
                text: cli::write(&help),
            });
        }
        cli::Answer::NoBinary(why) => {
            outcome
                .notes
                .push(format!("docs: {} is not checked: {why}", cli::PAGE));
        }
    }
    let stale: Vec<&Page> = pages
        .iter()
        .filter(|page| tree.text(&page.path) != Some(page.text.as_str()))
        .collect();
    for page in &stale {
        if options.check {
            let message = "stale; run `cargo xtask docs` and commit the page";
            outcome
                .findings
                .push(Finding::of_file(&page.path, RULE, message));
        } else {
            fs::write(tree.root().join(&page.path), &page.text)
                .map_err(|e| format!("cannot write {}: {e}", page.path))?;
            outcome.notes.push(format!("docs: wrote {}", page.path));
        }
    }
    outcome.findings.extend(summary::unlisted_pages(tree));
    outcome.findings.extend(facts::rust_version(tree));
    outcome
        .notes
        .push(format!("docs: {} generated pages", pages.len()));
    Ok(outcome)
}

#[cfg(test)]
mod tests;
