//! How far the bars of the design are: ratios of this run. The bars against peers need the peers.

use super::medians::ratio;
use super::{cells, figure, medians::Repeats, w2, w5};
use crate::cells::{RAW, TRUNKLINE, TRUNKLINE_BATCHED};
use crate::record::Run;
use crate::w2::{CALLS, OPERATIONS, Operation};
use crate::w5::VARIABLES;

/// A bar and where this run stands.
struct Bar {
    name: &'static str,
    what: String,
    /// `true`: at most; `false`: at least.
    at_most: bool,
    limit: f64,
    measured: Option<f64>,
}

pub(super) fn section(run: &Run) -> String {
    let mut text = String::from(
        "\n## Distance to the bars\n\n\
         The bars belong to later work; they are here so that the distance is known. Bars against other \
         systems are not in this table: those are measured beside Trunkline when they are due.\n\n\
         | bar | what | asked | measured | |\n|---|---|---:|---:|---|\n",
    );
    for bar in bars(run) {
        let is_met = bar.measured.map(|measured| match bar.at_most {
            true => measured <= bar.limit,
            false => measured >= bar.limit,
        });
        let sign = if bar.at_most { "<=" } else { ">=" };
        text.push_str(&cells(&[
            bar.name.to_owned(),
            bar.what,
            format!("{sign} {}", bar.limit),
            figure(bar.measured),
            match is_met {
                Some(true) => "met",
                Some(false) => "not yet",
                None => "not measured",
            }
            .to_owned(),
        ]));
    }
    text
}

fn bars(run: &Run) -> Vec<Bar> {
    let w1 = |system, case: &str, name| Repeats::find(run, "w1", system, case).figure(name);
    let mean_ratio = |case: &str| ratio(w1(TRUNKLINE, case, "mean_us"), w1(RAW, case, "mean_us"));
    let [sync_put, async_put, sync_get, async_get] = OPERATIONS;
    let w2 = |system, operation, name| w2::find(run, system, operation, CALLS).figure(name);
    let elapsed = |system, operation| w2(system, operation, "elapsed_ms");
    let to_raw = |operation| ratio(elapsed(TRUNKLINE, operation), elapsed(RAW, operation));
    let gain =
        |sync: Operation, packed| ratio(elapsed(TRUNKLINE, sync), elapsed(TRUNKLINE, packed));
    let gain_of_raw = |sync: Operation, packed| {
        ratio(
            gain(sync, packed),
            ratio(elapsed(RAW, sync), elapsed(RAW, packed)),
        )
    };
    let messages = |sync: Operation, packed| {
        let packets = |operation| w2(TRUNKLINE, operation, "loopback_packets");
        ratio(packets(sync), packets(packed))
    };
    let at_most = |name, what: &str, limit, measured| Bar {
        name,
        what: what.to_owned(),
        at_most: true,
        limit,
        measured,
    };
    let at_least = |name, what: &str, limit, measured| Bar {
        name,
        what: what.to_owned(),
        at_most: false,
        limit,
        measured,
    };
    let never = w1(TRUNKLINE, "n=500 t=10 type=i32", "never_notified_percent");
    let mut bars = vec![
        at_most(
            "V1",
            "W1, 1 variable, 10 ms: mean to raw",
            1.2,
            mean_ratio("n=1 t=10 type=i32"),
        ),
        at_most(
            "V2",
            "W1, 500 variables, 10 ms: mean to raw",
            1.6,
            mean_ratio("n=500 t=10 type=i32"),
        ),
        at_most("V2", "the same: never notified, %", 0.0, never),
        at_most(
            "V2",
            "W1, 500 variables, 200 ms: mean to raw",
            1.6,
            mean_ratio("n=500 t=200 type=i32"),
        ),
        at_most("V3", "W2, synchronous put: to raw", 1.1, to_raw(sync_put)),
        at_most("V3", "W2, synchronous get: to raw", 1.1, to_raw(sync_get)),
        at_most(
            "V4",
            "W2, asynchronous put: to raw packed",
            2.5,
            to_raw(async_put),
        ),
        at_most(
            "V4",
            "W2, asynchronous get: to raw packed",
            2.5,
            to_raw(async_get),
        ),
        at_least(
            "V4",
            "puts, synchronous : asynchronous",
            15.6,
            gain(sync_put, async_put),
        ),
        at_least(
            "V4",
            "gets, synchronous : asynchronous",
            8.2,
            gain(sync_get, async_get),
        ),
        at_least(
            "V4",
            "puts, that to raw's own ratio",
            0.25,
            gain_of_raw(sync_put, async_put),
        ),
        at_least(
            "V4",
            "gets, that to raw's own ratio",
            0.25,
            gain_of_raw(sync_get, async_get),
        ),
        at_least(
            "V4",
            "puts, messages synchronous : asynchronous",
            100.0,
            messages(sync_put, async_put),
        ),
        at_least(
            "V4",
            "gets, messages synchronous : asynchronous",
            100.0,
            messages(sync_get, async_get),
        ),
    ];
    for (name, system, per_call, limit) in [
        ("V5a", TRUNKLINE, "one per call", 0.06),
        ("V5b", TRUNKLINE_BATCHED, "100 per call", 0.2),
    ] {
        for variables in VARIABLES {
            let rate = |system| w5::find(run, system, variables).figure("updates_per_s");
            let what = format!("W5, {variables} variables, {per_call}: x raw");
            bars.push(at_least(name, &what, limit, ratio(rate(system), rate(RAW))));
        }
    }
    bars
}
