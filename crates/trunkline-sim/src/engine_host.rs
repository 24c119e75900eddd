//! The engine's process: the real engine, its sessions, its housekeeping, and a witness.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_engine::{
    Caller, Consumer, Delivery, EndedItem, Engine, EngineOptions, Principal, Retained, Rights,
    Sink, SubscribeOptions, Wake, Wakes,
};
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Position, Properties, Reason, Tick, Timestamp,
    VariableDefinition,
};

use crate::checker::{Checker, Seen, Writer, is_engines, number_of};
use crate::plan::{Content, Plan};

/// The name of the only library.
pub const LIBRARY: &str = "sim";
/// The subscription numbers of what follows variables in the engine's own process.
const FOLLOWER: u32 = 1;

/// A session, and what its driver knows of it.
#[derive(Debug)]
pub struct Slot {
    /// The real one.
    pub session: Session,
    /// It wants output polled: it was woken, or said that there is more.
    pub is_due: bool,
    /// Its next turn.
    pub turn_at: Option<Tick>,
    /// When bytes last came, or the process last began to run again.
    pub heard: Tick,
    /// The program at the other end.
    pub program: usize,
}

/// What of the engine dies with its process.
#[derive(Debug)]
pub struct Running {
    /// The real one.
    pub engine: Engine,
    /// Handles of the variables, in their order.
    pub handles: Vec<u32>,
    /// Sessions by their connection.
    pub sessions: BTreeMap<u32, Slot>,
    options: Arc<ServeOptions>,
    witness: Witness,
    retention: Consumer,
    woken: Arc<Mutex<Vec<u32>>>,
    /// When housekeeping is to run.
    pub house_at: Tick,
}

/// The machine the engine runs on.
#[derive(Debug, Default)]
pub struct EngineHost {
    /// The process, while there is one.
    pub running: Option<Running>,
    /// Epochs so far: the counter of its store.
    pub epoch: u64,
    /// All variables had a value before anybody connected.
    pub all_written: bool,
    /// When a killed process is started again.
    pub restart_at: Option<Tick>,
    /// It stands still until then.
    pub paused_until: Tick,
    /// It refuses connections until then.
    pub refuses_until: Tick,
    /// Sessions so far, of all processes.
    sessions: u32,
    /// Retained values by name.
    store: BTreeMap<String, Stored>,
}

#[derive(Clone, Debug)]
struct Stored {
    value: Vec<u8>,
    data_type: DataType,
    source_timestamp: Timestamp,
}

#[derive(Debug)]
struct Witness {
    consumer: Consumer,
}

/// Notes which connection's session was woken.
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

struct Unheard;

impl Wake for Unheard {
    fn wake(&self) {}
}

/// The full name of a variable.
pub fn name_of(variable: u32) -> String {
    format!("{LIBRARY}/v{variable}")
}

impl EngineHost {
    /// Starts the process: a new epoch, the library, what the store has retained.
    pub fn start(&mut self, plan: &Plan, now: Tick, wall: Timestamp, checker: &mut Checker) {
        self.epoch += 1;
        checker.epoch = self.epoch;
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
                    let mut properties = Properties::new(match variable.content {
                        Content::Float => DataType::F64,
                        Content::Whole => DataType::U64,
                        Content::Text => DataType::String,
                    });
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
            let stored = self.store.get(name.as_str())?;
            (stored.data_type == properties.data_type).then(|| Retained {
                value: stored.value.clone(),
                source_timestamp: stored.source_timestamp,
            })
        };
        let mut wakes = Wakes::new();
        let deployed = engine.deploy_retained(&definition, false, &retained, now, wall, &mut wakes);
        let handles = match deployed {
            Ok(deployed) => deployed.handles,
            Err(error) => return checker.fail(|| format!("the library is refused: {error}")),
        };
        let mut witness = Consumer::service(engine.clone(), Box::new(Unheard));
        let mut retention = Consumer::service(engine.clone(), Box::new(Unheard));
        let everything = Contract::All {
            elements: 1_000_000,
            bytes: u32::MAX,
        };
        let wanted = match plan.is_plain {
            true => Contract::Latest,
            false => everything,
        };
        let (caller, options) = (Caller::engine(), SubscribeOptions::default());
        for handle in &handles {
            let Some(variable) = engine.variable(*handle) else {
                continue;
            };
            let followed = witness.subscribe(&caller, FOLLOWER, wanted, options, &variable, None);
            if let Err(error) = followed {
                checker.fail(|| format!("the witness is refused: {error}"));
            }
            if plan.has_store && variable.properties().retain {
                let latest = Contract::Latest;
                let _kept =
                    retention.subscribe(&caller, FOLLOWER, latest, options, &variable, None);
            }
        }
        self.running = Some(Running {
            engine,
            handles,
            sessions: BTreeMap::new(),
            options: Arc::new(ServeOptions::default()),
            witness: Witness { consumer: witness },
            retention,
            woken: Arc::default(),
            house_at: now,
        });
    }

    /// A session for a connection that was accepted.
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
        checker.accepted(u64::from(self.sessions), writer, overlaps);
        let caller = Caller {
            session: self.sessions,
            principal: Principal::Loopback,
            origin: Arc::from("127.0.0.1:50000"),
            rights: Rights::ALL,
            remote: true,
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
            heard: now,
            program,
        };
        running.sessions.insert(link, slot);
    }

    /// Stores what is retained, as its thread does; what is not stored dies with the process.
    pub fn store_retained(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        if running.retention.is_idle() {
            return;
        }
        let mut sink = Changes(&mut self.store);
        running.retention.drain(&mut sink, &mut Wakes::new());
    }
}

impl Running {
    /// The sessions that were woken since this was last asked.
    pub fn take_woken(&self) -> Vec<u32> {
        std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells the checker every update that was made since this was last called.
    pub fn witness(&mut self, now: Tick, checker: &mut Checker) {
        let epoch = self.engine.epoch();
        let mut sink = ToChecker {
            epoch,
            now,
            checker,
        };
        self.witness.consumer.drain(&mut sink, &mut Wakes::new());
        checker.witnessed_all();
    }

    /// The engine's housekeeping: what time brings.
    pub fn keep_house(&mut self, now: Tick, wall: Timestamp) {
        let latest = now.saturating_add(Duration::from_secs(1));
        let due = self.engine.poll(now, wall, &mut Wakes::new());
        self.house_at = due.map_or(latest, |due| due.clamp(now, latest));
    }
}

struct ToChecker<'a> {
    epoch: u64,
    now: Tick,
    checker: &'a mut Checker,
}

impl Sink for ToChecker<'_> {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let update = delivery.update;
        if update.sequence == 0 {
            return;
        }
        let name = delivery.variable.name();
        let variable = name
            .rsplit_once('v')
            .and_then(|(_, number)| number.parse().ok());
        let value = delivery.variable.sample_of(update).value;
        let position = Position {
            epoch: self.epoch,
            sequence: update.sequence,
        };
        let seen = Seen {
            write: number_of(&value).unwrap_or(u64::MAX),
            engine_timestamp: update.engine_timestamp,
            quality: update.quality,
            at: self.now,
            serial: 0,
        };
        let made_by_engine = is_engines(update.quality);
        let variable = variable.unwrap_or(u32::MAX);
        self.checker
            .witnessed(variable, position, seen, made_by_engine);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {
        self.checker.fail(|| "the witness was overrun".to_owned());
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        self.checker.fail(|| format!("variable {handle} is gone"));
    }
}

struct Changes<'a>(&'a mut BTreeMap<String, Stored>);

impl Sink for Changes<'_> {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let update = delivery.update;
        if update.sequence == 0 || update.quality.reason() == Reason::Retained {
            return;
        }
        let stored = Stored {
            value: update.value.as_slice().to_vec(),
            data_type: delivery.variable.data_type().clone(),
            source_timestamp: update.source_timestamp,
        };
        self.0.insert(delivery.variable.name().to_owned(), stored);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}
