//! Fault tests of a history, derived from its promises: no acknowledged row is lost or duplicated,
//! damage costs little and is found, and every value is read as it was written.
//!
//! - `values`: timestamps and values of every kind.
//! - `log_damage`: flipped bits and cuts in a log.
//! - `file_damage`: flipped bits, cuts and missing files elsewhere.
//! - `interleavings`: random interleavings of all operations, against a model.
//! - `folder`: folders that are in use or cannot be written.
//! - `disk_full`: a disk without room.
//! - `spool`: a second disk for rows that find no room on the first.
//! - `waiting`: what goes on while another thread waits for a disk.
//! - `offline`: reading, compacting and rebuilding folders without an engine.
//! - `events`: interruptions and retirements.
//!
//! Tests of known defects are ignored, with the defect as the reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it did not expect"
)]

mod disk_full;
mod disks;
mod events;
mod file_damage;
mod folder;
mod interleavings;
mod log_damage;
mod offline;
#[path = "../rig/mod.rs"]
mod rig;
mod spool;
mod values;
mod waiting;
