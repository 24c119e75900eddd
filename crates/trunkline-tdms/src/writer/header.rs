//! Builds the lead-in and metadata of a segment, with only the metadata that the file does not
//! contain yet.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;

use super::{
    Arrangement, ChannelAmount, ChannelId, Object, SegmentPlace, Version, WriteError, Writer,
};
use crate::data_type::TdmsType;
use crate::lead_in::{
    LEAD_IN_BYTES, LeadIn, TOC_INTERLEAVED, TOC_METADATA, TOC_NEW_LIST, TOC_RAW_DATA,
};

const NO_DATA: u32 = 0xffff_ffff;
const INDEX_UNCHANGED: u32 = 0;
const FIXED_INDEX_BYTES: u32 = 20;
const STRING_INDEX_BYTES: u32 = 28;

/// Temporary memory for building a segment, which is reused for the next segment.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) checked: Vec<ChannelAmount>,
    channels_seen: HashSet<ChannelId>,
    metadata: Vec<u8>,
}

/// The changes that a segment's metadata makes to the file's list.
struct Plan {
    is_new_list: bool,
    /// The list of objects after this segment; `None` if the list is unchanged.
    list: Option<Vec<(u32, Option<ChannelAmount>)>>,
    /// Entries of the metadata: the number of each object, and the amount if the object has data.
    entries: Vec<(u32, Option<ChannelAmount>)>,
}

impl Writer {
    /// Appends the lead-in and metadata of a segment. The caller must write the raw data after it:
    /// `raw_bytes` bytes in little-endian order and in the given arrangement.
    ///
    /// The metadata includes the properties that were set since the last segment.
    ///
    /// # Errors
    /// [`WriteError`]. Nothing was appended.
    pub fn header(
        &mut self,
        amounts: &[ChannelAmount],
        arrangement: Arrangement,
        out: &mut Vec<u8>,
    ) -> Result<SegmentPlace, WriteError> {
        // Reusing the memory of the last call avoids allocations for similar segments.
        let mut scratch = std::mem::take(&mut self.scratch);
        let place = self.header_with(&mut scratch, amounts, arrangement, out);
        self.scratch = scratch;
        place
    }

    fn header_with(
        &mut self,
        scratch: &mut Scratch,
        amounts: &[ChannelAmount],
        arrangement: Arrangement,
        out: &mut Vec<u8>,
    ) -> Result<SegmentPlace, WriteError> {
        self.check_amounts(amounts, arrangement, scratch)?;
        let Scratch {
            checked,
            channels_seen,
            metadata,
        } = scratch;
        let too_long = WriteError::FileTooLong;
        let raw_bytes = checked
            .iter()
            .try_fold(0_u64, |sum, amount| sum.checked_add(amount.bytes))
            .ok_or(too_long.clone())?;
        let plan = self.plan(checked, channels_seen);
        if raw_bytes == 0 && plan.entries.is_empty() {
            return Ok(SegmentPlace {
                position: self.position,
                header_bytes: 0,
                raw_bytes: 0,
            });
        }
        let mut toc = match plan.is_new_list {
            true => TOC_NEW_LIST,
            false => 0,
        };
        metadata.clear();
        let block_bytes = self.options.block_bytes.filter(|_| raw_bytes > 0);
        if block_bytes.is_some() || plan.is_new_list || !plan.entries.is_empty() {
            toc |= TOC_METADATA;
            metadata.extend((plan.entries.len() as u32).to_le_bytes());
            for (number, amount) in &plan.entries {
                if let Some(object) = self.objects.get(*number as usize) {
                    object.append_entry(*amount, metadata);
                }
            }
        }
        if let Some(block) = block_bytes {
            let data_start = self.position + LEAD_IN_BYTES + metadata.len() as u64;
            let padded_start = data_start
                .checked_next_multiple_of(block.get())
                .ok_or(too_long.clone())?;
            metadata.resize(metadata.len() + (padded_start - data_start) as usize, 0);
        }
        if raw_bytes > 0 {
            toc |= TOC_RAW_DATA;
            if arrangement == Arrangement::Interleaved {
                toc |= TOC_INTERLEAVED;
            }
        }
        let metadata_bytes = metadata.len() as u64;
        let header_bytes = LEAD_IN_BYTES + metadata_bytes;
        let position = self.position;
        self.position = position
            .checked_add(header_bytes)
            .and_then(|data_start| data_start.checked_add(raw_bytes))
            .ok_or(too_long)?;
        let lead_in = LeadIn {
            toc,
            version: self.options.version.number(),
            segment_bytes: metadata_bytes + raw_bytes,
            metadata_bytes,
        };
        out.extend(lead_in.to_little_endian());
        out.extend_from_slice(metadata);
        self.apply_plan(plan);
        self.open_arrangement = (raw_bytes > 0).then_some(arrangement);
        Ok(SegmentPlace {
            position,
            header_bytes,
            raw_bytes,
        })
    }

    /// Extends the last segment that [`header`](Self::header) built by another chunk with these
    /// values. The chunk follows the raw data of the segment. Returns the size of the chunk in
    /// bytes, which the caller must add to the length in the header with
    /// [`lengthen_segment`](crate::lengthen_segment).
    ///
    /// Returns `None` if a new segment is needed, because the channels, counts or order differ,
    /// properties must be written, or the segment has no raw data.
    ///
    /// All chunks of a segment have the same channels with the same counts. The number of chunks
    /// follows from the length of the segment.
    pub fn add_chunk(
        &mut self,
        amounts: &[ChannelAmount],
        arrangement: Arrangement,
    ) -> Option<u64> {
        if self.open_arrangement != Some(arrangement) {
            return None;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let needs_no_metadata = self
            .check_amounts(amounts, arrangement, &mut scratch)
            .is_ok()
            && self.needs_no_metadata(&scratch.checked);
        let amounts = scratch.checked.iter();
        let bytes = amounts.fold(0, |sum: u64, amount| sum.saturating_add(amount.bytes));
        self.scratch = scratch;
        let position = self
            .position
            .checked_add(bytes)
            .filter(|_| needs_no_metadata)?;
        self.position = position;
        Some(bytes)
    }

    /// Appends an empty segment padded with zeros, so that the next segment begins on a block
    /// boundary. Use this call after raw data that ends within a block. Appends nothing if the next
    /// segment is already aligned, or if no block size is set
    /// ([`block_bytes`](super::WriterOptions::block_bytes)).
    ///
    /// # Errors
    /// [`WriteError::FileTooLong`]. Nothing was appended.
    pub fn pad(&mut self, out: &mut Vec<u8>) -> Result<SegmentPlace, WriteError> {
        let position = self.position;
        let block = self.options.block_bytes.map_or(1, NonZeroU64::get);
        let mut header_bytes = 0;
        if !position.is_multiple_of(block) {
            // The smallest segment has a metadata block without entries.
            let min_end = position.checked_add(LEAD_IN_BYTES + 4);
            let end = min_end.and_then(|min_end| min_end.checked_next_multiple_of(block));
            let end = end.ok_or(WriteError::FileTooLong)?;
            header_bytes = end - position;
            let metadata_bytes = header_bytes - LEAD_IN_BYTES;
            let lead_in = LeadIn {
                toc: TOC_METADATA,
                version: self.options.version.number(),
                segment_bytes: metadata_bytes,
                metadata_bytes,
            };
            out.extend(lead_in.to_little_endian());
            out.resize(out.len() + metadata_bytes as usize, 0);
            self.position = end;
            self.open_arrangement = None;
        }
        Ok(SegmentPlace {
            position,
            header_bytes,
            raw_bytes: 0,
        })
    }

    /// Checks the amounts, and computes the sizes that follow from their counts.
    pub(super) fn check_amounts(
        &self,
        amounts: &[ChannelAmount],
        arrangement: Arrangement,
        scratch: &mut Scratch,
    ) -> Result<(), WriteError> {
        let Scratch {
            checked,
            channels_seen,
            ..
        } = scratch;
        checked.clear();
        channels_seen.clear();
        let is_interleaved = arrangement == Arrangement::Interleaved;
        if is_interleaved && self.options.version == Version::V1 {
            return Err(WriteError::InterleavedInVersion1);
        }
        for amount in amounts {
            let object = self.objects.get(amount.channel.0 as usize);
            let object = object.ok_or(WriteError::UnknownChannel)?;
            let path = || object.path.clone();
            if !channels_seen.insert(amount.channel) {
                return Err(WriteError::DuplicateChannel { path: path() });
            }
            let before = amounts.first().map_or(amount.count, |first| first.count);
            if is_interleaved && amount.count != before {
                return Err(WriteError::UnequalRows {
                    path: path(),
                    count: amount.count,
                    before,
                });
            }
            let bytes = match object.data_type.and_then(TdmsType::size) {
                Some(size) => amount.count.checked_mul(size),
                None if is_interleaved => {
                    return Err(WriteError::InterleavedStrings { path: path() });
                }
                None => Some(amount.bytes),
            };
            let bytes = bytes.ok_or(WriteError::FileTooLong)?;
            let limit = u64::from(u32::MAX);
            if object.data_type == Some(TdmsType::String) && bytes > limit {
                return Err(WriteError::TooLong {
                    path: path(),
                    what: "text of one segment",
                    bytes,
                    limit,
                });
            }
            checked.push(ChannelAmount { bytes, ..*amount });
        }
        Ok(())
    }

    /// Returns true if the file already contains all metadata of a segment with these amounts.
    pub(super) fn needs_no_metadata(&self, amounts: &[ChannelAmount]) -> bool {
        let active = self.list.iter().filter_map(|(_, amount)| amount.as_ref());
        !self.is_first
            && !self.objects.iter().any(Object::has_unwritten_metadata)
            && active.eq(amounts)
    }

    /// Plans the metadata with which exactly these channels have data, in this order. `with_data`
    /// is the set of these channels.
    fn plan(&self, amounts: &[ChannelAmount], with_data: &HashSet<ChannelId>) -> Plan {
        let has_unwritten = |number: u32| {
            let object = self.objects.get(number as usize);
            object.is_some_and(Object::has_unwritten_metadata)
        };
        if self.needs_no_metadata(amounts) {
            return Plan {
                is_new_list: false,
                list: None,
                entries: Vec::new(),
            };
        }
        let has_data = |number: u32| with_data.contains(&ChannelId(number));
        let with_unwritten =
            || (0..self.objects.len() as u32).filter(|n| has_unwritten(*n) && !has_data(*n));
        if amounts.is_empty() && !self.is_first {
            // Only properties change. Channels keep their data descriptions, and the segment has no
            // chunks.
            let in_list: HashMap<u32, Option<ChannelAmount>> = self.list.iter().copied().collect();
            let mut list = self.list.clone();
            let mut entries = Vec::new();
            for number in with_unwritten() {
                let list_entry = in_list.get(&number).copied();
                let entry = (number, list_entry.flatten());
                entries.push(entry);
                if list_entry.is_none() {
                    list.push(entry);
                }
            }
            return Plan {
                is_new_list: false,
                list: Some(list),
                entries,
            };
        }
        if let Some(plan) = self.plan_of_changes(amounts, with_unwritten()) {
            return plan;
        }
        let mut list: Vec<_> = with_unwritten().map(|number| (number, None)).collect();
        // The file and groups come first, then channels, each in the order of creation.
        list.sort_by_key(|(number, _)| {
            let object = self.objects.get(*number as usize);
            object.is_some_and(|object| object.path.is_channel())
        });
        list.extend(
            amounts
                .iter()
                .map(|amount| (amount.channel.0, Some(*amount))),
        );
        Plan {
            is_new_list: true,
            entries: list.clone(),
            list: Some(list),
        }
    }

    /// Returns a plan that continues the current list; `None` if the order must change or a channel
    /// must leave the list.
    fn plan_of_changes(
        &self,
        amounts: &[ChannelAmount],
        with_unwritten: impl Iterator<Item = u32>,
    ) -> Option<Plan> {
        if self.is_first {
            return None;
        }
        let mut list_positions: HashMap<u32, usize> = self
            .list
            .iter()
            .enumerate()
            .map(|(at, (number, _))| (*number, at))
            .collect();
        let (mut list, mut entries) = (self.list.clone(), Vec::new());
        for number in with_unwritten {
            let at = list_positions.get(&number).and_then(|at| list.get(*at));
            if at.is_none() {
                list_positions.insert(number, list.len());
                list.push((number, None));
            }
            entries.push((number, None));
        }
        for amount in amounts {
            let number = amount.channel.0;
            let object = self.objects.get(number as usize)?;
            let entry = (number, Some(*amount));
            let is_unchanged = match list_positions.get(&number) {
                Some(at) => {
                    let place = list.get_mut(*at)?;
                    let before = std::mem::replace(place, entry);
                    before == entry
                }
                None => {
                    list.push(entry);
                    false
                }
            };
            if !is_unchanged || !object.unwritten.is_empty() {
                entries.push(entry);
            }
        }
        // The plan is valid if exactly these channels then have data, in this order.
        let active = list.iter().filter_map(|(_, amount)| amount.as_ref());
        active.eq(amounts).then_some(Plan {
            is_new_list: false,
            list: Some(list),
            entries,
        })
    }

    fn apply_plan(&mut self, plan: Plan) {
        for (number, amount) in &plan.entries {
            if let Some(object) = self.objects.get_mut(*number as usize) {
                object.is_written = true;
                object.unwritten.clear();
                object.last_described = amount.or(object.last_described);
            }
        }
        if let Some(list) = plan.list {
            self.list = list;
        }
        self.is_first = false;
    }
}

impl Object {
    /// Returns true if the file does not contain the object's path or one of its properties yet.
    pub(super) fn has_unwritten_metadata(&self) -> bool {
        !self.is_written || !self.unwritten.is_empty()
    }

    /// Appends the metadata entry of this object.
    fn append_entry(&self, amount: Option<ChannelAmount>, out: &mut Vec<u8>) {
        let path = self.path.to_bytes();
        out.extend((path.len() as u32).to_le_bytes());
        out.extend(path);
        match (amount, self.data_type) {
            (Some(amount), _) if self.last_described == Some(amount) => {
                out.extend(INDEX_UNCHANGED.to_le_bytes());
            }
            (Some(amount), Some(data_type)) => {
                let is_string = data_type == TdmsType::String;
                let length = match is_string {
                    true => STRING_INDEX_BYTES,
                    false => FIXED_INDEX_BYTES,
                };
                out.extend(length.to_le_bytes());
                out.extend(data_type.code().to_le_bytes());
                out.extend(1_u32.to_le_bytes());
                out.extend(amount.count.to_le_bytes());
                if is_string {
                    out.extend(amount.bytes.to_le_bytes());
                }
            }
            _ => out.extend(NO_DATA.to_le_bytes()),
        }
        out.extend((self.unwritten.len() as u32).to_le_bytes());
        for (name, value) in &self.unwritten {
            out.extend((name.as_bytes().len() as u32).to_le_bytes());
            out.extend(name.as_bytes());
            out.extend(value.data_type().code().to_le_bytes());
            value.encode(out);
        }
    }
}
