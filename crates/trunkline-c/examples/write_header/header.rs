//! The header's text.

use std::path::Path;

use cbindgen::{Braces, Builder, Config, DocumentationStyle, Language, Style};

/// The sources, in the order of the header.
const SOURCES: &[&str] = &[
    "errors",
    "faults",
    "arguments",
    "values",
    "client",
    "readings",
    "reads",
    "writes",
    "subscription",
    "stream/options",
    "stream/state",
    "stream/writer",
    "stream/reader",
    "record",
    "history",
    "alarms",
    "audit",
    "control",
    "provider",
    "engine",
];

const DEFINITIONS: &str = "\
/* As the length of a text: the text ends at its first NUL byte, as C strings do. */
#define TL_NUL_TERMINATED SIZE_MAX";

pub(crate) fn text() -> String {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        header: Some(include_str!("preamble.h").trim_end().to_owned()),
        include_guard: Some("TRUNKLINE_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        after_includes: Some(DEFINITIONS.to_owned()),
        style: Style::Both,
        braces: Braces::SameLine,
        line_length: 100,
        tab_width: 4,
        documentation: true,
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        ..Config::default()
    };
    config.export.exclude = vec!["TL_NUL_TERMINATED".to_owned()];
    let mut builder = Builder::new().with_config(config);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for source in SOURCES {
        builder = builder.with_src(folder.join(format!("{source}.rs")));
    }
    let mut text = Vec::new();
    let bindings = builder
        .generate()
        .unwrap_or_else(|error| panic!("cbindgen cannot read src: {error}"));
    bindings.write(&mut text);
    let text =
        String::from_utf8(text).unwrap_or_else(|error| panic!("the header is not UTF-8: {error}"));
    text.lines().map(|line| finished(line) + "\n").collect()
}

/// Removes spaces at the end of a line, and puts a negative number into brackets, so that it can stand in
/// an expression.
fn finished(line: &str) -> String {
    let line = line.trim_end();
    let define = line
        .strip_prefix("#define ")
        .and_then(|define| define.split_once(' '));
    match define {
        Some((name, number)) if number.starts_with('-') => format!("#define {name} ({number})"),
        _ => line.to_owned(),
    }
}
