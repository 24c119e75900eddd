//! Tests throughput mode: which data is gathered, when it is sent, and the effect of a flush. The tests
//! advance the time themselves.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{
    ClientOptions, OpenOptions, Request, RequestId, SubscriptionId, VariableRef, Write,
    WriteOptions,
};
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::{
    Endpoint, Fault, FaultCode, Features, FrameKind, Negotiation, ThroughputMode,
};
use trunkline_serve::{FlushBroadcast, ServeOptions};
use trunkline_types::{DataType, Tick, Value};

use super::rig::{Pair, World, client_options, define, f64_variable};

const DELAY: Duration = Duration::from_millis(10);
const MICROSECOND: Duration = Duration::from_micros(1);

/// An engine whose sessions share their flushes.
struct Plant {
    world: World,
    flushes: Arc<FlushBroadcast>,
}

impl Plant {
    fn new() -> Self {
        let variables = vec![
            f64_variable("x"),
            f64_variable("y"),
            define("text", DataType::String, |_| {}),
        ];
        let world = World::with_library("rig", variables);
        world.set("rig/x", 0.0);
        world.set("rig/y", 0.0);
        Self {
            world,
            flushes: Arc::default(),
        }
    }

    fn serve(&self) -> ServeOptions {
        ServeOptions {
            flushes: Arc::clone(&self.flushes),
            ..ServeOptions::default()
        }
    }

    /// Creates a client in throughput mode.
    fn gathering(&self) -> Pair {
        self.client(Some(ThroughputMode::DEFAULT))
    }

    fn client(&self, throughput_mode: Option<ThroughputMode>) -> Pair {
        let client = ClientOptions {
            throughput_mode,
            ..client_options()
        };
        let mut pair = Pair::offline(&self.world, self.serve(), client);
        pair.connect();
        assert_eq!(pair.client.throughput_mode(), throughput_mode);
        pair
    }

    fn x(&self) -> u64 {
        self.world.sequence("rig/x")
    }
}

/// Lets time pass until a request is answered, and returns the answer.
fn answer<R: Request>(pair: &mut Pair, request: RequestId<R>) -> Result<R::Answer, Fault> {
    pair.pass(DELAY * 2);
    pair.client.take(request).expect("an answer")
}

fn variable(pair: &mut Pair, name: &str) -> VariableRef {
    let request = pair.client.open(&[name], OpenOptions::default()).unwrap();
    let opened = answer(pair, request).unwrap();
    opened.into_iter().next().unwrap().unwrap().variable
}

fn follow(pair: &mut Pair, name: &str, contract: &str) -> SubscriptionId {
    let id = pair.subscribe(&[name], contract);
    pair.pass(DELAY * 4);
    pair.values(id);
    id
}

fn put(pair: &mut Pair, variable: VariableRef, value: f64) {
    let write = Write::new(variable, Value::F64(value));
    pair.client.write_untracked([write], Tick::MAX).unwrap();
    pair.exchange();
}

/// Behaviour: LX-02, LX-04, LX-07.
#[test]
fn a_lone_small_write_leaves_after_10_ms() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let x = variable(&mut sut, "rig/x");
    put(&mut sut, x, 1.0);
    assert_eq!(plant.x(), 1);
    sut.pass(DELAY - MICROSECOND);
    assert_eq!(plant.x(), 1);
    sut.pass(MICROSECOND);
    assert_eq!(plant.x(), 2);
    // The engine gathers the answer.
    assert_eq!(sut.client.pending(), 1);
    sut.pass(DELAY);
    assert_eq!(sut.client.pending(), 0);
}

/// Behaviour: LX-03.
#[test]
fn full_buffer_is_sent_at_once_by_the_thread_that_filled_it() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let (x, text) = (variable(&mut sut, "rig/x"), variable(&mut sut, "rig/text"));
    put(&mut sut, x, 1.0);
    assert_eq!(plant.x(), 1);
    let long = Write::new(text, Value::String("t".repeat(9_000).into()));
    sut.client.write_untracked([long], Tick::MAX).unwrap();
    sut.exchange();
    assert_eq!((plant.x(), plant.world.sequence("rig/text")), (2, 1));
}

/// Behaviour: LX-04, LX-05.
#[test]
fn data_for_one_client_is_gathered_in_one_buffer() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let (first, second) = (
        follow(&mut sut, "rig/x", "all"),
        follow(&mut sut, "rig/y", "latest"),
    );
    plant.world.set("rig/x", 1.0);
    sut.exchange();
    sut.pass(DELAY / 2);
    // The second write waits only until the time of the first one is over.
    plant.world.set("rig/y", 2.0);
    sut.pass(DELAY / 2 - MICROSECOND);
    assert_eq!((sut.values(first), sut.values(second)), (vec![], vec![]));
    sut.pass(MICROSECOND);
    let both = (sut.values(first), sut.values(second));
    assert_eq!(both, (vec![1.0], vec![2.0]));
}

/// Behaviour: LX-05.
#[test]
fn requests_writes_and_subscriptions_of_a_process_leave_together() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let x = variable(&mut sut, "rig/x");
    sut.traffic.to_engine.kinds.clear();
    put(&mut sut, x, 1.0);
    sut.subscribe(&["rig/y"], "latest");
    sut.client.read(&[x]).unwrap();
    sut.exchange();
    assert!(sut.traffic.to_engine.kinds.is_empty());
    sut.pass(DELAY);
    let kinds = [FrameKind::Write, FrameKind::Open, FrameKind::Read];
    assert_eq!(sut.traffic.to_engine.kinds, kinds.map(FrameKind::number));
}

/// Behaviour: LX-06.
#[test]
fn buffers_of_variables_are_unchanged_by_throughput_mode() {
    let mut seen = Vec::new();
    for throughput_mode in [None, Some(ThroughputMode::DEFAULT)] {
        let plant = Plant::new();
        let mut sut = plant.client(throughput_mode);
        let ids = ["latest", "last:4", "first:4", "all"].map(|c| follow(&mut sut, "rig/x", c));
        for value in 1..=10 {
            plant.world.set("rig/x", f64::from(value));
            sut.exchange();
        }
        sut.pass(DELAY * 4);
        // Only the buffers of the subscriptions contain updates that the program did not take in time.
        let taken = ids.map(|id| {
            let readings = sut.readings(id).into_iter();
            let seen = readings.map(|reading| (super::rig::value(&reading), reading.lost));
            seen.collect::<Vec<_>>()
        });
        let values: [Vec<f64>; 4] = taken
            .each_ref()
            .map(|taken| taken.iter().map(|(value, _)| *value).collect());
        let expected: [Vec<f64>; 4] = [
            vec![10.0],
            vec![7.0, 8.0, 9.0, 10.0],
            vec![1.0, 2.0, 3.0, 4.0],
            (1..=10).map(f64::from).collect(),
        ];
        assert_eq!(values, expected);
        seen.push(taken);
    }
    assert_eq!(seen[0], seen[1]);
}

/// Behaviour: LX-08.
#[test]
fn flush_passes_through_the_engine_to_the_other_clients() {
    let plant = Plant::new();
    let (mut writer, mut reader) = (plant.gathering(), plant.gathering());
    let x = variable(&mut writer, "rig/x");
    let id = follow(&mut reader, "rig/x", "all");
    put(&mut writer, x, 1.0);
    reader.exchange();
    assert_eq!((plant.x(), reader.values(id)), (1, vec![]));
    let flush = writer.client.flush().unwrap();
    writer.exchange();
    reader.exchange();
    assert!(matches!(writer.client.take(flush), Some(Ok(_))));
    assert_eq!(writer.client.pending(), 0, "the write is answered");
    assert_eq!(reader.values(id), [1.0]);
    // A flush completes once, and later writes wait again.
    put(&mut writer, x, 2.0);
    assert_eq!(plant.x(), 2);
}

/// Behaviour: LX-08.
#[test]
fn the_program_that_hosts_the_engine_flushes_what_it_wrote() {
    let plant = Plant::new();
    let mut reader = plant.gathering();
    let id = follow(&mut reader, "rig/x", "all");
    plant.world.set("rig/x", 1.0);
    reader.exchange();
    assert!(reader.values(id).is_empty());
    plant.flushes.flush();
    reader.exchange();
    assert_eq!(reader.values(id), [1.0]);
}

/// Behaviour: LX-09.
#[test]
fn flush_sends_the_gathered_data_of_both_ends() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let x = variable(&mut sut, "rig/x");
    let id = follow(&mut sut, "rig/y", "all");
    plant.world.set("rig/y", 7.0);
    put(&mut sut, x, 1.0);
    let read = sut.client.read(&[x]).unwrap();
    sut.exchange();
    assert!(sut.values(id).is_empty());
    sut.client.flush().unwrap();
    sut.exchange();
    assert_eq!(plant.x(), 2);
    assert_eq!(sut.values(id), [7.0]);
    assert!(matches!(sut.client.take(read), Some(Ok(_))));
}

/// Behaviour: LX-10.
#[test]
fn a_flush_sends_what_other_programs_wrote_to_the_engine() {
    let plant = Plant::new();
    let mut others = plant.client(None);
    let (mut sut, mut reader) = (plant.gathering(), plant.gathering());
    let y = others.variable("rig/y");
    let id = follow(&mut reader, "rig/y", "all");
    others.write([(y, 5.0)]);
    reader.exchange();
    assert!(reader.values(id).is_empty());
    sut.client.flush().unwrap();
    sut.exchange();
    reader.exchange();
    assert_eq!(reader.values(id), [5.0]);
}

/// Behaviour: LX-08.
#[test]
fn flush_follows_writes_that_wait_for_credit() {
    let plant = Plant::new();
    let serve = ServeOptions {
        write_credit_count: 2,
        ..plant.serve()
    };
    let client = ClientOptions {
        throughput_mode: Some(ThroughputMode::DEFAULT),
        ..client_options()
    };
    let mut sut = Pair::offline(&plant.world, serve, client);
    sut.connect();
    let x = variable(&mut sut, "rig/x");
    let writes = (1..=5).map(|value| Write::new(x, Value::F64(f64::from(value))));
    sut.client.write_untracked(writes, Tick::MAX).unwrap();
    let flush = sut.client.flush().unwrap();
    assert_eq!(sut.client.write_counts().waiting, 5);
    sut.exchange();
    assert_eq!(plant.x(), 6, "it is answered behind the last of them");
    assert!(matches!(sut.client.take(flush), Some(Ok(_))));
    assert_eq!(sut.client.write_counts().applied, 5);
}

/// Behaviour: LX-11, LX-12.
#[test]
fn throughput_mode_requires_both_ends() {
    let without = Negotiation {
        features: Features::from_bits(Features::OURS.to_bits() & !Features::THROUGHPUT.to_bits()),
        ..Negotiation::OURS
    };
    for (engine, client) in [(without, Negotiation::OURS), (Negotiation::OURS, without)] {
        let plant = Plant::new();
        let serve = ServeOptions {
            negotiation: engine,
            ..plant.serve()
        };
        let client = ClientOptions {
            throughput_mode: Some(ThroughputMode::DEFAULT),
            negotiation: client,
            ..client_options()
        };
        let mut sut = Pair::offline(&plant.world, serve, client);
        sut.connect();
        assert_eq!(sut.client.throughput_mode(), None);
        let x = sut.variable("rig/x");
        let id = sut.subscribe(&["rig/x"], "all");
        sut.values(id);
        assert_eq!(sut.write([(x, 1.0)]).len(), 1);
        assert_eq!(sut.values(id), [1.0]);
        // Nothing is flushed, and no frame is sent that the other end does not know.
        let flush = sut.client.flush().unwrap();
        sut.exchange();
        assert!(matches!(sut.client.take(flush), Some(Ok(_))));
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Flush), 0);
    }
}

#[test]
fn figures_are_granted_within_the_bounds() {
    let plant = Plant::new();
    let client = ClientOptions {
        throughput_mode: Some(ThroughputMode {
            bytes: u32::MAX,
            delay: Duration::from_secs(3600),
        }),
        ..client_options()
    };
    let mut sut = Pair::offline(&plant.world, plant.serve(), client);
    sut.connect();
    let expected = ThroughputMode {
        bytes: 64 << 10,
        delay: Duration::from_secs(1),
    };
    assert_eq!(sut.client.throughput_mode(), Some(expected));
    // Keep-alives are not gathered, so neither end considers the other one dead.
    sut.pass(Duration::from_secs(60));
    assert!(sut.client.state().is_connected());
}

#[test]
fn goodbye_flushes_gathered_data() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let x = variable(&mut sut, "rig/x");
    put(&mut sut, x, 1.0);
    sut.client.shut_down();
    sut.exchange();
    assert_eq!(plant.x(), 2);

    let mut sut = plant.gathering();
    let id = follow(&mut sut, "rig/x", "all");
    plant.world.set("rig/x", 3.0);
    sut.exchange();
    assert!(sut.values(id).is_empty());
    let goodbye = Goodbye {
        code: FaultCode::ShuttingDown,
        retry_after: None,
        sentence: "it is stopped".to_owned(),
    };
    sut.session.as_mut().unwrap().shut_down(&goodbye);
    sut.wake_session();
    sut.exchange();
    assert_eq!(sut.values(id), [3.0]);
}

/// Behaviour: B-20.
#[test]
fn writes_that_were_only_gathered_when_the_connection_broke_are_unknown() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let x = variable(&mut sut, "rig/x");
    let options = WriteOptions::default();
    let write = Write {
        options,
        ..Write::new(x, Value::F64(1.0))
    };
    let batch = sut.client.write([write]).unwrap();
    sut.exchange();
    sut.cut();
    let outcomes = sut.client.take_outcomes(batch).unwrap();
    assert!(
        matches!(outcomes[0], trunkline_client::WriteOutcome::Unknown(_)),
        "{outcomes:?}"
    );
    sut.connect();
    sut.pass(DELAY * 4);
    assert_eq!(plant.x(), 1, "it is not sent behind the program's back");
}

/// Behaviour: B-06.
///
/// Gathered data for a client that reads nothing waits without requesting a turn. Otherwise the thread would
/// spin.
#[test]
fn due_data_without_room_waits_only_for_room() {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let options = ClientOptions {
        throughput_mode: Some(ThroughputMode::DEFAULT),
        ..client_options()
    };
    let mut sut = Pair::offline(&world, ServeOptions::default(), options);
    sut.gathers = true;
    sut.connect();
    let id = sut.subscribe(&["rig/x"], "latest");
    sut.pass(Duration::from_millis(100));
    sut.events(id);
    sut.world.set("rig/x", 1.0);
    sut.turn_of_session();
    (sut.capacity, sut.is_stopped) = (0, true);
    sut.world.advance(Duration::from_millis(50));
    let (now, wall) = sut.world.time();
    let session = sut.session.as_mut().unwrap();
    assert!(
        session.poll_timeout().is_some_and(|due| due <= now),
        "it is due"
    );
    session.handle_timeout(now, wall);
    assert!(session.poll_timeout().is_none_or(|due| due > now));
    (sut.capacity, sut.is_stopped) = (64 << 10, false);
    sut.wake_session();
    sut.exchange();
    assert_eq!(
        sut.values(id),
        [1.0],
        "it goes with the first room there is"
    );
}

/// Frames that return credit are not gathered while the other end needs them. No time passes in this test.
///
/// Behaviour: LX-02.
#[test]
fn writes_at_full_speed_never_wait_for_the_delay() {
    const WRITES: u32 = 50_000;
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let x = variable(&mut sut, "rig/x");
    sut.pass(DELAY * 4);
    let before = sut.client.write_counts();
    for value in 0..WRITES {
        let write = Write::new(x, Value::F64(f64::from(value)));
        sut.client.write_untracked([write], Tick::MAX).unwrap();
        if value % 500 == 0 {
            sut.exchange();
        }
    }
    sut.exchange();
    let counts = sut.client.write_counts();
    assert_eq!(counts.waiting, 0, "{counts:?}");
    let credit = u64::from(plant.serve().write_credit_count);
    let applied = counts.applied - before.applied;
    assert!(applied + credit / 2 > u64::from(WRITES), "{counts:?}");
    sut.pass(DELAY * 2);
    assert_eq!(sut.client.write_counts().in_flight, 0);
}

/// Like the previous test, but for large values, whose bytes use up the credit.
#[test]
fn large_writes_at_full_speed_never_wait_for_the_delay() {
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let text = variable(&mut sut, "rig/text");
    sut.pass(DELAY * 4);
    let before = sut.client.write_counts();
    let value: Arc<str> = "x".repeat(10_000).into();
    for _ in 0..1000 {
        let write = Write::new(text, Value::String(Arc::clone(&value)));
        sut.client.write_untracked([write], Tick::MAX).unwrap();
        sut.exchange();
    }
    let counts = sut.client.write_counts();
    assert_eq!(counts.waiting, 0, "{counts:?}");
    assert!(counts.applied - before.applied > 900, "{counts:?}");
}

/// Behaviour: LX-02.
#[test]
fn updates_at_full_speed_never_wait_for_the_delay() {
    const UPDATES: u32 = 50_000;
    let plant = Plant::new();
    let mut sut = plant.gathering();
    let all = follow(&mut sut, "rig/x", "all");
    let mut seen = 0;
    for value in 0..UPDATES {
        plant.world.set("rig/x", f64::from(value));
        if value % 500 == 0 {
            sut.exchange();
            seen += sut.values(all).len();
            sut.exchange();
        }
    }
    sut.exchange();
    seen += sut.values(all).len();
    // The data is smaller than the gather buffer of 8 KiB.
    assert!(seen as u32 + 2000 > UPDATES, "{seen}");
    sut.pass(DELAY * 2);
    seen += sut.values(all).len();
    assert_eq!(seen as u32, UPDATES);
}
