//! An engine with simulated time, a consumer that records its deliveries, and helper functions.

#![allow(dead_code, reason = "each test program uses its own part")]

pub mod absent;
mod terms;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use trunkline_engine::{
    Attempt, Caller, Consumer, Delivery, Engine, EngineOptions, Granted, LeaseRequest, MirrorGuard,
    Origin, Refusal, SharedRun, Sink, Subscribe, Update, Variable, Wake, Wakes, Write,
    WriteOutcome, WriteValue, WriteVerb,
};
use trunkline_ring::{TABLE_VALUE_BYTES, TableEntry, TableReader, value_table};
use trunkline_types::definition::{HANDLE_SLOT_BITS, generation_of, slot_of};
use trunkline_types::ledger::EndedItem;
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{
    Access, Contract, DataType, LibraryDefinition, Lost, Moment, Position, Properties, Quality,
    Scope, Tick, Timestamp, Value, VariableDefinition,
};

#[allow(unused_imports, reason = "each test program uses its own part")]
pub use terms::{STALL, all, at, stalling};

pub const EPOCH: u64 = 7;
/// 2026-01-01T00:00:00Z, when simulated time begins.
pub const START: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);

/// An engine, a caller, and the time.
pub struct Rig {
    pub engine: Engine,
    pub caller: Caller,
    elapsed: Cell<Duration>,
    /// Sum of the steps of the wall clock since [`START`], in nanoseconds.
    set_by: Cell<i64>,
    /// True if the next write tries the fast path first, which is every other write.
    short: Cell<bool>,
}

impl Rig {
    pub fn new() -> Self {
        Self {
            engine: Engine::new(EngineOptions::new("sut", EPOCH)),
            caller: Caller::local(1, 1000),
            elapsed: Cell::new(Duration::ZERO),
            set_by: Cell::new(0),
            short: Cell::new(false),
        }
    }

    /// Like [`Rig::with`], with a bound on the bytes queued for all consumers together.
    pub fn bounded(queue_bytes_max: usize, variables: Vec<VariableDefinition>) -> Self {
        let mut options = EngineOptions::new("sut", EPOCH);
        options.queue_bytes_max = queue_bytes_max;
        let rig = Self {
            engine: Engine::new(options),
            ..Self::new()
        };
        rig.deploy("rig", variables);
        rig
    }

    /// Creates an engine with the library `rig`, which has these variables.
    pub fn with(variables: Vec<VariableDefinition>) -> Self {
        let rig = Self::new();
        rig.deploy("rig", variables);
        rig
    }

    /// Creates an engine with the variable `rig/x`, which has these properties.
    pub fn of(properties: Properties) -> (Self, Arc<Variable>) {
        let rig = Self::with(vec![define("x", properties)]);
        let x = rig.variable("rig/x");
        (rig, x)
    }

    /// Creates an engine with the plain f64 variable `rig/x`.
    pub fn plain() -> (Self, Arc<Variable>) {
        Self::of(Properties::new(DataType::F64))
    }

    /// Polls the engine at the current time.
    pub fn poll(&self) {
        self.engine.poll(self.now(), self.wall(), &mut Wakes::new());
    }

    pub fn deploy(&self, library: &str, variables: Vec<VariableDefinition>) -> Vec<u32> {
        let definition = library_of(library, variables);
        self.engine
            .libraries()
            .deploy(&definition, self.now(), self.wall())
            .expect("the library is valid")
    }

    /// Returns the handle of the variable in this slot.
    pub fn handle_at(&self, slot: usize) -> Option<u32> {
        let slot = slot as u32;
        let all = (0..GENERATIONS).map(|generation| generation << HANDLE_SLOT_BITS | slot);
        let mut live = all.filter(|handle| self.engine.variable(*handle).is_some());
        live.next()
    }

    pub fn variable(&self, name: &str) -> Arc<Variable> {
        Arc::clone(
            &self
                .engine
                .resolve(&self.caller, name)
                .expect("the variable is deployed"),
        )
    }

    pub fn now(&self) -> Tick {
        Tick::from_nanos(1_000_000_000).saturating_add(self.elapsed.get())
    }

    pub fn wall(&self) -> Timestamp {
        let elapsed = self.elapsed.get().as_nanos() as i64;
        START.saturating_add_nanos(elapsed + self.set_by.get())
    }

    pub fn moment(&self) -> Moment {
        Moment {
            now: self.now(),
            wall: self.wall(),
        }
    }

    /// Requests a lease as a client does.
    pub fn lease(
        &self,
        caller: &Caller,
        handle: u32,
        request: LeaseRequest,
    ) -> Result<Granted, Refusal> {
        let (leases, wakes) = (self.engine.leases(), &mut Wakes::new());
        leases.request(caller, self.moment(), handle, request, wakes)
    }

    /// Ends the leases of a session.
    pub fn end_leases(&self, session: u32) {
        let leases = self.engine.leases();
        leases.end_session(session, self.moment(), &mut Wakes::new());
    }

    pub fn set_wall(&self, wall: Timestamp) {
        let by = wall.as_nanos() - self.wall().as_nanos();
        self.set_by.set(self.set_by.get() + by);
    }

    pub fn advance(&self, by: Duration) {
        self.elapsed.set(self.elapsed.get() + by);
    }

    pub fn attempt(&self, variable: &Variable, write: &Write<'_>) -> Attempt {
        self.attempt_as(&self.caller, variable, write)
    }

    pub fn attempt_as(&self, caller: &Caller, variable: &Variable, write: &Write<'_>) -> Attempt {
        if self.short.replace(!self.short.get())
            && self.engine.is_clock_settled()
            && let Some(value) = put_by_client(write)
            && let Some(sequence) =
                variable.write_plain(caller, self.wall(), value, &mut Wakes::new())
        {
            return Attempt::Done(WriteOutcome::Applied(sequence));
        }
        let mut wakes = Wakes::new();
        self.engine
            .try_write(caller, self.now(), self.wall(), variable, write, &mut wakes)
    }

    pub fn write(&self, variable: &Variable, value: impl Into<V>) -> WriteOutcome {
        let V(value) = value.into();
        done(self.attempt(variable, &Write::value(&value)))
    }

    /// Attempts a write that has to wait for room. Returns the time until which it may wait.
    pub fn blocks_until(&self, variable: &Variable, value: impl Into<V>) -> Tick {
        let V(value) = value.into();
        match self.attempt(variable, &Write::value(&value)) {
            Attempt::WouldBlock { until } => until,
            other => panic!("the write does not block: {other:?}"),
        }
    }

    /// Publishes a value of the variable's source, in engineering units.
    pub fn publish(&self, variable: &Variable, value: impl Into<V>) -> WriteOutcome {
        let V(value) = value.into();
        let mut write = Write::value(&value);
        write.origin = Origin::Source;
        done(self.attempt(variable, &write))
    }

    /// Publishes a raw value of the variable's source.
    pub fn publish_raw(&self, variable: &Variable, value: impl Into<V>) -> WriteOutcome {
        let V(value) = value.into();
        let mut write = Write::value(&value);
        write.origin = Origin::SourceRaw;
        done(self.attempt(variable, &write))
    }

    pub fn consumer(&self) -> Consumer {
        Consumer::new(self.engine.clone(), Box::new(Silent))
    }

    pub fn subscribe(
        &self,
        consumer: &mut Consumer,
        id: u32,
        contract: Contract,
        variable: &Arc<Variable>,
    ) {
        consumer
            .subscribe(&self.caller, variable, Subscribe::new(id, contract))
            .expect("the variable can be subscribed");
    }

    pub fn subscribe_changes(
        &self,
        consumer: &mut Consumer,
        id: u32,
        contract: Contract,
        variable: &Arc<Variable>,
    ) {
        let wanted = Subscribe {
            only_changes: true,
            ..Subscribe::new(id, contract)
        };
        consumer
            .subscribe(&self.caller, variable, wanted)
            .expect("the variable can be subscribed");
    }

    pub fn resume(
        &self,
        consumer: &mut Consumer,
        id: u32,
        contract: Contract,
        variable: &Arc<Variable>,
        position: Position,
    ) {
        consumer.begin_request();
        let wanted = Subscribe {
            resume: Some(position),
            ..Subscribe::new(id, contract)
        };
        consumer
            .subscribe(&self.caller, variable, wanted)
            .expect("the variable can be subscribed");
    }
}

/// Returns the value of a client's put without options, or `None` for any other write.
fn put_by_client<'a>(write: &Write<'a>) -> Option<&'a Value> {
    let is_bare = write.origin == Origin::Client
        && write.verb == WriteVerb::Put
        && write.source_timestamp.is_none()
        && write.quality.is_none()
        && write.expected.is_none()
        && write.completion.is_none();
    match write.value {
        WriteValue::Value(value) if is_bare => Some(value),
        _ => None,
    }
}

/// More generations of a slot than any test needs.
const GENERATIONS: u32 = 8;

/// A table of an engine's last values, as read by a program.
pub struct Mirrored {
    mirror: MirrorGuard,
    pub table: TableReader,
}

impl Mirrored {
    pub fn new(rig: &Rig) -> Self {
        let (writer, table) = value_table(rig.engine.tables().slots_for_new_table());
        let mirror = rig.engine.tables().mirror_into(writer);
        Self { mirror, table }
    }

    /// Checks that every entry of the table equals the variable in the engine.
    pub fn check(&self, rig: &Rig) {
        for slot in 1..rig.engine.tables().slots_end() {
            let Some(handle) = rig.handle_at(slot) else {
                continue;
            };
            let variable = rig.engine.variable(handle).expect("a handle");
            let readable = Access::WriteOnly != variable.properties().access;
            let update = variable.update();
            let length = update.value.as_slice().len();
            let name = variable.name();
            match self.read(handle) {
                None => assert_eq!(variable.properties().scope, Scope::Process, "{name}"),
                Some(TableEntry::Gone) => assert!(variable.is_gone(), "{name}"),
                Some(TableEntry::Elsewhere) => {
                    assert!(!readable || length > TABLE_VALUE_BYTES, "{name}");
                }
                Some(TableEntry::Value(found)) => {
                    assert!(readable && !variable.is_gone(), "{name}");
                    assert_eq!(found.sequence, update.sequence, "{name}");
                    assert_eq!(&found.bytes()[..found.length], update.value.as_slice());
                    assert_eq!(found.quality, update.quality.to_bits());
                    assert_eq!(found.writer, update.writer);
                    assert_eq!(found.source_timestamp, update.source_timestamp.as_nanos());
                    assert_eq!(found.engine_timestamp, update.engine_timestamp.as_nanos());
                }
            }
        }
    }

    /// Returns the entry of the variable with this handle.
    pub fn read(&self, handle: u32) -> Option<TableEntry> {
        read_table(&self.table, handle)
    }

    /// Ends the table, and returns its reader.
    pub fn end(self) -> TableReader {
        drop(self.mirror);
        assert!(!self.table.is_current());
        self.table
    }
}

/// Returns the entry of the variable with this handle in `table`.
pub fn read_table(table: &TableReader, handle: u32) -> Option<TableEntry> {
    table.read(slot_of(handle) as usize, generation_of(handle))
}

pub fn define(path: &str, properties: Properties) -> VariableDefinition {
    VariableDefinition {
        path: path.to_owned(),
        properties: Arc::new(properties),
    }
}

pub fn library_of(name: &str, variables: Vec<VariableDefinition>) -> LibraryDefinition {
    LibraryDefinition {
        name: name.to_owned(),
        description: String::new(),
        variables,
    }
}

/// A value for the helper functions, created from an f64, a text or a [`Value`].
pub struct V(Value);

impl From<f64> for V {
    fn from(value: f64) -> Self {
        V(Value::F64(value))
    }
}

impl From<&str> for V {
    fn from(value: &str) -> Self {
        V(Value::String(value.into()))
    }
}

impl From<Value> for V {
    fn from(value: Value) -> Self {
        V(value)
    }
}

/// Returns the outcome of a write that has ended.
pub fn done(attempt: Attempt) -> WriteOutcome {
    match attempt {
        Attempt::Done(outcome) => outcome,
        other => panic!("the write has not ended: {other:?}"),
    }
}

pub fn applied(sequence: u64) -> WriteOutcome {
    WriteOutcome::Applied(sequence)
}

/// Wakes nothing: the test drains explicitly.
pub struct Silent;

impl Wake for Silent {
    fn wake(&self) {}
}

/// Counts how often it is woken.
#[derive(Clone, Default)]
pub struct Bell(Arc<Mutex<u32>>);

impl Bell {
    /// Returns the number of wake-ups since the last call.
    pub fn rings(&self) -> u32 {
        std::mem::take(&mut *self.0.lock().expect("the lock is not poisoned"))
    }
}

impl Wake for Bell {
    fn wake(&self) {
        *self.0.lock().expect("the lock is not poisoned") += 1;
    }
}

/// A delivery to a consumer, or the end of an item.
#[derive(Clone, PartialEq, Debug)]
pub enum ConsumerEvent {
    Update(Got),
    Overrun {
        subscription: u32,
        items: Vec<EndedItem>,
    },
    Gone {
        subscription: u32,
        handle: u32,
    },
}

/// One delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Got {
    pub subscription: u32,
    pub handle: u32,
    pub sequence: u64,
    pub value: Value,
    pub quality: Quality,
    pub writer: u32,
    pub lost: Lost,
    pub filtered: u64,
}

/// Records its deliveries, and accepts at most `budget` of them.
#[derive(Default)]
pub struct Recorder {
    pub events: Vec<ConsumerEvent>,
    budget: Option<usize>,
    deliveries: usize,
    /// True if the sink accepts encoded runs.
    pub takes_runs: bool,
    pub runs: usize,
}

impl Recorder {
    pub fn wanting(budget: Option<usize>) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }
}

impl Sink for Recorder {
    fn wants(&self) -> bool {
        self.budget.is_none_or(|budget| self.deliveries < budget)
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        assert!(self.wants(), "the sink got more deliveries than it accepts");
        self.deliveries += 1;
        let sample = delivery.variable.sample_of(delivery.update);
        self.events.push(ConsumerEvent::Update(Got {
            subscription: delivery.subscription,
            handle: delivery.variable.handle(),
            sequence: delivery.update.sequence,
            value: sample.value,
            quality: sample.quality,
            writer: delivery.update.writer,
            lost: delivery.lost,
            filtered: delivery.filtered,
        }));
    }

    /// Encodes only numbers.
    fn encode(
        &mut self,
        updates: &mut dyn Iterator<Item = (u32, &Update)>,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        for (handle, update) in updates {
            let Ok(value) = <[u8; 8]>::try_from(update.value.as_slice()) else {
                return None;
            };
            out.extend_from_slice(&handle.to_le_bytes());
            out.extend_from_slice(&update.quality.to_bits().to_le_bytes());
            out.extend_from_slice(&update.sequence.to_le_bytes());
            out.extend_from_slice(&u64::from(update.writer).to_le_bytes());
            out.extend_from_slice(&value);
        }
        Some(0)
    }

    fn takes(&self, run: &SharedRun) -> bool {
        let after = self.deliveries + run.count() as usize;
        self.takes_runs && self.budget.is_none_or(|budget| after <= budget)
    }

    fn deliver_run(&mut self, subscription: u32, run: &SharedRun) {
        self.deliveries += run.count() as usize;
        self.runs += 1;
        let word = |record: &[u8], at: usize| {
            let bytes = record[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let records = run.bytes().chunks_exact(32);
        assert_eq!(records.len(), run.count() as usize);
        for record in records {
            let head = word(record, 0);
            assert!(run.is_of(word(record, 16) as u32));
            self.events.push(ConsumerEvent::Update(Got {
                subscription,
                handle: head as u32,
                sequence: word(record, 8),
                value: Value::F64(f64::from_bits(word(record, 24))),
                quality: Quality::from_bits((head >> 32) as u32),
                writer: word(record, 16) as u32,
                lost: Lost::NONE,
                filtered: 0,
            }));
        }
    }

    fn overrun(&mut self, subscription: u32, items: &[EndedItem]) {
        self.events.push(ConsumerEvent::Overrun {
            subscription,
            items: items.to_vec(),
        });
    }

    fn gone(&mut self, subscription: u32, handle: u32) {
        self.events.push(ConsumerEvent::Gone {
            subscription,
            handle,
        });
    }
}

/// Takes everything that is pending.
pub fn drain(consumer: &mut Consumer) -> Vec<ConsumerEvent> {
    let mut sink = Recorder::default();
    let more = consumer.drain(&mut sink, &mut Wakes::new());
    assert!(!more, "a drain without a limit leaves updates pending");
    sink.events
}

/// Takes at most `budget` deliveries. Also returns true if more remain.
pub fn drain_some(consumer: &mut Consumer, budget: usize) -> (Vec<ConsumerEvent>, bool) {
    let mut sink = Recorder::wanting(Some(budget));
    let more = consumer.drain(&mut sink, &mut Wakes::new());
    (sink.events, more)
}

/// Takes everything that is pending, which must be updates.
pub fn updates(consumer: &mut Consumer) -> Vec<Got> {
    only_updates(drain(consumer))
}

pub fn only_updates(events: Vec<ConsumerEvent>) -> Vec<Got> {
    let update = |event| match event {
        ConsumerEvent::Update(got) => got,
        other => panic!("not an update: {other:?}"),
    };
    events.into_iter().map(update).collect()
}

pub fn sequences(updates: &[Got]) -> Vec<u64> {
    updates.iter().map(|got| got.sequence).collect()
}

pub fn numbers(updates: &[Got]) -> Vec<f64> {
    updates
        .iter()
        .map(|got| got.value.as_f64().expect("the value is a number"))
        .collect()
}

/// Returns the ledger of a variable in a subscription, after checking that it balances.
pub fn balanced(consumer: &Consumer, id: u32, variable: &Variable) -> SubscriptionLedger {
    let ledger = consumer
        .ledger(id, variable.handle())
        .expect("the subscription exists");
    assert!(ledger.is_balanced(), "{ledger:?}");
    ledger
}
