//! The append-only log, which makes rows durable before they are written to Parquet files.
//!
//! A log is a sequence of files, one per segment. A file consists of a header and frames:
//!
//! ```text
//! header  "TLHIST02" | u64 segment | u32 CRC of the 16 bytes before | u32 0
//! frame   "TLHF" | u32 length | u32 CRC of the payload | u32 CRC of the header | payload
//! payload i64 time of the commit | u64 epoch of the engine start | u8 flag | item*
//! flag    1: the engine shut down cleanly here
//! item    varint 2 x series     | varint length | rows
//!         varint 2 x series + 1 | varint length | definition of the series
//!         varint 1              | varint length | varint segment | varint bytes | spool
//! spool       empty, or varint length | identity of a spool
//! definition  varint length | name | varint length | units | data type
//! ```
//!
//! CRCs are CRC32C; numbers are little-endian. The CRC of a frame's header covers its first 12 bytes,
//! the segment and the frame's offset in the file (both u64), so that a copy of a frame within a
//! value is not mistaken for a frame. A commit is one or more frames, written in one call and
//! followed by `fdatasync`. A series is defined before its first rows in a segment, so that a log
//! can be read without the catalogue. A log that continues one in the other folder begins with the number
//! of that log and the number of its acknowledged bytes: rows beyond them are in this log. For a log of
//! the spool, it also has the identity of the spool. A frame whose CRC does not match is skipped, and
//! reported if valid frames follow. Otherwise a crash interrupted its commit, which was never acknowledged.

pub(crate) mod spool;
pub(crate) mod tail;

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use trunkline_types::Timestamp;
use trunkline_types::history::Rows;
use trunkline_types::wire::{Reader, decode_rows, encode_rows, put_str, put_varint};

use crate::catalogue::{Series, SpoolEnd, SpoolLog};
use crate::error::Error;
use crate::private;

/// The first bytes of a log; the digits are the version of its format.
const MAGIC: &[u8; 8] = b"TLHIST02";
const HEAD: usize = 24;
const FRAME_MAGIC: &[u8; 4] = b"TLHF";
const FRAME_HEAD: usize = 16;
/// Payload size beyond which a commit starts another frame, so that a damaged frame costs few rows.
const FRAME_BYTES: usize = 192 << 10;
/// Maximum number of rows of one series in an item.
const ITEM_ROWS: usize = 4096;
/// Number of bytes that always include the header and the first frame of a log of the spool.
const FIRST_FRAME: u64 = 256;
/// Kind of the item with the end of the log that this one continues.
const END_ITEM: u64 = 1;
/// Flag of a frame after which the engine shut down.
const STOPPED: u8 = 1;
/// Maximum length of the identity of a spool.
const SPOOL_BYTES_MAX: usize = 64;

/// The end of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogEnd {
    pub(crate) segment: u64,
    /// Number of bytes that were acknowledged.
    pub(crate) bytes: u64,
}

/// A log file opened for appending rows.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    pub(crate) segment: u64,
    /// The start of the engine that writes the log.
    epoch: u64,
    /// Length up to which the file is durable.
    len: u64,
    /// True if bytes beyond `len` may have been written by a commit that failed.
    is_dirty: bool,
    buffer: Vec<u8>,
    /// Series defined in this segment.
    defined: HashSet<u32>,
    /// Series that the commit under construction defines.
    defining: Vec<u32>,
}

/// Returns the path of a segment's log.
pub(crate) fn path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("log-{segment:010}.tlh"))
}

/// Returns the segments that have a log in the folder, in ascending order.
pub(crate) fn segments(folder: &Path) -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number: Option<u64> = name.to_str().and_then(|name| {
            let digits = name.strip_prefix("log-")?.strip_suffix(".tlh")?;
            digits.parse().ok()
        });
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

impl Log {
    /// Creates the log of a new segment. If that fails, it leaves no file.
    pub(crate) fn create(folder: &Path, segment: u64, epoch: u64) -> Result<Self, Error> {
        let mut options = private::options();
        options.write(true).create(true).truncate(true);
        Self::create_with(&options, folder, segment, epoch)
    }

    /// As [`create`](Self::create), but fails if the file exists.
    pub(crate) fn create_new(folder: &Path, segment: u64, epoch: u64) -> Result<Self, Error> {
        let mut options = private::options();
        options.write(true).create_new(true);
        Self::create_with(&options, folder, segment, epoch)
    }

    fn create_with(
        options: &OpenOptions,
        folder: &Path,
        segment: u64,
        epoch: u64,
    ) -> Result<Self, Error> {
        let path = path(folder, segment);
        let file = options.open(&path)?;
        let created = Self::begin_file(file, folder, segment, epoch);
        if created.is_err() {
            // If the file remains, it is a log without rows.
            let _ = std::fs::remove_file(path);
        }
        created
    }

    fn begin_file(mut file: File, folder: &Path, segment: u64, epoch: u64) -> Result<Self, Error> {
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&segment.to_le_bytes());
        let crc = crc32c::crc32c(&head);
        head.extend_from_slice(&crc.to_le_bytes());
        head.extend_from_slice(&[0; 4]);
        file.write_all(&head)?;
        file.sync_data()?;
        File::open(folder)?.sync_all()?;
        Ok(Self {
            file,
            segment,
            epoch,
            len: HEAD as u64,
            is_dirty: false,
            buffer: Vec::new(),
            defined: HashSet::new(),
            defining: Vec::new(),
        })
    }

    /// Begins a commit. Drops rows that were added but not committed.
    pub(crate) fn begin(&mut self) -> Commit<'_> {
        self.buffer.clear();
        self.defining.clear();
        Commit {
            log: self,
            frame: None,
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        if self.is_dirty {
            self.file.set_len(self.len)?;
            self.file.seek(SeekFrom::Start(self.len))?;
        }
        self.is_dirty = true;
        self.file.write_all(&self.buffer)?;
        self.file.sync_data()?;
        self.len += self.buffer.len() as u64;
        self.is_dirty = false;
        self.defined.extend(self.defining.drain(..));
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.len
    }

    /// Returns the end of the acknowledged part.
    pub(crate) fn end(&self) -> LogEnd {
        LogEnd {
            segment: self.segment,
            bytes: self.len,
        }
    }

    /// Truncates what a failed commit may have left. Errors are ignored: the log that continues this
    /// one says where its acknowledged part ends.
    pub(crate) fn cut(&mut self) {
        if self.is_dirty {
            let _ = self.file.set_len(self.len);
            let _ = self.file.sync_data();
        }
    }
}

/// A commit under construction.
pub(crate) struct Commit<'a> {
    log: &'a mut Log,
    /// Offset of the current frame in the buffer.
    frame: Option<usize>,
}

impl Commit<'_> {
    /// Adds rows of a series. If this segment does not define the series yet, calls `define` to get
    /// its definition.
    pub(crate) fn add<'s>(
        &mut self,
        series: u32,
        rows: &Rows,
        time: Timestamp,
        define: impl FnOnce() -> Option<&'s Series>,
    ) {
        self.open_frame(time, 0);
        if !self.log.defined.contains(&series)
            && let Some(definition) = define()
        {
            self.log.defining.push(series);
            self.item(u64::from(series) * 2 + 1, |buffer| {
                definition.encode_definition(buffer)
            });
        }
        let kind = u64::from(series) * 2;
        if rows.len() <= ITEM_ROWS {
            self.item(kind, |buffer| encode_rows(rows, 0, 0, buffer));
            return self.close_if_long();
        }
        let mut at = 0;
        while at < rows.len() {
            let end = rows.len().min(at + ITEM_ROWS);
            let mut part = Rows::new(rows.word_bytes());
            part.append(rows, at..end);
            if end == rows.len() {
                for mark in rows.events() {
                    part.push_event(*mark);
                }
            }
            self.open_frame(time, 0);
            self.item(kind, |buffer| encode_rows(&part, 0, 0, buffer));
            self.close_if_long();
            at = end;
        }
    }

    /// Adds an item to the current frame.
    fn item(&mut self, kind: u64, put: impl FnOnce(&mut Vec<u8>)) {
        let buffer = &mut self.log.buffer;
        put_varint(buffer, kind);
        // The length is not known yet: reserve five bytes, a varint of fixed length.
        let at = buffer.len();
        buffer.extend_from_slice(&[0; 5]);
        put(buffer);
        let mut length = buffer.len() - at - 5;
        for (index, place) in buffer.iter_mut().skip(at).take(5).enumerate() {
            let more = if index < 4 { 0x80 } else { 0 };
            *place = (length & 0x7f) as u8 | more;
            length >>= 7;
        }
    }

    fn close_if_long(&mut self) {
        let is_long = |start| self.log.buffer.len() - start > FRAME_BYTES;
        if self.frame.is_some_and(is_long) {
            self.close_frame();
        }
    }

    /// Adds a frame that contains only the time, unless a frame is open.
    pub(crate) fn note(&mut self, time: Timestamp) {
        self.open_frame(time, 0);
    }

    /// Adds the end of the log in the history's folder that this one continues.
    pub(crate) fn note_end(&mut self, end: LogEnd, time: Timestamp) {
        self.open_frame(time, 0);
        self.item(END_ITEM, |buffer| {
            put_varint(buffer, end.segment);
            put_varint(buffer, end.bytes);
        });
    }

    /// Adds the end of the log of the spool that this one continues.
    pub(crate) fn note_spool_end(&mut self, end: &SpoolEnd, time: Timestamp) {
        self.open_frame(time, 0);
        self.item(END_ITEM, |buffer| {
            put_varint(buffer, end.log.log);
            put_varint(buffer, end.bytes);
            put_str(buffer, &end.log.spool);
        });
    }

    fn open_frame(&mut self, time: Timestamp, flag: u8) {
        if self.frame.is_none() {
            let buffer = &mut self.log.buffer;
            self.frame = Some(buffer.len());
            buffer.extend_from_slice(&[0; FRAME_HEAD]);
            buffer.extend_from_slice(&time.as_nanos().to_le_bytes());
            buffer.extend_from_slice(&self.log.epoch.to_le_bytes());
            buffer.push(flag);
        }
    }

    fn close_frame(&mut self) {
        let Some(start) = self.frame.take() else {
            return;
        };
        let (_, frame) = self.log.buffer.split_at_mut(start);
        let (head, payload) = frame.split_at_mut(FRAME_HEAD);
        let mut new = Vec::with_capacity(FRAME_HEAD);
        new.extend_from_slice(FRAME_MAGIC);
        new.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        new.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        let place = self.log.len + start as u64;
        let crc = head_crc(&new, self.log.segment, place);
        new.extend_from_slice(&crc.to_le_bytes());
        head.copy_from_slice(&new);
    }

    /// Adds a frame that marks a clean shutdown of the engine.
    pub(crate) fn stop(&mut self, time: Timestamp) {
        self.close_frame();
        self.open_frame(time, STOPPED);
    }

    /// Writes the frames, which are then durable.
    ///
    /// # Errors
    /// The write failed. Nothing was committed, and the caller may try again.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.close_frame();
        match self.log.buffer.is_empty() {
            true => Ok(()),
            false => self.log.write(),
        }
    }
}

/// Computes the checksum of a frame's header.
fn head_crc(head: &[u8], segment: u64, place: u64) -> u32 {
    let crc = crc32c::crc32c(head);
    let crc = crc32c::crc32c_append(crc, &segment.to_le_bytes());
    crc32c::crc32c_append(crc, &place.to_le_bytes())
}

/// The content of a segment's log.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) rows: Vec<(u32, Rows)>,
    /// The definitions of the series of these rows.
    pub(crate) series: Vec<Series>,
    /// Time of the last commit.
    pub(crate) last_commit: Option<Timestamp>,
    /// The start of the engine that wrote the log; 0 if it has no commit.
    pub(crate) epoch: u64,
    /// True if the engine shut down cleanly after the last commit.
    pub(crate) is_stopped: bool,
    /// The end of the log in the folder that this log of the spool continues.
    pub(crate) follows: Option<LogEnd>,
    /// The end of the log of the spool that this log in the folder continues.
    pub(crate) follows_spool: Option<SpoolEnd>,
    /// For each damaged section, which was skipped, the time of the last commit before it.
    pub(crate) damage: Vec<Option<Timestamp>>,
}

/// Reads the log of a segment.
pub(crate) fn recover(path: &Path, segment: u64) -> Result<Recovered, Error> {
    recover_up_to(path, segment, None)
}

/// As [`recover`], up to the end of the acknowledged part if it is known.
pub(crate) fn recover_up_to(
    path: &Path,
    segment: u64,
    end: Option<u64>,
) -> Result<Recovered, Error> {
    let mut bytes = std::fs::read(path)?;
    if let Some(end) = end {
        bytes.truncate(usize::try_from(end).unwrap_or(usize::MAX));
    }
    parse(&bytes, segment)
}

/// Returns the end of the log that this one continues, from its first frame. Returns `None` if nothing
/// follows that frame: creating the log may have failed, and then the other log may have continued.
pub(crate) fn end_before(path: &Path, segment: u64) -> Result<Option<LogEnd>, Error> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(FIRST_FRAME).read_to_end(&mut bytes)?;
    let Some(payload) = frame_at(&bytes, HEAD, segment) else {
        return Ok(None);
    };
    let mut first = Recovered::default();
    first.take(payload)?;
    let is_in_use = length > (HEAD + FRAME_HEAD + payload.len()) as u64;
    Ok(first.follows.filter(|_| is_in_use))
}

/// Truncates a log to its acknowledged part. Does nothing if there is no log.
pub(crate) fn cut(folder: &Path, end: LogEnd) -> Result<(), Error> {
    let file = match OpenOptions::new()
        .write(true)
        .open(path(folder, end.segment))
    {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    if file.metadata()?.len() > end.bytes {
        file.set_len(end.bytes)?;
        file.sync_data()?;
    }
    Ok(())
}

/// Checks the version of a log whose header is intact.
fn check_version(bytes: &[u8]) -> Result<(), Error> {
    let version = |bytes: &[u8]| -> Option<u32> {
        let digits = bytes.strip_prefix(b"TLHIST")?.get(..2)?;
        str::from_utf8(digits).ok()?.parse().ok()
    };
    match (version(bytes), version(MAGIC)) {
        (Some(found), Some(known)) if found == known => Ok(()),
        (Some(found), Some(known)) if found > known => Err(Error::Newer { found, known }),
        (Some(_), Some(_)) => Err(Error::EarlierLog),
        _ => Err(Error::damaged("a log has an unknown format")),
    }
}

/// Parses the content of a log.
pub(crate) fn parse(bytes: &[u8], segment: u64) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    let crc = crc32c::crc32c(bytes.get(..16).unwrap_or_default());
    let is_whole = bytes.get(16..20) == Some(&crc.to_le_bytes());
    if is_whole {
        check_version(bytes)?;
    }
    let mut at = HEAD;
    // A damaged header is harmless, because frames can be found without it. If there are no frames
    // either, a crash interrupted the creation of the log.
    let mut skipped = !is_whole && bytes.len() > HEAD;
    while at < bytes.len() {
        match frame_at(bytes, at, segment) {
            Some(payload) => {
                if std::mem::take(&mut skipped) {
                    recovered.damage.push(recovered.last_commit);
                }
                recovered.take(payload)?;
                at += FRAME_HEAD + payload.len();
            }
            None => {
                skipped = true;
                // Find the next offset at which a frame may begin.
                let rest = bytes.get(at + 1..).unwrap_or_default();
                let next = rest.windows(4).position(|four| four == FRAME_MAGIC);
                match next {
                    Some(offset) => at += 1 + offset,
                    None => break,
                }
            }
        }
    }
    Ok(recovered)
}

/// Returns the payload of the frame at an offset if the frame is valid.
fn frame_at(bytes: &[u8], at: usize, segment: u64) -> Option<&[u8]> {
    let head = bytes.get(at..at.checked_add(FRAME_HEAD)?)?;
    let word = |place: usize| {
        let four = head.get(place..place + 4)?;
        <[u8; 4]>::try_from(four).ok().map(u32::from_le_bytes)
    };
    let is_head =
        head.starts_with(FRAME_MAGIC) && word(12)? == head_crc(head.get(..12)?, segment, at as u64);
    if !is_head {
        return None;
    }
    let start = at + FRAME_HEAD;
    let payload = bytes.get(start..start.checked_add(word(4)? as usize)?)?;
    (crc32c::crc32c(payload) == word(8)?).then_some(payload)
}

impl Recovered {
    /// Returns the number of rows and events.
    pub(crate) fn count(&self) -> u64 {
        let rows = self.rows.iter();
        rows.map(|(_, rows)| (rows.len() + rows.events().len()) as u64)
            .sum()
    }

    fn take(&mut self, payload: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new(payload);
        self.last_commit = Some(Timestamp::from_nanos(reader.i64()?));
        self.epoch = reader.u64()?;
        self.is_stopped = reader.u8()? == STOPPED;
        while !reader.is_empty() {
            let kind = reader.varint()?;
            let length = reader.varint()? as usize;
            let id = (kind / 2) as u32;
            if kind == END_ITEM {
                let mut end = reader.sub(length)?;
                let (segment, bytes) = (end.varint()?, end.varint()?);
                if end.is_empty() {
                    self.follows = Some(LogEnd { segment, bytes });
                    continue;
                }
                let log = SpoolLog {
                    spool: end.str(SPOOL_BYTES_MAX)?.to_owned(),
                    log: segment,
                };
                self.follows_spool = Some(SpoolEnd { log, bytes });
            } else if kind % 2 == 1 {
                self.series
                    .push(Series::decode_definition(id, reader.bytes(length)?)?);
            } else {
                self.rows.push((id, decode_rows(&mut reader.sub(length)?)?));
            }
        }
        Ok(())
    }
}
