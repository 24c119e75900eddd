//! Parts of pages that are generated from a source: between `<!-- generated: NAME -->` and `<!-- end -->`.

use std::fmt::Write as _;

use serde_json::Value;

use super::cli::{self, Help};
use super::{Page, RULE};
use crate::finding::Finding;
use crate::layers;
use crate::tree::Tree;

/// The schema of the output, as the binary prints it.
pub(super) const SCHEMA: &str = "docs/reference/json.schema.json";
const REASONS: &str = "crates/trunkline-types/src/quality.rs";

/// The pages with a generated part: path, name of the part, and its generator.
type Make = fn(&Tree) -> Result<String, String>;
const BLOCKS: &[(&str, &str, Make)] = &[
    ("README.md", "crates", crates),
    ("README.md", "demo_client", |tree| {
        example(tree, "crates/trunkline/examples/demo_client.rs")
    }),
    ("docs/explanation/architecture.md", "layers", |tree| {
        Ok(layers::table_in_markdown(tree))
    }),
    ("docs/explanation/architecture.md", "rooms", |_| {
        Ok(layers::rooms::ranks_in_markdown())
    }),
    (
        "docs/how-to/read-and-write-from-rust.md",
        "first_steps",
        |tree| example(tree, "crates/trunkline/examples/first_steps.rs"),
    ),
    ("docs/reference/quality.md", "reasons", reasons),
];

/// Returns the pages with their parts generated again.
pub(super) fn fill(tree: &Tree, findings: &mut Vec<Finding>) -> Result<Vec<Page>, String> {
    let mut pages: Vec<Page> = Vec::new();
    for (path, name, make) in BLOCKS {
        let part = make(tree)?;
        // A page may have several parts.
        let begun = pages.iter_mut().find(|page| page.path == *path);
        let text = begun
            .as_ref()
            .map_or(tree.text(path), |page| Some(&page.text));
        match (fill_one(text, path, name, &part, findings), begun) {
            (Some(filled), Some(page)) => *page = filled,
            (filled, _) => pages.extend(filled),
        }
    }
    Ok(pages)
}

/// Returns the page of configuration keys, if the binary reports them.
pub(super) fn configuration(tree: &Tree, help: &Help, findings: &mut Vec<Finding>) -> Option<Page> {
    let path = "docs/reference/configuration.md";
    // The tests of the configuration may check the page instead; then it has no marker.
    let has_marker = tree
        .text(path)
        .is_some_and(|text| text.contains("<!-- generated: keys -->"));
    let is_told = !help.configuration.is_empty() && has_marker;
    is_told.then(|| {
        fill_one(
            tree.text(path),
            path,
            "keys",
            &cli::write_configuration(help),
            findings,
        )
    })?
}

fn fill_one(
    text: Option<&str>,
    path: &str,
    name: &str,
    part: &str,
    findings: &mut Vec<Finding>,
) -> Option<Page> {
    let message = match text {
        None => "the page is missing".to_owned(),
        Some(text) => match replace(text, name, part) {
            Some(text) => {
                return Some(Page {
                    path: path.to_owned(),
                    text,
                });
            }
            None => format!("needs `<!-- generated: {name} -->` and, below it, `<!-- end -->`"),
        },
    };
    findings.push(Finding::of_file(path, RULE, message));
    None
}

/// Returns `text` with the part `name` replaced; `None` if its markers are missing.
pub(super) fn replace(text: &str, name: &str, part: &str) -> Option<String> {
    let begin = format!("<!-- generated: {name} -->\n");
    let start = text.find(&begin)? + begin.len();
    let end = start + text[start..].find("<!-- end -->")?;
    Some(format!("{}\n{part}\n{}", &text[..start], &text[end..]))
}

/// Returns a table of the crates, from their manifests.
fn crates(tree: &Tree) -> Result<String, String> {
    let mut table = "| Crate | Contents |\n|---|---|\n".to_owned();
    for (path, text) in tree.with_ending("toml") {
        let folder = path
            .strip_prefix("crates/")
            .and_then(|p| p.strip_suffix("/Cargo.toml"));
        if let Some(name) = folder.filter(|name| !name.contains('/')) {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix("description = \""));
            let description = line.and_then(|l| l.strip_suffix('"')).ok_or_else(|| {
                format!("{path}: no `description = \"...\"` on a line of its own")
            })?;
            let _ = writeln!(table, "| [`{name}`](crates/{name}) | {description} |");
        }
    }
    Ok(table)
}

/// Returns a program without the comment above it, which says how to run it.
fn example(tree: &Tree, path: &str) -> Result<String, String> {
    let text = tree
        .text(path)
        .ok_or_else(|| format!("there is no {path}"))?;
    let program: Vec<&str> = text
        .lines()
        .skip_while(|line| line.starts_with("//!") || line.is_empty())
        .collect();
    Ok(format!("```rust,ignore\n{}\n```\n", program.join("\n")))
}

/// The page of JSON output, with a table of the keys of a reading.
pub(super) fn json_page(
    tree: &Tree,
    schema: &str,
    findings: &mut Vec<Finding>,
) -> Result<Option<Page>, String> {
    let path = "docs/reference/json.md";
    let table = keys(schema)?;
    Ok(fill_one(tree.text(path), path, "keys", &table, findings))
}

fn keys(schema: &str) -> Result<String, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|e| format!("{SCHEMA}: {e}"))?;
    let required: Vec<&str> = match &schema["required"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let Some(properties) = schema["properties"].as_object() else {
        return Err(format!("{SCHEMA} has no `properties`"));
    };
    let mut table = "| Key | Type | Always | Meaning |\n|---|---|---|---|\n".to_owned();
    for (key, property) in properties {
        let description = property["description"]
            .as_str()
            .ok_or_else(|| format!("{SCHEMA}: `{key}` has no description"))?;
        let always = if required.contains(&key.as_str()) {
            "yes"
        } else {
            ""
        };
        let _ = writeln!(
            table,
            "| `{key}` | {} | {always} | {description} |",
            type_of(property)
        );
    }
    Ok(table)
}

fn type_of(property: &Value) -> String {
    match (&property["type"], &property["const"]) {
        (Value::String(name), _) => name.clone(),
        (Value::Array(names), _) => names
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        (_, Value::Null) => "any".to_owned(),
        (_, value) => value.to_string(),
    }
}

/// A table of the reasons of a quality, from the list that declares them:
/// `Variant = code, "name", "sentence";`.
fn reasons(tree: &Tree) -> Result<String, String> {
    let text = tree
        .text(REASONS)
        .ok_or_else(|| format!("there is no {REASONS}"))?;
    let list = text
        .split_once("\nreasons! {")
        .and_then(|(_, list)| list.split_once("\n}"));
    let (list, _) = list.ok_or_else(|| format!("{REASONS} has no `reasons! {{ ... }}`"))?;
    let mut table = "| Reason | Code | Used with | Meaning |\n|---|---|---|---|\n".to_owned();
    for entry in list
        .split(";\n")
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let unreadable = || format!("{REASONS}: cannot read the reason `{entry}`");
        let (head, sentence) = entry.split_once(", \"").ok_or_else(unreadable)?;
        let (name, sentence) = sentence.split_once("\",").ok_or_else(unreadable)?;
        let (_, code) = head.split_once(" = ").ok_or_else(unreadable)?;
        let code: u16 = code.parse().map_err(|_| unreadable())?;
        let level = if code < 64 { "uncertain" } else { "bad" };
        let sentence = sentence.trim().trim_end_matches(';').trim_matches('"');
        let _ = writeln!(table, "| `{name}` | {code} | {level} | {sentence} |");
    }
    Ok(table)
}
