//! Writes and reads files with a checksum per block, so that damage on the disk is not read as data.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::sync::lock;

/// Number of bytes that one checksum covers.
pub(crate) const BLOCK: usize = 64 << 10;
/// Maximum number of blocks that an open file caches, about one per column being read.
const CACHED_BLOCKS_MAX: usize = 8;

/// A writer that computes a checksum of each block it writes.
pub(crate) struct ChecksumWriter<W> {
    inner: W,
    /// CRC32C of each block. The last block may be partial.
    sums: Vec<u32>,
    /// Number of bytes in the last block.
    block_filled: usize,
    /// Total number of bytes written.
    pub(crate) written: u64,
}

impl<W: Write> ChecksumWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            sums: Vec::new(),
            block_filled: BLOCK,
            written: 0,
        }
    }

    /// Returns the checksum of each block written so far. The last block may be partial.
    pub(crate) fn sums(&self) -> &[u32] {
        &self.sums
    }

    pub(crate) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        let mut remaining = bytes.get(..count).unwrap_or_default();
        while !remaining.is_empty() {
            if self.block_filled == BLOCK {
                self.sums.push(0);
                self.block_filled = 0;
            }
            let (part, rest) = remaining.split_at(remaining.len().min(BLOCK - self.block_filled));
            if let Some(sum) = self.sums.last_mut() {
                *sum = crc32c::crc32c_append(*sum, part);
            }
            self.block_filled += part.len();
            remaining = rest;
        }
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A file whose blocks are verified as they are read.
#[derive(Clone)]
pub(crate) struct CheckedFile {
    file: Arc<File>,
    sums: Arc<Vec<u32>>,
    /// Number of bytes that the checksums cover.
    len: u64,
    /// A cache of the last block of each recent read, with the block's number. Most pages are smaller than a
    /// block, and the next page of a column begins in the block in which the previous page ends.
    cache: Arc<Mutex<VecDeque<(u64, Bytes)>>>,
}

impl CheckedFile {
    pub(crate) fn new(file: File, sums: Arc<Vec<u32>>, len: u64) -> Self {
        Self {
            file: Arc::new(file),
            sums,
            len,
            cache: Arc::default(),
        }
    }

    /// Returns a block from the cache, or reads and verifies it.
    fn block(&self, number: u64) -> Result<Bytes> {
        let cache = lock(&self.cache);
        if let Some((_, block)) = cache.iter().find(|(cached, _)| *cached == number) {
            return Ok(block.clone());
        }
        drop(cache);
        let start = number * BLOCK as u64;
        let length = self.len.saturating_sub(start).min(BLOCK as u64);
        let mut block = vec![0; length as usize];
        self.file
            .read_exact_at(&mut block, start)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        if self.sums.get(number as usize) != Some(&crc32c::crc32c(&block)) {
            let sentence = format!("the checksum of the block at byte {start} does not match");
            return Err(ParquetError::General(sentence));
        }
        Ok(block.into())
    }

    fn add_to_cache(&self, number: u64, block: Bytes) {
        let mut cache = lock(&self.cache);
        cache.retain(|(cached, _)| *cached != number);
        if cache.len() >= CACHED_BLOCKS_MAX {
            cache.pop_front();
        }
        cache.push_back((number, block));
    }
}

impl Length for CheckedFile {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for CheckedFile {
    type T = CheckedReader;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(CheckedReader {
            file: self.clone(),
            at: start,
            block: Bytes::new(),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.saturating_add(length as u64);
        if end > self.len {
            let sentence = "a page lies beyond the end of the file".to_owned();
            return Err(ParquetError::EOF(sentence));
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        let (first, last) = (start / BLOCK as u64, (end - 1) / BLOCK as u64);
        let mut bytes = Vec::new();
        for number in first..=last {
            let block = self.block(number)?;
            let block_start = number * BLOCK as u64;
            let from = start.saturating_sub(block_start) as usize;
            let to = ((end - block_start) as usize).min(block.len());
            let part = block.slice(from..to);
            if number == last {
                self.add_to_cache(number, block);
            }
            if first == last {
                return Ok(part);
            }
            bytes.reserve(length - bytes.len());
            bytes.extend_from_slice(&part);
        }
        Ok(bytes.into())
    }
}

/// Reads a checked file sequentially, from an offset to the end.
pub(crate) struct CheckedReader {
    file: CheckedFile,
    at: u64,
    block: Bytes,
}

impl Read for CheckedReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            let end = (self.at + 1)
                .next_multiple_of(BLOCK as u64)
                .min(self.file.len);
            let count = end.saturating_sub(self.at) as usize;
            if count == 0 {
                return Ok(0);
            }
            let read = self.file.get_bytes(self.at, count);
            self.block = read.map_err(io::Error::other)?;
        }
        let count = out.len().min(self.block.len());
        let part = self.block.split_to(count);
        for (place, byte) in out.iter_mut().zip(part.iter()) {
            *place = *byte;
        }
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use super::*;

    /// Creates a file with this content and its checksums.
    fn file_of(bytes: &[u8]) -> (tempfile::NamedTempFile, CheckedFile) {
        let mut writer = ChecksumWriter::new(Vec::new());
        writer.write_all(bytes).unwrap();
        let sums = Arc::new(writer.sums().to_vec());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let opened = File::open(file.path()).unwrap();
        let checked = CheckedFile::new(opened, sums, bytes.len() as u64);
        (file, checked)
    }

    /// Without the cache, each page of a few bytes would require reading and verifying a whole block.
    #[test]
    fn block_is_not_read_again_for_the_next_page() {
        let bytes: Vec<u8> = (0..BLOCK * 9 / 2).map(|at| (at / 7) as u8).collect();
        let (file, sut) = file_of(&bytes);
        let read = |start: usize, length: usize| sut.get_bytes(start as u64, length);
        for (start, length) in [(0, 1), (BLOCK - 3, 2 * BLOCK), (BLOCK * 4, 100), (5, 0)] {
            assert_eq!(read(start, length).unwrap(), bytes[start..start + length]);
        }
        assert!(
            read(BLOCK * 4, BLOCK).is_err(),
            "the range extends beyond the end"
        );
        // From here on, the file is empty: only cached blocks can be read.
        File::options()
            .write(true)
            .open(file.path())
            .unwrap()
            .set_len(0)
            .unwrap();
        for start in [3 * BLOCK - 3, BLOCK * 4 + 100] {
            assert_eq!(read(start, 2).unwrap(), bytes[start..start + 2]);
        }
        assert!(
            read(BLOCK, 2).is_err(),
            "only the last block of a read is cached"
        );
    }

    #[test]
    fn damaged_block_is_not_cached() {
        let bytes = vec![7; 2 * BLOCK];
        let (file, sut) = file_of(&bytes);
        let mut damaged = bytes.clone();
        damaged[BLOCK + 9] ^= 1;
        std::fs::write(file.path(), damaged).unwrap();
        for _ in 0..2 {
            assert!(sut.get_bytes(0, 10).is_ok());
            assert!(sut.get_bytes(BLOCK as u64, 10).is_err());
            assert!(sut.get_bytes(BLOCK as u64 - 5, 10).is_err());
        }
    }
}
