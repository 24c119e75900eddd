use super::*;

const RANKS: Ranks = &[&["low", "peer"], &["big other"], &["top", "top/nested"]];

fn read(files: &[(&str, &str)]) -> Vec<SourceFile> {
    let names = ["low", "peer", "big", "other", "top", "top/nested"];
    let mut texts: BTreeMap<String, &str> = BTreeMap::new();
    texts.insert(
        "lib".to_owned(),
        "mod low; mod peer; mod big; mod other; mod top;",
    );
    texts.extend(names.map(|name| (name.to_owned(), "")));
    texts.insert("top".to_owned(), "mod nested;");
    texts.extend(files.iter().map(|(name, text)| ((*name).to_owned(), *text)));
    let texts: Vec<_> = texts
        .into_iter()
        .map(|(name, text)| (format!("x/{name}.rs"), text))
        .collect();
    let texts: Vec<_> = texts
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    imports::read_crate(&Tree::of(&texts), "x").expect("readable")
}

fn order(files: &[(&str, &str)]) -> Vec<String> {
    let findings = check_order(RANKS, &read(files));
    findings.iter().map(Finding::to_string).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn imports_of_the_own_room_and_of_lower_ranks_pass() {
    let files = [
        ("low", "use self::Low; pub struct Low;"),
        ("big", "use crate::other::Other; use crate::low::Low;"),
        ("other", "use crate::{big::*, peer};"),
        (
            "top",
            "mod nested; use nested::x; fn x() { super::big::x() }",
        ),
        (
            "top/nested",
            "use std::top; fn x() { let x: other::top::X; }",
        ),
    ];
    assert_eq!(order(&files[..3]), NONE);
    assert_eq!(order(&files[4..]), NONE);
    assert_eq!(
        order(&files[3..4]),
        [
            "x/top.rs:1: layers: top (2) imports top/nested (2); move what it needs down, or pass it in"
        ]
    );
}

#[test]
fn import_of_a_higher_rank_is_detected_in_each_form() {
    let forms = [
        "use crate::top::Top;",
        "use super::top;",
        "use crate::{peer as _, low::{Low, self}};\nuse super::{big::{x, y}};",
        "fn x() -> crate::big::Y<crate::top::Top> {}",
        "fn x() { print!(\"{}\", crate::top::X) }",
        "mod inner { use super::super::top::Top; }",
        "use crate::top::*;",
        "macro_rules! x { () => { $crate::top::x() } }",
    ];
    for form in forms {
        assert_ne!(order(&[("low", form)]), NONE, "{form}");
    }
    assert_eq!(
        order(&[("low", forms[2])]),
        [
            "x/low.rs:1: layers: low (0) imports peer (0); move what it needs down, or pass it in",
            "x/low.rs:2: layers: low (0) imports big (1); move what it needs down, or pass it in",
            "x/low.rs:2: layers: low (0) imports big (1); move what it needs down, or pass it in",
        ]
    );
}

#[test]
fn comments_strings_and_tests_import_nothing() {
    let texts = [
        "/// See [`crate::top::Top`].\nfn x() -> &'static str { \"crate::top::x\" }",
        "#[cfg(test)]\nmod tests { use crate::top::Top; }",
        "#[cfg(test)]\nmod tests;",
        "#[cfg(all(test, unix))]\nuse crate::top::{Top, x};",
        "#[cfg(test)]\nfn x<A, B>(_: crate::top::Top) -> A { crate::top::x() }",
    ];
    for text in texts {
        assert_eq!(order(&[("low", text)]), NONE, "{text}");
        let text = format!("{text}\nfn y() {{ crate::top::y() }}");
        assert_eq!(order(&[("low", &text)]).len(), 1, "{text}");
    }
    let product = "#[cfg(not(test))]\nuse crate::top::Top;";
    assert_eq!(order(&[("low", product)]).len(), 1);
}

#[test]
fn every_file_and_path_has_a_layer() {
    let lib = "mod low; mod peer; mod big; mod other; mod top; mod new;";
    assert_eq!(
        order(&[("lib", lib), ("new", "")]),
        [format!(
            "x/new.rs: layers: the file is in no room; give it a rank in {TABLE_FILE}"
        )]
    );
    assert_eq!(
        order(&[("low", "use crate::Reexported;")]),
        ["x/low.rs:1: layers: `crate::Reexported` is in no room; name the module that defines it"]
    );
    assert_eq!(
        order(&[("top", "")]),
        [format!(
            "{TABLE_FILE}: layers: there is no module top/nested"
        )]
    );
}

#[test]
fn type_in_too_many_files_is_detected() {
    let text = "unsafe impl Send for Big {} impl<T: Fn() -> u8> Big<T> where T: for<'a> X<'a> {}\n\
                fn x() -> impl Iterator<Item = Big> { Small }";
    let files = ["low", "peer", "big", "other"].map(|name| (name, text));
    let spread = |known: &[(&'static str, usize)], files: &[(&str, &str)]| {
        let known = known.iter().copied().collect();
        let findings = check_spread("y", &known, &read(files));
        findings.iter().map(Finding::to_string).collect::<Vec<_>>()
    };
    assert_eq!(spread(&[], &files), NONE);
    let more = [&files[..], &[("top/nested", text)]].concat();
    assert_eq!(
        spread(&[], &more),
        [
            "crates/y/src: layers: `Big` has inherent `impl`s in 5 files: 4 may; move methods to types \
          that own their data"
        ]
    );
    assert_eq!(spread(&[("Big", 5)], &more), NONE);
    assert_eq!(
        spread(&[("Big", 6)], &more),
        [format!(
            "crates/y/src: layers: `Big` has inherent `impl`s in 5 files: write this number in \
             {TABLE_FILE}, or delete the line at 4"
        )]
    );
}
