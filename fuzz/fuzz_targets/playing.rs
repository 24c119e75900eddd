#![no_main]
//! Recordings: played as variables and as rows, at any speed.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};

fuzz_target!(|data: &[u8]| {
    // Players open files by their path; this one is in memory alone.
    let file = memfd_create("recording", MemfdFlags::CLOEXEC).expect("memory for a file");
    let mut file = File::from(file);
    file.write_all(data).expect("memory for a file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    trunkline_fuzz::play_everything::play_everything(&path);
});
