//! Checks that malicious files cause no panic, and use no more memory than their length justifies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    unsafe_code,
    reason = "tests may panic; counting allocations needs a custom allocator"
)]

mod exercise;
mod segments;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use trunkline_tdms::{Fault, Limits, OpenError, TdmsFile, index_of};

use self::exercise::{exercise, exercise_with_companions, read};
use self::segments::{FIRST, I8, I32, META, NEW_LIST, RAW, Segment, segment};

thread_local! {
    /// Number of bytes that this thread has allocated now, and the maximum so far.
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; the counters are plain cells
// of the calling thread, which allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.with(|held| {
            held.set(held.get().wrapping_add(layout.size()));
            PEAK.with(|peak| peak.set(peak.get().max(held.get())));
        });
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get().wrapping_sub(layout.size())));
        // SAFETY: `pointer` came from `alloc` above, that is from the system, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the maximum number of bytes allocated while `run` runs, without earlier allocations.
fn peak_of(run: impl FnOnce()) -> usize {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    run();
    PEAK.with(Cell::get).saturating_sub(before)
}

fn vector(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tdms");
    std::fs::read(folder.join(name)).unwrap()
}

/// Checks the memory that is needed to read files that differ from a vector in one byte.
fn peak_of_flips(name: &str, flips: impl Iterator<Item = u8> + Clone, read: fn(&[u8])) {
    let whole = vector(&format!("{name}.tdms"));
    let mut peak = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        for flip in flips.clone() {
            bytes[at] = whole[at] ^ flip;
            peak = peak.max(peak_of(|| read(&bytes)));
        }
    }
    // The bound includes memory for the findings, which are kept.
    let bound = 72 * 1024 + whole.len();
    assert!(
        peak <= bound,
        "{name}: {peak} bytes were held, {bound} are justified"
    );
}

#[test]
fn any_altered_byte_causes_no_panic() {
    for name in ["one_channel", "five_segments"] {
        peak_of_flips(name, 1..=255, read);
    }
}

#[test]
fn any_flipped_bit_causes_no_panic() {
    for name in ["one_channel", "five_segments", "big_endian_time", "daqmx"] {
        let bits = (0..8).map(|bit| 1 << bit).chain([0xff]);
        peak_of_flips(name, bits, exercise);
    }
}

#[test]
fn altered_companion_files_cause_no_panic() {
    for name in ["one_channel", "five_segments", "big_endian_time", "daqmx"] {
        let whole = vector(&format!("{name}.tdms"));
        for at in 0..=u16::MAX / 64 {
            let altered = [&at.to_le_bytes()[..], &[1 << (at % 8), at as u8]].concat();
            exercise_with_companions(&[whole.clone(), altered].concat());
        }
    }
}

#[test]
fn memory_does_not_depend_on_declared_counts_and_lengths() {
    let huge = [u32::MAX, 0x7fff_ffff, 0x0100_0000];
    for count in huge {
        let mut objects = segment(FIRST).plain("/'g'/'a'", I32, 1);
        objects.objects = count;
        let mut path = segment(FIRST);
        path.objects = 1;
        path.metadata.extend(count.to_le_bytes());
        let mut properties = segment(FIRST).plain("/'g'/'a'", I32, 1);
        let at = properties.metadata.len() - 4;
        properties.metadata[at..].copy_from_slice(&count.to_le_bytes());
        let text = segment(FIRST).plain("/'g'/'a'", I32, 1).with_property(
            b"p",
            0x20,
            &count.to_le_bytes(),
        );
        let mut scalers = segment(FIRST).daqmx("/'g'/'a'", false, (u32::MAX, 1), &[], &[4]);
        let at = scalers.metadata.len() - 16;
        scalers.metadata[at + 4..at + 8].copy_from_slice(&count.to_le_bytes());
        let rows = u64::from(count) << 20;
        let many = segment(FIRST).plain("/'g'/'a'", I32, rows);
        let strings = segment(FIRST).strings("/'g'/'a'", rows, u64::MAX);
        let digital = segment(FIRST).daqmx(
            "/'g'/'a'",
            true,
            (u32::MAX, rows),
            &[(0, 0, 3, 0)],
            &[count],
        );
        for sut in [
            objects, path, properties, text, scalers, many, strings, digital,
        ] {
            for sut in [sut.clone().raw([1; 100]), sut.raw([1; 100]).not_closed()] {
                let bytes = sut.bytes();
                let peak = peak_of(|| exercise(&bytes));
                assert!(peak <= 64 * 1024 + bytes.len(), "{peak} bytes for {sut:?}");
            }
        }
    }
}

#[test]
fn an_index_ends_where_its_file_could_be_no_longer() {
    let header = |segment: Segment| index_of(&segment.bytes());
    let whole = header(
        segment(META | NEW_LIST)
            .plain("/'g'/'a'", I32, 1)
            .says(1_000),
    );
    let open = |index: &[Vec<u8>]| {
        let index = index.concat();
        let file = TdmsFile::open_index(&index, Limits::default()).unwrap();
        let report = file.report();
        (report.segments, report.incomplete.cloned())
    };
    // The largest valid length, so that the metadata of the next one would be out of range.
    for bytes in [u64::MAX, u64::MAX - 1_028 - 28 - 28 - 20] {
        let long = header(segment(META).no_data("/'g'").says(bytes));
        assert_eq!(open(&[whole.clone(), long.clone()]), (2, None));
        let (segments, incomplete) = open(&[whole.clone(), long, whole.clone()]);
        assert_eq!((segments, incomplete.unwrap().fault), (2, Fault::Overflow));
    }
}

fn refusal(bytes: &[u8]) -> Option<Fault> {
    match TdmsFile::open(bytes) {
        Ok(_) => None,
        Err(OpenError::Refused(finding)) => Some(finding.fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn memory_follows_the_length_of_the_file() {
    let empty = segment(META | NEW_LIST).bytes();
    let nothing = segment(0).bytes();
    let tiny = segment(RAW).raw([1]).bytes();
    let begin = |sut: Segment| sut.bytes();
    let many = |count: usize| {
        let names = (0..count).map(|at| format!("/'g'/'{at}'"));
        names.fold(segment(FIRST), |sut, name| sut.plain(&name, I8, 1))
    };
    let wide = many(20_000);
    let cases = [
        ("no bytes", [empty, nothing.repeat(30_000)].concat()),
        (
            "one value each",
            [
                begin(segment(FIRST).plain("/'g'/'a'", I8, 1)),
                tiny.repeat(30_000),
            ]
            .concat(),
        ),
        ("one row each", {
            let row = segment(RAW).raw(vec![1; 20_000]).bytes();
            [begin(wide.clone()), row.repeat(20)].concat()
        }),
        ("many properties", {
            let mut sut = segment(FIRST).no_data("/'g'");
            let at = sut.metadata.len() - 4;
            sut.metadata[at..].copy_from_slice(&50_000_u32.to_le_bytes());
            for number in 0..50_000_u32 {
                sut.metadata.extend(4_u32.to_le_bytes());
                sut.metadata.extend(number.to_le_bytes());
                sut.metadata.extend([0; 4]);
            }
            sut.bytes()
        }),
    ];
    for (name, bytes) in cases {
        let peak = peak_of(|| drop(TdmsFile::open(&bytes).unwrap()));
        let bound = 64 * 1024 + 32 * bytes.len();
        assert!(peak <= bound, "{name}: {peak} for {} bytes", bytes.len());
    }
}

#[test]
fn long_list_that_keeps_changing_is_abandoned() {
    let names = (0..20_000).map(|at| format!("/'g'/'{at}'"));
    let wide = names.fold(segment(FIRST), |sut, name| sut.plain(&name, I8, 1));
    let mut bytes = wide.raw(vec![1; 20_000]).bytes();
    for count in 0..200 {
        let change = segment(META | RAW).plain("/'g'/'7'", I8, count % 2);
        bytes.extend(change.raw([1]).bytes());
    }
    let peak = peak_of(|| assert_eq!(refusal(&bytes), Some(Fault::TooManyChanges)));
    assert!(
        peak <= 64 * 1024 + 32 * bytes.len(),
        "{peak} for {}",
        bytes.len()
    );
}

#[test]
fn long_list_without_data_may_change_in_every_segment() {
    let names = (0..20_000).map(|at| format!("/'g'/'{at}'"));
    let wide = names.fold(segment(FIRST), |sut, name| sut.no_data(&name));
    let mut bytes = wide.bytes();
    for count in 0..2_000 {
        let change = segment(META | RAW).plain("/'g'/'7'", I8, 1 + count % 2);
        bytes.extend(change.raw([1, 2]).bytes());
    }
    assert_eq!(refusal(&bytes), None);
}
