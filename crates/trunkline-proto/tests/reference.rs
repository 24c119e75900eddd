//! `docs/reference/protocol.md` says what the code does.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../examples/write_protocol_tables/tables.rs"]
mod tables;

use trunkline_proto::{FaultCode, FrameKind};
use trunkline_types::AuditAction;

fn page() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/protocol.md"
    );
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_tables_are_what_the_example_writes() {
    let page = page();
    assert!(
        tables::fill(&page).unwrap() == page,
        "run `cargo run -p trunkline-proto --example write_protocol_tables`"
    );
}

#[test]
fn every_kind_has_a_number_and_a_section_with_its_diagram() {
    let page = page();
    for kind in FrameKind::ALL {
        let row = format!("| {} | [{kind}](", kind.number());
        assert!(page.contains(&row), "{kind} is not in the table of kinds");
        let (_, section) = page
            .split_once(&format!("\n### {kind}\n"))
            .unwrap_or_else(|| panic!("{kind} has no section"));
        let section = section
            .split("\n## ")
            .next()
            .unwrap()
            .split("\n### ")
            .next()
            .unwrap();
        // A frame is drawn, is a list of fields, has the form of another, or holds nothing.
        let is_drawn = ["```text", "| Id |", "As ", "No payload"]
            .iter()
            .any(|d| section.contains(d));
        assert!(is_drawn, "{kind} is not drawn");
    }
}

#[test]
fn every_action_of_the_audit_has_its_number_and_name() {
    let page = page();
    let row = page.lines().find(|line| line.starts_with("| 5 | 1 put,"));
    // Each action ends with a comma, or with the cell.
    let row = row.unwrap().replace(" |", ",");
    for action in AuditAction::ALL {
        let drawn = format!(" {} {},", action.number(), action.name());
        assert!(
            row.contains(&drawn),
            "{drawn} is not in the fields of AUDIT_PAGE"
        );
    }
}

#[test]
fn every_fault_has_its_number_and_name() {
    let page = page();
    for code in FaultCode::ALL {
        let row = format!("| {} | `{code}` |", code.number());
        assert!(page.contains(&row), "{code} is not in the table of faults");
    }
}
