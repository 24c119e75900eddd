//! Tests how the endpoints of a directory are listed.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::stream::control::encode_keepalive;
use trunkline_stream::directory::{ListError, list};
use trunkline_stream::{Options, Reader, Writer};
use trunkline_types::StreamUrl;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// There are more endpoints behind one port than a page holds.
#[test]
fn all_endpoints_are_listed_page_by_page() {
    let port = free_port();
    let count = 150;
    let end = Options {
        timeout: Some(TEST_TIMEOUT),
        capacity: 10,
        ..Options::default()
    };
    let readers: Vec<_> = (0..count)
        .map(|i| {
            let (url, options) = (format!("tl://localhost:{port}/list/{i}!"), end.clone());
            thread::spawn(move || Reader::<u8>::create(&url, options).unwrap())
        })
        .collect();
    let mut writers: Vec<Writer<u8>> = (0..count)
        .map(|i| {
            let peer = Some(format!("tl://localhost:{port}/list/{i}!"));
            let options = Options {
                peer,
                ..end.clone()
            };
            Writer::create("from", options).unwrap()
        })
        .collect();
    let readers: Vec<_> = readers.into_iter().map(|r| r.join().unwrap()).collect();
    let found = list("localhost", port, None, None, None, TEST_TIMEOUT).unwrap();
    let mut expected: Vec<String> = (0..count)
        .map(|i| format!("tl://localhost/list/{i}!"))
        .collect();
    expected.sort();
    let urls: Vec<String> = found.iter().map(|e| e.url.clone()).collect();
    assert_eq!(urls, expected);
    assert!(
        found
            .iter()
            .all(|e| e.is_writer == Some(false) && e.is_connected)
    );
    assert!(found.iter().all(|e| e.pid == std::process::id()));
    // Lists one of the endpoints, which has three unread elements.
    writers[7]
        .write_many(&[1, 2, 3], Some(TEST_TIMEOUT))
        .unwrap();
    writers[7]
        .flush(trunkline_stream::Until::Available, Some(TEST_TIMEOUT))
        .unwrap();
    let one = StreamUrl::parse("tl://localhost/list/7!").unwrap();
    let found = list("localhost", port, None, Some(&one), None, TEST_TIMEOUT).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].in_buffer, found[0].total), (3, 0));
    assert_eq!(found[0].data_type, "u8");
    assert_eq!(found[0].stalled_for, None);
    drop((readers, writers));
    let nobody = list("localhost", port, None, None, None, TEST_TIMEOUT);
    assert!(matches!(nobody, Err(ListError::Unreachable { .. })));
}

/// A program listens at the engine's socket, and sends keep-alives forever.
#[test]
fn client_does_not_wait_for_a_directory_that_never_answers() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let listener = UnixListener::bind(folder.path().join(format!("{port}.sock"))).unwrap();
    let mut alive = Vec::new();
    encode_keepalive(&Keepalive::default(), &mut alive);
    let alive = alive.repeat(1000);
    let chatter = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&alive).is_ok() {}
    });
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let timeout = Duration::from_millis(200);
        sender.send(list(
            "localhost",
            port,
            Some(folder.path()),
            None,
            None,
            timeout,
        ))
    });
    let answer = receiver.recv_timeout(TEST_TIMEOUT).expect("list() returns");
    assert!(
        matches!(answer, Err(ListError::TimedOut { .. })),
        "{answer:?}"
    );
    chatter.join().unwrap();
}
