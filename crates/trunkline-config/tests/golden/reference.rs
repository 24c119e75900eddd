//! Tests that the reference page lists exactly the keys and errors that exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use trunkline_config::ConfigErrorKind;
use trunkline_config::keys::{AcceptedIn, Key, PLANNED, Reload, SECTIONS, Section};

use crate::mistakes::all_errors;

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md")
}

/// Text in the cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A column of some of the tables: its head, and its cell for a key.
type Column = (&'static str, fn(&Key) -> &'static str);

fn keys_table(section: Section) -> String {
    let extra: Option<Column> = match section {
        Section::Variable => Some(("Also in", |key| match key.accepted_in {
            AcceptedIn::Own => "",
            AcceptedIn::Override => "`[[override]]`",
            AcceptedIn::Defaults => "`[defaults]`, `[[override]]`",
        })),
        // All keys of the other sections take effect at once.
        Section::Engine | Section::Limits | Section::Io | Section::History => {
            Some(("Reload", |key| {
                key.reload.map_or("see below", Reload::words)
            }))
        }
        _ => None,
    };
    let mut table = match extra {
        Some((head, _)) => {
            format!("| Key | Value | Default | {head} | Meaning |\n|---|---|---|---|---|\n")
        }
        None => "| Key | Value | Default | Meaning |\n|---|---|---|---|\n".to_owned(),
    };
    for key in section.keys() {
        let default = if key.default.is_empty() {
            "required"
        } else {
            key.default
        };
        let extra = match extra.map(|(_, cell)| cell(key)) {
            None => String::new(),
            Some("") => " |".to_owned(),
            Some(words) => format!(" {words} |"),
        };
        let (form, default, meaning) = (cell(key.form), cell(default), cell(key.meaning));
        table += &format!(
            "| `{}` | {form} | {default} |{extra} {meaning} |\n",
            key.name
        );
    }
    table
}

/// Returns true if the page has a table for the section. The other sections have keys of a variable, as
/// the text of the page explains.
fn is_shown(section: Section) -> bool {
    !matches!(section, Section::Defaults | Section::Field)
}

fn planned_table() -> String {
    let mut table = "| Key | In | Waits for |\n|---|---|---|\n".to_owned();
    for key in PLANNED {
        table += &format!(
            "| `{}` | {} | {} |\n",
            key.name,
            key.section.header(),
            key.feature
        );
    }
    table
}

/// Returns a table of every code with the first message that the tests produce for it.
fn errors_table() -> String {
    let mut examples = BTreeMap::new();
    for error in all_errors().into_iter().flat_map(|errors| errors.errors) {
        let position = error
            .position
            .map(|position| format!(":{position}"))
            .unwrap_or_default();
        let file = error.file.clone();
        let text = error.to_string();
        let message = text
            .strip_prefix(&format!("{file}{position} "))
            .unwrap()
            .to_owned();
        let known = examples
            .entry(error.kind.code())
            .or_insert_with(|| message.clone());
        // A message with a suggestion is more informative.
        if error.suggestion.is_some() && !known.contains("did you mean") {
            *known = message;
        }
    }
    let mut table = "| Code | For example |\n|---|---|\n".to_owned();
    for code in ConfigErrorKind::CODES {
        table += &format!("| `{code}` | {} |\n", cell(&examples[code]));
    }
    table
}

/// The page with the part between `<!-- table: NAME -->` and `<!-- /table -->` replaced.
fn with_part(page: &str, name: &str, part: &str) -> String {
    let begin = format!("<!-- table: {name} -->\n");
    let (before, after) = page
        .split_once(&begin)
        .unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = after.split_once("<!-- /table -->").unwrap();
    format!("{before}{begin}\n{part}\n<!-- /table -->{after}")
}

#[test]
fn reference_page_has_every_key_and_every_error() {
    let found = fs::read_to_string(page()).unwrap();
    let mut wanted = found.clone();
    for section in SECTIONS.iter().filter(|section| is_shown(**section)) {
        wanted = with_part(&wanted, section.header(), &keys_table(*section));
    }
    wanted = with_part(&wanted, "planned", &planned_table());
    wanted = with_part(&wanted, "errors", &errors_table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(page(), &wanted).unwrap();
    } else {
        assert!(
            found == wanted,
            "the tables are not those of the program; see the top of tests/golden/main.rs"
        );
    }
}

/// The page shows for these sections only when a change takes effect.
#[test]
fn keys_of_all_other_sections_take_effect_at_once() {
    let shown = [
        Section::Engine,
        Section::Limits,
        Section::Io,
        Section::History,
    ];
    for section in SECTIONS.iter().filter(|section| !shown.contains(section)) {
        for key in section.keys() {
            let reload = key.reload;
            assert!(matches!(reload, None | Some(Reload::AtOnce)), "{key:?}");
        }
    }
}

#[test]
fn configurations_shown_on_the_page_are_accepted() {
    let text = fs::read_to_string(page()).unwrap();
    let blocks: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 5);
    for block in blocks {
        trunkline_config::parse("plant.toml", block).unwrap_or_else(|e| panic!("{block}\n{e}"));
    }
}
