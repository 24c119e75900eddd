//! Tests that elements are written and read in place, by comparing their addresses.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::RingBytes;
use trunkline_types::DataType;

use super::{FanInReader, FanInValueReader, FanOutValueWriter, FanOutWriter};
use crate::fan_bytes::{Acquired, FanInCore, FanInOptions, FanOutCore, FanOutOptions, RunEnd};
use crate::properties::Monitor;
use crate::{Options, Reader, StreamError, Writer};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// The buffer spans several pages, and is not a multiple of [`CALL`].
const CAPACITY: usize = 4096;
const CALL: usize = 1000;

/// Capacity of a reader that stops taking elements.
const FEW: usize = 10;

const SIZE: usize = size_of::<u64>();

/// The address range of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    begin: usize,
    end: usize,
}

impl Place {
    fn of(bytes: &[u8]) -> Self {
        let range = bytes.as_ptr_range();
        Self {
            begin: range.start.addr(),
            end: range.end.addr(),
        }
    }
}

fn unused_url(name: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tl://{}/{name}", listener.local_addr().unwrap())
}

fn options(capacity: usize, peer: Option<&str>) -> Options {
    Options {
        capacity,
        timeout: LONG,
        peer: peer.map(str::to_owned),
        ..Options::default()
    }
}

fn numbers(first: usize, count: usize) -> Vec<u64> {
    (first as u64..(first + count) as u64).collect()
}

/// Writes elements in place, starting with this number, and returns the addresses that were written.
type Fill<W> = fn(&mut W, usize) -> Place;

fn spread<W>(
    create: impl FnOnce(&str, FanOutOptions) -> Result<W, StreamError>,
) -> (W, Vec<Reader<u64>>) {
    let url = unused_url("out");
    let readers = [(); 2].map(|()| {
        let options = options(FEW, Some(&url));
        thread::spawn(move || Reader::create(&unused_url("reader"), options).unwrap())
    });
    let of_writer = FanOutOptions {
        options: options(CAPACITY, None),
        readers_min: 2,
        ..FanOutOptions::default()
    };
    let writer = create(&url, of_writer).unwrap();
    (writer, readers.map(|reader| reader.join().unwrap()).into())
}

/// Checks that each lane sends the elements from the addresses where `fill` has written them. The
/// readers receive only a few elements before the addresses are compared.
fn is_sent_from_there<W>(
    (mut writer, mut readers): (W, Vec<Reader<u64>>),
    fill: Fill<W>,
    core: fn(&W) -> &FanOutCore,
) {
    // Enough rounds for the buffer to wrap several times.
    for round in 0..20 {
        let first = round * CALL;
        let filled = fill(&mut writer, first);
        assert_eq!(filled.end - filled.begin, CALL * SIZE);
        let lanes = core(&writer).hub.current_lanes();
        assert_eq!(lanes.len(), 2);
        for lane in lanes {
            lane.link.with(|end, _, _| {
                end.poll_ring();
                let (at, len) = ((first + FEW) * SIZE, (CALL - FEW) * SIZE);
                let [bytes, rest] = end.inner.bytes(at as u64, len as u64);
                let begin = filled.begin + FEW * SIZE;
                assert_eq!(Place::of(bytes), Place { begin, ..filled }, "{round}");
                assert!(rest.is_empty());
                let elements = numbers(first + FEW, CALL - FEW);
                assert!(bytes == bytemuck::cast_slice::<u64, u8>(&elements));
            });
        }
        for reader in &mut readers {
            for some in numbers(first, CALL).chunks(FEW) {
                assert_eq!(reader.read_many(some.len(), LONG).unwrap(), some);
            }
        }
    }
}

/// Behaviour: B-62.
#[test]
fn each_lane_sends_elements_from_where_they_were_written() {
    let fill = |writer: &mut FanOutWriter<u64>, first| {
        let fill = |space: &mut [u64]| {
            space.copy_from_slice(&numbers(first, CALL));
            Place::of(bytemuck::cast_slice(space))
        };
        writer.write_with(CALL, LONG, fill).unwrap()
    };
    is_sent_from_there(spread(FanOutWriter::create), fill, |writer| &writer.core);
}

/// Behaviour: B-62.
#[test]
fn each_lane_sends_bytes_from_where_they_were_written() {
    let create = |url: &str, options| FanOutValueWriter::create(url, &DataType::U64, options);
    let fill = |writer: &mut FanOutValueWriter, first| {
        let mut place = None;
        let count = writer.write_bytes_with(CALL, LONG, |space| {
            space.copy_from_slice(bytemuck::cast_slice(&numbers(first, CALL)));
            place = Some(Place::of(space));
            Ok::<usize, StreamError>(space.len())
        });
        assert_eq!(count.unwrap(), CALL);
        place.unwrap()
    };
    is_sent_from_there(spread(create), fill, |writer| &writer.core);
}

fn gather<R: Send>(
    create: impl FnOnce(&str, FanInOptions) -> Result<R, StreamError> + Send,
) -> (R, Vec<Writer<u64>>) {
    let url = unused_url("in");
    let of_reader = FanInOptions {
        options: options(CAPACITY, None),
        writers_min: 2,
        ..FanInOptions::default()
    };
    thread::scope(|scope| {
        let reader = scope.spawn(|| create(&url, of_reader).unwrap());
        let writers = [(); 2].map(|()| {
            let options = options(CAPACITY, Some(&url));
            Writer::create(&unused_url("writer"), options).unwrap()
        });
        (reader.join().unwrap(), writers.into())
    })
}

/// The addresses at which the next elements of each writer will arrive, ordered by writer number.
fn arrives_at(core: &FanInCore) -> Vec<Place> {
    let lanes = core.hub.current_lanes();
    let of_lane = lanes.iter().map(|lane| {
        lane.link.with(|end, _, _| {
            let (ring, bytes) = (&mut end.inner.ring, CALL * SIZE);
            assert!(ring.has_room(bytes as u64, CALL as u64).unwrap());
            let [piece, rest] = ring.free_at(ring.written(), bytes).unwrap();
            assert!(rest.is_empty());
            Place::of(piece)
        })
    });
    of_lane.collect()
}

/// Reads one run in place. Returns the number of the writer, the addresses and the elements. Checks
/// the number of waiting elements before the run is dropped.
type Look<R> = fn(&mut R, &Monitor, u64) -> (u64, Place, Vec<u64>);

/// Checks that each run is read from the addresses where the link has stored it, and counts as read
/// when it is dropped.
fn is_read_from_there<R>(
    (mut reader, mut writers): (R, Vec<Writer<u64>>),
    look: Look<R>,
    core: fn(&R) -> &FanInCore,
) {
    let monitor = core(&reader).monitor();
    for round in 0..20 {
        let places = arrives_at(core(&reader));
        // The values show which writer they come from.
        for (writer, first) in writers.iter_mut().zip([round * CALL, 1 << 40]) {
            writer.write_many(&numbers(first, CALL), LONG).unwrap();
            writer.flush(Until::Available, LONG).unwrap();
        }
        for waiting in [2 * CALL, CALL] {
            let (number, place, elements) = look(&mut reader, &monitor, waiting as u64);
            assert!(places.contains(&place), "{round}: copied, from {number}");
            assert_eq!(place, places[number as usize - 1], "{round}");
            let is_first = elements[0] < 1 << 40;
            let first = if is_first { round * CALL } else { 1 << 40 };
            assert!(elements == numbers(first, CALL), "{round}");
            assert_eq!(monitor.properties().in_buffer, (waiting - CALL) as u64);
        }
    }
}

/// Behaviour: B-62.
#[test]
fn run_is_read_from_where_it_arrived() {
    let look = |reader: &mut FanInReader<u64>, monitor: &Monitor, waiting| match reader
        .acquire_run(CAPACITY, LONG)
        .unwrap()
    {
        Acquired::Elements { writer, elements } => {
            assert_eq!(monitor.properties().in_buffer, waiting);
            let place = Place::of(bytemuck::cast_slice(&elements));
            (writer.number, place, elements.to_vec())
        }
        ended => panic!("{ended:?}"),
    };
    let (reader, writers) = gather(FanInReader::create);
    is_read_from_there((reader, writers), look, |reader| &reader.core);
}

/// Behaviour: B-62.
#[test]
fn bytes_of_a_run_are_read_from_where_they_arrived() {
    let create = |url: &str, options| FanInValueReader::create(url, &DataType::U64, options);
    let look = |reader: &mut FanInValueReader, monitor: &Monitor, waiting| match reader
        .acquire_bytes_run(CAPACITY, LONG)
        .unwrap()
    {
        Acquired::Elements { writer, elements } => {
            assert_eq!(monitor.properties().in_buffer, waiting);
            let words = elements.chunks(SIZE);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            (writer.number, Place::of(&elements), words.collect())
        }
        ended => panic!("{ended:?}"),
    };
    is_read_from_there(gather(create), look, |reader| &reader.core);
}

/// Behaviour: B-62.
#[test]
fn run_in_place_is_bounded_and_reports_the_end_of_its_writer() {
    let (mut reader, mut writers) = gather(FanInReader::<u64>::create);
    let of_second = writers.pop().unwrap();
    let mut of_first = writers.pop().unwrap();
    of_first.write_many(&numbers(0, 7), LONG).unwrap();
    assert_eq!(of_first.close(LONG).elements, 0);
    let mut read = Vec::new();
    loop {
        match reader.acquire_run(3, LONG).unwrap() {
            Acquired::Elements { elements, .. } => {
                assert!((1..=3).contains(&elements.len()));
                read.extend_from_slice(&elements);
                assert!(read.len() <= 7, "{read:?}");
            }
            Acquired::Ended { end, .. } => {
                assert_eq!(end, RunEnd::Closed);
                break;
            }
        }
    }
    assert_eq!(read, numbers(0, 7));
    drop(of_second);
    let texts = FanInValueReader::create(
        &unused_url("texts"),
        &DataType::String,
        FanInOptions {
            writers_min: 0,
            ..FanInOptions::default()
        },
    );
    let varying = texts.unwrap().acquire_bytes_run(1, LONG).map(|_| ());
    assert!(
        matches!(varying, Err(StreamError::VariableSize { .. })),
        "{varying:?}"
    );
}
