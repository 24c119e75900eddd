//! Tests readers that leave, either by closing or by staying disconnected.

use std::thread;
use std::time::Duration;

use trunkline_stream::{FanOutOptions, Options, Policy, StreamError, StreamFault};

use crate::proxy::Proxy;
use crate::rig::*;
use crate::several::{fan_out, spread, status_of};

/// Behaviour: B-62, B-61.
#[test]
fn absent_reader_stops_blocking_after_its_limit() {
    for (policy, capacity) in [(Policy::Slowest, 10), (Policy::Quota(5), 100)] {
        let address = address();
        let url = url(address, "out");
        let proxy = Proxy::to(address);
        let by_proxy = crate::rig::url(proxy.address(), "out");
        let of_writer = FanOutOptions {
            options: Options {
                gone_after: Some(Duration::from_millis(300)),
                ..options(capacity)
            },
            ..fan_out(capacity, 2, policy)
        };
        let readers = [
            (by_proxy.as_str(), options(5)),
            (url.as_str(), options(100)),
        ];
        let (mut writer, mut readers) = spread::<f64>(&url, of_writer, &readers);
        let (mut there, mut gone) = (readers.remove(1), readers.remove(0));
        writer.write_many(&elements(0..5), LONG).unwrap();
        until_filled(&gone, 5);
        until("its acknowledgement", || {
            status_of(&writer, &gone).waiting == 0
        });
        proxy.down();
        until_connected(&gone, false);
        // These elements are written while the reader leaves. With `Policy::Slowest`, the writes wait
        // until the reader has left.
        let writes = thread::spawn(move || {
            for next in 5..60 {
                // The writes have no timeout.
                writer.write(&element(next), None).unwrap();
            }
            writer
        });
        until("room", || writes.is_finished());
        let mut writer = writes.join().unwrap();
        until("only one", || writer.readers().len() == 1);
        let departed = writer.departed();
        assert_eq!(departed.len(), 1, "{departed:?}");
        let (gone_url, undelivered) = (gone.properties().url, &departed[0]);
        assert_eq!(undelivered.member.url, gone_url);
        let fault = undelivered.fault.as_ref();
        let is_gone = matches!(fault, Some(StreamFault::PeerGone { .. }));
        assert!(is_gone, "{undelivered:?}");
        // The reader has not received some elements that were written before the writer gave up on it.
        assert!(
            undelivered.left.elements > 0 || undelivered.lost > 0,
            "{undelivered:?}"
        );
        // The departure is reported once.
        assert!(writer.departed().is_empty());
        assert_eq!(check_run(&there.read_many(60, LONG).unwrap(), 0), 60);
        // When the reader reconnects, it first gets its elements and then an error.
        proxy.up();
        assert_eq!(check_run(&gone.read_many(5, LONG).unwrap(), 0), 5);
        match gone.read(LONG) {
            Err(StreamError::Fault(StreamFault::PeerDestroyed { sentence })) => {
                assert!(
                    sentence.contains("continued without this endpoint"),
                    "{sentence}"
                );
            }
            other => panic!("{other:?}"),
        }
        let undelivered = writer.close(LONG);
        assert_eq!(undelivered.len(), 1);
        assert_eq!(
            (undelivered[0].left.elements, &undelivered[0].fault),
            (0, &None)
        );
    }
}

/// Behaviour: B-62.
#[test]
fn a_reader_that_closes_leaves_at_once() {
    let url = unique_url("out");
    let readers = [(url.as_str(), options(5)), (url.as_str(), options(100))];
    let (mut writer, mut readers) = spread::<f64>(&url, fan_out(10, 2, Policy::Slowest), &readers);
    let (mut there, slow) = (readers.remove(1), readers.remove(0));
    writer.write_many(&elements(0..10), LONG).unwrap();
    until_filled(&slow, 5);
    writer.write_many(&elements(10..15), LONG).unwrap();
    let writes = thread::spawn(move || {
        // The writes have no timeout.
        writer.write_many(&elements(15..25), None).unwrap();
        writer
    });
    let url = slow.properties().url;
    slow.close().unwrap();
    until("room", || writes.is_finished());
    let mut writer = writes.join().unwrap();
    // Of the 15 or more elements written by then, 5 had reached the reader.
    let departed = writer.departed();
    assert_eq!(departed[0].member.url, url);
    assert!(departed[0].left.elements >= 10, "{departed:?}");
    let fault = departed[0].fault.as_ref();
    let is_destroyed = matches!(fault, Some(StreamFault::PeerDestroyed { .. }));
    assert!(is_destroyed && departed.len() == 1, "{departed:?}");
    assert_eq!(check_run(&there.read_many(25, LONG).unwrap(), 0), 25);
    assert_eq!(writer.close(LONG).len(), 1);
}

/// Behaviour: B-62.
#[test]
fn close_reports_what_each_reader_lacks() {
    let url = unique_url("out");
    let readers = [(url.as_str(), options(5)), (url.as_str(), options(100))];
    let (mut writer, mut readers) = spread::<f64>(&url, fan_out(10, 2, Policy::Slowest), &readers);
    writer.write_many(&elements(0..10), LONG).unwrap();
    until_filled(&readers[0], 5);
    until_filled(&readers[1], 10);
    let undelivered = writer.close(SHORT);
    let reports = undelivered
        .iter()
        .map(|l| (l.member.number, l.left.elements, l.left.in_doubt));
    let mut reports: Vec<_> = reports.collect();
    reports.sort_by_key(|(_, left, _)| *left);
    assert_eq!(
        (reports[0].1, reports[1].1, reports[1].2),
        (0, 5, 0),
        "{undelivered:?}"
    );
    // Each reader gets its elements, and the slow one learns how many bytes are missing.
    assert_eq!(check_run(&readers[1].read_many(20, LONG).unwrap(), 0), 10);
    assert!(matches!(readers[1].read(LONG), Err(StreamError::Ended)));
    assert_eq!(check_run(&readers[0].read_many(5, LONG).unwrap(), 0), 5);
    assert!(matches!(
        readers[0].read(LONG),
        Err(StreamError::Aborted { missing: 40, .. })
    ));
}

/// A re-created writer does not continue the stream of the previous one.
///
/// Behaviour: B-62, NS-66.
#[test]
fn recreated_writer_is_a_different_writer() {
    let address = address();
    let url = url(address, "out");
    let proxy = Proxy::to(address);
    let by_proxy = crate::rig::url(proxy.address(), "out");
    let of_writer = || fan_out(10, 0, Policy::Slowest);
    let readers = [(by_proxy.as_str(), options(5))];
    let (writer, mut readers) = spread::<f64>(&url, fan_out(10, 1, Policy::Slowest), &readers);
    proxy.down();
    until("the cut", || !writer.readers()[0].is_connected);
    writer.abort();
    let again = trunkline_stream::FanOutWriter::<f64>::create(&url, of_writer()).unwrap();
    proxy.up();
    match readers[0].read(LONG) {
        Err(StreamError::Fault(StreamFault::PeerRestarted)) => {}
        other => panic!("{other:?}"),
    }
    assert!(again.readers().is_empty());
}
