//! A writer and a reader, each with its own thread, over TCP.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use trunkline_stream::{Options, Reader, StreamError, Until, Writer};

const CUT_OFF: Option<Duration> = Some(Duration::from_secs(60));

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn options(capacity: usize) -> Options {
    Options {
        capacity,
        timeout: CUT_OFF,
        ..Options::default()
    }
}

/// A connected pair: the reader listens, the writer dials.
fn pair<T: trunkline_stream::Element>(
    name: &str,
    capacities: [usize; 2],
) -> (Writer<T>, Reader<T>) {
    let port = free_port();
    let url = format!("tl://localhost:{port}/{name}");
    let peer = url.clone();
    let [of_writer, of_reader] = capacities;
    let reader = thread::spawn(move || Reader::<T>::create(&url, options(of_reader)).unwrap());
    let to = Options {
        peer: Some(peer),
        ..options(of_writer)
    };
    let own = format!("tl://localhost:{}/from {name}", free_port());
    let writer = Writer::<T>::create(&own, to).unwrap();
    (writer, reader.join().unwrap())
}

#[test]
fn elements_come_in_order_and_all_of_them() {
    let (mut writer, mut reader) = pair::<f64>("order", [1000, 1000]);
    let count = 100_000;
    let thread = thread::spawn(move || {
        for first in (0..count).step_by(100) {
            let run: Vec<f64> = (first..first + 100).map(f64::from).collect();
            writer.write_many(&run, CUT_OFF).unwrap();
        }
        writer.flush(Until::Read, CUT_OFF).unwrap();
        let left = writer.close(CUT_OFF);
        assert_eq!(left.elements, 0);
    });
    let mut next = 0;
    while next < count {
        let elements = reader.read_many(250, CUT_OFF).unwrap();
        assert_eq!(elements.len(), 250);
        for element in elements {
            assert_eq!(element, f64::from(next));
            next += 1;
        }
    }
    thread.join().unwrap();
    let error = reader.read(CUT_OFF).unwrap_err();
    assert!(matches!(error, StreamError::Ended), "{error}");
}

#[test]
fn text_of_any_length_comes_as_it_was_written() {
    let (mut writer, mut reader) = pair::<String>("text", [10, 10]);
    let text = |i: usize| "x".repeat(i % 50) + &i.to_string();
    let thread = thread::spawn(move || {
        for i in 0..1000 {
            writer.write(&text(i), CUT_OFF).unwrap();
        }
        writer.close(CUT_OFF)
    });
    for i in 0..1000 {
        assert_eq!(reader.read(CUT_OFF).unwrap(), text(i));
    }
    assert_eq!(thread.join().unwrap().elements, 0);
}
