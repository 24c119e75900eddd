//! Links and paths in Markdown pages.

use super::is_specification;
use crate::finding::Finding;
use crate::markdown::{Page, resolve};
use crate::tree::Tree;

/// Folders in which a code span may name a path.
const FOLDERS: [&str; 9] = [
    "bench/",
    "crates/",
    "docs/",
    "examples/",
    "fuzz/",
    "hmi/",
    "packaging/",
    "vectors/",
    "xtask/",
];

/// Relative links lead to a file, and their anchors to a heading.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("md") {
        let page = Page::parse(text);
        for link in &page.links {
            if link.text.contains("://") || link.text.starts_with("mailto:") {
                continue;
            }
            if let Some(wrong) = wrong_link(tree, path, &page, &link.text) {
                findings.push(Finding::at(path, link.line, "links", wrong));
            }
        }
    }
    findings
}

fn wrong_link(tree: &Tree, path: &str, page: &Page, target: &str) -> Option<String> {
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    if file.starts_with('/') {
        return Some(format!(
            "`{target}` is absolute; write it relative to this page"
        ));
    }
    let resolved = match file {
        "" => path.to_owned(),
        _ => match resolve(path, file) {
            Some(resolved) => resolved,
            None => return Some(format!("`{target}` leaves the repository")),
        },
    };
    if !tree.exists(&resolved) {
        return Some(format!("`{target}` leads nowhere: there is no {resolved}"));
    }
    let anchor = anchor?;
    let has_anchor = match (file, tree.text(&resolved)) {
        ("", _) => page.anchors.contains(anchor),
        (_, Some(text)) if resolved.ends_with(".md") => Page::parse(text).anchors.contains(anchor),
        _ => return None,
    };
    (!has_anchor).then(|| format!("{resolved} has no heading `#{anchor}`"))
}

/// Paths in backticks exist. The changelog and the decisions may name deleted paths.
pub(super) fn paths_in_code_spans(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("md") {
        let is_history = path == "CHANGELOG.md" || path.starts_with("docs/decisions/");
        if is_specification(path) || is_history {
            continue;
        }
        for span in Page::parse(text).code_spans {
            let Some(named) = named_path(&span.text) else {
                continue;
            };
            if !tree.exists(named) {
                let message = format!("there is no {named}; specify the file that is meant");
                findings.push(Finding::at(path, span.line, "paths-in-text", message));
            }
        }
    }
    findings
}

/// Returns the path that a code span names; `None` for commands, patterns and names with placeholders.
fn named_path(span: &str) -> Option<&str> {
    let is_path = FOLDERS.iter().any(|folder| span.starts_with(folder))
        && !span.contains(|c: char| c.is_whitespace() || "<>*{}$(),|".contains(c));
    is_path.then(|| span.split_once(':').map_or(span, |(path, _)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_and_anchors_are_found() {
        let page = "# Title\n[a](other.md)\n[b](gone.md)\n[c](other.md#part-one)\n\
                    [d](other.md#part-two)\n[e](#title)\n[f](#none)\n[g](https://example.org)\n\
                    [h](../../x)\n[i](/docs/other.md)\n";
        let tree = Tree::of(&[("docs/page.md", page), ("docs/other.md", "## Part one\n")]);
        let lines: Vec<usize> = links(&tree).iter().map(|f| f.line).collect();
        assert_eq!(lines, [3, 5, 7, 9, 10]);
    }

    #[test]
    fn path_in_backticks_must_exist() {
        let page = "`docs/page.md` `docs/gone.md` `docs/*.md` `crates/<dir>` `docs/page.md:3`\n\
                    `docs`\n\n```\ndocs/in-a-block.md\n```\n";
        let tree = Tree::of(&[("docs/page.md", page), ("CHANGELOG.md", "`docs/old.md`\n")]);
        let found = paths_in_code_spans(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("docs/gone.md"));
    }
}
