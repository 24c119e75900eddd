//! Tests disks that are full, read-only or faulty, and journals of another endpoint.

use std::io::ErrorKind;
use std::sync::Arc;

use trunkline_stream::journal::sim_disk::{Crash, Failure, SimDisk, Tail, Tear};
use trunkline_stream::journal::{
    Bounds, Durability, JournalError, Owner, Pair, ReaderJournal, Secret, WriterJournal,
};

use crate::model::bytes;
use crate::world::{BOUNDS, ELEMENT, World, owner, steps};

fn writer(disk: &SimDisk) -> Result<WriterJournal, JournalError> {
    let disk = Arc::new(disk.clone());
    WriterJournal::open(disk, &owner(true), BOUNDS, Durability::Process).map(|(journal, _)| journal)
}

fn append(journal: &mut WriterJournal, elements: u64) -> Result<(), JournalError> {
    let from = journal.written();
    journal.append(&bytes(from, from + elements * ELEMENT), elements)
}

fn failure(kind: ErrorKind) -> Failure {
    Failure {
        from: 0,
        until: u64::MAX,
        kind,
        only_changes: true,
    }
}

/// Behaviour: B-60.
///
/// Every call to either disk fails once. The stream continues, and every element is delivered once.
#[test]
fn failed_disk_call_loses_and_duplicates_nothing() {
    let kinds = [ErrorKind::StorageFull, ErrorKind::Other];
    for (seed, kind) in (300..306).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        let steps = steps(seed, 40);
        for side in [0, 1] {
            let mut call = 0;
            loop {
                let mut world = World::new(Durability::Disk, None);
                world.may_fail = true;
                world.disks[side].fail(Failure {
                    from: call,
                    until: call + 1,
                    kind,
                    only_changes: false,
                });
                world.run(&steps);
                call += 1;
                if call > world.disks[side].calls() {
                    break;
                }
            }
            assert!(call > 30, "{call} calls");
        }
    }
}

/// Behaviour: B-60.
#[test]
fn full_disk_is_reported_and_the_stream_continues_with_new_room() {
    let disk = SimDisk::default();
    let mut sut = writer(&disk).unwrap();
    append(&mut sut, 3).unwrap();
    disk.set_capacity(disk.used() + 10);
    for _ in 0..3 {
        let error = append(&mut sut, 2).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("/simulated") && message.contains("free some space"),
            "{message}"
        );
        assert!(error.is_temporary());
        assert_eq!(sut.written(), 3 * ELEMENT, "nothing was written");
    }
    disk.clear_faults();
    append(&mut sut, 2).unwrap();
    drop(sut);
    let mut sut = writer(&disk.after(Crash::Killed)).unwrap();
    assert_eq!(sut.next_bytes().unwrap(), bytes(0, 5 * ELEMENT));
}

/// Behaviour: B-60.
#[test]
fn read_only_disk_is_reported_with_its_folder() {
    let disk = SimDisk::default();
    let mut sut = writer(&disk).unwrap();
    append(&mut sut, 3).unwrap();
    disk.fail(failure(ErrorKind::ReadOnlyFilesystem));
    let message = append(&mut sut, 1).unwrap_err().to_string();
    assert!(
        message.contains("/simulated") && message.contains("give this program write access"),
        "{message}"
    );
    let message = writer(&disk).unwrap_err().to_string();
    assert!(
        message.contains("/simulated") && message.contains("give this program write access"),
        "{message}"
    );
    disk.clear_faults();
    let mut sut = writer(&disk).unwrap();
    assert_eq!(sut.next_bytes().unwrap(), bytes(0, 3 * ELEMENT));
}

/// Behaviour: B-60.
///
/// After a failed sync, the content of the disk is unknown, so nothing more is written to the disk.
#[test]
fn failed_sync_ends_the_endpoint() {
    let disk = SimDisk::default();
    let open = |disk: &SimDisk| {
        let disk = Arc::new(disk.clone());
        WriterJournal::open(disk, &owner(true), BOUNDS, Durability::Disk)
            .unwrap()
            .0
    };
    let mut sut = open(&disk);
    append(&mut sut, 1).unwrap();
    let job = sut.sync_job().unwrap();
    disk.fail(failure(ErrorKind::Other));
    let error = sut.finish_sync(job.run()).unwrap_err();
    assert!(!error.is_temporary(), "{error}");
    disk.clear_faults();
    assert!(sut.is_safe(sut.mark()).is_err());
    assert!(append(&mut sut, 1).is_err());
    assert_eq!(
        sut.next_bytes().unwrap(),
        [0; 0],
        "what is not safe is not sent"
    );
    let gone = Tear {
        bytes: 0,
        tail: Tail::Truncated,
        names: u64::MAX,
    };
    let mut sut = open(&disk.after(Crash::PowerFailed(gone)));
    append(&mut sut, 2).unwrap();
    let job = sut.sync_job().unwrap();
    sut.finish_sync(job.run()).unwrap();
    assert_eq!(sut.next_bytes().unwrap(), bytes(0, 2 * ELEMENT));
}

/// Returns a disk with a journal in three files, which is completely on the disk. The last file has
/// five records. If `synced` is true, the last record states that the records before it are durable.
fn worn_disk(synced: bool) -> SimDisk {
    let disk = SimDisk::default();
    let mut sut = writer(&disk).unwrap();
    for count in [3, 9, 20] {
        append(&mut sut, count).unwrap();
    }
    for _ in 0..4 {
        append(&mut sut, 1).unwrap();
    }
    if synced {
        let job = sut.sync_job_now().unwrap();
        sut.finish_sync(job.run()).unwrap();
    }
    append(&mut sut, 1).unwrap();
    sut.set_peer(Pair {
        lineage: [9; 8],
        secret: Secret([8; 32]),
        offered: Some(Secret([7; 32])),
    })
    .unwrap();
    while !sut.next_bytes().unwrap().is_empty() {
        let count = sut.next_bytes().unwrap().len();
        sut.note_pushed(count);
    }
    sut.trim(2 * ELEMENT, 2).unwrap();
    disk
}

/// Power fails, but all data is on the disk.
const ALL: Crash = Crash::PowerFailed(Tear {
    bytes: u64::MAX,
    tail: Tail::Truncated,
    names: u64::MAX,
});

/// Behaviour: B-60.
///
/// Each bit of each file is flipped. The data read back is correct, and only the last record may be
/// missing without an error, because only that record can be torn. After a loss of power, the same
/// holds for data that was durable at that time.
#[test]
fn flipped_bit_never_loses_data_silently() {
    for (crash, synced, least) in [
        (Crash::Killed, false, 36),
        (Crash::Killed, true, 36),
        (ALL, true, 36),
        // Any part of the data that was never durable may be gone.
        (ALL, false, 32),
    ] {
        let disk = worn_disk(synced).after(crash);
        let names = [
            "cursor".to_owned(),
            format!("{:016x}.log", 1),
            format!("{:016x}.log", 2),
        ];
        let (mut refused, mut cut) = (0, 0);
        for name in names {
            let len = disk.bytes(&name).unwrap().len() as u64;
            for (offset, bit) in (0..len).flat_map(|index| (0..8).map(move |bit| (index, bit))) {
                disk.flip_bits(&name, offset, 1 << bit);
                match writer(&disk.after(Crash::Killed)) {
                    Err(JournalError::Damaged { .. } | JournalError::WrongOwner { .. }) => {
                        refused += 1
                    }
                    Err(error) => panic!("{error}"),
                    Ok(mut sut) => {
                        cut += 1;
                        let end = sut.written();
                        let context = format!("{crash:?} {synced} {name} {offset}: {end}");
                        assert!(end < 37 * ELEMENT, "not noticed: {context}");
                        assert!(end >= least * ELEMENT, "dropped without a word: {context}");
                        assert_eq!(sut.next_bytes().unwrap(), bytes(0, end));
                    }
                }
                disk.flip_bits(&name, offset, 1 << bit);
            }
        }
        assert!(refused > 2000 && cut > 100, "{refused} {cut}");
    }
}

/// Behaviour: B-60.
///
/// A sync fails after the reader has received everything. The cursor must not move past the durable
/// data. After a loss of power, the journal opens with its previous content.
#[test]
fn cursor_never_passes_unsynced_data_after_a_failed_sync() {
    let disk = SimDisk::default();
    let mut sut = writer(&disk).unwrap();
    while sut.has_room(9 * 8).unwrap() {
        append(&mut sut, 9).unwrap();
        while !sut.next_bytes().unwrap().is_empty() {
            let count = sut.next_bytes().unwrap().len();
            sut.note_pushed(count);
        }
    }
    let job = sut.sync_job_now().unwrap();
    disk.fail(failure(ErrorKind::Other));
    sut.finish_sync(job.run()).unwrap_err();
    disk.clear_faults();
    let written = sut.written();
    let trimmed = sut.trim(written, written / ELEMENT);
    assert!(trimmed.is_err(), "the cursor was written");
    let nothing = Tear {
        bytes: 0,
        tail: Tail::Truncated,
        names: u64::MAX,
    };
    let mut sut = writer(&disk.after(Crash::PowerFailed(nothing))).unwrap();
    assert!(sut.written() <= written);
    append(&mut sut, 1).unwrap();
}

#[test]
fn journal_of_another_endpoint_is_refused() {
    let disk = SimDisk::default();
    append(&mut writer(&disk).unwrap(), 1).unwrap();
    let open = |owner: &Owner| {
        let disk = Arc::new(disk.clone());
        WriterJournal::open(disk, owner, BOUNDS, Durability::Process).map(|_| ())
    };
    let other_url = Owner {
        url: "tl://localhost/y".to_owned(),
        ..owner(true)
    };
    let other_type = Owner {
        element_bytes: 4,
        ..owner(true)
    };
    for other in [&other_url, &other_type] {
        let message = open(other).unwrap_err().to_string();
        let owner = "belongs to the writer tl://localhost/x, of elements of 8 bytes";
        assert!(message.contains(owner), "{message}");
    }
    let disk = Arc::new(disk.clone());
    let reader = ReaderJournal::open(disk, &owner(false), BOUNDS, Durability::Process);
    assert!(matches!(reader, Err(JournalError::WrongOwner { .. })));
}

/// Behaviour: B-60.
#[test]
fn full_journal_has_room_after_the_reader_syncs() {
    let disk = SimDisk::default();
    let mut sut = writer(&disk).unwrap();
    let mut trimmed = 0;
    for round in 0..50 {
        while sut.has_room(16).unwrap() {
            append(&mut sut, 2).unwrap();
        }
        assert!(
            disk.used() <= BOUNDS.bytes_max + 200,
            "{} bytes",
            disk.used()
        );
        let held = sut.written() - trimmed;
        assert!(held > 900, "{held} bytes in round {round}");
        while !sut.next_bytes().unwrap().is_empty() {
            let count = sut.next_bytes().unwrap().len();
            sut.note_pushed(count);
        }
        // In some rounds, this releases everything, including the current file.
        trimmed = sut.written() - 8 * (round % 7);
        sut.trim(trimmed, trimmed / ELEMENT).unwrap();
        assert!(sut.has_room(1000).unwrap());
    }
}

/// Behaviour: B-60.
///
/// The stream has ended and the journal is emptied, with a crash at every call. Afterwards, the journal
/// either contains the whole old stream or is empty.
#[test]
fn an_ended_stream_leaves_an_empty_journal() {
    let mut call = 0;
    loop {
        let disk = SimDisk::default();
        let mut sut = writer(&disk).unwrap();
        for _ in 0..9 {
            append(&mut sut, 9).unwrap();
        }
        sut.end().unwrap();
        disk.stop_at(disk.calls() + call, 9);
        let done = sut.finish([7; 8]);
        for names in [0, 1, 0b1010, 0b111, u64::MAX] {
            for crash in [
                Crash::Killed,
                Crash::PowerFailed(Tear {
                    bytes: 9,
                    tail: Tail::Truncated,
                    names,
                }),
            ] {
                let disk = Arc::new(disk.after(crash));
                let opened = WriterJournal::open(disk, &owner(true), BOUNDS, Durability::Process);
                let (mut sut, start) = opened.unwrap();
                let is_old = (start.lineage, start.written, start.is_ended)
                    == (owner(true).lineage, 81 * ELEMENT, true);
                let is_empty = (start.lineage, start.written, start.is_ended) == ([7; 8], 0, false);
                assert!(is_old != is_empty, "{start:?} in call {call}");
                assert!(is_empty || done.is_err());
                append(&mut sut, 1).unwrap();
            }
        }
        call += 1;
        if done.is_ok() {
            break;
        }
    }
    assert!(call > 8, "{call} calls");
}

#[test]
fn elements_of_varying_length_are_counted_when_the_journal_is_reopened() {
    let owner = Owner {
        element_bytes: 0,
        ..owner(true)
    };
    let disk = SimDisk::default();
    let open = |bounds: Bounds| {
        let disk = Arc::new(disk.clone());
        WriterJournal::open(disk, &owner, bounds, Durability::Process).unwrap()
    };
    let mut element = 11_u32.to_le_bytes().to_vec();
    element.extend([b'x'; 11]);
    let (mut sut, _) = open(BOUNDS);
    for count in 1..20 {
        sut.append(&element.repeat(count), count as u64).unwrap();
    }
    assert_eq!(sut.written_elements(), 190);
    drop(sut);
    let (sut, start) = open(BOUNDS);
    assert_eq!((sut.written_elements(), start.written), (190, 190 * 15));
}
