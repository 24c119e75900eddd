//! A table of last values in memory that other programs may have mapped read-only.
//!
//! ```text
//! slot 0      the layout, and a flag that is set while the table is written to
//! slot n      word 0       number of the last complete store, the generation of the slot, the kind
//!                          of entry, length of its value
//!             words 1-7    store of an even number: sequence, source and engine timestamp,
//!                          quality and writer, value
//!             words 8-14   store of an odd number
//! ```
//!
//! The protocol is the same as for [`LastValue`](crate::LastValue): store number *n* fills one half
//! of the slot while readers copy store *n* - 1 out of the other. A reader therefore never waits
//! for a writer, even one that was killed in the middle of a store.

#[cfg(not(loom))]
use std::any::Any;
#[cfg(not(loom))]
use std::ptr::NonNull;

use crate::last_value::{READ_ATTEMPTS_MAX, copy_in, copy_out};
use crate::sync::{Arc, AtomicU64, Ordering, fence};

/// Number of bytes of a slot: two cache lines, so that a store rarely writes to the line that
/// readers copy.
pub const TABLE_SLOT_BYTES: usize = 128;

/// Length of the longest value that a table holds, in bytes.
pub const TABLE_VALUE_BYTES: usize = 24;

/// Highest generation of a slot. The generation distinguishes the successive users of a slot.
pub const TABLE_GENERATION_MAX: u16 = (1 << 11) - 1;

const SLOT_WORDS: usize = TABLE_SLOT_BYTES / 8;
/// Number of words of one half: sequence, two timestamps, quality and writer, value.
const HALF_WORDS: usize = 4 + TABLE_VALUE_BYTES / 8;

/// Identifies the layout and its version. A table with another value is not read.
const MAGIC: u64 = u64::from_le_bytes(*b"TLTAB\0\0\x02");
/// Values of the second word of slot 0.
const CURRENT: u64 = 1;
const ENDED: u64 = 2;

/// Layout of word 0 of a slot: the state of the last store is above the length of its value.
const STATE_SHIFT: u32 = 5;
const LENGTH_MASK: u64 = (1 << STATE_SHIFT) - 1;
const STATE_MASK: u64 = 0b111;
const GENERATION_SHIFT: u32 = 8;
const GENERATION_MASK: u64 = TABLE_GENERATION_MAX as u64;
const COUNT_SHIFT: u32 = 19;
const _: () = assert!(GENERATION_MASK << GENERATION_SHIFT < 1 << COUNT_SHIFT);
const STATE_VALUE: u64 = 1;
const STATE_ELSEWHERE: u64 = 2;
const STATE_GONE: u64 = 3;

/// One slot. A slot of zeros is a slot into which nothing was stored.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct TableSlot {
    words: [AtomicU64; SLOT_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<TableSlot>() == TABLE_SLOT_BYTES);
const _: () = assert!(2 * HALF_WORDS < SLOT_WORDS);

/// A value with its timestamps, quality, writer and sequence, in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableValue {
    pub sequence: u64,
    /// Source timestamp in nanoseconds.
    pub source_timestamp: i64,
    /// Engine timestamp in nanoseconds.
    pub engine_timestamp: i64,
    pub quality: u32,
    /// Number of the session that wrote it.
    pub writer: u32,
    /// The value's bytes, little-endian, padded with zeros.
    pub value: [u64; TABLE_VALUE_BYTES / 8],
    /// Length of the value in bytes, at most [`TABLE_VALUE_BYTES`].
    pub length: usize,
}

/// The content of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableEntry {
    Value(TableValue),
    /// There is a value, but it is not in the table, because it is too long or not visible to all
    /// readers.
    Elsewhere,
    /// There will be no further value.
    Gone,
}

/// The memory of a table, for its writer or a reader.
pub struct TableMemory(Slots);

#[cfg(not(loom))]
struct Slots {
    start: NonNull<TableSlot>,
    len: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

/// loom's atomics differ in size and need its own heap.
#[cfg(loom)]
struct Slots(Arc<Vec<TableSlot>>);

// SAFETY: the slots consist of atomics and are valid for as long as the owner lives; any thread may
// drop the owner.
#[cfg(not(loom))]
unsafe impl Send for Slots {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Slots {}

/// The writer of a table. Any thread may store. Callers must ensure that at most one thread at a
/// time stores into the same slot.
///
/// # Progress
/// Every operation is wait-free.
pub struct TableWriter(TableMemory);

/// The reader of a table. The memory is not trusted: the values read may be wrong, but no content
/// causes undefined behaviour or a panic.
///
/// # Progress
/// Every operation is wait-free.
pub struct TableReader(TableMemory);

impl TableMemory {
    /// Uses memory that the caller provides, such as a mapping.
    ///
    /// # Safety
    /// `len` slots at `start` are aligned and valid for reads for as long as `owner` lives, and for
    /// writes if a [`TableWriter`] is created from them. This program accesses them only through
    /// ends created from this memory; another program may change them at any time.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(
        start: NonNull<TableSlot>,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self(Slots {
            start,
            len,
            _owner: owner,
        })
    }

    /// Initialises zeroed memory as a table and returns its writer.
    pub fn writer(self) -> TableWriter {
        if let Some(first) = self.slot(0) {
            first.words[1].store(CURRENT, Ordering::Relaxed);
            first.words[0].store(MAGIC, Ordering::Release);
        }
        TableWriter(self)
    }

    /// Returns a reader if the memory has been initialised as a table.
    pub fn reader(self) -> Option<TableReader> {
        let magic = self.slot(0)?.words[0].load(Ordering::Acquire);
        (magic == MAGIC).then_some(TableReader(self))
    }

    #[inline]
    fn slot(&self, index: usize) -> Option<&TableSlot> {
        self.0.get(index)
    }
}

#[cfg(not(loom))]
impl Slots {
    #[inline]
    fn get(&self, index: usize) -> Option<&TableSlot> {
        // SAFETY: inside the memory, which is valid for as long as the owner lives and consists
        // only of atomics, for which every bit pattern is a valid value.
        (index < self.len).then(|| unsafe { self.start.add(index).as_ref() })
    }

    fn len(&self) -> usize {
        self.len
    }
}

#[cfg(loom)]
impl Slots {
    fn get(&self, index: usize) -> Option<&TableSlot> {
        self.0.get(index)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Creates a table of `slots` slots in private memory, and a reader for it.
///
/// # Panics
/// If `slots` is 0.
#[track_caller]
pub fn value_table(slots: usize) -> (TableWriter, TableReader) {
    assert!(slots > 0, "a table has at least the slot that describes it");
    let empty = || TableSlot {
        words: std::array::from_fn(|_| AtomicU64::new(0)),
    };
    let owner: Arc<Vec<TableSlot>> = Arc::new((0..slots).map(|_| empty()).collect());
    #[cfg(not(loom))]
    let memory = || {
        TableMemory(Slots {
            // The pointer is valid for all slots, not only for the first.
            start: NonNull::from(owner.as_slice()).cast(),
            len: slots,
            _owner: owner.clone(),
        })
    };
    #[cfg(loom)]
    let memory = || TableMemory(Slots(owner.clone()));
    let writer = memory().writer();
    (writer, TableReader(memory()))
}

impl TableWriter {
    /// Returns the highest index that can be stored into, plus one; the lowest index is 1.
    pub fn end(&self) -> usize {
        self.0.0.len()
    }

    /// Stores `entry` at `index` for readers of this generation. An index outside the table is
    /// ignored.
    pub fn store(&self, index: usize, generation: u16, entry: &TableEntry) {
        let Some(slot) = self.0.slot(index).filter(|_| index > 0) else {
            return;
        };
        // Only the thread that stores into this slot changes it.
        let count = (slot.words[0].load(Ordering::Relaxed) >> COUNT_SHIFT).wrapping_add(1);
        // SYNC POINT, pairs with the acquire fence in `try_read`. The half about to be overwritten
        // holds store `count - 2`. A reader that sees any word stored below must afterwards see
        // `count - 1` published, and so know that its copy is no longer that store's.
        fence(Ordering::Release);
        let (state, length) = match entry {
            TableEntry::Value(value) => {
                copy_in(half(slot, count), &value.to_words());
                (STATE_VALUE, value.length.min(TABLE_VALUE_BYTES) as u64)
            }
            TableEntry::Elsewhere => (STATE_ELSEWHERE, 0),
            TableEntry::Gone => (STATE_GONE, 0),
        };
        // SYNC POINT, pairs with the acquire load in `try_read`: the words are stored before the
        // number.
        let generation = u64::from(generation) & GENERATION_MASK;
        let about = generation << GENERATION_SHIFT | state << STATE_SHIFT | length;
        let word = count << COUNT_SHIFT | about;
        slot.words[0].store(word, Ordering::Release);
    }

    /// Marks the table as no longer written to, so that readers do not treat its values as current.
    pub fn finish(&self) {
        if let Some(first) = self.0.slot(0) {
            first.words[1].store(ENDED, Ordering::Release);
        }
    }
}

impl TableReader {
    /// Returns the highest index plus one.
    pub fn end(&self) -> usize {
        self.0.0.len()
    }

    /// Returns true while the table is written to.
    #[inline]
    pub fn is_current(&self) -> bool {
        let first = self.0.slot(0);
        first.is_some_and(|first| first.words[1].load(Ordering::Acquire) == CURRENT)
    }

    /// Returns the entry at `index` while the table is [current](Self::is_current). Returns `None`
    /// if nothing of this generation is stored there, the table has ended, or stores overtook this
    /// reader [`READ_ATTEMPTS_MAX`] times. The caller must then get the value by other means.
    #[inline]
    pub fn read(&self, index: usize, generation: u16) -> Option<TableEntry> {
        let slot = self.0.slot(index).filter(|_| index > 0)?;
        let entry = try_read(slot, generation).or_else(|| read_again(slot, generation))?;
        // Check after the copy: if the table is still current, the copy is the latest value.
        self.is_current().then_some(entry)
    }
}

/// Makes the attempts after the first.
#[cold]
#[inline(never)]
fn read_again(slot: &TableSlot, generation: u16) -> Option<TableEntry> {
    (1..READ_ATTEMPTS_MAX).find_map(|_| try_read(slot, generation))
}

/// Makes one attempt; returns `None` if there is no entry, or a store overtook it.
#[inline]
fn try_read(slot: &TableSlot, generation: u16) -> Option<TableEntry> {
    let word = slot.words[0].load(Ordering::Acquire);
    if word >> GENERATION_SHIFT & GENERATION_MASK != u64::from(generation) {
        return None;
    }
    match word >> STATE_SHIFT & STATE_MASK {
        STATE_VALUE => {}
        STATE_ELSEWHERE => return Some(TableEntry::Elsewhere),
        STATE_GONE => return Some(TableEntry::Gone),
        _ => return None,
    }
    let length = (word & LENGTH_MASK) as usize;
    if length > TABLE_VALUE_BYTES {
        return None;
    }
    let mut words = [0; HALF_WORDS];
    copy_out(half(slot, word >> COUNT_SHIFT), &mut words);
    // SYNC POINT, pairs with the release fence in `store`: if one of the words copied came from
    // store `count + 2`, then the load below finds at least `count + 1`.
    fence(Ordering::Acquire);
    let is_last_still = slot.words[0].load(Ordering::Relaxed) == word;
    is_last_still.then(|| TableEntry::Value(TableValue::from_words(&words, length)))
}

/// Returns the half of a slot that store number `count` uses.
#[inline]
fn half(slot: &TableSlot, count: u64) -> &[AtomicU64] {
    let first = if count.is_multiple_of(2) {
        1
    } else {
        1 + HALF_WORDS
    };
    &slot.words[first..][..HALF_WORDS]
}

impl TableValue {
    /// Returns all bytes; the value is the first [`length`](Self::length) of them.
    #[inline]
    pub fn bytes(&self) -> [u8; TABLE_VALUE_BYTES] {
        let mut bytes = [0; TABLE_VALUE_BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.value) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[inline]
    fn to_words(self) -> [u64; HALF_WORDS] {
        let [first, second, third] = self.value;
        [
            self.sequence,
            self.source_timestamp as u64,
            self.engine_timestamp as u64,
            u64::from(self.quality) | u64::from(self.writer) << 32,
            first,
            second,
            third,
        ]
    }

    #[inline]
    fn from_words(words: &[u64; HALF_WORDS], length: usize) -> Self {
        let [sequence, source, engine, about, first, second, third] = *words;
        Self {
            sequence,
            source_timestamp: source as i64,
            engine_timestamp: engine as i64,
            quality: about as u32,
            writer: (about >> 32) as u32,
            value: [first, second, third],
            length,
        }
    }
}

macro_rules! short_debug {
    ($($type:ident),*) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    )*};
}

short_debug!(TableMemory, TableWriter, TableReader);
