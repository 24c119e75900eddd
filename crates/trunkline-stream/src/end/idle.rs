//! Memory of elements that vary in size, given back while nothing is moved (F25).
//!
//! Only the free part of a ring is: what its producer has not written yet. A reader's inner end is
//! that producer, and is used with the link's lock held. A writer's is its program, without the
//! lock: a program that writes elements of varying size therefore holds the [`Writing`] lock while
//! it does, and whoever gives back does nothing where that is taken.

use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use trunkline_net::StreamMemory;
use trunkline_types::Tick;

/// Held by a program while it writes into a ring whose memory may be given back.
pub(crate) type Writing = Arc<Mutex<()>>;

/// How often somebody looks whether anything was moved: twice that after the last time the memory
/// is given back.
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// The memory of an end's ring, and what was seen of it.
pub(crate) struct Idle {
    memory: Arc<StreamMemory>,
    writing: Writing,
    /// How far it was written and read.
    seen: (u64, u64),
    is_given_back: bool,
}

impl Idle {
    pub(crate) fn new(memory: Arc<StreamMemory>) -> Self {
        Self {
            memory,
            writing: Arc::default(),
            seen: (0, 0),
            // Nothing was touched yet.
            is_given_back: true,
        }
    }

    /// What a program that is the producer holds while it writes.
    pub(super) fn writing(&self) -> Writing {
        self.writing.clone()
    }

    /// From now on the ring lies there.
    pub(super) fn move_to(&mut self, memory: &Arc<StreamMemory>) {
        self.memory = memory.clone();
        self.is_given_back = false;
    }

    /// Asks `place` how far the ring is written, with all that lies in it, and read; gives the rest
    /// back if that is as it was the last time. `shared`: it is that ring instead.
    pub(super) fn look(
        &mut self,
        shared: Option<&Arc<StreamMemory>>,
        place: impl FnOnce() -> Option<(u64, u64)>,
    ) {
        let held = match self.writing.try_lock() {
            Ok(held) => held,
            // It protects nothing that could be half done.
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            // It is not idle.
            Err(TryLockError::WouldBlock) => return,
        };
        let Some((written, read)) = place() else {
            return;
        };
        if (written, read) != self.seen {
            self.seen = (written, read);
            self.is_given_back = false;
        } else if !self.is_given_back {
            let memory = shared.unwrap_or(&self.memory);
            let used = written.saturating_sub(read);
            let free = (memory.shape().bytes_max() as u64).saturating_sub(used);
            memory.give_back(written, free);
            self.is_given_back = true;
        }
        drop(held);
    }
}

/// When to look next.
pub(super) fn next(now: Tick) -> Tick {
    now.saturating_add(LOOK)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::thread;

    use trunkline_ring::{RingShape, RingStart};

    use super::*;

    /// Whoever looks at any moment takes nothing away from a program that writes.
    ///
    /// Behaviour: NS-60.
    #[test]
    fn nothing_is_taken_from_under_a_program_that_writes() {
        let shape = RingShape::variable(64 << 10, 1000).unwrap();
        let memory = StreamMemory::create(shape, RingStart::default(), false).unwrap();
        let mut idle = Idle::new(memory.clone());
        let writing = idle.writing();
        let mut producer = memory.element_memory().producer();
        let mut consumer = memory.element_memory().consumer();
        let mut observer = memory.element_memory().observer();
        let writes = thread::spawn(move || {
            let (mut random, mut total) = (fastrand::Rng::with_seed(1), 0);
            for round in 1..=20_000_u32 {
                let bytes = vec![round as u8 | 1; random.usize(1..20_000)];
                while !{
                    let _held = writing.lock().unwrap();
                    producer.push(&bytes, 1).unwrap()
                } {
                    thread::yield_now();
                }
                total += bytes.len() as u64;
            }
            total
        });
        let reads = thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(1);
            for round in 1..=20_000_u32 {
                let mut bytes = vec![0; random.usize(1..20_000)];
                while !consumer.pull(&mut bytes, 1).unwrap() {
                    thread::yield_now();
                }
                let of_round = |byte: &u8| *byte == round as u8 | 1;
                assert!(bytes.iter().all(of_round), "round {round}");
            }
        });
        let mut given = 0_u64;
        while !reads.is_finished() {
            idle.look(None, || {
                let (written, read) = observer.look().ok()?;
                Some((written.position, read.position))
            });
            given += u64::from(idle.is_given_back);
        }
        reads.join().unwrap();
        assert!(writes.join().unwrap() > 0);
        assert!(given > 10, "it was given back {given} times");
    }
}
