//! F25: buffers of elements that vary in size grow with a burst, and shrink when it is over.

use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::Duration;

use trunkline::stream::{Options, Reader, StreamError, Until, Writer};
use trunkline_net::Clock;

use crate::figures::{is_full, record, seconds, size};
use crate::streams::{WAIT, address, said, say, start, start_reading, url};
use crate::{alone, until};

/// Size of a text, in bytes.
const BYTES: usize = 1024;

/// Texts before the burst, and after it.
const FEW: u64 = 20;

/// Texts per call.
const CALL: u64 = 200;

/// Printed by the writing program when it has executed a line.
const DONE: &str = "it is written and read";

/// The text at an index.
fn text(index: u64) -> String {
    let mut text = format!("{index} ");
    let filler = (b'a' + (index % 26) as u8) as char;
    text.extend(std::iter::repeat_n(filler, BYTES - text.len()));
    text
}

fn roomy(options: Options) -> Options {
    Options {
        capacity: 100_000,
        ..options
    }
}

/// The writing program: writes the number of texts in each line of its input.
pub fn write(own: &str, options: Options) -> String {
    let mut writer = Writer::<String>::create(own, roomy(options)).unwrap();
    let mut next = 0;
    for line in std::io::stdin().lock().lines() {
        let end = next + line.unwrap().parse::<u64>().unwrap();
        while next < end {
            let texts: Vec<String> = (next..end.min(next + CALL)).map(text).collect();
            writer.write_many(&texts, WAIT).unwrap();
            next += texts.len() as u64;
        }
        writer.flush(Until::Read, WAIT).unwrap();
        say(DONE);
    }
    let left = writer.close(WAIT);
    format!("written={next} left={}", left.elements)
}

/// The reading program.
pub fn read(own: &str, options: Options) -> String {
    let mut reader = Reader::<String>::create(own, roomy(options)).unwrap();
    let mut next = 0;
    loop {
        match reader.read_many(1, None) {
            Ok(texts) => {
                assert_eq!(
                    texts,
                    [text(next)],
                    "lost, doubled, out of order or altered"
                );
                next += 1;
            }
            Err(StreamError::Ended) => return format!("read={next}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.unwrap().parse().unwrap()
}

/// Behaviour: NS-22, NS-24.
#[test]
fn both_processes_are_as_small_after_a_burst_of_texts_as_before() {
    let _alone = alone();
    let passive = address();
    let reader = start(&["read text", &url(passive, "passive")]);
    let (input, mut orders) = std::io::pipe().unwrap();
    let told = [
        "write text",
        &url(address(), "active"),
        &url(passive, "passive"),
    ];
    let writer = start_reading(&told, Stdio::from(input));
    let mut order = |count: u64| {
        writeln!(orders, "{count}").unwrap();
        writer.line_with(DONE);
    };
    let burst = size(20_000, 1_000_000);
    let both = || [&writer, &reader].map(|end| resident(end.child.id()));
    order(FEW);
    let before = both();
    order(burst);
    let (full, clock) = (both(), Clock::new());
    let idle_since = clock.now();
    // A fifth more than before, in both.
    let is_small = |now: [u64; 2]| {
        now.iter()
            .zip(before)
            .all(|(now, then)| *now <= then * 6 / 5)
    };
    assert!(
        !is_small(full),
        "the burst is to fill buffers: {full:?} {before:?}"
    );
    let after = until("the release of the memory", || {
        let now = both();
        is_small(now).then_some(now)
    });
    let took = clock.now().since(idle_since);
    // The stream continues.
    order(FEW);
    drop(orders);
    let (written, writer) = writer.end();
    let (read, reader) = reader.end();
    assert_eq!((written, read), (Some(0), Some(0)), "{writer:?} {reader:?}");
    let all = burst + 2 * FEW;
    assert_eq!((said(&writer, "left"), said(&reader, "read")), (0, all));
    eprintln!("{before:?} {full:?} {after:?} KiB, {took:?}");
    if is_full() {
        let check = "F25, 10^6 texts of 1 KiB, then nothing";
        for (end, name) in ["writer", "reader"].into_iter().enumerate() {
            let mib = |kib: [u64; 2]| format!("{:.1}", kib[end] as f64 / 1024.0);
            let figure = format!("resident memory of the {name}: before, after the burst, idle");
            let measured = format!("{}, {}, {} MiB", mib(before), mib(full), mib(after));
            record(check, &figure, &measured, "1.2 times");
        }
        let limit = seconds(Duration::from_secs(60));
        record(check, "memory released after", &seconds(took), &limit);
    }
}
