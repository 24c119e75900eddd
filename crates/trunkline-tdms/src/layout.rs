//! Computes the layout of a segment's raw data: the channels, their order, and their positions.

use std::sync::Arc;

use crate::data_type::TdmsType;
use crate::element::ByteOrder;
use crate::fault::Fault;
use crate::path::ObjectPath;
use crate::raw_index::{Daqmx, RawIndex, Scaler};

/// The layout of a chunk, which segments with the same layout share.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Layout {
    pub(crate) order: ByteOrder,
    pub(crate) form: Form,
    /// The channels that have values in a chunk, sorted by object number.
    pub(crate) columns: Vec<Column>,
    pub(crate) chunk_bytes: u64,
    has_strings: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Form {
    /// All values of one channel, then all values of the next channel.
    Contiguous,
    /// Rows with one value of each channel.
    Interleaved { row_bytes: u64 },
    /// Packed DAQmx rows, one raw buffer after the other.
    Daqmx { buffers: Vec<Buffer> },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Buffer {
    /// Offset of the buffer in the chunk, in bytes.
    start: u64,
    /// Size of a row in bytes.
    width: u64,
    rows: u64,
}

/// A channel that has values in a chunk.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Column {
    /// Number of the channel's object.
    pub(crate) object: u32,
    pub(crate) data_type: TdmsType,
    /// Number of values per chunk.
    pub(crate) count: u64,
    /// Size in bytes of the channel's values in a chunk.
    pub(crate) bytes: u64,
    /// Offset in bytes: in the chunk for contiguous data, in the row for interleaved data.
    pub(crate) offset: u64,
    pub(crate) daqmx: Option<Arc<Daqmx>>,
}

/// A partial chunk at the end of a segment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Tail {
    pub(crate) bytes: u64,
    /// True if the chunk was cut off; false if it is in a closed segment.
    pub(crate) is_truncated: bool,
}

/// The positions of a channel's values in a chunk: `count` values at a distance of `stride` bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Place {
    /// Offset in bytes of the first value in the chunk.
    pub(crate) offset: u64,
    pub(crate) stride: u64,
    pub(crate) count: u64,
}

/// A channel that has data in the current segment.
pub(crate) struct ActiveChannel<'a> {
    pub(crate) object: u32,
    pub(crate) path: &'a ObjectPath,
    pub(crate) index: &'a RawIndex,
}

impl Layout {
    /// Computes the layout of a chunk from the active channels, in the order of the file's list.
    pub(crate) fn of<'a>(
        active: impl Iterator<Item = ActiveChannel<'a>> + Clone,
        order: ByteOrder,
        is_interleaved: bool,
    ) -> Result<Self, Fault> {
        let daqmx = |a: &ActiveChannel<'_>| matches!(a.index, RawIndex::Daqmx(_));
        match (
            active.clone().any(|a| daqmx(&a)),
            active.clone().all(|a| daqmx(&a)),
        ) {
            (true, true) => Self::of_daqmx(active, order),
            (true, false) => Err(Fault::MixedDaqmx),
            _ => Self::of_plain(active, order, is_interleaved),
        }
    }

    fn of_plain<'a>(
        active: impl Iterator<Item = ActiveChannel<'a>>,
        order: ByteOrder,
        is_interleaved: bool,
    ) -> Result<Self, Fault> {
        let mut columns = Vec::new();
        let (mut offset, mut row_bytes, mut all, mut strings) = (0_u64, 0_u64, 0_u32, 0_u32);
        let mut counts = None;
        for ActiveChannel {
            object,
            path,
            index,
        } in active
        {
            let RawIndex::Plain(plain) = index else {
                return Err(Fault::MixedDaqmx);
            };
            let data_type = plain.data_type;
            let is_string = data_type == TdmsType::String;
            let (Some(size), true) = (
                data_type.size().or(is_string.then_some(0)),
                data_type != TdmsType::Void || plain.count == 0,
            ) else {
                let path = path.clone();
                return Err(Fault::UnreadableType { path, data_type });
            };
            if is_string
                && plain
                    .count
                    .checked_mul(4)
                    .is_none_or(|table| table > plain.bytes)
            {
                return Err(Fault::BadStrings);
            }
            all += 1;
            strings += u32::from(is_string);
            let is_equal = *counts.get_or_insert(plain.count) == plain.count;
            if is_interleaved && strings == 0 && !is_equal {
                return Err(Fault::UnequalRows);
            }
            let (count, bytes) = (plain.count, plain.bytes);
            // Both offsets are counted, because the arrangement is known only after the last
            // channel.
            let column_offset = if is_interleaved { row_bytes } else { offset };
            offset = offset.checked_add(bytes).ok_or(Fault::Overflow)?;
            row_bytes += size;
            if count > 0 || bytes > 0 {
                columns.push(Column {
                    object,
                    data_type,
                    count,
                    bytes,
                    offset: column_offset,
                    daqmx: None,
                });
            }
        }
        // A single channel of strings is contiguous, even if the flag says interleaved.
        let form = match (is_interleaved, strings) {
            (true, 0) => Form::Interleaved { row_bytes },
            (true, 1) if all == 1 => Form::Contiguous,
            (true, _) => return Err(Fault::InterleavedStrings),
            (false, _) => Form::Contiguous,
        };
        if offset == u64::MAX {
            return Err(Fault::Overflow);
        }
        columns.sort_by_key(|column| column.object);
        columns.shrink_to_fit();
        Ok(Self {
            order,
            form,
            columns,
            chunk_bytes: offset,
            has_strings: strings > 0,
        })
    }

    fn of_daqmx<'a>(
        active: impl Iterator<Item = ActiveChannel<'a>>,
        order: ByteOrder,
    ) -> Result<Self, Fault> {
        let mut columns = Vec::new();
        let mut widths: Option<&[u32]> = None;
        let mut rows: Vec<u64> = Vec::new();
        for ActiveChannel {
            object,
            path,
            index,
        } in active
        {
            let RawIndex::Daqmx(daqmx) = index else {
                return Err(Fault::MixedDaqmx);
            };
            let all = *widths.get_or_insert(&daqmx.widths);
            rows.resize(all.len(), 0);
            if all != daqmx.widths || !daqmx.has_valid_scalers() {
                let path = path.clone();
                return Err(Fault::BadDaqmx { path });
            }
            for scaler in &daqmx.scalers {
                if let Some(rows) = rows.get_mut(scaler.buffer as usize) {
                    *rows = (*rows).max(daqmx.rows);
                }
            }
            if daqmx.rows > 0 {
                columns.push(Column {
                    object,
                    data_type: daqmx.data_type,
                    count: daqmx.rows,
                    bytes: 0,
                    offset: 0,
                    daqmx: Some(Arc::new(daqmx.clone())),
                });
            }
        }
        let (mut buffers, mut start) = (Vec::new(), 0_u64);
        for (width, rows) in widths.unwrap_or_default().iter().zip(rows) {
            let width = u64::from(*width);
            buffers.push(Buffer { start, width, rows });
            let bytes = rows.checked_mul(width).ok_or(Fault::Overflow)?;
            start = start.checked_add(bytes).ok_or(Fault::Overflow)?;
        }
        columns.sort_by_key(|column| column.object);
        columns.shrink_to_fit();
        Ok(Self {
            order,
            form: Form::Daqmx { buffers },
            columns,
            chunk_bytes: start,
            has_strings: false,
        })
    }

    pub(crate) fn column(&self, object: u32) -> Option<&Column> {
        let at = self.columns.binary_search_by_key(&object, |c| c.object);
        at.ok().and_then(|at| self.columns.get(at))
    }

    /// Returns the positions of a channel's values in a whole chunk. For strings, the position is
    /// that of the table of string ends.
    pub(crate) fn place(&self, column: &Column, scaler: Option<&Scaler>) -> Place {
        match &self.form {
            Form::Contiguous => Place {
                offset: column.offset,
                stride: column.data_type.size().unwrap_or(0),
                count: column.count,
            },
            Form::Interleaved { row_bytes } => Place {
                offset: column.offset,
                stride: *row_bytes,
                count: column.count,
            },
            Form::Daqmx { buffers } => {
                let of = scaler.and_then(|s| Some((s, buffers.get(s.buffer as usize)?)));
                let Some((scaler, buffer)) = of else {
                    let (offset, stride, count) = (0, 0, column.count);
                    return Place {
                        offset,
                        stride,
                        count,
                    };
                };
                Place {
                    offset: buffer.start + u64::from(scaler.byte_offset),
                    stride: buffer.width,
                    count: column.count,
                }
            }
        }
    }

    /// Returns the positions of a channel's values in a partial chunk.
    pub(crate) fn tail_place(&self, column: &Column, scaler: Option<&Scaler>, tail: Tail) -> Place {
        let mut place = self.place(column, scaler);
        place.count = self.tail_count(column, tail);
        if self.form == Form::Contiguous && !tail.is_truncated {
            let before = self.columns.iter().filter(|c| c.offset < column.offset);
            let bytes = |c: &Column| self.tail_count(c, tail) * c.data_type.size().unwrap_or(0);
            place.offset = before.map(bytes).sum();
        }
        place
    }

    /// Returns the number of a channel's values in a partial chunk.
    pub(crate) fn tail_count(&self, column: &Column, tail: Tail) -> u64 {
        if tail.bytes == 0 {
            return 0;
        }
        let count = match &self.form {
            Form::Interleaved { row_bytes } => tail.bytes / row_bytes.max(&1),
            Form::Daqmx { buffers } => {
                let of = |scaler: &Scaler| {
                    let buffer = buffers.get(scaler.buffer as usize)?;
                    Some(tail.bytes.saturating_sub(buffer.start) / buffer.width.max(1))
                };
                let scalers = column.daqmx.iter().flat_map(|d| &d.scalers);
                scalers.filter_map(of).min().unwrap_or(0)
            }
            // The ends of the strings are unknown.
            Form::Contiguous if self.has_strings => 0,
            Form::Contiguous if tail.is_truncated => {
                let size = column.data_type.size().unwrap_or(0);
                tail.bytes.saturating_sub(column.offset) / size.max(1)
            }
            Form::Contiguous => self.proportional_count(column, tail),
        };
        count.min(column.count)
    }

    /// Returns the number of a channel's values if the partial chunk has the same part of all
    /// channels.
    fn proportional_count(&self, column: &Column, tail: Tail) -> u64 {
        let values = u128::from(column.count) * u128::from(tail.bytes);
        (values / u128::from(self.chunk_bytes.max(1))) as u64
    }

    /// Returns the number of bytes of a partial chunk that belong to whole values.
    pub(crate) fn tail_bytes_used(&self, tail: Tail) -> u64 {
        match &self.form {
            Form::Interleaved { row_bytes } => tail.bytes - tail.bytes % row_bytes.max(&1),
            Form::Daqmx { buffers } => {
                let used = |b: &Buffer| {
                    let available = tail.bytes.saturating_sub(b.start).min(b.rows * b.width);
                    available - available % b.width.max(1)
                };
                buffers.iter().map(used).sum()
            }
            Form::Contiguous => {
                let used = |c: &Column| self.tail_count(c, tail) * c.data_type.size().unwrap_or(0);
                self.columns.iter().map(used).sum()
            }
        }
    }
}
