//! W5: updates per second and what each costs, beside raw.

use super::medians::{Repeats, ratio};
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure};
use crate::cells::{RAW, TRUNKLINE, TRUNKLINE_BATCHED};
use crate::record::Run;
use crate::w5::{SCENARIO, VARIABLES};

const SYSTEMS: [(&str, &str); 3] = [
    (TRUNKLINE, "Trunkline, one per call"),
    (TRUNKLINE_BATCHED, "Trunkline, 100 per call"),
    (RAW, "raw TCP"),
];

pub(super) fn section(run: &Run) -> Section {
    let mut text = String::from(
        "\n## W5: updates to one subscriber of all\n\n\
         f64 variables are updated as fast as possible in the process that hosts them; a subscriber \
         (`all`) in another process takes every update, checked one by one for order, content, sequence \
         and quality. The writer waits for the feed, so nothing overruns. *One per call*: each update has \
         its own timestamp. *100 per call*: 100 updates share a clock read and a wake-up (`write_many`). \
         The subscriber takes what waits, up to 1000 readings at once (`next_batch`). Raw: records of 24 bytes, 64 KiB per `write`. CPU per update: *writer* is the \
         writing thread, with the write path that runs on it; *engine* the other threads of its process; \
         *client* the subscriber's process.\n\n\
         | variables | system | updates/s | x raw | writer ns | engine ns | client ns | backlog ms |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for variables in VARIABLES {
        let raw = find(run, RAW, variables).figure("updates_per_s");
        for (system, name) in SYSTEMS {
            let repeats = find(run, system, variables);
            let rate = repeats.figure("updates_per_s");
            text.push_str(&cells(&[
                variables.to_string(),
                name.to_owned(),
                rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.2} M", rate / 1e6)),
                figure(ratio(rate, raw)),
                figure(repeats.figure("writer_ns_per_update")),
                figure(repeats.figure("engine_ns_per_update")),
                figure(repeats.figure("client_ns_per_update")),
                figure(repeats.figure("backlog_ms")),
            ]));
        }
    }
    Section {
        text,
        charts: vec![Plot::of_lines("w5-rate.svg", &rates(run))],
    }
}

/// The repeats of a cell.
pub(super) fn find<'a>(run: &'a Run, system: &str, variables: usize) -> Repeats<'a> {
    Repeats::find(run, SCENARIO, system, &format!("vars={variables}"))
}

fn rates(run: &Run) -> Chart {
    let line = |(system, name): (&str, &str)| {
        let rate = |variables| {
            let rate = find(run, system, variables).figure("updates_per_s")?;
            Some((variables as f64, rate))
        };
        let points = VARIABLES.into_iter().filter_map(rate).collect();
        Line {
            name: name.to_owned(),
            points,
            dashed: system == RAW,
        }
    };
    Chart {
        title: "W5: updates per second to one subscriber of all".to_owned(),
        x_label: "variables".to_owned(),
        y_label: "updates/s".to_owned(),
        lines: SYSTEMS.map(line).to_vec(),
    }
}
