//! The mark set, per mark.

use std::hint::black_box;

use trunkline_ring::{Cursor, MarkSet};

use crate::{Group, nanoseconds_per_call};

const INDICES: u32 = 100_000;
const CALLS: u64 = 10_000_000;

pub(crate) fn run() {
    let set = black_box(Box::leak(Box::new(MarkSet::new())) as &MarkSet);
    for index in 0..INDICES {
        let _ = set.ensure(index);
    }
    let index = |number: u64| (number % u64::from(INDICES)) as u32;
    Group::new("mark set", "index")
        .with("mark one that is marked", move || {
            set.mark(7);
            nanoseconds_per_call(CALLS, |_| {
                black_box(set.mark(7));
            })
        })
        .with("mark into a set that is not empty", move || {
            nanoseconds_per_call(CALLS, |number| {
                black_box(set.mark(index(number)));
            })
        })
        .with("mark 100,000 and take them", move || {
            let mut cursor = Cursor::default();
            nanoseconds_per_call(CALLS, |number| {
                black_box(set.mark(index(number)));
                if index(number) == INDICES - 1 {
                    let _ = black_box(set.take(&mut cursor, usize::MAX, &mut |index| {
                        black_box(index);
                    }));
                }
            })
        })
        .with("mark one and take it", move || {
            let mut cursor = Cursor::default();
            let _ = set.take(&mut cursor, usize::MAX, &mut |_| ());
            nanoseconds_per_call(CALLS, |number| {
                black_box(set.mark(index(number * 9_973)));
                let _ = black_box(set.take(&mut cursor, usize::MAX, &mut |index| {
                    black_box(index);
                }));
            })
        })
        .run();
}
