//! Aliases, from configuration files and deployed over the network.

use crate::rig::Served;

const PLANT: &str = r#"
[library]
name = "plant"

[[variable]]
name = "level"
type = "f64"
units = "%"
range = [0, 100]
initial = 40

[[variable]]
name = "share"                         # the same in parts of one
type = "f64"
scale = { raw = [0, 100], eng = [0, 1] }
alias = "plant/level"

[[variable]]
name = "shown"                         # and for looking only
type = "f64"
access = "read-only"
alias = "plant/share"
"#;

/// Behaviour: H-20.
#[test]
fn an_alias_is_read_written_and_explained_like_any_variable() {
    let served = Served::start(PLANT);
    let value = |name: &str| {
        let read = served.run(&["get", "-o", "jsonl", name]);
        let line: serde_json::Value = serde_json::from_str(&read.out).unwrap();
        line["value"].as_f64().unwrap()
    };
    assert_eq!((value("plant/share"), value("plant/shown")), (0.4, 0.4));
    let followed = served.spawn(&["monitor", "--count", "2", "plant/shown"]);
    followed.line_with("0.4");
    assert_eq!(served.run(&["put", "plant/share", "0.65"]).code, Some(0));
    followed.line_with("0.65");
    assert_eq!(value("plant/level"), 65.0);
    assert_eq!(served.run(&["put", "plant/shown", "0.5"]).code, Some(6));
    let outside = served.run(&["put", "plant/share", "2"]);
    assert_eq!(outside.code, Some(6));
    assert!(
        outside
            .err
            .contains("the variable is an alias of plant/level, which refuses the write"),
        "{outside:?}"
    );
    let info = served.run(&["info", "plant/shown"]);
    assert!(
        info.out.contains("it is an alias of plant/share"),
        "{info:?}"
    );

    // A variable forced at its source is marked, and why names the variable at fault.
    assert_eq!(served.run(&["force", "plant/level", "10"]).code, Some(0));
    let shown = served.run(&["get", "-a", "plant/shown"]);
    assert!(
        shown.out.contains("0.1") && shown.out.contains("forced"),
        "{shown:?}"
    );
    let why = served.run(&["why", "plant/shown"]);
    assert_eq!(why.code, Some(8));
    assert!(
        why.out
            .contains("it is an alias of plant/level: it is forced by"),
        "{why:?}"
    );
}

/// The target may come later, go, and be deployed over the network; a cycle is refused with its
/// path.
#[test]
fn an_alias_waits_for_its_target() {
    let served = Served::rig();
    let file = served.file(
        "view.toml",
        "[[variable]]\nname = \"x\"\ntype = \"f64\"\nalias = \"late/x\"\n",
    );
    assert_eq!(served.run(&["deploy", &file]).code, Some(0));
    let early = served.run(&["get", "-a", "view/x"]);
    assert!(early.out.contains("variable-missing"), "{early:?}");
    assert_eq!(served.run(&["put", "view/x", "1"]).code, Some(6));
    let why = served.run(&["why", "view/x"]);
    assert!(
        why.out.contains("the target late/x does not exist"),
        "{why:?}"
    );

    let cycle = served.file(
        "late.toml",
        "[[variable]]\nname = \"x\"\ntype = \"f64\"\nalias = \"view/x\"\n",
    );
    let refused = served.run(&["deploy", &cycle]);
    assert!(
        refused.err.contains("late/x -> view/x -> late/x"),
        "{refused:?}"
    );
    let target = served.file("late.toml", "[[variable]]\nname = \"x\"\ntype = \"f64\"\n");
    assert_eq!(served.run(&["deploy", &target]).code, Some(0));
    assert_eq!(served.run(&["put", "view/x", "4"]).code, Some(0));
    let read = served.run(&["get", "late/x"]);
    assert!(read.out.contains('4'), "{read:?}");
    assert_eq!(served.run(&["undeploy", "--yes", "late"]).code, Some(0));
    let gone = served.run(&["get", "-a", "view/x"]);
    assert!(gone.out.contains("variable-missing"), "{gone:?}");
}
