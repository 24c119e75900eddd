//! The writes that flushes wait for.

use trunkline_client::request::Flush;
use trunkline_client::{RequestId, VariableRef};
use trunkline_proto::FrameKind;
use trunkline_types::Tick;

use super::rig::{Rig, Said, SaidWrite, write};

/// A variable of an engine that answers no write by itself.
fn rig(credit: u32) -> (Rig, VariableRef) {
    let mut rig = Rig::new();
    rig.engine.welcome.write_credit_count = credit;
    rig.engine.add("a/b", trunkline_types::Value::F64(0.0));
    rig.connect();
    let variable = rig.open_one("a/b");
    rig.said();
    rig.engine.hold(FrameKind::Write);
    (rig, variable)
}

fn put(rig: &mut Rig, variable: VariableRef, count: u32) {
    let writes = (0..count).map(|n| write(variable, f64::from(n)));
    rig.client.write_untracked(writes, Tick::MAX).unwrap();
}

/// The writes that the client sent since the last call.
fn said(rig: &mut Rig) -> Vec<SaidWrite> {
    rig.exchange();
    let writes = |said| match said {
        Said::Write(writes) => writes,
        _ => Vec::new(),
    };
    rig.said().into_iter().flat_map(writes).collect()
}

fn answer(rig: &mut Rig, writes: &[SaidWrite]) {
    rig.engine.answer_writes(writes);
    rig.exchange();
}

fn is_flushed(rig: &mut Rig, flush: RequestId<Flush>) -> bool {
    match rig.client.take(flush) {
        Some(answer) => {
            assert!(answer.is_ok());
            true
        }
        None => false,
    }
}

/// Behaviour: LX-08.
#[test]
fn flush_waits_only_for_the_writes_before_it() {
    let (mut rig, variable) = rig(1000);
    put(&mut rig, variable, 3);
    let flush = rig.client.flush().unwrap();
    put(&mut rig, variable, 3);
    let writes = said(&mut rig);
    assert_eq!(writes.len(), 6);
    answer(&mut rig, &writes[..2]);
    assert!(!is_flushed(&mut rig, flush), "one is not answered");
    answer(&mut rig, &writes[2..3]);
    assert!(is_flushed(&mut rig, flush));
    let counts = rig.client.write_counts();
    assert_eq!((counts.applied, counts.in_flight), (3, 3));
}

/// A thread that writes at full speed uses all credit.
///
/// Behaviour: LX-08.
#[test]
fn a_flush_ends_although_another_thread_never_stops_writing() {
    let (mut rig, variable) = rig(4);
    put(&mut rig, variable, 10);
    let flush = rig.client.flush().unwrap();
    let mut answered = 0;
    while !is_flushed(&mut rig, flush) {
        put(&mut rig, variable, 4);
        let writes = said(&mut rig);
        assert!(writes.len() <= 4);
        answer(&mut rig, &writes);
        answered += writes.len();
        assert!(
            answered < 20,
            "{answered} writes are answered, 10 are before it"
        );
    }
    assert!(answered >= 10);
    assert!(rig.client.write_counts().waiting > 0);
}

#[test]
fn flushes_of_several_threads_end_in_their_order() {
    let (mut rig, variable) = rig(1000);
    let flushes = [1, 2, 3].map(|count| {
        put(&mut rig, variable, count);
        rig.client.flush().unwrap()
    });
    let writes = said(&mut rig);
    answer(&mut rig, &writes[1..3]);
    let ended = flushes.map(|flush| is_flushed(&mut rig, flush));
    assert_eq!(ended, [false; 3], "the first write is before all of them");
    answer(&mut rig, &writes[..1]);
    let ended = flushes.map(|flush| is_flushed(&mut rig, flush));
    assert_eq!(ended, [true, true, false]);
    answer(&mut rig, &writes[3..]);
    assert!(is_flushed(&mut rig, flushes[2]));
}

#[test]
fn a_flush_without_writes_before_it_ends_at_once() {
    let (mut rig, _) = rig(1000);
    let flush = rig.client.flush().unwrap();
    rig.exchange();
    assert!(is_flushed(&mut rig, flush));
}

/// Sent writes end as unknown with the connection, and a flush no longer waits for them.
#[test]
fn a_flush_ends_when_the_writes_before_it_are_lost_with_the_connection() {
    let (mut rig, variable) = rig(1000);
    put(&mut rig, variable, 3);
    let flush = rig.client.flush().unwrap();
    assert_eq!(said(&mut rig).len(), 3);
    rig.cut();
    assert!(is_flushed(&mut rig, flush));
    assert_eq!(rig.client.write_counts().unknown, 3);
}

#[test]
fn abandoned_flush_leaves_no_state() {
    let (mut rig, variable) = rig(1000);
    put(&mut rig, variable, 1);
    let flush = rig.client.flush().unwrap();
    let writes = said(&mut rig);
    rig.client.forget(flush);
    answer(&mut rig, &writes);
    assert!(!is_flushed(&mut rig, flush));
}

/// The engine has done its part, and the writes before the flush are not answered.
#[test]
fn flush_abandoned_while_waiting_for_writes_leaves_no_state() {
    let (mut rig, variable) = rig(1000);
    put(&mut rig, variable, 1);
    let flush = rig.client.flush().unwrap();
    let writes = said(&mut rig);
    assert_eq!(rig.client.give_up(flush), None);
    assert_eq!(rig.client.pending(), 1, "only the write");
    answer(&mut rig, &writes);
    assert!(!rig.client.is_answered(flush));
    assert_eq!(rig.client.pending(), 0);
}
