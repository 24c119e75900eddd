//! An engine with three libraries, a session of a client, and everything that shows the effect of a
//! request.

use std::sync::{Arc, Mutex};

use trunkline_engine::{
    Administrator, Caller, Engine, LogPage, Order, OrderResult, Provider, Reply, Report, Rights,
    Ticket, Variable, Wakes, Write,
};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_serve::ServeOptions;
use trunkline_types::alarm::{
    AlarmDefinition, AlarmEntry, AlarmEvent, AlarmJournalPage, AlarmJournalQuery, AlarmKind,
    AlarmRecord, AlarmState, JournalEvent, LimitLevel, Operand,
};
use trunkline_types::history::{
    HistoryPage, HistoryQuery, HistorySeries, Row, RowKey, Rows, SeriesData,
};
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, AuditPage, AuditQuery, DataType, LibraryDefinition,
    Moment, Quality, Tick, Timestamp, Value, VariableDefinition, WriteVerb,
};

use super::{Answer, Cell, Library};
use crate::rig::access::Reception;
use crate::rig::spoken::spoken;
use crate::rig::{Peer, World, define, f64_variable};

/// What a test has seen of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub answer: Answer,
    /// True if the request changed something about its variable, or showed something of it.
    pub has_effect: bool,
}

/// The variables of each library.
///
/// | name | |
/// |---|---|
/// | `x` | a number, 1.0, with an alarm |
/// | `t` | a text |
/// | `d` | a number that a device provides |
/// | `p` | a number that a program named `LIBRARY-plc` can provide |
/// | `f` | a number that is forced to 5.0 |
fn variables(library: &str) -> Vec<VariableDefinition> {
    vec![
        define("x", DataType::F64, |p| {
            p.units = "degC".to_owned();
            p.alarms = vec![AlarmDefinition::new(AlarmKind::Limit {
                level: LimitLevel::Hi,
                limit: Operand::Constant(0.5),
                deadband: 0.0,
            })];
        }),
        define("t", DataType::String, |_| {}),
        define("d", DataType::F64, |p| p.source = "device:1".to_owned()),
        define("p", DataType::F64, |p| {
            p.source = format!("{library}-plc:1")
        }),
        f64_variable("f"),
    ]
}

/// The value that requests write.
pub const WRITTEN: f64 = 7.25;

pub struct Plant {
    pub world: World,
    pub peer: Peer,
    pub cell: Cell,
    pub kind: FrameKind,
    pub host: Arc<Host>,
    pub device: Arc<Device>,
    pub reception: Arc<Reception>,
    next_request: u32,
}

impl Plant {
    pub fn of(cell: Cell, kind: FrameKind) -> Self {
        let world = World::new();
        let engine = world.engine();
        let (now, wall) = world.time();
        for library in Library::ALL {
            world.deploy(library.name(), variables(library.name()));
        }
        let device = Arc::new(Device::default());
        engine
            .providers()
            .attach_source(Arc::clone(&device) as Arc<dyn Provider>)
            .unwrap();
        for library in Library::ALL {
            let name = |path: &str| format!("{}/{path}", library.name());
            world.set(&name("x"), 1.0);
            world.publish(&name("d"), &Value::F64(1.0));
            let forced = Value::F64(5.0);
            let force = Write {
                verb: WriteVerb::Force,
                ..Write::value(&forced)
            };
            world.try_write(&name("f"), &force);
        }
        let host = Arc::new(Host {
            engine,
            moment: Moment { now, wall },
            orders: Mutex::default(),
        });
        let reception = Reception::of(&cell.rights(kind));
        // The identity gives the rights, not the connection.
        world.permit(Rights::NONE);
        let options = ServeOptions {
            administrator: Some(Arc::clone(&host) as Arc<dyn Administrator>),
            authenticator: Some(reception.clone()),
            ..ServeOptions::default()
        };
        let mut peer = Peer::with(&world, options);
        peer.say(|out| Hello::default().encode(out));
        Self {
            world,
            peer,
            cell,
            kind,
            host,
            device,
            reception,
            next_request: 100,
        }
    }

    /// The full name of a variable of the library that the request concerns.
    pub fn name(&self, path: &str) -> String {
        format!("{}/{path}", self.library())
    }

    pub fn library(&self) -> &'static str {
        self.cell.library.name()
    }

    /// The handle of a variable, which a client can guess even if it may not read the variable.
    pub fn handle(&self, path: &str) -> u32 {
        self.world.handle(&self.name(path))
    }

    pub fn variable(&self, path: &str) -> Arc<Variable> {
        let found = self
            .world
            .engine()
            .resolve(&Caller::engine(), &self.name(path));
        found.expect("it is deployed")
    }

    pub fn number(&self, path: &str) -> Option<f64> {
        let update = self.variable(path).update();
        let bytes = update.value.as_slice().try_into().ok()?;
        Some(f64::from_le_bytes(bytes))
    }

    pub fn is_written(&self, path: &str) -> bool {
        self.number(path) == Some(WRITTEN)
    }

    pub fn request(&mut self) -> u32 {
        self.next_request += 1;
        self.next_request
    }

    /// Sends the frames that `encode` appends. The argument is the number of the request.
    pub fn say(&mut self, encode: impl FnOnce(u32, &mut Vec<u8>)) {
        let request = self.request();
        self.peer.said.clear();
        self.peer.say(|out| encode(request, out));
        // Reports of the host wake the session.
        self.peer.take();
    }

    /// Every frame that the session has sent since the last request, as text.
    pub fn spoken(&self) -> Vec<String> {
        self.peer.frames(spoken)
    }

    pub fn says(&self, text: &str) -> bool {
        self.spoken().iter().any(|frame| frame.contains(text))
    }

    /// Returns what was seen. A fault with one of the codes in `done` means that the rights sufficed.
    pub fn seen_with(&self, done: &[FaultCode], has_effect: bool) -> Seen {
        let is_over = self.peer.session.wants_close_now();
        let spoken = self.spoken().join("\n");
        let codes: Vec<&str> = spoken
            .split("code: ")
            .skip(1)
            .map(|rest| rest.split([',', ' ']).next().unwrap_or_default())
            .collect();
        let is_done = |code: &&str| done.iter().any(|done| format!("{done:?}") == **code);
        let answer = match codes.first() {
            _ if is_over => Answer::Ended,
            None => Answer::Done,
            Some(&"Denied" | &"NotItsProvider") => Answer::Denied,
            Some(&"UnknownName" | &"Gone") => Answer::Missing,
            Some(code) if is_done(code) => Answer::Done,
            Some(code) => panic!("{code}: {spoken}"),
        };
        Seen { answer, has_effect }
    }

    pub fn seen(&self, has_effect: bool) -> Seen {
        self.seen_with(&[], has_effect)
    }

    /// Returns what the answer contains about a variable that the client may not read, other than
    /// what the client itself has said.
    pub fn leaks(&self, cell: &str) -> Option<String> {
        if self.cell.permits(trunkline_access::Action::Read) {
            return None;
        }
        let name = format!("{}/", self.library());
        let own_words = [
            format!("no variable is named {name}"),
            format!("there is no {name}"),
        ];
        let leaked = self.spoken().into_iter().find(|frame| {
            let rest = own_words
                .iter()
                .fold(frame.clone(), |frame, words| frame.replace(words, ""));
            rest.contains(&name)
        });
        leaked.map(|frame| format!("{cell}: the answer names a hidden variable: {frame}"))
    }
}

trait WantsClose {
    fn wants_close_now(&self) -> bool;
}

impl WantsClose for trunkline_serve::Session {
    fn wants_close_now(&self) -> bool {
        use trunkline_proto::Endpoint;
        self.wants_close().is_some()
    }
}

/// Counts what the engine requests from a device.
#[derive(Default)]
pub struct Device {
    pub written: Mutex<Vec<u32>>,
    pub read: Mutex<Vec<u32>>,
}

impl Provider for Device {
    fn name(&self) -> Arc<str> {
        Arc::from("device")
    }

    fn send(&self, _: Ticket, handle: u32, _: Value) {
        self.written.lock().unwrap().push(handle);
    }

    fn request(&self, _: Option<Ticket>, handle: u32) {
        self.read.lock().unwrap().push(handle);
    }

    fn error(&self) -> Option<String> {
        None
    }
}

/// A host that carries out every order that the session passes on, without a check of its own.
pub struct Host {
    engine: Engine,
    moment: Moment,
    /// The orders, and whether the check that a host must do agrees.
    pub orders: Mutex<Vec<Result<(), Fault>>>,
}

impl Administrator for Host {
    fn submit(&self, caller: &Caller, order: Order, reply: Reply) {
        self.orders.lock().unwrap().push(order.check_rights(caller));
        reply.send(self.carry_out(order));
    }
}

impl Host {
    fn carry_out(&self, order: Order) -> OrderResult {
        let libraries = self.engine.libraries();
        let Moment { now, wall } = self.moment;
        let mut wakes = Wakes::new();
        let page = |page| {
            Ok(Report {
                page: Some(Box::new(page)),
                ..Report::default()
            })
        };
        match order {
            Order::Deploy { library, replace } => {
                let deployed = libraries.deploy_retained(
                    &library,
                    replace,
                    &|_, _| None,
                    now,
                    wall,
                    &mut wakes,
                );
                deployed
                    .map(|_| Report::default())
                    .map_err(|error| Fault::new(FaultCode::BadLibrary, error.to_string()))
            }
            Order::Undeploy { library, .. } => {
                libraries.undeploy(&library, now, wall, &mut wakes).unwrap();
                Ok(Report::default())
            }
            Order::Start { library } => {
                libraries.start(&library, now, wall, &mut wakes).unwrap();
                Ok(Report::default())
            }
            Order::Stop { library } => {
                libraries.stop(&library, now, wall, &mut wakes).unwrap();
                Ok(Report::default())
            }
            Order::StopEngine | Order::ReloadEngine => Ok(Report::default()),
            Order::Audit(query) => page(LogPage::Audit(audit_page(&query))),
            Order::AlarmJournal(query) => page(LogPage::Alarms(alarm_page(&query))),
            Order::History(query) => page(LogPage::History(history_page(&query))),
        }
    }
}

/// Returns a page of an audit with one entry about the variable `x` of each library, and one about each
/// library.
pub fn audit_page(query: &AuditQuery) -> AuditPage {
    let names = Library::ALL.map(|library| format!("{}/x", library.name()));
    let libraries = Library::ALL.map(|library| library.name().to_owned());
    let entries = (1..)
        .zip(names.into_iter().chain(libraries))
        .map(|(number, name)| AuditEntry {
            number,
            when: Timestamp::UNIX_EPOCH,
            monotonic: Tick::ZERO,
            who: "engine".to_owned(),
            from: "engine".to_owned(),
            action: match name.contains('/') {
                true => AuditAction::Put,
                false => AuditAction::Deploy,
            },
            name,
            data_type: String::new(),
            old: String::new(),
            new: String::new(),
            outcome: AuditOutcome::Done,
            link: None,
        });
    let from = query.from.unwrap_or(1);
    let entries = entries.skip_while(|entry| entry.number < from);
    let (entries, next) = query.take_page(entries.map(Ok::<_, ()>)).unwrap();
    AuditPage {
        entries,
        next,
        ..AuditPage::default()
    }
}

/// Returns a page of an alarm journal with one entry for each library.
fn alarm_page(query: &AlarmJournalQuery) -> AlarmJournalPage {
    let entries = (1..).zip(Library::ALL).map(|(number, library)| AlarmEntry {
        number,
        when: Timestamp::UNIX_EPOCH,
        event: JournalEvent::Alarm(AlarmEvent::Raise),
        variable: format!("{}/x", library.name()),
        alarm: "hi".to_owned(),
        priority: 500,
        area: String::new(),
        description: String::new(),
        from: AlarmState::Normal,
        who: String::new(),
        comment: String::new(),
        record: AlarmRecord::default(),
    });
    let (entries, next) = query.take_page(entries.map(Ok::<_, ()>)).unwrap();
    AlarmJournalPage {
        entries,
        next,
        ..AlarmJournalPage::default()
    }
}

/// Returns a page of a history with one row for each library.
fn history_page(query: &HistoryQuery) -> HistoryPage {
    let names = Library::ALL.map(|library| format!("{}/x", library.name()));
    let matches = |name: &String| {
        let mut patterns = query.patterns.iter();
        patterns.any(|pattern| pattern.matches(name)) && query.permitted.contains(name)
    };
    let series = names.into_iter().filter(matches).map(|variable| {
        let mut rows = Rows::new(Some(8));
        rows.push(&Row {
            key: RowKey {
                time: 1,
                epoch: 7,
                sequence: 1,
            },
            delay: 0,
            quality: Quality::GOOD,
            value: &1.0_f64.to_le_bytes(),
        });
        HistorySeries {
            variable,
            data_type: DataType::F64,
            units: String::new(),
            data: SeriesData::Rows(rows),
        }
    });
    HistoryPage {
        series: series.collect(),
        ..HistoryPage::default()
    }
}

/// A library with the usual variables and `n`.
pub fn with_another(name: &str) -> LibraryDefinition {
    let mut variables = variables(name);
    variables.push(f64_variable("n"));
    LibraryDefinition {
        name: name.to_owned(),
        description: String::new(),
        variables,
    }
}
