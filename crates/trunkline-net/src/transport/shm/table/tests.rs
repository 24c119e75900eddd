//! Requesting and providing a table in one process, and invalid table files.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
use trunkline_ring::{TABLE_SLOT_BYTES, TableEntry, TableValue};
use trunkline_types::Tick;

use super::super::{Side, TableAnswer, local_transport};
use super::create_table;
use crate::transport::Transport;
use crate::transport::unix::{Credentials, own_uid};

/// Returns two ends that have switched to shared memory.
fn pair() -> (Transport, Transport) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let end = |stream, side| {
        let peer = Credentials {
            uid: own_uid(),
            pid: std::process::id(),
        };
        local_transport(stream, peer, side).unwrap()
    };
    let mut dialler = end(near, Side::Dialler { demanded: true });
    let mut acceptor = end(far, Side::Acceptor);
    talk(&mut dialler, &mut acceptor);
    talk(&mut dialler, &mut acceptor);
    (dialler, acceptor)
}

/// Sends a byte each way, and doorbells over the socket.
fn talk(dialler: &mut Transport, acceptor: &mut Transport) {
    let mut buffer = [0; 8];
    dialler.send.try_write(b"x").unwrap();
    acceptor.receive.acknowledge(false);
    assert_eq!(acceptor.receive.try_read(&mut buffer).unwrap(), Some(1));
    acceptor.send.try_write(b"y").unwrap();
    dialler.receive.acknowledge(false);
    assert_eq!(dialler.receive.try_read(&mut buffer).unwrap(), Some(1));
}

fn at(seconds: u64) -> Tick {
    Tick::from_nanos((100 + seconds) * 1_000_000_000)
}

/// Answers the request, which must have arrived, with or without a file.
fn answer(acceptor: &Transport, file: Option<&OwnedFd>) {
    let (local, number) = acceptor.source.table_request().expect("a number");
    local.answer_table(number, file.map(AsFd::as_fd));
    assert!(acceptor.source.table_request().is_none());
}

fn value(sequence: u64) -> TableEntry {
    TableEntry::Value(TableValue {
        sequence,
        ..TableValue::default()
    })
}

#[test]
fn table_is_requested_and_read_until_the_connection_ends() {
    let (mut dialler, mut acceptor) = pair();
    assert!(acceptor.source.table_request().is_none());
    for _ in 0..2 {
        let asked = dialler.source.table(5, at(0));
        assert!(matches!(asked, TableAnswer::Pending), "{asked:?}");
    }
    let (writer, file) = create_table(8).unwrap();
    answer(&acceptor, Some(&file));
    talk(&mut dialler, &mut acceptor);
    let TableAnswer::Here(table) = dialler.source.table(5, at(0)) else {
        panic!("no table");
    };
    writer.store(5, 0, &value(7));
    assert_eq!(table.read(5, 0), Some(value(7)));
    // The other end may provide another table for an index beyond this table.
    assert!(matches!(
        dialler.source.table(8, at(0)),
        TableAnswer::Pending
    ));
    let (larger, file) = create_table(16).unwrap();
    answer(&acceptor, Some(&file));
    talk(&mut dialler, &mut acceptor);
    let TableAnswer::Here(second) = dialler.source.table(8, at(0)) else {
        panic!("no larger table");
    };
    larger.store(8, 0, &value(9));
    assert_eq!(second.read(8, 0), Some(value(9)));
    // The end of the socket shows that the other process has ended.
    drop(acceptor);
    dialler.receive.acknowledge(true);
    assert_eq!((table.read(5, 0), second.read(8, 0)), (None, None));
    assert!(matches!(dialler.source.table(5, at(0)), TableAnswer::None));
}

#[test]
fn client_does_not_wait_for_an_engine_without_a_table() {
    let (dialler, acceptor) = pair();
    let table = |seconds| dialler.source.table(1, at(seconds));
    for (asked, refused) in [(0, 1), (11, 11)] {
        assert!(matches!(table(asked), TableAnswer::Pending));
        answer(&acceptor, None);
        assert!(matches!(table(refused), TableAnswer::None));
        // Nor is the other end asked again at once.
        assert!(matches!(table(refused + 9), TableAnswer::None));
        assert!(acceptor.source.table_request().is_none());
    }
}

/// An engine of an older version does not know the request.
#[test]
fn unanswered_table_request_costs_one_second_in_eleven() {
    let (mut dialler, mut acceptor) = pair();
    for round in [0, 11] {
        let table = |after: u64| dialler.source.table(1, at(round + after));
        assert!(matches!(table(0), TableAnswer::Pending));
        assert!(matches!(table(0), TableAnswer::Pending));
        assert!(matches!(table(1), TableAnswer::None));
        assert!(matches!(table(10), TableAnswer::None));
    }
    // A late answer is still accepted.
    let (_writer, file) = create_table(8).unwrap();
    answer(&acceptor, Some(&file));
    talk(&mut dialler, &mut acceptor);
    let asked = dialler.source.table(1, at(20));
    assert!(matches!(asked, TableAnswer::Here(_)), "{asked:?}");
    // A table that served once does not prevent a request for a larger one.
    let asked = dialler.source.table(8, at(21));
    assert!(matches!(asked, TableAnswer::Pending), "{asked:?}");
}

#[test]
fn invalid_table_files_are_ignored_and_the_connection_continues() {
    let of_length = |length: u64, seals: SealFlags| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(c"hostile", flags).unwrap();
        ftruncate(&file, length).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let whole = 8 * TABLE_SLOT_BYTES as u64;
    let (_writer, short) = create_table(2).unwrap();
    let files = [
        of_length(whole, SealFlags::GROW),
        of_length(0, all),
        of_length(whole + 1, all),
        of_length(2 << 30, all),
        // An empty file, without the magic number.
        of_length(whole, all),
        OwnedFd::from(File::open("/dev/null").unwrap()),
        OwnedFd::from(File::open("/proc/self/exe").unwrap()),
        short,
    ];
    let (mut dialler, mut acceptor) = pair();
    for (index, file) in files.iter().enumerate() {
        let now = at(10 * index as u64);
        let asked = dialler.source.table(5, now);
        assert!(matches!(asked, TableAnswer::Pending), "file {index}");
        answer(&acceptor, Some(file));
        talk(&mut dialler, &mut acceptor);
        let asked = dialler.source.table(5, now);
        assert!(matches!(asked, TableAnswer::None), "file {index}");
    }
}

/// A reader can neither write to a table nor make it shorter.
#[test]
fn only_its_maker_writes_to_a_table() {
    let (writer, file) = create_table(4).unwrap();
    let errors = [
        rustix::io::pwrite(&file, &[1], 200).map(drop),
        ftruncate(&file, 0),
        fcntl_add_seals(&file, SealFlags::WRITE),
    ];
    for error in errors {
        let kind = io::Error::from(error.unwrap_err()).kind();
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
    }
    // A reader's mapping stays read-only.
    let nowhere = std::ptr::null_mut();
    let writes = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new mappings at addresses that the system chooses, which nothing uses.
    #[allow(unsafe_code)]
    let (writable, promoted) = unsafe {
        let writable = mmap(nowhere, 512, writes, MapFlags::SHARED, &file, 0);
        let start = mmap(nowhere, 512, ProtFlags::READ, MapFlags::SHARED, &file, 0).unwrap();
        let writes = MprotectFlags::READ | MprotectFlags::WRITE;
        let promoted = mprotect(start, 512, writes);
        munmap(start, 512).unwrap();
        (writable.map(drop), promoted)
    };
    for error in [writable, promoted] {
        let kind = io::Error::from(error.unwrap_err()).kind();
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
    }
    // The writer itself still can.
    writer.store(1, 0, &value(1));
    for slots in [0, usize::MAX] {
        assert!(create_table(slots).is_err());
    }
}
