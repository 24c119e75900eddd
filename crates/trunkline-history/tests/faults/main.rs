//! Tests the history under faults: no acknowledged row is lost or duplicated, damage is detected and affects
//! few rows, and every value is read as it was written.
//!
//! - `values`: timestamps and values of every kind.
//! - `log_damage`: flipped bits and truncation of logs.
//! - `file_damage`: flipped bits, truncation and missing files, except for logs.
//! - `interleavings`: random interleavings of all operations, compared with a model.
//! - `folder`: folders that are in use or cannot be written.
//! - `disk_full`: a full disk.
//! - `spool`: a second disk that stores rows while the first one cannot be written.
//! - `waiting`: reading and recording while another thread waits for a disk.
//! - `offline`: reading, compacting and rebuilding folders without an engine.
//! - `events`: interruptions and retirements.
//!
//! Tests of known defects are ignored, and name the defect as the reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails at an unexpected result"
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
