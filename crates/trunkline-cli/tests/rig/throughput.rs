//! NS-89: a stream carries about as much as the connection under it.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use trunkline_net::Clock;

use crate::figures::{is_full, record, size};
use crate::plan::{Plan, Way};
use crate::proxy::Proxy;
use crate::streams::{CALL, address, bits, said, start, url};
use crate::{alone, until};

/// Writes the elements from 0 on as bytes of a plain connection.
pub fn write(to: &str, count: u64) -> String {
    let mut stream = until("the other end", || TcpStream::connect(to).ok());
    stream.set_nodelay(true).unwrap();
    let mut bytes = vec![0; CALL * 8];
    let mut next = 0;
    while next < count {
        let some = (count - next).min(CALL as u64);
        let part = &mut bytes[..some as usize * 8];
        for (element, index) in part.chunks_exact_mut(8).zip(next..) {
            element.copy_from_slice(&bits(index).to_le_bytes());
        }
        stream.write_all(part).unwrap();
        next += some;
    }
    format!("written={next}")
}

/// Reads them until the connection ends.
pub fn read(own: &str) -> String {
    let listener = TcpListener::bind(own).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = vec![0; CALL * 8];
    let (clock, mut next, mut wrong) = (Clock::new(), 0, 0);
    let start = clock.now();
    loop {
        let mut len = 0;
        while len < bytes.len() {
            match stream.read(&mut bytes[len..]) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
        for (element, index) in bytes[..len].chunks_exact(8).zip(next..) {
            wrong |= u64::from_le_bytes(element.try_into().unwrap()) ^ bits(index);
        }
        next += (len / 8) as u64;
        if len < bytes.len() {
            break;
        }
    }
    assert_eq!(wrong, 0);
    let elapsed = clock.now().since(start);
    format!("read={next} elapsed_us={}", elapsed.as_micros())
}

/// Elements per second that a reading process has seen.
fn rate(lines: &[String], elements: u64) -> f64 {
    assert_eq!(said(lines, "read"), elements);
    let elapsed = Duration::from_micros(said(lines, "elapsed_us"));
    elements as f64 / elapsed.as_secs_f64().max(1e-6)
}

/// The bytes on a connection are the elements and hardly more.
///
/// Behaviour: NS-89.
#[test]
fn a_stream_sends_hardly_more_than_its_elements() {
    let _alone = alone();
    let elements = 5_000_000_u64;
    let passive = address();
    let proxy = Proxy::start(passive);
    proxy.follow(Plan::count(Way::ToEngine));
    let reader = start(&["read", &url(passive, "passive"), ""]);
    let (own, through) = (url(address(), "active"), url(proxy.address, "passive"));
    let writer = start(&["write", &own, &through, &elements.to_string()]);
    assert_eq!(writer.end().0, Some(0));
    assert_eq!(said(&reader.end().1, "read"), elements);
    let carried = proxy.plan(Plan::carried);
    let payload = elements * 8;
    // A hundredth more at most: heads and checksums of frames.
    assert!(
        (payload..payload / 100 * 101).contains(&carried),
        "{carried} {payload}"
    );
    eprintln!("{carried} bytes for {payload}");
    if is_full() {
        let more = format!(
            "{:.3} %",
            (carried - payload) as f64 / payload as f64 * 100.0
        );
        let check = "NS-89, a stream and the TCP under it";
        record(check, "protocol overhead in bytes", &more, "1 %");
    }
}

/// The same elements over a plain connection and over a stream, between processes. The speed is
/// meaningful only on an idle machine.
///
/// Behaviour: NS-89.
#[test]
fn a_stream_is_about_as_fast_as_the_connection_under_it() {
    let _alone = alone();
    let elements = size(1_000_000_u64, 1_000_000_000);
    let count = elements.to_string();
    let at = address().to_string();
    let reader = start(&["read plain", &at]);
    let writer = start(&["write plain", &at, &count]);
    assert_eq!(writer.end().0, Some(0));
    let plain = rate(&reader.end().1, elements);
    let streams = ["write unchecked", "write"].map(|role| {
        let passive = address();
        let other = url(passive, "passive");
        let reader = start(&["read", &other, ""]);
        let writer = start(&[role, &url(address(), "active"), &other, &count]);
        assert_eq!(writer.end().0, Some(0));
        rate(&reader.end().1, elements)
    });
    eprintln!("plain {plain:.0}, without and with checksums {streams:.0?} elements/s");
    if is_full() {
        let check = "NS-89, a stream and the TCP under it";
        let [unchecked, checked] = streams.map(|rate| rate / plain);
        let million = format!("{:.0} million", plain / 1e6);
        record(check, "elements per second over plain TCP", &million, "");
        let times = format!("{unchecked:.2}, {checked:.2}");
        let figure = "throughput relative to plain TCP, without and with checksums";
        record(check, figure, &times, "about 1");
    }
}
