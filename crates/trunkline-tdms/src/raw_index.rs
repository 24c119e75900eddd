//! Reads the description of an object's raw data from a metadata block.

use crate::data_type::TdmsType;
use crate::fault::Fault;
use crate::metadata::{BlockCursor, BlockError};
use crate::path::ObjectPath;
use crate::read_at::ReadAt;

const NO_DATA: u32 = 0xffff_ffff;
const INDEX_UNCHANGED: u32 = 0;
const FORMAT_CHANGING: u32 = 0x1269;
const DIGITAL_LINE: u32 = 0x126a;
/// A marker that descriptions of the format mention, but that no known file contains.
const UNVERIFIED_MARKER: u32 = 0x1369;

/// The description of raw data in an object's entry.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The object has no data in this segment.
    NoData,
    /// The description of the previous segment still applies.
    Unchanged,
    Described(RawIndex),
}

/// The layout of an object's raw data in a chunk.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RawIndex {
    Plain(Plain),
    Daqmx(Daqmx),
}

/// Values of one type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Plain {
    pub(crate) data_type: TdmsType,
    /// Number of values per chunk.
    pub(crate) count: u64,
    /// Size in bytes of the values in a chunk; for strings, as declared in the file.
    pub(crate) bytes: u64,
}

/// Rows that an acquisition driver packed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Daqmx {
    pub(crate) data_type: TdmsType,
    /// Number of rows per chunk.
    pub(crate) rows: u64,
    pub(crate) scalers: Vec<Scaler>,
    /// Size in bytes of a row in each raw buffer.
    pub(crate) widths: Vec<u32>,
}

/// The position and type of one raw number of a DAQmx channel in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scaler {
    /// Id by which scales refer to this scaler.
    pub scale_id: u32,
    /// Type of the raw number, or of the word that contains a digital line's bit.
    pub data_type: TdmsType,
    /// Index of the raw buffer that contains the number.
    pub buffer: u32,
    /// Offset in bytes of the number within a row.
    pub byte_offset: u32,
    /// Number of a digital line's bit, counted from `byte_offset`; `None` for a whole number.
    pub bit: Option<u32>,
}

impl RawIndex {
    pub(crate) fn data_type(&self) -> TdmsType {
        match self {
            Self::Plain(plain) => plain.data_type,
            Self::Daqmx(daqmx) => daqmx.data_type,
        }
    }
}

/// Reads an entry. An error means that the remaining block cannot be read or the file is rejected.
pub(crate) fn read<R: ReadAt + ?Sized>(
    block: &mut BlockCursor<'_, R>,
    path: &ObjectPath,
) -> Result<Entry, BlockError> {
    let start = block.position();
    match block.u32()? {
        NO_DATA => Ok(Entry::NoData),
        INDEX_UNCHANGED => Ok(Entry::Unchanged),
        FORMAT_CHANGING => daqmx(block, path, false),
        DIGITAL_LINE => daqmx(block, path, true),
        UNVERIFIED_MARKER => Err(block.unreadable("a raw data index has an unknown kind")),
        length => plain(block, path, start, length),
    }
}

fn plain<R: ReadAt + ?Sized>(
    block: &mut BlockCursor<'_, R>,
    path: &ObjectPath,
    start: u64,
    length: u32,
) -> Result<Entry, BlockError> {
    let data_type = TdmsType::from_code(block.u32()?);
    check_dimension(block, path)?;
    let count = block.u64()?;
    let bytes = match data_type {
        TdmsType::String => block.u64()?,
        // An overflow makes the chunk longer than any segment, which is detected later.
        other => count.saturating_mul(other.size().unwrap_or(0)),
    };
    // The length includes its own four bytes. Some writers write 16 instead of 20; a greater length
    // means extra bytes.
    let read = block.position() - start;
    let extra_bytes = u64::from(length).saturating_sub(read);
    block.skip(extra_bytes)?;
    Ok(Entry::Described(RawIndex::Plain(Plain {
        data_type,
        count,
        bytes,
    })))
}

fn check_dimension<R: ReadAt + ?Sized>(
    block: &mut BlockCursor<'_, R>,
    path: &ObjectPath,
) -> Result<(), BlockError> {
    let position = block.position();
    match block.u32()? {
        1 => Ok(()),
        dimensions => {
            let path = path.clone();
            Err(block.refuse(position, Fault::Dimensions { path, dimensions }))
        }
    }
}

fn daqmx<R: ReadAt + ?Sized>(
    block: &mut BlockCursor<'_, R>,
    path: &ObjectPath,
    is_digital: bool,
) -> Result<Entry, BlockError> {
    let data_type = TdmsType::from_code(block.u32()?);
    check_dimension(block, path)?;
    let rows = block.u64()?;
    let scaler_bytes = if is_digital { 17 } else { 20 };
    let count = block.count(scaler_bytes)?;
    let mut scalers = Vec::with_capacity(count);
    for _ in 0..count {
        scalers.push(scaler(block, is_digital)?);
    }
    let count = block.count(4)?;
    let mut widths = Vec::with_capacity(count);
    for _ in 0..count {
        widths.push(block.u32()?);
    }
    Ok(Entry::Described(RawIndex::Daqmx(Daqmx {
        data_type,
        rows,
        scalers,
        widths,
    })))
}

fn scaler<R: ReadAt + ?Sized>(
    block: &mut BlockCursor<'_, R>,
    is_digital: bool,
) -> Result<Scaler, BlockError> {
    let code = block.u32()?;
    let buffer = block.u32()?;
    let offset = block.u32()?;
    // The sample format has no known meaning.
    match is_digital {
        true => block.skip(1)?,
        false => block.skip(4)?,
    }
    let scale_id = block.u32()?;
    Ok(Scaler {
        scale_id,
        data_type: scaler_type(code),
        buffer,
        byte_offset: if is_digital { offset / 8 } else { offset },
        bit: is_digital.then_some(offset % 8),
    })
}

/// Converts the type number of a scaler, which differs from the type codes of channels.
fn scaler_type(code: u32) -> TdmsType {
    match code {
        0 => TdmsType::U8,
        1 => TdmsType::I8,
        2 => TdmsType::U16,
        3 => TdmsType::I16,
        4 => TdmsType::U32,
        5 => TdmsType::I32,
        6 => TdmsType::U64,
        7 => TdmsType::I64,
        8 => TdmsType::F32,
        9 => TdmsType::F64,
        0xffff_ffff => TdmsType::Time,
        other => TdmsType::Unknown(other),
    }
}

impl Daqmx {
    /// Returns true if every scaler has a readable type and lies within a row of an existing
    /// buffer.
    pub(crate) fn has_valid_scalers(&self) -> bool {
        !self.scalers.is_empty()
            && self.scalers.iter().all(|scaler| {
                let width = self.widths.get(scaler.buffer as usize);
                let size = scaler.data_type.size();
                match (width, size) {
                    (Some(width), Some(size)) => {
                        u64::from(scaler.byte_offset) + size <= u64::from(*width)
                    }
                    _ => false,
                }
            })
    }
}
