//! The buffer of a stream: elements in order from one end to the other, used where they lie.
//!
//! ```text
//!               read                    written
//!                 v                        v
//!  - - -----------+------------------------+------------------------+- - -
//!   given back    |  the consumer's        |  the producer's: room  |
//!  - - -----------+------------------------+------------------------+- - -
//!                 |<- at most bytes_max, and at most capacity elements ->|
//! ```
//!
//! Positions are bytes since the beginning of the stream and only grow. Elements of one size lie
//! one behind the other, so that the capacity in elements is one in bytes. Elements that vary are
//! counted beside: then there are two bounds, bytes and elements.
//!
//! The ring in memory may be larger than what may lie in it, because a mapping is made of pages.
//! Where the memory is *mirrored*, mapped twice in a row, every run of bytes lies in one piece;
//! where it is not, one that goes over the end of the ring is two.
//!
//! An end keeps its own position, and a copy of the other's that it renews only when the ring looks
//! full, or empty. It believes the other's position only as far as it can be true.

mod bytes;
mod consumer;
mod cursors;
mod fills;
mod memory;
mod observer;
mod producer;
mod shape;

pub use self::consumer::ElementConsumer;
pub use self::cursors::{ElementCursor, ElementCursors, element_ring_of_many};
pub use self::fills::SharedFills;
#[cfg(loom)]
pub(crate) use self::memory::plain;
pub use self::memory::{ElementHeader, ElementMemory, element_ring};
pub use self::observer::ElementObserver;
pub use self::producer::ElementProducer;
pub use self::shape::{RingShape, RingStart};
