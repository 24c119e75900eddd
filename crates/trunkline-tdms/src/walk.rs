//! From segment to segment: the only part of reading that has a state.
//!
//! Every segment may rely on what the ones before said: the list of objects that have data, and how
//! each one's data lies. The walk keeps both, applies the properties, and gives out where raw data
//! stands, in runs of segments laid out alike.

use std::io;
use std::sync::Arc;

use crate::element::ByteOrder;
use crate::fault::{Fault, Finding};
use crate::index_file::IndexCursor;
use crate::layout::{Layout, Tail};
use crate::lead_in::{
    DATA_TAG, INDEX_TAG, LEAD_IN_BYTES, LeadIn, NOT_CLOSED, TOC_INTERLEAVED, TOC_METADATA,
    TOC_NEW_LIST, TOC_RAW_DATA,
};
use crate::metadata::{Block, Stop};
use crate::objects::Objects;
use crate::open::{Limits, OpenError};
use crate::read_at::ReadAt;

/// Findings that are kept; further ones are counted.
const FINDINGS_MAX: usize = 1_000;
/// Columns of layouts that are kept whatever the length of the file, and bytes of file for each
/// further one. Files have at least a byte of data for each; only one made to use up memory has
/// more.
const COLUMNS_FREE: u64 = 1 << 16;
const BYTES_PER_COLUMN: u64 = 2;

/// Raw data of one segment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Extent {
    /// Where its data begins.
    pub(crate) position: u64,
    /// Whole chunks before it in its run.
    pub(crate) chunks_before: u64,
    pub(crate) chunks: u64,
}

/// Segments laid out alike; only the last one may end with part of a chunk.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Run {
    pub(crate) layout: Arc<Layout>,
    pub(crate) extents: Vec<Extent>,
    pub(crate) tail: Tail,
}

impl Run {
    pub(crate) fn chunks(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |e| e.chunks_before + e.chunks)
    }
}

/// A segment, as far as recovery has to know.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct LastSegment {
    pub(crate) position: u64,
    pub(crate) is_big_endian: bool,
    pub(crate) metadata_bytes: u64,
    /// Bytes of data that are there.
    pub(crate) data_bytes: u64,
    /// Bytes of them in whole chunks.
    pub(crate) whole_bytes: u64,
    pub(crate) is_interleaved: bool,
}

/// What a walk has found.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) objects: Objects,
    pub(crate) runs: Vec<Run>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) findings_dropped: u64,
    pub(crate) segments: u64,
    pub(crate) version: Option<u32>,
    /// Why and where the file ends before its last segment does.
    pub(crate) incomplete: Option<Finding>,
    /// Bytes at the end that belong to no value that is delivered.
    pub(crate) bytes_lost: u64,
    pub(crate) last: Option<LastSegment>,
    /// Where the next segment would begin.
    pub(crate) end: u64,
}

impl Map {
    fn find(&mut self, position: u64, fault: Fault) {
        match self.findings.len() < FINDINGS_MAX {
            true => self.findings.push(Finding { position, fault }),
            false => self.findings_dropped += 1,
        }
    }
}

/// Which kind of file is walked.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Data,
    /// An index file alone: metadata, and no data to read.
    IndexAlone,
}

pub(crate) struct Walk<'a, R: ?Sized, I: ?Sized> {
    source: &'a R,
    index: Option<IndexCursor<'a, I>>,
    kind: Kind,
    limits: Limits,
    len: u64,
    /// Where the segment stands in what is walked, and in the data file.
    at: u64,
    position: u64,
    window: Vec<u8>,
    map: Map,
    is_big: Option<bool>,
    /// That of the segments so far, with the byte order and the flag it was made for.
    layout: Option<(ByteOrder, bool, Result<Arc<Layout>, Fault>)>,
    columns: u64,
    columns_max: u64,
}

impl<'a, R: ReadAt + ?Sized, I: ReadAt + ?Sized> Walk<'a, R, I> {
    pub(crate) fn new(
        source: &'a R,
        index: Option<&'a I>,
        kind: Kind,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let len = source.byte_len().map_err(|error| failed(0, error))?;
        Ok(Self {
            source,
            index: index.map(IndexCursor::new),
            kind,
            limits,
            len,
            at: 0,
            position: 0,
            window: Vec::new(),
            map: Map::default(),
            is_big: None,
            layout: None,
            columns: 0,
            columns_max: COLUMNS_FREE + len / BYTES_PER_COLUMN,
        })
    }

    /// Walks to the end of what can be read.
    pub(crate) fn run(mut self) -> Result<Map, OpenError> {
        loop {
            match self.segment() {
                Ok(true) => {}
                Ok(false) => break,
                Err(OpenError::Refused(finding))
                    if self.limits.is_salvaging && self.map.segments > 0 =>
                {
                    self.map.bytes_lost = self.len - self.at;
                    self.map.incomplete = Some(finding);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.map.end = self.at;
        Ok(self.map)
    }

    /// Ends the walk here.
    fn ends(&mut self, fault: Fault, bytes_lost: u64) -> Result<bool, OpenError> {
        self.map.incomplete = Some(self.finding(fault));
        self.map.bytes_lost = bytes_lost;
        Ok(false)
    }

    fn finding(&self, fault: Fault) -> Finding {
        let position = self.position;
        Finding { position, fault }
    }

    fn refuse<T>(&self, fault: Fault) -> Result<T, OpenError> {
        Err(OpenError::Refused(self.finding(fault)))
    }

    /// Takes in one segment; false at the end.
    fn segment(&mut self) -> Result<bool, OpenError> {
        let left = self.len - self.at;
        let mut bytes = [0; LEAD_IN_BYTES as usize];
        let there = left.min(LEAD_IN_BYTES) as usize;
        self.source
            .read_exact_at(&mut bytes[..there], self.at)
            .map_err(|error| failed(self.at, error))?;
        if !self.check_tag(&bytes[..there.min(4)])? {
            return self.ends(Fault::Garbage { bytes: left }, left);
        }
        match left {
            0 if self.at > 0 => return Ok(false),
            0 => return self.ends(Fault::Empty, 0),
            1..LEAD_IN_BYTES => return self.ends(Fault::TornLeadIn { bytes: left }, left),
            _ => {}
        }
        let lead_in = LeadIn::decode(&bytes);
        let (segment, metadata) = (lead_in.segment_bytes, lead_in.metadata_bytes);
        if segment < metadata {
            return self.refuse(Fault::MetadataBeyondSegment { metadata, segment });
        }
        let after = left - LEAD_IN_BYTES;
        if metadata > after {
            let missing = metadata - after;
            return self.ends(Fault::TornMetadata { missing }, left);
        }
        self.warn_of(&lead_in);
        self.use_index(&bytes, &lead_in)?;
        self.take_metadata(&lead_in)?;
        self.map.segments += 1;
        match self.kind {
            Kind::Data => self.take_data(&lead_in, after),
            Kind::IndexAlone => {
                self.at += LEAD_IN_BYTES + metadata;
                let next = self.position.saturating_add(LEAD_IN_BYTES);
                self.position = next.saturating_add(segment);
                Ok(true)
            }
        }
    }

    /// False where no segment begins; an error where no file of the kind does.
    fn check_tag(&self, tag: &[u8]) -> Result<bool, OpenError> {
        let (expected, other) = match self.kind {
            Kind::Data => (DATA_TAG, INDEX_TAG),
            Kind::IndexAlone => (INDEX_TAG, DATA_TAG),
        };
        let is_expected = expected.starts_with(tag);
        if is_expected || self.at > 0 {
            return Ok(is_expected);
        }
        let (tag, is_other) = (tag.to_vec(), tag == other);
        match self.kind {
            Kind::Data if is_other => self.refuse(Fault::IndexFile),
            Kind::Data => self.refuse(Fault::NotTdms { tag }),
            Kind::IndexAlone => self.refuse(Fault::NotIndex { tag }),
        }
    }

    fn warn_of(&mut self, lead_in: &LeadIn) {
        let version = lead_in.version;
        let position = self.position;
        if !matches!(version, 4712 | 4713) {
            self.map.find(position, Fault::UnknownVersion { version });
        }
        if *self.map.version.get_or_insert(version) != version {
            self.map.find(position, Fault::VersionChange { version });
            self.map.version = Some(version);
        }
        let is_big = lead_in.order() == ByteOrder::Big;
        if self
            .is_big
            .replace(is_big)
            .is_some_and(|before| before != is_big)
        {
            self.map.find(position, Fault::ByteOrderChange);
            self.layout = None;
        }
        let bits = lead_in.unknown_flags();
        if bits != 0 {
            self.map.find(position, Fault::UnknownFlags { bits });
        }
    }

    /// Lets go of the index where it differs from the data.
    fn use_index(&mut self, bytes: &[u8; 28], lead_in: &LeadIn) -> Result<(), OpenError> {
        let Some(index) = &mut self.index else {
            return Ok(());
        };
        let is_first = self.map.segments == 0;
        let place = self.at + LEAD_IN_BYTES;
        let metadata = is_first.then_some((self.source, place));
        let is_same = index
            .matches(bytes, lead_in.metadata_bytes, metadata)
            .map_err(|error| failed(self.at, error))?;
        if !is_same {
            self.index = None;
            self.map.find(self.position, Fault::StaleIndex);
        }
        Ok(())
    }

    fn take_metadata(&mut self, lead_in: &LeadIn) -> Result<(), OpenError> {
        let bytes = lead_in.metadata_bytes;
        let index_at = self.index.as_mut().map(|index| index.pass(bytes));
        if !lead_in.has(TOC_METADATA) {
            return match self.map.segments {
                0 => self.refuse(Fault::NoMetadata),
                _ => Ok(()),
            };
        }
        if lead_in.has(TOC_NEW_LIST) || self.map.segments == 0 {
            self.map.objects.begin_list();
            self.layout = None;
        }
        let position = self.position + LEAD_IN_BYTES;
        let order = lead_in.order();
        let mut window = std::mem::take(&mut self.window);
        let taken = match (&self.index, index_at) {
            (Some(index), Some(at)) => {
                let mut block =
                    Block::new(index.source(), &mut window, (at, position, bytes), order);
                take_objects(&mut self.map, &mut block, &self.limits)
            }
            _ => {
                let at = self.at + LEAD_IN_BYTES;
                let mut block = Block::new(self.source, &mut window, (at, position, bytes), order);
                take_objects(&mut self.map, &mut block, &self.limits)
            }
        };
        self.window = window;
        match taken {
            Ok(is_changed) => {
                if is_changed {
                    self.layout = None;
                }
                Ok(())
            }
            Err(Stop::Source(position, error)) => Err(failed(position, error)),
            Err(Stop::Refused(finding)) => Err(OpenError::Refused(finding)),
            Err(Stop::Rest(finding)) => {
                self.map.find(finding.position, finding.fault);
                self.map.objects.lose();
                self.layout = None;
                Ok(())
            }
        }
    }

    /// Notes where the data stands, and goes on to the next segment.
    fn take_data(&mut self, lead_in: &LeadIn, after: u64) -> Result<bool, OpenError> {
        let metadata = lead_in.metadata_bytes;
        let wanted = lead_in.segment_bytes;
        let is_torn = wanted == NOT_CLOSED || wanted > after;
        let data_bytes = wanted.min(after) - metadata;
        let start = self.at + LEAD_IN_BYTES + metadata;
        let used = match data_bytes {
            0 => 0,
            _ => self.note_data(lead_in, start, data_bytes, is_torn)?,
        };
        self.map.last = Some(LastSegment {
            position: self.at,
            is_big_endian: self.is_big == Some(true),
            metadata_bytes: metadata,
            data_bytes,
            whole_bytes: self.whole_bytes(data_bytes),
            is_interleaved: lead_in.has(TOC_INTERLEAVED),
        });
        if !is_torn {
            self.at = start + data_bytes;
            self.position = self.at;
            return Ok(true);
        }
        let fault = match wanted {
            NOT_CLOSED => Fault::NotClosed,
            _ => Fault::TornData {
                missing: wanted - after,
            },
        };
        let ended = self.ends(fault, data_bytes - used);
        self.at = self.len;
        ended
    }

    fn whole_bytes(&self, data_bytes: u64) -> u64 {
        match &self.layout {
            Some((_, _, Ok(layout))) if layout.chunk_bytes > 0 => {
                data_bytes - data_bytes % layout.chunk_bytes
            }
            _ => 0,
        }
    }

    /// Adds the data to the runs; how many of its bytes belong to values.
    fn note_data(
        &mut self,
        lead_in: &LeadIn,
        start: u64,
        bytes: u64,
        is_torn: bool,
    ) -> Result<u64, OpenError> {
        if !lead_in.has(TOC_RAW_DATA) {
            self.map.find(self.position, Fault::UnannouncedData);
        }
        let layout = match self.layout(lead_in)? {
            Ok(layout) if layout.chunk_bytes == 0 => {
                self.map.find(start, Fault::OwnerlessData { bytes });
                return Ok(0);
            }
            Ok(layout) => layout,
            Err(fault) => {
                self.map.find(self.position, fault);
                return Ok(0);
            }
        };
        let chunk = layout.chunk_bytes;
        let (chunks, rest) = (bytes / chunk, bytes % chunk);
        let tail = Tail {
            bytes: rest,
            is_torn,
        };
        if rest > 0 && !is_torn {
            let position = start + bytes - rest;
            self.map
                .find(position, Fault::ShortChunk { bytes: rest, chunk });
        }
        let used = bytes - rest + layout.tail_bytes_used(tail);
        let continued = self
            .map
            .runs
            .last_mut()
            .filter(|run| Arc::ptr_eq(&run.layout, &layout) && run.tail.bytes == 0);
        let run = match continued {
            Some(run) => run,
            None => {
                self.map.runs.push(Run {
                    layout,
                    extents: Vec::new(),
                    tail,
                });
                let Some(run) = self.map.runs.last_mut() else {
                    return Ok(used);
                };
                run
            }
        };
        run.tail = tail;
        let chunks_before = run.chunks();
        run.extents.push(Extent {
            position: start,
            chunks_before,
            chunks,
        });
        Ok(used)
    }

    /// The layout of the segment, or why its data cannot be read.
    fn layout(&mut self, lead_in: &LeadIn) -> Result<Result<Arc<Layout>, Fault>, OpenError> {
        let is_interleaved = lead_in.has(TOC_INTERLEAVED);
        let order = lead_in.order();
        if let Some((for_order, for_flag, layout)) = &self.layout
            && (*for_order, *for_flag) == (order, is_interleaved)
        {
            return Ok(layout.clone());
        }
        let objects = &mut self.map.objects;
        // What this segment lists is paid for with its bytes.
        let listed = objects.take_listed();
        self.columns += objects.active_len().saturating_sub(listed);
        if self.columns > self.columns_max {
            return self.refuse(Fault::TooManyChanges);
        }
        let made = match objects.is_list_lost() {
            true => Err(Fault::LostMetadata),
            false => Layout::of(objects.active(), order, is_interleaved),
        };
        // A writer that repeats all metadata in every segment does not make a layout for each.
        let before = self.map.runs.last().map(|run| &run.layout);
        let made = made.map(|made| match before {
            Some(before) if **before == made => before.clone(),
            _ => Arc::new(made),
        });
        self.layout = Some((order, is_interleaved, made.clone()));
        Ok(made)
    }
}

/// Takes in the objects of a block; whether the layout may have changed.
fn take_objects<R: ReadAt + ?Sized>(
    map: &mut Map,
    block: &mut Block<'_, R>,
    limits: &Limits,
) -> Result<bool, Stop> {
    // A path and two numbers have at least 12 bytes.
    let count = block.count(12)?;
    let mut is_changed = false;
    map.objects.begin_block();
    for _ in 0..count {
        let position = block.position();
        let taken = map.objects.take(block, limits)?;
        is_changed |= taken.is_changed;
        if let Some(path) = taken.duplicate {
            map.find(position, Fault::DuplicatePath { path });
        }
    }
    Ok(is_changed)
}

fn failed(position: u64, source: io::Error) -> OpenError {
    OpenError::Source { position, source }
}
