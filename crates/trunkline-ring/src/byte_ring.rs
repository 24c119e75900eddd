//! A ring of bytes between two programs, in memory that both have mapped.

#[cfg(not(loom))]
use std::any::Any;
use std::ptr::NonNull;

use crate::padded::Padded;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::waits::Waits;

/// What the two ends of a byte ring share beside its bytes. All zero is an empty ring.
///
/// Positions count bytes since the beginning. Bytes from `head` up to `tail` are the consumer's,
/// the rest the producer's. Each end stores its own position only, keeps a copy that it trusts, and
/// believes the other's only as far as it can be true: the other end may be a program that is
/// broken, or wants to break this one.
///
/// An end that finds nothing to do says that it *waits* before it sleeps, and looks once more. The
/// other end, having moved its position, looks whether anyone waits. A full fence on both sides
/// between the two steps makes sure that one of them sees the other. What an end says is how often
/// it has waited, so that the other knows whether it has woken it for that already, and nobody but
/// the end itself writes it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RingHeader {
    tail: Padded<AtomicU64>,
    head: Padded<AtomicU64>,
    /// How often the consumer has waited, and the producer.
    consumer_waits: Padded<AtomicU64>,
    producer_waits: Padded<AtomicU64>,
}

/// Memory of a byte ring, for one of its two ends.
pub struct RingMemory {
    header: NonNull<RingHeader>,
    bytes: Bytes,
    _owner: Owner,
}

// SAFETY: the header is made of atomics; the bytes are reached only through an end, which is not
// shared; the owner may be dropped by any thread.
unsafe impl Send for RingMemory {}

/// The other end has written positions that cannot be true. Nothing it says can be believed any
/// more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the program at the other end of this memory has written positions that cannot be \
             true; end it, and make the memory anew",
        )
    }
}

impl std::error::Error for Corrupt {}

/// What one step of an end came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Bytes moved.
    pub count: usize,
    /// The other end waits for just that and is to be woken.
    pub wake: bool,
}

impl RingMemory {
    /// Memory at a place of the caller's choice, such as a mapping that two programs share.
    /// `capacity`, a power of two, is the number of bytes at `bytes`.
    ///
    /// # Panics
    /// `capacity` is not a power of two.
    ///
    /// # Safety
    /// `header` and `capacity` bytes at `bytes` are valid for reads and writes, and aligned, for as
    /// long as `owner` lives; they do not overlap. In this program nobody else touches the bytes,
    /// except one other end made of the same memory, which is of the other kind; another program
    /// may change any of it at any time.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(
        header: NonNull<RingHeader>,
        bytes: NonNull<u8>,
        capacity: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "a byte ring has a power of two as its capacity, not {capacity}"
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

    /// The end that bytes go into.
    #[must_use]
    pub fn producer(self) -> ByteProducer {
        ByteProducer {
            memory: self,
            tail: 0,
            head_seen: 0,
            waits: Waits::default(),
        }
    }

    /// The end that bytes come out of.
    #[must_use]
    pub fn consumer(self) -> ByteConsumer {
        ByteConsumer {
            memory: self,
            head: 0,
            tail_seen: 0,
            waits: Waits::default(),
        }
    }

    fn header(&self) -> &RingHeader {
        // SAFETY: valid for as long as the owner lives, which this keeps; made of atomics.
        unsafe { self.header.as_ref() }
    }

    fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Where `position` lies.
    fn index(&self, position: u64) -> usize {
        // Below the capacity, which is a usize.
        (position & (self.capacity() - 1)) as usize
    }
}

/// A byte ring in the memory of this program alone, with room for `capacity` bytes.
///
/// # Panics
/// `capacity` is not a power of two.
#[must_use]
pub fn byte_ring(capacity: usize) -> (ByteProducer, ByteConsumer) {
    assert!(
        capacity.is_power_of_two(),
        "a byte ring has a power of two as its capacity, not {capacity}"
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

/// What keeps the memory where it is.
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

/// The bytes of a ring, each of which belongs to one end at a time.
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
    /// `at + bytes.len()` is at most the capacity, and the range is the producer's.
    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: inside the memory, as the caller vouches; no slice of this program overlaps it.
        // The other end has no business there, and one that has all the same only spoils bytes.
        unsafe {
            let target = self.start.as_ptr().add(at);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// # Safety
    /// `at + bytes.len()` is at most the capacity, and the range is the consumer's.
    unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: inside the memory, as the caller vouches; every byte is a value, whatever the
        // other end does to it during the copy, and from then on it is out of its reach.
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
        // SAFETY: as the caller vouches; loom reports who is not alone.
        unsafe { self.0.write_slice(at, bytes) };
    }

    unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: as above.
        unsafe { self.0.read_slice(at, bytes) };
    }
}

/// The end of a byte ring that bytes go into.
pub struct ByteProducer {
    memory: RingMemory,
    /// Own position; what stands in the header is for the other end.
    tail: u64,
    /// The consumer's position as last believed.
    head_seen: u64,
    waits: Waits,
}

impl ByteProducer {
    /// Appends as many of `bytes` as there is room for.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Moved, Corrupt> {
        let room = self.room(bytes.len() as u64)?;
        // Both at most a usize.
        let count = room.min(bytes.len() as u64) as usize;
        if count == 0 {
            return Ok(Moved { count, wake: false });
        }
        let at = self.memory.index(self.tail);
        let (first, rest) = bytes[..count].split_at(count.min(self.memory.bytes.len() - at));
        // SAFETY: `count` bytes from `tail` on are free, and the two parts lie in the ring.
        unsafe {
            self.memory.bytes.write(at, first);
            self.memory.bytes.write(0, rest);
        }
        self.tail = self.tail.wrapping_add(count as u64);
        let header = self.memory.header();
        // SYNC POINT, pairs with the acquire load in `ByteConsumer::waiting`: the bytes before the
        // position.
        header.tail.0.store(self.tail, Ordering::Release);
        let wake = self.waits.is_other_waiting(&header.consumer_waits.0);
        Ok(Moved { count, wake })
    }

    /// The producer is about to sleep because there is no room: from now on the consumer's next
    /// step says `wake`. False when there is room by now; then it is not to sleep.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    pub fn wait_for_room(&mut self) -> Result<bool, Corrupt> {
        self.waits.say(&self.memory.header().producer_waits.0);
        Ok(self.room(1)? == 0)
    }

    /// Free bytes as far as known, after another look if that is less than `wanted`.
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
        // A consumer cannot give bytes back that it never got, nor take back what it gave.
        if now_used > used {
            return Err(Corrupt);
        }
        self.head_seen = head;
        Ok(capacity - now_used)
    }
}

/// The end of a byte ring that bytes come out of.
pub struct ByteConsumer {
    memory: RingMemory,
    /// Own position; what stands in the header is for the other end.
    head: u64,
    /// The producer's position as last believed.
    tail_seen: u64,
    waits: Waits,
}

impl ByteConsumer {
    /// Copies as many bytes out as there are and `bytes` has room for, oldest first.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn pop(&mut self, bytes: &mut [u8]) -> Result<Moved, Corrupt> {
        let waiting = self.waiting(bytes.len() as u64)?;
        // Both at most a usize.
        let count = waiting.min(bytes.len() as u64) as usize;
        if count == 0 {
            return Ok(Moved { count, wake: false });
        }
        let at = self.memory.index(self.head);
        let (first, rest) = bytes[..count].split_at_mut(count.min(self.memory.bytes.len() - at));
        // SAFETY: `count` bytes from `head` on have been written, and the two parts lie in the
        // ring.
        unsafe {
            self.memory.bytes.read(at, first);
            self.memory.bytes.read(0, rest);
        }
        self.head = self.head.wrapping_add(count as u64);
        let header = self.memory.header();
        // SYNC POINT, pairs with the acquire load in `ByteProducer::room`: copied out before given
        // back.
        header.head.0.store(self.head, Ordering::Release);
        let wake = self.waits.is_other_waiting(&header.producer_waits.0);
        Ok(Moved { count, wake })
    }

    /// Whether nothing can be popped now; a position that cannot be true counts as something.
    #[must_use]
    pub fn is_empty(&mut self) -> bool {
        self.waiting(1) == Ok(0)
    }

    /// The consumer is about to sleep because there is nothing: from now on the producer's next
    /// step says `wake`. False when there is something by now; then it is not to sleep.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn wait_for_bytes(&mut self) -> Result<bool, Corrupt> {
        self.waits.say(&self.memory.header().consumer_waits.0);
        Ok(self.waiting(1)? == 0)
    }

    /// Bytes there are as far as known, after another look if that is less than `wanted`.
    fn waiting(&mut self, wanted: u64) -> Result<u64, Corrupt> {
        let known = self.tail_seen.wrapping_sub(self.head);
        if known >= wanted {
            return Ok(known);
        }
        // SYNC POINT, pairs with the release store in `ByteProducer::push`: the bytes before `tail`
        // have been written.
        let tail = self.memory.header().tail.0.load(Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        // A producer cannot have more in the ring than fits, nor take back what it gave.
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
