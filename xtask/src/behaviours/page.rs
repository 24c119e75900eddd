//! Writes `docs/reference/behaviours.md`.

use std::fmt::Write as _;

use super::{Coverage, PAGE};
use crate::behaviours::specification::Behaviour;

const HEAD: &str = "# Behaviours and their tests

<!-- Written by `cargo xtask behaviours --page`. \
Do not edit: name the id in a test instead. -->

Every behaviour of the \
[specification](spec/behaviours.md), with the tests that check it. A test
names the ids it checks \
in a comment above it; a decision record may say why a behaviour does not
apply. A behaviour that \
no test names is **open**.
";

/// Returns the whole page.
pub(super) fn write(coverage: &Coverage<'_>) -> String {
    let mut page = format!("{HEAD}\n{}.\n", coverage.summary());
    for (heading, behaviours) in &coverage.specification.sections {
        let _ = write!(
            page,
            "\n## {heading}\n\n| Id | Behaviour | Checked by |\n|---|---|---|\n"
        );
        for behaviour in behaviours {
            let _ = writeln!(page, "{}", row(coverage, behaviour));
        }
    }
    page
}

fn row(coverage: &Coverage<'_>, behaviour: &Behaviour) -> String {
    let tests = coverage.tests_of(&behaviour.id);
    let by = match (tests.as_slice(), coverage.exception_of(&behaviour.id)) {
        ([], None) => "**open**".to_owned(),
        ([], Some(exception)) => {
            let link = link(&exception.path);
            format!(
                "does not apply: {} ([decision]({link}))",
                cell(&exception.reason)
            )
        }
        (tests, _) => {
            let links = tests
                .iter()
                .map(|t| format!("[`{}`]({})", t.name, link(&t.path)));
            links.collect::<Vec<_>>().join("<br>")
        }
    };
    format!("| {} | {} | {by} |", behaviour.id, cell(&behaviour.text))
}

/// Returns a path of the repository as a link from the page.
fn link(path: &str) -> String {
    match path.strip_prefix("docs/") {
        Some(below) => format!("../{below}"),
        None => format!("{}{path}", "../".repeat(PAGE.matches('/').count())),
    }
}

/// Text that stays within a cell of a table.
fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        match c {
            '`' => {
                in_code = !in_code;
                cell.push(c);
            }
            '|' => cell.push_str("\\|"),
            '<' if !in_code => cell.push_str("&lt;"),
            _ => cell.push(c),
        }
    }
    cell
}
