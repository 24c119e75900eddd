//! Fault tests of a history, written from what it promises: nothing that was acknowledged is lost,
//! nothing is doubled, damage costs little and is found, and every value is read as it was written.
//!
//! - `values`: timestamps and values of every kind.
//! - `log_damage`: flipped bits and cuts in a log.
//! - `file_damage`: flipped bits, cuts and missing files elsewhere.
//! - `interleavings`: random interleavings of everything, against a model.
//! - `folder`: folders that are in use or cannot be written.
//! - `disk_full`: a disk without room.
//! - `spool`: a second disk for what finds no room on the first.
//! - `offline`: folders that are read, compacted and rebuilt without an engine.
//! - `events`: interruptions and retirements.
//!
//! Tests of a defect that is known are ignored, with the defect as the reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it did not expect"
)]

mod disk_full;
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
