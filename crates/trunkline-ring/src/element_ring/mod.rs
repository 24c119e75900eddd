//! The buffer of a stream. It carries elements in order from one end to the other, and they are
//! used in place.
//!
//! ```text
//!               read                    written
//!                 v                        v
//!  - - -----------+------------------------+------------------------+- - -
//!   released      |  the consumer's        |  the producer's: room  |
//!  - - -----------+------------------------+------------------------+- - -
//!                 |<- at most bytes_max, and at most capacity elements ->|
//! ```
//!
//! Positions are bytes since the beginning of the stream and only grow. If all elements have the
//! same size, the capacity in elements is also a capacity in bytes. Elements of varying size are
//! counted separately, so the ring has two bounds, bytes and elements.
//!
//! The ring in memory may be larger than the shape allows, because a mapping consists of whole
//! pages. In *mirrored* memory, which is mapped twice in succession, every sequence of bytes is
//! contiguous. In other memory, a sequence that wraps around the end consists of two pieces.
//!
//! Each end has its own position and a copy of the other end's position, which it renews only when
//! the ring looks full or empty. It accepts the other end's position only if it is plausible.

mod cursors;
mod ends;
mod fills;
mod memory;
mod observer;
mod shape;

pub use self::cursors::{ElementCursor, ElementCursors, element_ring_of_many};
pub use self::ends::{ElementConsumer, ElementProducer};
pub use self::fills::SharedFills;
#[cfg(loom)]
pub(crate) use self::memory::private_memory;
pub use self::memory::{ElementHeader, ElementMemory, element_ring};
pub use self::observer::ElementObserver;
pub use self::shape::{RingShape, RingStart};
