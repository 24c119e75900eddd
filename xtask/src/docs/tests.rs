use super::*;

const HELP: &str = r#"{
  "v": 1,
  "args": [{"name": "url", "long": "url", "help": "Engine to reach", "value": "URL",
            "default": "tl://localhost", "required": false}],
  "commands": [{
    "name": "get", "about": "Read once.", "tag": "ro",
    "args": [
      {"name": "name", "help": "Names or\npatterns", "value": "NAME...", "required": true},
      {"name": "output", "long": "output", "short": "o", "help": "table|json", "value": "FORM"},
      {"name": "utc", "long": "utc", "help": "Times in UTC"}
    ],
    "exit_codes": [0, 1, 3]
  }, {
    "name": "hide", "about": "Hide it.", "tag": "rw",
    "args": [
      {"name": "names", "help": "Names", "value": "NAME...", "required": false},
      {"name": "comment", "long": "comment", "help": "Why", "value": "TEXT"},
      {"name": "time", "long": "for", "short": "f", "help": "How long", "value": "TIME",
       "required": true}
    ]
  }],
  "configuration": [{"section": "[engine]", "keys": [
    {"name": "listen", "form": "ADDRESS|LIST", "default": "`127.0.0.1`", "meaning": "where"},
    {"name": "name", "form": "text", "default": "", "meaning": "who"}
  ]}]
}"#;

fn messages(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn page_of_the_command_line_is_written_from_the_answer() {
    let help = cli::parse(HELP.as_bytes()).expect("version 1");
    let page = cli::write(&help);
    for expected in [
        "| `--url URL` | Engine to reach | `tl://localhost` |\n",
        "\n## get\n\nRead once. (`ro`)\n\n```text\ntrunkline get [OPTIONS] NAME...\n```\n",
        "| `NAME...` | Names or patterns |  |\n",
        "| `-o, --output FORM` | table\\|json |  |\n",
        "| `--utc` | Times in UTC |  |\n",
        "\nExit codes: 0, 1, 3.\n",
        "\ntrunkline hide [OPTIONS] --for TIME [NAME...]\n",
        "| `-f, --for TIME` | How long | required |\n",
        "| `NAME...` | Names |  |\n",
    ] {
        assert!(page.contains(expected), "{expected:?} is not in:\n{page}");
    }
}

#[test]
fn answer_of_another_version_is_refused() {
    let error = cli::parse(br#"{"v": 2, "commands": []}"#).expect_err("version 2");
    assert!(error.contains("version 2"), "{error}");
}

#[test]
fn exit_code_without_an_explanation_is_detected() {
    let help = cli::parse(HELP.as_bytes()).expect("version 1");
    let tree = Tree::of(&[(
        "docs/reference/exit-codes.md",
        "| 0 | done |\n| 1 | some failed |\n",
    )]);
    let found = messages(&facts::exit_codes(&tree, &help));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("code 3 is not explained"), "{found:?}");
}

#[test]
fn parts_are_replaced_between_their_marks() {
    let text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n";
    let once = blocks::replace(text, "x", "| new |\n").expect("marks");
    assert_eq!(
        once,
        "a\n<!-- generated: x -->\n\n| new |\n\n<!-- end -->\nb\n"
    );
    assert_eq!(
        blocks::replace(&once, "x", "| new |\n").as_ref(),
        Some(&once)
    );
    assert_eq!(blocks::replace(text, "y", ""), None);
}

const SCHEMA: &str = r#"{"required": ["v"], "properties": {
    "v": {"const": 1, "description": "Version."},
    "seq": {"type": ["integer", "null"], "description": "Sequence."}}}"#;
const QUALITY: &str = "macro\nreasons! {\n    Stale = 6, \"stale\", \"Old.\";\n    \
                       TimedOut = 82, \"timed-out\",\n        \"Too late.\";\n}\n";

/// A tree with every source, and with the page at `path` holding the marks of part `name`.
fn filled(path: &str, name: &str) -> (String, Vec<String>) {
    let marks = format!("<!-- generated: {name} -->\n<!-- end -->\n");
    let tree = Tree::of(&[
        (path, marks.as_str()),
        ("crates/trunkline-types/src/quality.rs", QUALITY),
        (
            "crates/trunkline-types/Cargo.toml",
            "[package]\ndescription = \"The types\"\n",
        ),
        ("crates/a/fuzz/Cargo.toml", "[package]\n"),
        (
            "crates/trunkline/examples/first_steps.rs",
            "//! Shows.\n\nfn main() {}\n",
        ),
        (
            "crates/trunkline/examples/demo_client.rs",
            "//! Shows.\n\nfn main() {}\n",
        ),
    ]);
    let mut findings = Vec::new();
    let pages = blocks::fill(&tree, &mut findings).expect("sources");
    (
        pages.into_iter().map(|p| p.text).collect(),
        messages(&findings),
    )
}

#[test]
fn parts_are_made_from_their_sources() {
    let types = "| [`trunkline-types`](crates/trunkline-types) | The types |\n";
    for (path, name, expected) in [
        ("README.md", "crates", types),
        (
            "README.md",
            "demo_client",
            "```rust,ignore\nfn main() {}\n```\n",
        ),
        (
            "docs/how-to/read-and-write-from-rust.md",
            "first_steps",
            "```rust,ignore\nfn main() {}\n```\n",
        ),
        (
            "docs/reference/quality.md",
            "reasons",
            "| `stale` | 6 | uncertain | Old. |\n",
        ),
        (
            "docs/reference/quality.md",
            "reasons",
            "| `timed-out` | 82 | bad | Too late. |\n",
        ),
        (
            "docs/explanation/architecture.md",
            "layers",
            "| 0 | `trunkline-types` | - | forbid |",
        ),
        (
            "docs/explanation/architecture.md",
            "layers",
            "| 6 | `trunkline-cli` (planned) |",
        ),
    ] {
        let (text, _) = filled(path, name);
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
}

#[test]
fn page_without_its_marks_is_found() {
    let (_, found) = filled("docs/reference/quality.md", "another");
    let expected = "docs/reference/quality.md: docs: needs `<!-- generated: reasons -->`";
    assert!(found.iter().any(|f| f.starts_with(expected)), "{found:?}");
    assert!(
        found.contains(&"README.md: docs: the page is missing".to_owned()),
        "{found:?}"
    );
}

#[test]
fn keys_of_a_reading_are_written_from_the_schema() {
    let path = "docs/reference/json.md";
    let tree = Tree::of(&[(path, "<!-- generated: keys -->\n<!-- end -->\n")]);
    let page = blocks::json_page(&tree, SCHEMA, &mut Vec::new());
    let page = page.expect("the schema").expect("keys");
    for expected in [
        "| `v` | 1 | yes | Version. |\n",
        "| `seq` | integer or null |  | Sequence. |\n",
    ] {
        assert!(page.text.contains(expected), "{}", page.text);
    }
}

#[test]
fn keys_of_a_configuration_are_written_from_the_answer() {
    let help = cli::parse(HELP.as_bytes()).expect("version 1");
    let path = "docs/reference/configuration.md";
    let tree = Tree::of(&[(path, "<!-- generated: keys -->\n<!-- end -->\n")]);
    let page = blocks::configuration(&tree, &help, &mut Vec::new()).expect("keys");
    for expected in [
        "\n### [engine]\n\n| Key | Written | Default | Meaning |\n",
        "| `listen` | ADDRESS\\|LIST | `127.0.0.1` | where |\n",
        "| `name` | text | required | who |\n\n<!-- end -->",
    ] {
        assert!(
            page.text.contains(expected),
            "{expected:?} is not in:\n{}",
            page.text
        );
    }
}

#[test]
fn unlisted_page_is_detected() {
    let tree = Tree::of(&[
        ("docs/SUMMARY.md", "- [A](a.md)\n- [B](b/c.md)\n"),
        ("docs/a.md", "# A\n"),
        ("docs/b/c.md", "# C\n"),
        ("docs/b/d.md", "# The D\n"),
    ]);
    let found = messages(&summary::unlisted_pages(&tree));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("add `- [The D](b/d.md)`"), "{found:?}");
}

#[test]
fn other_rust_version_in_a_text_is_found() {
    let tree = Tree::of(&[
        (
            "Cargo.toml",
            "[workspace.package]\nrust-version = \"1.95\"\n",
        ),
        ("README.md", "Needs Rust 1.95.\nNeeds Rust 1.80 or newer.\n"),
        ("CHANGELOG.md", "Rust 1.70\n"),
    ]);
    let found = messages(&facts::rust_version(&tree));
    assert_eq!(
        found,
        ["README.md:2: docs: says Rust 1.80; the workspace asks for 1.95"]
    );
}

#[test]
fn options_are_read_and_others_refused() {
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let sut = Options::parse(&words(&["--check", "--binary", "x"])).expect("known options");
    assert!(sut.check && !sut.require_binary);
    assert_eq!(sut.binary, Some(PathBuf::from("x")));
    assert!(Options::parse(&words(&["--binary"])).is_err());
    assert!(Options::parse(&words(&["--fix"])).is_err());
}
