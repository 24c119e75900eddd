//! Regions of a ring: lent in order, returned in any, filled by who never waits.
#![cfg(all(not(loom), target_os = "linux"))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;

use proptest::prelude::*;
use trunkline_ring::{
    NoRegion, Pages, PagesWanted, ReadRegion, RegionFiller, RegionMemory, RegionReader,
};

const ELEMENT: usize = 8;
const CAPACITY: u64 = 1024;

fn ring(lent_max: usize) -> (RegionFiller, RegionReader) {
    let pages = PagesWanted::Ordinary;
    let capacity = CAPACITY as usize;
    let (_, filler, reader) =
        RegionMemory::for_recording(ELEMENT, capacity, pages, lent_max).unwrap();
    (filler, reader)
}

/// Elements that contain their own number.
fn numbers(range: std::ops::Range<u64>) -> Vec<u8> {
    range.flat_map(u64::to_le_bytes).collect()
}

fn numbers_in(region: &ReadRegion) -> Vec<u64> {
    let elements = region.bytes().chunks_exact(ELEMENT);
    elements
        .map(|element| u64::from_le_bytes(element.try_into().unwrap()))
        .collect()
}

/// Behaviour: ZC-05, ZC-10.
#[test]
fn regions_are_lent_from_the_read_position_and_returned_in_any_order() {
    let (mut filler, mut reader) = ring(4);
    assert_eq!(filler.push(&numbers(0..1024)).unwrap(), 1024);
    let mut regions: Vec<ReadRegion> = (0..4).map(|_| reader.acquire(256).unwrap()).collect();
    for (index, region) in regions.iter().enumerate() {
        let first = 256 * index as u64;
        assert_eq!((region.position(), region.elements()), (first, 256));
        assert!(numbers_in(region).into_iter().eq(first..first + 256));
        assert_eq!(region.bytes().as_ptr().addr() % 2048, 0);
    }
    assert_eq!(
        reader.acquire(1).unwrap_err(),
        NoRegion::AllLent { limit: 4 }
    );
    assert_eq!((filler.room().unwrap(), reader.lent()), (0, 4));
    // The last three are returned: the first one still precedes them.
    regions.drain(1..).rev().for_each(ReadRegion::release);
    assert_eq!((filler.room().unwrap(), reader.lent()), (0, 4));
    drop(regions);
    assert_eq!((filler.room().unwrap(), reader.lent()), (1024, 0));
    assert_eq!(
        reader.acquire(1).unwrap_err(),
        NoRegion::NotYet { available: 0 }
    );
}

/// Behaviour: ZC-06.
#[test]
fn region_ends_at_the_end_of_the_memory_and_has_its_length() {
    let (mut filler, mut reader) = ring(4);
    filler.push(&numbers(0..1000)).unwrap();
    assert_eq!(reader.acquire(1000).unwrap().elements(), 1000);
    filler.push(&numbers(1000..1100)).unwrap();
    let before_end = reader.acquire(50).unwrap();
    assert_eq!(before_end.elements(), 24);
    assert!(numbers_in(&before_end).into_iter().eq(1000..1024));
    let behind = reader.acquire(50).unwrap();
    assert_eq!(behind.elements(), 50);
    assert!(numbers_in(&behind).into_iter().eq(1024..1074));
    // Elsewhere it waits for all that were asked for, unless the rest is wanted.
    let error = reader.acquire(50).unwrap_err();
    assert_eq!(error, NoRegion::NotYet { available: 26 });
    let rest = reader.acquire_available(50).unwrap();
    assert!(numbers_in(&rest).into_iter().eq(1074..1100));
}

/// Behaviour: ZC-07.
#[test]
fn regions_that_divide_the_capacity_are_all_of_one_length() {
    let (mut filler, mut reader) = ring(4);
    for round in 0..40_u64 {
        let from = round * 128;
        assert_eq!(filler.push(&numbers(from..from + 128)).unwrap(), 128);
        let region = reader.acquire(128).unwrap();
        assert_eq!(region.elements(), 128);
        assert!(numbers_in(&region).into_iter().eq(from..from + 128));
    }
}

/// Behaviour: ZC-05, ZC-06.
#[test]
fn lost_elements_are_counted_and_reported_at_the_gap() {
    let (mut filler, mut reader) = ring(4);
    assert_eq!(filler.push(&numbers(0..1500)).unwrap(), 1024);
    assert_eq!(filler.push(&numbers(1500..1510)).unwrap(), 0);
    assert_eq!((filler.lost(), filler.overflows()), (486, 1));
    assert_eq!((reader.lost(), reader.overflows()), (486, 1));
    drop(reader.acquire(500).unwrap());
    filler.push(&numbers(1510..1520)).unwrap();
    filler.lose(5);
    filler.push(&numbers(1525..1530)).unwrap();
    assert_eq!((filler.lost(), filler.overflows()), (491, 2));
    let next: Vec<(u64, Vec<u64>)> = std::iter::from_fn(|| reader.acquire_available(4096).ok())
        .map(|region| (region.lost_before(), numbers_in(&region)))
        .collect();
    let expected = [
        (0, (500..1024).collect()),
        (486, (1510..1520).collect()),
        (5, (1525..1530).collect::<Vec<u64>>()),
    ];
    assert_eq!(next, expected);
}

#[test]
fn excess_gaps_are_merged() {
    let (mut filler, mut reader) = ring(4);
    // Each one element and then a gap, until no more gaps can be recorded.
    let mut number = 0_u64;
    for _ in 0..40 {
        filler.push(&numbers(number..number + 1)).unwrap();
        filler.lose(1);
        number += 2;
    }
    let taken = |reader: &mut RegionReader| -> Vec<(u64, Vec<u64>)> {
        std::iter::from_fn(|| reader.acquire_available(4096).ok())
            .map(|region| (region.lost_before(), numbers_in(&region)))
            .collect()
    };
    let mut all = taken(&mut reader);
    filler.push(&numbers(number..number + 1)).unwrap();
    all.extend(taken(&mut reader));
    let mut expected = 0;
    for (lost_before, elements) in &all {
        expected += lost_before;
        for element in elements {
            assert_eq!(*element, expected);
            expected += 1;
        }
    }
    assert_eq!(expected, number + 1);
    let (there, lost) = (filler.written(), filler.lost());
    assert_eq!(there + lost, number + 1);
    assert!(lost > 40, "some came while no gap could be written down");
}

/// Behaviour: ZC-10.
#[test]
fn a_region_outlives_the_end_that_lent_it() {
    let (mut filler, mut reader) = ring(1);
    filler.push(&numbers(0..10)).unwrap();
    let region = reader.acquire(10).unwrap();
    drop(reader);
    drop(filler);
    let region = std::thread::spawn(move || {
        assert!(numbers_in(&region).into_iter().eq(0..10));
        region
    });
    drop(region.join().unwrap());
}

/// Behaviour: ZC-08, ZC-10.
#[test]
fn regions_to_play_are_filled_in_any_order_and_played_in_theirs() {
    let pages = PagesWanted::Ordinary;
    let (_, mut writer, mut drain) = RegionMemory::for_playback(ELEMENT, 1024, pages, 3).unwrap();
    let mut regions: Vec<_> = (0..3).map(|_| writer.acquire(400).unwrap()).collect();
    assert_eq!(regions[2].elements(), 224, "it does not go over the end");
    for (index, region) in regions.iter_mut().enumerate() {
        let from = 400 * index as u64;
        region.fill(&numbers(from..from + region.elements()));
    }
    let mut bytes = vec![0; 300 * ELEMENT];
    regions.drain(1..).rev().for_each(|region| region.finish());
    assert_eq!(drain.take(&mut bytes).unwrap(), 0, "the first is not there");
    assert_eq!((drain.missed(), drain.underruns()), (300, 1));
    regions.pop().unwrap().finish();
    for from in [0, 300, 600] {
        assert_eq!(drain.take(&mut bytes).unwrap(), 300);
        assert_eq!(bytes, numbers(from..from + 300));
    }
    assert_eq!(drain.take(&mut bytes).unwrap(), 124);
    assert_eq!(bytes[..124 * ELEMENT], numbers(900..1024));
    assert_eq!((writer.missed(), writer.underruns()), (300 + 176, 2));
}

/// Behaviour: ZC-08.
#[test]
fn playback_stops_at_an_unfilled_region() {
    let pages = PagesWanted::Ordinary;
    let (_, mut writer, mut drain) = RegionMemory::for_playback(ELEMENT, 1024, pages, 3).unwrap();
    let unfinished = writer.acquire(100).unwrap();
    let mut behind = writer.acquire(100).unwrap();
    behind.fill(&numbers(0..100));
    drop(unfinished);
    behind.finish();
    assert_eq!(writer.acquire(1).unwrap_err(), NoRegion::Abandoned);
    assert_eq!(drain.take(&mut [0; ELEMENT]).unwrap(), 0);
}

/// The name of the test below, and how its other process finds the memory.
const IN_CHILD: &str = "another_process_fills_the_ring";
const PATH: &str = "TRUNKLINE_TEST_REGIONS";

/// Behaviour: ZC-04, ZC-05.
#[test]
fn another_process_fills_the_ring() {
    if let Ok(path) = std::env::var(PATH) {
        return fill_from_the_other_process(&path);
    }
    let memory = RegionMemory::create(ELEMENT, 1024, PagesWanted::LargestAvailable).unwrap();
    // SAFETY: the only end of this kind.
    let mut reader = unsafe { memory.reader(2) };
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&memory.as_fd());
    let path = format!("/proc/{}/fd/{descriptor}", std::process::id());
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args(["--exact", IN_CHILD])
        .env(PATH, path)
        .spawn()
        .unwrap();
    let mut expected = 0;
    while expected < 100_000 {
        match reader.acquire_available(256) {
            Ok(region) => {
                for element in numbers_in(&region) {
                    assert_eq!(element, expected);
                    expected += 1;
                }
            }
            Err(error) => assert_eq!(error, NoRegion::NotYet { available: 0 }),
        }
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(reader.lost(), 0);
}

fn fill_from_the_other_process(path: &str) {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).open(path).unwrap();
    let memory = RegionMemory::accept(file.into()).unwrap();
    assert_eq!(memory.pages(), Pages::UnknownOfPeer);
    // SAFETY: the only end of this kind.
    let mut filler = unsafe { memory.filler() };
    let mut number = 0;
    while number < 100_000 {
        // A device would not look; this one checks that everything arrives.
        let count = filler.room().unwrap().min(100_000 - number);
        filler.push(&numbers(number..number + count)).unwrap();
        number += count;
    }
}

#[test]
fn memory_of_another_process_is_checked_before_it_is_used() {
    let refused = |file: std::os::fd::OwnedFd| RegionMemory::accept(file).unwrap_err().to_string();
    let unsealed = tempfile_of(1 << 13);
    assert!(refused(unsealed).contains("length can be changed"));
    let memory = RegionMemory::create(ELEMENT, 1024, PagesWanted::Ordinary).unwrap();
    let file = || memory.as_fd().try_clone_to_owned().unwrap();
    let same = RegionMemory::accept(file()).unwrap();
    assert_eq!(same.shape(), memory.shape());
    // The end of a process that starts again where the ring has continued. SAFETY: the only end of
    // this kind; the other filler is in another mapping, as another process would be.
    let mut reader = unsafe { memory.reader(1) };
    // SAFETY: as above.
    let mut filler = unsafe { memory.filler() };
    filler.push(&numbers(0..100)).unwrap();
    drop(reader.acquire(100).unwrap());
    // SAFETY: as above.
    let mut liar = unsafe { same.filler() };
    liar.commit(1);
    assert_eq!(reader.acquire(1).unwrap_err(), NoRegion::Corrupt);
}

fn tempfile_of(bytes: u64) -> std::os::fd::OwnedFd {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create(c"other", flags).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    file
}

/// Behaviour: ZC-13.
#[test]
fn ring_has_whole_blocks_and_errors_suggest_a_size() {
    let pages = PagesWanted::Ordinary;
    let error = RegionMemory::create(6, 3000, pages).unwrap_err();
    assert!(
        error.to_string().contains("use 2048 or 4096 elements"),
        "{error}"
    );
    RegionMemory::create(6, 2048, pages).unwrap();
    RegionMemory::create(6, 4096, pages).unwrap();
    assert!(RegionMemory::create(0, 4096, pages).is_err());
    assert!(RegionMemory::create(usize::MAX, 2, pages).is_err());
    let memory = RegionMemory::create(8192, 1, pages).unwrap();
    let (start, bytes) = memory.span();
    assert_eq!((start.as_ptr().addr() % 4096, bytes), (0, 8192));
}

#[test]
fn page_kind_is_reported() {
    let set_aside = || -> u64 {
        let path = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    let create = |wanted| RegionMemory::create(4096, 1024, wanted);
    let ordinary = create(PagesWanted::Ordinary).unwrap();
    assert_eq!(ordinary.pages(), Pages::Ordinary);
    match set_aside() < 3 {
        true => {
            let error = create(PagesWanted::Huge).unwrap_err();
            assert!(error.to_string().contains("vm.nr_hugepages"), "{error}");
            let largest = create(PagesWanted::LargestAvailable).unwrap();
            // It begins where a large page may, and has none but whole ones.
            assert_eq!(largest.span().0.as_ptr().addr() % (2 << 20), 0);
            let is_whole = |bytes: u64| bytes <= 2 << 21 && bytes.is_multiple_of(2 << 20);
            assert!(matches!(largest.pages(), Pages::Large { bytes } if is_whole(bytes)));
        }
        false => assert_eq!(create(PagesWanted::Huge).unwrap().pages(), Pages::Huge),
    }
}

/// A device that delivers bursts, and a program that holds regions for a while.
#[derive(Clone, Debug)]
enum Step {
    Deliver(u64),
    Acquire(u64),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..700_u64).prop_map(Step::Deliver),
        (1..600_u64).prop_map(Step::Acquire),
        (0..8_usize).prop_map(Step::Release),
    ]
}

proptest! {
    /// Behaviour: ZC-05, ZC-06, ZC-10.
    #[test]
    fn every_element_arrives_once_in_order_or_counts_as_lost(
        steps in prop::collection::vec(step(), 1..200)
    ) {
        let (mut filler, mut reader) = ring(4);
        let (mut delivered, mut expected) = (0_u64, 0_u64);
        let mut held: Vec<(u64, ReadRegion)> = Vec::new();
        for step in steps {
            match step {
                Step::Deliver(count) => {
                    let pushed = filler.push(&numbers(delivered..delivered + count)).unwrap();
                    prop_assert!(pushed <= count);
                    delivered += count;
                }
                Step::Acquire(count) => {
                    let Ok(region) = reader.acquire_available(count) else { continue };
                    expected += region.lost_before();
                    held.push((expected, region));
                    expected += held.last().unwrap().1.elements();
                }
                Step::Release(which) => {
                    if which < held.len() {
                        held.swap_remove(which);
                    }
                }
            }
            // A held region does not change, regardless of the device.
            for (first, region) in &held {
                let range = *first..*first + region.elements();
                prop_assert!(numbers_in(region).into_iter().eq(range));
            }
            prop_assert_eq!(filler.written() + filler.lost(), delivered);
        }
        held.clear();
        while let Ok(region) = reader.acquire_available(u64::MAX) {
            expected += region.lost_before() + region.elements();
        }
        // A loss at the very end has nothing after it that could report it.
        prop_assert!(expected <= delivered && expected + filler.lost() >= delivered);
    }
}

#[test]
fn sleeping_reader_is_woken_for_the_awaited_data() {
    let (mut filler, mut reader) = ring(2);
    assert!(reader.wait_for(10).unwrap());
    filler.push(&numbers(0..10)).unwrap();
    assert!(filler.must_wake());
    assert!(!reader.wait_for(10).unwrap());
    let _held = reader.acquire(10).unwrap();
    // Lent elements do not count.
    assert!(reader.wait_for(10).unwrap());
    let reader = Arc::new(reader);
    assert_eq!(reader.lent(), 1);
}
