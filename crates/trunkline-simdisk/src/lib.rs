//! A disk in memory for tests, which shows the states that a crash can leave.
//!
//! [`Content`] is one file: its bytes, those that are synced, and the changes since. [`SimDisk`] is
//! a folder of such files, which can be stopped at every call.
//!
//! It models these events:
//! - The program is killed: everything written by its calls is kept, and any part of the
//!   interrupted call.
//! - Power fails: unsynced bytes after some byte are lost, zero or arbitrary; any subset of the
//!   changes of names since the last sync of the folder is kept.
//! - A call fails, once or permanently; a full disk has written a part of the bytes.
#![forbid(unsafe_code)]

mod content;
mod folder;

pub use content::{Content, Rest, Tear, put};
pub use folder::{Crash, Failure, SimDisk, SimFile};
