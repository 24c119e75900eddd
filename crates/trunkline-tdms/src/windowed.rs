//! Reads interleaved channels in one pass over the file. Rows are read into memory once, and the
//! channels are then extracted from memory one after another.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use crate::file::TdmsFile;
use crate::layout::Form;
use crate::read_at::ReadAt;

/// Size of the window in bytes, which exceeds the size of the rows that are read together.
const WINDOW_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum size in bytes of rows that are read together, so that each byte is read only once.
pub(crate) const ROWS_BYTES: u64 = WINDOW_BYTES / 2;

/// A source that keeps the last part read in memory, up to 8 MiB.
#[derive(Debug)]
pub struct Windowed<'a, R> {
    source: &'a R,
    window: RefCell<Window>,
}

#[derive(Debug, Default)]
struct Window {
    position: u64,
    bytes: Vec<u8>,
}

impl<R: ReadAt> ReadAt for Windowed<'_, R> {
    fn byte_len(&self) -> io::Result<u64> {
        self.source.byte_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut window = self.window.borrow_mut();
        let end = window.position + window.bytes.len() as u64;
        if !(window.position..end).contains(&position) {
            let remaining = self.source.byte_len()?.saturating_sub(position);
            // If the read fails, the window stays empty.
            let mut bytes = std::mem::take(&mut window.bytes);
            bytes.resize(remaining.min(WINDOW_BYTES) as usize, 0);
            self.source.read_exact_at(&mut bytes, position)?;
            *window = Window { position, bytes };
        }
        let from = (position - window.position) as usize;
        let available = window.bytes.get(from..).unwrap_or_default();
        let read = available.len().min(buffer.len());
        buffer[..read].copy_from_slice(&available[..read]);
        Ok(read)
    }
}

impl<R: ReadAt> TdmsFile<R> {
    /// Returns true if all segments store the values of the channels row by row.
    pub fn is_row_by_row(&self) -> bool {
        let mut runs = self.map.runs.iter();
        !self.map.runs.is_empty() && runs.all(|run| !matches!(run.layout.form, Form::Contiguous))
    }

    /// Returns the same file, but read through a window in memory. If the file is stored [row by
    /// row](Self::is_row_by_row) and its channels are read in blocks of at most 4 MiB of rows, each
    /// byte is read only once.
    pub fn windowed(&self) -> TdmsFile<Windowed<'_, R>> {
        TdmsFile {
            source: Windowed {
                source: &self.source,
                window: RefCell::default(),
            },
            map: Arc::clone(&self.map),
        }
    }

    /// Returns the number of the file's longest rows that fit in `bytes` bytes, at least 1.
    pub(crate) fn rows_of(&self, bytes: u64) -> u64 {
        let widths = self.map.runs.iter().map(|run| {
            let layout = &run.layout;
            let rows = layout.columns.iter().map(|column| column.count).max();
            layout.chunk_bytes / rows.unwrap_or(1).max(1)
        });
        (bytes / widths.max().unwrap_or(1).max(1)).max(1)
    }
}
