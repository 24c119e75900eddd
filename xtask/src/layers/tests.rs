use super::*;
use crate::layers::table::{SIMULATOR, TABLE};

const FORBID: &str = "//! Docs.\n#![forbid(unsafe_code)]\n";

fn facts(name: &str, edges: &[(&str, bool)]) -> CrateFacts {
    let folder = format!("crates/{name}");
    CrateFacts {
        name: name.to_owned(),
        edges: edges
            .iter()
            .map(|(to, dev)| ((*to).to_owned(), *dev))
            .collect(),
        roots: vec![(format!("{folder}/src/lib.rs"), FORBID.to_owned())],
        folder,
    }
}

fn messages(facts: &CrateFacts) -> Vec<String> {
    check_crate(facts)
        .into_iter()
        .map(|f| f.to_string())
        .collect()
}

#[test]
fn edges_of_the_table_pass() {
    let edges = [
        ("trunkline-types", false),
        ("trunkline-proto", false),
        (SIMULATOR, true),
    ];
    assert_eq!(
        messages(&facts("trunkline-client", &edges)),
        Vec::<String>::new()
    );
}

#[test]
fn edge_outside_the_table_names_both_ends_and_the_remedy() {
    let found = messages(&facts("trunkline-proto", &[("trunkline-net", false)]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("dependency trunkline-proto -> trunkline-net"),
        "{found:?}"
    );
    assert!(found[0].contains("it may use trunkline-types"), "{found:?}");
}

#[test]
fn tests_may_use_their_own_layer_but_not_a_higher_one() {
    let level = facts("trunkline-client", &[("trunkline-serve", true)]);
    assert_eq!(messages(&level), Vec::<String>::new());
    let above = messages(&facts("trunkline-engine", &[("trunkline-serve", true)]));
    assert!(
        above[0].contains("dev-dependency trunkline-engine -> trunkline-serve"),
        "{above:?}"
    );
}

#[test]
fn simulator_is_for_tests_only() {
    let found = messages(&facts("trunkline", &[(SIMULATOR, false)]));
    assert!(found[0].contains("trunkline -> trunkline-sim"), "{found:?}");
}

#[test]
fn facade_may_not_use_history() {
    assert!(messages(&facts("trunkline", &[("trunkline-net", false)])).is_empty());
    assert!(!messages(&facts("trunkline", &[("trunkline-history", false)])).is_empty());
}

#[test]
fn crate_outside_the_table_is_refused() {
    let found = messages(&facts("trunkline-cache", &[]));
    assert!(
        found[0].contains("`trunkline-cache` is not in the table"),
        "{found:?}"
    );
}

#[test]
fn crate_with_a_junk_name_is_refused() {
    let found = messages(&facts("trunkline-common", &[]));
    assert!(found[0].contains("is called `common`"), "{found:?}");
}

#[test]
fn crate_in_a_folder_of_another_name_is_refused() {
    let mut sut = facts("trunkline-types", &[]);
    sut.folder = "crates/types".to_owned();
    assert!(messages(&sut)[0].contains("folder of another name"));
}

#[test]
fn forbidden_unsafe_must_be_written_in_the_crate_root() {
    let mut sut = facts("trunkline-types", &[]);
    sut.roots[0].1 = "//! Says #![forbid(unsafe_code)] only here.\n".to_owned();
    assert!(messages(&sut)[0].contains("add `#![forbid(unsafe_code)]`"));
    sut.name = "trunkline-ring".to_owned();
    sut.folder = "crates/trunkline-ring".to_owned();
    assert_eq!(messages(&sut), Vec::<String>::new());
}

#[test]
fn table_has_only_downward_edges() {
    for row in TABLE {
        let May::Only(names) = row.may else { continue };
        for name in names {
            let target = table::find(name).unwrap_or_else(|| panic!("no row for {name}"));
            match (row.layer, target.layer) {
                (Layer::Level(from), Layer::Level(to)) => {
                    assert!(to <= from, "{} -> {name} goes upward", row.name);
                }
                other => panic!("{} -> {name}: {other:?}", row.name),
            }
        }
    }
}

#[test]
fn table_has_one_row_per_crate_with_a_reason() {
    for (index, row) in TABLE.iter().enumerate() {
        assert!(!row.reason.is_empty(), "{} has no reason", row.name);
        assert!(
            TABLE[..index].iter().all(|r| r.name != row.name),
            "{} stands twice",
            row.name
        );
    }
}
