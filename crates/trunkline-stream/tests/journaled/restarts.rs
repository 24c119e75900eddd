//! Tests programs that restart without a journal while the peer has a journal.

use trunkline_stream::{Durability, Options, Reader, StreamError, Until, Writer};

use crate::pair::{Pair, TEST_TIMEOUT};

/// Both ends get an error, except a writer that is dialled, and the journal keeps its content.
///
/// Behaviour: NS-71, B-60.
#[test]
fn reader_without_a_journal_does_not_match_a_writers_journal() {
    for dials in [0, 1] {
        let mut pair = Pair::new(Durability::Process);
        (pair.has_journal, pair.dials) = ([true, false], dials);
        let (mut writer, mut reader) = pair.both::<u64>();
        writer.write_many(&[0, 1, 2, 3], TEST_TIMEOUT).unwrap();
        assert_eq!(reader.read_many(4, TEST_TIMEOUT).unwrap(), [0, 1, 2, 3]);
        drop(writer);
        drop(reader);
        // The writer knows its reader from the journal, so its creation does not wait for the
        // reader.
        let mut writer = pair.writer::<u64>();
        writer.write_many(&[4, 5, 6], TEST_TIMEOUT).unwrap();
        // A dialled end may get the error only after its creation.
        let of_reader = Reader::<u64>::create(&pair.url(1), pair.options(1))
            .and_then(|mut reader| reader.read(TEST_TIMEOUT))
            .unwrap_err();
        assert!(matches!(of_reader, StreamError::Fault(_)), "{of_reader}");
        // A writer that is dialled waits for its own reader: any program could have this name.
        let mut expected: Vec<u64> = (0..7).collect();
        if dials == 1 {
            writer.write(&7, TEST_TIMEOUT).unwrap();
            assert!(writer.properties().fault.is_none());
            expected.push(7);
        } else {
            let of_writer = writer.write(&7, TEST_TIMEOUT).unwrap_err();
            assert!(of_writer.to_string().contains("journal"), "{of_writer}");
            assert!(matches!(of_writer, StreamError::Fault(_)), "{of_writer}");
            let message = writer.properties().fault.map(|fault| fault.to_string());
            assert_eq!(message, Some(of_writer.to_string()));
        }
        drop(writer);
        // A reader that is accepted as a successor gets the written elements.
        let anybody = Options {
            accepts_successor: true,
            ..pair.options(0)
        };
        let (writer, mut reader) = pair.both_with::<u64>(anybody, pair.options(1));
        let count = expected.len();
        assert_eq!(writer.properties().total, count as u64);
        assert_eq!(reader.read_many(count, TEST_TIMEOUT).unwrap(), expected);
    }
}

/// Both ends get an error, except a reader that is dialled, and the reader's journal keeps its content.
///
/// Behaviour: NS-71, B-60.
#[test]
fn writer_without_a_journal_does_not_match_a_readers_journal() {
    for dials in [0, 1] {
        let mut pair = Pair::new(Durability::Process);
        (pair.has_journal, pair.dials) = ([false, true], dials);
        let (mut writer, mut reader) = pair.both::<u64>();
        writer.write_many(&[0, 1, 2], TEST_TIMEOUT).unwrap();
        assert_eq!(reader.read_many(2, TEST_TIMEOUT).unwrap(), [0, 1]);
        reader.commit().unwrap();
        drop(reader);
        let _left = writer.abort();
        let mut reader = pair.reader::<u64>();
        let of_writer = Writer::<u64>::create(&pair.url(0), pair.options(0))
            .and_then(|mut writer| {
                writer.write(&9, TEST_TIMEOUT)?;
                writer.flush(Until::Read, TEST_TIMEOUT)
            })
            .unwrap_err();
        assert!(matches!(of_writer, StreamError::Fault(_)), "{of_writer}");
        // Elements that have arrived can still be read.
        assert_eq!(reader.properties().total, 2);
        assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 2);
        if dials == 0 {
            // As above, for a reader that is dialled.
            assert!(reader.properties().fault.is_none());
            continue;
        }
        let of_reader = reader.read(TEST_TIMEOUT).unwrap_err();
        assert!(of_reader.to_string().contains("journal"), "{of_reader}");
        assert!(matches!(of_reader, StreamError::Fault(_)), "{of_reader}");
    }
}
