//! Which memory is advised to be in large pages.

#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![cfg(all(not(loom), target_os = "linux"))]

use std::fs;
use std::path::Path;

use trunkline_ring::advise_large_pages;

const LARGE_PAGE: usize = 2 << 20;

/// Returns true if the system was advised to use large pages for the mapping with this byte.
fn is_advised(byte: &u8) -> bool {
    let address = std::ptr::from_ref(byte).addr();
    let mut is_its_mapping = false;
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let range = line.split_whitespace().next().unwrap();
        if let Some((first, end)) = range.split_once('-')
            && let Ok(first) = usize::from_str_radix(first, 16)
        {
            let end = usize::from_str_radix(end, 16).unwrap();
            is_its_mapping = (first..end).contains(&address);
        } else if is_its_mapping && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_whitespace().any(|flag| flag == "hg");
        }
    }
    panic!("no mapping has the byte at {address:x}");
}

#[test]
fn only_whole_large_pages_within_the_memory_are_advised() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        eprintln!("skipped, because this system has no large pages");
        return;
    }
    let mut memory = vec![0_u8; 16 * LARGE_PAGE];
    let first = memory.as_ptr().addr().next_multiple_of(LARGE_PAGE) - memory.as_ptr().addr();
    let (begin, end) = (first + 2 * LARGE_PAGE, first + 6 * LARGE_PAGE);
    memory[begin] = 7;

    // Both ends are within a large page: neither of the two is advised.
    advise_large_pages(&mut memory[begin - 1..end + 1]);

    let at = |offset: usize| is_advised(&memory[offset]);
    assert_eq!(
        [at(begin - 1), at(begin), at(end - 1), at(end)],
        [false, true, true, false]
    );
    assert_eq!(memory[begin], 7);
    assert!(memory[begin + 1..end].iter().all(|byte| *byte == 0));
}

#[test]
fn memory_without_a_whole_large_page_is_left_alone() {
    let mut memory = vec![0_u8; 4 * LARGE_PAGE];
    let first = memory.as_ptr().addr().next_multiple_of(LARGE_PAGE) - memory.as_ptr().addr();
    for len in [0, 1, LARGE_PAGE - 1, 2 * LARGE_PAGE - 2] {
        advise_large_pages(&mut memory[first + 1..][..len]);
        assert!(!is_advised(&memory[first + 1]), "{len}");
    }
    advise_large_pages(&mut []);
}
