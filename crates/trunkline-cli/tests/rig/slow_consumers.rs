//! F1 and F2: subscribers that stop reading cost a bounded piece of memory, and the others nothing.

use std::time::Duration;

use trunkline_net::Clock;
use trunkline_types::Contract;

use crate::crowd::Crowd;
use crate::engine::{Engine, Handles, config, names};
use crate::figures::{is_full, quantile, record, size};
use crate::{CUT_OFF, alone};

/// Maximum number of bytes waiting for one session, by the configuration.
const QUEUE: u64 = 256 << 10;
/// Size of a session's output in transit into its socket, in bytes: `OUTPUT_MAX` of trunkline-net,
/// and one frame.
const OUTPUT: u64 = 128 << 10;

fn bounded(sessions: usize) -> String {
    // Stalled clients send nothing either; here they are not to be given up for it.
    let limits = format!(
        "sessions_max = {}\nqueue_bytes_per_session_max = {QUEUE}",
        sessions + 50
    );
    format!("keep_alive = \"30s\"\ndeadline = \"1h\"\n[engine.limits]\n{limits}\n")
}

/// Ten contracts, each with its own parameters.
fn contract(index: usize) -> Contract {
    match index % 4 {
        0 => Contract::Latest,
        1 => Contract::Last(100),
        2 => Contract::First(100),
        _ => Contract::ALL,
    }
}

/// Behaviour: B-06.
#[test]
fn stalled_subscribers_use_bounded_memory_and_learn_their_losses() {
    let _alone = alone();
    let (subscribers, variables) = (size(24, 1000), size(50, 100));
    let engine = Engine::start(&config(variables, "f64", &bounded(subscribers)));
    let names = names(variables);
    let writer = engine.client();
    let handles = Handles::open(&writer, &names);
    handles.write(&writer, 0.0);
    writer.flush(CUT_OFF).unwrap();
    let mut crowd = Crowd::new(engine.address);
    for index in 0..subscribers {
        crowd.join(&names, contract(index));
    }
    let first = handles.read(&writer);
    crowd.run("the first values", |crowd| {
        crowd
            .members
            .iter()
            .all(|member| member.view.equals(&first))
    });
    let clock = Clock::new();
    let before = engine.resident();
    for member in &mut crowd.members {
        member.stalled = true;
    }
    let start = clock.now();
    let length = size(Duration::from_secs(2), Duration::from_secs(60));
    let (mut rounds, mut half, mut most) = (0u64, 0, 0);
    while rounds < 1000 || clock.now().since(start) < length {
        rounds += 1;
        handles.write(&writer, rounds as f64);
        if rounds.is_multiple_of(20) {
            writer.flush(CUT_OFF).unwrap();
            most = most.max(engine.resident());
            if clock.now().since(start) < length / 2 {
                half = most;
            }
        }
    }
    writer.flush(CUT_OFF).unwrap();
    let took = clock.now().since(start);
    let bound = subscribers as u64 * (QUEUE + OUTPUT) / 1024;
    let grown = most.saturating_sub(before);
    assert!(
        grown <= bound + bound / 10 + (8 << 10),
        "{grown} KiB more, where {bound} KiB may wait"
    );

    // They continue, and each knows the outcome of every update.
    let last = handles.read(&writer);
    for member in &mut crowd.members {
        member.stalled = false;
    }
    crowd.run("the last values", |crowd| {
        let mut members = crowd.members.iter().enumerate();
        members.all(|(index, member)| match contract(index) {
            // Those that keep the oldest have the end once something comes after it.
            Contract::First(_) => member.view.readings > 0,
            _ => member.view.equals(&last),
        })
    });
    handles.write(&writer, -1.0);
    writer.flush(CUT_OFF).unwrap();
    let last = handles.read(&writer);
    crowd.run("an update after the last values", |crowd| {
        crowd.members.iter().all(|member| member.view.equals(&last))
    });
    let updates: u64 = last.iter().map(|reading| reading.position.sequence).sum();
    let mut skipped = 0;
    for (index, member) in crowd.members.iter().enumerate() {
        let view = &member.view;
        assert!(
            view.disconnects.is_empty(),
            "client {index}: {:?}",
            view.disconnects
        );
        // The first reading of an item does not count earlier updates for any subscriber.
        let missed_none = view.readings + view.skipped;
        assert_eq!(missed_none, updates, "client {index}");
        skipped += view.skipped;
    }
    assert!(skipped > 0, "nobody was slow");
    if is_full() {
        let check = format!("F1, {subscribers} subscribers stalled");
        let rate = rounds as f64 * variables as f64 / took.as_secs_f64() / 1e3;
        record(
            &check,
            "updates per second meanwhile",
            &format!("{rate:.0} thousand"),
            "100 thousand",
        );
        record(
            &check,
            "increase in resident memory, of the configured buffers",
            &format!("{} of {} MiB", grown >> 10, bound >> 10),
            "at most 10 % above",
        );
        let later = most.saturating_sub(half) >> 10;
        record(
            &check,
            "of that increase in the second half",
            &format!("{later} MiB"),
            "0",
        );
        record(
            &check,
            "updates skipped, each of them reported",
            &skipped.to_string(),
            "exact",
        );
    }
}

/// Rounds in which one update goes to all readers; the time until each has it.
fn latencies(crowd: &mut Crowd, engine: &Engine, rounds: usize, value: &mut f64) -> Vec<Duration> {
    let client = engine.client();
    let handles = Handles::open(&client, &names(VARIABLES));
    let clock = Clock::new();
    let mut all = Vec::new();
    for _ in 0..rounds {
        *value += 1.0;
        let start = clock.now();
        handles.write(&client, *value);
        let expected = handles.read(&client);
        let mut seen = vec![false; crowd.members.len()];
        crowd.run("an update at all who read", |crowd| {
            for (index, member) in crowd.members.iter().enumerate() {
                if !seen[index] && !member.stalled && member.view.equals(&expected) {
                    seen[index] = true;
                    all.push(clock.now().since(start));
                }
            }
            let mut members = crowd.members.iter().zip(&seen);
            members.all(|(member, seen)| *seen || member.stalled)
        });
    }
    all
}

const VARIABLES: usize = 10;

/// Behaviour: B-06.
#[test]
fn stalled_half_of_the_clients_does_not_affect_the_other() {
    let _alone = alone();
    let (clients, rounds) = (size(20, 200), size(50, 200));
    let engine = Engine::start(&config(VARIABLES, "f64", &bounded(clients)));
    let mut crowd = Crowd::new(engine.address);
    for index in 0..clients {
        // Not `first:n`, which after a stall has the newest value only with the next one.
        let contracts = [Contract::Latest, Contract::Last(100), Contract::ALL];
        crowd.join(&names(VARIABLES), contracts[index / 2 % 3]);
    }
    let mut value = 0.0;
    let (mut calm, mut with_stalled) = (Vec::new(), Vec::new());
    for _ in 0..size(1, 5) {
        calm.extend(latencies(&mut crowd, &engine, rounds, &mut value));
        set_stalled(&mut crowd, true);
        with_stalled.extend(latencies(&mut crowd, &engine, rounds, &mut value));
        set_stalled(&mut crowd, false);
    }
    for member in crowd.members.iter().step_by(2) {
        assert!(member.view.disconnects.is_empty());
        assert_eq!(member.view.lost, 0, "who reads in time loses nothing");
    }
    if is_full() {
        let check = format!("F2, half of {clients} clients stalled");
        let (calm, stalled) = (quantile(&mut calm, 0.99), quantile(&mut with_stalled, 0.99));
        let ratio = stalled.as_secs_f64() / calm.as_secs_f64();
        record(
            &check,
            "p99 of the others' latency, relative to no stalls",
            &format!(
                "{:.2} ({} to {} us)",
                ratio,
                stalled.as_micros(),
                calm.as_micros()
            ),
            "at most 1.2",
        );
    }
}

fn set_stalled(crowd: &mut Crowd, stalled: bool) {
    for member in crowd.members.iter_mut().skip(1).step_by(2) {
        member.stalled = stalled;
    }
}
