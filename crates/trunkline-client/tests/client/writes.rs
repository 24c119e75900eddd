//! Writes: in order, within the credit, packed, and every one with its outcome.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{ClientOptions, NotTried, Write, WriteError, WriteOptions, WriteOutcome};
use trunkline_proto::message::library::LibraryVerb;
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer as Wire};
use trunkline_proto::message::write::{WriteAnswersBuilder, WriteAnswersHead, WriteVerb};
use trunkline_proto::{Endpoint, Fault, FaultCode, Features, FrameKind};
use trunkline_types::{Position, Quality, Reason, Tick, Timestamp, Value};

use super::rig::{FakeEngine, Rig, Said, write};

/// The client's writes that were not answered.
fn said_writes(rig: &mut Rig) -> Vec<super::rig::SaidWrite> {
    let writes = |said| match said {
        Said::Write(writes) => writes,
        _ => Vec::new(),
    };
    rig.said().into_iter().flat_map(writes).collect()
}

fn answer(engine: &mut FakeEngine, first: u64, outcomes: &[Wire<'_>]) {
    let mut frame =
        WriteAnswersBuilder::begin(&mut engine.out, 0, &WriteAnswersHead { first_write: first });
    outcomes.iter().for_each(|outcome| frame.push(outcome));
    frame.finish(false);
}

fn rig() -> (Rig, trunkline_client::VariableRef) {
    let mut rig = Rig::connected(&["a/b"]);
    let variable = rig.open_one("a/b");
    rig.said();
    (rig, variable)
}

/// Behaviour: B-20.
#[test]
fn every_outcome_arrives_as_the_engine_sent_it() {
    let (mut rig, variable) = rig();
    rig.engine.hold(FrameKind::Write);
    let batch = rig
        .client
        .write((0..6).map(|n| write(variable, f64::from(n))))
        .unwrap();
    rig.exchange();
    let fault = Fault::new(FaultCode::OutOfRange, "5 is outside 0 to 4");
    let silent = Fault::new(FaultCode::TimedOut, "the device did not answer");
    let first = said_writes(&mut rig)[0].number;
    let outcomes = [
        Wire::Applied(7),
        Wire::Unchanged(7),
        Wire::Superseded,
        Wire::Refused(fault.as_ref()),
        Wire::NotTried(WouldBlock),
        Wire::Unknown(silent.as_ref()),
    ];
    answer(&mut rig.engine, first, &outcomes[..3]);
    rig.exchange();
    assert_eq!(
        rig.client.take_outcomes(batch),
        None,
        "not before all of them are known"
    );
    answer(&mut rig.engine, first + 3, &outcomes[3..]);
    rig.exchange();
    let at = Position {
        epoch: 10,
        sequence: 7,
    };
    let expected = [
        WriteOutcome::Applied(at),
        WriteOutcome::Unchanged(at),
        WriteOutcome::Superseded,
        WriteOutcome::Refused(fault),
        WriteOutcome::NotTried(NotTried::WouldBlock),
        WriteOutcome::Unknown(silent),
    ];
    assert_eq!(rig.client.take_outcomes(batch).unwrap(), expected);
    assert_eq!(rig.client.take_outcomes(batch), None);
}

/// Behaviour: B-20.
#[test]
fn writes_with_lost_answers_are_unknown_and_never_resent() {
    let (mut rig, variable) = rig();
    rig.engine.hold(FrameKind::Write);
    let sent = rig
        .client
        .write([write(variable, 1.0), write(variable, 2.0)])
        .unwrap();
    rig.exchange();
    rig.cut();
    let unsent = rig.client.write([write(variable, 3.0)]).unwrap();
    for outcome in rig.client.take_outcomes(sent).unwrap() {
        let WriteOutcome::Unknown(fault) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(fault.code, FaultCode::TimedOut);
        assert!(fault.sentence.contains("closed the connection"), "{fault}");
    }
    rig.engine.held.clear();
    rig.connect();
    let writes = said_writes(&mut rig);
    assert_eq!(
        writes.len(),
        1,
        "what was sent is not sent again, what was not is"
    );
    assert_eq!(writes[0].value, 3.0f64.to_le_bytes());
    let outcomes = rig.client.take_outcomes(unsent).unwrap();
    assert_eq!(
        outcomes,
        [WriteOutcome::Applied(Position {
            epoch: 10,
            sequence: 2
        })]
    );
    let counts = rig.client.write_counts();
    assert_eq!((counts.issued, counts.applied, counts.unknown), (3, 1, 2));
}

/// Behaviour: VS-07.
#[test]
fn asynchronous_writes_and_answers_are_packed_into_frames() {
    let (mut rig, variable) = rig();
    for n in 0..1000 {
        rig.client
            .write_untracked([write(variable, f64::from(n))], Tick::MAX)
            .unwrap();
    }
    rig.exchange();
    let frames = rig
        .said()
        .iter()
        .filter(|said| said.kind() == FrameKind::Write)
        .count();
    assert_eq!(frames, 1, "and nothing but one answer frame came back");
    assert_eq!(rig.client.write_counts().applied, 1000);
}

#[test]
fn writes_in_flight_stay_within_the_credit() {
    let mut rig = Rig::new();
    rig.engine.welcome.write_credit_count = 10;
    rig.engine.add("a/b", Value::F64(0.0));
    rig.connect();
    let variable = rig.open_one("a/b");
    rig.said();
    rig.engine.hold(FrameKind::Write);
    let batch = rig
        .client
        .write((0..25).map(|n| write(variable, f64::from(n))))
        .unwrap();
    rig.exchange();
    let writes = said_writes(&mut rig);
    assert_eq!((writes.len(), rig.client.write_counts().waiting), (10, 15));
    let read = rig.client.read(&[variable]).unwrap();
    rig.exchange();
    assert!(
        rig.client.is_answered(read),
        "writes that wait do not hold up requests"
    );
    // Answers arrive in any order: a provider may be slow.
    answer(&mut rig.engine, writes[9].number, &[Wire::Superseded]);
    rig.exchange();
    assert_eq!(said_writes(&mut rig).len(), 1);
    rig.engine.held.clear();
    answer(&mut rig.engine, writes[0].number, &[Wire::Superseded; 9]);
    rig.exchange();
    assert_eq!(rig.client.write_counts().waiting, 0);
    assert_eq!(
        rig.client.write_counts().in_flight,
        1,
        "the eleventh was held"
    );
    assert!(!rig.client.is_settled(batch));
}

#[test]
fn credit_counts_bytes_and_a_larger_value_is_sent_alone() {
    let mut rig = Rig::new();
    rig.engine.welcome.write_credit_bytes = 1000;
    rig.engine.add("a/s", Value::String("".into()));
    rig.connect();
    let variable = rig.open_one("a/s");
    rig.said();
    rig.engine.hold(FrameKind::Write);
    let text = |bytes| {
        Write::new(
            variable,
            Value::String(Arc::from("x".repeat(bytes).as_str())),
        )
    };
    rig.client
        .write_untracked([text(400), text(400), text(5000), text(10)], Tick::MAX)
        .unwrap();
    for expected in [2, 1, 1] {
        rig.exchange();
        let writes = said_writes(&mut rig);
        assert_eq!(writes.len(), expected);
        rig.engine.answer_writes(&writes);
    }
    rig.exchange();
    assert_eq!(rig.client.write_counts().applied, 4);
}

#[test]
fn every_answer_returns_its_bytes_of_credit() {
    let mut rig = Rig::new();
    rig.engine.welcome.write_credit_bytes = 20;
    rig.engine.add("a/b", Value::F64(0.0));
    rig.connect();
    let variable = rig.open_one("a/b");
    rig.said();
    rig.engine.hold(FrameKind::Write);
    rig.client
        .write_untracked((0..4).map(|n| write(variable, f64::from(n))), Tick::MAX)
        .unwrap();
    rig.exchange();
    let writes = said_writes(&mut rig);
    assert_eq!(writes.len(), 2, "16 of 20 bytes");
    rig.engine.answer_writes(&writes[..1]);
    rig.exchange();
    assert_eq!(said_writes(&mut rig).len(), 1);
}

#[test]
fn a_value_longer_than_a_frame_is_sent_in_parts() {
    let mut rig = Rig::new();
    rig.engine.welcome.frame_max = 4096;
    rig.engine.add("a/s", Value::String("".into()));
    rig.connect();
    let variable = rig.open_one("a/s");
    let text: Arc<str> = Arc::from("x".repeat(100_000).as_str());
    let batch = rig
        .client
        .write([Write::new(variable, Value::String(text))])
        .unwrap();
    rig.exchange();
    assert!(matches!(
        rig.client.take_outcomes(batch).unwrap()[0],
        WriteOutcome::Applied(_)
    ));
}

#[test]
fn a_write_that_finds_no_room_is_not_accepted_at_all() {
    let mut rig = Rig::with(ClientOptions {
        writes_max: 10,
        write_bytes_max: 100,
        ..ClientOptions::default()
    });
    rig.engine.add("a/b", Value::F64(0.0));
    rig.connect();
    let variable = rig.open_one("a/b");
    rig.cut();
    rig.client
        .write_untracked((0..8).map(|n| write(variable, f64::from(n))), Tick::MAX)
        .unwrap();
    let error = rig
        .client
        .write((0..3).map(|_| write(variable, 0.0)))
        .unwrap_err();
    assert_eq!(
        error,
        WriteError::WouldBlock {
            waiting: 8,
            bytes: 64
        }
    );
    assert!(error.to_string().contains("try again"), "{error}");
    assert_eq!(rig.client.write_counts().issued, 8);
    rig.connect();
    let batches: Vec<_> = (0..10)
        .map(|_| rig.client.write([write(variable, 1.0)]).unwrap())
        .collect();
    rig.exchange();
    let error = rig.client.write([write(variable, 1.0)]).unwrap_err();
    assert_eq!(error, WriteError::OutcomesNotTaken { waiting: 10 });
    rig.client.end_writes(batches[0]);
    rig.client.take_outcomes(batches[1]).unwrap();
    assert!(rig.client.write([write(variable, 1.0)]).is_ok());
}

#[test]
fn a_write_of_another_type_or_to_nothing_is_refused_without_being_sent() {
    let (mut rig, variable) = rig();
    let closed = rig.open_one("a/b");
    let writes = [Write::new(variable, Value::I32(1)), write(variable, 1.0)];
    let batch = rig.client.write(writes).unwrap();
    rig.exchange();
    let outcomes = rig.client.take_outcomes(batch).unwrap();
    let WriteOutcome::Refused(fault) = &outcomes[0] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(fault.code, FaultCode::WrongType);
    assert!(
        matches!(outcomes[1], WriteOutcome::Applied(_)),
        "the other one is carried out"
    );
    assert_eq!(said_writes(&mut rig).len(), 1);

    rig.client.close(&[variable]).unwrap();
    rig.client.close(&[closed]).unwrap();
    let batch = rig.client.write([write(variable, 1.0)]).unwrap();
    rig.exchange();
    let outcomes = rig.client.take_outcomes(batch).unwrap();
    assert!(matches!(&outcomes[0], WriteOutcome::Refused(f) if f.code == FaultCode::UnknownHandle));
    assert_eq!(
        rig.client.last_write_fault().map(|f| f.code),
        Some(FaultCode::UnknownHandle)
    );
}

#[test]
fn a_write_waits_for_the_variable_even_when_it_is_closed_meanwhile() {
    let (mut rig, variable) = rig();
    rig.cut();
    let batch = rig.client.write([write(variable, 1.0)]).unwrap();
    rig.client.close(&[variable]).unwrap();
    rig.connect();
    assert!(matches!(
        rig.client.take_outcomes(batch).unwrap()[0],
        WriteOutcome::Applied(_)
    ));
    assert_eq!(rig.client.variables_in_use(), 0);
}

#[test]
fn time_quality_and_mode_travel_with_the_value() {
    let (mut rig, variable) = rig();
    let options = WriteOptions {
        source_timestamp: Some(Timestamp::from_nanos(123)),
        quality: Some(Quality::uncertain(Reason::Estimated)),
        verb: Ok(WriteVerb::Set),
        try_only: true,
        ..WriteOptions::default()
    };
    rig.client
        .write([Write {
            options,
            ..write(variable, 1.0)
        }])
        .unwrap();
    rig.exchange();
    assert_eq!(said_writes(&mut rig)[0].options, options);
}

#[test]
fn unsent_writes_are_refused_when_the_client_shuts_down() {
    let (mut rig, variable) = rig();
    rig.cut();
    let batch = rig.client.write([write(variable, 1.0)]).unwrap();
    rig.client.shut_down();
    let outcomes = rig.client.take_outcomes(batch).unwrap();
    let WriteOutcome::Refused(fault) = &outcomes[0] else {
        panic!("{outcomes:?}")
    };
    assert!(fault.sentence.contains("not sent"), "{fault}");
    assert_eq!(rig.client.pending(), 0);
}

/// The fault of a write that was cancelled.
fn cancelled(outcome: &WriteOutcome) -> &str {
    match outcome {
        WriteOutcome::NotTried(NotTried::Cancelled(fault)) => &fault.sentence,
        other => panic!("not cancelled: {other:?}"),
    }
}

/// Behaviour: B-20.
#[test]
fn a_write_whose_call_has_ended_is_never_sent() {
    let (mut rig, variable) = rig();
    rig.cut();
    let ended = rig
        .client
        .write([
            write(variable, 1.0),
            Write::newest(variable, Value::F64(2.0)),
        ])
        .unwrap();
    let waits = rig
        .client
        .write([Write::newest(variable, Value::F64(3.0))])
        .unwrap();
    let outcomes = rig.client.end_writes(ended);
    assert!(cancelled(&outcomes[0]).contains("cancelled"));
    assert_eq!(outcomes[1], WriteOutcome::Superseded, "by one that waits");
    assert!(rig.client.end_writes(ended).is_empty(), "it ends once");
    // A later write takes the place of the waiting one.
    let last = rig
        .client
        .write([Write::newest(variable, Value::F64(4.0))])
        .unwrap();
    rig.connect();
    assert!(rig.client.take_outcomes(waits).is_some());
    assert!(rig.client.take_outcomes(last).is_some());
    let said: Vec<_> = said_writes(&mut rig).into_iter().map(|w| w.value).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    let counts = rig.client.write_counts();
    assert_eq!((counts.issued, counts.cancelled), (4, 1));
    assert_eq!((counts.superseded, counts.applied), (2, 1));
    assert_eq!((counts.waiting, counts.in_flight), (0, 0));
}

/// Behaviour: B-20.
#[test]
fn write_sent_before_its_call_ended_is_unknown() {
    let (mut rig, variable) = rig();
    rig.engine.hold(FrameKind::Write);
    let batch = rig.client.write([write(variable, 1.0)]).unwrap();
    rig.exchange();
    let outcomes = rig.client.end_writes(batch);
    let [WriteOutcome::Unknown(fault)] = &*outcomes else {
        panic!("{outcomes:?}")
    };
    assert!(fault.sentence.contains("may have carried out"), "{fault}");
    assert_eq!(rig.client.write_counts().in_flight, 1);
    let first = said_writes(&mut rig)[0].number;
    answer(&mut rig.engine, first, &[Wire::Applied(7)]);
    rig.exchange();
    let counts = rig.client.write_counts();
    assert_eq!(
        (counts.applied, counts.unknown, counts.in_flight),
        (1, 0, 0)
    );
}

/// Behaviour: B-20.
#[test]
fn unsent_part_of_a_batch_is_cancelled_and_the_rest_unknown() {
    let (mut rig, variable) = rig();
    rig.cut();
    rig.engine.welcome.write_credit_count = 4;
    rig.connect();
    rig.said();
    rig.engine.hold(FrameKind::Write);
    let writes = (0..6).map(|n| write(variable, f64::from(n)));
    let batch = rig.client.write(writes).unwrap();
    rig.exchange();
    let outcomes = rig.client.end_writes(batch);
    let unknown = outcomes
        .iter()
        .filter(|one| matches!(one, WriteOutcome::Unknown(_)));
    assert_eq!(unknown.count(), 4);
    outcomes.iter().skip(4).for_each(|one| {
        assert!(cancelled(one).contains("busy"));
    });
    let first = said_writes(&mut rig)[0].number;
    answer(&mut rig.engine, first, &[Wire::NotTried(WouldBlock); 4]);
    rig.exchange();
    assert!(said_writes(&mut rig).is_empty());
}

/// Behaviour: B-20.
#[test]
fn untracked_write_is_sent_within_its_lifetime_or_never() {
    let (mut rig, variable) = rig();
    rig.cut();
    let life = |rig: &Rig, seconds| rig.now.saturating_add(Duration::from_secs(seconds));
    let (short, long) = (life(&rig, 1), life(&rig, 3600));
    rig.client
        .write_untracked([write(variable, 1.0)], short)
        .unwrap();
    rig.client
        .write_untracked([write(variable, 2.0)], long)
        .unwrap();
    assert_eq!(rig.client.poll_timeout(), Some(short));
    rig.pass(Duration::from_secs(2));
    let counts = rig.client.write_counts();
    assert_eq!((counts.cancelled, counts.waiting), (1, 1));
    let why = rig.client.last_write_fault().unwrap();
    assert!(why.sentence.contains("not sent in time"), "{why}");
    rig.connect();
    assert_eq!(said_writes(&mut rig).len(), 1);
    assert_eq!(rig.client.write_counts().applied, 1);
}

/// Writes whose lifetimes end shortly after each other are checked together; none of them is sent
/// in between.
///
/// Behaviour: B-20.
#[test]
fn write_expired_before_the_reconnect_is_not_sent() {
    let (mut rig, variable) = rig();
    rig.cut();
    let moment = Duration::from_millis(1);
    let first = rig.now.saturating_add(Duration::from_secs(1));
    let lives = [first, first.saturating_add(moment), Tick::MAX];
    for (number, life) in (1..).map(f64::from).zip(lives) {
        rig.client
            .write_untracked([write(variable, number)], life)
            .unwrap();
    }
    rig.pass(Duration::from_secs(1));
    let counts = rig.client.write_counts();
    assert_eq!((counts.cancelled, counts.waiting), (1, 2));
    rig.pass(2 * moment);
    assert_eq!(
        rig.client.write_counts().waiting,
        2,
        "it is not looked for yet"
    );
    rig.connect();
    let sent = said_writes(&mut rig);
    let values: Vec<&[u8]> = sent.iter().map(|one| &*one.value).collect();
    assert_eq!(values, [3_f64.to_le_bytes()]);
    assert_eq!(rig.client.write_counts().cancelled, 2);
}

/// Behaviour: B-20.
#[test]
fn a_group_or_an_order_whose_call_has_ended_is_never_sent_later() {
    let (mut rig, variable) = rig();
    rig.cut();
    rig.engine.welcome.features = Features::OURS;
    rig.connect();
    let sent_group = rig
        .client
        .write_group(vec![write(variable, 1.0)], false)
        .unwrap();
    let sent_order = rig.client.order_library("a", LibraryVerb::Stop).unwrap();
    // In transit, and never answered.
    let mut bytes = Vec::new();
    while rig
        .client
        .poll_output(rig.now, Timestamp::UNIX_EPOCH, 1 << 20, &mut bytes)
    {}
    assert!(!bytes.is_empty());
    let group = rig.client.give_up(sent_group).unwrap().unwrap();
    assert!(matches!(group.outcomes[..], [WriteOutcome::Unknown(_)]));
    let fault = rig.client.give_up(sent_order).unwrap().unwrap_err();
    assert!(
        fault.sentence.contains("may or may not have carried out"),
        "{fault}"
    );
    rig.cut();
    let group = rig
        .client
        .write_group(vec![write(variable, 2.0)], false)
        .unwrap();
    let order = rig.client.order_library("a", LibraryVerb::Start).unwrap();
    assert!(rig.client.give_up(group).is_none());
    assert!(rig.client.give_up(order).is_none());
    rig.connect();
    // The fake engine supports neither groups nor orders, and would panic.
    let counts = rig.client.write_counts();
    assert_eq!((counts.issued, counts.unknown), (2, 1));
    assert_eq!(
        counts.issued,
        counts.unknown + counts.refused + counts.cancelled
    );
}
