//! A client that writes the variable it is subscribed to, `all` with a bound of one, over one
//! connection: it never deadlocks, and every write is answered. Explored by shuttle over the
//! interleavings of the client's thread, the connection thread and a second writer.
//!
//! `SHUTTLE_SCHEDULES` sets the total number of schedules for all tests (120,000 by default). Shuttle
//! reports a deadlock as soon as no thread can continue, and prints the schedule to replay.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use trunkline_client::{
    ClientCore, ClientOptions, Event, OpenOptions, SubscribeOptions, SubscriptionId, VariableRef,
    Write, WriteOutcome,
};
use trunkline_engine::{Attempt, Caller, Consumer, Engine, EngineOptions, Wake, Wakes};
use trunkline_proto::Endpoint;
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Properties, Tick, Timestamp, Value, VariableDefinition,
};

const WALL: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);
const WRITES: u32 = 3;
const OTHER_WRITES: u32 = 2;
const TESTS: usize = 4;
/// Deadlines and intervals are this long, so that only `stall` makes time pass.
const HOUR: Duration = Duration::from_secs(3600);
/// Time for which the owner of the variable lets writers wait.
const STALL: Duration = Duration::from_millis(50);

/// The connection and the time; both ends sleep on it.
#[derive(Clone)]
struct Link(Arc<(Mutex<State>, Condvar)>);

struct State {
    now: Tick,
    to_engine: Vec<u8>,
    to_client: Vec<u8>,
    /// The session was woken.
    rung: bool,
    /// The client's program has ended.
    done: bool,
}

impl Wake for Link {
    fn wake(&self) {
        self.0.0.lock().unwrap().rung = true;
        self.0.1.notify_all();
    }
}

impl Link {
    fn new() -> Self {
        let now = Tick::from_nanos(1_000_000_000);
        let (to_engine, to_client) = (Vec::new(), Vec::new());
        let state = State {
            now,
            to_engine,
            to_client,
            rung: false,
            done: false,
        };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn now(&self) -> Tick {
        self.0.0.lock().unwrap().now
    }

    /// Advances the time to `tick`, if `tick` is in the future.
    fn pass_until(&self, tick: Tick) {
        let mut state = self.0.0.lock().unwrap();
        state.now = state.now.max(tick);
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    /// Waits until there are bytes for the client.
    fn wait_for_bytes(&self) -> Vec<u8> {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        while state.to_client.is_empty() {
            state = changed.wait(state).unwrap();
        }
        std::mem::take(&mut state.to_client)
    }

    /// Waits until the session has something to do, or until the timeout. Returns `None` after the
    /// client's program has ended.
    fn wait_for_reason(&self, timeout: Option<Tick>) -> Option<Vec<u8>> {
        let (state, changed) = &*self.0;
        for _ in 0..3 {
            let mut state = state.lock().unwrap();
            loop {
                if !state.to_engine.is_empty() || state.rung {
                    state.rung = false;
                    return Some(std::mem::take(&mut state.to_engine));
                }
                if state.done {
                    return None;
                }
                if timeout.is_some() {
                    break;
                }
                state = changed.wait(state).unwrap();
            }
            drop(state);
            // Asleep for a while; threads with work continue.
            thread::yield_now();
            if thread_rng().gen_bool(0.25) {
                break;
            }
        }
        timeout
            .inspect(|timeout| self.pass_until(*timeout))
            .map(|_| Vec::new())
    }
}

/// One turn of the connection thread.
fn turn(session: &mut Session, link: &Link, input: &[u8]) {
    let now = link.now();
    assert!(session.wants_input(), "so little is always taken");
    if !input.is_empty() {
        session.handle_input(now, WALL, input);
    }
    if session.poll_timeout().is_some_and(|due| due <= now) {
        session.handle_timeout(now, WALL);
    }
    loop {
        let mut out = Vec::new();
        let more = session.poll_output(link.now(), WALL, 64, &mut out);
        if !out.is_empty() {
            link.tell(|state| state.to_client.append(&mut out));
        }
        if !more {
            assert!(
                session.wants_close().is_none(),
                "{:?}",
                session.wants_close()
            );
            return;
        }
    }
}

fn turn_of_client(client: &mut ClientCore, link: &Link, input: &[u8]) {
    let now = link.now();
    if !input.is_empty() {
        client.handle_input(now, WALL, input);
    }
    let mut out = Vec::new();
    while client.poll_output(now, WALL, 1 << 16, &mut out) {}
    assert!(client.wants_close().is_none(), "{:?}", client.wants_close());
    if !out.is_empty() {
        link.tell(|state| state.to_engine.append(&mut out));
    }
}

/// Passes bytes between both ends until there are none. No other thread may run.
fn exchange(client: &mut ClientCore, session: &mut Session, link: &Link) {
    loop {
        turn_of_client(client, link, &[]);
        let (to_engine, rung) = {
            let mut state = link.0.0.lock().unwrap();
            (
                std::mem::take(&mut state.to_engine),
                std::mem::take(&mut state.rung),
            )
        };
        turn(session, link, &to_engine);
        let to_client = std::mem::take(&mut link.0.0.lock().unwrap().to_client);
        turn_of_client(client, link, &to_client);
        if to_engine.is_empty() && to_client.is_empty() && !rung {
            return;
        }
    }
}

/// Lets a writer of this process wait until there is room.
#[derive(Clone, Default)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Wake for Bell {
    fn wake(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl Bell {
    fn wait(&self) {
        let (rung, changed) = &*self.0;
        let mut rung = rung.lock().unwrap();
        while !std::mem::take(&mut *rung) {
            rung = changed.wait(rung).unwrap();
        }
    }
}

struct Setting {
    engine: Engine,
    link: Link,
    session: Session,
    client: ClientCore,
    subscription: SubscriptionId,
    variable: VariableRef,
}

impl Setting {
    /// Creates a connected client with a subscription, and no data in flight.
    fn new(stall: Duration) -> Self {
        let engine = Engine::new(EngineOptions::new("sut", 7));
        let mut properties = Properties::new(DataType::F64);
        properties.stall = stall;
        let variable = VariableDefinition {
            path: "x".to_owned(),
            properties: Arc::new(properties),
        };
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![variable],
        };
        let link = Link::new();
        engine
            .libraries()
            .deploy(&library, link.now(), WALL)
            .unwrap();
        let options = ServeOptions {
            keepalive: HOUR,
            deadline: 3 * HOUR,
            ..Default::default()
        };
        let (caller, wake) = (Caller::local(1, 0), Box::new(link.clone()));
        let mut session = Session::new(engine.clone(), Arc::new(options), caller, wake);
        let mut client = ClientCore::new(ClientOptions {
            seed: 7,
            ..ClientOptions::default()
        });
        session.handle_connected(link.now(), WALL);
        client.handle_connected(link.now(), WALL);
        exchange(&mut client, &mut session, &link);
        let bound = Contract::All {
            elements: 1,
            bytes: 1 << 20,
        };
        let options = SubscribeOptions::default();
        let subscription = client.subscribe(&["rig/x"], bound, options).unwrap();
        let request = client.open(&["rig/x"], OpenOptions::default()).unwrap();
        exchange(&mut client, &mut session, &link);
        let opened = client.take(request).unwrap().unwrap().remove(0).unwrap();
        Self {
            engine,
            link,
            session,
            client,
            subscription,
            variable: opened.variable,
        }
    }
}

/// The client program's treatment of its input while it waits for its writes.
#[derive(Clone, Copy, PartialEq)]
enum Program {
    /// The program waits for the outcomes and reads no events.
    Waits,
    /// The program takes events as they arrive.
    Takes,
}

/// Determines whether timeouts may occur.
#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Passes,
    /// Only reading by the program makes room.
    StandsStill,
}

fn write_and_be_subscribed(stall: Duration, program: Program, clock: Clock) {
    let Setting {
        engine,
        link,
        session,
        client,
        subscription,
        variable,
    } = Setting::new(stall);

    // Only this program makes room: it continues until it has the first reading and every update.
    let takes_all = clock == Clock::StandsStill && stall > Duration::ZERO;

    let connection = thread::spawn({
        let link = link.clone();
        let mut session = session;
        move || {
            loop {
                let soon = link.now().saturating_add(stall + Duration::from_secs(1));
                let timeout = session.poll_timeout();
                let timeout = timeout.filter(|due| clock == Clock::Passes && *due <= soon);
                let Some(input) = link.wait_for_reason(timeout) else {
                    return session;
                };
                turn(&mut session, &link, &input);
            }
        }
    });

    let other = thread::spawn({
        let (link, engine) = (link.clone(), engine.clone());
        move || {
            let caller = Caller::local(2, 0);
            let variable = engine.resolve(&caller, "rig/x").unwrap();
            let room = Bell::default();
            let consumer = Consumer::new(engine.clone(), Box::new(room.clone()));
            for n in 0..OTHER_WRITES {
                let value = Value::F64(f64::from(100 + n));
                let write = trunkline_engine::Write::value(&value);
                loop {
                    let mut wakes = Wakes::new();
                    let now = link.now();
                    match engine.try_write(&caller, now, WALL, &variable, &write, &mut wakes) {
                        Attempt::Done(_) => break,
                        Attempt::WouldBlock { until }
                            if clock == Clock::Passes && thread_rng().gen_bool(0.25) =>
                        {
                            link.pass_until(until);
                        }
                        Attempt::WouldBlock { .. } if clock == Clock::Passes => thread::yield_now(),
                        Attempt::WouldBlock { .. } => {
                            if consumer.wait_for_room(&variable) {
                                room.wait();
                            }
                        }
                        Attempt::Pending => panic!("there is no provider"),
                    }
                }
            }
        }
    });

    let program = thread::spawn({
        let (link, mut client) = (link.clone(), client);
        move || {
            let value = |n: u32| Write::new(variable, Value::F64(f64::from(n)));
            let batch = client.write((0..WRITES).map(value)).unwrap();
            turn_of_client(&mut client, &link, &[]);
            let all = u64::from(1 + WRITES + OTHER_WRITES);
            let is_done = |client: &ClientCore| {
                let taken = client.ledger(subscription).unwrap().taken;
                client.is_settled(batch) && (!takes_all || taken == all)
            };
            while !is_done(&client) {
                let input = link.wait_for_bytes();
                turn_of_client(&mut client, &link, &input);
                if program == Program::Takes {
                    while client.next_event(link.now(), subscription).is_some() {}
                    turn_of_client(&mut client, &link, &[]);
                }
            }
            let outcomes = client.take_outcomes(batch).unwrap();
            let applied = |outcome: &WriteOutcome| matches!(outcome, WriteOutcome::Applied(_));
            assert!(outcomes.len() == WRITES as usize && outcomes.iter().all(applied));
            client
        }
    });

    let mut client = program.join().unwrap();
    other.join().unwrap();
    link.tell(|state| state.done = true);
    let mut session = connection.join().unwrap();

    // Nothing was lost in transit: finally the program has the newest update, and its losses, which
    // are none if every writer waits for room.
    let variable = engine.resolve(&Caller::local(3, 0), "rig/x").unwrap();
    let written = u64::from(WRITES + OTHER_WRITES);
    assert_eq!(variable.sequence(), written);
    assert!(variable.ledger().is_balanced());
    for _ in 0..20 {
        exchange(&mut client, &mut session, &link);
        while let Some(event) = client.next_event(link.now(), subscription) {
            if let Event::Reading { reading, .. } = event {
                assert!(!reading.lost.unknown);
            }
        }
    }
    let last = client
        .value(link.now(), subscription, 0)
        .expect("it has a reading");
    assert_eq!(last.position.sequence, written);
    let ledger = client.ledger(subscription).unwrap();
    assert!(ledger.is_balanced() && ledger.waiting == 0, "{ledger:?}");
}

fn explore(stall: Duration, program: Program, clock: Clock) {
    let schedules = std::env::var("SHUTTLE_SCHEDULES").ok();
    let schedules = schedules
        .and_then(|n| n.parse().ok())
        .unwrap_or(120_000_usize);
    let each = schedules.div_ceil(2 * TESTS);
    let test = move || write_and_be_subscribed(stall, program, clock);
    shuttle::check_random(test, each);
    shuttle::check_pct(test, each, 3);
}

#[test]
fn client_that_waits_for_its_writes_ends_its_own_subscription() {
    explore(Duration::ZERO, Program::Waits, Clock::StandsStill);
}

#[test]
fn client_that_takes_its_updates_gets_its_answers() {
    explore(Duration::ZERO, Program::Takes, Clock::StandsStill);
}

#[test]
fn client_waits_for_its_writes_no_longer_than_the_stall_limit() {
    explore(STALL, Program::Waits, Clock::Passes);
}

#[test]
fn client_that_takes_its_updates_makes_room_for_its_own_writes() {
    explore(STALL, Program::Takes, Clock::StandsStill);
}
