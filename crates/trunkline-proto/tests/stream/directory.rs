//! The names of a machine's endpoints, and the tickets to them.

use std::time::Duration;

use trunkline_proto::FaultCode;
use trunkline_proto::stream::{Answer, Directory, DirectoryLimits, Holder, Incarnation};
use trunkline_types::{StreamUrl, Tick};

const NOW: Tick = Tick::from_nanos(1);
const A: Incarnation = Incarnation([1; 16]);
const B: Incarnation = Incarnation([2; 16]);

fn url(text: &str) -> StreamUrl {
    StreamUrl::parse(text).unwrap()
}

fn after(ms: u64) -> Tick {
    NOW.saturating_add(Duration::from_millis(ms))
}

fn register(sut: &mut Directory, owner: u64, name: &str) -> Result<(), FaultCode> {
    let registered = sut.register(NOW, owner, &url(name), A, || unreachable!("nobody waits"));
    registered
        .map(|waiting| assert!(waiting.is_empty()))
        .map_err(|fault| fault.code)
}

/// Behaviour: NS-09.
#[test]
fn a_name_is_taken_once_and_so_are_those_it_begins_with() {
    let mut sut = Directory::default();
    assert_eq!(register(&mut sut, 1, "daq/wave"), Ok(()));
    assert_eq!(
        register(&mut sut, 2, "DAQ/Wave"),
        Err(FaultCode::EndpointTaken)
    );
    for nested in ["daq", "daq/wave/x", "daq/wave/x/y"] {
        assert_eq!(
            register(&mut sut, 2, nested),
            Err(FaultCode::EndpointNested),
            "{nested}"
        );
    }
    for (owner, free) in [
        "daq/wave 2",
        "daq/wav",
        "daqs",
        "tl://:bench/daq",
        "a/b",
        "z",
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(
            register(&mut sut, 10 + owner as u64, free),
            Ok(()),
            "{free}"
        );
    }
    assert_eq!(
        register(&mut sut, 1, "another"),
        Err(FaultCode::LimitReached)
    );
    sut.forget(1);
    assert_eq!(register(&mut sut, 2, "daq/wave/x"), Ok(()));
    assert_eq!(sut.names().count(), 7);
}

#[test]
fn a_name_whose_owner_is_silent_is_free_after_the_lease() {
    let mut sut = Directory::default();
    assert_eq!(register(&mut sut, 1, "wave"), Ok(()));
    assert!(sut.renew(after(2900), 1));
    let taken = sut.register(after(5800), 2, &url("wave"), B, || [0; 16]);
    assert_eq!(taken.unwrap_err().code, FaultCode::EndpointTaken);
    assert_eq!(
        sut.register(after(5900), 2, &url("wave"), B, || [0; 16]),
        Ok(vec![])
    );
    assert!(!sut.renew(after(5900), 1), "it is told");
    sut.forget(1);
    assert!(
        sut.renew(after(6000), 2),
        "and does not take the other's with it"
    );
    assert!(sut.poll_timeout().is_some_and(|at| at <= after(9000)));
}

#[test]
fn lookup_is_answered_when_the_endpoint_appears() {
    let mut sut = Directory::default();
    for asker in [5, 6, 7] {
        let answer = sut.lookup(NOW, asker, &url("wave"), B, || unreachable!());
        assert_eq!(answer, Ok(Answer::Waits));
    }
    sut.forget(6);
    let mut next = 0;
    let mut random = || {
        next += 1;
        [next; 16]
    };
    let answers = sut.register(NOW, 1, &url("wave"), A, &mut random).unwrap();
    let askers: Vec<u64> = answers.iter().map(|(asker, _)| *asker).collect();
    assert_eq!(askers, [5, 7]);
    for (_, grant) in answers {
        assert_eq!(sut.redeem(NOW, &grant.ticket, B), Ok(1));
    }
}

fn ticket(sut: &mut Directory, number: u8) -> [u8; 16] {
    match sut.lookup(NOW, 5, &url("wave"), B, || [number; 16]) {
        Ok(Answer::Found(grant)) => grant.ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ticket_is_valid_once_for_its_requester_for_ten_seconds() {
    let mut sut = Directory::default();
    assert_eq!(register(&mut sut, 1, "wave"), Ok(()));
    let code = |result: Result<u64, trunkline_proto::Fault>| result.map_err(|fault| fault.code);
    let bad = Err(FaultCode::BadTicket);
    let first = ticket(&mut sut, 1);
    assert_eq!(code(sut.redeem(NOW, &first, B)), Ok(1));
    assert_eq!(code(sut.redeem(NOW, &first, B)), bad, "replayed");
    let stolen = ticket(&mut sut, 2);
    assert_eq!(code(sut.redeem(NOW, &stolen, A)), bad, "stolen");
    let given = ticket(&mut sut, 5);
    let by_another = Holder {
        incarnation: B,
        identity: Some("account:other".into()),
    };
    assert_eq!(code(sut.redeem(NOW, &given, by_another)), bad, "given away");
    assert_eq!(code(sut.redeem(NOW, &stolen, B)), bad, "and of no more use");
    assert_eq!(code(sut.redeem(NOW, &[9; 16], B)), bad, "guessed");
    let old = ticket(&mut sut, 3);
    for ms in (2000..10_000).step_by(2000) {
        assert!(sut.renew(after(ms), 1));
    }
    assert_eq!(code(sut.redeem(after(10_000), &old, B)), bad, "too old");
    let other = ticket(&mut sut, 4);
    sut.forget(1);
    assert_eq!(register(&mut sut, 2, "wave"), Ok(()));
    assert_eq!(code(sut.redeem(NOW, &other, B)), bad, "of another life");
}

#[test]
fn everything_is_bounded() {
    let limits = DirectoryLimits {
        names_max: 1,
        waiting_max: 1,
        tickets_max: 1,
        ..DirectoryLimits::default()
    };
    let mut sut = Directory::new(limits);
    assert_eq!(
        sut.lookup(NOW, 5, &url("x"), B, || [0; 16]),
        Ok(Answer::Waits)
    );
    let full = sut.lookup(NOW, 6, &url("x"), B, || [0; 16]);
    assert_eq!(full.unwrap_err().code, FaultCode::LimitReached);
    assert_eq!(register(&mut sut, 1, "wave"), Ok(()));
    assert_eq!(
        register(&mut sut, 2, "wave 2"),
        Err(FaultCode::LimitReached)
    );
    ticket(&mut sut, 1);
    let full = sut.lookup(NOW, 6, &url("wave"), B, || [2; 16]);
    assert_eq!(full.unwrap_err().code, FaultCode::LimitReached);
}
