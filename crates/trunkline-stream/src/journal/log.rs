//! The files of a journal: records are appended to the last file, and files no longer needed are
//! removed from the front.

mod segment;
mod spares;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use trunkline_proto::stream::{Pair, StreamClose};

use super::bounds::Bounds;
use super::disk::Disk;
use super::error::JournalError;
use super::record::{
    Cursor, Lineage, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES,
    SegmentHeader, encode_end,
};
use super::sync_job::{SyncJob, Synced};

pub(super) use self::segment::{Segment, segment_name, segment_seq};
pub(super) use self::spares::is_spare;
use self::spares::{RETIRED_TOGETHER, Spare};

pub(super) const CURSOR: &str = "cursor";
pub(super) const CURSOR_NEW: &str = "cursor.new";

#[derive(Debug)]
pub(super) struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) bounds: Bounds,
    /// The current cursor; the cursor file may contain an older one.
    pub(super) cursor: Cursor,
    /// The segments in order, without gaps. Records are appended to the last one.
    pub(super) segments: VecDeque<Segment>,
    /// Files of former segments, kept for reuse.
    spares: Vec<Spare>,
    /// Size of `segments` and `spares` together, in bytes.
    total: u64,
    /// Stream position after the last byte in the journal.
    pub(super) end: u64,
    /// Number of records appended since the journal was opened.
    appended: u64,
    /// Number of those records that are durable.
    synced: u64,
    /// Position up to which the stream is durable.
    synced_end: u64,
    /// An incomplete record may follow the last record.
    is_torn: bool,
    /// The next segment may already exist, so nothing more may be written to the last one.
    must_roll: bool,
    /// Set after a failed sync, which leaves the state of the disk unknown.
    broken: Option<JournalError>,
}

impl Log {
    /// `segments` may be empty. The stream continues at `end`, and everything before it is durable.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        bounds: Bounds,
        cursor: Cursor,
        segments: VecDeque<Segment>,
        end: u64,
    ) -> Self {
        Self {
            total: segments.iter().map(Segment::file_len).sum(),
            disk,
            bounds,
            cursor,
            segments,
            spares: Vec::new(),
            end,
            appended: 0,
            synced: 0,
            synced_end: end,
            is_torn: false,
            must_roll: true,
            broken: None,
        }
    }

    pub(super) fn error(&self, action: &'static str, cause: io::Error) -> JournalError {
        JournalError::disk(self.disk.folder(), action, cause)
    }

    /// Returns true if a record of this length stays within the bound; frees space if necessary and
    /// possible.
    pub(super) fn has_room(&mut self, bytes: u64) -> Result<bool, JournalError> {
        let needed = bytes.saturating_add(RECORD_HEADER_BYTES as u64);
        let fits = |log: &Self| {
            let allocated = match log.segments.back().filter(|_| !log.will_roll()) {
                Some(last) => last.file_len().saturating_sub(last.len),
                None => log.next_spare().unwrap_or(0),
            };
            // A new segment needs a header, and a seal at the end of the previous segment.
            let segment_overhead = match log.will_roll() {
                true => (SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES) as u64,
                false => 0,
            };
            let growth = (needed + segment_overhead).saturating_sub(allocated);
            log.total.saturating_add(growth) <= log.bounds.bytes_max
        };
        if fits(self) {
            return Ok(true);
        }
        self.remove_spares(0)?;
        if fits(self) {
            return Ok(true);
        }
        // The last segment can only be removed once a new segment has replaced it.
        let is_obsolete = self.cursor.position >= self.end;
        let is_used = self.segments.back().is_some_and(|segment| {
            segment.len > SEGMENT_HEADER_BYTES as u64 && segment.position < self.cursor.position
        });
        if is_obsolete && is_used {
            self.roll()?;
        }
        self.remove_obsolete()?;
        self.remove_spares(0)?;
        Ok(fits(self))
    }

    /// Appends a record in one write. The position of data must be [`end`](Self::end).
    pub(super) fn append(
        &mut self,
        kind: RecordKind,
        position: u64,
        payload: &[u8],
    ) -> Result<(), JournalError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if self.will_roll() {
            self.roll()?;
        }
        self.cut_tail()?;
        if self.total > self.bounds.bytes_max {
            self.remove_spares(0)?;
        }
        self.append_here(kind, position, payload)
    }

    /// Returns true if the next record begins a new segment.
    fn will_roll(&self) -> bool {
        let is_full = |segment: &Segment| segment.len >= self.bounds.segment_bytes;
        self.must_roll || self.segments.back().is_none_or(is_full)
    }

    /// [`append`](Self::append) to the current segment.
    fn append_here(
        &mut self,
        kind: RecordKind,
        position: u64,
        payload: &[u8],
    ) -> Result<(), JournalError> {
        let Some(segment) = self.segments.back_mut() else {
            return Ok(());
        };
        let before = segment.file_len();
        let header = RecordHeader {
            kind,
            position,
            // The payload is at most one buffer, and the endpoint ensures that a buffer is smaller
            // than 4 GiB.
            len: payload.len() as u32,
            safe: segment.safe,
        };
        let bytes = header.encode(segment.seed, payload);
        if let Err(cause) = segment.file.write_at(segment.len, [&bytes, payload]) {
            self.is_torn = true;
            // If the truncation fails, it is repeated before the next record.
            let _ = self.cut_tail();
            return Err(self.error("written", cause));
        }
        segment.len += (RECORD_HEADER_BYTES + payload.len()) as u64;
        self.total += segment.file_len() - before;
        self.appended += 1;
        if kind == RecordKind::Data {
            self.end = position + payload.len() as u64;
        }
        Ok(())
    }

    fn cut_tail(&mut self) -> Result<(), JournalError> {
        if !self.is_torn {
            return Ok(());
        }
        if let Some(segment) = self.segments.back_mut() {
            let before = segment.file_len();
            let cut = segment.file.truncate(segment.len);
            if cut.is_ok() {
                segment.old_len = 0;
                // Like a record, the truncation must be durable before another segment begins.
                self.appended += 1;
                self.total -= before - segment.len;
            }
            cut.map_err(|cause| self.error("written", cause))?;
        }
        self.is_torn = false;
        Ok(())
    }

    /// Begins a new segment. The previous one is synced first, so that only the last segment can be
    /// torn.
    fn roll(&mut self) -> Result<(), JournalError> {
        self.cut_tail()?;
        if self
            .segments
            .back()
            .is_some_and(|last| last.old_len > last.len)
        {
            self.append_here(RecordKind::Seal, self.end, &[])?;
        }
        if let Some(job) = self.sync_job() {
            let done = job.run();
            self.finish_sync(done)?;
        }
        self.must_roll = true;
        let seq = match self.segments.back() {
            Some(last) => last.seq + 1,
            None => self.cursor.seq + 1,
        };
        let header = SegmentHeader {
            seq,
            position: self.end,
            lineage: self.cursor.lineage,
            boot: self.disk.boot(),
        };
        let (bytes, seed) = header.encode();
        let file = self.create_segment(&segment_name(seq), &bytes);
        let (old_len, file) = file.map_err(|cause| self.error("written", cause))?;
        self.must_roll = false;
        let segment = Segment {
            seq,
            position: self.end,
            file,
            len: SEGMENT_HEADER_BYTES as u64,
            old_len,
            seed,
            safe: SEGMENT_HEADER_BYTES as u64,
        };
        self.total += segment.file_len();
        self.segments.push_back(segment);
        Ok(())
    }

    /// Number of the last record, counted from 1 since the journal was opened.
    pub(super) fn appended(&self) -> u64 {
        self.appended
    }

    /// Number of the last durable record.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// Position up to which the stream is durable.
    pub(super) fn synced_end(&self) -> u64 {
        self.synced_end
    }

    pub(super) fn broken(&self) -> Option<&JournalError> {
        self.broken.as_ref()
    }

    /// Bytes of the stream that are not durable yet.
    pub(super) fn unsynced_bytes(&self) -> u64 {
        self.end.saturating_sub(self.synced_end)
    }

    /// Returns a job that syncs the data; `None` if everything is durable.
    pub(super) fn sync_job(&self) -> Option<SyncJob> {
        if self.synced == self.appended || self.broken.is_some() {
            return None;
        }
        let segment = self.segments.back()?;
        Some(SyncJob {
            folder: self.disk.folder().to_owned(),
            file: segment.file.clone(),
            records: self.appended,
            end: self.end,
            seq: segment.seq,
            len: segment.len,
        })
    }

    pub(super) fn finish_sync(&mut self, done: Synced) -> Result<(), JournalError> {
        if let Err(error) = done.result {
            // The system may report data that it failed to write as written at the next sync.
            self.broken = Some(error.clone());
            return Err(error);
        }
        self.synced = self.synced.max(done.records);
        self.synced_end = self.synced_end.max(done.end);
        if let Some(segment) = self.segments.back_mut().filter(|last| last.seq == done.seq) {
            // The segment may have been truncated since.
            segment.safe = segment.safe.max(done.len).min(segment.len);
        }
        Ok(())
    }

    /// Releases everything before `position`; `elements` is the number of elements before it.
    pub(super) fn trim(&mut self, position: u64, elements: u64) -> Result<(), JournalError> {
        if position > self.cursor.position {
            (self.cursor.position, self.cursor.elements) = (position, elements);
        }
        let obsolete_count = (self.segments.iter().skip(1))
            .take_while(|next| next.position <= self.cursor.position)
            .count();
        let is_large = self.total > self.bounds.bytes_max / 4 * 3;
        match obsolete_count >= RETIRED_TOGETHER || is_large {
            true => self.remove_obsolete(),
            false => Ok(()),
        }
    }

    fn remove_obsolete(&mut self) -> Result<(), JournalError> {
        let is_first_obsolete = |log: &Self| {
            let next = log.segments.get(1);
            next.is_some_and(|next| next.position <= log.cursor.position)
        };
        if !is_first_obsolete(self) {
            return Ok(());
        }
        self.write_cursor()?;
        while is_first_obsolete(self) {
            self.retire_first()
                .map_err(|cause| self.error("trimmed", cause))?;
        }
        Ok(())
    }

    /// Replaces the cursor file. The previous content stays valid until the new content is on the
    /// disk.
    pub(super) fn write_cursor(&mut self) -> Result<(), JournalError> {
        // The cursor must not refer to data that is not on the disk.
        if self.cursor.position > self.synced_end {
            if let Some(broken) = &self.broken {
                return Err(broken.clone());
            }
            if let Some(job) = self.sync_job() {
                let done = job.run();
                self.finish_sync(done)?;
            }
        }
        if let Some(last) = self.segments.back() {
            self.cursor.seq = last.seq;
        }
        let bytes = self.cursor.encode();
        let mut replace = || {
            let file = self.disk.create(CURSOR_NEW)?;
            file.write_at(0, [&bytes, &[]])?;
            file.sync()?;
            self.disk.rename(CURSOR_NEW, CURSOR)?;
            self.sync_folder()
        };
        replace().map_err(|cause| self.error("written", cause))
    }

    /// Removes all data once the stream has ended. A new stream with this lineage can then begin in
    /// the journal.
    pub(super) fn finish(&mut self, lineage: Lineage) -> Result<(), JournalError> {
        let obsolete = std::mem::take(&mut self.segments);
        let spares = std::mem::take(&mut self.spares);
        self.cursor = Cursor {
            secret: self.cursor.secret.next(lineage),
            lineage,
            seq: 0,
            position: 0,
            elements: 0,
            peer: None,
            end: None,
            ..self.cursor.clone()
        };
        // Segments whose lineage differs from the cursor's are ignored.
        self.write_cursor()?;
        let next = Self::new(
            self.disk.clone(),
            self.bounds,
            self.cursor.clone(),
            VecDeque::new(),
            0,
        );
        *self = next;
        let segments = obsolete.iter().map(|segment| segment_name(segment.seq));
        for name in segments.chain(spares.into_iter().map(|spare| spare.name)) {
            let removed = self.disk.remove(&name);
            removed.map_err(|cause| self.error("trimmed", cause))?;
        }
        Ok(())
    }

    /// Stores the identity of the peer endpoint.
    pub(super) fn set_peer(&mut self, peer: Pair) -> Result<(), JournalError> {
        if self.cursor.peer == Some(peer) {
            return Ok(());
        }
        let before = self.cursor.peer.replace(peer);
        let written = self.write_cursor();
        if written.is_err() {
            self.cursor.peer = before;
        }
        written
    }

    /// Records the end of the stream, at most once. The end is durable once this record is synced.
    pub(super) fn append_end(&mut self, end: StreamClose) -> Result<(), JournalError> {
        if self.cursor.end == Some(end) {
            return Ok(());
        }
        self.append(RecordKind::End, end.position, &encode_end(end))?;
        self.cursor.end = Some(end);
        Ok(())
    }
}
