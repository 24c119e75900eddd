//! Files with a checksum for each block, so that damage on the disk is detected and not read as
//! data.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Number of bytes that one checksum covers.
pub(crate) const BLOCK: usize = 64 << 10;

/// Computes the checksums of the bytes that are written through it.
pub(crate) struct ChecksumWriter<W> {
    inner: W,
    /// CRC32C of each full block, and of the last one, which may be partial.
    sums: Vec<u32>,
    in_block: usize,
    pub(crate) written: u64,
}

impl<W: Write> ChecksumWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            sums: Vec::new(),
            in_block: BLOCK,
            written: 0,
        }
    }

    /// The checksums of all bytes so far. The last block may be shorter than the others.
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
        let mut left = bytes.get(..count).unwrap_or_default();
        while !left.is_empty() {
            if self.in_block == BLOCK {
                self.sums.push(0);
                self.in_block = 0;
            }
            let (part, rest) = left.split_at(left.len().min(BLOCK - self.in_block));
            if let Some(sum) = self.sums.last_mut() {
                *sum = crc32c::crc32c_append(*sum, part);
            }
            self.in_block += part.len();
            left = rest;
        }
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A file whose blocks are checked when they are read.
#[derive(Clone)]
pub(crate) struct CheckedFile {
    file: Arc<File>,
    sums: Arc<Vec<u32>>,
    /// Number of bytes that the checksums cover.
    len: u64,
}

impl CheckedFile {
    pub(crate) fn new(file: File, sums: Arc<Vec<u32>>, len: u64) -> Self {
        Self {
            file: Arc::new(file),
            sums,
            len,
        }
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
        let first = start / BLOCK as u64 * BLOCK as u64;
        let last = end.next_multiple_of(BLOCK as u64).min(self.len);
        let mut bytes = vec![0; (last - first) as usize];
        self.file
            .read_exact_at(&mut bytes, first)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        for (index, block) in bytes.chunks(BLOCK).enumerate() {
            let place = (first / BLOCK as u64) as usize + index;
            if self.sums.get(place) != Some(&crc32c::crc32c(block)) {
                let at = place * BLOCK;
                let sentence = format!("the checksum of the block at byte {at} does not match");
                return Err(ParquetError::General(sentence));
            }
        }
        let from = (start - first) as usize;
        Ok(Bytes::from(bytes).slice(from..from + length))
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
