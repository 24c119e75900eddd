#![no_main]
//! The log of a history. The input is taken as it is, and as the payload of a frame with the right
//! checksums.

use libfuzzer_sys::fuzz_target;
use trunkline_history::fuzzing::log_rows;

fuzz_target!(|data: &[u8]| {
    let _ = log_rows(data);
    let mut log = Vec::from(*b"TLHIST02");
    log.extend_from_slice(&1_u64.to_le_bytes());
    log.extend_from_slice(&crc32c::crc32c(&log).to_le_bytes());
    log.extend_from_slice(&[0; 4]);
    let mut head = Vec::from(*b"TLHF");
    head.extend_from_slice(&(data.len() as u32).to_le_bytes());
    head.extend_from_slice(&crc32c::crc32c(data).to_le_bytes());
    // The checksum covers the segment and the frame's place in the file, too.
    let place = [1_u64.to_le_bytes(), (log.len() as u64).to_le_bytes()].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), &place);
    head.extend_from_slice(&checksum.to_le_bytes());
    log.extend_from_slice(&head);
    log.extend_from_slice(data);
    let _ = log_rows(&log);
});
