//! Requests and answers of several frames, and their interruption.

use trunkline_client::OpenOptions;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::open::{OpenOptions as WireOptions, OpenedBuilder};
use trunkline_proto::{Endpoint, Fault, FaultCode, FrameKind};
use trunkline_types::{Access, DataType, Value};

use super::rig::{Rig, Said, WALL};

/// The request numbers of the client's frames of one kind.
fn requests(rig: &mut Rig) -> Vec<(FrameKind, u32)> {
    let number = |said: Said| match said {
        Said::Open { request, .. } => Some((FrameKind::Open, request)),
        Said::Handles { kind, request, .. } => Some((kind, request)),
        Said::Find { request, .. } => Some((FrameKind::Find, request)),
        _ => None,
    };
    rig.said().into_iter().filter_map(number).collect()
}

#[test]
fn the_pages_of_a_search_are_collected() {
    let mut rig = Rig::new();
    for n in 0..250 {
        rig.engine.add(&format!("a/v{n}"), Value::F64(0.0));
    }
    rig.connect();
    let find = rig.client.find("a/*", None).unwrap();
    let names = rig.answer(find).unwrap();
    assert_eq!((names.len(), names[249].name.as_str()), (250, "a/v249"));
    let find = rig.client.find("a/*", Some(120)).unwrap();
    let names = rig.answer(find).unwrap();
    assert_eq!(names.len(), 120);
}

#[test]
fn partially_answered_request_is_repeated_after_a_disconnect() {
    let names: Vec<String> = (0..20_000)
        .map(|n| format!("a/variable number {n}"))
        .collect();
    let mut rig = Rig::new();
    for name in &names {
        rig.engine.add(name, Value::F64(0.0));
    }
    rig.connect();
    let open = rig.client.open(&names, OpenOptions::default()).unwrap();
    let mut bytes = Vec::new();
    rig.client.poll_output(rig.now, WALL, 1, &mut bytes);
    rig.engine.take(rig.now, &bytes);
    let answers = std::mem::take(&mut rig.engine.out);
    rig.client.handle_input(rig.now, WALL, &answers);
    let asked = rig.said().len();
    assert!(!rig.client.is_answered(open) && asked == 2, "{asked}");
    rig.reconnect();
    let opened = rig.answer(open).unwrap();
    assert!(opened.iter().all(Result::is_ok) && opened.len() == names.len());
    let variables: Vec<_> = opened.into_iter().map(|o| o.unwrap().variable).collect();
    rig.client.close(&variables).unwrap();
    assert_eq!(
        rig.client.variables_in_use(),
        0,
        "nothing was counted twice"
    );
}

#[test]
fn a_whole_request_that_is_refused_is_every_items_fault() {
    let mut rig = Rig::connected(&["a/b"]);
    rig.engine.hold(FrameKind::Open);
    rig.engine.hold(FrameKind::Find);
    let open = rig
        .client
        .open(&["a/b", "a/c"], OpenOptions::default())
        .unwrap();
    let find = rig.client.find("[", None).unwrap();
    rig.exchange();
    let fault = Fault::new(FaultCode::BadPattern, "no");
    for (_, request) in requests(&mut rig) {
        rig.tell(|out| {
            let fault = fault.as_ref();
            FaultMessage { fault }.encode(request, out)
        });
    }
    let opened = rig.answer(open).unwrap();
    assert!(opened.iter().all(|result| result.as_ref() == Err(&fault)));
    assert_eq!(rig.answer(find), Err(fault));
    assert_eq!(rig.client.variables_in_use(), 0);
}

#[test]
fn answers_to_the_rest_of_a_refused_request_are_ignored() {
    let names: Vec<String> = (0..20_000)
        .map(|n| format!("a/variable number {n}"))
        .collect();
    let mut rig = Rig::connected(&["a/b"]);
    rig.engine.hold(FrameKind::Open);
    let open = rig.client.open(&names, OpenOptions::default()).unwrap();
    rig.exchange();
    let (_, request) = requests(&mut rig)[0];
    let fault = Fault::from(FaultCode::LimitReached);
    rig.tell(|out| {
        let fault = fault.as_ref();
        FaultMessage { fault }.encode(request, out);
        let mut answer = OpenedBuilder::begin(out, request, WireOptions::default(), 0);
        answer.push(5, &DataType::F64, Access::ReadWrite, None, None);
        answer.finish(false);
    });
    let opened = rig.answer(open).unwrap();
    assert!(opened.iter().all(|result| result.as_ref() == Err(&fault)));
    assert!(rig.client.state().is_connected());
}

#[test]
fn search_restarts_on_the_next_connection() {
    let mut rig = Rig::new();
    for n in 0..250 {
        rig.engine.add(&format!("a/v{n}"), Value::F64(0.0));
    }
    rig.connect();
    rig.engine.hold(FrameKind::Find);
    let find = rig.client.find("a/*", None).unwrap();
    rig.exchange();
    let said = rig.said().pop().unwrap();
    rig.engine.answer(&said);
    rig.exchange();
    assert!(matches!(
        rig.said().pop(),
        Some(Said::Find { cursor: 100, .. })
    ));
    rig.engine.held.clear();
    rig.reconnect();
    assert!(
        rig.said()
            .iter()
            .any(|said| matches!(said, Said::Find { cursor: 0, .. }))
    );
    let names = rig.answer(find).unwrap();
    assert_eq!(
        names.len(),
        250,
        "a cursor means something to one engine only"
    );
}
