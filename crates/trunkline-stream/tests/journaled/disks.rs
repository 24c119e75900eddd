//! Disks that fail under a journal.

use std::fs;
use std::path::PathBuf;
use std::thread;

use trunkline_stream::{Closed, Commit, Durability, StreamError, Until, Writer};

use crate::pair::{CUT_OFF, Pair};

/// Size limits of a journal, and of each of its segments, in bytes.
const BOUND: u64 = 1 << 20;
const SEGMENT: u64 = BOUND / 8;

/// Upper bound for the size of a record of one element and that of its commit, in bytes.
const RECORDS: u64 = 100;

/// A file in the journal of this side.
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
        writer.write(&written, CUT_OFF).unwrap();
        writer.flush(Until::Available, CUT_OFF).unwrap();
        written += 1;
    };
    write();
    // No other segment can be created, so the disk fails when this one is full.
    fs::create_dir(file(&pair, 1, "0000000000000002.log")).unwrap();
    while length() < SEGMENT - 4 * RECORDS {
        assert_eq!(reader.read(CUT_OFF).unwrap(), next);
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
    writer.write(&written, CUT_OFF).unwrap();
    let error = reader.read_many(stored + 1, CUT_OFF).unwrap_err();
    let is_told = matches!(&error, StreamError::Journal(error) if error.is_passing());
    assert!(is_told, "{error}");
    assert_eq!(reader.properties().total, next, "nothing was read");
    // Elements stored before are available to a smaller read.
    assert_eq!(reader.read_many(2, CUT_OFF).unwrap(), [next, next + 1]);
    let rest: Vec<u64> = (next + 2..written).collect();
    assert_eq!(reader.read_available().unwrap(), rest);
    fs::remove_dir(file(&pair, 1, "0000000000000002.log")).unwrap();
    loop {
        match reader.read(CUT_OFF) {
            Ok(element) => break assert_eq!(element, written),
            Err(StreamError::Journal(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Blocks the file to which the cursor is written first.
fn spoil(pair: &Pair, side: usize) {
    fs::create_dir(file(pair, side, "cursor.new")).unwrap();
}

fn mend(pair: &Pair, side: usize) {
    fs::remove_dir(file(pair, side, "cursor.new")).unwrap();
}

/// A program learns that its journal was not emptied, and so does a monitor of the end. The next
/// run finds the stream at its end, and empties the journal.
///
/// Behaviour: NS-40, B-60.
#[test]
fn close_reports_a_journal_that_was_not_emptied() {
    let pair = Pair::new(Durability::Process);
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write_many(&[0, 1], CUT_OFF).unwrap();
    assert_eq!(reader.read_many(2, CUT_OFF).unwrap(), [0, 1]);
    for side in [0, 1] {
        spoil(&pair, side);
    }
    let monitors = [writer.monitor(), reader.monitor()];
    let closing = thread::spawn(move || writer.close(CUT_OFF));
    let error = reader.read(CUT_OFF).unwrap_err();
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
        mend(&pair, side);
    }
    // Both ends continue at the end of the stream; after that, another stream begins.
    let (writer, mut reader) = pair.both::<u64>();
    assert_eq!(writer.properties().total, 2);
    assert_eq!(writer.close(CUT_OFF), Closed::default());
    let error = reader.read(CUT_OFF).unwrap_err();
    assert!(matches!(error, StreamError::Ended), "{error}");
    reader.close().unwrap();
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write(&7, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 7);
    assert_eq!(reader.properties().total, 1);
}

/// The same for an abort.
///
/// Behaviour: NS-40, B-60.
#[test]
fn abort_reports_a_journal_that_was_not_emptied() {
    let pair = Pair::new(Durability::Process);
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write(&0, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 0);
    writer.flush(Until::Available, CUT_OFF).unwrap();
    spoil(&pair, 0);
    let monitor = writer.monitor();
    assert_eq!(monitor.properties().journal, None);
    let aborted = writer.abort();
    assert!(aborted.journal_error.is_some(), "{aborted:?}");
    assert_eq!(monitor.properties().journal, aborted.journal_error);
}

/// The end of the stream cannot be stored: closing does not wait for an unreachable reader, and the
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
    writer.write(&0, CUT_OFF).unwrap();
    let segment = last();
    let next = format!(
        "{:016x}.log",
        u64::from_str_radix(&segment[..16], 16).unwrap() + 1
    );
    fs::create_dir(file(&pair, 0, &next)).unwrap();
    let mut count = 1;
    while fs::metadata(file(&pair, 0, &segment)).unwrap().len() < SEGMENT {
        writer.write(&count, CUT_OFF).unwrap();
        count += 1;
    }
    let closed = writer.close(None);
    assert_eq!(closed.elements, count);
    assert!(closed.journal_error.unwrap().is_passing());
    fs::remove_dir(file(&pair, 0, &next)).unwrap();
    let mut writer = Writer::<u64>::create(&pair.url(0), of_writer()).unwrap();
    assert_eq!(writer.properties().total, count);
    writer.write(&count, CUT_OFF).unwrap();
}
