//! Tests of elements as bytes, of a type that is known only at run time.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use trunkline_types::DataType;
use trunkline_types::text::parse_type;

use crate::{JournalOptions, Options, StreamError, ValueReader, ValueWriter};

const LONG: Option<Duration> = Some(Duration::from_secs(60));
const NOW: Option<Duration> = Some(Duration::ZERO);

fn pair_with(data_type: &DataType, options: [Options; 2]) -> (ValueWriter, ValueReader) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tl://{}/reader", listener.local_addr().unwrap());
    drop(listener);
    let [of_writer, of_reader] = options.map(|options| Options {
        capacity: 8,
        timeout: LONG,
        ..options
    });
    let reader = thread::spawn({
        let (url, data_type) = (url.clone(), data_type.clone());
        move || ValueReader::create(&url, &data_type, of_reader).unwrap()
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = format!("tl://{}/writer", listener.local_addr().unwrap());
    drop(listener);
    let of_writer = Options {
        peer: Some(url),
        ..of_writer
    };
    let writer = ValueWriter::create(&own, data_type, of_writer).unwrap();
    (writer, reader.join().unwrap())
}

fn pair(data_type: &str) -> (ValueWriter, ValueReader) {
    let data_type = parse_type(data_type).unwrap();
    pair_with(&data_type, [Options::default(), Options::default()])
}

#[test]
fn bytes_are_written_and_read_all_or_none() {
    let (mut writer, mut reader) = pair("u16");
    writer.write_bytes(&[1, 0, 2, 0, 3, 0], LONG).unwrap();
    let mut into = [0; 8];
    let early = reader.read_bytes_into(&mut into, NOW).unwrap_err();
    assert!(matches!(early, StreamError::Timeout { .. }), "{early}");
    assert_eq!(into, [0; 8]);
    assert_eq!(reader.ready(3, LONG).unwrap(), 3);
    assert_eq!(reader.read_bytes_into(&mut into[..5], LONG).unwrap(), 2);
    assert_eq!(into, [1, 0, 2, 0, 0, 0, 0, 0]);
    let region = reader.acquire_bytes_exactly(1, LONG).unwrap();
    assert_eq!((&*region, region.elements()), (&[3, 0][..], 1));
    drop(region);
    let many = writer.write_bytes(&[0; 18], NOW).unwrap_err();
    assert!(matches!(many, StreamError::TooMany { .. }), "{many}");
    writer.close(LONG);
    let ended = reader.read_bytes_into(&mut into, LONG).unwrap_err();
    assert!(matches!(ended, StreamError::Ended), "{ended}");
    reader.end().unwrap();
    assert!(matches!(
        reader.ready(1, NOW),
        Err(StreamError::Closed | StreamError::Ended)
    ));
}

#[test]
fn bytes_that_are_no_elements_are_refused() {
    let (mut writer, mut reader) = pair("struct(on: bool, n: u8)");
    for bytes in [&[1][..], &[2, 0], &[1, 0, 2, 0]] {
        let refused = writer.write_bytes(bytes, LONG).unwrap_err();
        assert!(matches!(refused, StreamError::Type { .. }), "{refused}");
    }
    writer.write_bytes(&[1, 7], LONG).unwrap();
    let mut into = [0; 2];
    assert_eq!(reader.read_bytes_into(&mut into, LONG).unwrap(), 1);
    assert_eq!(into, [1, 7]);

    let (mut writer, mut reader) = pair("string");
    let varies = writer.write_bytes(&[], LONG).unwrap_err();
    assert!(
        matches!(varies, StreamError::VariableSize { .. }),
        "{varies}"
    );
    assert!(writer.reserve(1, LONG).is_err());
    assert!(reader.read_bytes_into(&mut [], LONG).is_err());
    assert!(reader.acquire_bytes_exactly(1, LONG).is_err());
}

#[test]
fn reserved_elements_are_written_by_commit_only() {
    let folder = tempfile::tempdir().unwrap();
    let journaled = |name| Options {
        journal: Some(JournalOptions::at(folder.path().join(name))),
        ..Options::default()
    };
    let plain = [Options::default(), Options::default()];
    for options in [plain, [journaled("writer"), journaled("reader")]] {
        let (mut writer, mut reader) = pair_with(&DataType::U8, options);
        writer.reserve(3, LONG).unwrap().copy_from_slice(&[9, 9, 9]);
        let more = writer.commit(4, NOW).unwrap_err();
        assert!(matches!(more, StreamError::TooMany { .. }), "{more}");
        // Another write ends the reservation.
        writer.write_bytes(&[1], LONG).unwrap();
        assert!(writer.commit(1, NOW).is_err());
        writer.reserve(3, LONG).unwrap().copy_from_slice(&[2, 3, 4]);
        writer.commit(2, LONG).unwrap();
        assert!(writer.commit(1, NOW).is_err());
        let mut into = [0; 3];
        assert_eq!(reader.read_bytes_into(&mut into, LONG).unwrap(), 3);
        assert_eq!(into, [1, 2, 3]);
        assert!(matches!(
            writer.reserve(9, NOW),
            Err(StreamError::TooMany { .. })
        ));
        let closing = thread::spawn(move || writer.close(LONG));
        let ended = reader.read_bytes_into(&mut into, LONG).unwrap_err();
        assert!(matches!(ended, StreamError::Ended), "{ended}");
        closing.join().unwrap();
    }
}
