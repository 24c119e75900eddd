//! V9 to V12: the same host, and many clients.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::{Section, cells, figure};
use crate::cells::TRUNKLINE;
use crate::clients::{CHANGES, CLIENTS, IDLE, STALLED, VARIABLES};
use crate::record::Run;
use crate::same_host::{LOCAL_READ, RAW_MEMORY, RAW_UNIX, SCENARIO, TRANSPORTS};

const PING_PONG: &str = "what=ping-pong";

fn transport(name: &str) -> String {
    format!("what=put-to-notification transport={name}")
}

/// V9.
pub(super) fn section(run: &Run) -> Section {
    let mut text = String::from(
        "\n## V9: the same host\n\n\
         A client writes a value and takes its notification, again and again, without a pause; the engine \
         is in another process, each on a CPU of its own. Limits: a number that two CPUs hand each other \
         through memory, both polling (two threads; what processes share costs them the same), and eight \
         bytes through a Unix socket, both ends sleeping. Round trips; a notification is the second half \
         of one.\n\n\
         | system | waiting | round trip us | mean us | p99 us | x memory | x Unix socket |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
    );
    let memory = Repeats::find(run, SCENARIO, RAW_MEMORY, PING_PONG).figure("round_trip_us");
    let unix = Repeats::find(run, SCENARIO, RAW_UNIX, PING_PONG).figure("round_trip_us");
    let mut rows = vec![
        (
            RAW_MEMORY,
            "memory, by hand".to_owned(),
            PING_PONG.to_owned(),
        ),
        (
            RAW_UNIX,
            "Unix socket, by hand".to_owned(),
            PING_PONG.to_owned(),
        ),
    ];
    for name in TRANSPORTS {
        rows.push((
            TRUNKLINE,
            format!("Trunkline, `tl+{name}`"),
            transport(name),
        ));
    }
    for (system, name) in super::peers::measured(run, SCENARIO) {
        rows.push((system, name.to_owned(), PING_PONG.to_owned()));
    }
    for (system, name, case) in rows {
        let repeats = Repeats::find(run, SCENARIO, system, &case);
        let time = repeats.figure("round_trip_us");
        text.push_str(&cells(&[
            format!("{name}{}", super::mark(&repeats)),
            repeats.waiting().unwrap_or("-").to_owned(),
            figure(time),
            figure(repeats.figure("mean_us")),
            figure(repeats.figure("p99_us")),
            figure(ratio(time, memory)),
            figure(ratio(time, unix)),
        ]));
    }
    let of = Repeats::find(run, SCENARIO, TRUNKLINE, &format!("what={LOCAL_READ}"));
    text.push_str(
        "\nReading without a round trip: the last value of an engine in another process, in memory that \
         it shares, beside that of a variable of an engine in the reading process; nobody writes.\n\n\
         | other process ns | same process ns | ratio |\n|---:|---:|---:|\n",
    );
    text.push_str(&cells(&[
        figure(of.figure("local_ns")),
        figure(of.figure("in_process_ns")),
        figure(of.figure("local_ratio")),
    ]));
    Section {
        text,
        charts: Vec::new(),
    }
}

/// V10.
pub(super) fn idle(run: &Run) -> Section {
    let of = any(run, IDLE);
    let text = format!(
        "\n## V10: idle\n\n\
         {VARIABLES} silent variables, {CLIENTS} clients that are subscribed to all of them (a million \
         items); the engine measures itself every second and sends keep-alives.\n\n\
         | engine CPU % | wakes/s | clients' CPU % | loopback bytes/s | engine MiB |\n\
         |---:|---:|---:|---:|---:|\n{}",
        cells(&[
            figure(of.figure("engine_cpu_percent")),
            figure(of.figure("engine_wakes_per_s")),
            figure(of.figure("clients_cpu_percent")),
            figure(of.figure("loopback_bytes_per_s")),
            figure(of.figure("engine_mib")),
        ])
    );
    Section {
        text,
        charts: Vec::new(),
    }
}

/// V11.
pub(super) fn changes(run: &Run) -> Section {
    let of = any(run, CHANGES);
    let mut text = format!(
        "\n## V11: change against poll\n\n\
         {VARIABLES} variables, one in a hundred of which changes every 100 ms. A client is subscribed to \
         all of them, or reads all of them every 100 ms in one call. Bytes are the loopback interface's; \
         CPU is that of both processes, with the writing.\n\n\
         | | bytes/s | CPU us/s |\n|---|---:|---:|\n"
    );
    for (name, word) in [("change", "subscribed"), ("poll", "polled")] {
        text.push_str(&cells(&[
            word.to_owned(),
            figure(of.figure(&format!("{name}_bytes_per_s"))),
            figure(of.figure(&format!("{name}_cpu_us_per_s"))),
        ]));
    }
    text.push_str(&cells(&[
        "polled : subscribed".to_owned(),
        figure(of.figure("bytes_ratio")),
        figure(of.figure("cpu_ratio")),
    ]));
    Section {
        text,
        charts: Vec::new(),
    }
}

/// V12.
pub(super) fn stalled(run: &Run) -> Section {
    let of = any(run, STALLED);
    let text = format!(
        "\n## V12: stopped clients\n\n\
         {CLIENTS} live clients have 10 variables that change every 10 ms (`latest`); in turn they are \
         alone, and beside {CLIENTS} clients in a stopped process (SIGSTOP), every other one of which \
         has subscribed `all`. From the write to the reading, all clients together.\n\n\
         | p99 alone us | p99 beside stopped ones us | ratio | readings alone | beside \
         | engine bytes per client | grown per stopped client |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n{}",
        cells(&[
            figure(of.figure("alone_p99_us")),
            figure(of.figure("beside_p99_us")),
            figure(of.figure("p99_ratio")),
            figure(of.figure("alone_readings")),
            figure(of.figure("beside_readings")),
            figure(of.figure("engine_bytes_per_client")),
            figure(of.figure("grown_bytes_per_stopped_client")),
        ])
    );
    Section {
        text,
        charts: Vec::new(),
    }
}

/// The only cell of a scenario.
fn any<'a>(run: &'a Run, scenario: &str) -> Repeats<'a> {
    let mut rows = run.rows.iter();
    let case = rows.find(|row| row.scenario == scenario);
    let case = case.map_or("", |row| row.case.as_str());
    Repeats::find(run, scenario, TRUNKLINE, case)
}

/// V9 to V12, of the run that `of` has for each scenario.
pub(super) fn bars<'a>(of: impl Fn(&str) -> &'a Run) -> Vec<Bar> {
    let run = of(SCENARIO);
    let time =
        |system, case: &str| Repeats::find(run, SCENARIO, system, case).figure("round_trip_us");
    let ours = TRANSPORTS.map(|name| time(TRUNKLINE, &transport(name)));
    let fastest = ours.into_iter().flatten().reduce(f64::min);
    let mut bars = vec![Bar::at_most(
        "V9",
        "put and notification on the same host, fastest transport: to memory",
        3.0,
        ratio(fastest, time(RAW_MEMORY, PING_PONG)),
    )];
    let local = Repeats::find(run, SCENARIO, TRUNKLINE, &format!("what={LOCAL_READ}"));
    bars.push(Bar::at_most(
        "V9",
        "local last-value read : in-process read",
        3.0,
        local.figure("local_ratio"),
    ));
    for (name, scenario, what, figure, at_most, limit) in [
        (
            "V10",
            IDLE,
            "idle engine: % of a core",
            "engine_cpu_percent",
            true,
            0.2,
        ),
        (
            "V11",
            CHANGES,
            "polled : subscribed, bytes",
            "bytes_ratio",
            false,
            50.0,
        ),
        (
            "V11",
            CHANGES,
            "polled : subscribed, CPU",
            "cpu_ratio",
            false,
            20.0,
        ),
        (
            "V12",
            STALLED,
            "p99 beside stopped clients : alone",
            "p99_ratio",
            true,
            1.2,
        ),
    ] {
        let run = of(scenario);
        let measured = any(run, scenario).figure(figure);
        bars.push(match at_most {
            true => Bar::at_most(name, what, limit, measured),
            false => Bar::at_least(name, what, limit, measured),
        });
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    #[test]
    fn the_fastest_transport_is_compared_with_memory() {
        let row = |system, case: &str, time| {
            let mut row = Row::new(SCENARIO, system, case.to_owned(), "cross");
            row.figure("round_trip_us", time);
            row
        };
        let mut read = Row::new(SCENARIO, TRUNKLINE, format!("what={LOCAL_READ}"), "cross");
        read.figure("local_ratio", 2.5);
        let run = Run {
            machine: Machine::here("quick").unwrap(),
            rows: vec![
                row(RAW_MEMORY, PING_PONG, 0.25),
                row(TRUNKLINE, &transport("tcp"), 50.0),
                row(TRUNKLINE, &transport("unix"), 40.0),
                read,
            ],
        };
        let text = section(&run).text;
        assert!(
            text.contains("| Trunkline, `tl+unix` | sleeping | 40.0 | - | - | 160 |"),
            "{text}"
        );
        let bars = bars(|_| &run);
        assert_eq!(bars[0].measured(), Some(160.0));
        assert_eq!(bars[1].measured(), Some(2.5));
        assert_eq!(bars[2].measured(), None);
    }
}
