//! Tests `all` subscriptions over a connection that breaks: no update is lost within the bound of the feed.

use std::time::Duration;

use trunkline_client::{Event, SubscribeOptions, SubscriptionId};
use trunkline_engine::{Engine, EngineOptions};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_serve::{RESUME_FOR, ServeOptions};
use trunkline_types::Reading;

use crate::rig::{Pair, World, client_options, f64_variable, reading, sequences};

const NAMES: [&str; 3] = ["rig/a", "rig/b", "rig/c"];

fn world() -> World {
    let variables = ["a", "b", "c"].map(f64_variable);
    let world = World::with_library("rig", variables.to_vec());
    NAMES.iter().for_each(|name| world.set(name, 0.0));
    world
}

/// The updates that a subscriber has received of each variable: sequence numbers, and losses.
#[derive(Default)]
struct Had {
    sequences: [Vec<u64>; 3],
    lost: u64,
    unknown: bool,
}

impl Had {
    fn take(&mut self, pair: &mut Pair, id: SubscriptionId) {
        for event in pair.events(id) {
            let Event::Reading { item, reading } = event else {
                continue;
            };
            let Reading { position, lost, .. } = reading;
            self.sequences[item as usize].push(position.sequence);
            self.unknown |= lost.unknown;
            self.lost += lost.count().unwrap_or(0);
        }
    }

    fn is_gapless(&self) -> bool {
        let next = |pair: &[u64]| pair[0] + 1 == pair[1];
        self.sequences.iter().all(|one| one.windows(2).all(next))
    }
}

fn set_all(world: &World, rounds: u32) {
    for round in 0..rounds {
        NAMES
            .iter()
            .for_each(|name| world.set(name, f64::from(round)));
    }
}

/// Behaviour: B-02, B-03, B-05.
#[test]
fn updates_in_transit_or_written_meanwhile_arrive_after_a_reconnect() {
    let world = world();
    let mut pair = Pair::on(&world);
    let id = pair.subscribe(&NAMES, "all:1000");
    pair.exchange();
    let mut had = Had::default();
    for round in 0..20 {
        set_all(&world, 3);
        // The client receives a part of the data, and confirms a part of the received data.
        if round % 3 == 0 {
            pair.exchange();
        }
        set_all(&world, 2);
        pair.cut_after(round * 7, round * 40);
        set_all(&world, 4);
        pair.connect();
        pair.exchange();
        had.take(&mut pair, id);
    }
    pair.exchange();
    had.take(&mut pair, id);
    assert!(had.is_gapless(), "{:?}", had.sequences);
    assert_eq!((had.lost, had.unknown), (0, false));
    let last = had.sequences.each_ref().map(|one| *one.last().unwrap());
    assert_eq!(last, [181; 3]);
    pair.settle();
    for (item, name) in NAMES.iter().enumerate() {
        let variable = pair.variable(name);
        let ledger = pair.engine_ledger(id, variable);
        assert!(ledger.is_balanced(), "{item}: {ledger:?}");
        assert_eq!(ledger.dropped_disconnect, 0, "{item}: {ledger:?}");
    }
    assert_eq!(
        world.engine().health().detached_sessions(),
        0,
        "nobody is waited for"
    );
}

/// Behaviour: B-02, B-03, B-05.
#[test]
fn beyond_the_bound_of_the_subscription_the_oldest_is_lost_and_counted() {
    let world = world();
    let mut pair = Pair::on(&world);
    let id = pair.subscribe(&NAMES, "all:24");
    pair.exchange();
    let mut had = Had::default();
    had.take(&mut pair, id);
    pair.cut();
    set_all(&world, 100);
    pair.connect();
    pair.exchange();
    for _ in 0..10 {
        had.take(&mut pair, id);
        pair.exchange();
    }
    let got: usize = had.sequences.iter().map(|one| one.len() - 1).sum();
    assert!((20..=24).contains(&got), "{got} of at most 24");
    assert_eq!((got as u64 + had.lost, had.unknown), (300, false));
    for one in &had.sequences {
        assert_eq!(*one.last().unwrap(), 101);
    }
}

/// Behaviour: B-02, B-03.
#[test]
fn losses_before_the_first_readings_are_reported() {
    let world = world();
    let mut pair = Pair::on(&world);
    let options = SubscribeOptions::default();
    let contract = "all:24".parse().unwrap();
    let id = pair.client.subscribe(&NAMES, contract, options).unwrap();
    pair.cut_after(usize::MAX, 0);
    assert_eq!(
        world.engine().health().detached_sessions(),
        1,
        "the engine has had it"
    );
    set_all(&world, 100);
    pair.connect();
    let mut had = Had::default();
    for _ in 0..10 {
        pair.exchange();
        had.take(&mut pair, id);
    }
    let got: usize = had.sequences.iter().map(Vec::len).sum();
    assert!((20..=24).contains(&got), "{got} of at most 24");
    assert!(had.is_gapless(), "{:?}", had.sequences);
    // The first reading would have been that of an update.
    assert_eq!((got as u64 + had.lost, had.unknown), (303, false));
}

/// Behaviour: B-05, B-08.
#[test]
fn no_writer_waits_for_a_session_that_broke() {
    let mut variable = f64_variable("a");
    let mut properties = (*variable.properties).clone();
    properties.stall = Duration::from_secs(3600);
    variable.properties = properties.into();
    let world = World::with_library("rig", vec![variable]);
    let mut pair = Pair::on(&world);
    let id = pair.subscribe(&["rig/a"], "all:8");
    pair.exchange();
    pair.cut();
    for number in 0..100 {
        world.set("rig/a", f64::from(number));
    }
    pair.connect();
    pair.exchange();
    let readings: Vec<Reading> = pair.events(id).into_iter().filter_map(reading).collect();
    assert_eq!(sequences(&readings).last(), Some(&100));
    let lost: u64 = readings.iter().filter_map(|one| one.lost.count()).sum();
    assert_eq!(lost + readings.len() as u64 - 1, 100);
}

/// Behaviour: B-03.
#[test]
fn kept_updates_are_released_after_their_time_and_reported_as_lost() {
    let world = world();
    let mut pair = Pair::on(&world);
    let id = pair.subscribe(&NAMES, "all:1000");
    pair.exchange();
    let mut had = Had::default();
    had.take(&mut pair, id);
    pair.cut();
    assert_eq!(world.engine().health().detached_sessions(), 1);
    set_all(&world, 2);
    world.advance(RESUME_FOR);
    assert_eq!(world.engine().health().detached_sessions(), 0);
    set_all(&world, 1);
    pair.connect();
    pair.exchange();
    had.take(&mut pair, id);
    assert_eq!((had.lost, had.unknown), (6, false));
}

/// Behaviour: B-05.
#[test]
fn session_that_says_goodbye_is_not_kept() {
    let world = world();
    let mut pair = Pair::on(&world);
    pair.subscribe(&NAMES, "all:1000");
    pair.exchange();
    pair.client.shut_down();
    pair.exchange();
    assert_eq!(world.engine().health().detached_sessions(), 0);
}

/// Behaviour: B-05.
#[test]
fn session_that_violates_the_protocol_is_not_kept() {
    let world = world();
    let mut pair = Pair::on(&world);
    pair.subscribe(&NAMES, "all:1000");
    pair.exchange();
    let (now, wall) = world.time();
    let session = pair.session.as_mut().expect("it is connected");
    session.handle_input(now, wall, &[0xff; 64]);
    let cause = session.wants_close();
    assert!(
        matches!(cause, Some(Disconnect::Malformed { .. })),
        "{cause:?}"
    );
    assert_eq!(world.engine().health().detached_sessions(), 0);
}

/// Behaviour: B-03, B-05.
#[test]
fn updates_still_in_another_subscribers_feed_are_not_lost() {
    let world = world();
    let options = |resume_for| ServeOptions {
        resume_for,
        ..ServeOptions::default()
    };
    // Kept updates are released before the session resumes.
    let at_once = options(Duration::from_nanos(1));
    let mut pair = Pair::offline(&world, at_once, client_options());
    pair.connect();
    let id = pair.subscribe(&NAMES, "all:1000");
    pair.exchange();
    let mut had = Had::default();
    had.take(&mut pair, id);
    // Create another client, which accepts no data for some time.
    let mut other = Pair::offline(&world, options(Duration::ZERO), client_options());
    other.connect();
    other.subscribe(&NAMES, "all:1000");
    other.exchange();
    pair.cut();
    world.advance(Duration::from_millis(1));
    assert_eq!(
        world.engine().health().detached_sessions(),
        0,
        "nothing is kept"
    );
    set_all(&world, 10);
    pair.connect();
    pair.exchange();
    had.take(&mut pair, id);
    assert!(had.is_gapless(), "{:?}", had.sequences);
    assert_eq!((had.lost, had.sequences[0].len()), (0, 11));
}

/// Behaviour: B-06.
#[test]
fn kept_updates_count_in_the_engine_budget_and_yield_to_pending_ones() {
    let mut options = EngineOptions::new("rig", 1);
    options.queue_bytes_max = 1 << 20;
    let world = World::of(Engine::new(options));
    world.deploy("rig", vec![f64_variable("a")]);
    let before = world.engine().health().queue_memory().unwrap().used;
    let mut pairs: Vec<Pair> = (0..40).map(|_| Pair::on(&world)).collect();
    for pair in &mut pairs {
        pair.subscribe(&["rig/a"], "all:1000");
        pair.exchange();
        pair.cut();
    }
    for number in 0..2000 {
        world.set("rig/a", f64::from(number));
    }
    let used = world.engine().health().queue_memory().unwrap();
    // Half of them, and for each session the amount that it borrows at a time.
    let bound = used.max / 2 + 40 * (8 << 10);
    assert!(
        (before + (100 << 10)..=bound).contains(&used.used),
        "{used:?}"
    );
    world.advance(RESUME_FOR);
    assert_eq!(world.engine().health().queue_memory().unwrap().used, before);
    assert_eq!(world.engine().health().detached_sessions(), 0);
}

/// If another engine at the same address has the same epoch by chance, neither end resumes the previous
/// session.
///
/// Behaviour: B-03.
#[test]
fn another_engine_with_an_equal_epoch_is_not_resumed() {
    let world = world();
    let mut pair = Pair::on(&world);
    let id = pair.subscribe(&NAMES, "all:1000");
    pair.exchange();
    Had::default().take(&mut pair, id);
    set_all(&world, 3);
    pair.cut();
    set_all(&world, 2);
    pair.becomes_engine([7; 16]);
    pair.connect();
    pair.exchange();
    let mut had = Had::default();
    had.take(&mut pair, id);
    assert!(had.unknown, "what lies between nobody can know");
    let first = had.sequences.each_ref().map(|one| one.first().copied());
    assert_eq!(
        first,
        [Some(6); 3],
        "the present value, not what the other engine owed"
    );
    assert_eq!(
        world.engine().health().detached_sessions(),
        1,
        "the absent session is left alone"
    );
}
