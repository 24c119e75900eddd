//! Disks that fail under a journal.

use std::fs;
use std::path::PathBuf;

use trunkline_stream::{Commit, Durability, StreamError, Until};

use crate::pair::{CUT_OFF, Pair};

/// Bytes of a journal, and of each of its segments.
const BOUND: u64 = 1 << 20;
const SEGMENT: u64 = BOUND / 8;

/// Bytes of a record of one element at most, with that of its commit.
const RECORDS: u64 = 100;

/// A file of the journal of that side.
fn file(pair: &Pair, side: usize, name: &str) -> PathBuf {
    pair.journal(side).join(name)
}

/// A read gets all that it asks for, or nothing, also where only a part of it could be stored.
///
/// Behaviour: NS-30, NS-31, NS-36, B-60.
#[test]
fn a_read_gets_no_part_of_what_a_full_disk_lets_it_have() {
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
    // No other segment can be begun: the disk fails when this one is full.
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
    // This one cannot be stored.
    writer.write(&written, CUT_OFF).unwrap();
    let error = reader.read_many(stored + 1, CUT_OFF).unwrap_err();
    let is_told = matches!(&error, StreamError::Journal(error) if error.is_passing());
    assert!(is_told, "{error}");
    assert_eq!(reader.properties().total, next, "nothing was read");
    // What was stored before is there for who asks for no more.
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
