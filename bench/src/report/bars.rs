//! How far the bars of the design are: ratios of one run each. The bars against other systems need
//! a run in which they took part.

use super::medians::ratio;
use super::results::Results;
use super::{
    blocks, cells, figure, medians::Repeats, recorder, same_host, streams, tdms, w2, w5, w7, w8,
};
use crate::cells::{RAW, TRUNKLINE, TRUNKLINE_BATCHED, TRUNKLINE_SHM, TRUNKLINE_SPINNING};
use crate::w2::{CALLS, OPERATIONS, Operation};
use crate::w5::VARIABLES;

/// A bar and where this run stands.
pub(super) struct Bar {
    name: &'static str,
    what: String,
    /// `true`: at most; `false`: at least.
    at_most: bool,
    limit: f64,
    measured: Option<f64>,
}

impl Bar {
    /// A ratio or figure that must not be larger than `limit`.
    pub fn at_most(name: &'static str, what: &str, limit: f64, measured: Option<f64>) -> Self {
        Self {
            name,
            what: what.to_owned(),
            at_most: true,
            limit,
            measured,
        }
    }

    /// A ratio or figure that must not be smaller than `limit`.
    pub fn at_least(name: &'static str, what: &str, limit: f64, measured: Option<f64>) -> Self {
        Self {
            at_most: false,
            ..Self::at_most(name, what, limit, measured)
        }
    }

    /// What it is about.
    #[cfg(test)]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Where the run stands; `None` when that was not measured.
    #[cfg(test)]
    pub fn measured(&self) -> Option<f64> {
        self.measured
    }
}

/// The table; `counted` is the content of `bench/instructions.toml`.
pub(super) fn section(results: &Results, counted: &str) -> String {
    let mut text = String::from(
        "\n## Distance to the bars\n\n\
         Where a bar is not met yet, the distance is known. Those against other systems are to the best \
         of the same run; which one that was is in brackets. Instructions are those of \
         `bench/instructions.toml`.\n\n\
         | bar | what | asked | measured | |\n|---|---|---:|---:|---|\n",
    );
    for bar in bars(results).into_iter().chain([fan_out(counted)]) {
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

/// What several subscribers share is done once.
fn fan_out(counted: &str) -> Bar {
    let measured = |path| crate::counted::measured(counted, path);
    let (several, one) = (measured("fan-out-32"), measured("fan-out-1"));
    // A ratio alone would look better where one subscriber costs more.
    let figure = |figure: Option<f64>| figure.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let what = format!(
        "engine instructions per delivered update, 32 subscribers : 1 ({} : {})",
        figure(several),
        figure(one)
    );
    Bar::at_most("V6", &what, 0.35, ratio(several, one))
}

fn bars(results: &Results) -> Vec<Bar> {
    let w1 =
        |system, case: &str, name| Repeats::find(results.of("w1"), "w1", system, case).figure(name);
    let mean_ratio = |case: &str| ratio(w1(TRUNKLINE, case, "mean_us"), w1(RAW, case, "mean_us"));
    let [sync_put, async_put, sync_get, async_get] = OPERATIONS;
    let w2 =
        |system, operation, name| w2::find(results.of("w2"), system, operation, CALLS).figure(name);
    let elapsed = |system, operation| w2(system, operation, "elapsed_ms");
    let to_raw = |operation| ratio(elapsed(TRUNKLINE, operation), elapsed(RAW, operation));
    let way_to_raw = |system, operation| ratio(elapsed(system, operation), elapsed(RAW, operation));
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
    let never = w1(TRUNKLINE, "n=500 t=10 type=i32", "never_notified_percent");
    let mut bars = vec![
        Bar::at_most(
            "V1",
            "W1, 1 variable, 10 ms: mean to raw",
            1.2,
            mean_ratio("n=1 t=10 type=i32"),
        ),
        Bar::at_most(
            "V2",
            "W1, 500 variables, 10 ms: mean to raw",
            1.6,
            mean_ratio("n=500 t=10 type=i32"),
        ),
        Bar::at_most("V2", "the same: never notified, %", 0.0, never),
        Bar::at_most(
            "V2",
            "W1, 500 variables, 200 ms: mean to raw",
            1.6,
            mean_ratio("n=500 t=200 type=i32"),
        ),
        Bar::at_most("V3", "W2, synchronous put: to raw", 1.1, to_raw(sync_put)),
        Bar::at_most("V3", "W2, synchronous get: to raw", 1.1, to_raw(sync_get)),
        Bar::at_most(
            "V3",
            "W2, synchronous put, both ends spinning: to sleeping raw",
            0.4,
            way_to_raw(TRUNKLINE_SPINNING, sync_put),
        ),
        Bar::at_most(
            "V3",
            "W2, synchronous get, both ends spinning: to sleeping raw",
            0.4,
            way_to_raw(TRUNKLINE_SPINNING, sync_get),
        ),
        Bar::at_most(
            "V3",
            "W2, synchronous put, same host: to sleeping raw",
            0.1,
            way_to_raw(TRUNKLINE_SHM, sync_put),
        ),
        Bar::at_most(
            "V3",
            "W2, synchronous get, same host: to sleeping raw",
            0.1,
            way_to_raw(TRUNKLINE_SHM, sync_get),
        ),
        Bar::at_most(
            "V4",
            "W2, asynchronous put: to raw packed",
            2.5,
            to_raw(async_put),
        ),
        Bar::at_most(
            "V4",
            "W2, asynchronous get: to raw packed",
            2.5,
            to_raw(async_get),
        ),
        Bar::at_least(
            "V4",
            "puts, synchronous : asynchronous",
            15.6,
            gain(sync_put, async_put),
        ),
        Bar::at_least(
            "V4",
            "gets, synchronous : asynchronous",
            8.2,
            gain(sync_get, async_get),
        ),
        Bar::at_least(
            "V4",
            "puts, that to raw's own ratio",
            0.25,
            gain_of_raw(sync_put, async_put),
        ),
        Bar::at_least(
            "V4",
            "gets, that to raw's own ratio",
            0.25,
            gain_of_raw(sync_get, async_get),
        ),
        Bar::at_least(
            "V4",
            "puts, messages synchronous : asynchronous",
            100.0,
            messages(sync_put, async_put),
        ),
        Bar::at_least(
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
            let rate =
                |system| w5::find(results.of("w5"), system, variables).figure("updates_per_s");
            let what = format!("W5, {variables} variables, {per_call}: x raw");
            bars.push(Bar::at_least(
                name,
                &what,
                limit,
                ratio(rate(system), rate(RAW)),
            ));
        }
    }
    bars.extend(w5::bars_beside(results.of("w5"), results.of("w6")));
    bars.extend(w7::bars(results.of(crate::w7::SCENARIO)));
    bars.extend(w8::bars(results.of(crate::w8::SCENARIO)));
    bars.extend(same_host::bars(|scenario| results.of(scenario)));
    bars.extend(blocks::bars(
        results.of(crate::blocks::FIFO),
        results.of(crate::blocks::WAVEFORM),
    ));
    bars.extend(streams::bars(
        results.of(crate::streams::THROUGHPUT),
        results.of(crate::streams::LATENCY),
        results.of(crate::streams::JOURNALS),
    ));
    bars.extend(recorder::bars(results.of(crate::recorder::SCENARIO)));
    bars.extend(tdms::bars(
        results.of(crate::tdms::READING),
        results.of(crate::tdms::WRITING),
    ));
    bars
}
