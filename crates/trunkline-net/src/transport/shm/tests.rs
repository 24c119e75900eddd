//! An acceptor's reaction to offers and to a peer that writes invalid values, in one process over
//! two mappings of the same memory.

use std::fs::File;
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::mapping::CAPACITY;
use super::*;
use crate::transport::unix::own_uid;
use crate::transport::{SourceKind, Transport};

fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

fn end(stream: UnixStream, side: Side) -> Transport {
    let peer = Credentials {
        uid: own_uid(),
        pid: std::process::id(),
    };
    local_transport(stream, peer, side).unwrap()
}

/// Returns an acceptor, and a peer that sent `bytes` with a file by hand.
fn offered(bytes: &[u8], file: &OwnedFd) -> (Transport, UnixStream) {
    let (near, far) = pair();
    passing::send_with(&near, bytes, file.as_fd()).unwrap();
    (end(far, Side::Acceptor), near)
}

fn read(transport: &mut Transport) -> io::Result<Option<Vec<u8>>> {
    let mut buffer = vec![0; 1 << 10];
    let count = transport.receive.try_read(&mut buffer)?;
    Ok(count.map(|count| buffer[..count].to_vec()))
}

#[test]
fn two_ends_switch_to_shared_memory_without_loss() {
    let (near, far) = pair();
    let mut dialler = end(near, Side::Dialler { demanded: true });
    let mut acceptor = end(far, Side::Acceptor);
    for round in 0..5_u8 {
        assert_eq!(dialler.send.try_write(&[round, 1]).unwrap(), Some(2));
        assert_eq!(read(&mut acceptor).unwrap(), Some(vec![round, 1]));
        assert_eq!(acceptor.send.try_write(&[round, 2, 3]).unwrap(), Some(3));
        assert_eq!(read(&mut dialler).unwrap(), Some(vec![round, 2, 3]));
    }
    assert_eq!(dialler.source.kind(), SourceKind::SharedMemory);
    assert_eq!(acceptor.source.kind(), SourceKind::SharedMemory);
}

#[test]
fn full_ring_is_reported_and_new_room_is_signalled() {
    let (near, far) = pair();
    let mut dialler = end(near, Side::Dialler { demanded: true });
    let mut acceptor = end(far, Side::Acceptor);
    for _ in 0..2 {
        dialler.send.try_write(b"x").unwrap();
        read(&mut acceptor).unwrap();
        acceptor.send.try_write(b"y").unwrap();
        read(&mut dialler).unwrap();
    }
    dialler.receive.acknowledge(false);
    let bytes = vec![7; CAPACITY];
    assert_eq!(dialler.send.try_write(&bytes).unwrap(), Some(CAPACITY));
    assert_eq!(dialler.send.try_write(&bytes).unwrap(), None);
    assert!(read(&mut acceptor).unwrap().is_some());
    let mut bell = [0; 1];
    let source = dialler.source.clone();
    assert_eq!(rustix::io::read(&source, &mut bell), Ok(1));
    assert!(dialler.send.try_write(&bytes).unwrap().is_some());
}

#[test]
fn writer_waiting_for_room_learns_that_the_peer_has_gone() {
    let (mapping, file) = Mapping::create().unwrap();
    let (mut acceptor, near) = offered(b"hello", &file);
    assert!(read(&mut acceptor).unwrap().is_some());
    mapping.leave_socket(Way::ToAcceptor, 5);
    near.send(&[0]).unwrap();
    assert_eq!(read(&mut acceptor).unwrap(), None);
    let bytes = vec![7; 2 * CAPACITY];
    assert_eq!(acceptor.send.try_write(&bytes).unwrap(), Some(CAPACITY));
    assert_eq!(acceptor.send.try_write(&bytes).unwrap(), None);
    drop(near);
    acceptor.receive.acknowledge(true);
    let error = acceptor.send.try_write(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn end_that_arrives_before_the_ring_is_entered_is_not_missed() {
    let (mapping, file) = Mapping::create().unwrap();
    let (mut acceptor, near) = offered(b"hello", &file);
    assert!(read(&mut acceptor).unwrap().is_some());
    mapping.leave_socket(Way::ToAcceptor, 5);
    let mut producer = mapping.ring(Way::ToAcceptor).producer();
    producer.push(b"last words").unwrap();
    near.send(&[0]).unwrap();
    drop(near);
    // One event reports both the end and the doorbell.
    acceptor.receive.acknowledge(true);
    assert_eq!(read(&mut acceptor).unwrap(), Some(b"last words".to_vec()));
    assert_eq!(read(&mut acceptor).unwrap(), Some(Vec::new()));
}

#[test]
fn acceptor_without_shared_memory_support_gets_only_the_bytes() {
    let (near, far) = pair();
    let mut dialler = end(near, Side::Dialler { demanded: false });
    dialler.send.try_write(b"hello").unwrap();
    let mut acceptor = crate::transport::unix::unix_transport(
        far,
        Credentials {
            uid: own_uid(),
            pid: 0,
        },
    );
    assert_eq!(read(&mut acceptor).unwrap(), Some(b"hello".to_vec()));
    acceptor.send.try_write(b"welcome").unwrap();
    assert_eq!(read(&mut dialler).unwrap(), Some(b"welcome".to_vec()));
    dialler.send.try_write(b"more").unwrap();
    assert_eq!(read(&mut acceptor).unwrap(), Some(b"more".to_vec()));
    assert_eq!(dialler.source.kind(), SourceKind::UnixSocket);
    assert!(dialler.source.why_not_shared().is_some());
}

#[test]
fn required_shared_memory_that_is_unavailable_is_reported() {
    let (near, far) = pair();
    let mut dialler = end(near, Side::Dialler { demanded: true });
    dialler.send.try_write(b"hello").unwrap();
    far.send(b"welcome").unwrap();
    let error = read(&mut dialler).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("shared memory"), "{error}");
}

#[test]
fn files_that_are_not_shared_memory_are_rejected() {
    let sealing = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let of_length = |length: u64, seals: rustix::fs::SealFlags| {
        let file = memfd_create(c"hostile", sealing).unwrap();
        ftruncate(&file, length).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let all =
        rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW | rustix::fs::SealFlags::SEAL;
    let whole = 4096 + 2 * CAPACITY as u64;
    let files = [
        of_length(whole, rustix::fs::SealFlags::empty()),
        of_length(whole, rustix::fs::SealFlags::SHRINK),
        of_length(0, all),
        of_length(4096, all),
        of_length(whole + 1, all),
        of_length(4096 + 2 * (8 << 20), all),
        // An empty file, without the magic number.
        of_length(whole, all),
        of_length(whole, all | rustix::fs::SealFlags::WRITE),
        OwnedFd::from(File::open("/dev/null").unwrap()),
        OwnedFd::from(File::open("/proc/self/exe").unwrap()),
    ];
    for (index, file) in files.iter().enumerate() {
        let (mut acceptor, near) = offered(b"hello", file);
        assert_eq!(read(&mut acceptor).unwrap(), Some(b"hello".to_vec()));
        assert!(acceptor.source.why_not_shared().is_some(), "file {index}");
        acceptor.send.try_write(b"welcome").unwrap();
        let mut answer = [0; 16];
        assert_eq!(near.receive(&mut answer).unwrap(), 7);
    }
}

#[test]
fn impossible_claim_about_the_socket_ends_the_connection() {
    let (mapping, file) = Mapping::create().unwrap();
    let (mut acceptor, near) = offered(b"hello", &file);
    assert_eq!(read(&mut acceptor).unwrap(), Some(b"hello".to_vec()));
    // Fewer bytes than have already arrived.
    mapping.leave_socket(Way::ToAcceptor, 3);
    near.send(&[0]).unwrap();
    let error = read(&mut acceptor).unwrap_err();
    assert!(error.to_string().contains("invalid data"), "{error}");
}

#[test]
fn doorbells_without_end_end_the_connection() {
    let (mapping, file) = Mapping::create().unwrap();
    let (mut acceptor, near) = offered(b"hello", &file);
    assert!(read(&mut acceptor).unwrap().is_some());
    mapping.leave_socket(Way::ToAcceptor, 5);
    near.send(&[0]).unwrap();
    assert_eq!(read(&mut acceptor).unwrap(), None);
    while near.send(&[0; 4096]).is_ok() {}
    acceptor.receive.acknowledge(true);
    assert!(read(&mut acceptor).is_err());
}

/// An action of a hostile peer, or of the acceptor in between.
#[derive(Clone, Debug)]
enum Move {
    Scribble { word: usize, value: u64 },
    Ring(usize),
    Read,
    Write(usize),
    Event { hung_up: bool },
    Look,
}

fn moves() -> impl Strategy<Value = Move> {
    let value = prop_oneof![
        0..300_u64,
        any::<u64>(),
        (0..100_u64).prop_map(|n| u64::MAX - n),
        (0..100_u64).prop_map(|n| CAPACITY as u64 + n),
    ];
    prop_oneof![
        4 => (0..Mapping::WORDS, value).prop_map(|(word, value)| Move::Scribble { word, value }),
        1 => (1..5_usize).prop_map(Move::Ring),
        3 => Just(Move::Read),
        3 => (1..CAPACITY).prop_map(Move::Write),
        1 => any::<bool>().prop_map(|hung_up| Move::Event { hung_up }),
        1 => Just(Move::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn nonsense_in_the_memory_ends_the_connection_at_worst(
        moves in prop::collection::vec(moves(), 1..80),
        begun in any::<bool>(),
    ) {
        let (mapping, file) = Mapping::create().unwrap();
        let (mut acceptor, near) = offered(b"hello", &file);
        prop_assert!(read(&mut acceptor).unwrap().is_some());
        if begun {
            mapping.leave_socket(Way::ToAcceptor, 5);
            near.send(&[0]).unwrap();
        }
        let mut bytes = vec![0; CAPACITY];
        for one in moves {
            match one {
                Move::Scribble { word, value } => {
                    mapping.word(word).store(value, Ordering::Relaxed);
                }
                Move::Ring(count) => { let _ = near.send(&[0; 5][..count]); }
                Move::Read => match acceptor.receive.try_read(&mut bytes) {
                    Ok(count) => prop_assert!(count.unwrap_or(0) <= bytes.len()),
                    Err(_) => break,
                },
                Move::Write(length) => match acceptor.send.try_write(&bytes[..length]) {
                    Ok(count) => prop_assert!(count.unwrap_or(0) <= length),
                    Err(_) => break,
                },
                Move::Event { hung_up } => {
                    acceptor.receive.acknowledge(hung_up);
                    if let Some((local, number)) = acceptor.source.table_request() {
                        local.answer_table(number, None);
                    }
                }
                Move::Look => { let _ = (acceptor.receive.glance(), acceptor.receive.arm()); }
            }
        }
    }
}
