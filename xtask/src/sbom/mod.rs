//! `cargo xtask sbom`: writes the bill of materials of the program `trunkline`, in CycloneDX 1.6.
//!
//! - [`lock`] reads `Cargo.lock`, which decides what a component is: every package that it names.
//! - [`facts`] asks cargo for the licence of each package, and for what its use is.
//! - [`document`] writes both as CycloneDX.
//!
//! The document has no date and no random number, so the same `Cargo.lock` gives the same document.

mod document;
mod facts;
mod lock;

use std::fs;
use std::path::PathBuf;

use self::facts::Facts;
use self::lock::Lock;
use crate::finding::{Finding, Outcome};
use crate::tree::Tree;

const RULE: &str = "sbom";
const LOCK: &str = "Cargo.lock";
/// The package whose program is described.
const PROGRAM: &str = "trunkline-cli";
/// Where the document goes without `--output`.
const DEFAULT_OUTPUT: &str = "target/sbom.cdx.json";

/// Writes the document. Packages without a licence are findings.
pub(crate) fn run(tree: &Tree, options: &[String]) -> Result<Outcome, String> {
    let output = match options {
        [] => tree.root().join(DEFAULT_OUTPUT),
        [option, path] if option == "--output" => PathBuf::from(path),
        _ => {
            return Err(format!(
                "`sbom` takes only `--output PATH`, not {options:?}"
            ));
        }
    };
    let lock = read_lock(tree)?;
    let facts = Facts::ask(tree.root(), PROGRAM)?;
    let text = document::write(&lock, &facts, PROGRAM)?;
    if let Some(folder) = output.parent() {
        fs::create_dir_all(folder)
            .map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    }
    fs::write(&output, text).map_err(|e| format!("cannot write {}: {e}", output.display()))?;
    let count = |use_| {
        lock.packages
            .iter()
            .filter(|p| facts.use_of(p) == use_)
            .count()
    };
    Ok(Outcome {
        notes: vec![format!(
            "sbom: {} components ({} linked, {} build, {} test) in {}",
            lock.packages.len(),
            count(facts::Use::Linked),
            count(facts::Use::Build),
            count(facts::Use::Test),
            output.display()
        )],
        findings: without_licence(&lock, &facts),
    })
}

fn read_lock(tree: &Tree) -> Result<Lock, String> {
    let path = tree.root().join(LOCK);
    let text =
        fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Lock::parse(&text)
}

fn without_licence(lock: &Lock, facts: &Facts) -> Vec<Finding> {
    let unlicensed = lock
        .packages
        .iter()
        .filter(|p| facts.licence_of(p).is_none());
    unlicensed
        .map(|package| {
            let message = format!(
                "{} {} states no licence; replace the package, or find its licence out",
                package.name, package.version
            );
            Finding::of_file(LOCK, RULE, message)
        })
        .collect()
}

#[cfg(test)]
mod tests;
