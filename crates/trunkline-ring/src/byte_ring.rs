//! A ring of bytes between two programs, in memory that both have mapped.

#[cfg(not(loom))]
use std::any::Any;
use std::ptr::NonNull;

use crate::padded::Padded;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::waits::Waits;

/// The shared header of a byte ring. A header of zeros is an empty ring.
///
/// Positions count bytes since the beginning. The consumer owns the bytes from `head` up to `tail`,
/// the producer owns the rest. Each end stores only its own position in the header, and trusts only
/// its private copy of it. It checks the plausibility of the other end's position, because the
/// other end may be a faulty or hostile program.
///
/// An end with nothing to do announces that it *is waiting* before it sleeps, then checks once
/// more. The other end checks for a waiter after it has moved its position. A full fence between
/// the two steps on each side guarantees that at least one end sees the other. The announcement is
/// a count of waits, which only the waiting end writes. The count shows the other end whether it
/// has already sent a wake-up for this wait.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RingHeader {
    tail: Padded<AtomicU64>,
    head: Padded<AtomicU64>,
    /// Number of times that the consumer has announced that it is waiting.
    consumer_wait_count: Padded<AtomicU64>,
    /// Number of times that the producer has announced that it is waiting.
    producer_wait_count: Padded<AtomicU64>,
}

/// Memory of a byte ring, for one of its two ends.
pub struct RingMemory {
    header: NonNull<RingHeader>,
    bytes: Bytes,
    _owner: Owner,
}

// SAFETY: the header consists of atomics; the bytes are reached only through an end, which is not
// shared; the owner may be dropped by any thread.
unsafe impl Send for RingMemory {}

/// The other end has written invalid positions, so none of its data can be trusted any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the peer has written invalid positions to the shared memory; restart the peer and \
             create the memory again",
        )
    }
}

impl std::error::Error for Corrupt {}

/// The outcome of one step of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    pub count: usize,
    /// True if the other end is waiting for this step and must be woken.
    pub wake: bool,
}

impl RingMemory {
    /// Uses memory that the caller provides, such as a mapping that two programs share. `capacity`,
    /// a power of two, is the number of bytes at `bytes`.
    ///
    /// # Panics
    /// If `capacity` is not a power of two.
    ///
    /// # Safety
    /// `header` and `capacity` bytes at `bytes` are valid for reads and writes, and aligned, for as
    /// long as `owner` lives; they do not overlap. In this program nothing else touches the bytes
    /// except one other end of the opposite kind made from the same memory. Another program may
    /// change any of it at any time.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(
        header: NonNull<RingHeader>,
        bytes: NonNull<u8>,
        capacity: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "the capacity of a byte ring must be a power of two, not {capacity}"
        );
        Self {
            header,
            bytes: Bytes {
                start: bytes,
                len: capacity,
            },
            _owner: owner,
        }
    }

    pub fn producer(self) -> ByteProducer {
        ByteProducer {
            memory: self,
            tail: 0,
            head_seen: 0,
            waits: Waits::default(),
        }
    }

    pub fn consumer(self) -> ByteConsumer {
        ByteConsumer {
            memory: self,
            head: 0,
            tail_seen: 0,
            waits: Waits::default(),
        }
    }

    fn header(&self) -> &RingHeader {
        // SAFETY: valid for as long as the owner lives, and `self` keeps the owner; consists of
        // atomics.
        unsafe { self.header.as_ref() }
    }

    fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn index(&self, position: u64) -> usize {
        // Fits, because it is below the capacity, which is a usize.
        (position & (self.capacity() - 1)) as usize
    }
}

/// Creates a byte ring in private memory, with room for `capacity` bytes.
///
/// # Panics
/// If `capacity` is not a power of two.
pub fn byte_ring(capacity: usize) -> (ByteProducer, ByteConsumer) {
    assert!(
        capacity.is_power_of_two(),
        "the capacity of a byte ring must be a power of two, not {capacity}"
    );
    let owner = Arc::new(InProcess::new(capacity));
    let memory = |owner: &Arc<InProcess>| RingMemory {
        header: NonNull::from(&owner.header),
        bytes: owner.bytes(),
        _owner: owner.clone(),
    };
    (memory(&owner).producer(), memory(&owner).consumer())
}

struct InProcess {
    header: RingHeader,
    slab: Arc<crate::slab::Slab<u8>>,
}

/// Keeps the memory valid.
#[cfg(not(loom))]
type Owner = Arc<dyn Any + Send + Sync>;
#[cfg(loom)]
type Owner = Arc<InProcess>;

impl InProcess {
    fn new(capacity: usize) -> Self {
        Self {
            header: RingHeader::default(),
            slab: Arc::new(crate::slab::Slab::new(capacity)),
        }
    }

    #[cfg(not(loom))]
    fn bytes(&self) -> Bytes {
        Bytes {
            start: self.slab.start(),
            len: self.slab.len(),
        }
    }

    #[cfg(loom)]
    fn bytes(&self) -> Bytes {
        Bytes(self.slab.clone())
    }
}

/// The bytes of a ring. Each byte belongs to one end at a time.
#[cfg(not(loom))]
struct Bytes {
    start: NonNull<u8>,
    len: usize,
}

#[cfg(not(loom))]
impl Bytes {
    fn len(&self) -> usize {
        self.len
    }

    /// # Safety
    /// `at + bytes.len()` is at most the capacity, and the range belongs to the producer.
    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: inside the memory, as the caller guarantees; no slice of this program overlaps
        // it. The other end must not access this range, and one that does so anyway only corrupts
        // bytes.
        unsafe {
            let target = self.start.as_ptr().add(at);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// # Safety
    /// `at + bytes.len()` is at most the capacity, and the range belongs to the consumer.
    unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: inside the memory, as the caller guarantees; every byte is a valid value, even if
        // the other end changes it during the copy, and the copy is out of its reach.
        unsafe {
            let source = self.start.as_ptr().add(at);
            source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }
}

#[cfg(loom)]
struct Bytes(Arc<crate::slab::Slab<u8>>);

#[cfg(loom)]
impl Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: as the caller guarantees; loom reports concurrent access.
        unsafe { self.0.write_slice(at, bytes) };
    }

    unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: as above.
        unsafe { self.0.read_slice(at, bytes) };
    }
}

pub struct ByteProducer {
    memory: RingMemory,
    /// This end's position. The copy in the header is only for the other end.
    tail: u64,
    /// The consumer's position at the last check that accepted it.
    head_seen: u64,
    waits: Waits,
}

impl ByteProducer {
    /// Appends as many bytes of `bytes` as there is room for.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Moved, Corrupt> {
        let room = self.room(bytes.len() as u64)?;
        // Both numbers fit in a usize.
        let count = room.min(bytes.len() as u64) as usize;
        if count == 0 {
            return Ok(Moved { count, wake: false });
        }
        let at = self.memory.index(self.tail);
        let (first, rest) = bytes[..count].split_at(count.min(self.memory.bytes.len() - at));
        // SAFETY: `count` bytes from `tail` on are free, and both parts lie in the ring.
        unsafe {
            self.memory.bytes.write(at, first);
            self.memory.bytes.write(0, rest);
        }
        self.tail = self.tail.wrapping_add(count as u64);
        let header = self.memory.header();
        // SYNC POINT, pairs with the acquire load in `ByteConsumer::waiting`: the bytes are written
        // before the position.
        header.tail.0.store(self.tail, Ordering::Release);
        let wake = self.waits.is_other_waiting(&header.consumer_wait_count.0);
        Ok(Moved { count, wake })
    }

    /// Announces that the producer is about to sleep because the ring is full. From then on the
    /// consumer's next step returns `wake`. Returns false if there is room again; the producer must
    /// not sleep then.
    pub fn wait_for_room(&mut self) -> Result<bool, Corrupt> {
        self.waits
            .announce(&self.memory.header().producer_wait_count.0);
        Ok(self.room(1)? == 0)
    }

    /// Returns the known number of free bytes. Reloads the consumer's position if the number is
    /// less than `wanted`.
    fn room(&mut self, wanted: u64) -> Result<u64, Corrupt> {
        let capacity = self.memory.capacity();
        let used = self.tail.wrapping_sub(self.head_seen);
        if capacity - used >= wanted {
            return Ok(capacity - used);
        }
        // SYNC POINT, pairs with the release store in `ByteConsumer::pop`: the bytes before `head`
        // have been copied out.
        let head = self.memory.header().head.0.load(Ordering::Acquire);
        let now_used = self.tail.wrapping_sub(head);
        // A consumer cannot release bytes that it never received, or take back bytes that it has
        // released.
        if now_used > used {
            return Err(Corrupt);
        }
        self.head_seen = head;
        Ok(capacity - now_used)
    }
}

pub struct ByteConsumer {
    memory: RingMemory,
    /// This end's position. The copy in the header is only for the other end.
    head: u64,
    /// The producer's position at the last check that accepted it.
    tail_seen: u64,
    waits: Waits,
}

impl ByteConsumer {
    /// Copies out as many bytes as are available and fit into `bytes`, oldest first.
    pub fn pop(&mut self, bytes: &mut [u8]) -> Result<Moved, Corrupt> {
        let waiting = self.waiting(bytes.len() as u64)?;
        // Both numbers fit in a usize.
        let count = waiting.min(bytes.len() as u64) as usize;
        if count == 0 {
            return Ok(Moved { count, wake: false });
        }
        let at = self.memory.index(self.head);
        let (first, rest) = bytes[..count].split_at_mut(count.min(self.memory.bytes.len() - at));
        // SAFETY: `count` bytes from `head` on have been written, and both parts lie in the ring.
        unsafe {
            self.memory.bytes.read(at, first);
            self.memory.bytes.read(0, rest);
        }
        self.head = self.head.wrapping_add(count as u64);
        let header = self.memory.header();
        // SYNC POINT, pairs with the acquire load in `ByteProducer::room`: the bytes are copied out
        // before they are released.
        header.head.0.store(self.head, Ordering::Release);
        let wake = self.waits.is_other_waiting(&header.producer_wait_count.0);
        Ok(Moved { count, wake })
    }

    /// Returns true if nothing can be popped now. Returns false for an invalid position.
    pub fn is_empty(&mut self) -> bool {
        self.waiting(1) == Ok(0)
    }

    /// Announces that the consumer is about to sleep because the ring is empty. From then on the
    /// producer's next step returns `wake`. Returns false if bytes have arrived; the consumer must
    /// not sleep then.
    pub fn wait_for_bytes(&mut self) -> Result<bool, Corrupt> {
        self.waits
            .announce(&self.memory.header().consumer_wait_count.0);
        Ok(self.waiting(1)? == 0)
    }

    /// Returns the known number of available bytes. Reloads the producer's position if the number
    /// is less than `wanted`.
    fn waiting(&mut self, wanted: u64) -> Result<u64, Corrupt> {
        let known = self.tail_seen.wrapping_sub(self.head);
        if known >= wanted {
            return Ok(known);
        }
        // SYNC POINT, pairs with the release store in `ByteProducer::push`: the bytes before `tail`
        // have been written.
        let tail = self.memory.header().tail.0.load(Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        // A producer cannot have more bytes in the ring than its capacity, or take back bytes that
        // it has published.
        if waiting > self.memory.capacity() || waiting < known {
            return Err(Corrupt);
        }
        self.tail_seen = tail;
        Ok(waiting)
    }
}

impl std::fmt::Debug for RingMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingMemory")
            .field("capacity", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ByteProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteProducer")
            .field("tail", &self.tail)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ByteConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteConsumer")
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}
