//! Walks over a file from segment to segment, and builds the map of its data.
//!
//! A segment may rely on earlier segments for the list of objects with data and for the layout of
//! their data. The walk keeps both, stores the properties, and records the positions of raw data in
//! runs of segments with the same layout.

mod data;
mod resume;

use std::sync::Arc;

use crate::element::ByteOrder;
use crate::fault::{Fault, Finding};
use crate::index_file::IndexCursor;
use crate::layout::Layout;
use crate::lead_in::{DATA_TAG, INDEX_TAG, LEAD_IN_BYTES, LeadIn, TOC_METADATA, TOC_NEW_LIST};
use crate::map::Map;
use crate::metadata::{BlockCursor, BlockError};
use crate::open::{Limits, OpenError};
use crate::read_at::ReadAt;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum FileKind {
    /// A data file.
    Data,
    /// An index file without its data file, which contains metadata but no data.
    IndexAlone,
}

pub(crate) struct Walk<'a, R: ?Sized, I: ?Sized> {
    source: &'a R,
    index: Option<IndexCursor<'a, I>>,
    kind: FileKind,
    limits: Limits,
    /// Positions of segments according to the checksum file, in ascending order; empty without
    /// checksums.
    segment_starts: &'a [u64],
    len: u64,
    /// Position of the current segment in the source.
    source_position: u64,
    /// Position of the current segment in the data file, which differs in an index file.
    position: u64,
    window: Vec<u8>,
    map: Map,
    is_big_endian: Option<bool>,
    /// The current layout, and the byte order and interleaving flag for which it was computed.
    layout: Option<(ByteOrder, bool, Result<Arc<Layout>, Fault>)>,
    columns: u64,
    columns_max: u64,
}

impl<'a, R: ReadAt + ?Sized, I: ReadAt + ?Sized> Walk<'a, R, I> {
    pub(crate) fn new(
        source: &'a R,
        index: Option<&'a I>,
        kind: FileKind,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let len = source
            .byte_len()
            .map_err(|error| OpenError::source(0, error))?;
        Ok(Self {
            source,
            index: index.map(IndexCursor::new),
            kind,
            limits,
            segment_starts: &[],
            len,
            source_position: 0,
            position: 0,
            window: Vec::new(),
            map: Map::default(),
            is_big_endian: None,
            layout: None,
            columns: 0,
            columns_max: data::columns_max(len),
        })
    }

    /// Sets known positions of segments, in ascending order, which help to continue after damage.
    pub(crate) fn with_segment_starts(mut self, segment_starts: &'a [u64]) -> Self {
        self.segment_starts = segment_starts;
        self
    }

    /// Walks over the readable part of the file, up to `end` at most.
    pub(crate) fn run_to(mut self, end: u64) -> Result<Map, OpenError> {
        self.len = self.len.min(end);
        self.run()
    }

    /// Walks over the readable part of the file.
    pub(crate) fn run(mut self) -> Result<Map, OpenError> {
        loop {
            match self.segment() {
                Ok(true) => {}
                Ok(false) if self.map.incomplete.is_some() && self.resume()? => {}
                Ok(false) => break,
                Err(OpenError::Refused(finding))
                    if self.limits.is_salvaging && self.map.segments > 0 =>
                {
                    self.map.bytes_lost = self.len - self.source_position;
                    self.map.incomplete = Some(finding);
                    if !self.resume()? {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.map.end = self.source_position;
        Ok(self.map)
    }

    /// Ends the walk at the current segment, because of a fault.
    fn end_walk(&mut self, fault: Fault, bytes_lost: u64) -> Result<bool, OpenError> {
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

    /// Processes one segment. Returns false at the end.
    fn segment(&mut self) -> Result<bool, OpenError> {
        let remaining = self.len - self.source_position;
        let mut bytes = [0; LEAD_IN_BYTES as usize];
        let available = remaining.min(LEAD_IN_BYTES) as usize;
        self.source
            .read_exact_at(&mut bytes[..available], self.source_position)
            .map_err(|error| OpenError::source(self.source_position, error))?;
        if available == bytes.len() {
            self.repair_lead_in(&mut bytes)?;
        }
        if !self.check_tag(&bytes[..available.min(4)])? {
            return self.end_walk(Fault::Garbage { bytes: remaining }, remaining);
        }
        match remaining {
            0 if self.source_position > 0 => return Ok(false),
            0 => return self.end_walk(Fault::Empty, 0),
            1..LEAD_IN_BYTES => {
                return self.end_walk(Fault::TruncatedLeadIn { bytes: remaining }, remaining);
            }
            _ => {}
        }
        let lead_in = LeadIn::decode(&bytes);
        if lead_in == LeadIn::UNWRITTEN {
            return self.end_walk(Fault::Unwritten { bytes: remaining }, remaining);
        }
        let (segment, metadata) = (lead_in.segment_bytes, lead_in.metadata_bytes);
        if segment < metadata {
            return self.refuse(Fault::MetadataBeyondSegment { metadata, segment });
        }
        let after = remaining - LEAD_IN_BYTES;
        if metadata > after {
            let missing = metadata - after;
            return self.end_walk(Fault::TruncatedMetadata { missing }, remaining);
        }
        if self
            .position
            .checked_add(LEAD_IN_BYTES + metadata)
            .is_none()
        {
            // This happens only in an index, after a segment whose length is unknown or too large.
            return self.end_walk(Fault::Overflow, remaining);
        }
        self.check_lead_in(&lead_in);
        self.use_index(&bytes, &lead_in)?;
        self.take_metadata(&lead_in)?;
        self.map.segments += 1;
        match self.kind {
            FileKind::Data => self.record_data(&lead_in, after),
            FileKind::IndexAlone => {
                self.source_position += LEAD_IN_BYTES + metadata;
                let next = self.position.saturating_add(LEAD_IN_BYTES);
                self.position = next.saturating_add(segment);
                Ok(true)
            }
        }
    }

    /// Returns false if no segment begins at the current position. Fails if the file does not begin
    /// with a segment of the expected kind.
    fn check_tag(&self, tag: &[u8]) -> Result<bool, OpenError> {
        let (expected, other) = match self.kind {
            FileKind::Data => (DATA_TAG, INDEX_TAG),
            FileKind::IndexAlone => (INDEX_TAG, DATA_TAG),
        };
        let is_expected = expected.starts_with(tag);
        if is_expected || self.source_position > 0 {
            return Ok(is_expected);
        }
        let (tag, is_other) = (tag.to_vec(), tag == other);
        match self.kind {
            FileKind::Data if is_other => self.refuse(Fault::IndexFile),
            FileKind::Data => self.refuse(Fault::NotTdms { tag }),
            FileKind::IndexAlone => self.refuse(Fault::NotIndex { tag }),
        }
    }

    fn check_lead_in(&mut self, lead_in: &LeadIn) {
        let version = lead_in.version;
        let position = self.position;
        if !matches!(version, 4712 | 4713) {
            self.map
                .add_finding(position, Fault::UnknownVersion { version });
        }
        if *self.map.version.get_or_insert(version) != version {
            self.map
                .add_finding(position, Fault::VersionChange { version });
            self.map.version = Some(version);
        }
        let is_big_endian = lead_in.order() == ByteOrder::Big;
        if self
            .is_big_endian
            .replace(is_big_endian)
            .is_some_and(|previous| previous != is_big_endian)
        {
            self.map.add_finding(position, Fault::ByteOrderChange);
            self.layout = None;
        }
        let bits = lead_in.unknown_flags();
        if bits != 0 {
            self.map.add_finding(position, Fault::UnknownFlags { bits });
        }
    }

    /// Compares the segment with the index, and stops using the index once it differs.
    fn use_index(&mut self, bytes: &[u8; 28], lead_in: &LeadIn) -> Result<(), OpenError> {
        let Some(index) = &mut self.index else {
            return Ok(());
        };
        // All bytes are compared, because a damaged index may have the right length.
        let metadata = Some((self.source, self.source_position + LEAD_IN_BYTES));
        let is_same = index
            .matches(bytes, lead_in.metadata_bytes, metadata)
            .map_err(|error| OpenError::source(self.source_position, error))?;
        if !is_same {
            self.index = None;
            self.map.add_finding(self.position, Fault::StaleIndex);
        }
        Ok(())
    }

    fn take_metadata(&mut self, lead_in: &LeadIn) -> Result<(), OpenError> {
        let bytes = lead_in.metadata_bytes;
        let index_at = self.index.as_mut().map(|index| index.skip_segment(bytes));
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
        let outcome = match (&self.index, index_at) {
            (Some(index), Some(at)) => {
                let mut block =
                    BlockCursor::new(index.source(), &mut window, (at, position, bytes), order);
                take_objects(&mut self.map, &mut block, &self.limits)
            }
            _ => {
                let at = self.source_position + LEAD_IN_BYTES;
                let mut block =
                    BlockCursor::new(self.source, &mut window, (at, position, bytes), order);
                take_objects(&mut self.map, &mut block, &self.limits)
            }
        };
        self.window = window;
        match outcome {
            Ok(is_changed) => {
                if is_changed {
                    self.layout = None;
                }
                Ok(())
            }
            Err(BlockError::Source(position, error)) => Err(OpenError::source(position, error)),
            Err(BlockError::Refused(finding)) => Err(OpenError::Refused(finding)),
            Err(BlockError::Unreadable(finding)) => {
                self.map.add_finding(finding.position, finding.fault);
                self.map.objects.record_loss();
                self.layout = None;
                Ok(())
            }
        }
    }
}

/// Processes the objects of a metadata block. Returns true if the layout may have changed.
fn take_objects<R: ReadAt + ?Sized>(
    map: &mut Map,
    block: &mut BlockCursor<'_, R>,
    limits: &Limits,
) -> Result<bool, BlockError> {
    // An entry has a path and two numbers, which need at least 12 bytes.
    let count = block.count(12)?;
    let mut is_changed = false;
    map.objects.begin_block();
    for _ in 0..count {
        let position = block.position();
        let effect = map.objects.read_entry(block, limits)?;
        is_changed |= effect.is_changed;
        if let Some(path) = effect.duplicate {
            map.add_finding(position, Fault::DuplicatePath { path });
        }
    }
    Ok(is_changed)
}
