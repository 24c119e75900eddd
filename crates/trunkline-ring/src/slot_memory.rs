//! The slots of a ring of elements: stamps and values, laid out so that both travel together.
//!
//! What a ring between two processors costs is the cache lines that go from one to the other. So a
//! slot's stamp lies on the line of its value, and it is one byte. Slots come in groups:
//!
//! ```text
//! small elements, here of 8 bytes: several to a line      large elements: one to a group of lines
//! +--------+----+----+----+----+----+----+----+           +-------+----------------------------+
//! | stamps | e0 | e1 | e2 | e3 | e4 | e5 | e6 |           | stamp | e0                         |
//! +--------+----+----+----+----+----+----+----+           +-------+----------------------------+
//! ```
//!
//! Seven doubles and their stamps are one line; with a stamp word beside each they would be two.
//! A wide element shares no line with the next, so that writing one does not disturb reading the
//! other. One of 512 bytes or more shares none with its stamp either.
//!
//! Under loom the same interface stands on loom's cells, one by one, so that it sees every access.

#[cfg(not(loom))]
mod lines;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub(crate) use self::lines::{SlotMemory, Spot, Stretch};
#[cfg(loom)]
pub(crate) use self::modelled::{SlotMemory, Spot, Stretch};
