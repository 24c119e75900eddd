//! Recovers a journal after a crash.
//!
//! Each segment is synced before the next one begins, so only the last segment can be torn. Recovery
//! cuts off an incomplete record at its end. An incomplete record anywhere else is damage, and
//! recovery reports it as an error.

use std::collections::VecDeque;
use std::sync::Arc;

use trunkline_proto::stream::Secret;

use super::bounds::Bounds;
use super::disk::Disk;
use super::error::JournalError;
use super::log::{CURSOR, CURSOR_NEW, Log, Segment, is_spare, segment_name, segment_seq};
use super::record::{
    Cursor, Lineage, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES,
    SegmentHeader, decode_end,
};

const READ_BYTES: usize = 1 << 20;

/// The endpoint to which a journal belongs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    pub is_writer: bool,
    /// Bytes per element; 0 if elements vary in size.
    pub element_bytes: u32,
    /// URL of the endpoint, in canonical form.
    pub url: String,
    /// Lineage for a newly created journal: any random number.
    pub lineage: Lineage,
    /// Secret for a newly created journal, from which the endpoint's shared secrets are derived.
    pub secret: Secret,
}

/// Opens the journal on `disk`, or creates one. The flag is true if it was created.
pub(super) fn open(
    disk: Arc<dyn Disk>,
    owner: &Owner,
    bounds: Bounds,
) -> Result<(Log, bool), JournalError> {
    let io = |cause| JournalError::disk(disk.folder(), "read", cause);
    let names = disk.list().map_err(io)?;
    let mut seqs: Vec<u64> = names.iter().filter_map(|name| segment_seq(name)).collect();
    seqs.sort_unstable();
    for name in names
        .iter()
        .filter(|name| *name == CURSOR_NEW || is_spare(name))
    {
        let removed = disk.remove(name);
        removed.map_err(|cause| JournalError::disk(disk.folder(), "written", cause))?;
    }
    if !names.iter().any(|name| name == CURSOR) {
        if !seqs.is_empty() {
            return Err(JournalError::damaged(
                disk.folder(),
                "its cursor is missing",
            ));
        }
        let cursor = Cursor {
            lineage: owner.lineage,
            is_writer: owner.is_writer,
            element_bytes: owner.element_bytes,
            url: owner.url.clone(),
            seq: 0,
            position: 0,
            elements: 0,
            secret: owner.secret,
            peer: None,
            end: None,
        };
        let mut log = Log::new(disk, bounds, cursor, VecDeque::new(), 0);
        log.write_cursor()?;
        return Ok((log, true));
    }
    let cursor = read_cursor(&*disk, owner)?;
    Recovery { disk, cursor }.run(seqs, bounds)
}

fn read_cursor(disk: &dyn Disk, owner: &Owner) -> Result<Cursor, JournalError> {
    let read = || {
        let file = disk.open(CURSOR)?;
        let len = usize::try_from(file.size()?).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(READ_BYTES)];
        let count = file.read_at(0, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    };
    let bytes = read().map_err(|cause| JournalError::disk(disk.folder(), "read", cause))?;
    let damaged = || JournalError::damaged(disk.folder(), "its cursor cannot be read");
    let cursor = Cursor::decode(&bytes).ok_or_else(damaged)?;
    let is_ours = cursor.is_writer == owner.is_writer
        && cursor.element_bytes == owner.element_bytes
        && cursor.url == owner.url;
    if is_ours {
        return Ok(cursor);
    }
    let role = if cursor.is_writer { "writer" } else { "reader" };
    let elements = match cursor.element_bytes {
        0 => "elements of varying length".to_owned(),
        bytes => format!("elements of {bytes} bytes"),
    };
    Err(JournalError::WrongOwner {
        folder: disk.folder().to_owned(),
        owner: format!("the {role} {}, of {elements}", cursor.url),
    })
}

struct Recovery {
    disk: Arc<dyn Disk>,
    cursor: Cursor,
}

/// A segment with an intact header.
struct FoundSegment {
    segment: Segment,
    /// Length of the file, in bytes. The records up to `segment.len` are known to be intact.
    len: u64,
    /// The last record is a seal; the bytes after the seal are old content of a reused file.
    is_sealed: bool,
    /// Boot number of the machine when the segment was created; 0 if unknown.
    boot: u32,
}

/// The state of a segment file.
enum Inspected {
    Intact(FoundSegment),
    /// The header is incomplete, and the file contains nothing else.
    Torn,
    /// The segment belongs to another lineage.
    Foreign,
}

impl Recovery {
    fn damaged_record(&self, found: &FoundSegment, offset: u64) -> JournalError {
        let name = segment_name(found.segment.seq);
        self.damaged(format!("the record at byte {offset} of {name}"))
    }

    fn damaged(&self, what: impl Into<String>) -> JournalError {
        JournalError::damaged(self.disk.folder(), what)
    }

    fn read_error(&self, cause: std::io::Error) -> JournalError {
        JournalError::disk(self.disk.folder(), "read", cause)
    }

    fn remove(&self, seq: u64) -> Result<(), JournalError> {
        let removed = self.disk.remove(&segment_name(seq));
        removed.map_err(|cause| JournalError::disk(self.disk.folder(), "written", cause))
    }

    fn run(mut self, seqs: Vec<u64>, bounds: Bounds) -> Result<(Log, bool), JournalError> {
        let mut found = VecDeque::new();
        for (i, seq) in seqs.iter().enumerate() {
            match self.inspect(*seq)? {
                Inspected::Intact(segment) => found.push_back(segment),
                // The file is left over from a stream that has ended.
                Inspected::Foreign => self.remove(*seq)?,
                // The crash happened while the segment was being created.
                Inspected::Torn if i + 1 == seqs.len() => self.remove(*seq)?,
                Inspected::Torn => {
                    return Err(self.damaged(format!("{} has no header", segment_name(*seq))));
                }
            }
        }
        // Segments that were removed may reappear after a loss of power.
        let begins_by_cursor = |found: &FoundSegment| {
            found.segment.seq <= self.cursor.seq && found.segment.position <= self.cursor.position
        };
        let first = found.iter().rposition(begins_by_cursor).unwrap_or(0);
        for obsolete in found.drain(..first) {
            self.remove(obsolete.segment.seq)?;
        }
        let mut end = self.cursor.position;
        match found.front() {
            Some(first) if first.segment.position > self.cursor.position => {
                return Err(self.damaged("its first segment is missing"));
            }
            Some(first) => end = first.segment.position,
            None if self.cursor.seq > 0 => return Err(self.damaged("its segments are missing")),
            None => {}
        }
        let mut segments: VecDeque<Segment> = VecDeque::new();
        let count = found.len();
        for (i, mut found) in found.into_iter().enumerate() {
            let expected = segments
                .back()
                .map_or(found.segment.seq, |last| last.seq + 1);
            if found.segment.seq != expected || found.segment.position != end {
                return Err(self.damaged(format!("{} is missing", segment_name(expected))));
            }
            end = self.replay(&mut found, end)?;
            if found.segment.len < found.len && !found.is_sealed {
                let name = segment_name(found.segment.seq);
                let at = found.segment.len;
                if i + 1 < count {
                    return Err(self.damaged(format!("byte {at} of {name}")));
                }
                if let Some(intact_at) = self.intact_record_after(&found)? {
                    return Err(self.damaged(format!(
                        "byte {at} of {name}, although an intact record follows at byte {intact_at}"
                    )));
                }
            }
            if i + 1 == count {
                // This program may see data that is not on the disk yet.
                let sync_end = || {
                    found.segment.file.truncate(found.segment.len)?;
                    found.segment.file.sync()
                };
                let synced = sync_end();
                synced.map_err(|cause| JournalError::disk(self.disk.folder(), "written", cause))?;
            } else {
                found.segment.old_len = found.len;
            }
            segments.push_back(found.segment);
        }
        if segments
            .back()
            .is_some_and(|last| last.seq < self.cursor.seq)
            || end < self.cursor.position
        {
            return Err(self.damaged("its last segments are missing"));
        }
        let folder = self.disk.sync_folder();
        folder.map_err(|cause| JournalError::disk(self.disk.folder(), "written", cause))?;
        Ok((
            Log::new(self.disk, bounds, self.cursor, segments, end),
            false,
        ))
    }

    /// Searches the last segment for an intact record after the damage, and returns the offset of
    /// that record. It was written after the damaged record was complete, so the disk is at fault.
    /// `None` means that the segment may have been torn by a crash.
    ///
    /// While the machine runs, no written data is lost. After a loss of power, any part of the
    /// unsynced data may be missing, so a record only counts if it shows that the damaged part was
    /// durable.
    fn intact_record_after(&self, found: &FoundSegment) -> Result<Option<u64>, JournalError> {
        let Segment {
            len: damaged_at,
            position,
            ..
        } = found.segment;
        let is_same_boot = found.boot != 0 && found.boot == self.disk.boot();
        let rest = usize::try_from(found.len - damaged_at).unwrap_or(usize::MAX);
        let mut bytes = vec![0; rest];
        let read = found.segment.file.read_at(damaged_at, &mut bytes);
        let count = read.map_err(|cause| self.read_error(cause))?;
        bytes.truncate(count);
        // The search starts one byte after the start of the damage: no valid record begins at the
        // start, and the length of the damage is unknown.
        let is_intact_record = |at: &usize| {
            let Some(header_bytes) = bytes.get(*at..).and_then(<[u8]>::first_chunk) else {
                return false;
            };
            let Some(header) = RecordHeader::decode(header_bytes) else {
                return false;
            };
            let offset = damaged_at + *at as u64;
            let is_possible = header.safe <= offset
                && (header.kind == RecordKind::Read
                    || (position..=position.saturating_add(offset)).contains(&header.position));
            let was_durable = is_same_boot || header.safe > damaged_at;
            let payload = bytes
                .get(at + RECORD_HEADER_BYTES..)
                .and_then(|rest| rest.get(..header.len as usize));
            is_possible
                && was_durable
                && payload.is_some_and(|payload| {
                    header.is_intact(found.segment.seed, header_bytes, payload)
                })
        };
        let found = (1..bytes.len()).find(is_intact_record);
        Ok(found.map(|at| damaged_at + at as u64))
    }

    fn inspect(&self, seq: u64) -> Result<Inspected, JournalError> {
        let read = || {
            let mut bytes = [0; SEGMENT_HEADER_BYTES];
            let file = self.disk.open(&segment_name(seq))?;
            let len = file.size()?;
            let count = file.read_at(0, &mut bytes)?;
            Ok((file, len, count, bytes))
        };
        let (file, len, count, bytes) = read().map_err(|cause| self.read_error(cause))?;
        match SegmentHeader::decode(&bytes).filter(|_| count == SEGMENT_HEADER_BYTES) {
            Some((header, _)) if header.lineage != self.cursor.lineage => Ok(Inspected::Foreign),
            Some((header, seed)) if header.seq == seq => {
                let segment = Segment {
                    seq,
                    position: header.position,
                    file,
                    len: SEGMENT_HEADER_BYTES as u64,
                    old_len: 0,
                    seed,
                    safe: SEGMENT_HEADER_BYTES as u64,
                };
                Ok(Inspected::Intact(FoundSegment {
                    segment,
                    len,
                    is_sealed: false,
                    boot: header.boot,
                }))
            }
            _ if len <= SEGMENT_HEADER_BYTES as u64 => Ok(Inspected::Torn),
            _ => Err(self.damaged(format!("the header of {}", segment_name(seq)))),
        }
    }

    /// Replays the records of a segment up to the first incomplete one. The segment's data begins at
    /// stream position `end`. Returns the position at which the data of the replayed records ends.
    fn replay(&mut self, found: &mut FoundSegment, mut end: u64) -> Result<u64, JournalError> {
        let is_new = found.segment.seq >= self.cursor.seq;
        let mut buffer = Vec::new();
        let mut buffer_offset = found.segment.len;
        loop {
            let offset = found.segment.len;
            let from = usize::try_from(offset - buffer_offset).unwrap_or(usize::MAX);
            let rest = buffer.get(from..).unwrap_or_default();
            let header = rest.first_chunk::<RECORD_HEADER_BYTES>().copied();
            let decoded = header.as_ref().and_then(RecordHeader::decode);
            let needed = RECORD_HEADER_BYTES + decoded.map_or(0, |header| header.len as usize);
            let remaining = found.len - offset;
            if rest.len() < needed && (rest.len() as u64) < remaining {
                if (needed as u64) > remaining || (header.is_some() && decoded.is_none()) {
                    return Ok(end);
                }
                let read_len = (needed.max(READ_BYTES) as u64).min(remaining);
                buffer.resize(usize::try_from(read_len).unwrap_or(usize::MAX), 0);
                let read = found.segment.file.read_at(offset, &mut buffer);
                let count = read.map_err(|cause| self.read_error(cause))?;
                buffer_offset = offset;
                if (count as u64) < read_len {
                    let name = segment_name(found.segment.seq);
                    return Err(self.damaged(format!("{name} became shorter")));
                }
                continue;
            }
            let (Some(bytes), Some(header)) = (header, decoded) else {
                return Ok(end);
            };
            let Some(payload) = rest.get(RECORD_HEADER_BYTES..needed) else {
                return Ok(end);
            };
            if !header.is_intact(found.segment.seed, &bytes, payload) {
                return Ok(end);
            }
            match (header.kind, <[u8; 8]>::try_from(payload)) {
                (RecordKind::Data, _) if header.position == end => end += payload.len() as u64,
                (RecordKind::Read, Ok(elements)) if header.position <= end => {
                    if is_new && header.position > self.cursor.position {
                        self.cursor.position = header.position;
                        self.cursor.elements = u64::from_le_bytes(elements);
                    }
                }
                (RecordKind::End, _) => match decode_end(header.position, payload) {
                    Some(end) => self.cursor.end = Some(end),
                    None => return Err(self.damaged_record(found, offset)),
                },
                (RecordKind::Seal, _) if payload.is_empty() => found.is_sealed = true,
                _ => return Err(self.damaged_record(found, offset)),
            }
            found.segment.len += needed as u64;
            if found.is_sealed {
                return Ok(end);
            }
        }
    }
}
