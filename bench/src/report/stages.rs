//! Costs without a network, stage by stage.

use std::collections::BTreeMap;

use super::medians::Repeats;
use super::{Section, cells, figure};
use crate::cells::TRUNKLINE;
use crate::record::Run;
use crate::stages::SCENARIO;

pub(super) fn section(run: &Run) -> Section {
    let mut text = String::from(
        "\n## Stages\n\n\
         Both ends of a connection in one thread, bytes handed from one to the other: ns per item of the \
         program's own code, without the system's calls, wake-ups and locks. *Write* is the program's \
         call (for `update` the engine's write path, without reading clocks), *take* the program's \
         taking of outcomes or readings.\n\n\
         | path | items | write | client out | engine in | engine out | client in | take | sum |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut paths: BTreeMap<(String, usize), Vec<String>> = BTreeMap::new();
    for row in run
        .rows
        .iter()
        .filter(|row| row.scenario == SCENARIO && row.repeat == 1)
    {
        let (Some(path), Some(items)) = (row.case_value("path"), row.case_value("items")) else {
            continue;
        };
        let items = items.parse().unwrap_or(0);
        paths
            .entry((path.to_owned(), items))
            .or_default()
            .push(row.case.clone());
    }
    for ((path, items), cases) in paths {
        let cost = |case: &String| {
            Repeats::find(run, SCENARIO, TRUNKLINE, case)
                .figure("ns_per_item")
                .unwrap_or(0.0)
        };
        let costs: Vec<f64> = cases.iter().map(cost).collect();
        let mut row = vec![path, items.to_string()];
        row.extend(costs.iter().map(|cost| format!("{cost:.0}")));
        row.push(format!("{:.0}", costs.iter().sum::<f64>()));
        text.push_str(&cells(&row));
    }
    let clocks = Repeats::find(run, SCENARIO, TRUNKLINE, "path=two-clock-reads");
    text.push_str(&format!(
        "\nStamping an update by itself reads two clocks: {} ns.\n",
        figure(clocks.figure("ns_per_item"))
    ));
    Section {
        text,
        charts: Vec::new(),
    }
}
