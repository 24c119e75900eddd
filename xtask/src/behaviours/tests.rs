use super::*;

const SPEC: &str = "\
# Behaviours

## A1. First

- SP-01 One.
- SP-02 Two `a|b` <alias>.
- SP-10 Ten.
- SP-10b Ten and more.

### Second

- VS-20 Twenty.
- not an id
";

fn tree_with(extra: &[(&str, &str)]) -> Tree {
    let mut files = vec![(SPECIFICATION, SPEC)];
    files.extend_from_slice(extra);
    Tree::of(&files)
}

fn specification() -> Specification {
    Specification::parse(SPEC).expect("a specification")
}

fn scanned(path: &str, text: &str) -> (Vec<NamedTest>, Vec<String>) {
    let mut findings = Vec::new();
    let tests = scan::tests(&tree_with(&[(path, text)]), &specification(), &mut findings);
    (tests, findings.into_iter().map(|f| f.to_string()).collect())
}

fn checked(extra: &[(&str, &str)]) -> Vec<String> {
    let outcome = run(&tree_with(extra), &[]).expect("a specification");
    outcome
        .findings
        .into_iter()
        .map(|f| f.to_string())
        .collect()
}

#[test]
fn ids_are_read_under_their_headings() {
    let sut = specification();
    assert_eq!(sut.ids(), ["SP-01", "SP-02", "SP-10", "SP-10b", "VS-20"]);
    let headings: Vec<&str> = sut.sections.iter().map(|(h, _)| h.as_str()).collect();
    assert_eq!(headings, ["A1. First", "Second"]);
}

#[test]
fn duplicate_id_is_refused() {
    let error = Specification::parse("## A\n- SP-01 a\n- SP-01 b\n").expect_err("twice");
    assert!(error.contains("SP-01 twice"), "{error}");
}

#[test]
fn ranges_include_the_ids_between() {
    let sut = specification();
    assert_eq!(
        sut.expand("SP-02..SP-10b, VS-20").as_deref(),
        Ok(&[
            "SP-02".to_owned(),
            "SP-10".to_owned(),
            "SP-10b".to_owned(),
            "VS-20".to_owned()
        ][..])
    );
    assert!(sut.expand("SP-10..SP-01").is_err());
    assert!(sut.expand("SP-01..VS-20").is_err());
    assert!(sut.expand("SP-01..SP-99").is_err());
}

#[test]
fn line_above_a_test_is_read() {
    let text = "/// Tells what it is about.\n///\n/// Behaviour: SP-01, SP-02.\n#[test]\n\
                fn newest_value_wins() {}\n";
    let (tests, findings) = scanned("crates/a/tests/b.rs", text);
    assert_eq!(findings, Vec::<String>::new());
    assert_eq!(tests.len(), 1);
    assert_eq!(tests[0].name, "newest_value_wins");
    assert_eq!(tests[0].ids, ["SP-01", "SP-02"]);
}

#[test]
fn list_may_span_two_lines_with_attributes_on_either_side() {
    let text = "#[test]\n/// Behaviour: SP-01,\n/// SP-02.\n#[cfg(\n    unix\n)]\nfn f() {}\n";
    let (tests, findings) = scanned("crates/a/src/b.rs", text);
    assert_eq!(findings, Vec::<String>::new());
    assert_eq!(tests[0].ids, ["SP-01", "SP-02"]);
}

#[test]
fn unknown_id_is_found() {
    let (_, findings) = scanned(
        "crates/a/tests/b.rs",
        "/// Behaviour: SP-77.\n#[test]\nfn f() {}",
    );
    assert_eq!(
        findings,
        ["crates/a/tests/b.rs:1: behaviours: SP-77 is not in the specification"]
    );
}

#[test]
fn line_without_a_full_stop_is_found() {
    let (_, findings) = scanned(
        "crates/a/tests/b.rs",
        "/// Behaviour: SP-01\n#[test]\nfn f() {}",
    );
    assert!(findings[0].contains("full stop"), "{findings:?}");
}

#[test]
fn line_above_anything_but_a_test_is_detected() {
    for text in [
        "/// Behaviour: SP-01.\nfn f() {}\n",
        "/// Behaviour: SP-01.\n\n#[test]\nfn f() {}\n",
        "/// Behaviour: SP-01.\nstruct S;\n",
    ] {
        let (tests, findings) = scanned("crates/a/src/b.rs", text);
        assert_eq!((tests.len(), findings.len()), (0, 1), "{text}");
    }
}

#[test]
fn function_a_test_runs_by_name_counts() {
    let used = "/// Behaviour: SP-01.\npub fn one_write() {}\n#[test]\nfn tcp() { one_write(); }\n";
    assert_eq!(scanned("crates/a/tests/b.rs", used).0.len(), 1);
    let unused = "/// Behaviour: SP-01.\npub fn one_write() {}\n";
    assert_eq!(scanned("crates/a/tests/b.rs", unused).0.len(), 0);
}

#[test]
fn decision_needs_a_reason() {
    let good = (
        "docs/decisions/0001-a.md",
        "Does not apply: SP-01, VS-20 — no such thing here\n",
    );
    let bad = ("docs/decisions/0002-b.md", "- Does not apply: SP-02\n");
    let template = (
        "docs/decisions/template.md",
        "Does not apply: ID — reason\n",
    );
    let tree = tree_with(&[good, bad, template]);
    let mut findings = Vec::new();
    let sut = decisions::exceptions(&tree, &specification(), &mut findings);
    assert_eq!(sut.len(), 1);
    assert_eq!(sut[0].ids, ["SP-01", "VS-20"]);
    assert_eq!(sut[0].reason, "no such thing here");
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.contains("no reason is given"));
}

#[test]
fn page_shows_tests_decisions_and_what_is_open() {
    let specification = specification();
    let test = NamedTest {
        path: "crates/a/tests/b.rs".to_owned(),
        name: "f".to_owned(),
        ids: vec!["SP-02".to_owned()],
    };
    let exception = Exception {
        path: "docs/decisions/0001-a.md".to_owned(),
        line: 1,
        ids: vec!["VS-20".to_owned()],
        reason: "too old".to_owned(),
    };
    let sut = Coverage {
        specification: &specification,
        tests: vec![test],
        exceptions: vec![exception],
    };
    let page = page::write(&sut);
    assert!(page.contains("5 behaviours: 1 with a test, 1 that do not apply, 3 open.\n"));
    assert!(page.contains("| SP-01 | One. | **open** |\n"), "{page}");
    let tested = "| SP-02 | Two `a\\|b` &lt;alias>. | [`f`](../../crates/a/tests/b.rs) |\n";
    assert!(page.contains(tested), "{page}");
    let excepted = "| does not apply: too old ([decision](../decisions/0001-a.md)) |\n";
    assert!(page.contains(excepted), "{page}");
}

#[test]
fn test_of_what_does_not_apply_is_found() {
    let found = checked(&[
        ("docs/decisions/0001-a.md", "Does not apply: SP-01 — gone\n"),
        (
            "crates/a/tests/b.rs",
            "/// Behaviour: SP-01.\n#[test]\nfn f() {}\n",
        ),
    ]);
    assert!(
        found.iter().any(|f| f.contains("but a test names it")),
        "{found:?}"
    );
}
