//! Tests endpoints whose journal is on a disk that fails.

use std::fs;
use std::path::PathBuf;
use std::thread;

use trunkline_stream::{Closed, Commit, Durability, StreamError, Until, Writer};

use crate::pair::{Pair, TEST_TIMEOUT};

/// Size limits of a journal, and of each of its segments, in bytes.
const BOUND: u64 = 1 << 20;
const SEGMENT: u64 = BOUND / 8;

/// Upper bound for the total size of a record of one element and a record of its commit, in bytes.
const RECORDS: u64 = 100;

/// Returns the path of a file in the journal of this side.
fn file(pair: &Pair, side: usize, name: &str) -> PathBuf {
    pair.journal(side).join(name)
}

/// A read gets all the elements that it asks for, or none, even if some of them could be stored.
///
/// Behaviour: NS-30, NS-31, NS-36, B-60.
#[test]
fn read_on_a_full_disk_returns_no_partial_data() {
    let pair = Pair::new(Durability::Process);
    let of_reader = || {
        let mut options = pair.options(1);
        let journal = options.journal.as_mut().unwrap();
        journal.bytes_max = BOUND;
        journal.commit = Commit::ByProgram;
        options
    };
    let (mut writer, mut reader) = pair.both_with::<u64>(pair.options(0), of_reader());
    let length = || {
        fs::metadata(file(&pair, 1, "0000000000000001.log"))
            .unwrap()
            .len()
    };
    let (mut written, mut next) = (0, 0);
    let mut write = || {
        writer.write(&written, TEST_TIMEOUT).unwrap();
        writer.flush(Until::Available, TEST_TIMEOUT).unwrap();
        written += 1;
    };
    write();
    // No other segment can be created, so the disk fails when this one is full.
    fs::create_dir(file(&pair, 1, "0000000000000002.log")).unwrap();
    while length() < SEGMENT - 4 * RECORDS {
        assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), next);
        reader.commit().unwrap();
        next += 1;
        write();
    }
    while length() < SEGMENT {
        write();
    }
    let stored = reader.available();
    assert!(stored > 2, "{stored}");
    // This element cannot be stored.
    writer.write(&written, TEST_TIMEOUT).unwrap();
    let error = reader.read_many(stored + 1, TEST_TIMEOUT).unwrap_err();
    let is_told = matches!(&error, StreamError::Journal(error) if error.is_temporary());
    assert!(is_told, "{error}");
    assert_eq!(reader.properties().total, next, "nothing was read");
    // Elements stored before are available to a smaller read.
    assert_eq!(reader.read_many(2, TEST_TIMEOUT).unwrap(), [next, next + 1]);
    let rest: Vec<u64> = (next + 2..written).collect();
    assert_eq!(reader.read_available().unwrap(), rest);
    fs::remove_dir(file(&pair, 1, "0000000000000002.log")).unwrap();
    loop {
        match reader.read(TEST_TIMEOUT) {
            Ok(element) => break assert_eq!(element, written),
            Err(StreamError::Journal(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Makes it impossible to create the file to which a new cursor is written.
fn block_cursor_file(pair: &Pair, side: usize) {
    fs::create_dir(file(pair, side, "cursor.new")).unwrap();
}

fn unblock_cursor_file(pair: &Pair, side: usize) {
    fs::remove_dir(file(pair, side, "cursor.new")).unwrap();
}

/// The program and a monitor learn that the journal was not emptied. The next run finds the stream at
/// its end, and empties the journal.
///
/// Behaviour: NS-40, B-60.
#[test]
fn close_reports_a_journal_that_was_not_emptied() {
    let pair = Pair::new(Durability::Process);
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write_many(&[0, 1], TEST_TIMEOUT).unwrap();
    assert_eq!(reader.read_many(2, TEST_TIMEOUT).unwrap(), [0, 1]);
    for side in [0, 1] {
        block_cursor_file(&pair, side);
    }
    let monitors = [writer.monitor(), reader.monitor()];
    let closing = thread::spawn(move || writer.close(TEST_TIMEOUT));
    let error = reader.read(TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::Ended), "{error}");
    let of_reader = match reader.close().unwrap_err() {
        StreamError::Journal(error) => error,
        error => panic!("{error}"),
    };
    let closed = closing.join().unwrap();
    assert_eq!((closed.elements, closed.in_doubt), (0, 0));
    let errors = [closed.journal_error, Some(of_reader)];
    for side in [0, 1] {
        let message = errors[side].as_ref().unwrap().to_string();
        let folder = pair.journal(side);
        assert!(message.contains(folder.to_str().unwrap()), "{message}");
        assert_eq!(monitors[side].properties().journal, errors[side]);
        unblock_cursor_file(&pair, side);
    }
    // Both ends continue at the end of the stream; after that, another stream begins.
    let (writer, mut reader) = pair.both::<u64>();
    assert_eq!(writer.properties().total, 2);
    assert_eq!(writer.close(TEST_TIMEOUT), Closed::default());
    let error = reader.read(TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::Ended), "{error}");
    reader.close().unwrap();
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write(&7, TEST_TIMEOUT).unwrap();
    assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 7);
    assert_eq!(reader.properties().total, 1);
}

/// An abort reports the error as a close does.
///
/// Behaviour: NS-40, B-60.
#[test]
fn abort_reports_a_journal_that_was_not_emptied() {
    let pair = Pair::new(Durability::Process);
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write(&0, TEST_TIMEOUT).unwrap();
    assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 0);
    writer.flush(Until::Available, TEST_TIMEOUT).unwrap();
    block_cursor_file(&pair, 0);
    let monitor = writer.monitor();
    assert_eq!(monitor.properties().journal, None);
    let aborted = writer.abort();
    assert!(aborted.journal_error.is_some(), "{aborted:?}");
    assert_eq!(monitor.properties().journal, aborted.journal_error);
}

/// The end of the stream cannot be stored. Closing does not wait for an unreachable reader, and the
/// stream continues in the next run.
///
/// Behaviour: NS-40, B-60.
#[test]
fn close_that_cannot_be_stored_fails_and_the_stream_continues() {
    let pair = Pair::new(Durability::Process);
    let of_writer = || {
        let mut options = pair.options(0);
        options.journal.as_mut().unwrap().bytes_max = BOUND;
        options
    };
    drop(pair.both_with::<u64>(of_writer(), pair.options(1)));
    let mut writer = Writer::<u64>::create(&pair.url(0), of_writer()).unwrap();
    let last = || {
        let names = fs::read_dir(pair.journal(0)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".log")).max().unwrap()
    };
    writer.write(&0, TEST_TIMEOUT).unwrap();
    let segment = last();
    let next = format!(
        "{:016x}.log",
        u64::from_str_radix(&segment[..16], 16).unwrap() + 1
    );
    fs::create_dir(file(&pair, 0, &next)).unwrap();
    let mut count = 1;
    while fs::metadata(file(&pair, 0, &segment)).unwrap().len() < SEGMENT {
        writer.write(&count, TEST_TIMEOUT).unwrap();
        count += 1;
    }
    let closed = writer.close(None);
    assert_eq!(closed.elements, count);
    assert!(closed.journal_error.unwrap().is_temporary());
    fs::remove_dir(file(&pair, 0, &next)).unwrap();
    let mut writer = Writer::<u64>::create(&pair.url(0), of_writer()).unwrap();
    assert_eq!(writer.properties().total, count);
    writer.write(&count, TEST_TIMEOUT).unwrap();
}
