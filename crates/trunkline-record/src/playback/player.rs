//! Reads the files of a recording into a ring.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use trunkline_ring::{NoRegion, RegionMemory, RegionWriter};
use trunkline_tdms::{RowExtent, RowPlace, TdmsFile};

use super::error::PlaybackError;
use super::recording::{PlayedFile, Recording, find, open};
use crate::backend::{Backend, BackendChoice, CacheMode, FileReport, open_to_read};
use crate::read_queue::{ReadOptions, ReadQueue};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlayOptions {
    /// Number of rows per region. A region has fewer rows at the end of a contiguous part of the
    /// file, or if the ring cannot hold `outstanding_max` regions of this size. Default: 4096.
    pub region_rows: u64,
    /// Maximum number of outstanding reads. Default: 4.
    pub outstanding_max: NonZeroUsize,
    /// The requested backend. Default: the best one available.
    pub backend: BackendChoice,
    /// The requested use of the page cache. Default: direct I/O if the file system supports it.
    pub cache_mode: CacheMode,
}

impl Default for PlayOptions {
    fn default() -> Self {
        let read_defaults = ReadOptions::default();
        Self {
            region_rows: 4096,
            outstanding_max: read_defaults.outstanding_max,
            backend: BackendChoice::default(),
            cache_mode: CacheMode::default(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlayProgress {
    /// Number of rows for which reads have been started.
    pub started: u64,
    /// Number of rows in the recording.
    pub total: u64,
    /// True once all rows are in the ring.
    pub is_finished: bool,
    /// Number of bytes that the CPU copied or decoded before they were in the ring.
    pub bytes_copied: u64,
    /// The backend of the last opened file; `None` if that file is read value by value.
    pub backend: Option<FileReport>,
    /// Number of times that too few rows were available to the device.
    pub underruns: u64,
    /// Number of rows that were not available when the device needed them.
    pub missed: u64,
}

/// Opens a file for a maximum number of concurrent reads. Returns the backend, the length of the
/// file in bytes, and the report.
type OpenBackend =
    dyn FnMut(&Path, usize) -> io::Result<(Box<dyn Backend>, u64, Option<FileReport>)> + Send;

/// Plays a recording into a ring, and reads ahead until the ring is full.
///
/// Rows that have the same layout in the file as in the ring are read directly into the ring,
/// without a copy. Other rows are read value by value on the calling thread and counted as copied.
pub struct TdmsPlayback {
    ring: RegionWriter,
    memory: Arc<RegionMemory>,
    recording: Recording,
    options: PlayOptions,
    open_backend: Box<OpenBackend>,
    /// Number of files opened so far.
    files_opened: usize,
    source: Source,
    started: u64,
    bytes_copied: u64,
    report: Option<FileReport>,
}

/// The file being played.
enum Source {
    None,
    /// A file whose rows are read directly into the ring.
    InPlace {
        queue: Box<ReadQueue>,
        /// Extents that have not been started.
        extents: std::vec::IntoIter<RowExtent>,
        /// The unread part of the current extent.
        extent: RowExtent,
        rows_remaining: u64,
    },
    /// A file whose rows are read value by value.
    Copied {
        file: Box<TdmsFile<File>>,
        row: u64,
        rows: u64,
    },
}

impl TdmsPlayback {
    /// Creates a playback of `recording` into the ring in `memory`. The elements of the ring are
    /// the rows of the recording.
    pub fn new(
        recording: Recording,
        memory: Arc<RegionMemory>,
        ring: RegionWriter,
        options: PlayOptions,
    ) -> Result<Self, PlaybackError> {
        let open_backend = move |path: &Path, reads_max| {
            let file = open_to_read(path, options.backend, options.cache_mode, reads_max)?;
            let opened = file.opened;
            Ok((opened.backend, file.length, Some(opened.report)))
        };
        Self::new_with(recording, memory, ring, options, Box::new(open_backend))
    }

    /// Creates a playback with backends of the caller, for tests. `open_backend` opens a file for a
    /// maximum number of concurrent reads, and returns the backend and the file's length in bytes.
    pub fn with_backends(
        recording: Recording,
        memory: Arc<RegionMemory>,
        ring: RegionWriter,
        options: PlayOptions,
        mut open_backend: impl FnMut(&Path, usize) -> io::Result<(Box<dyn Backend>, u64)>
        + Send
        + 'static,
    ) -> Result<Self, PlaybackError> {
        let open_backend = move |path: &Path, reads_max| {
            open_backend(path, reads_max).map(|(backend, length)| (backend, length, None))
        };
        Self::new_with(recording, memory, ring, options, Box::new(open_backend))
    }

    fn new_with(
        recording: Recording,
        memory: Arc<RegionMemory>,
        ring: RegionWriter,
        options: PlayOptions,
        open_backend: Box<OpenBackend>,
    ) -> Result<Self, PlaybackError> {
        let (element_bytes, row_bytes) = (ring.element_bytes(), recording.row_bytes());
        if element_bytes != row_bytes {
            return Err(PlaybackError::RowSizeMismatch {
                element_bytes,
                row_bytes,
            });
        }
        Ok(Self {
            ring,
            memory,
            recording,
            options,
            open_backend,
            files_opened: 0,
            source: Source::None,
            started: 0,
            bytes_copied: 0,
            report: None,
        })
    }

    /// Starts reads while the ring has free space and fewer than the maximum number of reads are
    /// outstanding. This call does not wait for reads. Returns the number of rows for which reads
    /// were started.
    ///
    /// # Errors
    /// [`PlaybackError`]: no more rows are read. Rows that were already read are still played.
    pub fn fill(&mut self) -> Result<u64, PlaybackError> {
        let before = self.started;
        loop {
            let is_at_end = match &mut self.source {
                Source::None => true,
                Source::InPlace { .. } => self.fill_in_place()?,
                Source::Copied { .. } => self.fill_by_copy()?,
            };
            if !is_at_end || !self.open_next()? {
                return Ok(self.started - before);
            }
        }
    }

    /// Waits until one of the running reads completes; returns at once if none is running.
    pub fn wait_for_one(&mut self, wait: Duration) -> Result<(), PlaybackError> {
        let path = self.path().to_owned();
        match &mut self.source {
            Source::InPlace { queue, .. } => queue
                .wait_for_one(wait)
                .map_err(|source| PlaybackError::queue(path, source)),
            _ => Ok(()),
        }
    }

    pub fn progress(&self) -> PlayProgress {
        let running = match &self.source {
            Source::InPlace { queue, .. } => queue.outstanding(),
            _ => 0,
        };
        let total = self.recording.rows();
        PlayProgress {
            started: self.started,
            total,
            is_finished: self.started == total && running == 0,
            bytes_copied: self.bytes_copied + self.queue_bytes_copied(),
            backend: self.report.clone(),
            underruns: self.ring.underruns(),
            missed: self.ring.missed(),
        }
    }

    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Returns the number of bytes that the queue of the current file has copied.
    fn queue_bytes_copied(&self) -> u64 {
        match &self.source {
            Source::InPlace { queue, .. } => queue.progress().bytes_copied,
            _ => 0,
        }
    }

    fn path(&self) -> &Path {
        let file = self
            .recording
            .files
            .get(self.files_opened.saturating_sub(1));
        file.map_or(Path::new(""), |file| &file.path)
    }

    /// Opens the next file. Returns false if all files were opened.
    fn open_next(&mut self) -> Result<bool, PlaybackError> {
        let Some(file) = self.recording.files.get(self.files_opened) else {
            return Ok(false);
        };
        let PlayedFile {
            path,
            rows,
            extents,
        } = file.clone();
        self.bytes_copied += self.queue_bytes_copied();
        self.files_opened += 1;
        self.report = None;
        let Some(extents) = extents else {
            let file = Box::new(open(&path)?);
            self.source = Source::Copied { file, row: 0, rows };
            return Ok(true);
        };
        let options = ReadOptions {
            outstanding_max: self.options.outstanding_max,
            ..ReadOptions::default()
        };
        let opened = (self.open_backend)(&path, options.reads_max());
        let (backend, length, report) = opened.map_err(|source| PlaybackError::File {
            path: path.clone(),
            source,
        })?;
        self.report = report;
        let total = rows * self.recording.row_bytes() as u64;
        let options = ReadOptions {
            total: Some(total),
            ..options
        };
        let memories = vec![self.memory.clone()];
        let queue = ReadQueue::new(backend, length, options, memories);
        let queue = queue.map_err(|source| PlaybackError::queue(path, source))?;
        self.source = Source::InPlace {
            queue: Box::new(queue),
            extents: extents.into_iter(),
            extent: RowExtent {
                position: 0,
                rows: 0,
            },
            rows_remaining: rows,
        };
        Ok(true)
    }

    /// Returns the number of rows per region. The number is small enough that the device can play
    /// some regions while others are read.
    fn region_rows(&self) -> u64 {
        let rows_max = self.ring.capacity() / self.options.outstanding_max.get() as u64;
        let rows_max = rows_max.checked_ilog2().map_or(1, |log| 1 << log);
        self.options.region_rows.clamp(1, rows_max)
    }

    /// Starts reads directly into the ring. Returns true once the whole file has been read.
    fn fill_in_place(&mut self) -> Result<bool, PlaybackError> {
        let path = self.path().to_owned();
        let to_playback_error = |source| PlaybackError::queue(path.clone(), source);
        let row_bytes = self.recording.row_bytes() as u64;
        let region_rows = self.region_rows();
        let Source::InPlace {
            queue,
            extents,
            extent,
            rows_remaining,
        } = &mut self.source
        else {
            return Ok(true);
        };
        queue.poll().map_err(to_playback_error)?;
        if let Some(failure) = queue.progress().failure {
            return Err(to_playback_error(failure.into()));
        }
        while queue.outstanding() < self.options.outstanding_max.get() && *rows_remaining > 0 {
            if extent.rows == 0 {
                let Some(next) = extents.next() else { break };
                *extent = next;
                continue;
            }
            let rows_max = extent.rows.min(*rows_remaining).min(region_rows);
            let region = match self.ring.acquire(rows_max) {
                Ok(region) => region,
                Err(NoRegion::NotYet { .. } | NoRegion::AllLent { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let rows = region.elements();
            queue.seek(extent.position);
            queue
                .read(region)
                .map_err(|refused| to_playback_error(refused.error))?;
            extent.position += rows * row_bytes;
            extent.rows -= rows;
            *rows_remaining -= rows;
            self.started += rows;
        }
        // The next file is opened only when no read of this file is running.
        let is_over = *rows_remaining == 0 || extent.rows == 0 && extents.len() == 0;
        Ok(is_over && queue.outstanding() == 0)
    }

    /// Reads rows value by value into the ring. Returns true once the whole file has been read.
    fn fill_by_copy(&mut self) -> Result<bool, PlaybackError> {
        let path = self.path().to_owned();
        let row_bytes = self.recording.row_bytes();
        let region_rows = self.region_rows();
        let Source::Copied { file, row, rows } = &mut self.source else {
            return Ok(true);
        };
        for _ in 0..self.options.outstanding_max.get() {
            let rows_max = (*rows - *row).min(region_rows);
            if rows_max == 0 {
                return Ok(true);
            }
            let mut region = match self.ring.acquire(rows_max) {
                Ok(region) => region,
                Err(NoRegion::NotYet { .. } | NoRegion::AllLent { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let count = region.elements();
            let bytes = region.bytes_mut();
            for channel in self.recording.channels() {
                let place = RowPlace {
                    offset: channel.offset,
                    row_bytes,
                };
                let found = find(file, &path, &channel.path)?;
                let read = match channel.is_scaled {
                    true => found.read_scaled_into_rows(*row, place, bytes),
                    false => found.read_into_rows(*row, place, bytes),
                };
                let read = read.map_err(|source| PlaybackError::read(path.clone(), source))?;
                if read < count {
                    return Err(PlaybackError::FileMismatch {
                        path,
                        difference: format!("{} has fewer values than it declares", channel.path),
                    });
                }
            }
            self.bytes_copied += bytes.len() as u64;
            region.finish();
            *row += count;
            self.started += count;
        }
        Ok(false)
    }
}

impl std::fmt::Debug for TdmsPlayback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TdmsPlayback")
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}
