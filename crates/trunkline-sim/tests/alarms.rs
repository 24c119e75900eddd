//! Runs a few seeds of the simulation of alarms, and tests of a million changes of alarms. `make test` also
//! runs 50 simulated hours.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::alarms::{AlarmSaver, AlarmStorage};
use trunkline_engine::store::{StoreError, StoreErrorKind};
use trunkline_engine::{
    ALARM_CHANGES_MAX, Caller, Consumer, Delivery, Engine, EngineOptions, Sink, Subscribe,
    Variable, Wake, Wakes, Write,
};
use trunkline_sim::alarms::plan::Plan;
use trunkline_sim::run::{self, run};
use trunkline_types::alarm::{
    AlarmDefinition, AlarmEntry, AlarmKind, AlarmState, JournalEvent, LimitLevel, Operand,
    SavedAlarm,
};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Moment, Properties, Tick, Timestamp, Value,
    VariableDefinition,
};

type Outcome = run::Outcome<Plan>;

/// Each seed draws its own faults. The invariants are listed in `docs/reference/simulation.md`.
///
/// Behaviour: SV-04, H-06, H-07, H-08, H-09, H-10, H-11.
#[test]
fn every_change_of_an_alarm_is_reported_once_under_faults() {
    let passed = |seed| {
        let outcome = run(Plan::drawn(seed), false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        outcome
    };
    let outcomes: Vec<Outcome> = (0..60).map(passed).collect();
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    // The checker had something to check.
    assert!(sum(|o| o.totals.changes) > 3_000);
    assert!(sum(|o| o.totals.acts) > 500);
    assert!(sum(|o| o.totals.continued) > 500);
    assert!(sum(|o| o.totals.read) > 3_000);
    assert!(sum(|o| o.totals.followed) > 3_000);
    assert!(sum(|o| o.totals.failed) > 20);
    assert!(sum(|o| o.faults.values().sum::<u64>()) > 500);
}

#[test]
fn a_seed_of_alarms_replays_bit_for_bit() {
    for seed in [3, 11] {
        let (first, again) = (run(Plan::drawn(seed), false), run(Plan::drawn(seed), false));
        assert_eq!(
            (first.trace.hash(), first.trace.events, first.totals),
            (again.trace.hash(), again.trace.events, again.totals),
            "seed {seed}"
        );
    }
}

const ALARMS: usize = 1_000;
const CHANGES: u64 = 1_000_000;
/// Number of changes between two turns of the subscribers.
const TURN: u64 = 10_000;

/// A store that counts entries. It fails while `is_failing` is true.
#[derive(Default)]
struct CountingStore {
    is_failing: bool,
    /// Number of the last entry.
    end: u64,
    /// Number of changes with an entry of their own.
    reported: u64,
    /// Number of changes that entries report as lost.
    lost: u64,
    /// Largest number of entries in one step.
    entries_max: usize,
}

impl AlarmStorage for CountingStore {
    fn last_entry(&mut self) -> Result<u64, StoreError> {
        Ok(self.end)
    }

    fn keep(
        &mut self,
        _states: &[SavedAlarm],
        entries: &[AlarmEntry],
        _moment: Moment,
    ) -> Result<u64, StoreError> {
        self.entries_max = self.entries_max.max(entries.len());
        if self.is_failing {
            return Err(StoreError {
                location: "a storm".to_owned(),
                kind: StoreErrorKind::Full,
            });
        }
        for entry in entries {
            assert_eq!(entry.number, self.end + 1, "without a gap");
            self.end += 1;
            match entry.event {
                JournalEvent::Lost(count) => self.lost += count,
                _ => self.reported += 1,
            }
        }
        Ok(self.end)
    }
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// Counts the states that a subscriber receives, and those reported as missed.
#[derive(Default)]
struct Received {
    states: u64,
    missed: u64,
    overruns: u64,
}

impl Sink for Received {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.states += 1;
        self.missed += delivery.lost.count().expect("there was no restart");
    }

    fn overrun(&mut self, _subscription: u32, items: &[EndedItem]) {
        self.overruns += 1;
        self.missed += items.iter().map(|item| item.lost).sum::<u64>();
    }

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}

struct Storm {
    engine: Engine,
    variables: Vec<Arc<Variable>>,
    now: Tick,
}

impl Storm {
    fn new() -> Self {
        let mut properties = Properties::new(DataType::F64);
        let mut alarm = AlarmDefinition::new(AlarmKind::Limit {
            level: LimitLevel::Hi,
            limit: Operand::Constant(80.0),
            deadband: 0.0,
        });
        alarm.acknowledge = trunkline_types::alarm::Acknowledge::Auto;
        properties.alarms.push(alarm);
        let properties = Arc::new(properties);
        let variables = (0..ALARMS).map(|number| VariableDefinition {
            path: format!("v{number}"),
            properties: Arc::clone(&properties),
        });
        let library = LibraryDefinition {
            name: "storm".to_owned(),
            description: String::new(),
            variables: variables.collect(),
        };
        let engine = Engine::new(EngineOptions::new("storm", 1));
        let now = Tick::from_nanos(1_000_000_000);
        let handles = engine.libraries().deploy(&library, now, wall(now)).unwrap();
        let variables = handles
            .iter()
            .map(|handle| engine.variable(*handle).unwrap());
        Self {
            variables: variables.collect(),
            engine,
            now,
        }
    }

    /// Makes the change with this number. All alarms are raised one after another, and then cleared.
    fn change(&mut self, number: u64) {
        self.now = self.now.saturating_add(Duration::from_micros(10));
        let variable = &self.variables[number as usize % ALARMS];
        let is_raised = (number / ALARMS as u64).is_multiple_of(2);
        let value = Value::F64(if is_raised { 90.0 } else { 10.0 });
        let (caller, write) = (Caller::local(1, 0), Write::value(&value));
        let mut wakes = Wakes::new();
        let _attempt = self.engine.try_write(
            &caller,
            self.now,
            wall(self.now),
            variable,
            &write,
            &mut wakes,
        );
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: wall(self.now),
        }
    }
}

fn wall(now: Tick) -> Timestamp {
    Timestamp::from_nanos(1_790_000_000_000_000_000 + now.as_nanos() as i64)
}

/// The journal contains each of a million changes, or counts it as lost, even if the store fails half of the
/// time. The number of waiting changes is bounded.
///
/// Behaviour: H-11.
#[test]
fn storm_of_a_million_changes_is_in_the_journal_or_counted() {
    for fails in [false, true] {
        let mut storm = Storm::new();
        let mut keeper = AlarmSaver::new(&storm.engine, Box::new(NoWake), true);
        let mut store = CountingStore::default();
        for number in 0..CHANGES {
            storm.change(number);
            if (number + 1) % TURN == 0 {
                store.is_failing = fails && (CHANGES / 4..CHANGES * 3 / 4).contains(&number);
                let kept = keeper.keep(&mut store, storm.moment());
                assert_eq!(kept.is_err(), store.is_failing);
            }
        }
        keeper.keep(&mut store, storm.moment()).unwrap();
        assert_eq!(store.reported + store.lost, CHANGES, "fails: {fails}");
        assert_eq!(store.lost, keeper.lost());
        assert_eq!(store.lost > 0, fails);
        assert!(
            store.entries_max <= ALARM_CHANGES_MAX + 1,
            "{} at once",
            store.entries_max
        );
        let states = storm.engine.alarms().list(&Caller::engine(), None, ALARMS);
        let is_normal = |state: AlarmState| state == AlarmState::Normal;
        assert!(states.iter().all(|status| is_normal(status.record.state)));
    }
}

/// A subscriber to the states receives every change, or the subscription ends and reports the number of
/// missed changes.
///
/// Behaviour: SV-04, B-05.
#[test]
fn storm_of_a_million_changes_is_received_or_the_subscription_ends() {
    for turn in [TURN, CHANGES / 2] {
        let mut storm = Storm::new();
        let contract = Contract::All {
            elements: 100_000,
            bytes: 64 << 20,
        };
        let caller = Caller::local(2, 0);
        let mut consumer = Consumer::service(storm.engine.clone(), Box::new(NoWake));
        for number in 0..ALARMS {
            let name = format!("storm/v{number}#alarm.hi.state");
            let (now, wall) = (storm.now, wall(storm.now));
            let field = storm
                .engine
                .fields()
                .open(&caller, &name, now, wall)
                .unwrap();
            let request = Subscribe::new(1, contract);
            consumer.subscribe(&caller, &field, request).unwrap();
        }
        let mut received = Received::default();
        let take = |consumer: &mut Consumer, received: &mut Received| {
            while consumer.drain(received, &mut Wakes::new()) {}
        };
        take(&mut consumer, &mut received);
        assert_eq!(
            received.states, ALARMS as u64,
            "the current states arrive first"
        );
        let mut changes = 0;
        while changes < CHANGES && received.overruns == 0 {
            storm.change(changes);
            changes += 1;
            if changes % turn == 0 {
                take(&mut consumer, &mut received);
            }
        }
        let reported = received.states + received.missed - ALARMS as u64;
        assert_eq!(
            reported, changes,
            "a turn after {turn} changes: each is received or counted"
        );
        assert_eq!(received.overruns > 0, turn > 100_000);
    }
}
