//! Tests that a program does not write while the idle check releases the memory of the ring.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Writer;
use crate::{Options, Reader};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Number of times that the checking thread yields. A program that did not wait for the lock would
/// have written by then.
const YIELDS: u32 = 10_000;

/// The memory of a ring is released under a lock, and a program writes nothing into the ring while
/// that lock is held.
///
/// Behaviour: NS-60.
#[test]
fn writes_and_releases_of_memory_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        timeout: LONG,
        tcp_only: true,
        sockets: Some(folder.path().to_owned()),
        ..Options::default()
    };
    let port = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let [of_writer, of_reader] = ["w", "r"].map(|n| format!("tl://localhost:{}/{n}", port()));
    let named = Options {
        peer: Some(of_reader.clone()),
        ..options.clone()
    };
    let (mut writer, mut reader) = thread::scope(|scope| {
        let reader = scope.spawn(|| Reader::<String>::create(&of_reader, options).unwrap());
        let writer = Writer::<String>::create(&of_writer, named).unwrap();
        (writer, reader.join().unwrap())
    });
    let write_lock = writer.core.link.with(|end, _, _| end.inner.write_lock());
    let write_lock = write_lock.unwrap();
    for text in ["one", "another"] {
        let is_over = AtomicBool::new(false);
        let guard = write_lock.lock().unwrap();
        thread::scope(|scope| {
            let program = scope.spawn(|| {
                writer.write(&text.to_owned(), LONG).unwrap();
                is_over.load(Ordering::SeqCst)
            });
            for _ in 0..YIELDS {
                if program.is_finished() {
                    break;
                }
                thread::yield_now();
            }
            is_over.store(true, Ordering::SeqCst);
            drop(guard);
            let has_waited = program.join().unwrap();
            assert!(has_waited, "the program wrote while the lock was held");
        });
        assert_eq!(reader.read(LONG).unwrap(), text);
    }
}
