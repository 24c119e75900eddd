//! The slots of a ring of elements: stamps and values, in a layout in which both are on the same
//! cache line.
//!
//! The cost of a ring between two processors is the transfer of cache lines from one to the other.
//! A slot's stamp is therefore one byte, and is on the same line as its value. Slots form groups:
//!
//! ```text
//! small elements, here of 8 bytes: several to a line      large elements: one to a group of lines
//! +--------+----+----+----+----+----+----+----+           +-------+----------------------------+
//! | stamps | e0 | e1 | e2 | e3 | e4 | e5 | e6 |           | stamp | e0                         |
//! +--------+----+----+----+----+----+----+----+           +-------+----------------------------+
//! ```
//!
//! Seven doubles and their stamps fit into one line; with a stamp word for each double, they would
//! take two. A wide element shares no line with the next element, so that writing one does not slow
//! down reading the other. An element of 512 bytes or more does not share a line with its stamp
//! either.
//!
//! Under loom, the same interface uses individual loom cells, so that loom sees every access.

#[cfg(not(loom))]
mod lines;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub(crate) use self::lines::{SlotMemory, Spot};
#[cfg(loom)]
pub(crate) use self::modelled::{SlotMemory, Spot};
