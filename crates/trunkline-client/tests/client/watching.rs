//! Patterns that are followed: the events when the engine lists, changes, stops and restarts.

use trunkline_client::{FollowEvent, SubscribeOptions, WatchEvent, WatchId};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::watch::{
    AppearedBuilder, AppearedHead, AppearedVariable, Listing, VanishedBuilder, VanishedHead,
};
use trunkline_proto::{Fault, FaultCode, Features, FrameBuffer, FrameKind, FrameLimits};
use trunkline_types::{Access, Contract, DataType, Pattern, Value};

use super::rig::{Rig, Said};

/// Returns a client of an engine that supports patterns and has these variables.
fn connected(names: &[&str]) -> Rig {
    let mut rig = Rig::new();
    rig.engine.welcome.features = Features::OURS;
    for name in names {
        rig.engine.add(name, Value::F64(0.0));
    }
    rig.connect();
    rig
}

/// Returns the request and the number of the only watch that the client has requested since the
/// last call.
fn asked(rig: &mut Rig) -> (u32, u32) {
    let said = rig.said();
    let mut watches = said.iter().filter_map(|said| match said {
        Said::Watch { request, watch, .. } => Some((*request, *watch)),
        _ => None,
    });
    let found = watches.next().expect("it asks to watch");
    assert_eq!(watches.next(), None);
    found
}

fn appear(rig: &mut Rig, request: u32, watch: u32, names: &[(u32, &str, DataType)], end: bool) {
    rig.tell(|out| {
        let head = AppearedHead {
            watch,
            revision: 1,
            listing: if end {
                Listing::Complete
            } else {
                Listing::Unchanged
            },
        };
        let mut frame = AppearedBuilder::begin(out, request, &head);
        for (handle, name, data_type) in names {
            frame.push(&AppearedVariable {
                handle: *handle,
                name,
                data_type: data_type.clone(),
                access: Access::ReadWrite,
            });
        }
        frame.finish(false);
    });
}

fn vanish(rig: &mut Rig, watch: u32, handles: &[u32]) {
    rig.tell(|out| {
        let head = VanishedHead { watch, revision: 1 };
        let mut frame = VanishedBuilder::begin(out, 0, &head);
        handles.iter().for_each(|handle| frame.push(handle));
        frame.finish(false);
    });
}

/// Takes all queued events, as `+name`, `-name` and words.
fn told(rig: &mut Rig, id: WatchId) -> Vec<String> {
    let events = std::iter::from_fn(|| rig.client.next_watch_event(id));
    let word = |event| match event {
        WatchEvent::Appeared { name, .. } => format!("+{name}"),
        WatchEvent::Gone { name } => format!("-{name}"),
        WatchEvent::Listed => "listed".to_owned(),
        WatchEvent::Failed(fault) => fault.code.name().to_owned(),
    };
    events.map(word).collect()
}

/// Behaviour: B-32.
#[test]
fn only_the_difference_is_reported_after_a_reconnect() {
    let mut rig = connected(&[]);
    let id = rig.client.watch("a/**").unwrap();
    rig.exchange();
    let (request, watch) = asked(&mut rig);
    let names = [
        (1, "a/kept", DataType::F64),
        (2, "a/gone", DataType::F64),
        (3, "a/other", DataType::F64),
    ];
    appear(&mut rig, request, watch, &names[..2], false);
    appear(&mut rig, request, watch, &names[2..], true);
    assert_eq!(
        told(&mut rig, id),
        ["+a/kept", "+a/gone", "+a/other", "listed"]
    );

    rig.reconnect();
    assert_eq!(
        told(&mut rig, id),
        [""; 0],
        "nothing is gone because the connection was"
    );
    let (request, again) = asked(&mut rig);
    assert_ne!(watch, again);
    vanish(&mut rig, watch, &[1]);
    let names = [
        (9, "a/kept", DataType::F64),
        (2, "a/other", DataType::Bool),
        (1, "a/new", DataType::F64),
    ];
    appear(&mut rig, request, again, &names, true);
    let expected = ["-a/other", "+a/other", "+a/new", "-a/gone", "listed"];
    assert_eq!(told(&mut rig, id), expected);
    vanish(&mut rig, again, &[9, 77]);
    assert_eq!(told(&mut rig, id), ["-a/kept"]);
    assert_eq!(rig.client.watched_names(id).len(), 2);
}

/// Behaviour: B-32.
#[test]
fn queued_events_are_bounded_by_the_number_of_names() {
    let mut rig = connected(&[]);
    let id = rig.client.watch("a/*").unwrap();
    rig.exchange();
    let (request, watch) = asked(&mut rig);
    appear(&mut rig, request, watch, &[(1, "a/x", DataType::F64)], true);
    assert_eq!(told(&mut rig, id), ["+a/x", "listed"]);
    for handle in 2..500 {
        vanish(&mut rig, watch, &[handle - 1]);
        appear(&mut rig, 0, watch, &[(handle, "a/x", DataType::F64)], false);
    }
    for handle in 500..999 {
        let name = format!("a/{handle}");
        appear(&mut rig, 0, watch, &[(handle, &name, DataType::F64)], false);
        vanish(&mut rig, watch, &[handle]);
    }
    // This is another variable. The variables in between were never reported.
    assert_eq!(told(&mut rig, id), ["-a/x", "+a/x"]);
}

/// Behaviour: B-32.
#[test]
fn refused_or_ended_watch_affects_nothing_else() {
    let mut rig = connected(&["a/x"]);
    let id = rig.client.watch("a/*").unwrap();
    rig.exchange();
    let (request, watch) = asked(&mut rig);
    rig.tell(|out| {
        let fault = Fault::from(FaultCode::LimitReached);
        let fault = fault.as_ref();
        FaultMessage { fault }.encode(request, out);
    });
    assert_eq!(told(&mut rig, id), ["limit-reached"]);
    rig.client.unwatch(id);
    let other = rig.client.watch("a/*").unwrap();
    rig.exchange();
    assert!(rig.said().contains(&Said::Unwatch(watch)));
    rig.client.unwatch(other);
    rig.exchange();
    // Pages that were in transit.
    appear(
        &mut rig,
        request + 2,
        watch + 1,
        &[(1, "a/x", DataType::F64)],
        true,
    );
    vanish(&mut rig, watch + 1, &[1]);
    assert!(rig.connected, "they mean nothing");
    rig.engine.welcome.features = Features::NONE;
    rig.reconnect();
    let old = rig.client.watch("a/*").unwrap();
    rig.exchange();
    assert_eq!(told(&mut rig, old), ["not-supported"]);
}

/// Behaviour: B-32.
#[test]
fn pattern_subscription_brackets_readings_with_name_events() {
    let mut rig = connected(&["a/x", "a/named"]);
    let pattern = [Pattern::parse("a/*").unwrap()];
    let options = SubscribeOptions::default();
    let contract: Contract = "last:5".parse().unwrap();
    let id = rig
        .client
        .follow(&["a/named"], &pattern, &[], contract, options)
        .unwrap();
    rig.exchange();
    let (request, watch) = asked(&mut rig);
    let handle = |rig: &Rig, name: &str| {
        let mut variables = rig.engine.variables.iter();
        variables
            .find(|variable| variable.name == name)
            .unwrap()
            .handle
    };
    let (x, named) = (handle(&rig, "a/x"), handle(&rig, "a/named"));
    let names = [(x, "a/x", DataType::F64), (named, "a/named", DataType::F64)];
    appear(&mut rig, request, watch, &names, true);
    let mut words = Vec::new();
    let take = |rig: &mut Rig, words: &mut Vec<String>| {
        while let Some(event) = rig.client.next_followed(rig.now, id) {
            words.push(match event {
                FollowEvent::Appeared { item, name, .. } => format!("{item}+{name}"),
                FollowEvent::Gone { item, name } => format!("{item}-{name}"),
                FollowEvent::Event(trunkline_client::Event::Reading { item, reading }) => {
                    let Value::F64(value) = reading.sample.value else {
                        panic!("{reading:?}")
                    };
                    format!("{item}={value}")
                }
                _ => continue,
            });
            rig.exchange();
        }
        std::mem::take(words)
    };
    let mut first = take(&mut rig, &mut words);
    first.sort();
    assert_eq!(
        first,
        ["0=0", "1+a/x", "1=0"],
        "what is named needs no pattern"
    );
    rig.set("a/x", 1.0);
    rig.set("a/x", 2.0);
    vanish(&mut rig, watch, &[x, named]);
    assert_eq!(take(&mut rig, &mut words), ["1=1", "1=2", "1-a/x"]);
    assert!(
        rig.client
            .item(rig.client.followed(id).unwrap(), 1)
            .is_none()
    );
    // The name appears again, at the free index.
    appear(&mut rig, 0, watch, &[(x, "a/x", DataType::F64)], false);
    assert_eq!(take(&mut rig, &mut words), ["1+a/x", "1=2"]);
    rig.client.unfollow(id);
    rig.exchange();
    assert_eq!(rig.client.variables_in_use(), 0);
}

/// Behaviour: B-32.
#[test]
fn reappearing_name_is_subscribed_at_once_despite_other_waits() {
    let mut rig = connected(&["a/x"]);
    let by_name = rig.subscribe(&["a/x"], "latest");
    rig.events(by_name);
    let pattern = [Pattern::parse("a/*").unwrap()];
    let options = SubscribeOptions::default();
    let names: [&str; 0] = [];
    let id = rig
        .client
        .follow(&names, &pattern, &[], Contract::Latest, options)
        .unwrap();
    rig.exchange();
    let (request, watch) = asked(&mut rig);
    let x = rig.engine.handle_of("a/x");
    appear(&mut rig, request, watch, &[(x, "a/x", DataType::F64)], true);
    let take = |rig: &mut Rig| {
        let mut readings = 0;
        while let Some(event) = rig.client.next_followed(rig.now, id) {
            readings += usize::from(matches!(event, FollowEvent::Event(_)));
        }
        rig.exchange();
        readings
    };
    take(&mut rig);
    rig.engine.undeploy("a/x");
    rig.exchange();
    vanish(&mut rig, watch, &[x]);
    take(&mut rig);
    rig.engine.add("a/y", Value::F64(5.0));
    let again = rig.engine.add("a/x", Value::F64(7.0));
    appear(&mut rig, 0, watch, &[(again, "a/x", DataType::F64)], false);
    take(&mut rig);
    // Both subscriptions have the value at the same time.
    assert_eq!(take(&mut rig), 1);
    assert_eq!(rig.values(by_name), [7.0]);
}

/// The first reading took no credit, and each update after it took one.
#[test]
fn item_removed_before_its_first_reading_returns_no_credit() {
    // The variable vanishes before the answer to OPEN, and between the answer and the reading.
    for is_opened in [false, true] {
        let mut rig = connected(&["a/kept", "a/x"]);
        let pattern = [Pattern::parse("a/x").unwrap()];
        let (all, options) = ("all:4".parse().unwrap(), SubscribeOptions::default());
        let id = rig
            .client
            .follow(&["a/kept"], &pattern, &[], all, options)
            .unwrap();
        rig.exchange();
        let wire = rig.wire(rig.client.followed(id).unwrap());
        let (request, watch) = asked(&mut rig);
        let x = rig.engine.handle_of("a/x");
        let next = |rig: &mut Rig| while rig.client.next_followed(rig.now, id).is_some() {};
        next(&mut rig);
        rig.exchange();
        assert_eq!(rig.engine.subscriptions[&wire].granted, 4);

        rig.engine.hold(FrameKind::Open);
        appear(&mut rig, request, watch, &[(x, "a/x", DataType::F64)], true);
        next(&mut rig);
        rig.exchange();
        let said = rig.said().into_iter();
        let mut opens = said.filter(|said| said.kind() == FrameKind::Open);
        let open = opens.next_back().unwrap();
        rig.engine.hold(FrameKind::Unsubscribe);
        rig.engine.answer(&open);
        let answer = std::mem::take(&mut rig.engine.out);
        let mut frames = FrameBuffer::new(FrameLimits::default());
        let mut rest = &answer[..];
        frames.next_frame(rig.now, &mut rest).unwrap().unwrap();
        let (opened, reading) = answer.split_at(answer.len() - rest.len());
        if is_opened {
            rig.tell(|out| out.extend_from_slice(opened));
        }
        vanish(&mut rig, watch, &[x]);
        next(&mut rig);
        if !is_opened {
            rig.tell(|out| out.extend_from_slice(opened));
        }
        rig.tell(|out| out.extend_from_slice(reading));
        assert_eq!(rig.client.counters().skipped, 1);
        assert_eq!(rig.engine.subscriptions[&wire].granted, 4);
        // The update was sent before the engine knew that the variable is not needed any more.
        rig.set("a/x", 1.0);
        assert_eq!(rig.client.counters().skipped, 2);
        assert_eq!(rig.engine.subscriptions[&wire].granted, 5);
        let unsubscribe = rig.said().into_iter();
        let mut unsubscribe = unsubscribe.filter(|said| said.kind() == FrameKind::Unsubscribe);
        let unsubscribe = unsubscribe.next().unwrap();
        rig.engine.answer(&unsubscribe);
        rig.exchange();
    }
}

/// A watch that fell behind the engine's history is listed again: only the difference is reported.
///
/// Behaviour: B-32.
#[test]
fn restarted_listing_reports_only_the_difference() {
    let mut rig = connected(&[]);
    let id = rig.client.watch("a/**").unwrap();
    rig.exchange();
    let (request, watch) = asked(&mut rig);
    let anew = AppearedHead {
        watch,
        revision: 9,
        listing: Listing::Restarted,
    };
    let names = [
        (1, "a/kept", DataType::F64),
        (2, "a/gone", DataType::F64),
        (3, "a/replaced", DataType::F64),
        (4, "a/retyped", DataType::F64),
    ];
    appear(&mut rig, request, watch, &names, true);
    let first = ["+a/kept", "+a/gone", "+a/replaced", "+a/retyped", "listed"];
    assert_eq!(told(&mut rig, id), first);

    let anew = |rig: &mut Rig| rig.tell(|out| AppearedBuilder::begin(out, 0, &anew).finish(false));
    anew(&mut rig);
    appear(&mut rig, 0, watch, &names[..1], false);
    assert_eq!(told(&mut rig, id), [""; 0], "the rest may still come");
    // The listing falls behind as well, and begins again.
    anew(&mut rig);
    let names = [
        (1, "a/kept", DataType::F64),
        // Another variable has the handle of one that is gone, and its name has another handle.
        (2, "a/new", DataType::F64),
        (13, "a/replaced", DataType::F64),
        (4, "a/retyped", DataType::Bool),
    ];
    appear(&mut rig, 0, watch, &names, true);
    let difference = ["+a/new", "-a/retyped", "+a/retyped", "-a/gone", "listed"];
    assert_eq!(told(&mut rig, id), difference);
    assert_eq!(rig.client.watched_names(id).len(), 4);

    // From now on, only the new handles are valid.
    vanish(&mut rig, watch, &[3]);
    assert_eq!(told(&mut rig, id), [""; 0]);
    vanish(&mut rig, watch, &[13, 2]);
    assert_eq!(told(&mut rig, id), ["-a/replaced", "-a/new"]);
}

/// A subscription by pattern that has no variables yet is kept while other subscriptions of the
/// same contract end, on this connection and on the next.
///
/// Behaviour: B-32.
#[test]
fn pattern_without_variables_outlasts_other_subscriptions() {
    for reconnects in [false, true] {
        let mut rig = connected(&["b/other"]);
        let pattern = [Pattern::parse("a/*").unwrap()];
        let options = SubscribeOptions::default();
        let names: [&str; 0] = [];
        let id = rig
            .client
            .follow(&names, &pattern, &[], Contract::Latest, options)
            .unwrap();
        let beside = rig.subscribe(&["b/other"], "latest");
        rig.events(beside);
        rig.client.unsubscribe(beside);
        rig.exchange();
        if reconnects {
            rig.said();
            rig.reconnect();
        }
        let (request, watch) = asked(&mut rig);
        let x = rig.engine.add("a/x", Value::F64(7.0));
        appear(&mut rig, request, watch, &[(x, "a/x", DataType::F64)], true);
        let mut readings = Vec::new();
        for _ in 0..2 {
            while let Some(event) = rig.client.next_followed(rig.now, id) {
                if let FollowEvent::Event(trunkline_client::Event::Reading { reading, .. }) = event
                {
                    readings.push(reading.sample.value);
                }
            }
            rig.exchange();
        }
        assert_eq!(readings, [Value::F64(7.0)], "reconnects: {reconnects}");
        rig.client.unfollow(id);
        rig.exchange();
        assert_eq!(rig.client.variables_in_use(), 0);
    }
}
