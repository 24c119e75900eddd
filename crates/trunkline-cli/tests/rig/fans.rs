//! B-62: one of several peers is killed, repeatedly, while elements flow. The others lose nothing,
//! and its place is free again.

use std::collections::BTreeMap;
use std::io::{PipeWriter, Read};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trunkline::stream::{
    Acquired, FanInOptions, FanInReader, FanOutOptions, FanOutWriter, Options, PeerStatus, RunEnd,
    StreamFault, Undelivered, Until, Writer,
};

use crate::figures::{is_full, record, size};
use crate::process::Running;
use crate::streams::{FEW, Tally, WAIT, address, far, fill, said, start, start_reading, url};
use crate::{alone, until};

/// Elements of every buffer.
const CAPACITY: usize = 10 * FEW;

/// Peers at a time, and not one more: a killed one makes room for the next.
const PEERS: usize = 3;

/// Elements that pass before one is killed: far more than all buffers hold.
const BEFORE: u64 = 40 * CAPACITY as u64;

fn options() -> Options {
    Options {
        capacity: CAPACITY,
        gone_after: Some(Duration::from_millis(100)),
        ..far(None)
    }
}

fn kills() -> u64 {
    size(4, 100)
}

fn kill(mut process: Running) {
    process.child.kill().unwrap();
    process.child.wait().unwrap();
}

/// Writes to processes that read.
struct Spread {
    writer: FanOutWriter<f64>,
    next: u64,
}

impl Spread {
    /// Writes some elements. No write takes longer than the time limit of a reader.
    fn write(&mut self) {
        let next = self.next;
        let write = self.writer.write_with(FEW, WAIT, |space| fill(space, next));
        write.unwrap();
        self.next += FEW as u64;
    }

    /// A connected reader, by the end of its URL.
    fn reader(&self, name: &str) -> Option<PeerStatus> {
        let mut readers = self.writer.readers().into_iter();
        readers.find(|reader| reader.member.url.ends_with(name))
    }
}

/// Behaviour: B-62, B-61.
#[test]
fn killed_reader_frees_its_place_and_does_not_affect_others() {
    let _alone = alone();
    let own = url(address(), "out");
    let read = |name: &str| start(&["read few", &url(address(), name), &own]);
    let stay = ["a", "b"].map(read);
    let mut killed = read("killed 0");
    let options = FanOutOptions {
        options: options(),
        readers_min: PEERS,
        readers_max: PEERS,
        ..FanOutOptions::default()
    };
    let writer = FanOutWriter::create(&own, options).unwrap();
    let mut spread = Spread { writer, next: 0 };
    for number in 0..kills() {
        let name = format!("/killed {number}");
        let end = spread.next + BEFORE + 7 * number;
        while spread.next < end {
            spread.write();
        }
        kill(killed);
        // It never gets any of these.
        spread.write();
        until("the disconnect of the peer", || {
            let there = spread.reader(&name);
            there.is_none_or(|one| !one.is_connected).then_some(())
        });
        let departed: Vec<Undelivered> = until("the departure of the peer", || {
            spread.write();
            let departed = spread.writer.departed();
            (!departed.is_empty()).then_some(departed)
        });
        let [undelivered] = departed.as_slice() else {
            panic!("{departed:?}");
        };
        assert!(undelivered.member.url.ends_with(&name), "{undelivered:?}");
        assert!(undelivered.left.elements >= FEW as u64 && undelivered.lost == 0);
        let fault = undelivered.fault.as_ref();
        let is_gone = matches!(fault, Some(StreamFault::PeerGone { .. }));
        assert!(is_gone, "{undelivered:?}");
        assert!(spread.reader(&name).is_none());
        let others = spread.writer.readers();
        assert!(others.len() == 2 && others.iter().all(|one| one.is_connected));
        let name = format!("killed {}", number + 1);
        killed = read(&name);
        until("the next peer", || {
            spread.write();
            spread.reader(&name)
        });
    }
    let Spread { writer, next } = spread;
    let undelivered = writer.close(WAIT);
    assert_eq!(undelivered.len(), PEERS, "{undelivered:?}");
    for undelivered in &undelivered {
        assert!(undelivered.left.elements == 0 && undelivered.fault.is_none());
    }
    for reader in stay {
        let (code, lines) = reader.end();
        assert_eq!(code, Some(0), "{lines:?}");
        for (what, expected) in [
            ("lost", 0),
            ("again", 0),
            ("altered", 0),
            ("disconnections", 0),
            ("read", next),
        ] {
            assert_eq!(said(&lines, what), expected, "{what}: {lines:?}");
        }
    }
    // The last one began in the middle, and has everything from there on.
    let (code, lines) = killed.end();
    assert_eq!(code, Some(0), "{lines:?}");
    assert_eq!((said(&lines, "again"), said(&lines, "altered")), (0, 0));
    assert_eq!(said(&lines, "read") + said(&lines, "lost"), next);
    report("of one writer", kills());
}

/// The end that writes until its standard input has ended.
pub fn write_on(own: &str, options: Options) -> String {
    let is_enough = Arc::new(OnceLock::new());
    let ends = is_enough.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ends.set(());
    });
    let options = Options {
        capacity: CAPACITY,
        ..options
    };
    let mut writer = Writer::<f64>::create(own, options).unwrap();
    let mut next = 0;
    while is_enough.get().is_none() {
        let write = writer.write_with(FEW, WAIT, |space| fill(space, next));
        write.unwrap();
        next += FEW as u64;
    }
    writer.flush(Until::Read, WAIT).unwrap();
    let disconnections = writer.properties().disconnections;
    let left = writer.close(WAIT).elements;
    format!("written={next} left={left} disconnections={disconnections}")
}

/// Reads from processes that write.
struct Gathered {
    reader: FanInReader<f64>,
    /// Per writer, by the name at the end of its URL.
    tallies: BTreeMap<String, Tally>,
    ended: BTreeMap<String, RunEnd>,
}

impl Gathered {
    /// Reads a run, or the end of a writer.
    fn read(&mut self) {
        let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
        match self.reader.acquire_run(CAPACITY, WAIT).unwrap() {
            Acquired::Elements { writer, elements } => {
                let name = name(&writer.url);
                assert!(!self.ended.contains_key(&name), "behind its end");
                self.tallies.entry(name).or_default().take(&elements);
            }
            Acquired::Ended { writer, end } => {
                let before = self.ended.insert(name(&writer.url), end);
                assert!(before.is_none(), "told twice");
            }
        }
    }

    /// Elements of a writer.
    fn count(&self, name: &str) -> u64 {
        self.tallies.get(name).map_or(0, |tally| tally.next)
    }

    /// Reads until the end of a writer is reported.
    fn read_to_end_of(&mut self, name: &str) {
        until("the end of a writer", || {
            self.read();
            self.ended.contains_key(name).then_some(())
        });
    }

    /// Reads until this many more elements of each of these have arrived.
    fn read_on(&mut self, names: &[&str], count: u64) {
        let ends: Vec<u64> = names.iter().map(|name| self.count(name) + count).collect();
        until("elements of each", || {
            // Many at a time, as it pauses in between.
            (0..100).for_each(|_| self.read());
            let mut counts = names.iter().map(|name| self.count(name)).zip(&ends);
            counts.all(|(count, end)| count >= *end).then_some(())
        });
    }
}

/// Starts a writer that writes until its input is dropped.
fn write(name: &str, to: &str) -> (Running, PipeWriter) {
    let (end, input) = std::io::pipe().unwrap();
    let own = url(address(), name);
    (start_reading(&["write on", &own, to], end.into()), input)
}

/// Behaviour: B-62, B-61.
#[test]
fn killed_writer_frees_its_place_and_does_not_affect_others() {
    let _alone = alone();
    let own = url(address(), "in");
    let stay = ["a", "b"].map(|name| write(name, &own));
    let mut killed = write("killed 0", &own);
    let options = FanInOptions {
        options: options(),
        writers_min: PEERS,
        writers_max: PEERS,
    };
    let mut sut = Gathered {
        reader: FanInReader::create(&own, options).unwrap(),
        tallies: BTreeMap::new(),
        ended: BTreeMap::new(),
    };
    for number in 0..kills() {
        let name = format!("killed {number}");
        sut.read_on(&[&name, "a", "b"], BEFORE + 7 * number);
        kill(killed.0);
        sut.read_to_end_of(&name);
        let end = &sut.ended[&name];
        let is_gone = matches!(end, RunEnd::Fault(StreamFault::PeerGone { .. }));
        assert!(is_gone, "{end:?}");
        let others = sut.reader.writers();
        assert!(others.len() == 2 && others.iter().all(|one| one.is_connected));
        sut.read_on(&["a", "b"], BEFORE);
        let name = format!("killed {}", number + 1);
        killed = write(&name, &own);
        sut.read_on(&[&name], 1);
    }
    let last = format!("killed {}", kills());
    let writers = stay.into_iter().chain([killed]).zip(["a", "b", &last]);
    for ((writer, input), name) in writers {
        drop(input);
        sut.read_to_end_of(name);
        let (code, lines) = writer.end();
        assert_eq!(code, Some(0), "{lines:?}");
        assert_eq!(
            (said(&lines, "left"), said(&lines, "disconnections")),
            (0, 0)
        );
        assert_eq!(sut.ended[name], RunEnd::Closed);
        assert_eq!(sut.count(name), said(&lines, "written"));
    }
    // The elements of each writer began at its first one and have no gap, including those of killed
    // writers.
    assert_eq!(sut.tallies.len() as u64, kills() + 3);
    for (name, tally) in &sut.tallies {
        let Tally {
            lost,
            again,
            altered,
            ..
        } = *tally;
        assert_eq!((lost, again, altered), (0, 0, 0), "{name}");
    }
    report("of one reader", kills());
}

fn report(of: &str, kills: u64) {
    if is_full() {
        let check = format!("B-62, peers {of} killed");
        let figure = format!("elements of others lost, duplicated or altered, {kills} kills");
        record(&check, &figure, "0", "0");
    }
}
