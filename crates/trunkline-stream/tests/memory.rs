//! Tests the memory use of endpoint buffers. The tests measure the whole process, so they run one at a
//! time.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use trunkline_stream::{Element, Options, Reader, StreamError, Until, Writer};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Keeps the other tests from running.
fn run_alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the bytes allocated for the stream buffers of this process.
fn allocated_bytes() -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        // The descriptor may be closed by now.
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
    // Ports that no other test process uses.
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

/// Writes `text` until both buffers are full, and returns the number of elements written.
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

/// Allowance for header pages and rounding, in bytes.
const SLACK: u64 = 64 << 10;

/// Behaviour: NS-20, NS-21, NS-22, NS-23, NS-24, NS-25.
#[test]
fn buffer_memory_is_allocated_as_documented() {
    let _alone = run_alone();
    assert_eq!(allocated_bytes(), 0);

    // Elements of one size: 1,000 doubles are 8,000 bytes, all allocated at creation and never
    // more.
    let fixed = Options {
        capacity: 100_000,
        timeout: LONG,
        ..Options::default()
    };
    let (mut writer, mut reader) = pair::<f64>(&fixed, &fixed);
    let at_creation = allocated_bytes();
    assert!(
        (1_600_000..1_600_000 + SLACK).contains(&at_creation),
        "{at_creation}"
    );
    for _ in 0..5 {
        writer.write_many(&[0.5; 100_000], LONG).unwrap();
        reader.read_many(100_000, LONG).unwrap();
    }
    assert_eq!(allocated_bytes(), at_creation);
    drop((reader, writer));
    assert_eq!(allocated_bytes(), 0, "destroyed");

    // Elements that vary in size: nothing is allocated at creation.
    let varying = Options {
        capacity: 1000,
        bytes_max: 1 << 20,
        timeout: LONG,
        ..Options::default()
    };
    let (mut writer, mut reader) = pair::<String>(&varying, &varying);
    let at_creation = allocated_bytes();
    assert!(at_creation < SLACK, "{at_creation}");
    // The memory grows while the buffers fill for the first time.
    let text = "x".repeat(995);
    let count = fill(&mut writer, &text);
    assert_eq!(count, 2000, "both are full");
    let filled = allocated_bytes();
    assert!((2_000_000..(2 << 20) + SLACK).contains(&filled), "{filled}");
    // The memory is kept after the elements were read.
    for _ in 0..count {
        assert_eq!(reader.read(LONG).unwrap(), text);
    }
    writer.flush(Until::Read, LONG).unwrap();
    assert!(
        allocated_bytes() >= filled,
        "{} {filled}",
        allocated_bytes()
    );
    // The memory does not grow when the buffers are filled again, unless elements are larger.
    for _ in 0..3 {
        let count = fill(&mut writer, &text);
        (0..count).for_each(|_| assert_eq!(reader.read(LONG).unwrap(), text));
    }
    assert!(
        allocated_bytes() <= (2 << 20) + SLACK,
        "{}",
        allocated_bytes()
    );
    drop((reader, writer));
    assert_eq!(allocated_bytes(), 0, "destroyed");

    // With `preallocate`, all of it is allocated at creation.
    let preallocated = Options {
        preallocate: true,
        ..varying.clone()
    };
    let (writer, reader) = pair::<String>(&preallocated, &varying);
    let at_creation = allocated_bytes();
    assert!(
        (1 << 20..(1 << 20) + SLACK).contains(&at_creation),
        "{at_creation}"
    );
    drop((reader, writer));
    assert_eq!(allocated_bytes(), 0, "destroyed");
}

/// Waits until at most this number of bytes is allocated.
fn wait_until_allocated(max: u64) {
    let looks = 60_000;
    let is_so = (0..looks).any(|_| {
        thread::park_timeout(Duration::from_millis(1));
        allocated_bytes() <= max
    });
    assert!(is_so, "{} are allocated, not {max}", allocated_bytes());
}

/// Fills both buffers, reads everything, and returns the memory of the full buffers, in bytes.
fn fill_and_drain(writer: &mut Writer<String>, reader: &mut Reader<String>) -> u64 {
    let text = "y".repeat(995);
    let count = fill(writer, &text);
    let filled = allocated_bytes();
    (0..count).for_each(|_| assert_eq!(reader.read(LONG).unwrap(), text));
    writer.flush(Until::Read, LONG).unwrap();
    filled
}

/// Writes elements that are not read yet.
fn write_unread(writer: &mut Writer<String>, round: u32) -> Vec<String> {
    let kept: Vec<String> = (0..7)
        .map(|i| format!("{round} {i} ").repeat(100))
        .collect();
    writer.write_many(&kept, LONG).unwrap();
    writer.flush(Until::Available, LONG).unwrap();
    kept
}

/// Behaviour: NS-22, NS-23, NS-24, NS-25.
#[test]
fn memory_for_variable_size_elements_is_released_when_idle() {
    let _alone = run_alone();
    let folder = tempfile::tempdir().unwrap();
    let over_tcp = Options {
        capacity: 1000,
        bytes_max: 1 << 20,
        timeout: LONG,
        tcp_only: true,
        ..Options::default()
    };
    // Connected over a Unix socket, both ends share one ring.
    let in_one_ring = Options {
        tcp_only: false,
        sockets: Some(folder.path().to_owned()),
        ..over_tcp.clone()
    };
    let preallocated = Options {
        preallocate: true,
        ..over_tcp.clone()
    };
    let mut far = pair::<String>(&over_tcp, &over_tcp);
    let mut near = near_pair(&in_one_ring);
    assert_eq!(far.0.properties().transport, Some("TCP"));
    assert_eq!(near.0.properties().transport, Some("shared memory"));
    let mut kept = Vec::new();
    for (writer, reader) in [&mut far, &mut near] {
        let before = allocated_bytes();
        let filled = fill_and_drain(writer, reader) - before;
        assert!(filled >= 1_900_000, "{filled} more are allocated");
        // Unread elements keep their memory.
        kept.push(write_unread(writer, 0));
    }
    wait_until_allocated(2 * SLACK);
    // The stream continues as if nothing had happened.
    for ((writer, reader), kept) in [&mut far, &mut near].into_iter().zip(kept) {
        for text in kept {
            assert_eq!(reader.read(LONG).unwrap(), text);
        }
        fill_and_drain(writer, reader);
        write_unread(writer, 1);
    }
    drop((far, near));

    // The preallocated end keeps its memory.
    let mut half = pair::<String>(&over_tcp, &preallocated);
    assert!(fill_and_drain(&mut half.0, &mut half.1) >= 2 << 20);
    wait_until_allocated((1 << 20) + SLACK);
    assert!(allocated_bytes() >= 1 << 20, "{}", allocated_bytes());
    fill_and_drain(&mut half.0, &mut half.1);
}

/// Creates a pair that connects over a Unix socket.
fn near_pair(options: &Options) -> (Writer<String>, Reader<String>) {
    // Below the ephemeral ports, and unlikely to be used by another process.
    let own = std::process::id().wrapping_mul(151) % 20_000;
    let url = |name: &str, port| format!("tl://127.0.0.1:{}/{name}", 10_000 + own + port);
    let passive = url("r", 0);
    let of_reader = options.clone();
    let named = Options {
        peer: Some(passive.clone()),
        ..options.clone()
    };
    let reader = thread::spawn(move || Reader::create(&passive, of_reader).unwrap());
    let writer = Writer::create(&url("w", 1), named).unwrap();
    (writer, reader.join().unwrap())
}
