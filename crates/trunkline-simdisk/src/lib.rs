//! An in-memory disk for tests, which simulates the states that a crash can leave behind.
//!
//! [`Content`] is one file: its bytes, the bytes that are synced, and the changes since the last
//! sync. [`SimDisk`] is a folder of such files, which can stop the program at any call.
//!
//! It models these events:
//! - The program is killed: everything written by completed calls is kept, and any part of the
//!   interrupted write.
//! - Power fails: unsynced bytes after some position are lost, zero or arbitrary; any subset of the
//!   name changes since the last sync of the folder survives.
//! - A call fails, once or permanently; on a full disk, a write has written part of the bytes.
#![forbid(unsafe_code)]

mod content;
mod folder;

pub use content::{Content, Tail, Tear, put};
pub use folder::{Crash, Failure, SimDisk, SimFile};
