//! Compares random sequences of operations with a reference that keeps every update in a list.
//!
//! There are several writers, three consumers that share their feeds (two of them have a peer that
//! confirms, two accept encoded runs), every contract with and without `only_changes`, full
//! buffers, credit, resumption and undeployment. After every step, every ledger balances and equals
//! that of the reference. Every delivery is the one that the reference expects, with the expected
//! losses. A consumer that takes everything has nothing pending afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod reference;
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use reference::{Expected, Model};
use rig::{EPOCH, Recorder, Rig, define};
use trunkline_engine::{
    Attempt, Caller, Consumer, Refusal, Subscribe, Variable, Wakes, Write, WriteOutcome,
};
use trunkline_types::{Contract, DataType, Position, Properties, Quality, Reason, Value};

const VARIABLES: usize = 3;
const CONSUMERS: usize = 3;
const STALL: Duration = Duration::from_millis(20);
/// Bound in bytes that is never reached, but is counted.
const BYTES: usize = 1 << 30;
const PERIOD: Duration = Duration::from_millis(10);

/// Contract and `only_changes` of each subscription number.
const TERMS: [(Contract, bool); 13] = [
    (Contract::Latest, false),
    (Contract::Latest, true),
    (Contract::Last(1), false),
    (Contract::Last(4), false),
    (Contract::Last(3), true),
    (Contract::First(1), false),
    (Contract::First(3), true),
    (
        Contract::All {
            elements: 1,
            bytes: 1 << 20,
        },
        false,
    ),
    (
        Contract::All {
            elements: 5,
            bytes: 1 << 20,
        },
        false,
    ),
    (
        Contract::All {
            elements: 3,
            bytes: 1 << 20,
        },
        true,
    ),
    (Contract::Sampled(PERIOD), false),
    (Contract::Sampled(PERIOD), true),
    (
        Contract::All {
            elements: 40,
            bytes: 1 << 20,
        },
        false,
    ),
];
/// The subscription number with the most shared updates.
const SHARED: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    Write {
        variable: usize,
        value: u8,
        session: u32,
        doubtful: bool,
    },
    Qualify {
        variable: usize,
        doubtful: bool,
    },
    Subscribe {
        consumer: usize,
        id: usize,
        variable: usize,
        resume: Option<(bool, u64)>,
    },
    Unsubscribe {
        consumer: usize,
        id: usize,
        variable: Option<usize>,
    },
    Drain {
        consumer: usize,
        budget: Option<usize>,
    },
    Confirm {
        consumer: usize,
        share: u8,
    },
    Grant {
        consumer: usize,
        id: usize,
        more: u64,
    },
    Wait {
        millis: u64,
    },
    Poll {
        consumer: usize,
    },
    Redeploy {
        variable: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let variable = 0..VARIABLES;
    let consumer = 0..CONSUMERS;
    let id = 0..TERMS.len();
    prop_oneof![
        24 => (variable.clone(), 0..3u8, 1..4u32, any::<bool>()).prop_map(
            |(variable, value, session, doubtful)| {
                Step::Write { variable, value, session, doubtful: doubtful && value == 0 }
            }
        ),
        1 => (variable.clone(), any::<bool>())
            .prop_map(|(variable, doubtful)| Step::Qualify { variable, doubtful }),
        8 => (
            consumer.clone(),
            id.clone(),
            variable.clone(),
            prop::option::weighted(0.3, (prop::bool::weighted(0.8), 0..30u64)),
        )
            .prop_map(|(consumer, id, variable, resume)| {
                Step::Subscribe { consumer, id, variable, resume }
            }),
        2 => (consumer.clone(), id.clone(), prop::option::of(variable.clone()))
            .prop_map(|(consumer, id, variable)| Step::Unsubscribe { consumer, id, variable }),
        8 => (consumer.clone(), prop::option::of(0..12usize))
            .prop_map(|(consumer, budget)| Step::Drain { consumer, budget }),
        2 => (consumer.clone(), any::<u8>())
            .prop_map(|(consumer, share)| Step::Confirm { consumer, share }),
        2 => (consumer.clone(), 7..10usize, 0..6u64)
            .prop_map(|(consumer, id, more)| Step::Grant { consumer, id, more }),
        3 => (0..15u64).prop_map(|millis| Step::Wait { millis }),
        3 => consumer.prop_map(|consumer| Step::Poll { consumer }),
        1 => variable.prop_map(|variable| Step::Redeploy { variable }),
    ]
}

/// Mostly steps on subscriptions of the same variables, above all on the larger `all` subscription.
fn sharing_step() -> impl Strategy<Value = Step> {
    let (variable, consumer) = (0..VARIABLES, 0..CONSUMERS);
    let id = prop_oneof![1 => 7..10usize, 6 => Just(SHARED)];
    prop_oneof![
        30 => (variable.clone(), 0..3u8, 1..4u32).prop_map(|(variable, value, session)| {
            Step::Write { variable, value, session, doubtful: false }
        }),
        8 => (
            consumer.clone(),
            id.clone(),
            variable.clone(),
            prop::option::weighted(0.1, (any::<bool>(), 0..30u64)),
        )
            .prop_map(|(consumer, id, variable, resume)| {
                Step::Subscribe { consumer, id, variable, resume }
            }),
        1 => (consumer.clone(), id.clone(), prop::option::of(variable.clone()))
            .prop_map(|(consumer, id, variable)| Step::Unsubscribe { consumer, id, variable }),
        14 => (consumer.clone(), prop::option::weighted(0.4, 0..12usize))
            .prop_map(|(consumer, budget)| Step::Drain { consumer, budget }),
        2 => (consumer.clone(), any::<u8>())
            .prop_map(|(consumer, share)| Step::Confirm { consumer, share }),
        1 => (consumer, id, 0..200u64)
            .prop_map(|(consumer, id, more)| Step::Grant { consumer, id, more }),
        2 => (0..15u64).prop_map(|millis| Step::Wait { millis }),
        1 => (variable, prop::bool::weighted(0.3)).prop_map(|(variable, redeploy)| match redeploy {
            true => Step::Redeploy { variable },
            false => Step::Qualify { variable, doubtful: true },
        }),
    ]
}

/// The system under test and its reference.
struct Pair {
    rig: Rig,
    model: Model,
    consumers: Vec<Consumer>,
    /// The deployed variables, and their numbers in the reference.
    live: Vec<(Arc<Variable>, usize)>,
    /// Number of accepted runs that another consumer had encoded.
    runs: usize,
    /// The table of last values; only in some tests.
    mirrored: Option<rig::Mirrored>,
}

/// Returns the stall time of a variable: writers wait for every second one.
fn stall_of(variable: usize) -> Duration {
    if variable % 2 == 1 {
        STALL
    } else {
        Duration::ZERO
    }
}

impl Pair {
    fn new() -> Self {
        let rig = Rig::new();
        let consumers = vec![
            rig.consumer().queue_bytes_max(BYTES).sharing_feeds(),
            rig.consumer()
                .confirmed_by_peer()
                .queue_bytes_max(BYTES)
                .sharing_feeds(),
            rig.consumer()
                .confirmed_by_peer()
                .queue_bytes_max(BYTES)
                .sharing_feeds(),
        ];
        let mut pair = Self {
            rig,
            model: Model::default(),
            consumers,
            live: Vec::new(),
            runs: 0,
            mirrored: None,
        };
        pair.model.confirms(1);
        pair.model.confirms(2);
        for variable in 0..VARIABLES {
            let deployed = pair.deploy(variable);
            pair.live.push(deployed);
        }
        pair
    }

    fn deploy(&mut self, variable: usize) -> (Arc<Variable>, usize) {
        let mut properties = Properties::new(DataType::F64);
        properties.stall = stall_of(variable);
        let library = format!("lib{variable}");
        let handles = self.rig.deploy(&library, vec![define("x", properties)]);
        let former = self.live.get(variable).map(|(_, number)| *number);
        let number = self.model.deploy(handles[0], stall_of(variable), former);
        (self.rig.variable(&format!("{library}/x")), number)
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Write {
                variable,
                value,
                session,
                doubtful,
            } => {
                self.write(variable, f64::from(value), session, doubtful);
            }
            Step::Qualify { variable, doubtful } => self.qualify(variable, doubtful),
            Step::Subscribe {
                consumer,
                id,
                variable,
                resume,
            } => {
                self.subscribe(consumer, id, variable, resume);
            }
            Step::Unsubscribe {
                consumer,
                id,
                variable,
            } => {
                self.unsubscribe(consumer, id as u32, variable);
            }
            Step::Drain { consumer, budget } => self.drain(consumer, budget),
            Step::Confirm { consumer, share } => {
                let records = self.model.unconfirmed(consumer) * usize::from(share) / 255;
                assert!(self.consumers[consumer].confirm(records as u64));
                self.model.confirm(consumer, records);
            }
            Step::Grant { consumer, id, more } => {
                self.consumers[consumer].grant(id as u32, more);
                self.model.grant((consumer, id as u32), more);
            }
            Step::Wait { millis } => self.rig.advance(Duration::from_millis(millis)),
            Step::Poll { consumer } => {
                self.consumers[consumer].poll(self.rig.now());
            }
            Step::Redeploy { variable } => {
                let library = format!("lib{variable}");
                self.rig
                    .engine
                    .libraries()
                    .undeploy(&library, self.rig.now(), self.rig.wall(), &mut Wakes::new())
                    .expect("the library is deployed");
                self.model.undeploy(self.live[variable].1);
                self.live[variable] = self.deploy(variable);
            }
        }
    }

    fn write(&mut self, variable: usize, value: f64, session: u32, doubtful: bool) {
        let (now, wall) = (self.rig.now(), self.rig.wall());
        let quality = quality(doubtful);
        let number = self.live[variable].1;
        let expected = self.model.write(number, value, quality, now, true);
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.quality = Some(quality);
        let caller = Caller::local(session, 1000);
        let target = &self.live[variable].0;
        let mut wakes = Wakes::new();
        let attempt = self
            .rig
            .engine
            .try_write(&caller, now, wall, target, &write, &mut wakes);
        let got = match attempt {
            Attempt::Done(WriteOutcome::Applied(sequence)) => Expected::Applied(sequence),
            Attempt::Done(WriteOutcome::Refused(Refusal::Gone)) => Expected::Gone,
            Attempt::WouldBlock { until } => Expected::WouldBlock(until),
            other => panic!("{other:?}"),
        };
        assert_eq!(got, expected);
        assert!(target.ledger().is_balanced());
    }

    fn qualify(&mut self, variable: usize, doubtful: bool) {
        let (now, wall) = (self.rig.now(), self.rig.wall());
        let (target, number) = &self.live[variable];
        let quality = quality(doubtful);
        let sample = target.sample();
        let shown = match target.sequence() > 0 && sample.quality.has_value() {
            true => quality,
            false => quality.without_value(),
        };
        if target.sequence() == 0 || sample.quality != shown {
            let value = sample.value.as_f64().expect("a number");
            self.model.write(*number, value, shown, now, false);
        }
        let mut wakes = Wakes::new();
        self.rig
            .engine
            .providers()
            .set_quality(target.handle(), quality, now, wall, &mut wakes);
    }

    fn subscribe(
        &mut self,
        consumer: usize,
        id: usize,
        variable: usize,
        resume: Option<(bool, u64)>,
    ) {
        let (contract, only_changes) = TERMS[id];
        let resume = resume.map(|(same, sequence)| {
            let epoch = if same { EPOCH } else { EPOCH - 1 };
            Position { epoch, sequence }
        });
        let (target, number) = &self.live[variable];
        let id = id as u32;
        let wanted = Subscribe {
            subscription: id,
            contract,
            only_changes,
            resume,
            first_is_free: false,
        };
        self.consumers[consumer]
            .subscribe(&self.rig.caller, target, wanted)
            .expect("the variable can be subscribed");
        self.model
            .subscribe((consumer, id), contract, only_changes, *number, resume);
    }

    fn unsubscribe(&mut self, consumer: usize, id: u32, variable: Option<usize>) {
        let mut wakes = Wakes::new();
        let sut = &mut self.consumers[consumer];
        match variable {
            None => {
                sut.unsubscribe(id, None, &mut wakes);
                self.model.unsubscribe((consumer, id), None);
            }
            Some(variable) => {
                let (target, number) = &self.live[variable];
                let closed = sut.unsubscribe(id, Some(&[target.handle()]), &mut wakes);
                let had = self.model.is_subscribed((consumer, id), *number);
                assert_eq!(closed, usize::from(had));
                if had {
                    self.model.unsubscribe((consumer, id), Some(*number));
                }
            }
        }
    }

    fn drain(&mut self, consumer: usize, budget: Option<usize>) {
        let mut sink = Recorder::wanting(budget);
        sink.takes_runs = consumer > 0;
        let more = self.consumers[consumer].drain(&mut sink, &mut Wakes::new());
        for event in &sink.events {
            self.model.take_event(consumer, event);
        }
        self.runs += sink.runs;
        if !more {
            self.model.assert_quiet(consumer);
            assert!(self.consumers[consumer].is_idle());
        }
        assert!(more || budget.is_none_or(|budget| sink.events.len() <= budget + VARIABLES * 12));
    }

    fn check_ledgers(&self) {
        for (consumer, sut) in self.consumers.iter().enumerate() {
            let items = self.model.items(consumer);
            assert_eq!(sut.item_count(), items.len());
            for (id, number) in items {
                let handle = self.model.variables[number].handle;
                let ledger = sut.ledger(id, handle).expect("the subscription exists");
                assert!(ledger.is_balanced(), "{ledger:?}");
                assert_eq!(ledger, self.model.ledger((consumer, id), number));
            }
        }
    }

    fn check_table(&self) {
        if let Some(mirrored) = &self.mirrored {
            mirrored.check(&self.rig);
        }
    }

    /// At the end, grants all credit, lets all periods pass and takes everything. Nothing may
    /// remain.
    fn settle(&mut self) {
        for consumer in 0..CONSUMERS {
            for id in [7, 8, 9, SHARED as u32] {
                self.consumers[consumer].grant(id, 1 << 40);
                self.model.grant((consumer, id), 1 << 40);
            }
            self.consumers[consumer].poll(self.rig.now());
            self.rig.advance(PERIOD * 3);
            self.consumers[consumer].poll(self.rig.now());
            self.drain(consumer, None);
            self.model.assert_sampled_quiet(consumer);
        }
        self.check_ledgers();
    }
}

fn quality(doubtful: bool) -> Quality {
    if doubtful {
        Quality::uncertain(Reason::Estimated)
    } else {
        Quality::GOOD
    }
}

/// Number of runs shared in all test cases together.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Behaviour: B-01, B-03, B-05, B-06, B-08.
#[test]
fn every_update_of_a_shared_feed_is_accounted_for_in_every_history() {
    shared_histories();
    let runs = RUNS.load(Ordering::Relaxed);
    assert!(runs > 100, "only {runs} runs were shared");
}

proptest! {
    fn shared_histories(steps in prop::collection::vec(sharing_step(), 1..400)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.run(step);
            pair.check_ledgers();
        }
        pair.settle();
        RUNS.fetch_add(pair.runs, Ordering::Relaxed);
    }

    /// Behaviour: B-01, B-02, B-03, B-05, B-08.
    #[test]
    fn every_update_is_accounted_for_in_every_history(
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.run(step);
            pair.check_ledgers();
        }
        pair.settle();
    }

    /// Like the test above, with a table of last values to which some variables are added late, and
    /// from which all are removed.
    #[test]
    fn a_table_has_the_newest_update_in_every_history(
        steps in prop::collection::vec(step(), 1..120),
        begins in 0..60_usize,
        ends in 0..120_usize,
    ) {
        let mut pair = Pair::new();
        for (number, step) in steps.iter().enumerate() {
            if number == begins {
                pair.mirrored = Some(rig::Mirrored::new(&pair.rig));
            }
            if number == ends && let Some(mirrored) = pair.mirrored.take() {
                mirrored.end();
            }
            pair.run(step);
            pair.check_ledgers();
            let (now, wall) = (pair.rig.now(), pair.rig.wall());
            pair.rig.engine.poll(now, wall, &mut Wakes::new());
            pair.check_table();
        }
        pair.settle();
        pair.check_table();
    }
}
