//! Every interleaving of a device and of those who hold its regions.
//!
//! loom checks the bytes too: it reports who writes what another one reads.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::thread;
use trunkline_ring::{ReadRegion, RingShape, region_ring_to_play, region_ring_to_record};

fn first(region: &ReadRegion) -> u8 {
    let mut bytes = [0];
    region.read_into(&mut bytes);
    bytes[0]
}

/// Behaviour: ZC-05, ZC-10.
#[test]
fn device_never_overwrites_a_held_region() {
    loom::model(|| {
        let shape = RingShape::fixed(1, 2).unwrap();
        let (mut filler, mut reader) = region_ring_to_record(shape, 2);
        assert_eq!(filler.push(&[1, 2]).unwrap(), 2);
        let one = reader.acquire(1).unwrap();
        let two = reader.acquire(1).unwrap();
        let holder = thread::spawn(move || {
            assert_eq!(first(&one), 1);
            drop(one);
        });
        let device = thread::spawn(move || {
            let pushed = filler.push(&[3]).unwrap();
            assert_eq!(pushed + filler.lost(), 1);
        });
        assert_eq!(first(&two), 2);
        drop(two);
        holder.join().unwrap();
        device.join().unwrap();
        assert_eq!(reader.lent(), 0);
    });
}

/// Behaviour: ZC-05.
#[test]
fn gap_is_known_before_the_data_after_it() {
    loom::model(|| {
        let shape = RingShape::fixed(1, 2).unwrap();
        let (mut filler, mut reader) = region_ring_to_record(shape, 1);
        let device = thread::spawn(move || {
            filler.push(&[0]).unwrap();
            filler.lose(1);
            filler.push(&[2]).unwrap();
            // There is one gap that can be written down.
            filler.lose(1);
            filler.push(&[4]).unwrap();
        });
        let mut expected = 0;
        for _ in 0..2 {
            let Ok(region) = reader.acquire_available(2) else {
                continue;
            };
            expected += region.lost_before();
            assert_eq!(u64::from(first(&region)), expected);
            expected += region.elements();
        }
        device.join().unwrap();
    });
}

/// Behaviour: ZC-08, ZC-10.
#[test]
fn regions_filled_by_two_threads_are_played_in_order() {
    loom::model(|| {
        let shape = RingShape::fixed(1, 2).unwrap();
        let (mut writer, mut drain) = region_ring_to_play(shape, 2);
        let mut one = writer.acquire(1).unwrap();
        let mut two = writer.acquire(1).unwrap();
        let filling = thread::spawn(move || {
            one.fill(&[1]);
            one.finish();
        });
        let playing = thread::spawn(move || {
            let mut bytes = [0; 2];
            let count = drain.take(&mut bytes).unwrap();
            assert_eq!(bytes[..count as usize], [1, 2][..count as usize]);
            assert_eq!(drain.missed(), 2 - count);
        });
        two.fill(&[2]);
        two.finish();
        filling.join().unwrap();
        playing.join().unwrap();
    });
}
