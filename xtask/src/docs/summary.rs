//! The table of contents lists every page of the book.

use super::RULE;
use crate::finding::Finding;
use crate::markdown::{Page, resolve};
use crate::tree::Tree;

const SUMMARY: &str = "docs/SUMMARY.md";

/// Returns the pages below `docs/` that the table of contents lacks, with the line to add.
pub(super) fn unlisted_pages(tree: &Tree) -> Vec<Finding> {
    let listed: Vec<String> = Page::parse(tree.text(SUMMARY).unwrap_or_default())
        .links
        .iter()
        .filter_map(|link| resolve(SUMMARY, &link.text))
        .collect();
    let pages = tree
        .with_ending("md")
        .filter(|(path, _)| path.starts_with("docs/"));
    pages
        .filter(|(path, _)| *path != SUMMARY && !listed.iter().any(|l| l == path))
        .map(|(path, text)| {
            let title = text
                .lines()
                .find_map(|l| l.strip_prefix("# "))
                .unwrap_or("Title");
            let target = path.strip_prefix("docs/").unwrap_or(path);
            let message = format!("{path} is not listed; add `- [{title}]({target})`");
            Finding::of_file(SUMMARY, RULE, message)
        })
        .collect()
}
