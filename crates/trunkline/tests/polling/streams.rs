//! Streams whose ends are polled.

use std::thread;
use std::time::Duration;

use trunkline::stream::{
    FanInOptions, FanInReader, FanOutOptions, FanOutWriter, Options, Reader, Run, StreamError,
    Writer,
};

use crate::rig::{Between, CUT_OFF, NO_WAITING, Place, Poller, RHYTHMS, quiet_and_busy};

const LONG: Option<Duration> = Some(CUT_OFF);

/// Number of elements of each stream, more than both buffers hold.
const ELEMENTS: u32 = 100;

/// Number of elements that are awaited at first.
const WAITED_FOR: u32 = 3;

/// How two ends on one machine are connected.
const EITHER_WAY: [bool; 2] = [true, false];

fn options(place: &Place, tcp_only: bool, peer: Option<&str>) -> Options {
    let port = place.engine.local_addrs()[0].port();
    let sockets = place.engine.local_sockets();
    let socket = sockets
        .iter()
        .find(|s| s.as_path().to_string_lossy().contains(&port.to_string()));
    Options {
        peer: peer.map(str::to_owned),
        capacity: 16,
        timeout: LONG,
        directory_port: port,
        sockets: socket.map(|s| s.as_path().parent().unwrap().to_owned()),
        tcp_only,
        ..Options::default()
    }
}

/// A reading call with a time-out of zero: the elements read, `None` at the end of the stream.
type Poll = fn(&mut Reader<u32>) -> Option<Vec<u32>>;

fn or_end(read: Result<Vec<u32>, StreamError>) -> Option<Vec<u32>> {
    match read {
        Ok(read) => Some(read),
        Err(StreamError::Timeout { .. }) => Some(Vec::new()),
        Err(StreamError::Ended) => None,
        Err(error) => panic!("{error}"),
    }
}

fn read_available(reader: &mut Reader<u32>) -> Option<Vec<u32>> {
    or_end(reader.read_available())
}

fn read(reader: &mut Reader<u32>) -> Option<Vec<u32>> {
    or_end(reader.read(NO_WAITING).map(|one| vec![one]))
}

/// Reads everything up to the end of the stream. Returns the longest time without an element.
fn read_all(reader: &mut Reader<u32>, between: Between, poll: Poll) -> Duration {
    let mut poller = Poller::new(between);
    // The background thread leaves the connection to waiting calls that follow each other closely.
    let mut next = WAITED_FOR;
    for element in 0..WAITED_FOR {
        assert_eq!(reader.read(LONG).unwrap(), element);
    }
    loop {
        let found = poller.until("an element, or the end,", || match poll(reader) {
            Some(read) if read.is_empty() => None,
            found => Some(found),
        });
        let Some(found) = found else {
            assert_eq!(next, ELEMENTS);
            return poller.longest();
        };
        for element in found {
            assert_eq!(element, next);
            next += 1;
        }
    }
}

fn polled(poll: Poll) -> Duration {
    let place = Place::new();
    let mut longest = Duration::ZERO;
    for tcp_only in EITHER_WAY {
        for between in RHYTHMS {
            let of_writer = options(&place, tcp_only, Some("polled/in"));
            let of_reader = options(&place, tcp_only, None);
            let writer = thread::spawn(move || {
                let mut writer = Writer::<u32>::create("polled/out", of_writer).unwrap();
                for element in 0..ELEMENTS {
                    writer.write(&element, LONG).unwrap();
                }
                assert_eq!(writer.close(LONG).elements, 0);
            });
            let mut reader = Reader::<u32>::create("polled/in", of_reader).unwrap();
            longest = longest.max(read_all(&mut reader, between, poll));
            writer.join().unwrap();
        }
    }
    longest
}

/// Behaviour: NS-36.
#[test]
fn available_elements_are_read_to_the_end_of_the_stream() {
    quiet_and_busy("read_available", || polled(read_available));
}

#[test]
fn non_blocking_reads_reach_the_end_of_the_stream() {
    quiet_and_busy("stream read", || polled(read));
}

#[test]
fn non_blocking_writes_continue_when_there_is_room() {
    quiet_and_busy("stream write", || {
        let place = Place::new();
        let mut longest = Duration::ZERO;
        for tcp_only in EITHER_WAY {
            for between in RHYTHMS {
                let of_writer = options(&place, tcp_only, Some("polled/in"));
                let of_reader = options(&place, tcp_only, None);
                let reader = thread::spawn(move || {
                    let mut reader = Reader::<u32>::create("polled/in", of_reader).unwrap();
                    for element in 0..ELEMENTS {
                        assert_eq!(reader.read(LONG).unwrap(), element);
                    }
                    reader
                });
                let mut writer = Writer::<u32>::create("polled/out", of_writer).unwrap();
                let mut poller = Poller::new(between);
                for element in 0..ELEMENTS {
                    poller.until("room", || match writer.write(&element, NO_WAITING) {
                        Ok(()) => Some(()),
                        Err(StreamError::Timeout { .. }) => None,
                        Err(error) => panic!("{error}"),
                    });
                }
                assert_eq!(writer.close(LONG).elements, 0);
                longest = longest.max(poller.longest());
                drop(reader.join().unwrap());
            }
        }
        longest
    });
}

/// Behaviour: B-62.
#[test]
fn each_of_several_readers_may_poll() {
    quiet_and_busy("several readers", || {
        let place = Place::new();
        let mut longest = Duration::ZERO;
        for tcp_only in EITHER_WAY {
            for between in RHYTHMS {
                let of_writer = FanOutOptions {
                    options: options(&place, tcp_only, None),
                    readers_min: 2,
                    ..FanOutOptions::default()
                };
                let of_reader = options(&place, tcp_only, Some("polled/all"));
                let writer = thread::spawn(move || {
                    let mut writer = FanOutWriter::<u32>::create("polled/all", of_writer).unwrap();
                    for element in 0..ELEMENTS {
                        writer.write(&element, LONG).unwrap();
                    }
                    assert!(
                        writer
                            .close(LONG)
                            .iter()
                            .all(|undelivered| undelivered.left.elements == 0)
                    );
                });
                let readers = ["polled/a", "polled/b"].map(|url| {
                    let of_reader = of_reader.clone();
                    thread::spawn(move || {
                        let mut reader = Reader::<u32>::create(url, of_reader).unwrap();
                        read_all(&mut reader, between, read_available)
                    })
                });
                for reader in readers {
                    longest = longest.max(reader.join().unwrap());
                }
                writer.join().unwrap();
            }
        }
        longest
    });
}

/// Behaviour: B-62.
#[test]
fn a_reader_of_several_writers_may_poll() {
    quiet_and_busy("several writers", || {
        let place = Place::new();
        let mut longest = Duration::ZERO;
        for tcp_only in EITHER_WAY {
            for between in RHYTHMS {
                let of_reader = FanInOptions {
                    options: options(&place, tcp_only, None),
                    writers_min: 2,
                    ..FanInOptions::default()
                };
                let of_writer = options(&place, tcp_only, Some("polled/in"));
                let writers = ["polled/a", "polled/b"].map(|url| {
                    let of_writer = of_writer.clone();
                    thread::spawn(move || {
                        let mut writer = Writer::<u32>::create(url, of_writer).unwrap();
                        for element in 0..ELEMENTS {
                            writer.write(&element, LONG).unwrap();
                        }
                        assert_eq!(writer.close(LONG).elements, 0);
                    })
                });
                let mut reader = FanInReader::<u32>::create("polled/in", of_reader).unwrap();
                let mut poller = Poller::new(between);
                let (mut elements, mut ends) = (0, 0);
                while ends < 2 {
                    let run = poller.until("a run", || match reader.read_run(8, NO_WAITING) {
                        Ok(run) => Some(run),
                        Err(StreamError::Timeout { .. }) => None,
                        Err(error) => panic!("{error}"),
                    });
                    match run {
                        Run::Elements { elements: run, .. } => elements += run.len(),
                        Run::Ended { .. } => ends += 1,
                    }
                }
                assert_eq!(elements, 2 * ELEMENTS as usize);
                longest = longest.max(poller.longest());
                for writer in writers {
                    writer.join().unwrap();
                }
            }
        }
        longest
    });
}
