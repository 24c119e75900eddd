//! The memory of endpoints' buffers: all there is in this process, so one test after the other.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use trunkline_stream::{Element, Options, Reader, StreamError, Until, Writer};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Bytes that the system has given for the buffers of this process's endpoints.
fn held() -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        // A descriptor may be gone by now.
        let name = std::fs::read_link(&path).unwrap_or_default();
        if name.to_string_lossy().contains("memfd:trunkline-stream")
            && let Ok(file) = std::fs::metadata(&path)
        {
            bytes += file.blocks() * 512;
        }
    }
    bytes
}

fn pair<T: Element>(of_writer: &Options, of_reader: &Options) -> (Writer<T>, Reader<T>) {
    // Ports of this process alone.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let url = |name: &str, port| format!("tl://127.{}.{b}.{}:{port}/{name}", a | 0x80, c | 1);
    let passive = url("r", 19_001);
    let of_reader = of_reader.clone();
    let named = Options {
        peer: Some(passive.clone()),
        ..of_writer.clone()
    };
    let reader = thread::spawn(move || Reader::create(&passive, of_reader).unwrap());
    let writer = Writer::create(&url("w", 19_002), named).unwrap();
    (writer, reader.join().unwrap())
}

/// Writes `texts` until nothing more fits into either buffer; how many did.
fn fill(writer: &mut Writer<String>, text: &str) -> usize {
    let mut count = 0;
    loop {
        match writer.write(&text.to_owned(), Some(Duration::from_millis(100))) {
            Ok(()) => count += 1,
            Err(StreamError::Timeout { .. }) => return count,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Header pages and rounding.
const SLACK: u64 = 64 << 10;

/// Behaviour: NS-20, NS-21, NS-22, NS-23, NS-24, NS-25.
#[test]
fn memory_of_buffers_is_as_large_as_is_said_when_it_is_said() {
    assert_eq!(held(), 0);

    // Elements of one size: 1,000 doubles are 8,000 bytes, all there at creation and never more.
    let fixed = Options {
        capacity: 100_000,
        timeout: LONG,
        ..Options::default()
    };
    let (mut writer, mut reader) = pair::<f64>(&fixed, &fixed);
    let at_creation = held();
    assert!(
        (1_600_000..1_600_000 + SLACK).contains(&at_creation),
        "{at_creation}"
    );
    for _ in 0..5 {
        writer.write_many(&[0.5; 100_000], LONG).unwrap();
        reader.read_many(100_000, LONG).unwrap();
    }
    assert_eq!(held(), at_creation);
    drop((reader, writer));
    assert_eq!(held(), 0, "destroyed");

    // Elements that vary: nothing at creation.
    let varying = Options {
        capacity: 1000,
        bytes_max: 1 << 20,
        timeout: LONG,
        ..Options::default()
    };
    let (mut writer, mut reader) = pair::<String>(&varying, &varying);
    let at_creation = held();
    assert!(at_creation < SLACK, "{at_creation}");
    // It rises while the buffers are filled for the first time,
    let text = "x".repeat(995);
    let count = fill(&mut writer, &text);
    assert_eq!(count, 2000, "both are full");
    let filled = held();
    assert!((2_000_000..(2 << 20) + SLACK).contains(&filled), "{filled}");
    // is kept after they were read,
    for _ in 0..count {
        assert_eq!(reader.read(LONG).unwrap(), text);
    }
    writer.flush(Until::Read, LONG).unwrap();
    assert!(held() >= filled, "{} {filled}", held());
    // and rises no more when they are filled again, unless with larger elements.
    for _ in 0..3 {
        let count = fill(&mut writer, &text);
        (0..count).for_each(|_| assert_eq!(reader.read(LONG).unwrap(), text));
    }
    assert!(held() <= (2 << 20) + SLACK, "{}", held());
    drop((reader, writer));
    assert_eq!(held(), 0, "destroyed");

    // All of it at creation where that is wanted.
    let preallocated = Options {
        preallocate: true,
        ..varying.clone()
    };
    let (writer, reader) = pair::<String>(&preallocated, &varying);
    let at_creation = held();
    assert!(
        (1 << 20..(1 << 20) + SLACK).contains(&at_creation),
        "{at_creation}"
    );
    drop((reader, writer));
    assert_eq!(held(), 0, "destroyed");
}
