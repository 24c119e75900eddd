//! R1: nothing is lost, duplicated or out of order in a stream whose connection is cut repeatedly.

use std::time::Duration;

use crate::alone;
use crate::figures::{is_full, record, seconds, size};
use crate::plan::{Plan, Way};
use crate::proxy::Proxy;
use crate::streams::{address, said, start, url};

/// Which end dials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dials {
    Writer,
    Reader,
}

/// The faults of one stream.
struct Size {
    elements: u64,
    faults: u64,
    /// The silent ones among those, which an end detects after 3 s.
    vanishing: u64,
    seed: u64,
}

/// Sends this number of elements between processes through this number of faults.
fn soak(dials: Dials, size: &Size) {
    let Size {
        elements,
        faults,
        vanishing,
        seed,
    } = *size;
    let passive = address();
    let proxy = Proxy::start(passive);
    let way = match dials {
        Dials::Writer => Way::ToEngine,
        Dials::Reader => Way::ToClient,
    };
    // The last ones so early that they are all done before the end.
    let plan = Plan::draw(way, faults, vanishing, elements * 8 / 100 * 98, seed);
    proxy.follow(plan);
    let (own, other) = (url(address(), "active"), url(passive, "passive"));
    let through = url(proxy.address, "passive");
    let count = elements.to_string();
    let (writer, reader) = match dials {
        Dials::Writer => {
            let reader = start(&["read", &other, ""]);
            (start(&["write", &own, &through, &count]), reader)
        }
        Dials::Reader => {
            let writer = start(&["write", &other, "", &count]);
            (writer, start(&["read", &own, &through]))
        }
    };
    let limit = crate::figures::size(crate::CUT_OFF, Duration::from_secs(3600));
    let (written, writer) = writer.end_within(limit);
    let (read, reader) = reader.end_within(limit);
    assert_eq!((written, read), (Some(0), Some(0)), "{writer:?} {reader:?}");
    let [lost, again, altered] = ["lost", "again", "altered"].map(|what| said(&reader, what));
    assert_eq!([lost, again, altered], [0; 3], "{dials:?}, seed {seed}");
    assert_eq!(said(&writer, "written"), elements);
    assert_eq!(said(&reader, "read"), elements);
    assert_eq!(said(&writer, "left"), 0);
    let (done, cuts, bytes, silent) =
        proxy.plan(|plan| (plan.done(), plan.cuts, plan.altered, plan.vanished));
    assert_eq!((done, silent), (faults, vanishing), "seed {seed}");
    let reconnections = [&writer, &reader].map(|end| said(end, "disconnections"));
    // Those in the middle of a greeting do not count: the two were not connected then.
    assert!(
        reconnections.iter().all(|count| *count > faults / 2),
        "{reconnections:?}"
    );
    let longest = Duration::from_micros(said(&reader, "longest_us"));
    let elapsed = Duration::from_micros(said(&reader, "elapsed_us"));
    eprintln!("{dials:?} dials: {faults} faults, {reconnections:?}, {longest:?}, {elapsed:?}");
    if is_full() && dials == Dials::Writer {
        let check = "R1, 10^10 elements over TCP between two processes";
        let rate = elements as f64 / elapsed.as_secs_f64().max(1e-6);
        let figures = [
            ("elements, each of them checked", elements.to_string(), ""),
            (
                "lost, duplicated or reordered, altered",
                format!("{lost}, {again}, {altered}"),
                "0, 0, 0",
            ),
            (
                "connections cut, bytes altered, connections gone silent",
                format!("{cuts}, {bytes}, {silent}"),
                "1000 in total",
            ),
            (
                "reconnections seen by the writer and by the reader",
                format!("{}, {}", reconnections[0], reconnections[1]),
                "",
            ),
            (
                "longest time without elements; an unanswered hello is retried after 5 s",
                seconds(longest),
                "",
            ),
            (
                "elements per second, including faults",
                format!("{:.0} million", rate / 1e6),
                "",
            ),
        ];
        for (figure, measured, wanted) in figures {
            record(check, figure, &measured, wanted);
        }
    }
}

/// Behaviour: NS-60, NS-61, NS-66, NS-67, NS-68.
#[test]
fn stream_with_a_dialling_writer_survives_all_faults() {
    let _alone = alone();
    soak(
        Dials::Writer,
        &size(
            Size {
                elements: 10_000_000,
                faults: 50,
                vanishing: 1,
                seed: 1,
            },
            Size {
                elements: 10_000_000_000,
                faults: 1000,
                vanishing: 20,
                seed: 2,
            },
        ),
    );
}

/// Like [`stream_with_a_dialling_writer_survives_all_faults`], over a connection that the reader
/// has opened: always in the short form.
///
/// Behaviour: NS-60, NS-61, NS-66, NS-67, NS-68.
#[test]
fn stream_with_a_dialling_reader_survives_all_faults() {
    let _alone = alone();
    soak(
        Dials::Reader,
        &Size {
            elements: 10_000_000,
            faults: 50,
            vanishing: 1,
            seed: 3,
        },
    );
}
