//! Compares the reference page of the metrics with the program.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;

use trunkline_web::HealthSnapshot;
use trunkline_web::metrics::{METRICS, exposition, page_table};

#[test]
fn reference_page_lists_exactly_the_metrics_of_the_program() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page_table();
    assert!(
        page.contains(&table),
        "docs/reference/metrics.md must contain this table:\n{table}"
    );
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, METRICS.len(), "rows of metrics that do not exist");
}

#[test]
fn exposition_has_the_names_types_and_help_of_the_page() {
    let text = exposition(HealthSnapshot::default()).unwrap();
    for metric in METRICS {
        let name = metric.name();
        let family = name.trim_end_matches("_total").trim_end_matches("_info");
        let help = format!("# HELP {family} {}.\n", metric.help);
        let kind = format!("# TYPE {family} {}\n", metric.type_name());
        assert!(
            text.contains(&help) && text.contains(&kind),
            "{name}\n{text}"
        );
    }
}
