//! W5: updates per second and what each costs, beside raw.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::peers::Beside;
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure};
use crate::cells::{RAW, TRUNKLINE, TRUNKLINE_BATCHED};
use crate::record::Run;
use crate::w5::{BESIDE_OTHERS, SCENARIO, SEVERAL, SEVERAL_VARIABLES, SUBSCRIBERS, VARIABLES};

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
    text.push_str(
        "\n### Beside other systems\n\nMillions of updates per second, one call per update except where \
         it says otherwise; each system batches below its interface as its documentation has it (Redis \
         pipelines 256). The writer of one that would drop or queue without end is held back by \
         acknowledgements. The writer hosts the variables, except where a server stands between the two \
         ends (Redis, mosquitto, NATS, EPICS CA), which runs on any CPU.\n\n",
    );
    let column = |variables: usize| {
        (
            super::peers::counted(variables, "variable"),
            format!("vars={variables}"),
        )
    };
    let ours = SYSTEMS.map(|(system, name)| (system, name));
    let beside = Beside {
        run,
        scenario: SCENARIO,
        ours: &[ours[2], ours[0], ours[1]],
        columns: BESIDE_OTHERS.map(column).to_vec(),
        figure: "updates_per_s",
        unit: "M/s",
        divisor: 1e6,
    };
    text.push_str(&beside.table());
    Section {
        text,
        charts: vec![
            Plot::of_lines("w5-rate.svg", &rates(run)),
            beside.plot("w5-systems.svg", "W5: updates per second, millions"),
        ],
    }
}

/// W6: the same updates to several subscribers.
pub(super) fn several(run: &Run) -> Section {
    let mut text = format!(
        "\n## W6: updates to several subscribers of all\n\n\
         {SEVERAL_VARIABLES} f64 variables are updated as fast as possible; 1, 8 and 32 subscribers in \
         another process (of EPICS, OPC UA and DDS a process each, on the same CPU) take every update, \
         checked one by one. Millions of updates delivered per second, to all together. Engine and \
         writer cost CPU time per update, which the second table divides by the subscribers.\n\n"
    );
    let case = |subscribers: usize| format!("subs={subscribers} vars={SEVERAL_VARIABLES}");
    let column = |subscribers: usize| {
        (
            super::peers::counted(subscribers, "subscriber"),
            case(subscribers),
        )
    };
    let ours = [SYSTEMS[2], SYSTEMS[0], SYSTEMS[1]];
    let beside = Beside {
        run,
        scenario: SEVERAL,
        ours: &ours,
        columns: SUBSCRIBERS.map(column).to_vec(),
        figure: "updates_per_s",
        unit: "M/s",
        divisor: 1e6,
    };
    if super::peers::measured(run, SEVERAL).is_empty() {
        text.push_str("| system | subscribers | M/s delivered | x raw |\n|---|---:|---:|---:|\n");
        for (system, name) in ours {
            for subscribers in SUBSCRIBERS {
                let rate = |system| {
                    let repeats = Repeats::find(run, SEVERAL, system, &case(subscribers));
                    repeats.figure("updates_per_s")
                };
                text.push_str(&cells(&[
                    name.to_owned(),
                    subscribers.to_string(),
                    figure(rate(system).map(|rate| rate / 1e6)),
                    figure(ratio(rate(system), rate(RAW))),
                ]));
            }
        }
    }
    text.push_str(&beside.table());
    text.push_str(
        "\n| system | subscribers | writer ns per update | engine ns per update | both, per delivered \
         | client ns per delivered |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for (system, name) in ours {
        for subscribers in SUBSCRIBERS {
            let repeats = Repeats::find(run, SEVERAL, system, &case(subscribers));
            let (writer, engine) = (
                repeats.figure("writer_ns_per_update"),
                repeats.figure("engine_ns_per_update"),
            );
            let both = writer.zip(engine).map(|(writer, engine)| writer + engine);
            text.push_str(&cells(&[
                name.to_owned(),
                subscribers.to_string(),
                figure(writer),
                figure(engine),
                figure(both.map(|both| both / subscribers as f64)),
                figure(repeats.figure("client_ns_per_update")),
            ]));
        }
    }
    Section {
        text,
        charts: vec![beside.plot(
            "w6-systems.svg",
            "W6: updates delivered per second, millions",
        )],
    }
}

/// V5 and V6 beside other systems, and V6 beside raw.
pub(super) fn bars_beside(run: &Run, several: &Run) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (name, system, per_call, limit) in [
        ("V5a", TRUNKLINE, "one per call", 1.5),
        ("V5b", TRUNKLINE_BATCHED, "100 per call", 4.0),
    ] {
        for variables in BESIDE_OTHERS {
            let case = format!("vars={variables}");
            let best = super::peers::best(run, SCENARIO, &case, "updates_per_s", false);
            bars.push(Bar::at_least(
                name,
                &format!(
                    "W5, {variables} variables, {per_call}: x the best other system{}",
                    super::peers::called(best)
                ),
                limit,
                ratio(
                    find(run, system, variables).figure("updates_per_s"),
                    best.map(|(_, rate)| rate),
                ),
            ));
        }
    }
    let case = format!("subs={} vars={SEVERAL_VARIABLES}", SUBSCRIBERS[2]);
    let rate = |system| Repeats::find(several, SEVERAL, system, &case).figure("updates_per_s");
    let ours = [TRUNKLINE, TRUNKLINE_BATCHED].map(rate);
    let best = super::peers::best(several, SEVERAL, &case, "updates_per_s", false);
    for (ours, per_call) in ours.into_iter().zip(["one per call", "100 per call"]) {
        let what = format!("W6, {} subscribers, {per_call}: delivered", SUBSCRIBERS[2]);
        bars.push(Bar::at_least(
            "V6",
            &format!("{what}, x raw"),
            0.2,
            ratio(ours, rate(RAW)),
        ));
        let called = super::peers::called(best);
        bars.push(Bar::at_least(
            "V6",
            &format!("{what}, x the best other system{called}"),
            3.0,
            ratio(ours, best.map(|(_, rate)| rate)),
        ));
    }
    bars
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
