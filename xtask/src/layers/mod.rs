//! `cargo xtask layers`: checks that the edges between crates are exactly those of the table, and that
//! imports within a crate go from higher rooms to lower ones.

pub(crate) mod rooms;
mod table;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

use self::table::{BANNED_NAMES, Layer, May, Row, Unsafe};
use crate::finding::{Finding, Outcome};
use crate::tree::Tree;

const RULE: &str = "layers";
const TABLE_FILE: &str = "xtask/src/layers/table.rs";

/// The facts about a crate that the rules need.
#[derive(Debug, Default)]
struct CrateFacts {
    name: String,
    /// Folder of the crate, relative to the root.
    folder: String,
    /// Crates of the workspace it depends on; true for a dependency of tests only.
    edges: Vec<(String, bool)>,
    /// Root files of its library and programs, relative to the root, with their text.
    roots: Vec<(String, String)>,
}

/// Reads `cargo metadata` and applies the table; checks the rooms.
pub(crate) fn run(tree: &Tree) -> Result<Outcome, String> {
    let crates = read_workspace(tree.root())?;
    let edges: usize = crates.iter().map(|c| c.edges.len()).sum();
    let mut findings: Vec<Finding> = crates.iter().flat_map(check_crate).collect();
    findings.extend(rooms::check(tree)?);
    Ok(Outcome {
        notes: vec![format!("layers: {} crates, {edges} edges", crates.len())],
        findings,
    })
}

fn read_workspace(root: &Path) -> Result<Vec<CrateFacts>, String> {
    let metadata = MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()
        .map_err(|e| format!("cargo metadata failed: {e}"))?;
    let relative = |path: &Path| {
        let inside = path.strip_prefix(&metadata.workspace_root).unwrap_or(path);
        inside.to_string_lossy().replace('\\', "/")
    };
    let names: Vec<String> = metadata
        .packages
        .iter()
        .map(|p| p.name.to_string())
        .collect();
    let mut crates = Vec::new();
    for package in &metadata.packages {
        let edges = package
            .dependencies
            .iter()
            .filter(|d| names.contains(&d.name))
            .map(|d| (d.name.clone(), d.kind == DependencyKind::Development))
            .collect();
        let mut roots = Vec::new();
        for target in package
            .targets
            .iter()
            .filter(|t| !t.is_test() && !t.is_bench())
        {
            if target.is_example() || target.is_custom_build() {
                continue;
            }
            let text = fs::read_to_string(&target.src_path)
                .map_err(|e| format!("cannot read {}: {e}", target.src_path))?;
            roots.push((relative(target.src_path.as_std_path()), text));
        }
        let folder = package
            .manifest_path
            .parent()
            .map(|p| relative(p.as_std_path()));
        crates.push(CrateFacts {
            name: package.name.to_string(),
            folder: folder.unwrap_or_default(),
            edges,
            roots,
        });
    }
    Ok(crates)
}

fn check_crate(facts: &CrateFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(banned_name(facts));
    let Some(row) = table::find(&facts.name) else {
        findings.push(Finding::of_file(
            &format!("{}/Cargo.toml", facts.folder),
            RULE,
            format!(
                "crate `{}` is not in the table; make it a module of an existing crate, or add a \
                 row with its reason to {TABLE_FILE} and a decision record",
                facts.name
            ),
        ));
        return findings;
    };
    findings.extend(wrong_folder(facts));
    findings.extend(
        facts
            .edges
            .iter()
            .filter_map(|(to, dev)| wrong_edge(facts, row, to, *dev)),
    );
    findings.extend(missing_forbid(facts, row));
    findings
}

/// Returns the table in Markdown. Crates that do not exist yet are marked as planned.
pub(crate) fn table_in_markdown(tree: &Tree) -> String {
    let mut text = "| Layer | Crate | May use | Unsafe | Why it is a crate |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for row in table::TABLE {
        let level = match row.layer {
            Layer::Level(level) => level.to_string(),
            Layer::Development => "dev".to_owned(),
        };
        let folder = folder_of(row.name);
        let planned = if tree.exists(&folder) {
            ""
        } else {
            " (planned)"
        };
        let may = match row.may {
            May::Only([]) => "-".to_owned(),
            may => described(may).replace("trunkline-", ""),
        };
        let unsafe_code = match row.unsafe_code {
            Unsafe::Forbid => "forbid",
            Unsafe::Reviewed => "little, reviewed",
            Unsafe::Allowed => "allowed",
        };
        let _ = writeln!(
            text,
            "| {level} | `{}`{planned} | {may} | {unsafe_code} | {} |",
            row.name, row.reason
        );
    }
    text
}

fn banned_name(facts: &CrateFacts) -> Option<Finding> {
    let part = facts
        .name
        .split(['-', '_'])
        .find(|part| BANNED_NAMES.contains(part))?;
    Some(Finding::of_file(
        &format!("{}/Cargo.toml", facts.folder),
        RULE,
        format!(
            "crate `{}` is called `{part}`; name it after what it holds",
            facts.name
        ),
    ))
}

/// Returns the folder of a crate in the table. Crates that users do not see are next to `crates`.
fn folder_of(name: &str) -> String {
    match name {
        "xtask" => name.to_owned(),
        _ => format!("crates/{name}"),
    }
}

fn wrong_folder(facts: &CrateFacts) -> Option<Finding> {
    (facts.folder != folder_of(&facts.name)).then(|| {
        Finding::of_file(
            &format!("{}/Cargo.toml", facts.folder),
            RULE,
            format!(
                "crate `{}` stands in a folder of another name; make them equal",
                facts.name
            ),
        )
    })
}

fn wrong_edge(facts: &CrateFacts, row: &Row, to: &str, dev: bool) -> Option<Finding> {
    let is_allowed = match table::find(to) {
        None => return None, // the crate itself is refused, with its own finding
        Some(target) if dev => dev_edge_allowed(row, target),
        Some(target) => edge_allowed(row, target),
    };
    if is_allowed {
        return None;
    }
    let kind = if dev { "dev-dependency" } else { "dependency" };
    let cure = if dev {
        "a test that needs a higher layer belongs to that layer; move it there".to_owned()
    } else {
        format!(
            "it may use {}; move the code that needs `{to}` up, or pass what it needs in",
            described(row.may)
        )
    };
    Some(Finding::of_file(
        &format!("{}/Cargo.toml", facts.folder),
        RULE,
        format!("{kind} {} -> {to} is not in the table: {cure}", facts.name),
    ))
}

fn described(may: May) -> String {
    match may {
        May::Only([]) => "no crate of the workspace".to_owned(),
        May::Only(names) => names.join(", "),
        May::AllBelow => "every lower layer".to_owned(),
        May::UpTo(level, except) => {
            format!("layers 0 to {level} except {}", except.join(", "))
        }
        May::Any => "anything".to_owned(),
    }
}

fn edge_allowed(from: &Row, to: &Row) -> bool {
    match (from.may, to.layer) {
        (May::Any, _) => true,
        (May::Only(names), _) => names.contains(&to.name),
        (_, Layer::Development) => false,
        (May::AllBelow, Layer::Level(to)) => match from.layer {
            Layer::Level(from) => to < from,
            Layer::Development => true,
        },
        (May::UpTo(level, except), Layer::Level(layer)) => {
            layer <= level && !except.contains(&to.name)
        }
    }
}

/// Tests may use the simulator, and any crate that is not above their own.
fn dev_edge_allowed(from: &Row, to: &Row) -> bool {
    if to.name == table::SIMULATOR {
        return true;
    }
    match (from.layer, to.layer) {
        (Layer::Development, _) => edge_allowed(from, to),
        (Layer::Level(from), Layer::Level(to)) => to <= from,
        (Layer::Level(_), Layer::Development) => false,
    }
}

fn missing_forbid(facts: &CrateFacts, row: &Row) -> Vec<Finding> {
    if row.unsafe_code != Unsafe::Forbid {
        return Vec::new();
    }
    let says_forbid = |text: &str| {
        text.lines()
            .any(|line| line.starts_with("#![forbid(") && line.contains("unsafe_code"))
    };
    facts
        .roots
        .iter()
        .filter(|(_, text)| !says_forbid(text))
        .map(|(path, _)| {
            Finding::of_file(
                path,
                RULE,
                format!(
                    "`{}` may hold no unsafe code; add `#![forbid(unsafe_code)]` below the crate \
                     documentation",
                    facts.name
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
