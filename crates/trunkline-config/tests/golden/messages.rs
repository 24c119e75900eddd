//! Every file in `tests/errors` gives exactly the messages in the text file next to it.

use std::collections::BTreeSet;
use std::fs;

use trunkline_config::{ConfigErrorKind, parse};

use crate::mistakes::{all_errors, between_files, errors_dir, mistakes, on_disk};

#[test]
fn mistakes_are_reported_with_line_column_and_remedy() {
    let mut wrong = Vec::new();
    for (name, text) in mistakes() {
        let errors = parse(&name, &text).expect_err(&name);
        let golden = errors_dir().join(&name).with_extension("txt");
        let found = format!("{errors}\n");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &found).unwrap();
        } else if found != fs::read_to_string(&golden).unwrap_or_default() {
            wrong.push(format!("{name}:\n{found}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "other messages than in tests/errors/*.txt:\n\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_error_has_a_position_in_its_file() {
    for (name, text) in mistakes() {
        for error in parse(&name, &text).unwrap_err().errors {
            let position = error.position.unwrap();
            let line = text
                .lines()
                .nth(position.line as usize - 1)
                .unwrap_or_default();
            assert!(
                position.column as usize <= line.chars().count() + 1,
                "{error}"
            );
        }
    }
}

#[test]
fn every_kind_of_error_is_produced() {
    let errors = all_errors().into_iter().flat_map(|errors| errors.errors);
    let seen: BTreeSet<_> = errors.map(|error| error.kind.code()).collect();
    let all: BTreeSet<_> = ConfigErrorKind::CODES.iter().copied().collect();
    let missing: Vec<_> = all.difference(&seen).collect();
    assert!(missing.is_empty(), "no test produces {missing:?}");
    assert_eq!(
        all.len(),
        ConfigErrorKind::CODES.len(),
        "a code is used twice"
    );
}

#[test]
fn names_used_twice_in_two_files_name_both_places() {
    assert_eq!(
        between_files().to_string(),
        "b.toml:1:1 [engine] is already defined at a.toml:1:1; only one file can have it\n\
         b.toml:5:15 library \"plant\" already has a different description at a.toml:5:15; keep one of them\n\
         b.toml:7:8 variable \"plant/level\" is also defined at a.toml:7:8\n\
         b.toml:10:8 I/O server \"plc1\" is also defined at a.toml:10:8\n\
         b.toml:12:1 template \"t\" is also defined at a.toml:12:1"
    );
}

#[test]
fn files_that_cannot_be_read_are_named_with_the_reason() {
    assert_eq!(
        on_disk().to_string(),
        "missing.toml does not exist; specify a file, or a folder of files that end in .toml\n\
         empty is a folder without files that end in .toml; specify a folder that has one\n\
         latin1.toml:2:10 this is not UTF-8 text; save the file as UTF-8\n\
         big.toml is larger than 16,777,216 bytes, the limit for a configuration file; split it\n\
         plant.toml:10:7 \"../rows.csv\" cannot be used: it must be in the folder of the configuration \
         file or below it\n\
         plant.toml:13:7 \"none.csv\" cannot be used: there is no such file\n\
         plant.toml/x cannot be read: Not a directory (os error 20)\n\
         rows.csv:2:1 not valid CSV: a quote is not closed; close it"
    );
}

#[test]
fn errors_beyond_a_hundred_are_counted() {
    let text = "[[variable]]\nnam = 1\n".repeat(150);
    let errors = parse("a.toml", &text).unwrap_err();
    assert_eq!(errors.errors.len(), 100);
    assert_eq!(errors.further, 200);
    assert!(errors.to_string().ends_with("\nand 200 further errors"));
}
