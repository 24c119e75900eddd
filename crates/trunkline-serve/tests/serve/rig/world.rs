//! Provides an engine and the simulated time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_engine::{
    Attempt, Caller, Engine, EngineOptions, Origin, Principal, Rights, Wake, Wakes, Write,
    WriteOutcome,
};
use trunkline_types::{
    DataType, LibraryDefinition, Properties, Tick, Timestamp, Value, VariableDefinition,
};

/// 2026-01-01T00:00:00Z, when simulated time begins.
const START: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);

/// An engine and its time, shared by everything that uses them.
#[derive(Clone)]
pub struct World(Rc<Inner>);

struct Inner {
    engine: RefCell<Engine>,
    elapsed: Cell<Duration>,
    sessions: Cell<u32>,
    rights: RefCell<Rights>,
}

/// Records that a session was woken.
#[derive(Clone, Default)]
pub struct Bell(Arc<Mutex<bool>>);

impl Bell {
    /// Returns true if the session was woken since the last call.
    pub fn rang(&self) -> bool {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Wake for Bell {
    fn wake(&self) {
        *self.0.lock().unwrap() = true;
    }
}

impl World {
    pub fn new() -> Self {
        Self::of(Engine::new(EngineOptions::new("sut", 7)))
    }

    pub fn of(engine: Engine) -> Self {
        Self(Rc::new(Inner {
            engine: RefCell::new(engine),
            elapsed: Cell::new(Duration::ZERO),
            sessions: Cell::new(0),
            rights: RefCell::new(Rights::ALL),
        }))
    }

    pub fn with_library(name: &str, variables: Vec<VariableDefinition>) -> Self {
        let world = Self::new();
        world.deploy(name, variables);
        world
    }

    pub fn engine(&self) -> Engine {
        self.0.engine.borrow().clone()
    }

    /// Restarts the engine with another epoch and without variables.
    pub fn restart(&self) {
        let epoch = self.engine().epoch() + 1;
        *self.0.engine.borrow_mut() = Engine::new(EngineOptions::new("sut", epoch));
    }

    pub fn deploy(&self, library_name: &str, variables: Vec<VariableDefinition>) -> Vec<u32> {
        let (now, wall) = self.time();
        let definition = library(library_name, variables);
        self.engine()
            .libraries()
            .deploy(&definition, now, wall)
            .expect("the library is valid")
    }

    pub fn undeploy(&self, library: &str) {
        let (now, wall) = self.time();
        self.engine()
            .libraries()
            .undeploy(library, now, wall, &mut Wakes::new())
            .expect("the library is deployed");
    }

    /// Sets the rights of callers whose sessions begin from now on.
    pub fn permit(&self, rights: Rights) {
        self.0.rights.replace(rights);
    }

    /// Returns a new caller on the loopback interface.
    pub fn caller(&self) -> Caller {
        let session = self.0.sessions.get() + 1;
        self.0.sessions.set(session);
        Caller {
            principal: Principal::Loopback,
            origin: Arc::from("127.0.0.1:50000"),
            rights: self.0.rights.borrow().clone(),
            remote: true,
            ..Caller::local(session, 0)
        }
    }

    pub fn time(&self) -> (Tick, Timestamp) {
        let elapsed = self.0.elapsed.get();
        let now = Tick::from_nanos(1_000_000_000).saturating_add(elapsed);
        (now, START.saturating_add_nanos(elapsed.as_nanos() as i64))
    }

    pub fn advance(&self, by: Duration) {
        self.advance_to(self.time().0.saturating_add(by));
    }

    /// Advances the time to `tick`. Does nothing if `tick` is in the past.
    pub fn advance_to(&self, tick: Tick) {
        let by = tick.since(self.time().0);
        self.0.elapsed.set(self.0.elapsed.get() + by);
        let (now, wall) = self.time();
        self.engine().poll(now, wall, &mut Wakes::new());
    }

    /// Writes a number from a program in the engine's process.
    pub fn set(&self, name: &str, value: f64) {
        self.write(name, &Value::F64(value));
    }

    pub fn write(&self, name: &str, value: &Value) -> WriteOutcome {
        match self.try_write(name, &Write::value(value)) {
            Attempt::Done(outcome) => outcome,
            other => panic!("the write has not ended: {other:?}"),
        }
    }

    /// Publishes a value as the variable's source.
    pub fn publish(&self, name: &str, value: &Value) {
        let mut write = Write::value(value);
        write.origin = Origin::Source;
        self.try_write(name, &write);
    }

    pub fn try_write(&self, name: &str, write: &Write<'_>) -> Attempt {
        let (engine, caller, (now, wall)) = (self.engine(), Caller::engine(), self.time());
        let variable = engine.resolve(&caller, name).expect("it is deployed");
        engine.try_write(&caller, now, wall, &variable, write, &mut Wakes::new())
    }

    pub fn sequence(&self, name: &str) -> u64 {
        self.resolved(name).sequence()
    }

    pub fn handle(&self, name: &str) -> u32 {
        self.resolved(name).handle()
    }

    fn resolved(&self, name: &str) -> Arc<trunkline_engine::Variable> {
        let found = self.engine().resolve(&Caller::engine(), name);
        found.expect("it is deployed")
    }
}

pub fn library(name: &str, variables: Vec<VariableDefinition>) -> LibraryDefinition {
    LibraryDefinition {
        name: name.to_owned(),
        description: String::new(),
        variables,
    }
}

pub fn f64_variable(path: &str) -> VariableDefinition {
    VariableDefinition::new(path, DataType::F64)
}

/// Returns the definition of a variable of this type. The function sets further properties.
pub fn define(
    path: &str,
    data_type: DataType,
    change: impl FnOnce(&mut Properties),
) -> VariableDefinition {
    let mut properties = Properties::new(data_type);
    change(&mut properties);
    VariableDefinition {
        path: path.to_owned(),
        properties: Arc::new(properties),
    }
}
