//! F12: an engine that has no file descriptors left.

use std::time::Duration;

use trunkline_net::Clock;
use trunkline_types::Contract;

use crate::crowd::Crowd;
use crate::engine::{Engine, Handles, Launch, config, names};
use crate::figures::{is_full, record, seconds, size};
use crate::{CUT_OFF, alone};

fn starved(before: &[&str]) -> Engine {
    Engine::launch(Launch {
        before: before.iter().map(|word| (*word).to_owned()).collect(),
        environment: Vec::new(),
        listen: vec!["127.0.0.1:0".to_owned()],
        config: config(4, "f64", ""),
    })
}

/// Behaviour: B-83.
#[test]
fn clients_beyond_the_descriptors_do_not_affect_sessions() {
    let _alone = alone();
    let engine = starved(&["sh", "-c", "ulimit -n 64 && exec \"$@\"", "sh"]);
    engine.says("at most 32 connections at a time, not 1000");
    let (clock, writer) = (Clock::new(), engine.client());
    let handles = Handles::open(&writer, &names(4));
    handles.write(&writer, 1.0);
    let values = handles.read(&writer);
    let mut crowd = Crowd::new(engine.address);
    for _ in 0..20 {
        crowd.join(&names(4), Contract::Latest);
    }
    crowd.run("the sessions that stay", |crowd| crowd.connected() == 20);
    for _ in 20..200 {
        crowd.join(&names(4), Contract::Latest);
    }
    crowd.run("the sessions that still fit", |crowd| {
        crowd.connected() == 31
    });
    let (busy, start) = (engine.processor(), clock.now());
    crowd.run_for(size(Duration::from_secs(2), Duration::from_secs(20)));
    let took = clock.now().since(start);
    let share = (engine.processor() - busy).as_secs_f64() / took.as_secs_f64();
    // A loop that asks repeatedly would use all of it.
    assert!(share < 0.5, "{share:.2} of a processor");
    assert!(engine.descriptors() <= 64);

    // The existing clients noticed nothing; one that leaves makes room.
    handles.write(&writer, 2.0);
    let values_after = handles.read(&writer);
    assert_ne!(values, values_after);
    crowd.run("a value at the connected clients", |crowd| {
        crowd.members[..20]
            .iter()
            .all(|member| member.view.equals(&values_after))
    });
    for member in &crowd.members[..20] {
        assert!(
            member.view.disconnects.is_empty(),
            "{:?}",
            member.view.disconnects
        );
    }
    let leaver = crowd
        .members
        .iter()
        .skip(20)
        .position(|member| member.core.session().is_some());
    let leaver = leaver.unwrap() + 20;
    crowd.members[leaver].core.shut_down();
    crowd.run("the end of one session", |crowd| crowd.connected() == 30);
    let left = clock.now();
    crowd.run("another in its place", |crowd| crowd.connected() == 31);
    let taken = clock.now().since(left);
    if is_full() {
        let check = "F12, 64 descriptors, 200 clients";
        record(
            check,
            "processor time of the engine",
            &format!("{:.1} % of a core", share * 100.0),
            "5 %",
        );
        record(
            check,
            "time until a waiting client gets a free session",
            &seconds(taken),
            "1 s",
        );
        record(check, "existing sessions dropped", "0", "0");
    }
}

/// The limit is lowered to the number of open descriptors: even the sessions that it counts on do
/// not fit.
///
/// Behaviour: B-83.
#[test]
fn engine_without_descriptors_idles_reports_it_and_recovers() {
    let _alone = alone();
    let engine = Engine::start(&config(4, "f64", ""));
    let (clock, writer) = (Clock::new(), engine.client());
    let handles = Handles::open(&writer, &names(4));
    handles.write(&writer, 1.0);
    let mut crowd = Crowd::new(engine.address);
    for _ in 0..10 {
        crowd.join(&names(4), Contract::Latest);
    }
    crowd.run("the sessions that stay", |crowd| crowd.connected() == 10);
    let open = engine.descriptors();
    if !engine.limit_descriptors(open) {
        eprintln!("skipped: F12 with no descriptor left at all (there is no prlimit)");
        return;
    }
    for _ in 0..100 {
        crowd.join(&names(4), Contract::Latest);
    }
    let (busy, start) = (engine.processor(), clock.now());
    let mut told = 0;
    crowd.run("refused clients that get the reason", |crowd| {
        let members = crowd.members[10..].iter();
        let states: Vec<_> = members.map(|member| member.core.state()).collect();
        let causes = states.iter().filter_map(|state| state.cause());
        let why = |cause: &&std::sync::Arc<_>| {
            std::string::ToString::to_string(*cause).contains("no file descriptor left")
        };
        told = told.max(causes.filter(why).count());
        told > 5 && clock.now().since(start) > size(Duration::ZERO, Duration::from_secs(20))
    });
    let took = clock.now().since(start).as_secs_f64();
    let share = (engine.processor() - busy).as_secs_f64() / took;
    assert!(share < 0.5, "{share:.2} of a processor");
    handles.write(&writer, 2.0);
    let values = handles.read(&writer);
    crowd.run("a value at the connected clients", |crowd| {
        crowd.members[..10]
            .iter()
            .all(|member| member.view.equals(&values))
    });
    assert!(
        crowd.members[..10]
            .iter()
            .all(|member| member.view.disconnects.is_empty())
    );
    engine.limit_descriptors(1000);
    let free = clock.now();
    crowd.run("the first new client", |crowd| crowd.connected() > 10);
    let first = clock.now().since(free);
    crowd.run("all new clients", |crowd| crowd.connected() == 110);
    if is_full() {
        let check = "F12, no descriptors left, 100 new clients";
        record(
            check,
            "processor time of the engine",
            &format!("{:.1} % of a core", share * 100.0),
            "5 %",
        );
        record(
            check,
            "time until the first is connected once descriptors are free",
            &seconds(first),
            "1 s",
        );
        record(
            check,
            "time until all are connected",
            &seconds(clock.now().since(free)),
            "",
        );
    }
}

#[test]
fn an_engine_raises_its_own_limit_as_far_as_it_may() {
    let _alone = alone();
    let engine = starved(&["sh", "-c", "ulimit -S -n 64 && exec \"$@\"", "sh"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", engine.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let soft: usize = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(soft >= 1032, "{line}");
    engine.client().wait_connected(CUT_OFF).unwrap();
}
