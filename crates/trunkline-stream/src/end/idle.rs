//! Releases the memory of idle rings whose elements vary in size (F25).
//!
//! Only the free part of a ring is released, into which the ring's producer has not written yet. In a
//! reader, the producer is the inner end of the ring, which is used under the link's lock. In a
//! writer, the producer is the program, which does not take that lock. A program that writes elements
//! of varying size therefore holds the [`WriteLock`] while it writes. The idle check does nothing
//! if that lock is held.

use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use trunkline_net::StreamMemory;
use trunkline_types::Tick;

/// Held by a program while it writes into a ring whose memory may be released.
pub(crate) type WriteLock = Arc<Mutex<()>>;

/// Interval of the idle check. Memory is released at most two intervals after the last change.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The memory of an endpoint's ring, and its state at the last check.
pub(crate) struct Idle {
    memory: Arc<StreamMemory>,
    write_lock: WriteLock,
    /// Positions written and read at the last check.
    last_positions: (u64, u64),
    /// The free part has been released since the positions last changed.
    is_released: bool,
}

impl Idle {
    pub(crate) fn new(memory: Arc<StreamMemory>) -> Self {
        Self {
            memory,
            write_lock: Arc::default(),
            last_positions: (0, 0),
            // No memory has been allocated yet.
            is_released: true,
        }
    }

    /// Returns the lock that a writer's program holds while it writes.
    pub(super) fn write_lock(&self) -> WriteLock {
        self.write_lock.clone()
    }

    pub(super) fn move_to(&mut self, memory: &Arc<StreamMemory>) {
        self.memory = memory.clone();
        self.is_released = false;
    }

    /// Releases the free part of the ring if the ring's positions have not changed since the last
    /// call. `positions` returns the positions written and read; all data of the ring lies between
    /// them. `shared` is the memory of the shared ring, if one is used instead of the endpoint's own.
    pub(super) fn check(
        &mut self,
        shared: Option<&Arc<StreamMemory>>,
        positions: impl FnOnce() -> Option<(u64, u64)>,
    ) {
        let guard = match self.write_lock.try_lock() {
            Ok(guard) => guard,
            // A poisoned lock can be used: it protects no state that a panic could leave inconsistent.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The program is writing, so the ring is not idle.
            Err(TryLockError::WouldBlock) => return,
        };
        let Some((written, read)) = positions() else {
            return;
        };
        if (written, read) != self.last_positions {
            self.last_positions = (written, read);
            self.is_released = false;
        } else if !self.is_released {
            let memory = shared.unwrap_or(&self.memory);
            let used = written.saturating_sub(read);
            let free = (memory.shape().bytes_max() as u64).saturating_sub(used);
            memory.give_back(written, free);
            self.is_released = true;
        }
        drop(guard);
    }
}

pub(super) fn next_check(now: Tick) -> Tick {
    now.saturating_add(CHECK_INTERVAL)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::thread;

    use trunkline_ring::{RingShape, RingStart};

    use super::*;

    /// The idle check never releases memory into which a program is writing.
    ///
    /// Behaviour: NS-60.
    #[test]
    fn memory_in_use_by_a_writer_is_not_released() {
        let shape = RingShape::variable(64 << 10, 1000).unwrap();
        let memory = StreamMemory::create(shape, RingStart::default(), false).unwrap();
        let mut idle = Idle::new(memory.clone());
        let write_lock = idle.write_lock();
        let mut producer = memory.element_memory().producer();
        let mut consumer = memory.element_memory().consumer();
        let mut observer = memory.element_memory().observer();
        let writes = thread::spawn(move || {
            let (mut random, mut total) = (fastrand::Rng::with_seed(1), 0);
            for round in 1..=20_000_u32 {
                let bytes = vec![round as u8 | 1; random.usize(1..20_000)];
                while !{
                    let _guard = write_lock.lock().unwrap();
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
        let mut releases = 0_u64;
        while !reads.is_finished() {
            idle.check(None, || {
                let (written, read) = observer.positions().ok()?;
                Some((written.position, read.position))
            });
            releases += u64::from(idle.is_released);
        }
        reads.join().unwrap();
        assert!(writes.join().unwrap() > 0);
        assert!(releases > 10, "memory was released {releases} times");
    }
}
