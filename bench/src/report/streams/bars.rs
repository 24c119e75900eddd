//! S1 to S6.

use super::super::bars::Bar;
use super::super::medians::ratio;
use super::super::peers::called;
use super::{at, journal, one_way, rate};
use crate::cells::RAW;
use crate::peers::{Peer, of};
use crate::record::Run;
use crate::streams::plan::NEAR_CALLS;
use crate::streams::{COPIED, IN_PLACE, SHARED_COPIED, SHARED_IN_PLACE, THROUGHPUT};

/// The fastest other system at a size of calls: of one machine, or over a network.
fn best(run: &Run, call: usize, near: bool) -> Option<(&'static str, f64)> {
    let rate_of = |peer: &'static Peer| Some((peer.name, rate(run, peer.system, call)?));
    of(THROUGHPUT)
        .filter(|peer| peer.is_near() == near)
        .filter_map(rate_of)
        .max_by(|one, other| one.1.total_cmp(&other.1))
}

/// All of them, each of the run of its scenario.
pub(in crate::report) fn bars(throughput: &Run, latency: &Run, journals: &Run) -> Vec<Bar> {
    let mut bars = over_tcp(throughput);
    bars.extend(delays(latency));
    bars.extend(same_host(throughput, latency));
    bars.extend(processors(throughput));
    bars.extend(journal::bars(journals));
    bars
}

/// S1, S2.
fn over_tcp(run: &Run) -> Vec<Bar> {
    let to_raw = |system, call| ratio(rate(run, system, call), rate(run, RAW, call));
    let mut bars = Vec::new();
    for (call, in_place, copied) in [
        (1000, 0.9, 0.7),
        (10_000, 0.95, 0.75),
        (100_000, 0.95, 0.75),
    ] {
        for (system, limit, how) in [(IN_PLACE, in_place, "in place"), (COPIED, copied, "copied")] {
            let what = format!("W3, {call} per call, {how}: x raw");
            bars.push(Bar::at_least("S1", &what, limit, to_raw(system, call)));
        }
    }
    let what = "W3, one per call: x raw, packed";
    bars.push(Bar::at_least("S2", what, 0.4, to_raw(COPIED, 1)));
    let best = best(run, 1, false);
    let what = format!("W3, one per call: x the best other system{}", called(best));
    let gain = ratio(rate(run, COPIED, 1), best.map(|best| best.1));
    bars.push(Bar::at_least("S2", &what, 5.0, gain));
    bars
}

/// S3.
fn delays(run: &Run) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (waiting, limit) in [("sleeping", 1.2), ("spinning", 1.3)] {
        let figure = |system, name| one_way(run, system, waiting).figure(name);
        let mean = ratio(figure(COPIED, "one_way_us"), figure(RAW, "one_way_us"));
        let what = format!("W4, {waiting}: mean to raw");
        bars.push(Bar::at_most("S3", &what, limit, mean));
        let tail = ratio(figure(COPIED, "p999_us"), figure(RAW, "p999_us"));
        let what = format!("W4, {waiting}: p99.9 to raw");
        bars.push(Bar::at_most("S3", &what, 1.0, tail));
    }
    bars
}

/// S4.
fn same_host(throughput: &Run, latency: &Run) -> Vec<Bar> {
    let mut bars = Vec::new();
    for call in NEAR_CALLS {
        let forms = [SHARED_COPIED, SHARED_IN_PLACE].into_iter();
        let ours = forms.filter_map(|system| rate(throughput, system, call));
        let best = best(throughput, call, true);
        let gain = ratio(ours.reduce(f64::max), best.map(|best| best.1));
        let what = format!(
            "W3, shared memory, {call} per call, the better form: x the best other system{}",
            called(best)
        );
        let limit = if call == 1 { 1.5 } else { 0.95 };
        bars.push(Bar::at_least("S4", &what, limit, gain));
    }
    let polled = one_way(latency, SHARED_COPIED, "spinning").figure("median_us");
    let what = "W4, shared memory, spinning: us one way";
    bars.push(Bar::at_most("S4", what, 0.2, polled));
    bars
}

/// S5.
fn processors(run: &Run) -> Vec<Bar> {
    let mut bars = Vec::new();
    for call in [10_000, 100_000] {
        for (system, how) in [(COPIED, "copied"), (IN_PLACE, "in place")] {
            let cpu = |system| at(run, system, call).figure("cpu_s_per_gb");
            let what = format!("W3, {call} per call, {how}: CPU per GB to raw");
            let to_raw = ratio(cpu(system), cpu(RAW));
            bars.push(Bar::at_most("S5", &what, 1.25, to_raw));
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    #[test]
    fn networks_are_beside_networks_and_memory_beside_memory() {
        let row = |(system, call, rate): &(&str, usize, f64)| {
            let mut row = Row::new(THROUGHPUT, system, format!("call={call}"), "cross");
            row.figure("elements_per_s", *rate);
            row
        };
        let rows = [
            (RAW, 1, 500.0),
            (COPIED, 1, 100.0),
            ("zeromq", 1, 10.0),
            ("zenoh", 1, 4.0),
            ("aeron", 1, 40.0),
            (SHARED_COPIED, 1, 80.0),
            (SHARED_IN_PLACE, 1, 30.0),
            (SHARED_COPIED, 100, 90.0),
            (SHARED_IN_PLACE, 100, 95.0),
            ("aeron", 100, 50.0),
            ("iceoryx2", 100, 100.0),
        ];
        let run = Run {
            machine: Machine::here("quick").unwrap(),
            rows: rows.iter().map(row).collect(),
        };
        let bars = bars(&run, &run, &run);
        let measured = |what: &str| {
            let bar = bars.iter().find(|bar| bar.what().contains(what));
            bar.unwrap_or_else(|| panic!("{what}")).measured()
        };
        assert_eq!(measured("one per call: x raw"), Some(0.2));
        assert_eq!(measured("best other system (ZeroMQ)"), Some(10.0));
        assert_eq!(measured("best other system (Aeron IPC)"), Some(2.0));
        assert_eq!(measured("best other system (iceoryx2)"), Some(0.95));
        assert_eq!(measured("shared memory, 10000"), None);
    }
}
