//! The buffer of a stream in memory that is mapped twice in a row.
#![cfg(all(not(loom), target_os = "linux"))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ptr::NonNull;
use std::sync::Arc;

use trunkline_ring::{ElementConsumer, ElementHeader, ElementMemory, ElementProducer, RingShape};

/// A page of a file in memory, twice in a row, and a header.
struct Mirrored {
    header: Box<ElementHeader>,
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is reached only through the ends made of it.
unsafe impl Send for Mirrored {}
// SAFETY: as above.
unsafe impl Sync for Mirrored {}

impl Mirrored {
    fn new() -> Arc<Self> {
        // SAFETY: plain system calls with checked results; each mapping replaces one half of the
        // reserved one.
        unsafe {
            let len = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let file = libc::memfd_create(c"ring".as_ptr(), 0);
            assert!(file >= 0 && libc::ftruncate(file, len as i64) == 0);
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let none = std::ptr::null_mut();
            let bytes = libc::mmap(none, 2 * len, libc::PROT_NONE, private, -1, 0);
            assert_ne!(bytes, libc::MAP_FAILED);
            for half in [bytes, bytes.byte_add(len)] {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let shared = libc::MAP_SHARED | libc::MAP_FIXED;
                assert_eq!(libc::mmap(half, len, access, shared, file, 0), half);
            }
            libc::close(file);
            Arc::new(Self {
                header: Box::default(),
                bytes: NonNull::new(bytes.cast()).unwrap(),
                len,
            })
        }
    }

    fn ends(self: &Arc<Self>, shape: RingShape) -> (ElementProducer, ElementConsumer) {
        let memory = || {
            let header = NonNull::from(&*self.header);
            // SAFETY: the owner keeps both; the bytes are initially 0, are mapped twice in a row,
            // and are aligned to a page.
            unsafe {
                ElementMemory::from_raw(header, self.bytes, self.len, true, shape, self.clone())
            }
        };
        (memory().producer(), memory().consumer())
    }
}

impl Drop for Mirrored {
    fn drop(&mut self) {
        // SAFETY: the mapping is unmapped once, when no end of it exists.
        unsafe { libc::munmap(self.bytes.as_ptr().cast(), 2 * self.len) };
    }
}

#[test]
fn every_region_is_contiguous_and_aligned() {
    let memory = Mirrored::new();
    // 24 bytes do not divide a page: elements go over its end.
    let capacity = memory.len / 24;
    let (mut producer, mut consumer) = memory.ends(RingShape::fixed(24, capacity).unwrap());
    let mut number = 0_u64;
    for count in (1..=capacity).cycle().take(2000) {
        let len = 24 * count;
        assert!(producer.has_room(len as u64, count as u64).unwrap());
        let [bytes, rest] = producer.free_at(producer.written(), len).unwrap();
        assert_eq!((bytes.len(), rest.len()), (len, 0));
        assert!(bytes.as_ptr().cast::<u64>().is_aligned());
        for (index, element) in bytes.chunks_exact_mut(24).enumerate() {
            element[16..].copy_from_slice(&(number + index as u64).to_le_bytes());
        }
        producer.commit(len as u64, count as u64);
        assert!(consumer.has(len as u64, count as u64).unwrap());
        let [bytes, rest] = consumer.region_at(consumer.read_position(), len).unwrap();
        assert_eq!((bytes.len(), rest.len()), (len, 0));
        for element in bytes.chunks_exact(24) {
            assert_eq!(element[16..], number.to_le_bytes());
            number += 1;
        }
        consumer.release(len as u64, count as u64);
    }
}

#[test]
fn copies_may_wrap_around_the_end() {
    let memory = Mirrored::new();
    let (mut producer, mut consumer) = memory.ends(RingShape::fixed(1, memory.len).unwrap());
    let mut sent = (0..=255_u8).cycle();
    let mut expected = (0..=255_u8).cycle();
    for length in (1..memory.len).step_by(37).cycle().take(1000) {
        let bytes: Vec<u8> = sent.by_ref().take(length).collect();
        assert!(producer.push(&bytes, length as u64).unwrap());
        let mut pulled = vec![0; length];
        assert!(consumer.pull(&mut pulled, length as u64).unwrap());
        assert!(pulled.into_iter().eq(expected.by_ref().take(length)));
    }
}
