//! The mark set, in which the engine notes which items have updates to send.

use std::hint::black_box;
use std::time::Instant;

use trunkline_ring::{Cursor, MarkSet};

use super::{Cell, Contender, Timed};
use crate::Outcome;

/// Indices that may be marked.
const INDICES: u32 = 100_000;
/// Distance between two marks of `one-and-take`: a prime, so that every index is used.
const DISTANCE: u64 = 9_973;

/// The uses of each mark.
pub(super) const WHATS: [&str; 4] = ["again", "into-others", "all-and-take", "one-and-take"];

/// The cell of one of [`WHATS`].
pub(super) fn cell(what: &str) -> Outcome<Cell> {
    let set = MarkSet::new();
    for index in 0..INDICES {
        set.ensure(index)?;
    }
    let mut cursor = Cursor::default();
    let mut empty = move |set: &MarkSet, wanted: u64| {
        let mut count = 0;
        let _ = set.take(&mut cursor, usize::MAX, &mut |index| {
            black_box(index);
            count += 1;
        });
        u64::from(count != wanted)
    };
    let case = format!("op=mark what={what}");
    let what = WHATS.iter().position(|known| *known == what);
    let contender = Contender::new("mark-set", move |count| {
        let set = black_box(&set);
        let mut wrong = 0;
        let start = Instant::now();
        match what {
            Some(0) => (0..count).for_each(|_| {
                black_box(set.mark(7));
            }),
            Some(1) => (0..count).for_each(|number| {
                black_box(set.mark(index(number)));
            }),
            Some(2) => {
                for number in 0..count {
                    black_box(set.mark(index(number)));
                    if index(number) == INDICES - 1 {
                        wrong += empty(set, u64::from(INDICES));
                    }
                }
            }
            _ => {
                for number in 0..count {
                    black_box(set.mark(index(number * DISTANCE)));
                    wrong += empty(set, 1);
                }
            }
        }
        let elapsed = start.elapsed();
        let left = match what {
            Some(0) => 1,
            Some(1) => count.min(u64::from(INDICES)),
            Some(2) => count % u64::from(INDICES),
            _ => 0,
        };
        wrong += empty(set, left);
        Timed { elapsed, wrong }
    });
    Ok(Cell {
        case,
        waiting: "none",
        contenders: vec![contender],
    })
}

fn index(number: u64) -> u32 {
    (number % u64::from(INDICES)) as u32
}
