//! Bulk verbs: one round trip, results per item, and the effect of a lost connection.

use trunkline_client::request::{Read, ReadInto};
use trunkline_client::{ClientOptions, Need, OpenOptions, ReadingBuffer, RequestError, RequestId};
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::why::WhyStage;
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_types::{Access, Reading, Tick, Url, Value};

use super::rig::{Rig, Said, value, write};

impl Rig {
    /// The answer to a read.
    pub fn answer_readings(&mut self, request: RequestId<Read>) -> Vec<Result<Reading, Fault>> {
        self.answer(request).unwrap()
    }
}

impl Rig {
    /// The answer to a read into a buffer.
    pub fn answer_read_into(&mut self, request: RequestId<ReadInto>) -> ReadingBuffer {
        self.answer(request).unwrap()
    }
}

/// Behaviour: API-01.
#[test]
fn a_variable_is_chosen_at_run_time_by_building_its_url() {
    let mut rig = Rig::connected(&["plant/rack 1/level"]);
    let url = Url::parse(&format!("tl:///plant/rack {}/level", 1)).unwrap();
    let opened = &rig.open(&[url.name.as_deref().unwrap()])[0];
    let read = rig.client.read(&[opened.variable]).unwrap();
    assert_eq!(rig.answer_readings(read)[0].as_ref().map(value), Ok(0.0));
}

/// Behaviour: B-30.
#[test]
fn every_verb_handles_a_list_with_errors_per_item() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let options = OpenOptions {
        include_readings: true,
        describe: true,
        ..OpenOptions::default()
    };
    let open = rig.client.open(&["a/b", "a/nope", "a/c"], options).unwrap();
    let opened = rig.answer(open).unwrap();
    let codes: Vec<_> = opened
        .iter()
        .map(|o| o.as_ref().err().map(|fault| fault.code))
        .collect();
    assert_eq!(codes, [None, Some(FaultCode::UnknownName), None]);
    let first = opened[0].as_ref().unwrap();
    assert_eq!(first.reading.as_ref().map(value), Some(0.0));
    assert!(first.properties.is_some());
    let (b, c) = (first.variable, opened[2].as_ref().unwrap().variable);
    let closed = rig.client.close(&[c]).unwrap();
    assert_eq!(rig.answer(closed), Ok(vec![Ok(())]));
    rig.said();

    let read = rig.client.read(&[b, c]).unwrap();
    let readings = rig.answer_readings(read);
    assert_eq!(readings[0].as_ref().map(value), Ok(0.0));
    assert_eq!(
        readings[1].as_ref().unwrap_err().code,
        FaultCode::UnknownHandle
    );
    let writes = rig.client.write([write(b, 1.0), write(c, 2.0)]).unwrap();
    rig.exchange();
    let outcomes = rig.client.take_outcomes(writes).unwrap();
    assert!(matches!(
        outcomes[0],
        trunkline_client::WriteOutcome::Applied(_)
    ));
    assert!(matches!(
        outcomes[1],
        trunkline_client::WriteOutcome::Refused(_)
    ));
    let close = rig.client.close(&[b, c]).unwrap();
    let results = rig.answer(close).unwrap();
    assert_eq!(results[0], Ok(()));
    assert_eq!(
        results[1].as_ref().unwrap_err().code,
        FaultCode::UnknownHandle
    );
    let kinds: Vec<_> = rig.said().iter().map(Said::kind).collect();
    assert_eq!(
        kinds,
        [FrameKind::Read, FrameKind::Write, FrameKind::Close],
        "one frame each"
    );
}

/// Behaviour: VS-05.
#[test]
fn a_synchronous_call_is_a_request_and_the_wait_for_its_answer() {
    let mut rig = Rig::connected(&["a/b"]);
    let variable = rig.open_one("a/b");
    rig.engine.hold(FrameKind::Read);
    let read = rig.client.read(&[variable]).unwrap();
    rig.exchange();
    assert!(!rig.client.is_answered(read));
    let said = rig.said().pop().unwrap();
    rig.engine.answer(&said);
    rig.exchange();
    assert!(rig.client.is_answered(read));
    assert_eq!(rig.answer_readings(read).len(), 1);
    assert_eq!(rig.client.take(read), None, "an answer is taken once");
}

/// Behaviour: VS-06.
#[test]
fn many_calls_are_made_and_waited_for_once() {
    let mut rig = Rig::connected(&["a/b"]);
    let variable = rig.open_one("a/b");
    let reads: Vec<_> = (0..100)
        .map(|_| rig.client.read(&[variable]).unwrap())
        .collect();
    let writes: Vec<_> = (0..100)
        .map(|n| rig.client.write([write(variable, f64::from(n))]).unwrap())
        .collect();
    assert_eq!(rig.client.pending(), 200);
    rig.exchange();
    assert_eq!(rig.client.pending(), 0);
    assert!(reads.iter().all(|read| rig.client.is_answered(*read)));
    assert!(writes.iter().all(|batch| rig.client.is_settled(*batch)));
}

#[test]
fn requests_and_writes_are_sent_in_the_order_they_were_made() {
    let mut rig = Rig::connected(&["a/b"]);
    let variable = rig.open_one("a/b");
    rig.said();
    rig.client.read(&[variable]).unwrap();
    rig.client
        .write_untracked([write(variable, 1.0)], Tick::MAX)
        .unwrap();
    rig.client
        .write_untracked([write(variable, 2.0)], Tick::MAX)
        .unwrap();
    rig.client.read(&[variable]).unwrap();
    rig.client
        .write_untracked([write(variable, 3.0)], Tick::MAX)
        .unwrap();
    rig.exchange();
    let kinds: Vec<_> = rig.said().iter().map(Said::kind).collect();
    use FrameKind::{Read, Write};
    assert_eq!(kinds, [Read, Write, Read, Write]);
}

#[test]
fn the_other_questions_are_answered() {
    let mut rig = Rig::connected(&["a/b"]);
    let variable = rig.open_one("a/b");
    let info = rig.client.info(&[variable]).unwrap();
    let why = rig.client.why("a/b").unwrap();
    let engine = rig.client.engine_info().unwrap();
    let fresh = rig.client.request_value(&[variable]).unwrap();
    let info = rig.answer(info).unwrap();
    assert_eq!(info[0].as_ref().unwrap().name, "a/b");
    let steps = rig.answer(why).unwrap();
    assert_eq!(
        (steps[0].stage, steps[0].next.as_str()),
        (WhyStage::Library, "start it")
    );
    let engine = rig.answer(engine).unwrap();
    assert_eq!(engine.name, "fake");
    let results = rig.answer(fresh).unwrap();
    assert_eq!(
        results[0].as_ref().unwrap_err().code,
        FaultCode::ProviderGone
    );
}

/// Behaviour: API-08.
#[test]
fn opening_verifies_the_access_that_the_program_requires() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    rig.engine.variable(100).access = Access::ReadOnly;
    let options = OpenOptions {
        writing: Need::Required,
        ..OpenOptions::default()
    };
    let open = rig.client.open(&["a/b", "a/c"], options).unwrap();
    let opened = rig.answer(open).unwrap();
    assert_eq!(opened[0].as_ref().unwrap_err().code, FaultCode::NotWritable);
    assert_eq!(opened[1].as_ref().unwrap().access, Access::ReadWrite);

    let options = OpenOptions {
        writing: Need::None,
        ..OpenOptions::default()
    };
    let open = rig.client.open(&["a/c"], options).unwrap();
    let opened = rig.answer(open).unwrap();
    assert_eq!(
        opened[0].as_ref().unwrap().access,
        Access::ReadOnly,
        "no more than asked for"
    );
}

/// Behaviour: API-08.
#[test]
fn opening_continues_in_the_background_after_the_timeout() {
    let mut rig = Rig::connected(&["a/b"]);
    rig.engine.hold(FrameKind::Open);
    let background = rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    let impatient = rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    rig.exchange();
    assert!(!rig.client.is_answered(impatient));
    rig.client.forget(impatient);
    let held = rig.said();
    held[held.len() - 2..]
        .iter()
        .for_each(|said| rig.engine.answer(said));
    rig.exchange();
    assert!(rig.client.is_answered(background) && !rig.client.is_answered(impatient));
    assert_eq!(rig.client.pending(), 0);
    let opened = rig.answer(background).unwrap();
    rig.client
        .close(&[opened[0].as_ref().unwrap().variable])
        .unwrap();
    assert_eq!(
        rig.client.variables_in_use(),
        0,
        "what nobody waited for was closed"
    );
}

#[test]
fn untaken_answer_is_undone_when_it_is_dropped() {
    let mut rig = Rig::connected(&["a/b"]);
    let open = rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    rig.exchange();
    assert!(rig.client.is_answered(open));
    rig.client.forget(open);
    rig.exchange();
    assert_eq!(rig.client.variables_in_use(), 0);
    let closed = rig.said().pop().map(|said| said.kind());
    assert_eq!(closed, Some(FrameKind::Close));
}

#[test]
fn every_idempotent_request_survives_a_disconnect() {
    let mut rig = Rig::connected(&["a/b"]);
    let variable = rig.open_one("a/b");
    use FrameKind::{Engine, Find, Info, Open, Read, RequestValue, Why};
    for kind in [Open, Read, RequestValue, Info, Find, Why, Engine] {
        rig.engine.hold(kind);
    }
    let open = rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    let read = rig.client.read(&[variable]).unwrap();
    let fresh = rig.client.request_value(&[variable]).unwrap();
    let info = rig.client.info(&[variable]).unwrap();
    let find = rig.client.find("**", None).unwrap();
    let why = rig.client.why("a/b").unwrap();
    let engine = rig.client.engine_info().unwrap();
    rig.exchange();
    rig.engine.held.clear();
    rig.reconnect();
    assert!(rig.client.is_answered(open) && rig.client.is_answered(read));
    assert!(rig.client.is_answered(fresh) && rig.client.is_answered(info));
    assert!(rig.client.is_answered(find) && rig.client.is_answered(why));
    assert!(rig.client.is_answered(engine));
}

#[test]
fn requests_and_untaken_answers_are_bounded() {
    let mut rig = Rig::with(ClientOptions {
        requests_max: 3,
        request_items_max: 10,
        ..ClientOptions::default()
    });
    rig.engine.add("a/b", Value::F64(0.0));
    rig.connect();
    let error = rig
        .client
        .open(&["a/b"; 11], OpenOptions::default())
        .unwrap_err();
    assert_eq!(error, RequestError::TooManyItems { items: 11, max: 10 });
    let taken = rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    rig.client.engine_info().unwrap();
    rig.exchange();
    let error = rig.client.engine_info().unwrap_err();
    assert_eq!(error, RequestError::TooManyRequests { max: 3 });
    assert!(rig.client.take(taken).is_some());
    assert!(rig.client.engine_info().is_ok());
}

/// A read of many returns the same in one block of memory as in separate readings, with faults in
/// their places, for all types, and again on the next connection.
///
/// Behaviour: B-30, B-31.
#[test]
fn buffer_of_readings_equals_separate_readings() {
    let mut rig = Rig::connected(&["a/b", "a/c", "a/d"]);
    let variables = ["a/b", "a/c", "a/d"].map(|name| rig.open_one(name));
    for (name, value) in [("a/b", 1.0), ("a/c", 2.0), ("a/d", 3.0)] {
        rig.set(name, value);
    }
    let closed = rig.client.close(&variables[1..2]).unwrap();
    rig.answer(closed).unwrap();
    let list = rig.client.read(&variables).unwrap();
    let list = rig.answer_readings(list);
    let buffer = rig
        .client
        .read_into(&variables, ReadingBuffer::new())
        .unwrap();
    let buffer = rig.answer_read_into(buffer);
    assert_eq!(buffer.to_readings(), list);
    let values: Vec<_> = buffer.values::<f64>().collect();
    assert_eq!(values, [Some(1.0), None, Some(3.0)]);
    let (place, fault) = buffer.faults().next().unwrap();
    assert_eq!((place, fault.code), (1, FaultCode::UnknownHandle));
    assert!(buffer.get(1).unwrap().is_err());
    let (reading, own) = (buffer.get(2).unwrap().unwrap(), list[2].as_ref().unwrap());
    assert_eq!(
        (reading.position(), reading.quality(), reading.own()),
        (own.position, own.sample.quality, own.own)
    );

    // Requested without a connection, and answered on the next one.
    rig.cut();
    let again = rig.client.read_into(&variables, buffer).unwrap();
    rig.connect();
    let buffer = rig.answer_read_into(again);
    let values: Vec<_> = buffer.values::<f64>().collect();
    assert_eq!(values, [Some(1.0), None, Some(3.0)]);
    let empty = rig.client.read_into(&[], buffer).unwrap();
    assert!(rig.answer_read_into(empty).is_empty());
}

#[test]
fn requests_without_items_are_answered_without_a_frame() {
    let mut rig = Rig::connected(&[]);
    rig.said();
    let open = rig
        .client
        .open::<&str>(&[], OpenOptions::default())
        .unwrap();
    let read = rig.client.read(&[]).unwrap();
    assert_eq!(rig.answer(open), Ok(Vec::new()));
    assert_eq!(rig.answer(read), Ok(Vec::new()));
    assert_eq!(rig.said(), []);
}

#[test]
fn names_are_compared_as_the_engine_compares_them() {
    let mut rig = Rig::connected(&["a/50%2F60"]);
    let (lower, upper) = (rig.open_one("a/50%2f60"), rig.open_one("a/50%2F60"));
    assert_eq!(lower, upper);
    let open = rig
        .client
        .open(&["x".repeat(5000)], OpenOptions::default())
        .unwrap();
    let opened = rig.answer(open).unwrap();
    assert_eq!(opened[0].as_ref().unwrap_err().code, FaultCode::BadName);
}

/// An engine that does not support a list is not asked for it, because it would never answer.
#[test]
fn an_older_engine_is_not_asked_for_its_forced_variables() {
    let mut rig = Rig::connected(&[]);
    for verb in [ForcingVerb::List, ForcingVerb::Clear] {
        let list = rig.client.forcing(verb).unwrap();
        let fault = rig.answer(list).unwrap_err();
        assert_eq!(fault.code, FaultCode::NotSupported);
        assert!(fault.sentence.contains("forced variables"), "{fault}");
    }
}
