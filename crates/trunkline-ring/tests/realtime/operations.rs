//! The operations of the real-time thread, and those of the thread on the other side.

use std::sync::Arc;

use trunkline_ring::{Cursor, Fifo, FifoReader, LastValue, MarkSet, Reader, RtCell};

/// Something a thread repeats.
pub(crate) type Step = Box<dyn FnMut() + Send>;

/// An operation of the real-time side.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) real_time: Step,
    pub(crate) other_side: Option<Step>,
}

/// An operation with nothing on the other side.
pub(crate) fn alone(name: &'static str, real_time: impl FnMut() + Send + 'static) -> Operation {
    Operation {
        name,
        real_time: Box::new(real_time),
        other_side: None,
    }
}

fn between(
    name: &'static str,
    real_time: impl FnMut() + Send + 'static,
    other_side: impl FnMut() + Send + 'static,
) -> Operation {
    Operation {
        other_side: Some(Box::new(other_side)),
        ..alone(name, real_time)
    }
}

/// Every operation of the real-time side.
pub(crate) fn operations() -> Vec<Operation> {
    [cells(), fifos(), marks()].into_iter().flatten().collect()
}

fn cells() -> Vec<Operation> {
    let write = Arc::new(RtCell::new(4));
    let read = Arc::clone(&write);
    let read_then_write = || (Arc::clone(&write), Arc::clone(&read));
    let (writes, beside_writes) = read_then_write();
    let (reads, beside_reads) = read_then_write();
    let (of_reader, beside_reader) = read_then_write();
    let mut reader = Reader::new(of_reader);

    let last = Arc::new(LastValue::new(4));
    let (last_reads, last_of_reader) = (Arc::clone(&last), Arc::clone(&last));
    let beside_last_reader = Arc::clone(&last);
    let mut last_reader = Reader::new(last_of_reader);
    let publishes = LastValue::new(4);

    vec![
        between(
            "RtCell::write",
            move || _ = writes.write(&[1; 4]),
            move || _ = beside_writes.write(&[2; 4]),
        ),
        between(
            "RtCell::read",
            move || assert!(reads.read(&mut [0; 4]).count < u64::MAX),
            move || _ = beside_reads.write(&[2; 4]),
        ),
        between(
            "Reader::read of an RtCell",
            move || assert_eq!(reader.read().words.len(), 4),
            move || _ = beside_reader.write(&[2; 4]),
        ),
        between(
            "LastValue::read",
            move || assert!(last_reads.read(&mut [0; 4]).count < u64::MAX),
            move || assert!(last.publish(&[3; 4]) > 0),
        ),
        between(
            "Reader::read of a LastValue",
            move || assert_eq!(last_reader.read().words.len(), 4),
            move || assert!(beside_last_reader.publish(&[3; 4]) > 0),
        ),
        alone("LastValue::publish and publish_parts", move || {
            assert!(publishes.publish(&[1; 4]) < publishes.publish_parts(&[1; 3], &[1]))
        }),
    ]
}

fn fifos() -> Vec<Operation> {
    // Small ones, so that full and empty are met as well.
    let pushes = Arc::new(Fifo::new(8, 3));
    let beside_pushes = Arc::clone(&pushes);
    let pops = Arc::new(Fifo::new(8, 3));
    let beside_pops = Arc::clone(&pops);
    let overwrites = Arc::new(Fifo::new(8, 3));
    let beside_overwrites = Arc::clone(&overwrites);
    let parts = Arc::new(Fifo::new(8, 3));
    let beside_parts = Arc::clone(&parts);
    let shows = Arc::new(Fifo::new(8, 3));
    let beside_shows = Arc::clone(&shows);
    let read = Arc::new(Fifo::new(8, 3));
    let mut reader = FifoReader::new(Arc::clone(&read));

    vec![
        between(
            "Fifo::try_push",
            move || _ = pushes.try_push(&[1; 3]),
            move || _ = beside_pushes.try_pop(&mut [0; 3]),
        ),
        between(
            "Fifo::try_pop",
            move || _ = pops.try_pop(&mut [0; 3]),
            move || _ = beside_pops.try_push(&[1; 3]),
        ),
        between(
            "Fifo::push_overwriting",
            move || assert!(overwrites.push_overwriting(&[1; 3]).dropped < u64::MAX),
            move || _ = beside_overwrites.try_pop(&mut [0; 3]),
        ),
        between(
            "Fifo::push_parts_overwriting",
            move || assert!(parts.push_parts_overwriting(&[1; 2], &[1]).0.dropped < u64::MAX),
            move || _ = beside_parts.try_pop(&mut [0; 3]),
        ),
        between(
            "Fifo::try_pop_with",
            move || assert_ne!(shows.try_pop_with(<[u64]>::len), Ok(0)),
            move || _ = beside_shows.try_push_parts(&[1], &[1; 2]),
        ),
        between(
            "FifoReader::read",
            move || assert_eq!(reader.read().words.len(), 3),
            move || _ = read.try_push(&[1; 3]),
        ),
    ]
}

fn marks() -> Vec<Operation> {
    let set = |_| {
        let set = MarkSet::new();
        for index in [0, 5_000, 1_000_000] {
            set.ensure(index).expect("it is not too large");
        }
        Arc::new(set)
    };
    let [marked, drained] = std::array::from_fn(set);
    let (beside_marks, beside_drain) = (Arc::clone(&marked), Arc::clone(&drained));
    let (mut cursor, mut real_time_cursor) = (Cursor::default(), Cursor::default());
    let mark_all = |set: &MarkSet| {
        for index in [0, 5_000, 1_000_000] {
            set.mark(index);
        }
    };
    vec![
        between(
            "MarkSet::mark and unmark",
            move || {
                mark_all(&marked);
                marked.unmark(5_000);
            },
            move || assert!(beside_marks.take(&mut cursor, 2, &mut |_| ()).count <= 2),
        ),
        between(
            "MarkSet::take",
            move || assert!(drained.take(&mut real_time_cursor, 2, &mut |_| ()).count <= 2),
            move || mark_all(&beside_drain),
        ),
    ]
}
