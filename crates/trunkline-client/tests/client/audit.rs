//! The audit: the client collects pages from any number of frames, also across a reconnection, and
//! checks an engine that violates the protocol.

use trunkline_client::RequestId;
use trunkline_client::request::Audit;
use trunkline_proto::message::audit::{AuditPageBuilder, AuditPageHead};
use trunkline_proto::{Features, FrameKind};
use trunkline_types::audit::{AuditHash, AuditLink};
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, AuditPage, AuditQuery, Tick, Timestamp,
};

use super::hostile::sentence;
use super::rig::{Rig, Said};

fn entry(number: u64) -> AuditEntry {
    AuditEntry {
        number,
        when: Timestamp::from_nanos(7),
        monotonic: Tick::from_nanos(8),
        who: "loopback".to_owned(),
        from: "127.0.0.1:50000".to_owned(),
        action: AuditAction::Put,
        name: "a/b".to_owned(),
        data_type: "f64".to_owned(),
        old: "1.0".to_owned(),
        new: "2.0".to_owned(),
        outcome: AuditOutcome::Refused("it may not".to_owned()),
        link: Some(AuditLink {
            previous: AuditHash([1; 32]),
            hash: AuditHash([2; 32]),
        }),
    }
}

fn ask(query: AuditQuery) -> (Rig, RequestId<Audit>) {
    let mut rig = Rig::new();
    rig.engine.welcome.features = Features::AUDIT;
    rig.connect();
    rig.said();
    let request = rig.client.audit(query).unwrap();
    rig.exchange();
    (rig, request)
}

/// Number, first entry and limit of the last query.
fn asked(rig: &mut Rig) -> (u32, Option<u64>, u32) {
    match rig.said().pop() {
        Some(Said::Audit {
            request,
            from,
            limit,
        }) => (request, from, limit),
        other => panic!("{other:?}"),
    }
}

fn tell(rig: &mut Rig, request: u32, numbers: &[u64], next: Option<u64>, more: bool) {
    let head = AuditPageHead {
        next,
        removed: 4,
        state: "in a test",
    };
    rig.tell(|out| {
        let mut page = AuditPageBuilder::begin(out, request, &head);
        numbers.iter().for_each(|number| page.push(&entry(*number)));
        page.finish(more);
    });
}

fn page(rig: &mut Rig, request: RequestId<Audit>) -> AuditPage {
    rig.answer(request).unwrap()
}

fn limited(limit: u32, newest_first: bool) -> AuditQuery {
    AuditQuery {
        limit,
        newest_first,
        ..AuditQuery::default()
    }
}

#[test]
fn pages_and_their_frames_are_joined() {
    let (mut rig, request) = ask(limited(5, false));
    let (number, from, limit) = asked(&mut rig);
    assert_eq!((from, limit), (None, 5));
    tell(&mut rig, number, &[5, 6], Some(9), true);
    tell(&mut rig, number, &[7], Some(9), false);
    let (number, from, limit) = asked(&mut rig);
    assert_eq!((from, limit), (Some(9), 2));
    // A page may be empty, and the search continues.
    tell(&mut rig, number, &[], Some(5_009), false);
    let (number, from, limit) = asked(&mut rig);
    assert_eq!((from, limit), (Some(5_009), 2));
    tell(&mut rig, number, &[6_000, 6_001], Some(6_002), false);
    let page = page(&mut rig, request);
    let numbers: Vec<_> = page.entries.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [5, 6, 7, 6_000, 6_001]);
    assert_eq!(page.entries[0], entry(5));
    assert_eq!((page.next, page.removed), (Some(6_002), 4));
    assert_eq!(page.state, "in a test");
}

#[test]
fn audit_query_restarts_after_a_reconnection() {
    let (mut rig, request) = ask(limited(3, true));
    let (number, ..) = asked(&mut rig);
    tell(&mut rig, number, &[90], Some(89), false);
    assert_eq!(asked(&mut rig).1, Some(89));
    rig.reconnect();
    rig.exchange();
    let (number, from, limit) = asked(&mut rig);
    assert_eq!((from, limit), (None, 3));
    tell(&mut rig, number, &[3, 2, 1], None, false);
    assert_eq!(page(&mut rig, request).entries.len(), 3);
}

#[test]
fn unordered_or_too_long_audit_page_ends_the_connection() {
    for (newest_first, next) in [(false, 9), (false, 8), (true, 9), (true, 10)] {
        let (mut rig, _) = ask(AuditQuery {
            from: Some(9),
            ..limited(5, newest_first)
        });
        let (number, ..) = asked(&mut rig);
        tell(&mut rig, number, &[9], Some(next), false);
        assert!(sentence(&rig).contains("which the client already has"));
    }
    let (mut rig, _) = ask(limited(2, false));
    let (number, ..) = asked(&mut rig);
    tell(&mut rig, number, &[1, 2, 3], None, false);
    assert!(sentence(&rig).contains("more entries than requested"));

    // An answer of this kind to another request.
    let mut rig = Rig::connected(&[]);
    rig.engine.hold(FrameKind::Find);
    rig.client.find("**", None).unwrap();
    rig.exchange();
    let Some(Said::Find { request, .. }) = rig.said().pop() else {
        panic!("it is asked");
    };
    tell(&mut rig, request, &[1], None, false);
    assert!(sentence(&rig).contains("AUDIT_PAGE"));
}

#[test]
fn engine_without_the_feature_is_not_asked() {
    let mut rig = Rig::connected(&[]);
    rig.engine.welcome.features = Features::ADMINISTRATION;
    rig.reconnect();
    rig.said();
    let request = rig.client.audit(AuditQuery::default()).unwrap();
    let fault = rig.answer(request).unwrap_err();
    assert!(
        fault.sentence.contains("does not support the audit"),
        "{fault}"
    );
}
