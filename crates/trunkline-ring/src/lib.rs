//! Real-time transfer of values between threads, in which neither thread waits.
//!
//! A time-critical thread must not allocate, take a lock, make a system call, or wait for a thread
//! that may have been preempted. It can transfer values through one of these types:
//!
//! | Type | Writers | Readers | What a reader gets |
//! | --- | --- | --- | --- |
//! | [`LastValue`] | one at a time | any | the last complete value |
//! | [`RtCell`] | several, no lock | any | the newest complete value, again and again |
//! | [`Fifo`] | several, no lock | several | the elements in order, each to one reader |
//! | [`byte_ring`], [`RingMemory`] | one | one, perhaps another program | the bytes in order |
//! | [`element_ring`], [`ElementMemory`] | one | one, perhaps another program | the elements in
//! order, where they lie |
//! | [`element_ring_of_many`], [`ElementCursors`] | one | several | all the elements in order, each
//! reader at its own place |
//! | [`RegionFiller`], [`RegionReader`] | a device | one | the elements in order, in pieces that
//! are held for as long as it takes |
//! | [`RegionWriter`], [`RegionDrain`] | one | a device | the elements in order |
//! | [`value_table`], [`TableMemory`] | one at a time for each slot | any, perhaps other programs |
//! the last complete value of a slot |
//! | [`MarkSet`] | several | one | which indices were marked, each once |
//! | [`SlotTable`] | several, with a lock | any, without | what a slot refers to, for as long as it
//! is looked at |
//!
//! [`RtCell`] is the single-element FIFO of a variable, and [`Fifo`] is the multi-element FIFO.
//! Both transfer 64-bit words; the number of words is set at construction. A [`Reader`] or
//! [`FifoReader`] belongs to one thread and remembers the last reading.
//!
//! # The real-time contract
//!
//! - The constructors (and [`MarkSet::ensure`]) allocate all memory and touch its pages, so that
//!   the first access costs the same as later ones.
//! - Every other operation either ends after a bounded number of steps, or repeats a step only
//!   because the step of another thread came first. The section "Progress" of each type states
//!   which. No operation waits: full, empty and busy are results.
//! - A thread that is interrupted at any point, for any length of time, never causes a torn value
//!   and never blocks another thread. The section "Progress" states what it can delay.
//! - A slice of the wrong width is a programming error and causes a panic, like an index out of
//!   bounds.
//!
//! # Layout
//!
//! - [`LastValue`] in `last_value`, with the [`Snapshot`] that a read of any cell returns;
//!   [`RtCell`] in `rt_cell` over the protocol in `four_slots`. [`Reader`] in `reader` stores the
//!   last reading. `words` encodes values, and `whole_word` lists the types that need no encoding.
//! - [`Fifo`] in `fifo` over the protocol in `slot_ring`, which uses the positions in `position`.
//! - `slab` is the memory of a byte ring.
//! - [`byte_ring`] in `byte_ring`: a ring whose other end need not be trusted.
//! - [`element_ring`] in `element_ring`: the buffer of a stream, whose elements are used in place.
//! - [`ReadRegion`] and [`WriteRegion`] in `region`, over [`element_ring`]: the memory from which a
//!   recording is written and into which one is played.
//! - [`TableWriter`] and [`TableReader`] in `value_table`: last values for programs with read-only
//!   access.
//! - [`MarkSet`] in `mark_set`.
//! - [`SlotTable`] in `slot_table`: the only type whose writers take a lock and free memory.
//! - [`advise_large_pages`] in `large_pages`: for memory outside a ring.
//! - `sync` provides the atomics, so that loom can explore every interleaving of them.
#![deny(unsafe_code)]

// One of its ends may be another program.
#[allow(unsafe_code)]
mod byte_ring;
// Its elements are used in place, and its other end may be another program.
#[allow(unsafe_code)]
mod element_ring;
mod fifo;
mod four_slots;
// Advises the system about memory of its caller.
#[allow(unsafe_code)]
mod large_pages;
mod last_value;
mod mark_set;
mod padded;
mod position;
mod reader;
mod rt_cell;
// Its regions are used in place, and its other end may be another program.
#[allow(unsafe_code)]
mod region;
// Each element of a ring belongs to one thread at a time, which the compiler cannot check.
#[allow(unsafe_code)]
mod slab;
#[allow(unsafe_code)]
mod slot_memory;
#[allow(unsafe_code)]
mod slot_ring;
// Its values are read without a reference count and dropped when no reader can reach them.
#[allow(unsafe_code)]
mod slot_table;
mod sync;
mod waits;
// Its memory may be a mapping.
#[allow(unsafe_code)]
mod value_table;
// Reinterprets slices of 64-bit numbers as words.
#[allow(unsafe_code)]
mod whole_word;
mod words;

pub use self::byte_ring::{
    ByteConsumer, ByteProducer, Corrupt, Moved, RingHeader, RingMemory, byte_ring,
};
pub use self::element_ring::{
    ElementConsumer, ElementCursor, ElementCursors, ElementHeader, ElementMemory, ElementObserver,
    ElementProducer, RingShape, RingStart, SharedFills, element_ring, element_ring_of_many,
};
pub use self::fifo::{Fifo, FifoReader, FifoReading};
pub use self::four_slots::CellBusy;
pub use self::large_pages::advise_large_pages;
pub use self::last_value::{LastValue, READ_ATTEMPTS_MAX, Snapshot};
pub use self::mark_set::{Cursor, Drain, IndexTooLarge, MarkSet, Taken};
pub use self::reader::{Reader, Reading, WordCell};
pub use self::region::{
    NoRegion, ReadRegion, RegionDrain, RegionFiller, RegionReader, RegionWriter, WriteRegion,
};
#[cfg(all(not(loom), target_os = "linux"))]
pub use self::region::{Pages, PagesWanted, RegionMemory};
#[cfg(loom)]
pub use self::region::{region_ring_to_play, region_ring_to_record};
pub use self::rt_cell::RtCell;
pub use self::slot_ring::{Empty, Full, Overflow};
pub use self::slot_table::{Pinned, SlotReader, SlotTable};
pub use self::value_table::{
    TABLE_SLOT_BYTES, TABLE_VALUE_BYTES, TableEntry, TableMemory, TableReader, TableSlot,
    TableValue, TableWriter, value_table,
};
pub use self::whole_word::WholeWord;
pub use self::words::{Word, WordArray, Words};
