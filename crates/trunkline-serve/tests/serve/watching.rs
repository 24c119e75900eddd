//! Tests watched patterns: the order of reports, bounds, and the reports after a reconnection.

use trunkline_client::{Condition, FollowEvent, SubscribeOptions, WatchEvent, WatchId};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::find::{Find, FindBuilder, FindCondition};
use trunkline_proto::message::watch::{Unwatch, Watch};
use trunkline_proto::{FaultCode, FrameKind};
use trunkline_types::{Pattern, StepBudget, VariableDefinition};

use crate::rig::{Heard, Pair, Peer, World, f64_variable};

fn variables(range: std::ops::Range<usize>) -> Vec<VariableDefinition> {
    range.map(|n| f64_variable(&format!("v{n}"))).collect()
}

/// Takes all waiting reports. Returns the number of names that have appeared, the number of removed names,
/// and true if the listing is complete.
fn told(pair: &mut Pair, id: WatchId) -> (usize, usize, bool) {
    pair.wake_session();
    pair.exchange();
    let mut told = (0, 0, false);
    while let Some(event) = pair.client.next_watch_event(id) {
        match event {
            WatchEvent::Appeared { .. } => told.0 += 1,
            WatchEvent::Gone { .. } => told.1 += 1,
            WatchEvent::Listed => told.2 = true,
            other => panic!("{other:?}"),
        }
    }
    told
}

/// Behaviour: B-32.
#[test]
fn large_pattern_is_listed_in_pages_and_followed() {
    let world = World::with_library("big", variables(0..5_000));
    world.deploy("other", variables(0..10));
    let mut pair = Pair::on(&world);
    let id = pair.client.watch("big/*").unwrap();
    assert_eq!(told(&mut pair, id), (5_000, 0, true));
    assert!(
        pair.traffic.to_client.count(FrameKind::Appeared) >= 5,
        "in pages"
    );
    world.deploy("more", variables(0..10));
    world.undeploy("big");
    world.deploy("big", variables(4_990..5_001));
    assert_eq!(told(&mut pair, id), (11, 5_000, false));
}

/// Behaviour: B-32.
#[test]
fn a_connection_that_breaks_anywhere_in_the_listing_loses_no_name() {
    let world = World::with_library("big", variables(0..3_000));
    let mut pair = Pair::on(&world);
    let id = pair.client.watch("big/*").unwrap();
    for _ in 0..12 {
        pair.turn_of_client();
        pair.turn_of_session();
    }
    pair.cut();
    pair.connect();
    let (appeared, gone, is_listed) = told(&mut pair, id);
    assert_eq!((appeared, gone, is_listed), (3_000, 0, true));
    // The engine restarts with other libraries. Only the differences are reported.
    world.restart();
    world.deploy("big", variables(1_000..3_001));
    pair.cut();
    pair.connect();
    assert_eq!(told(&mut pair, id), (1, 1_000, true));
}

/// Behaviour: B-32.
#[test]
fn gone_follows_the_last_update_under_every_contract() {
    for contract in ["latest", "last:3", "first:3", "all:3", "sampled:1ms"] {
        let world = World::with_library("rig", vec![f64_variable("x"), f64_variable("y")]);
        let mut pair = Pair::on(&world);
        let pattern = [Pattern::parse("rig/*").unwrap()];
        let (terms, options) = (contract.parse().unwrap(), SubscribeOptions::default());
        let names: [&str; 0] = [];
        let id = pair
            .client
            .follow(&names, &pattern, &[], terms, options)
            .unwrap();
        let take = |pair: &mut Pair| -> Vec<String> {
            let mut words = Vec::new();
            loop {
                pair.wake_session();
                pair.pass(std::time::Duration::from_millis(2));
                let now = pair.world.time().0;
                let Some(event) = pair.client.next_followed(now, id) else {
                    return words;
                };
                words.push(match event {
                    FollowEvent::Appeared { name, .. } => format!("+{name}"),
                    FollowEvent::Gone { name, .. } => format!("-{name}"),
                    FollowEvent::Event(trunkline_client::Event::Reading { item, .. }) => {
                        format!("={item}")
                    }
                    _ => continue,
                });
            }
        };
        let first = take(&mut pair);
        assert_eq!(first[..2], ["+rig/x", "+rig/y"], "{contract}: {first:?}");
        assert_eq!(first.len(), 4, "{contract}: {first:?}");
        for n in 1..4 {
            world.set("rig/x", f64::from(n));
        }
        world.undeploy("rig");
        let last = take(&mut pair);
        let gone = last.iter().position(|word| word == "-rig/x").unwrap();
        let reading = last.iter().rposition(|word| word == "=0").unwrap();
        assert!(reading < gone, "{contract}: {last:?}");
        assert!(last.contains(&"-rig/y".to_owned()), "{contract}: {last:?}");
    }
}

/// Behaviour: B-32.
#[test]
fn watches_are_bounded_and_numbered_once() {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let mut peer = Peer::greeted(&world);
    let watch = |watch: u32| Watch {
        watch,
        pattern: "rig/*",
    };
    for number in 0..1024 {
        peer.say(|out| watch(number).encode(number + 1, out));
    }
    let fault = |peer: &Peer| {
        let faults = peer.frames(|frame| match frame.kind() {
            Some(FrameKind::Fault) => Some(FaultMessage::decode(frame).unwrap().fault.code),
            _ => None,
        });
        faults.into_iter().flatten().next_back()
    };
    assert_eq!(fault(&peer), None);
    peer.say(|out| watch(1024).encode(2000, out));
    assert_eq!(fault(&peer), Some(FaultCode::LimitReached));
    peer.say(|out| Unwatch { watch: 7 }.encode(0, out));
    peer.say(|out| Unwatch { watch: 7_000_000 }.encode(0, out));
    peer.say(|out| watch(7).encode(2001, out));
    peer.say(|out| watch(7).encode(2002, out));
    assert!(
        matches!(peer.last(), Heard::Goodbye(_)),
        "{:?}",
        peer.last()
    );
    assert!(peer.last_sentence().contains("watch 7 is already in use"));
}

/// Behaviour: VS-02, API-10.
#[test]
fn searches_by_field_are_answered_in_pages_and_bounded() {
    let world = World::with_library("rig", variables(0..3_000));
    world.set("rig/v7", 1.0);
    world.set("rig/v2999", 1.0);
    let mut pair = Pair::on(&world);
    let search = |pair: &mut Pair, condition: &str| {
        let condition: Condition = condition.parse().unwrap();
        let request = pair.client.search("rig/*", &[condition], None).unwrap();
        pair.answer(request)
    };
    let found = search(&mut pair, "sequence=1").unwrap();
    let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["rig/v7", "rig/v2999"]);
    let found = search(&mut pair, "sequence<1").unwrap();
    assert_eq!(found.len(), 2_998);
    let refused = search(&mut pair, "colour=red");
    assert!(
        matches!(&refused, Err(fault)
            if fault.code == FaultCode::BadRequest && fault.sentence.contains("colour")),
        "{refused:?}"
    );
    let mut peer = Peer::greeted(&world);
    let (field, value) = ("units", "");
    for (count, comparison) in [(33, 1), (1, 99)] {
        peer.say(|out| {
            let condition = FindCondition {
                field,
                comparison,
                value,
            };
            let find = Find {
                cursor: 0,
                limit: 0,
                pattern: "**",
            };
            let mut find = FindBuilder::begin(out, 1, &find);
            (0..count).for_each(|_| find.push(&condition));
            find.finish(false);
        });
        assert!(matches!(peer.last(), Heard::Other(FrameKind::Fault)));
    }
}

/// Maximum number of steps of a search before other sessions of the same thread run.
const SEARCH_STEPS: usize = 400_000;

/// Returns the number of turns of the session until `is_over` returns true.
fn turns(pair: &mut Pair, mut is_over: impl FnMut(&mut Pair) -> bool) -> usize {
    for turn in 1..100_000 {
        pair.turn_of_client();
        pair.turn_of_session();
        if is_over(pair) {
            return turn;
        }
    }
    panic!("it never ends");
}

/// Returns an engine with long names, a slow pattern, and the number of steps to compare it with a name.
fn slow_world(names: usize) -> (World, &'static str, usize) {
    let pattern = "**/ab/**/a*b*/**/*a*b*/**/*b/*c";
    let long = |n: usize| f64_variable(&format!("{}{n}", "ab/".repeat(300)));
    let mut variables: Vec<VariableDefinition> = (0..names).map(long).collect();
    variables.push(f64_variable("ab/ab/ab/ab/xc"));
    let mut budget = StepBudget::new(usize::MAX);
    let name = format!("rig/{}7", "ab/".repeat(300));
    let parsed = Pattern::parse(pattern).unwrap();
    parsed.matches_within(&mut budget, &name);
    let steps = usize::MAX - budget.left();
    (World::with_library("rig", variables), pattern, steps)
}

/// Behaviour: B-83.
#[test]
fn the_slowest_pattern_gives_others_their_turn_all_the_time() {
    let (world, pattern, steps) = slow_world(400);
    let mut pair = Pair::on(&world);
    let request = pair.client.find(pattern, None).unwrap();
    let took = turns(&mut pair, |pair| pair.client.is_answered(request));
    let least = 400 * steps / (SEARCH_STEPS + steps);
    assert!(least > 5 && took >= least, "{took} turns of {least}");
    let found = pair.answer(request).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name.as_str(), "rig/ab/ab/ab/ab/xc");
}

/// Behaviour: B-83, B-32.
#[test]
fn slow_patterns_that_are_followed_share_one_turn_and_each_is_listed() {
    let (world, pattern, steps) = slow_world(20);
    let mut pair = Pair::on(&world);
    let watches: Vec<WatchId> = (0..16)
        .map(|_| pair.client.watch(pattern).unwrap())
        .collect();
    let mut listed = vec![0; watches.len()];
    let took = turns(&mut pair, |pair| {
        for (watch, listed) in watches.iter().zip(&mut listed) {
            while let Some(event) = pair.client.next_watch_event(*watch) {
                *listed += match event {
                    WatchEvent::Appeared { .. } => 1,
                    WatchEvent::Listed => 100,
                    other => panic!("{other:?}"),
                };
            }
        }
        listed.iter().all(|listed| *listed >= 100)
    });
    assert_eq!(listed, [101; 16]);
    let least = 16 * 20 * steps / (SEARCH_STEPS + steps);
    assert!(least > 5 && took >= least, "{took} turns of {least}");
}

/// Each variable has many fields. The size of a page is a number of names, not a number of variables.
///
/// Behaviour: B-83.
#[test]
fn all_fields_of_all_variables_give_others_their_turn() {
    const VARIABLES: usize = 2_000;
    let plain = |n: usize| f64_variable(&format!("v{n}"));
    let world = World::with_library("rig", (0..VARIABLES).map(plain).collect());
    let mut pair = Pair::on(&world);
    let request = pair.client.find("**#*", None).unwrap();
    let took = turns(&mut pair, |pair| pair.client.is_answered(request));
    let found = pair.answer(request).unwrap();
    assert!(found.len() > 10 * VARIABLES, "{} names", found.len());
    assert_eq!(found.len() % VARIABLES, 0);
    let least = found.len() / 1_000;
    assert!(took >= least, "{took} turns of {least}");
    let watch = pair.client.watch("**#*").unwrap();
    let mut appeared = 0;
    let took = turns(&mut pair, |pair| {
        while let Some(event) = pair.client.next_watch_event(watch) {
            match event {
                WatchEvent::Appeared { .. } => appeared += 1,
                WatchEvent::Listed => return true,
                other => panic!("{other:?}"),
            }
        }
        false
    });
    assert_eq!(appeared, found.len());
    assert!(took >= least / 2, "{took} turns of {least}");
}

/// Behaviour: B-83, VS-02.
#[test]
fn long_texts_that_are_searched_give_others_their_turn() {
    let described = |n: usize| {
        let mut variable = f64_variable(&format!("v{n}"));
        let properties = std::sync::Arc::make_mut(&mut variable.properties);
        properties.description = "feed water ".repeat(300);
        variable
    };
    let world = World::with_library("rig", (0..2_000).map(described).collect());
    let mut pair = Pair::on(&world);
    let conditions: [Condition; 1] = ["description~pump".parse().unwrap()];
    let request = pair.client.search("rig/*", &conditions, None).unwrap();
    let took = turns(&mut pair, |pair| pair.client.is_answered(request));
    let least = 2_000 * 3_300 / SEARCH_STEPS;
    assert!(took >= least, "{took} turns of {least}");
    assert!(matches!(pair.answer(request), Ok(found) if found.is_empty()));
}
