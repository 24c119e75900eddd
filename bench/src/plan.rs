//! The plan of a run: every cell with every system in turn, repeated several times.

use crate::cells::{LOCAL_TRANSPORTS, RAW, TRUNKLINE, TRUNKLINE_ALL, TRUNKLINE_BATCHED};
use crate::round_trip_grid::{self, Kind};
use crate::settings::Settings;
use crate::stages;
use crate::{
    alarms, blocks, call_cost, clients, footprint, history, in_process, peers, recorder, same_host,
    streams, tdms, updates_to_one,
};

/// Variable counts of W1 at which the other systems are measured.
const PEER_VARIABLES: [usize; 3] = [1, 100, 500];

/// All scenarios, in the order in which they are measured and reported.
pub const SCENARIOS: [&str; 24] = [
    round_trip_grid::SCENARIO,
    call_cost::SCENARIO,
    updates_to_one::SCENARIO,
    updates_to_one::SEVERAL,
    in_process::SCENARIO,
    footprint::SCENARIO,
    same_host::SCENARIO,
    clients::IDLE,
    clients::CHANGES,
    clients::STALLED,
    blocks::FIFO,
    blocks::WAVEFORM,
    streams::THROUGHPUT,
    streams::LATENCY,
    streams::JOURNALS,
    streams::SWEEP,
    streams::PACED,
    recorder::SCENARIO,
    recorder::DEVICES,
    tdms::READING,
    tdms::WRITING,
    alarms::SCENARIO,
    history::SCENARIO,
    stages::SCENARIO,
];

/// Extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A few cells in a few seconds: checks that everything works.
    Quick,
    /// Everything, with as many ticks as fit into about twelve minutes.
    Default,
    /// Everything as published: 1002 ticks per cell of W1 in three repeats, a million synchronous
    /// calls in W2. About three and a half hours.
    Full,
}

/// A process to start: one or several cells of one system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    pub scenario: &'static str,
    pub system: &'static str,
    pub settings: Settings,
}

/// Scenario, systems, settings.
pub(crate) type Cell = (&'static str, &'static [&'static str], Settings);

impl Extent {
    /// Returns the name in result files.
    pub fn name(self) -> &'static str {
        match self {
            Extent::Quick => "quick",
            Extent::Default => "default",
            Extent::Full => "full",
        }
    }

    /// Returns the number of repeats.
    pub fn repeats(self) -> u32 {
        if self == Extent::Quick { 1 } else { 3 }
    }

    /// Returns the periods and their numbers of ticks, as settings of a W1 cell.
    fn periods(self) -> String {
        let ticks = |period| match (self, period) {
            (Extent::Quick, _) => 20,
            (Extent::Full, _) => 334,
            (Extent::Default, 10) => 100,
            (Extent::Default, 50) => 20,
            (Extent::Default, 100) => 10,
            (Extent::Default, _) => 8,
        };
        let periods: &[u64] = if self == Extent::Quick {
            &[10]
        } else {
            &round_trip_grid::PERIODS_MS
        };
        let words = periods
            .iter()
            .map(|period| format!("{period}:{}", ticks(*period)));
        words.collect::<Vec<_>>().join(",")
    }

    /// Returns the steps of one repeat. The systems of a cell follow each other; their order
    /// rotates with the repeat.
    pub fn steps(self, repeat: u32, scenarios: &[String], with_peers: bool) -> Vec<Step> {
        let wanted = |name: &str| scenarios.is_empty() || scenarios.iter().any(|one| one == name);
        let mut cells: Vec<Cell> = Vec::new();
        if wanted(round_trip_grid::SCENARIO) {
            let kinds: &[Kind] = if self == Extent::Quick {
                &[Kind::I32]
            } else {
                &round_trip_grid::TYPES
            };
            for kind in kinds {
                for variables in round_trip_grid::VARIABLES {
                    let settings = Settings::default()
                        .with("n", variables)
                        .with("type", kind.name())
                        .with("periods", self.periods());
                    let systems: &[&str] = match kind {
                        Kind::I32 => &[RAW, TRUNKLINE, TRUNKLINE_ALL],
                        _ => &[RAW, TRUNKLINE],
                    };
                    cells.push((round_trip_grid::SCENARIO, systems, settings));
                }
            }
            // One variable: transports are compared here, not packing.
            let settings = Settings::default().with("n", 1).with("type", "i32");
            let settings = settings.with("periods", self.first_period());
            cells.push((round_trip_grid::SCENARIO, &LOCAL_TRANSPORTS, settings));
            let settings = Settings::default().with("n", 100).with("type", "i32");
            let settings = settings.with("periods", format!("{}:100", round_trip_grid::AT_ONCE));
            cells.push((
                round_trip_grid::SCENARIO,
                &[TRUNKLINE, TRUNKLINE_ALL],
                settings,
            ));
        }
        if wanted(call_cost::SCENARIO) {
            let passes = if self == Extent::Quick { 2 } else { 9 };
            let all = call_cost::OPERATIONS
                .map(call_cost::Operation::name)
                .join(",");
            let mut calls = vec![(call_cost::CALLS, passes, all.as_str())];
            match self {
                Extent::Quick => {}
                Extent::Default => calls.push((call_cost::MANY_CALLS, 1, "async-put,async-get")),
                Extent::Full => calls.push((call_cost::MANY_CALLS, 1, all.as_str())),
            }
            for (calls, passes, operations) in calls {
                let settings = Settings::default()
                    .with("calls", calls)
                    .with("passes", passes)
                    .with("operations", operations);
                let systems: &[&str] = match calls {
                    call_cost::CALLS => &call_cost::SYSTEMS,
                    _ => &[RAW, TRUNKLINE],
                };
                cells.push((call_cost::SCENARIO, systems, settings));
            }
        }
        if wanted(updates_to_one::SCENARIO) {
            for variables in updates_to_one::VARIABLES {
                let settings = self.stream().with("vars", variables);
                cells.push((
                    updates_to_one::SCENARIO,
                    &[RAW, TRUNKLINE, TRUNKLINE_BATCHED],
                    settings,
                ));
            }
        }
        if wanted(updates_to_one::SEVERAL) {
            for subscribers in updates_to_one::SUBSCRIBERS {
                let settings = self
                    .stream()
                    .with("vars", updates_to_one::SEVERAL_VARIABLES);
                let settings = settings.with("subs", subscribers);
                // Long enough that the data in the queues of many subscribers is a small part of
                // it.
                let settings = match self {
                    Extent::Quick => settings,
                    _ if subscribers > 1 => settings.with("ms", 5000),
                    _ => settings,
                };
                let systems = &[RAW, TRUNKLINE, TRUNKLINE_BATCHED];
                cells.push((updates_to_one::SEVERAL, systems, settings));
            }
        }
        if wanted(in_process::SCENARIO) {
            let (rounds, round_us) = match self {
                Extent::Quick => (3, 500),
                Extent::Default => (15, 5000),
                Extent::Full => (15, 20_000),
            };
            for part in in_process::PARTS {
                let settings = Settings::default()
                    .with("part", part)
                    .with("rounds", rounds)
                    .with("round_us", round_us);
                cells.push((in_process::SCENARIO, &[in_process::SYSTEMS], settings));
            }
        }
        if wanted(footprint::SCENARIO) {
            cells.extend(self.footprint_cells());
        }
        cells.extend(self.other_cells().into_iter().filter(|cell| wanted(cell.0)));
        // Gigabytes are made only once; the engine is killed and started several times there.
        if repeat == 1 && wanted(history::SCENARIO) {
            let gb = if self == Extent::Quick { 0.1 } else { 10.0 };
            let settings = Settings::default().with("what", "restart").with("gb", gb);
            cells.push((history::SCENARIO, &[TRUNKLINE], settings));
        }
        let mut steps = Vec::new();
        for (scenario, systems, settings) in cells {
            let mut systems = systems.to_vec();
            if with_peers && systems != LOCAL_TRANSPORTS && self.has_peers(scenario, &settings) {
                let takes_part = |peer: &&peers::Peer| match scenario {
                    history::SCENARIO => history::has_peer(peer, &settings),
                    _ => streams::plan::has_peer(self, scenario, peer, &settings),
                };
                let peers = peers::of(scenario).filter(takes_part);
                systems.extend(peers.map(|peer| peer.system));
            }
            if repeat.is_multiple_of(2) {
                systems.reverse();
            }
            let step = |system| {
                let mut settings = settings.clone();
                if scenario == round_trip_grid::SCENARIO && peers::named(system).is_some() {
                    settings.set("periods", self.first_period());
                }
                Step {
                    scenario,
                    system,
                    settings,
                }
            };
            steps.extend(systems.into_iter().map(step));
        }
        steps
    }

    /// Returns the times of a cell that writes as fast as possible.
    pub(crate) fn stream(self) -> Settings {
        let (warm_ms, ms) = match self {
            Extent::Quick => (100, 300),
            Extent::Default => (1000, 1000),
            Extent::Full => (1000, 5000),
        };
        Settings::default().with("warm_ms", warm_ms).with("ms", ms)
    }

    /// Returns the W1 period at which other systems are measured, with its ticks.
    fn first_period(self) -> String {
        let periods = self.periods();
        periods.split(',').next().unwrap_or_default().to_owned()
    }

    /// Returns true if the cell is also run with the other systems.
    fn has_peers(self, scenario: &str, settings: &Settings) -> bool {
        let is = |key: &str, wanted: &str| {
            settings
                .value::<String>(key)
                .is_ok_and(|value| value == wanted)
        };
        let count = settings.value_or("n", 0).unwrap_or(0);
        match scenario {
            round_trip_grid::SCENARIO => {
                let counts = if self == Extent::Quick {
                    &PEER_VARIABLES[1..2]
                } else {
                    &PEER_VARIABLES[..]
                };
                is("type", "i32") && !is("periods", "0:100") && counts.contains(&count)
            }
            call_cost::SCENARIO => is("calls", &call_cost::CALLS.to_string()),
            updates_to_one::SCENARIO if self == Extent::Quick => is("vars", "100"),
            updates_to_one::SCENARIO => {
                updates_to_one::BESIDE_OTHERS.contains(&settings.value_or("vars", 0).unwrap_or(0))
            }
            updates_to_one::SEVERAL if self == Extent::Quick => is("subs", "8"),
            footprint::SCENARIO => is("what", "connect"),
            same_host::SCENARIO => is("batch", "100"),
            _ => true,
        }
    }

    /// The same host, many clients, blocks.
    fn other_cells(self) -> Vec<Cell> {
        let is_quick = self == Extent::Quick;
        let ms = |long: u64| Settings::default().with("ms", if is_quick { 300 } else { long });
        let raw: &[&str] = &[same_host::RAW_MEMORY];
        let of_alarms = Settings::default()
            .with("alarms", alarms::ALARMS)
            .with("changing", alarms::CHANGING);
        let mut cells: Vec<Cell> = vec![
            (alarms::SCENARIO, &[TRUNKLINE], of_alarms),
            (
                history::SCENARIO,
                &[TRUNKLINE],
                Settings::default()
                    .with("what", "read")
                    .with("hours", if is_quick { 1 } else { 24 }),
            ),
            (same_host::SCENARIO, raw, ms(1000).with("batch", 100)),
            (same_host::SCENARIO, &[same_host::RAW_UNIX], ms(1000)),
        ];
        for variables in history::VARIABLES {
            let settings = ms(5000).with("what", "record").with("vars", variables);
            cells.push((history::SCENARIO, &[history::RAW, TRUNKLINE], settings));
        }
        for transport in same_host::TRANSPORTS {
            let settings = ms(1000).with("transport", transport);
            cells.push((same_host::SCENARIO, &[TRUNKLINE], settings));
        }
        let local = Settings::default().with("what", same_host::LOCAL_READ);
        cells.push((same_host::SCENARIO, &[TRUNKLINE], local));
        let clients = if is_quick { 10 } else { clients::CLIENTS };
        for (scenario, long) in [
            (clients::IDLE, 5000),
            (clients::CHANGES, 3000),
            (clients::STALLED, 2000),
        ] {
            let settings = ms(long).with("clients", clients);
            cells.push((scenario, &[TRUNKLINE], settings));
        }
        cells.extend(streams::plan::cells(self));
        cells.extend(recorder::plan::cells(self));
        cells.extend(tdms::cells(self));
        for length in blocks::LENGTHS {
            let settings = self.stream().with("length", length).with("fifo", true);
            cells.push((blocks::FIFO, &[RAW, TRUNKLINE], settings));
        }
        let settings = self.stream().with("length", blocks::SAMPLES);
        let settings = settings.with("fifo", false);
        cells.push((blocks::WAVEFORM, &[RAW, TRUNKLINE], settings));
        cells
    }

    /// Memory, subscribed items, first full sets, restarts.
    fn footprint_cells(self) -> Vec<Cell> {
        let is_quick = self == Extent::Quick;
        let cell = |what: &str, variables: usize| {
            Settings::default()
                .with("what", what)
                .with("vars", variables)
        };
        let mut cells: Vec<Cell> = Vec::new();
        let points = if is_quick { 2 } else { footprint::POINTS.len() };
        for variables in &footprint::POINTS[..points] {
            let settings = cell("memory", *variables).with("type", footprint::TYPES[0]);
            cells.push((
                footprint::SCENARIO,
                &[footprint::memory::MAP, TRUNKLINE],
                settings,
            ));
        }
        let others = if is_quick { 1 } else { footprint::TYPES.len() };
        for kind in &footprint::TYPES[1..others] {
            for variables in &footprint::POINTS[..2] {
                let settings = cell("memory", *variables).with("type", kind);
                cells.push((footprint::SCENARIO, &[TRUNKLINE], settings));
            }
        }
        let connected = if is_quick {
            1
        } else {
            footprint::CONNECTED.len()
        };
        for variables in &footprint::CONNECTED[..connected] {
            for what in ["items-in-process", "items"] {
                cells.push((footprint::SCENARIO, &[TRUNKLINE], cell(what, *variables)));
            }
            let passes = if is_quick { 1 } else { 5 };
            let settings = cell("connect", *variables).with("passes", passes);
            cells.push((footprint::SCENARIO, &[RAW, TRUNKLINE], settings));
        }
        let restarts = if is_quick { 1 } else { 5 };
        let settings = cell("restart", footprint::RESTARTED).with("restarts", restarts);
        cells.push((footprint::SCENARIO, &[TRUNKLINE], settings));
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_of_a_cell_run_in_turn_and_rotate() {
        let first = Extent::Default.steps(1, &[], false);
        let second = Extent::Default.steps(2, &[], false);
        // Only the first repeat restarts an engine with gigabytes of history.
        assert_eq!(first.len(), second.len() + 1);
        assert_eq!((first[0].system, first[1].system), (RAW, TRUNKLINE));
        assert_eq!((second[1].system, second[2].system), (TRUNKLINE, RAW));
        assert_eq!(first[0].settings, first[1].settings);
        // W1: 15 cells, five of them with two systems, three more transports, and ticks at once.
        // W2: two call counts, one of them with three systems. W5 and W6: four numbers of variables and
        // three of subscribers with three systems.
        let published = 15 * 2 + 5 + 3 + 2 + (2 * 2 + 3) + (4 + 3) * 3;
        // W7: seven parts. W8: memory at four points, also of a map, and of five more types at two
        // points; items in two ways and first sets of two systems at two points; a restart.
        let memory = 4 * 2 + 5 * 2 + 2 * 4 + 1;
        // V9: five transports and reading. V10 to V12: three scenarios. W11 and W12: blocks of four
        // lengths.
        let others = 6 + 3 + 4 * 2;
        // Streams: six call sizes with seven systems; two ways to wait; two call sizes with journals;
        // sweeps; rates of two call sizes, raw with one.
        let streams = 6 * 7 + (4 + 5) + 2 * 6 + 3 + (2 + 1);
        // Recorder: seven chunk sizes with five systems, four of them with one more; four numbers
        // of devices with two systems. TDMS: four ways to read, and writing.
        let files = 7 * 5 + 4 + 4 * 2 + (4 + 1) * 2;
        // One cell of alarms. History: two numbers of variables with two systems, reading, and
        // a restart.
        let alarms = 1 + 2 * 2 + 1 + 1;
        assert_eq!(
            first.len(),
            published + 7 + memory + others + streams + files + alarms
        );
    }

    #[test]
    fn other_systems_run_the_comparable_cells() {
        let steps = Extent::Default.steps(1, &[], true);
        let of = |system: &str, scenario: &str| {
            let is_it = |step: &&Step| step.system == system && step.scenario == scenario;
            steps.iter().filter(is_it).count()
        };
        assert_eq!(
            (of("redis", "round_trip_grid"), of("redis", "call_cost")),
            (3, 1)
        );
        assert_eq!(
            (of("nats", "updates_to_one"), of("nats", "footprint")),
            (3, 0)
        );
        assert_eq!(
            (of("iceoryx2", "same_host"), of("zeromq", "updates_to_many")),
            (1, 3)
        );
        assert_eq!((of("hdf5", "recorder"), of("redis", "recorder")), (7, 0));
        // History: databases record, and DuckDB reads.
        let histories = ["questdb", "influxdb", "duckdb"].map(|system| of(system, "history"));
        assert_eq!(histories, [2, 2, 1]);
        // Streams: same host; all call sizes over a network; fewer with a server between the ends.
        let calls = (
            of("aeron", "stream_throughput"),
            of("zenoh", "stream_throughput"),
            of("redis", "stream_throughput"),
        );
        assert_eq!(calls, (3, 6, 3));
        assert_eq!(
            (
                of("iceoryx2", "stream_latency"),
                of("zeromq", "stream_latency")
            ),
            (1, 1)
        );
        let settings = &steps
            .iter()
            .find(|step| step.system == "redis")
            .unwrap()
            .settings;
        assert_eq!(settings.value::<String>("periods").unwrap(), "10:100");
    }

    #[test]
    fn plan_can_be_limited_to_one_scenario() {
        assert!(Extent::Full.periods().starts_with("10:334,50:334"));
        let steps = Extent::Full.steps(1, &["call_cost".to_owned()], false);
        assert!(steps.iter().all(|step| step.scenario == "call_cost"));
    }
}
