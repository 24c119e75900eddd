//! Simulates a disk in memory for tests, with the states that a crash can leave behind.
//!
//! [`Content`] is one file: its bytes, the bytes that are synced, and the changes since the last
//! sync. [`SimDisk`] is a folder of such files, which can stop the program at any call.
//!
//! The disk simulates these events:
//! - The program is killed: the data of all completed calls and any part of the interrupted write
//!   survive.
//! - Power is lost: unsynced bytes after some position are missing, zero or arbitrary. Any subset of the
//!   changes of names since the last sync of the folder survives.
//! - A call fails, once or permanently. A write to a full disk writes some of its bytes before it fails.
#![forbid(unsafe_code)]

mod content;
mod folder;

pub use content::{Content, Tail, Tear, put};
pub use folder::{Crash, Failure, SimDisk, SimFile};
