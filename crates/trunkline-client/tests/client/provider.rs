//! The provider role at the client: requested on every connection, bounded, and robust against the
//! engine's frames.

use std::time::Duration;

use trunkline_client::{ConnectionState, ProviderEvent, ProviderReply, Publication};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::provider::{
    BoundVariable, ProviderBindBuilder, ProviderRequestBuilder, ProviderRequestHead,
};
use trunkline_proto::message::write::{
    WriteAnswersBuilder, WriteAnswersHead, WriteBuilder, WriteOptions,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, FrameKind, FrameWriter};
use trunkline_types::wire::encode_value;
use trunkline_types::{Access, DataType, Quality, Reason, Value};

use super::rig::{Rig, Said};

const HANDLE: u32 = 100;

fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.engine.add("plant/a", Value::F64(0.0));
    rig.engine.welcome.features = Features::OURS;
    rig
}

/// Returns a client that is connected, accepted as a provider and bound to one variable.
fn provider() -> Rig {
    let mut rig = rig();
    rig.connect();
    rig.client.provide("plant");
    rig.exchange();
    bind(&mut rig);
    assert_eq!(events(&mut rig).len(), 2);
    rig.said();
    rig
}

fn bind(rig: &mut Rig) {
    rig.tell(|out| {
        let mut frame = ProviderBindBuilder::begin(out, 0, &());
        frame.push(&BoundVariable {
            handle: HANDLE,
            data_type: DataType::F64,
            access: Access::ReadWrite,
            item: "a",
        });
        frame.finish(false);
    });
}

fn events(rig: &mut Rig) -> Vec<ProviderEvent> {
    std::iter::from_fn(|| rig.client.take_provider_event()).collect()
}

fn publish(rig: &mut Rig, value: f64) {
    rig.client.publish(Publication {
        handle: HANDLE,
        value: Some(Value::F64(value)),
        quality: Quality::GOOD,
        source_timestamp: None,
    });
}

/// The values published since the last call.
fn published(rig: &mut Rig) -> Vec<Vec<u8>> {
    let values = |said| match said {
        Said::Publish(writes) => writes.into_iter().map(|write| write.value).collect(),
        _ => Vec::new(),
    };
    rig.said().into_iter().flat_map(values).collect()
}

fn answers(rig: &mut Rig) -> Vec<(u64, Option<String>)> {
    let answers = |said| match said {
        Said::Answers(answers) => answers,
        _ => Vec::new(),
    };
    rig.said().into_iter().flat_map(answers).collect()
}

fn bytes(value: f64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(&Value::F64(value), &mut bytes);
    bytes
}

fn asked(rig: &mut Rig) -> usize {
    let is_asked = |said: &Said| matches!(said, Said::Provide { name, .. } if name == "plant");
    rig.said().iter().filter(|said| is_asked(said)).count()
}

/// Behaviour: LM-08.
#[test]
fn provider_role_is_requested_again_on_every_connection() {
    let mut rig = rig();
    rig.engine.welcome.write_credit_count = 1;
    rig.client.provide("plant");
    rig.connect();
    assert_eq!(asked(&mut rig), 1);
    bind(&mut rig);
    let [
        ProviderEvent::Provided,
        ProviderEvent::Bind { handle, item, .. },
    ] = &events(&mut rig)[..]
    else {
        panic!("it is bound");
    };
    assert_eq!((*handle, item.as_str()), (HANDLE, "a"));
    rig.engine.hold(FrameKind::Publish);
    // One value is in transit, one waits, and one is dropped.
    (1..3u8).for_each(|n| publish(&mut rig, f64::from(n)));
    rig.exchange();
    assert_eq!(published(&mut rig), [bytes(1.0)]);
    let early = ProviderReply::Refused("not sent yet".to_owned());
    rig.client.answer_provider(0, early);
    rig.cut();
    publish(&mut rig, 3.0);
    rig.client
        .answer_provider(0, ProviderReply::Refused("late".to_owned()));
    assert_eq!(events(&mut rig), [ProviderEvent::Disconnected]);
    rig.connect();
    let said = rig.said();
    let is_asked = |said: &Said| matches!(said, Said::Provide { name, .. } if name == "plant");
    assert_eq!(said.iter().filter(|said| is_asked(said)).count(), 1);
    let is_other = |said: &&Said| !is_asked(said) && said.kind() != FrameKind::Hello;
    assert_eq!(
        said.iter().find(is_other),
        None,
        "it is bound to nothing yet"
    );
    assert_eq!(events(&mut rig), [ProviderEvent::Provided]);
    let counts = rig.client.write_counts();
    assert_eq!(
        (counts.issued, counts.unknown),
        (0, 0),
        "these are no writes of a program"
    );
}

#[test]
fn refused_role_is_requested_again_later() {
    let mut rig = rig();
    rig.engine.hold(FrameKind::Provide);
    rig.client.provide("plant");
    rig.connect();
    let Some(Said::Provide { request, .. }) = rig.said().pop() else {
        panic!("it is asked for");
    };
    let fault = Fault::new(FaultCode::NameTaken, "plant runs already");
    rig.tell(|out| {
        let fault = fault.as_ref();
        FaultMessage { fault }.encode(request, out);
    });
    assert_eq!(events(&mut rig), [ProviderEvent::Refused(fault)]);
    publish(&mut rig, 1.0);
    rig.exchange();
    assert_eq!(published(&mut rig), [[0; 0]; 0]);
    rig.engine.held.clear();
    rig.pass(Duration::from_millis(900));
    assert_eq!(asked(&mut rig), 0);
    rig.pass(Duration::from_millis(200));
    assert_eq!(asked(&mut rig), 1);
    assert_eq!(events(&mut rig), [ProviderEvent::Provided]);
}

#[test]
fn engine_without_the_feature_gets_no_unknown_frames() {
    let mut rig = rig();
    rig.engine.welcome.features = Features::NONE;
    rig.client.provide("plant");
    rig.connect();
    assert_eq!(asked(&mut rig), 0);
    let [ProviderEvent::Refused(fault)] = &events(&mut rig)[..] else {
        panic!("it cannot be");
    };
    assert_eq!(fault.code, FaultCode::NotSupported);
    assert!(fault.sentence.contains("update it"), "{fault}");
}

#[test]
fn values_keep_their_order_and_the_credit() {
    let mut rig = rig();
    rig.engine.welcome.write_credit_count = 4;
    rig.connect();
    rig.client.provide("plant");
    rig.exchange();
    rig.engine.hold(FrameKind::Publish);
    (0..10u8).for_each(|n| publish(&mut rig, f64::from(n)));
    rig.exchange();
    let said = rig.said();
    let Some(Said::Publish(first)) = said.last() else {
        panic!("{said:?}");
    };
    assert_eq!(first.len(), 4);
    assert!(first.iter().all(|write| write.options.raw));
    rig.engine.held.clear();
    rig.engine.answer_writes(first);
    rig.exchange();
    let rest = published(&mut rig);
    assert_eq!(
        rest,
        (4..10u8).map(|n| bytes(f64::from(n))).collect::<Vec<_>>()
    );
    assert_eq!(rig.client.provider_losses(), (0, 0));
}

#[test]
fn oldest_values_are_dropped_and_counted_at_the_limit() {
    let mut rig = provider();
    (0..65_536 + 3).for_each(|n| publish(&mut rig, f64::from(n)));
    assert_eq!(rig.client.provider_losses(), (3, 0));
    rig.exchange();
    let values = published(&mut rig);
    assert_eq!((values.len(), &values[0]), (65_536, &bytes(3.0)));
}

#[test]
fn removed_variable_is_reported_once_and_other_refusals_counted() {
    let mut rig = provider();
    rig.engine.hold(FrameKind::Publish);
    (0..3u8).for_each(|n| publish(&mut rig, f64::from(n)));
    rig.exchange();
    let Some(Said::Publish(sent)) = rig.said().pop() else {
        panic!("three values");
    };
    rig.tell(|out| {
        let mut frame = WriteAnswersBuilder::begin(
            out,
            0,
            &WriteAnswersHead {
                first_write: sent[0].number,
            },
        );
        for code in [FaultCode::OutOfRange, FaultCode::Gone, FaultCode::Gone] {
            frame.push(&WriteAnswer::Refused(Fault::from(code).as_ref()));
        }
        frame.finish(false);
    });
    assert_eq!(events(&mut rig), [ProviderEvent::Unbind { handle: HANDLE }]);
    assert_eq!(rig.client.provider_losses(), (0, 3));
}

#[test]
fn orders_are_delivered_with_tickets_and_false_ones_refused() {
    let mut rig = provider();
    rig.tell(|out| {
        let mut frame = WriteBuilder::begin_provider_write(out, 7);
        let options = WriteOptions::default();
        frame.push_value(HANDLE, &options, &Value::F64(2.0));
        // A write of a variable that was never bound, and a write without a valid value.
        frame.push_value(HANDLE + 1, &options, &Value::F64(2.0));
        frame.push(HANDLE, &options, &[1, 2]);
        frame.finish();
        let head = ProviderRequestHead { first_ticket: 10 };
        let mut frame = ProviderRequestBuilder::begin(out, 0, &head);
        frame.push(&HANDLE);
        frame.push(&HANDLE);
        frame.finish(false);
    });
    let refused = answers(&mut rig);
    let tickets: Vec<u64> = refused.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [8, 9]);
    assert!(refused.iter().all(|(_, why)| why.is_some()), "{refused:?}");
    let value = Value::F64(2.0);
    let write = ProviderEvent::Write {
        ticket: 7,
        handle: HANDLE,
        value,
    };
    let read = |ticket| ProviderEvent::Read {
        ticket,
        handle: HANDLE,
    };
    assert_eq!(events(&mut rig), [write, read(10), read(11)]);
    let quality = Quality::bad(Reason::SensorFailure);
    for (ticket, reply) in [
        (11, ProviderReply::Refused("not now".to_owned())),
        (
            7,
            ProviderReply::Applied {
                value: Value::F64(1.5),
                quality,
                source_timestamp: None,
            },
        ),
    ] {
        rig.client.answer_provider(ticket, reply);
    }
    rig.exchange();
    assert_eq!(
        answers(&mut rig),
        [(11, Some("not now".to_owned())), (7, None)]
    );
}

#[test]
fn provider_disconnects_from_an_invalid_engine() {
    for kind in [
        FrameKind::ProviderBind,
        FrameKind::ProviderWrite,
        FrameKind::ProviderRequest,
    ] {
        let mut rig = provider();
        rig.tell(|out| {
            let mut frame = FrameWriter::begin(out, kind, 0);
            frame.payload().extend_from_slice(&[0xff; 3]);
            (0..9).for_each(|_| frame.count_item());
            frame.finish(false);
        });
        assert!(!rig.connected, "{kind}");
        let ConnectionState::Connecting { last_failure, .. } = rig.client.state() else {
            panic!("it tries again");
        };
        let cause = last_failure.expect("a cause");
        assert!(matches!(*cause, Disconnect::Malformed { .. }), "{cause}");
        assert_eq!(events(&mut rig), [ProviderEvent::Disconnected]);
    }
}
