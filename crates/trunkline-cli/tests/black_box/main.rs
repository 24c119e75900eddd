//! The binary as users run it, against engines that it serves itself: real processes, real sockets.
//!
//! Every test has its own engine, port and folder. None waits for time to pass: they wait for lines
//! of output.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod access_file;
mod accounts;
mod activation;
mod alarms;
mod aliases;
mod audit;
mod backups;
mod browsing;
mod contexts;
mod controlling;
#[cfg(target_os = "linux")]
mod cut_recordings;
mod diagnosis;
mod displaced_recordings;
mod engine_verbs;
mod engines;
mod examples;
mod fake_engine;
mod fields;
mod following;
#[cfg(target_os = "linux")]
mod full_disks;
mod health;
mod helping;
mod history;
mod history_exports;
mod history_folders;
mod hostile_text;
mod hosting;
mod identities;
mod json_lines;
mod keeping;
mod libraries;
mod lines;
mod local_sockets;
#[cfg(target_os = "linux")]
mod memory_limits;
mod packaged_service;
#[cfg(target_os = "linux")]
mod playing;
mod providers;
mod reading;
#[cfg(target_os = "linux")]
mod recorded_elements;
#[cfg(target_os = "linux")]
mod recording_series;
#[cfg(target_os = "linux")]
mod recording_terminals;
mod recordings;
mod refusals;
mod registers;
mod reloading;
mod rig;
#[cfg(target_os = "linux")]
mod running_recordings;
mod schema;
mod secrets;
mod services;
#[cfg(target_os = "linux")]
mod shown;
mod snapshots;
mod stream_checksums;
mod stream_fan_kills;
mod stream_fans;
mod stream_journals;
mod streams;
mod tdms;
mod transports;
mod unreachable;
mod writing;
