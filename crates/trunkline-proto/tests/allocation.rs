//! Memory use of the decoders on untrusted input: at most a small multiple of its size (F16).

#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(unsafe_code, reason = "counting allocations needs a custom allocator")]

#[path = "frames/reencode.rs"]
mod reencode;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trunkline_proto::frame::{Frame, FrameHeader};
use trunkline_proto::message::open::Opened;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::{Updates, UpdatesBuilder};
use trunkline_proto::{FrameBuffer, FrameKind, FrameLimits};
use trunkline_types::Tick;

thread_local! {
    /// Bytes that this thread has allocated, and their peak.
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
        // SAFETY: `pointer` was allocated by `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the peak allocation during `run`, above the level before it.
fn peak_of(run: impl FnOnce()) -> usize {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    run();
    PEAK.with(Cell::get).saturating_sub(before)
}

const SENT: usize = 1 << 20;

/// Size of a pattern: large enough to measure the ratio, small enough to try many.
const PATTERN: usize = 1 << 16;

/// Hostile payloads: 1 MiB of random bytes, and patterns that many decoders accept for a long time.
fn payloads() -> Vec<Vec<u8>> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut payloads = vec![
        (0..SENT).map(|_| noise() as u8).collect(),
        (0..SENT).map(|_| (noise() % 4) as u8).collect(),
        vec![0; SENT],
        vec![0xff; SENT],
    ];
    let patterns: [&[u8]; 9] = [
        &[1, 0],
        &[0, 1],
        &[0, 0, 0],
        &[9, 0],
        &[9, 1, 0],
        &[10, 4, 0, 0, 0, 0],
        &[9, 15, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 2, 0, 0],
        &[0x80, 0x80, 0x80, 0x80, 1],
    ];
    for pattern in patterns {
        for head in [
            &[][..],
            &[0],
            b"TRNK\x01",
            b"TRNK\x01\x01",
            &[0, 0xff, 0xff, 0x3f],
        ] {
            let body = pattern.iter().copied().cycle();
            payloads.push(head.iter().copied().chain(body).take(PATTERN).collect());
        }
    }
    payloads
}

#[test]
fn decoding_hostile_bytes_takes_less_than_four_times_their_size() {
    let payloads = payloads();
    // Buffer for the re-encoded frames, allocated in advance so that it is not counted.
    let mut out = Vec::with_capacity(16 * SENT);
    for kind in FrameKind::ALL {
        for (index, payload) in payloads.iter().enumerate() {
            let (kind, length) = (kind.number(), payload.len() as u32);
            for count in [1, length / 4, length] {
                let header = FrameHeader {
                    length,
                    kind,
                    flags: 0,
                    request: 1,
                    count,
                };
                let frame = Frame::new(header, payload).unwrap();
                out.clear();
                let peak = peak_of(|| drop(reencode::reencode(&frame, &mut out)));
                let what = format!("kind {kind}, payload {index}, {count} items: {peak} bytes");
                assert!(peak < 4 * payload.len(), "{what}");
            }
        }
    }
}

/// Types are the worst case: each label becomes a separate string. Only engines send types, and
/// their limits bound the size of one.
#[test]
fn a_hostile_type_takes_less_than_sixteen_times_its_size() {
    // No fault, handle 1, an inline type: an enum of 65,536 labels.
    let mut payload = vec![0, 0, 0, 2, 1, 15, 0x80, 0x80, 4];
    (0..=u16::MAX).for_each(|label| payload.extend(format!("\u{4}{label:04x}").bytes()));
    payload.push(0);
    let length = payload.len() as u32;
    let kind = FrameKind::Opened.number();
    let header = FrameHeader {
        length,
        kind,
        flags: 0,
        request: 1,
        count: 1,
    };
    let frame = Frame::new(header, &payload).unwrap();
    let peak = peak_of(|| {
        assert!(
            Opened::decode(&frame)
                .unwrap()
                .all(|item| matches!(item, Ok(Ok(_))))
        );
    });
    assert!(peak < 16 * payload.len(), "{peak} bytes for {length}");
}

#[test]
fn a_frame_buffer_takes_at_most_three_times_what_has_arrived() {
    let header = FrameHeader {
        length: SENT as u32,
        kind: 20,
        ..FrameHeader::default()
    };
    let mut sut = FrameBuffer::new(FrameLimits::default());
    let bytes: Vec<u8> = header
        .to_bytes()
        .into_iter()
        .chain(vec![0; SENT - 1])
        .collect();
    let mut arrived = 0;
    for chunk in bytes.chunks(4096) {
        arrived += chunk.len();
        let mut peak = 0;
        let mut input = chunk;
        peak = peak.max(peak_of(|| {
            assert!(sut.next_frame(Tick::ZERO, &mut input).unwrap().is_none());
        }));
        // Growing holds the old buffer and the new one of twice its size for a moment.
        assert!(peak <= 3 * arrived, "{peak} bytes at {arrived}");
    }
    let held = peak_of(|| {
        let mut last = &[0][..];
        assert!(sut.next_frame(Tick::ZERO, &mut last).unwrap().is_some());
        assert!(sut.next_frame(Tick::ZERO, &mut last).unwrap().is_none());
    });
    assert_eq!(held, 0, "completing a frame allocates nothing");
}

#[test]
fn hot_decoders_and_builders_allocate_nothing_per_record() {
    let mut out = Vec::with_capacity(SENT);
    let peak = peak_of(|| {
        let mut builder = UpdatesBuilder::begin(&mut out, 1);
        for handle in 0..10_000 {
            let record = UpdateRecord {
                value: Some(&[0; 8]),
                ..UpdateRecord::nothing_yet(handle)
            };
            builder.push(&record);
        }
        builder.finish();
        let frame = Frame::take_from(&mut out.as_slice()).unwrap().unwrap();
        assert_eq!(
            Updates::decode(&frame).unwrap().map(Result::unwrap).count(),
            10_000
        );
    });
    assert_eq!(peak, 0);
}
