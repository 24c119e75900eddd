//! F22 and F23: legal requests, as many and as large as they may be, and beyond.

use std::collections::BTreeMap;

use trunkline::proto::FaultCode;
use trunkline::{Client, Event, OpenOptions, SubscribeOptions};
use trunkline_net::Clock;
use trunkline_types::Contract;

use crate::engine::{Engine, Handles, config, names};
use crate::figures::{is_full, record, seconds, size};
use crate::{CUT_OFF, alone, until};

/// The first faults of a subscription, and how many of its items have a reading.
fn outcome(client: &Client, names: &[String]) -> (usize, Vec<(u32, FaultCode, String)>) {
    let subscription = client
        .subscribe(names, Contract::Latest, SubscribeOptions::default())
        .unwrap();
    // A refused item is retried, and reported again, while another one waits for the rest.
    let (mut readings, mut faults) = (0, BTreeMap::new());
    while readings + faults.len() < names.len() {
        match subscription
            .next(Some(CUT_OFF))
            .expect("an answer for each item")
        {
            Event::Reading { .. } => readings += 1,
            Event::ItemError { item, fault } => {
                faults.insert(item, (item, fault.code, fault.sentence));
            }
            _ => {}
        }
    }
    (readings, faults.into_values().collect())
}

/// Behaviour: B-83.
#[test]
fn items_beyond_the_limit_are_refused_individually() {
    let _alone = alone();
    let limit = size(100, 100_000);
    let limits = format!("[engine.limits]\nitems_per_session_max = {limit}\n");
    let engine = Engine::start(&config(2 * limit, "f64", &limits));
    let client = engine.client();
    let others = Handles::open(&engine.client(), &names(10));
    let (readings, faults) = outcome(&client, &names(2 * limit));
    assert_eq!((readings, faults.len()), (limit, limit));
    for (item, code, sentence) in &faults {
        assert_eq!(*code, FaultCode::LimitReached, "item {item}: {sentence}");
        assert!(*item as usize >= limit, "the first ones have their place");
        assert!(sentence.contains("items of one session"), "{sentence}");
    }
    let refused = faults.len();
    // Another session has its own limit, and this one still works.
    assert_eq!(others.0.len(), 10);
    let (readings, faults) = outcome(&engine.client(), &names(limit));
    assert_eq!((readings, faults.len()), (limit, 0));
    // Returned items are available again.
    until("the release of items", || {
        let (readings, _) = outcome(&client, &names(limit));
        (readings == limit).then_some(())
    });
    if is_full() {
        let check = format!("F23, {} items where {limit} are allowed", 2 * limit);
        record(
            &check,
            "refused, each with its own error",
            &refused.to_string(),
            "exactly the items beyond the limit",
        );
    }
}

/// Behaviour: B-83.
#[test]
fn sessions_beyond_the_limit_learn_when_to_retry() {
    let _alone = alone();
    let engine = Engine::start(&config(1, "f64", "[engine.limits]\nsessions_max = 10\n"));
    let clients: Vec<Client> = (0..10).map(|_| engine.client()).collect();
    for client in &clients {
        client.wait_connected(CUT_OFF).unwrap();
    }
    let beyond: Vec<Client> = (0..10).map(|_| engine.client()).collect();
    for client in &beyond {
        let cause = until("the refusal", || client.state().cause().cloned());
        let sentence = cause.to_string();
        assert!(
            sentence.contains("10 sessions are open, which is the limit"),
            "{sentence}"
        );
        assert!(cause.retry_after().is_some(), "{cause:?}");
    }
    for client in &clients {
        client.engine_info(CUT_OFF).unwrap();
        assert!(client.state().is_connected());
    }
    // They come by themselves as soon as there is room.
    drop(clients);
    for client in &beyond {
        client.wait_connected(CUT_OFF).unwrap();
    }
}

/// Behaviour: B-83.
#[test]
fn names_and_patterns_work_up_to_their_limits() {
    let _alone = alone();
    let longest = format!("rig/{}", "n".repeat(1020));
    let text = "[engine]\nlocal_socket = false\n[library]\nname = \"rig\"\n[[variable]]\nname = \"NAME\"\ntype = \"f64\"\n";
    let engine = Engine::start(&text.replace("NAME", &longest[4..]));
    let client = engine.client();
    let beyond = [longest.clone() + "n", longest.repeat(2), "x".repeat(60_000)];
    let all: Vec<String> = std::iter::once(longest.clone()).chain(beyond).collect();
    let opened = client.open(&all, OpenOptions::default(), CUT_OFF).unwrap();
    assert!(opened[0].is_ok(), "{:?}", opened[0]);
    for refused in &opened[1..] {
        let fault = refused.as_ref().unwrap_err();
        assert_eq!(fault.code, FaultCode::BadName);
        assert!(
            fault.sentence.contains("1024") || fault.sentence.contains("1,024"),
            "{fault}"
        );
    }
    let widest = format!("rig/{}", "*n".repeat(16));
    let full = format!("{}*", "n".repeat(255));
    for pattern in [widest.clone(), full] {
        client.find(&pattern, None, CUT_OFF).unwrap();
    }
    assert_eq!(client.find(&widest, None, CUT_OFF).unwrap().len(), 1);
    for pattern in [
        format!("{widest}*"),
        "*n".repeat(32),
        "n".repeat(257),
        "*".repeat(60_000),
    ] {
        let error = client.find(&pattern, None, CUT_OFF).unwrap_err();
        assert!(
            matches!(&error, trunkline::CallError::Fault(fault)
            if fault.code == FaultCode::BadPattern),
            "{error}"
        );
    }
    assert!(client.state().is_connected(), "the session goes on");
}

/// Behaviour: B-83.
#[test]
fn patterns_to_follow_are_limited_per_session() {
    let _alone = alone();
    let engine = Engine::start(&config(2, "f64", ""));
    let client = engine.client();
    let mut watches = Vec::new();
    let mut refused = 0;
    for index in 0..2048 {
        watches.push(client.watch(&format!("rig/v{index}*")).unwrap());
    }
    for watch in &watches {
        loop {
            match watch
                .next(Some(CUT_OFF))
                .expect("an answer for each pattern")
            {
                trunkline::WatchEvent::Failed(fault) => {
                    assert_eq!(fault.code, FaultCode::LimitReached);
                    refused += 1;
                    break;
                }
                trunkline::WatchEvent::Listed => break,
                _ => {}
            }
        }
    }
    assert_eq!(refused, 1024);
    client.engine_info(CUT_OFF).unwrap();
}

/// The worst pattern for the longest names: the matcher's own steps are counted in its unit tests;
/// here others are served while it runs.
///
/// Behaviour: B-83.
#[test]
fn slow_pattern_does_not_block_other_clients() {
    let _alone = alone();
    let count = size(2000, 15_000);
    let mut text = "[engine]\nlocal_socket = false\n[library]\nname = \"rig\"\n".to_owned();
    for index in 0..count {
        use std::fmt::Write;
        let name = format!("{}{index}", "ab/".repeat(300));
        let _ = write!(text, "[[variable]]\nname = \"{name}\"\ntype = \"f64\"\n");
    }
    let engine = Engine::start(&text);
    let (slow, other) = (engine.client(), engine.client());
    other.wait_connected(CUT_OFF).unwrap();
    let pattern = "**/ab/**/a*b*/**/*a*b*/**/*b/*c";
    let clock = Clock::new();
    let searching = std::thread::spawn(move || {
        let start = clock.now();
        let found = slow.find(pattern, None, CUT_OFF);
        (found.map(|found| found.len()), clock.now().since(start))
    });
    let (mut round_trips, mut slowest) = (0, std::time::Duration::ZERO);
    while !searching.is_finished() {
        let start = clock.now();
        other.engine_info(CUT_OFF).unwrap();
        slowest = slowest.max(clock.now().since(start));
        round_trips += 1;
    }
    let (found, took) = searching.join().unwrap();
    assert_eq!(found, Ok(0));
    assert!(round_trips > 0);
    if is_full() {
        let check = format!("F22, {count} names of 900 characters");
        record(&check, "slowest pattern over all names", &seconds(took), "");
        record(
            &check,
            "slowest round trip of another client meanwhile",
            &seconds(slowest),
            "",
        );
    }
}
