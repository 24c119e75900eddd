//! Tests a client that is the source of variables, including providers that are silent, late or invalid.

use std::time::Duration;

use trunkline_client::{
    ProviderEvent, ProviderReply, Publication, VariableRef, Write, WriteOutcome,
};
use trunkline_engine::providers::{PROVIDER_PENDING_MAX, PROVIDER_TIMEOUT_DEFAULT};
use trunkline_engine::{Attempt, Write as EngineWrite, WriteOutcome as EngineOutcome};
use trunkline_proto::limits::KEEPALIVE_DEADLINE;
use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::provider::{
    ProvideBuilder, ProvideHead, ProviderAnswer, ProviderAnswersBuilder, ProviderOutcome, ReadBack,
};
use trunkline_proto::message::write::{WriteAnswers, WriteBuilder, WriteOptions, Writes};
use trunkline_proto::{Disconnect, Endpoint, FaultCode, FrameKind};
use trunkline_types::wire::encode_value;
use trunkline_types::{DataType, Level, Quality, Reason, Value};

use crate::rig::{Pair, Peer, World, applied, define, f64_variable};

/// Creates an engine with the variables `rig/a` and `rig/b` from the provider `plant`, and `rig/free` without
/// a provider.
fn world() -> World {
    let from = |path: &str| {
        let source = format!("plant:{path}");
        define(path, DataType::F64, |p| p.source = source)
    };
    World::with_library("rig", vec![from("a"), from("b"), f64_variable("free")])
}

fn handle(world: &World, name: &str) -> u32 {
    let (engine, caller) = (world.engine(), world.caller());
    engine.resolve(&caller, name).unwrap().handle()
}

fn events(pair: &mut Pair) -> Vec<ProviderEvent> {
    pair.exchange();
    std::iter::from_fn(|| pair.client.take_provider_event()).collect()
}

/// Returns a client that has become the provider `plant`.
fn provider(world: &World) -> Pair {
    let mut plant = Pair::on(world);
    plant.client.provide("plant");
    let events = events(&mut plant);
    assert_eq!(events[0], ProviderEvent::Provided);
    assert_eq!(bound(&events), ["a", "b"]);
    plant
}

fn bound(events: &[ProviderEvent]) -> Vec<&str> {
    let mut items = Vec::new();
    for event in events {
        if let ProviderEvent::Bind { item, .. } = event {
            items.push(item.as_str());
        }
    }
    items
}

fn tickets(pair: &mut Pair) -> Vec<u64> {
    let ticket = |event| match event {
        ProviderEvent::Write { ticket, .. } | ProviderEvent::Read { ticket, .. } => Some(ticket),
        _ => None,
    };
    events(pair).into_iter().filter_map(ticket).collect()
}

fn publish(pair: &mut Pair, name: &str, value: Option<f64>, quality: Quality) {
    pair.client.publish(Publication {
        handle: handle(&pair.world, name),
        value: value.map(Value::F64),
        quality,
        source_timestamp: None,
    });
    pair.exchange();
}

fn reply(value: f64) -> ProviderReply {
    ProviderReply::Applied {
        value: Value::F64(value),
        quality: Quality::GOOD,
        source_timestamp: None,
    }
}

/// Writes a value as a user, without waiting for the outcome.
fn put(user: &mut Pair, variable: VariableRef, value: f64) -> trunkline_client::WriteBatchId {
    let write = Write::new(variable, Value::F64(value));
    let batch = user.client.write([write]).unwrap();
    user.exchange();
    batch
}

fn outcome(user: &mut Pair, batch: trunkline_client::WriteBatchId) -> Option<WriteOutcome> {
    user.wake_session();
    user.exchange();
    user.client
        .take_outcomes(batch)
        .map(|mut all| all.remove(0))
}

fn held(world: &World, name: &str) -> (Value, Quality, u64) {
    let (engine, caller) = (world.engine(), world.caller());
    let variable = engine.resolve(&caller, name).unwrap();
    let sample = variable.sample();
    assert!(variable.ledger().is_balanced(), "{:?}", variable.ledger());
    (sample.value, sample.quality, variable.sequence())
}

#[test]
fn value_is_written_to_the_device_and_read_back() {
    let world = world();
    let (mut plant, mut user) = (provider(&world), Pair::on(&world));
    publish(&mut plant, "rig/a", Some(1.0), Quality::GOOD);
    let a = user.variable("rig/a");
    assert_eq!(
        user.read(&[a])[0].as_ref().unwrap().sample.value,
        Value::F64(1.0)
    );
    let batch = put(&mut user, a, 2.2);
    let tickets = tickets(&mut plant);
    assert_eq!(outcome(&mut user, batch), None, "nobody has answered yet");
    plant.client.answer_provider(tickets[0], reply(2.0));
    plant.exchange();
    assert_eq!(applied(&outcome(&mut user, batch).unwrap()), 2);
    assert_eq!(held(&world, "rig/a"), (Value::F64(2.0), Quality::GOOD, 2));
}

#[test]
fn a_quality_alone_leaves_the_value() {
    let world = world();
    let mut plant = provider(&world);
    publish(&mut plant, "rig/a", Some(1.0), Quality::GOOD);
    let broken = Quality::bad(Reason::SensorFailure);
    publish(&mut plant, "rig/a", None, broken);
    assert_eq!(held(&world, "rig/a"), (Value::F64(1.0), broken, 2));
    publish(&mut plant, "rig/a", None, broken);
    assert_eq!(held(&world, "rig/a").2, 2, "that is known already");
    assert_eq!(plant.client.provider_losses(), (0, 0));
}

/// Answers an order. The tickets of a connection are numbered from 0.
fn answer_raw(peer: &mut Peer, ticket: u64, value: f64) {
    let mut bytes = Vec::new();
    encode_value(&Value::F64(value), &mut bytes);
    answer_bytes(peer, ticket, &bytes);
}

fn answer_bytes(peer: &mut Peer, ticket: u64, bytes: &[u8]) {
    peer.say(|out| {
        let mut frame = ProviderAnswersBuilder::begin(out, 0, &());
        frame.push(&ProviderAnswer {
            ticket,
            outcome: ProviderOutcome::Applied(ReadBack {
                value: Some(bytes),
                ..ReadBack::default()
            }),
        });
        frame.finish(false);
    });
}

fn raw_provider(world: &World) -> Peer {
    let mut peer = Peer::greeted(world);
    let head = ProvideHead {
        lease: Duration::from_secs(1),
        provider: "plant",
    };
    peer.say(|out| ProvideBuilder::begin(out, 9, &head).finish(false));
    assert_eq!(peer.kinds(), [FrameKind::Provided, FrameKind::ProviderBind]);
    peer.said.clear();
    peer
}

#[test]
fn provider_cannot_publish_other_variables() {
    let world = world();
    world.set("rig/free", 3.0);
    let mut peer = raw_provider(&world);
    let (free, a) = (handle(&world, "rig/free"), handle(&world, "rig/a"));
    peer.say(|out| {
        let mut frame = WriteBuilder::begin_publish(out, 0);
        let options = WriteOptions::default();
        frame.push_value(free, &options, &Value::F64(9.0));
        frame.push_value(a, &options, &Value::F64(1.0));
        // Publish only a quality, for a variable of another provider and for one without a provider.
        frame.push(free, &options, &[]);
        frame.push(4_000_000, &options, &[]);
        frame.finish();
    });
    let codes = peer.frames(|frame| {
        let answers = WriteAnswers::decode(frame).unwrap().map(Result::unwrap);
        let code = |outcome| match outcome {
            WriteAnswer::Refused(fault) => Some(fault.code),
            _ => None,
        };
        answers.map(code).collect::<Vec<_>>()
    });
    let stranger = Some(FaultCode::NotItsProvider);
    let expected = [stranger, None, stranger, Some(FaultCode::UnknownHandle)];
    assert_eq!(codes.concat(), expected);
    assert_eq!(held(&world, "rig/free").0, Value::F64(3.0));
    assert_eq!(held(&world, "rig/free").2, 1);
    assert_eq!(held(&world, "rig/a").0, Value::F64(1.0));
}

#[test]
fn session_without_provided_variables_cannot_publish() {
    let world = world();
    let mut plant = provider(&world);
    publish(&mut plant, "rig/a", Some(1.0), Quality::GOOD);
    let mut peer = Peer::greeted(&world);
    let a = handle(&world, "rig/a");
    peer.say(|out| {
        let mut frame = WriteBuilder::begin_publish(out, 0);
        frame.push_value(a, &WriteOptions::default(), &Value::F64(9.0));
        frame.finish();
    });
    assert_eq!(peer.kinds(), [FrameKind::WriteAnswers]);
    answer_raw(&mut peer, 0, 9.0);
    assert!(peer.session.wants_close().is_none());
    assert_eq!(held(&world, "rig/a"), (Value::F64(1.0), Quality::GOOD, 1));
}

#[test]
fn duplicate_and_unexpected_answers_are_ignored() {
    let world = world();
    let (mut peer, mut user) = (raw_provider(&world), Pair::on(&world));
    let a = user.variable("rig/a");
    let batch = put(&mut user, a, 2.0);
    peer.take();
    assert_eq!(peer.kinds(), [FrameKind::ProviderWrite]);
    for ticket in [1, 999, u64::MAX] {
        answer_raw(&mut peer, ticket, 8.0);
    }
    assert_eq!(outcome(&mut user, batch), None);
    assert_eq!(held(&world, "rig/a").2, 0);
    answer_raw(&mut peer, 0, 2.0);
    answer_raw(&mut peer, 0, 9.0);
    assert_eq!(applied(&outcome(&mut user, batch).unwrap()), 1);
    assert_eq!(held(&world, "rig/a"), (Value::F64(2.0), Quality::GOOD, 1));
}

#[test]
fn late_answer_ends_no_write_but_updates_the_value() {
    let world = world();
    let (mut plant, mut user) = (provider(&world), Pair::on(&world));
    let a = user.variable("rig/a");
    let first = put(&mut user, a, 2.0);
    let second = put(&mut user, a, 3.0);
    let tickets = tickets(&mut plant);
    pass(
        &mut [&mut plant, &mut user],
        PROVIDER_TIMEOUT_DEFAULT + Duration::from_millis(1),
    );
    for batch in [first, second] {
        let Some(WriteOutcome::Unknown(fault)) = outcome(&mut user, batch) else {
            panic!("its time is over");
        };
        assert_eq!(fault.code, FaultCode::TimedOut);
    }
    let counts = user.client.write_counts();
    plant.client.answer_provider(tickets[0], reply(2.0));
    let refused = ProviderReply::Refused("too late".to_owned());
    plant.client.answer_provider(tickets[1], refused);
    plant.exchange();
    user.wake_session();
    user.exchange();
    assert_eq!(
        user.client.write_counts(),
        counts,
        "nobody waits for it any more"
    );
    assert_eq!(held(&world, "rig/a"), (Value::F64(2.0), Quality::GOOD, 1));
}

/// The writer has already learned that the outcome is unknown.
#[test]
fn expired_order_is_never_sent_to_the_provider() {
    let world = world();
    let (mut plant, mut user) = (provider(&world), Pair::on(&world));
    let a = user.variable("rig/a");
    let late = put(&mut user, a, 2.0);
    // The provider's connection accepts no data in the meantime.
    let long = PROVIDER_TIMEOUT_DEFAULT + Duration::from_millis(1);
    pass(&mut [&mut user], long);
    let ended = outcome(&mut user, late);
    assert!(matches!(ended, Some(WriteOutcome::Unknown(_))), "{ended:?}");
    let next = put(&mut user, a, 3.0);
    let [ticket] = tickets(&mut plant)[..] else {
        panic!("one order");
    };
    plant.client.answer_provider(ticket, reply(3.0));
    plant.exchange();
    assert_eq!(applied(&outcome(&mut user, next).unwrap()), 1);
    assert_eq!(held(&world, "rig/a").0, Value::F64(3.0));
}

/// Lets time pass for all pairs, in steps of a tenth of a second.
fn pass(pairs: &mut [&mut Pair], time: Duration) {
    let step = Duration::from_millis(100);
    let end = pairs[0].world.time().0.saturating_add(time);
    while pairs[0].world.time().0 < end {
        let world = pairs[0].world.clone();
        world.advance(step.min(end.since(world.time().0)));
        for pair in &mut *pairs {
            pair.pass(Duration::ZERO);
        }
    }
}

#[test]
fn open_orders_of_a_lost_provider_end_as_unknown() {
    let world = world();
    let (mut plant, mut user) = (provider(&world), Pair::on(&world));
    publish(&mut plant, "rig/b", Some(1.0), Quality::GOOD);
    let (a, b) = (user.variable("rig/a"), user.variable("rig/b"));
    let batches = [put(&mut user, a, 2.0), put(&mut user, b, 3.0)];
    let [one, _] = tickets(&mut plant)[..] else {
        panic!("two orders");
    };
    plant.cut();
    // The client still has the order, and receives no answer.
    plant.client.answer_provider(one, reply(2.0));
    for batch in batches {
        let Some(WriteOutcome::Unknown(fault)) = outcome(&mut user, batch) else {
            panic!("nobody knows");
        };
        assert_eq!(fault.code, FaultCode::ProviderGone);
        assert!(fault.sentence.contains("plant"), "{fault}");
    }
    let gone = Quality::bad(Reason::ProviderGone);
    assert_eq!(held(&world, "rig/b"), (Value::F64(1.0), gone, 2));
    assert_eq!(events(&mut plant), [ProviderEvent::Disconnected]);
    plant.connect();
    let again = events(&mut plant);
    assert_eq!(bound(&again), ["a", "b"]);
    assert_eq!(tickets(&mut plant), [0; 0], "no order is carried out twice");
    publish(&mut plant, "rig/b", Some(4.0), Quality::GOOD);
    assert_eq!(held(&world, "rig/b"), (Value::F64(4.0), Quality::GOOD, 3));
}

/// Behaviour: VS-25, LM-08.
#[test]
fn silent_provider_is_detected_within_the_deadline() {
    let world = world();
    let (mut plant, mut user) = (provider(&world), Pair::on(&world));
    publish(&mut plant, "rig/a", Some(1.0), Quality::GOOD);
    let seen = user.subscribe(&["rig/a"], "latest");
    assert_eq!(user.values(seen), [1.0]);
    // Keep-alives alone are sufficient.
    pass(&mut [&mut plant, &mut user], Duration::from_secs(60));
    assert_eq!(user.values(seen), [0.0; 0]);
    let batch = {
        let b = user.variable("rig/b");
        put(&mut user, b, 2.0)
    };
    plant.is_stopped = true;
    let stopped = world.time().0;
    let reading = loop {
        assert!(world.time().0.since(stopped) < Duration::from_millis(3500));
        pass(&mut [&mut plant, &mut user], Duration::from_millis(100));
        if let Some(reading) = user.readings(seen).pop() {
            break reading;
        }
    };
    assert!(world.time().0.since(stopped) > KEEPALIVE_DEADLINE - Duration::from_secs(1));
    assert_eq!(reading.sample.quality, Quality::bad(Reason::ProviderGone));
    assert_eq!(
        reading.sample.value,
        Value::F64(1.0),
        "the last value is kept"
    );
    assert!(matches!(
        outcome(&mut user, batch),
        Some(WriteOutcome::Unknown(_))
    ));
    // The provider continues, and learns of the loss.
    plant.is_stopped = false;
    plant.connect();
    assert_eq!(bound(&events(&mut plant)), ["a", "b"]);
    publish(&mut plant, "rig/a", Some(5.0), Quality::GOOD);
    user.wake_session();
    user.exchange();
    let reading = user.readings(seen).pop().expect("an update");
    assert_eq!(reading.sample.quality.level(), Level::Good);
    assert_eq!(reading.sample.value, Value::F64(5.0));
}

#[test]
fn name_is_exclusive_and_released_with_its_holder() {
    let world = world();
    let mut first = provider(&world);
    let mut second = Pair::on(&world);
    second.client.provide("plant");
    let refused = events(&mut second);
    let [ProviderEvent::Refused(fault)] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(fault.code, FaultCode::NameTaken);
    publish(&mut second, "rig/a", Some(9.0), Quality::GOOD);
    assert_eq!(held(&world, "rig/a").2, 0);
    first.cut();
    pass(&mut [&mut second], Duration::from_millis(1100));
    let events = events(&mut second);
    let provided = |event: &ProviderEvent| *event == ProviderEvent::Provided;
    assert!(events.iter().any(provided), "{events:?}");
    assert_eq!(bound(&events), ["a", "b"]);
}

/// Creates the maximum number of unanswered orders.
fn fill(world: &World, peer: &mut Peer) {
    let value = Value::F64(2.0);
    for _ in 0..PROVIDER_PENDING_MAX {
        let attempt = world.try_write("rig/a", &EngineWrite::value(&value));
        assert_eq!(attempt, Attempt::Pending);
    }
    let attempt = world.try_write("rig/a", &EngineWrite::value(&value));
    let Attempt::Done(EngineOutcome::Refused(refusal)) = attempt else {
        panic!("{attempt:?}");
    };
    assert!(refusal.to_string().contains("plant"), "{refusal}");
    peer.take();
    world.advance(PROVIDER_TIMEOUT_DEFAULT);
    // Expired in slices.
    (0..8).for_each(|_| world.advance(Duration::from_nanos(1)));
}

#[test]
fn unanswered_orders_are_bounded_and_the_oldest_dropped() {
    let world = world();
    let mut peer = raw_provider(&world);
    (0..3).for_each(|_| fill(&world, &mut peer));
    let sent = peer.frames(|frame| match frame.kind() {
        Some(FrameKind::ProviderWrite) => Writes::decode(frame).unwrap().count(),
        _ => 0,
    });
    assert_eq!(sent.iter().sum::<usize>(), 3 * PROVIDER_PENDING_MAX);
    // Late answers to two rounds still update the value; those of the round before do not.
    let oldest_kept = PROVIDER_PENDING_MAX as u64;
    answer_raw(&mut peer, oldest_kept - 1, 7.0);
    assert_eq!(held(&world, "rig/a").2, 0);
    answer_raw(&mut peer, oldest_kept, 8.0);
    assert_eq!(held(&world, "rig/a"), (Value::F64(8.0), Quality::GOOD, 1));
    assert!(peer.session.wants_close().is_none());
}

#[test]
fn invalid_read_back_leaves_the_outcome_unknown() {
    let world = world();
    let (mut peer, mut user) = (raw_provider(&world), Pair::on(&world));
    let a = user.variable("rig/a");
    let batch = put(&mut user, a, 2.0);
    peer.take();
    answer_bytes(&mut peer, 0, &[1, 2, 3]);
    let Some(WriteOutcome::Unknown(fault)) = outcome(&mut user, batch) else {
        panic!("nobody knows");
    };
    assert!(fault.sentence.contains("invalid value"), "{fault}");
    assert_eq!(held(&world, "rig/a").2, 0);
    assert!(peer.session.wants_close().is_none());
}

#[test]
fn invalid_frames_end_only_their_connection() {
    let world = world();
    let mut plant = provider(&world);
    publish(&mut plant, "rig/a", Some(1.0), Quality::GOOD);
    let mut bytes = Vec::new();
    ProviderAnswersBuilder::begin(&mut bytes, 0, &()).finish(false);
    assert!(bytes.is_empty());
    let hostile: [(&str, fn(&mut Vec<u8>)); 4] = [
        ("engines send, not clients", |out| {
            let mut frame = WriteBuilder::begin_provider_write(out, 0);
            frame.push_value(1, &WriteOptions::default(), &Value::F64(1.0));
            frame.finish();
        }),
        ("PROVIDE", |out| cut_short(out, FrameKind::Provide)),
        ("PROVIDER_ANSWER", |out| {
            cut_short(out, FrameKind::ProviderAnswer)
        }),
        ("PUBLISH", |out| cut_short(out, FrameKind::Publish)),
    ];
    for (said, encode) in hostile {
        let mut peer = Peer::greeted(&world);
        peer.say(encode);
        assert!(
            matches!(peer.cause(), Disconnect::Malformed { .. }),
            "{said}"
        );
        let sentence = peer.last_sentence();
        assert!(sentence.contains(said), "{sentence}");
    }
    publish(&mut plant, "rig/a", Some(2.0), Quality::GOOD);
    assert_eq!(held(&world, "rig/a"), (Value::F64(2.0), Quality::GOOD, 2));
}

/// Appends a frame whose count exceeds its content.
fn cut_short(out: &mut Vec<u8>, kind: FrameKind) {
    let mut frame = trunkline_proto::FrameWriter::begin(out, kind, 1);
    frame.payload().extend_from_slice(&[0xff, 0xff]);
    (0..5).for_each(|_| frame.count_item());
    frame.finish(false);
}

#[test]
fn provider_disconnected_for_invalid_frames_leaves_bad_variables() {
    let world = world();
    let mut peer = raw_provider(&world);
    peer.say(|out| {
        let mut frame = WriteBuilder::begin_publish(out, 0);
        let a = handle(&world, "rig/a");
        frame.push_value(a, &WriteOptions::default(), &Value::F64(1.0));
        frame.finish();
    });
    peer.say(|out| cut_short(out, FrameKind::ProviderAnswer));
    let (cause, (now, _)) = (peer.cause(), world.time());
    peer.session.handle_disconnected(now, cause);
    let gone = Quality::bad(Reason::ProviderGone);
    assert_eq!(held(&world, "rig/a"), (Value::F64(1.0), gone, 2));
    let _next = provider(&world);
}
