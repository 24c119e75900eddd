//! Tests two processes on one machine that share one ring. Each process continues when the other is
//! killed or writes invalid data into the ring.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use trunkline_stream::{Element, Options, Reader, StreamError, Until, Writer};

const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));
/// A child's task: `write SOCKETS PORT FIRST` or `read SOCKETS PORT COUNT`.
const PART: &str = "TRUNKLINE_TEST_PART";

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Creates a folder for the Unix sockets of this test only.
fn sockets() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("trunkline-test-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn options(sockets: &str) -> Options {
    Options {
        capacity: 64,
        // For variable-size elements: room for two of the longest ones here.
        bytes_max: 1 << 17,
        timeout: TEST_TIMEOUT,
        sockets: Some(sockets.into()),
        accepts_successor: true,
        ..Options::default()
    }
}

fn url(port: u16) -> String {
    format!("tl://localhost:{port}/here")
}

/// Starts this test binary as the other process.
fn child(part: &str) -> Child {
    let own = std::env::current_exe().unwrap();
    Command::new(own)
        .args(["--exact", "other_process", "--ignored", "--nocapture"])
        .env(PART, part)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// This is not a test, but the entry point of the process that [`child`] starts.
#[test]
#[ignore = "an entry point of the processes that the tests start"]
fn other_process() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let words: Vec<&str> = part.split(' ').collect();
    let [verb, sockets, port, number] = words[..] else {
        panic!("{part}");
    };
    let (port, number): (u16, u64) = (port.parse().unwrap(), number.parse().unwrap());
    let to = Options {
        peer: Some(url(port)),
        ..options(sockets)
    };
    // A successor has the same name, on any port.
    let own = format!("tl://localhost:{}/other", free_port());
    if verb == "write" {
        let mut writer = Writer::<u64>::create(&own, to).unwrap();
        for element in number.. {
            if writer.write(&element, None).is_err() {
                return;
            }
        }
    } else {
        let mut reader = Reader::<u64>::create(&own, to).unwrap();
        for _ in 0..number {
            reader.read(None).unwrap();
        }
        // The process reads no more elements until it is killed.
        loop {
            thread::park();
        }
    }
}

/// Behaviour: B-61.
#[test]
fn killed_writer_leaves_its_elements_to_a_successor() {
    let folder = sockets();
    let folder = folder.to_str().unwrap();
    let port = free_port();
    let mut writing = child(&format!("write {folder} {port} 0"));
    let mut reader = Reader::<u64>::create(&url(port), options(folder)).unwrap();
    assert_eq!(reader.properties().transport, Some("shared memory"));
    for round in 1..=10 {
        // Waits until the writer has written for a while; the kill comes at an arbitrary point.
        let mut next = reader.read(TEST_TIMEOUT).unwrap();
        for _ in 0..round * 37 {
            next += 1;
            assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), next);
        }
        writing.kill().unwrap();
        writing.wait().unwrap();
        let first = 1_000_000 * round;
        writing = child(&format!("write {folder} {port} {first}"));
        // Whole elements, in order, up to the first element of the next writer.
        loop {
            let element = reader.read(TEST_TIMEOUT).unwrap();
            if element == first {
                break;
            }
            next += 1;
            assert_eq!(element, next);
        }
    }
    writing.kill().unwrap();
    writing.wait().unwrap();
}

/// Behaviour: B-61, NS-60.
#[test]
fn unread_elements_of_a_killed_reader_go_to_the_next_one() {
    let folder = sockets();
    let folder = folder.to_str().unwrap();
    let port = free_port();
    let mut reading = child(&format!("read {folder} {port} 10"));
    let mut writer = Writer::<u64>::create(&url(port), options(folder)).unwrap();
    assert_eq!(writer.properties().transport, Some("shared memory"));
    for element in 0..100 {
        writer.write(&element, TEST_TIMEOUT).unwrap();
    }
    while writer.properties().in_buffer > 100 - 10 - 64 {
        thread::yield_now();
    }
    reading.kill().unwrap();
    reading.wait().unwrap();
    // Each buffer holds 64 elements, and the reader had read 10.
    for element in 100..138 {
        writer.write(&element, TEST_TIMEOUT).unwrap();
    }
    let soon = Some(Duration::from_millis(1));
    let error = writer.write(&138, soon).unwrap_err();
    assert!(matches!(error, StreamError::Timeout { .. }), "{error}");
    let to = Options {
        peer: Some(url(port)),
        ..options(folder)
    };
    let own = format!("tl://localhost:{}/other", free_port());
    let mut reader = Reader::<u64>::create(&own, to).unwrap();
    for element in 10..138 {
        let read = reader.read(Some(Duration::from_secs(5)));
        assert_eq!(read.ok(), Some(element), "{reader:?} {writer:?}");
    }
    writer.write(&138, TEST_TIMEOUT).unwrap();
    writer.flush(Until::Available, TEST_TIMEOUT).unwrap();
    assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 138);
}

/// Behaviour: B-60.
#[test]
fn data_in_memory_is_never_reported_as_durable() {
    let (mut writer, mut reader, _) = pair::<u64>("memory");
    writer.write(&1, TEST_TIMEOUT).unwrap();
    assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 1);
    writer.flush(Until::Read, TEST_TIMEOUT).unwrap();
    let error = writer.flush(Until::Durable, TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::NoJournal), "{error}");
}

/// A pair in this process that uses one ring, and the file of that ring.
fn pair<T: Element>(name: &str) -> (Writer<T>, Reader<T>, Vec<File>) {
    let folder = sockets();
    let folder = folder.to_str().unwrap().to_owned();
    let port = free_port();
    let url = format!("tl://localhost:{port}/{name}");
    let to = Options {
        peer: Some(url.clone()),
        ..options(&folder)
    };
    let before = rings();
    let reader = thread::spawn(move || Reader::<T>::create(&url, options(&folder)).unwrap());
    let own = format!("tl://localhost:{}/other", free_port());
    let writer = Writer::<T>::create(&own, to).unwrap();
    let reader = reader.join().unwrap();
    assert_eq!(reader.properties().transport, Some("shared memory"));
    let files = rings();
    let files = files.into_iter().filter(|path| !before.contains(path));
    // Another test of this process may have created a ring too, which must not be altered.
    let files = files.filter_map(|path| {
        let write = File::options().read(true).write(true).open(&path).ok()?;
        let is_own = !T::data_type().is_numeric() || write.metadata().ok()?.len() == 4096 + 4096;
        is_own.then_some(write)
    });
    (writer, reader, files.collect())
}

/// Returns the files of the rings of this process.
fn rings() -> Vec<PathBuf> {
    let own = fs::read_dir("/proc/self/fd").unwrap();
    let paths = own.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("trunkline-stream"))
        })
        .collect()
}

/// A local peer writes invalid positions into the shared memory.
#[test]
fn corrupt_ring_is_reported_and_harmless() {
    // This runs in a separate process, so that it corrupts no rings of other tests.
    let own = std::env::current_exe().unwrap();
    let status = Command::new(own)
        .args(["--exact", "corrupt_rings", "--ignored", "--nocapture"])
        .env(PART, "spoil")
        .status()
        .unwrap();
    assert!(status.success());
}

/// Not a test, but the process that [`corrupt_ring_is_reported_and_harmless`] starts.
#[test]
#[ignore = "an entry point of the processes that the tests start"]
fn corrupt_rings() {
    if std::env::var(PART).as_deref() != Ok("spoil") {
        return;
    }
    for (round, byte) in [0xff_u8, 0x80, 0x01].into_iter().enumerate() {
        for offset in [128, 136, 256, 264, 384, 512] {
            let (mut writer, mut reader, files) = pair::<u64>(&format!("spoilt{round}-{offset}"));
            for element in 0..50 {
                writer.write(&element, TEST_TIMEOUT).unwrap();
            }
            assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 0);
            assert!(!files.is_empty());
            for file in &files {
                file.write_all_at(&[byte; 8], offset).unwrap();
            }
            // Each call returns a result or an error before the timeout.
            let soon = Some(Duration::from_millis(1));
            for element in 50..200 {
                if writer.write(&element, soon).is_err() {
                    break;
                }
            }
            for _ in 0..200 {
                if reader.read(soon).is_err() {
                    break;
                }
            }
            let _ = (writer.properties(), reader.properties());
            drop(reader);
            writer.abort();
        }
    }
}

/// A local peer alters lengths and text after it has written them.
#[test]
fn elements_altered_by_the_writer_are_checked_when_used() {
    // This runs in a separate process, so that it alters no rings of other tests.
    let own = std::env::current_exe().unwrap();
    let status = Command::new(own)
        .args(["--exact", "altered_elements", "--ignored", "--nocapture"])
        .env(PART, "alter")
        .status()
        .unwrap();
    assert!(status.success());
}

/// Not a test, but the process that [`elements_altered_by_the_writer_are_checked_when_used`]
/// starts.
#[test]
#[ignore = "an entry point of the processes that the tests start"]
fn altered_elements() {
    if std::env::var(PART).as_deref() != Ok("alter") {
        return;
    }
    lengths_beyond_what_is_there();
    text_that_changes_while_it_is_read();
}

fn lengths_beyond_what_is_there() {
    let (mut writer, mut reader, files) = pair::<String>("lengths");
    writer
        .write_many(&["one".to_owned(), "two".to_owned()], TEST_TIMEOUT)
        .unwrap();
    for file in &files {
        file.write_all_at(&[0xff; 4], 4096).unwrap();
    }
    let error = reader.read(TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::Element(_)), "{error}");
    let error = reader.read_many(2, TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::Element(_)), "{error}");
    writer.abort();
}

fn text_that_changes_while_it_is_read() {
    /// Size of an element with its length prefix; it divides the size of every ring, so elements
    /// begin at multiples of it.
    const BYTES: usize = 65536;
    let (mut writer, mut reader, files) = pair::<String>("text");
    let text = "a".repeat(BYTES - 7);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The last byte of each text becomes invalid, then valid again.
            while !is_over.load(Ordering::Relaxed) {
                for (file, byte) in files.iter().flat_map(|file| [(file, 0xff), (file, b'a')]) {
                    let len = file.metadata().unwrap().len();
                    for end in (4096..len).step_by(BYTES).skip(1) {
                        file.write_all_at(&[byte], end - 3).unwrap();
                    }
                }
            }
        });
        for _ in 0..30_000 {
            writer.write(&text, TEST_TIMEOUT).unwrap();
            let read = loop {
                match reader.read(TEST_TIMEOUT) {
                    // The reader refuses the element while the text is invalid.
                    Err(StreamError::Element(_)) => {}
                    other => break other,
                }
            };
            let read = read.inspect_err(|_| is_over.store(true, Ordering::Relaxed));
            let is_text = std::str::from_utf8(read.unwrap().as_bytes()).is_ok();
            if !is_text {
                is_over.store(true, Ordering::Relaxed);
            }
            assert!(is_text, "a text that is none was read");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
