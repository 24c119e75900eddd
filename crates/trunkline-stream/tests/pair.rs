//! A writer and a reader, each with its own thread, over TCP.

#![allow(
    clippy::unwrap_used,
    reason = "a pair that does not come to be fails its test"
)]

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use trunkline_stream::{Options, Reader, StreamError, Until, ValueReader, ValueWriter, Writer};
use trunkline_types::text::parse_type;
use trunkline_types::{Array, Elements, Value};

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

/// Behaviour: NS-03, NS-35.
#[test]
fn elements_of_a_type_known_at_run_time_come_as_values() {
    let data_type = parse_type("struct(channel: u16, samples: array(i32, *))").unwrap();
    let [of_writer, of_reader] = [data_type.clone(), data_type.clone()];
    let port = free_port();
    let url = format!("tl://localhost:{port}/values");
    let peer = url.clone();
    let reader = thread::spawn(move || ValueReader::create(&url, &of_reader, options(10)).unwrap());
    let own = format!("tl://localhost:{}/from values", free_port());
    let to = Options {
        peer: Some(peer),
        ..options(10)
    };
    let mut writer = ValueWriter::create(&own, &of_writer, to).unwrap();
    let mut reader = reader.join().unwrap();
    let value = |i: u16| {
        let samples = Elements::I32(vec![i32::from(i); usize::from(i % 3)]);
        let samples = Value::Array(Array::vector(samples).into());
        Value::Struct([Value::U16(i), samples].into())
    };
    let thread = thread::spawn(move || {
        for i in (0..1000).step_by(5) {
            let run: Vec<Value> = (i..i + 5).map(value).collect();
            writer.write_many(&run, CUT_OFF).unwrap();
        }
        let wrong = writer.write(&Value::Bool(true), CUT_OFF).unwrap_err();
        assert!(matches!(wrong, StreamError::Type { .. }), "{wrong}");
        writer.close(CUT_OFF)
    });
    for i in (0..500).step_by(10) {
        let run: Vec<Value> = (i..i + 10).map(value).collect();
        assert_eq!(reader.read_many(10, CUT_OFF).unwrap(), run);
    }
    let mut next = 500;
    while next < 1000 {
        for found in reader.read_up_to(7, CUT_OFF).unwrap() {
            assert_eq!(found, value(next));
            next += 1;
        }
    }
    assert_eq!(thread.join().unwrap().elements, 0);
    let error = reader.acquire_bytes(1, CUT_OFF).unwrap_err();
    assert!(matches!(error, StreamError::Varying { .. }), "{error}");
}

#[test]
fn arrays_of_different_lengths_are_read_one_by_one() {
    let data_type = parse_type("array(f64, *)").unwrap();
    let of_reader = data_type.clone();
    let url = format!("tl://localhost:{}/arrays", free_port());
    let to = Options {
        peer: Some(url.clone()),
        ..options(10)
    };
    let reader = thread::spawn(move || ValueReader::create(&url, &of_reader, options(10)).unwrap());
    let own = format!("tl://localhost:{}/from arrays", free_port());
    let mut writer = ValueWriter::create(&own, &data_type, to).unwrap();
    let mut reader = reader.join().unwrap();
    let array = |len: usize| Value::Array(Array::vector(Elements::F64(vec![0.5; len])).into());
    writer
        .write_many(&[array(2), array(2), array(3)], CUT_OFF)
        .unwrap();
    let error = reader.read_many(3, CUT_OFF).unwrap_err();
    assert!(
        matches!(error, StreamError::Lengths { first: 2, other: 3 }),
        "{error}"
    );
    assert_eq!(reader.read_many(2, CUT_OFF).unwrap(), [array(2), array(2)]);
    assert_eq!(reader.read(CUT_OFF).unwrap(), array(3));
}

/// Bytes are written and read where they lie; what is no element of the type is refused.
#[test]
fn elements_of_one_size_go_as_bytes() {
    let data_type = parse_type("struct(on: bool, volts: f64)").unwrap();
    let of_reader = data_type.clone();
    let url = format!("tl://localhost:{}/bytes", free_port());
    let to = Options {
        peer: Some(url.clone()),
        ..options(100)
    };
    let reader = thread::spawn(move || ValueReader::create(&url, &of_reader, options(50)).unwrap());
    let own = format!("tl://localhost:{}/from bytes", free_port());
    let mut writer = ValueWriter::create(&own, &data_type, to).unwrap();
    let mut reader = reader.join().unwrap();
    let element = |i: u32| {
        let mut bytes = vec![u8::from(i.is_multiple_of(2))];
        bytes.extend_from_slice(&f64::from(i).to_le_bytes());
        bytes
    };
    let fill = move |from: u32, space: &mut [u8]| -> Result<usize, StreamError> {
        let bytes: Vec<u8> = (from..from + 30).flat_map(element).collect();
        let len = bytes.len().min(space.len());
        space[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    };
    let wrong = writer.write_bytes_with(1, CUT_OFF, |space| {
        space.fill(2);
        Ok::<_, StreamError>(space.len())
    });
    assert!(matches!(wrong, Err(StreamError::Type { .. })), "{wrong:?}");
    let thread = thread::spawn(move || {
        let mut written = 0;
        while written < 1000 {
            let most = 30.min(1000 - written as usize);
            let count = writer.write_bytes_with(most, CUT_OFF, |space| fill(written, space));
            written += u32::try_from(count.unwrap()).unwrap();
        }
        writer.close(CUT_OFF)
    });
    let mut next = 0;
    while next < 1000 {
        let region = reader.acquire_bytes(7, CUT_OFF).unwrap();
        assert!((1..=7).contains(&region.elements()));
        for one in region.chunks(9) {
            assert_eq!(one, element(next));
            next += 1;
        }
    }
    assert_eq!(thread.join().unwrap().elements, 0);
}

/// A writer that is closed before its reader has noticed that it was there.
///
/// Behaviour: NS-12, NS-47.
#[test]
fn a_writer_with_little_to_say_is_met() {
    for _ in 0..50 {
        let url = format!("tl://localhost:{}/little", free_port());
        let to = Options {
            peer: Some(url.clone()),
            ..options(10)
        };
        let reader = thread::spawn(move || Reader::<u8>::create(&url, options(10)).unwrap());
        let mut writer = Writer::<u8>::create("from little", to).unwrap();
        writer.write(&7, CUT_OFF).unwrap();
        assert_eq!(writer.close(CUT_OFF).elements, 0);
        let mut reader = reader.join().unwrap();
        assert_eq!(reader.read(CUT_OFF).unwrap(), 7);
    }
}
