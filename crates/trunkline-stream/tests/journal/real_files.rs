//! Tests journals in real files.

use std::path::Path;
use std::sync::Arc;

use trunkline_stream::journal::disk::{Disk, LOCK_FILE, RealDisk};
use trunkline_stream::journal::{Bounds, Durability, JournalError, WriterJournal};

use crate::model::bytes;
use crate::world::{ELEMENT, owner};

const BOUNDS: Bounds = Bounds {
    bytes_max: 1 << 20,
    segment_bytes: 10_000,
};

fn open(folder: &Path) -> Result<WriterJournal, JournalError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder).unwrap());
    WriterJournal::open(disk, &owner(true), BOUNDS, Durability::Disk).map(|(journal, _)| journal)
}

/// Behaviour: B-60.
#[test]
fn journal_is_read_back_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("of a stream");
    let mut kept = 0;
    for run in 0..10_u64 {
        let mut sut = open(&folder).unwrap();
        assert_eq!(sut.written(), run * 5000 * ELEMENT);
        for _ in 0..50 {
            let from = sut.written();
            sut.append(&bytes(from, from + 100 * ELEMENT), 100).unwrap();
        }
        // Segments that are no longer needed are removed four at a time.
        let job = sut.sync_job().unwrap();
        sut.finish_sync(job.run()).unwrap();
        let mut read_to = sut.position();
        assert!(
            read_to <= kept && read_to + 4 * 11_000 > kept,
            "{read_to} where {kept} were safe"
        );
        loop {
            let next = sut.next_bytes().unwrap();
            if next.is_empty() {
                break;
            }
            assert_eq!(next, bytes(read_to, read_to + next.len() as u64));
            let count = next.len();
            read_to += count as u64;
            sut.note_pushed(count);
        }
        assert_eq!(read_to, sut.written());
        kept = read_to - 3000 * ELEMENT;
        sut.trim(kept, kept / ELEMENT).unwrap();
    }
    let files = RealDisk::open(&folder).unwrap().list().unwrap();
    assert!(files.len() < 16, "{files:?}");
}

#[test]
fn folder_is_locked_by_one_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let first = RealDisk::open(folder.path()).unwrap();
    let error = RealDisk::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    drop(first);
    RealDisk::open(folder.path()).unwrap();
}

#[test]
fn a_lock_file_that_is_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, other) = (folder.path().join("journal"), folder.path().join("other"));
    std::fs::create_dir(&journal).unwrap();
    std::os::unix::fs::symlink(&other, journal.join(LOCK_FILE)).unwrap();
    let opened = RealDisk::open(&journal);
    assert!(opened.is_err(), "{opened:?}");
    assert!(!other.exists(), "the link was followed");
}
