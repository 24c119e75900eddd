//! Simulates the engine's process: the production engine, sessions, housekeeping, and a witness of all
//! updates.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_engine::store::Start;
use trunkline_engine::{
    Caller, Consumer, Delivery, Encoded, Engine, EngineOptions, Principal, Retained, Sink,
    Subscribe, Wake, Wakes,
};
use trunkline_serve::{RequestBudget, ServeOptions, Session};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Position, Properties, Reason, Tick, Timestamp,
    VariableDefinition,
};

use crate::checker::{Checker, WitnessedUpdate, Writer, is_made_by_engine, write_number};
use crate::hostile::DroppingAdministrator;
use crate::plan::Plan;
use crate::rng::Rng;
use crate::transient::{Transient, variable_of};

/// The name of the permanent library.
pub const LIBRARY: &str = "sim";
/// Subscription number of the followers in the engine's own process.
const FOLLOWER: u32 = 1;

/// A session, and the state of its driver.
#[derive(Debug)]
pub struct Slot {
    /// The production session.
    pub session: Session,
    /// True if the session was woken or has more to send, so that its output must be polled.
    pub is_due: bool,
    /// Time of the session's next turn.
    pub turn_at: Option<Tick>,
    /// Time at which bytes last arrived, or the process last resumed.
    pub last_input_at: Tick,
    /// Index of the program at the client's end.
    pub program: usize,
}

/// The state of the engine that is lost with its process.
#[derive(Debug)]
pub struct Running {
    /// The production engine.
    pub engine: Engine,
    /// Handles of the variables, in the order of their numbers.
    pub handles: Vec<u32>,
    /// Transient libraries that are deployed.
    pub transient: Vec<Transient>,
    /// Sessions, by connection.
    pub sessions: BTreeMap<u32, Slot>,
    /// Options of the sessions.
    pub options: Arc<ServeOptions>,
    witness: Witness,
    /// Receives the updates of retained variables.
    retention: Consumer,
    /// Connections whose sessions were woken.
    woken: Arc<Mutex<Vec<u32>>>,
    /// Time of the next housekeeping.
    pub housekeeping_at: Tick,
}

/// The machine on which the engine runs.
#[derive(Debug)]
pub struct EngineHost {
    /// The process, while it runs.
    pub running: Option<Running>,
    /// Epoch of the last start.
    pub epoch: u64,
    /// The store of the engine, which the next start usually finds.
    store: StoreImage,
    /// A backup of the store, made at an earlier start.
    backup: Option<StoreImage>,
    /// The store of another engine, which may start at the same address instead.
    other_engine: StoreImage,
    /// Source of the random numbers that the product takes from the system.
    rng: Rng,
    /// True if all variables had a value before any client connected.
    pub all_written: bool,
    /// Time at which a killed process is started again.
    pub restart_at: Option<Tick>,
    /// Time until which the process is paused.
    pub paused_until: Tick,
    /// Time until which connections are refused.
    pub refuses_until: Tick,
    /// Total number of sessions of all processes so far.
    sessions: u32,
}

/// The content of a store.
#[derive(Clone, Debug)]
struct StoreImage {
    engine_id: [u8; 16],
    starts: u64,
    /// Retained values by name.
    retained: BTreeMap<String, Stored>,
}

impl StoreImage {
    fn new(rng: &mut Rng) -> Self {
        let mut engine_id = [0; 16];
        engine_id[..8].copy_from_slice(&rng.bits().to_le_bytes());
        Self {
            engine_id,
            starts: 0,
            retained: BTreeMap::new(),
        }
    }
}

/// The store that a start of the engine finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreFound {
    /// The start finds the store of the last start.
    Same,
    /// The start finds a backup that was made at an earlier start.
    Backup,
    /// The start finds no store, and creates one.
    New,
    /// Another engine with its own store starts at this address.
    OtherEngine,
}

#[derive(Clone, Debug)]
struct Stored {
    value: Encoded,
    data_type: DataType,
    source_timestamp: Timestamp,
}

/// Follows all updates in the engine's process, for the checker.
#[derive(Debug)]
struct Witness {
    consumer: Consumer,
}

/// Records that the session of a connection was woken.
struct Bell {
    link: u32,
    woken: Arc<Mutex<Vec<u32>>>,
}

impl Wake for Bell {
    fn wake(&self) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push(self.link);
    }
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// Returns the full name of a variable.
pub fn name_of(variable: u32) -> String {
    format!("{LIBRARY}/v{variable}")
}

impl EngineHost {
    /// Creates a machine on which no engine has run.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7374_6f72_6573_0000);
        Self {
            running: None,
            epoch: 0,
            store: StoreImage::new(&mut rng),
            backup: None,
            other_engine: StoreImage::new(&mut rng),
            rng,
            all_written: false,
            restart_at: None,
            paused_until: Tick::ZERO,
            refuses_until: Tick::ZERO,
            sessions: 0,
        }
    }

    /// Chooses at random the store that the next start finds.
    fn find_store(&mut self) -> StoreFound {
        if self.rng.chance(0.3) {
            self.backup = Some(self.store.clone());
        }
        let found = match self.rng.below(10) {
            0 if self.backup.is_some() => StoreFound::Backup,
            1 => StoreFound::New,
            2 => StoreFound::OtherEngine,
            _ => StoreFound::Same,
        };
        match found {
            StoreFound::Same => {}
            StoreFound::Backup => self.store = self.backup.clone().unwrap_or(self.store.clone()),
            StoreFound::New => self.store = StoreImage::new(&mut self.rng),
            StoreFound::OtherEngine => std::mem::swap(&mut self.store, &mut self.other_engine),
        }
        found
    }

    /// Starts the process with a new epoch, the library, and the retained values of the store.
    pub fn start(
        &mut self,
        plan: &Plan,
        now: Tick,
        wall: Timestamp,
        checker: &mut Checker,
    ) -> StoreFound {
        let found = self.find_store();
        self.store.starts += 1;
        let start = Start {
            engine_id: self.store.engine_id,
            count: self.store.starts,
        };
        self.epoch = start.epoch(self.rng.bits());
        checker.started(self.epoch);
        self.restart_at = None;
        let engine = Engine::new(EngineOptions::new("simulated", self.epoch));
        let definition = LibraryDefinition {
            name: LIBRARY.to_owned(),
            description: String::new(),
            variables: plan
                .variables
                .iter()
                .enumerate()
                .map(|(at, variable)| {
                    let mut properties = Properties::new(variable.value_kind.data_type());
                    properties.stall = variable.stall;
                    properties.retain = variable.retain;
                    VariableDefinition {
                        path: format!("v{at}"),
                        properties: Arc::new(properties),
                    }
                })
                .collect(),
        };
        let retained = |name: &trunkline_types::Name, properties: &Properties| {
            let stored = self.store.retained.get(name.as_str())?;
            (stored.data_type == properties.data_type).then(|| Retained {
                value: stored.value.clone(),
                source_timestamp: stored.source_timestamp,
            })
        };
        let mut wakes = Wakes::new();
        let deployed = engine.libraries().deploy_retained(
            &definition,
            false,
            &retained,
            now,
            wall,
            &mut wakes,
        );
        let handles = match deployed {
            Ok(deployed) => deployed.handles,
            Err(error) => {
                checker.fail(|| format!("the library is refused: {error}"));
                return found;
            }
        };
        let witness = Consumer::service(engine.clone(), Box::new(NoWake));
        let mut retention = Consumer::service(engine.clone(), Box::new(NoWake));
        let caller = Caller::engine();
        for handle in &handles {
            let Some(variable) = engine.variable(*handle) else {
                continue;
            };
            if plan.has_store && variable.properties().retain {
                let latest = Contract::Latest;
                let _kept =
                    retention.subscribe(&caller, &variable, Subscribe::new(FOLLOWER, latest));
            }
        }
        let mut options = ServeOptions {
            engine_id: start.engine_id,
            ..ServeOptions::default()
        };
        if let Some(hostile) = &plan.hostile {
            options.requests = Arc::new(RequestBudget::new(hostile.request_bytes));
            options.administrator = Some(Arc::new(DroppingAdministrator));
        }
        let mut running = Running {
            engine,
            handles,
            transient: Vec::new(),
            sessions: BTreeMap::new(),
            options: Arc::new(options),
            witness: Witness { consumer: witness },
            retention,
            woken: Arc::default(),
            housekeeping_at: now,
        };
        let handles = running.handles.clone();
        running.follow(&handles, plan.is_latest_only, checker);
        self.running = Some(running);
        found
    }

    /// Creates a session for an accepted connection.
    pub fn accept(
        &mut self,
        link: u32,
        program: usize,
        writer: Writer,
        now: Tick,
        checker: &mut Checker,
    ) {
        let Some(running) = &mut self.running else {
            return;
        };
        self.sessions += 1;
        let overlaps = running.sessions.values().any(|one| one.program == program);
        checker.session_accepted(u64::from(self.sessions), writer, overlaps);
        let caller = Caller {
            principal: Principal::Loopback,
            origin: Arc::from("127.0.0.1:50000"),
            remote: true,
            ..Caller::local(self.sessions, 0)
        };
        let bell = Bell {
            link,
            woken: Arc::clone(&running.woken),
        };
        let (engine, options) = (running.engine.clone(), Arc::clone(&running.options));
        let slot = Slot {
            session: Session::new(engine, options, caller, Box::new(bell)),
            is_due: true,
            turn_at: None,
            last_input_at: now,
            program,
        };
        running.sessions.insert(link, slot);
    }

    /// Stores retained values, as the store's thread does. If the process ends before that, they are lost.
    pub fn store_retained(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        if running.retention.is_idle() {
            return;
        }
        let mut sink = RetainedSink(&mut self.store.retained);
        running.retention.drain(&mut sink, &mut Wakes::new());
    }
}

impl Running {
    /// Subscribes the witness to these variables.
    pub fn follow(&mut self, handles: &[u32], is_latest_only: bool, checker: &mut Checker) {
        let everything = Contract::All {
            elements: 1_000_000,
            bytes: u32::MAX,
        };
        let contract = match is_latest_only {
            true => Contract::Latest,
            false => everything,
        };
        let caller = Caller::engine();
        let witness = &mut self.witness.consumer;
        for handle in handles {
            let Some(variable) = self.engine.variable(*handle) else {
                checker.fail(|| format!("handle {handle} belongs to no variable"));
                continue;
            };
            let followed =
                witness.subscribe(&caller, &variable, Subscribe::new(FOLLOWER, contract));
            if let Err(error) = followed {
                checker.fail(|| format!("the witness is refused: {error}"));
            }
        }
    }

    /// Returns the handle of a variable, or `None` if the variable is not deployed.
    pub fn handle_of(&self, variable: u32) -> Option<u32> {
        let transient_handle = |library: &Transient| library.handles.get(&variable).copied();
        let permanent_handle = self.handles.get(variable as usize).copied();
        permanent_handle.or_else(|| self.transient.iter().find_map(transient_handle))
    }

    /// Returns the sessions that were woken since the last call.
    pub fn take_woken(&self) -> Vec<u32> {
        std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes every update since the last call to the checker.
    pub fn witness(&mut self, now: Tick, checker: &mut Checker) {
        let epoch = self.engine.epoch();
        let mut sink = CheckerSink {
            handles: &self.handles,
            epoch,
            now,
            checker,
        };
        self.witness.consumer.drain(&mut sink, &mut Wakes::new());
        checker.check_groups();
    }

    /// Runs the engine's housekeeping.
    pub fn run_housekeeping(&mut self, now: Tick, wall: Timestamp) {
        let latest = now.saturating_add(Duration::from_secs(1));
        let due = self.engine.poll(now, wall, &mut Wakes::new());
        self.housekeeping_at = due.map_or(latest, |due| due.clamp(now, latest));
    }
}

struct CheckerSink<'a> {
    /// Handles of the permanent variables.
    handles: &'a [u32],
    epoch: u64,
    now: Tick,
    checker: &'a mut Checker,
}

impl Sink for CheckerSink<'_> {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let update = delivery.update;
        if update.sequence == 0 {
            return;
        }
        let variable = variable_of(delivery.variable.name());
        let value = delivery.variable.sample_of(update).value;
        let position = Position {
            epoch: self.epoch,
            sequence: update.sequence,
        };
        let witnessed = WitnessedUpdate {
            write: write_number(&value).unwrap_or(u64::MAX),
            engine_timestamp: update.engine_timestamp,
            quality: update.quality,
            at: self.now,
            serial: 0,
        };
        let made_by_engine = is_made_by_engine(update.quality);
        let variable = variable.unwrap_or(u32::MAX);
        self.checker
            .record_update(variable, position, witnessed, made_by_engine);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {
        self.checker.fail(|| "the witness was overrun".to_owned());
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        if self.handles.contains(&handle) {
            self.checker.fail(|| format!("variable {handle} is gone"));
        }
    }
}

struct RetainedSink<'a>(&'a mut BTreeMap<String, Stored>);

impl Sink for RetainedSink<'_> {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let update = delivery.update;
        if update.sequence == 0 || update.quality.reason() == Reason::Retained {
            return;
        }
        let stored = Stored {
            value: update.value.clone(),
            data_type: delivery.variable.data_type().clone(),
            source_timestamp: update.source_timestamp,
        };
        self.0.insert(delivery.variable.name().to_owned(), stored);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}
