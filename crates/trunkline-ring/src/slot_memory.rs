//! The slots of a ring of elements: stamps and values, laid out so that both travel together.
//!
//! The cost of a ring between two processors is the transfer of cache lines from one to the other.
//! A slot's stamp therefore lies on the line of its value, and it is one byte. Slots come in
//! groups:
//!
//! ```text
//! small elements, here of 8 bytes: several to a line      large elements: one to a group of lines
//! +--------+----+----+----+----+----+----+----+           +-------+----------------------------+
//! | stamps | e0 | e1 | e2 | e3 | e4 | e5 | e6 |           | stamp | e0                         |
//! +--------+----+----+----+----+----+----+----+           +-------+----------------------------+
//! ```
//!
//! Seven doubles and their stamps are one line; with a stamp word for each double they would be
//! two. A wide element shares no line with the next, so that writing one does not disturb reading
//! the other. An element of 512 bytes or more does not share a line with its stamp either.
//!
//! Under loom the same interface is built on loom's cells, one by one, so that loom sees every
//! access.

#[cfg(not(loom))]
mod lines;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub(crate) use self::lines::{SlotMemory, Spot};
#[cfg(loom)]
pub(crate) use self::modelled::{SlotMemory, Spot};
