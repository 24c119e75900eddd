//! Reads, writes and recovers TDMS files. The crate works on bytes and opens no files.
//!
//! TDMS is a format for measured values. A file has groups, a group has channels, and a channel has
//! values of one type. The file, the groups and the channels have properties. A file is a sequence
//! of segments, and the metadata of each segment contains only changes to the previous metadata:
//!
//! ```text
//! segment | segment | segment ...          a file can end after any of them
//!    |
//!    +-- lead-in (28 bytes) | metadata | raw data
//!                                 |          |
//!          objects, properties, --+          +-- chunks: values channel by channel
//!          layout of the data                    or row by row
//! ```
//!
//! ```
//! use trunkline_tdms::{Arrangement, ObjectPath, TdmsFile, TdmsType, Writer, WriterOptions};
//!
//! let mut writer = Writer::new(WriterOptions::default());
//! let volts = writer.channel("bench", "volts", TdmsType::F64)?;
//! writer.set(&ObjectPath::channel("bench", "volts"), "unit_string", "V")?;
//! let mut bytes = Vec::new();
//! for piece in [[1.0, 1.5], [2.0, 2.5]] {
//!     let data = [(volts, (&piece).into())];
//!     writer.write(&data, Arrangement::Contiguous, &mut bytes)?;
//! }
//!
//! let file = TdmsFile::open(&bytes)?;
//! let volts = file.channel(&ObjectPath::channel("bench", "volts")).ok_or("no such channel")?;
//! let mut values = [0.0; 3];
//! volts.read_into(1, &mut values)?;
//! assert_eq!(values, [1.5, 2.0, 2.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! - [`TdmsFile`] and [`Channel`]: read a file piece by piece from any [`ReadAt`]. [`Limits`] bound
//!   the resources that the reader uses for a file; [`Report`] and [`Fault`] describe the faults of
//!   a file.
//! - [`RowExtent`], [`RowPlace`]: positions of rows in the file, and of values in rows in memory.
//! - [`Scaling`]: converts raw numbers to engineering values.
//! - [`Writer`]: builds complete segments, with [`index_of`] for the index file.
//! - [`ObjectPath`], [`Properties`], [`PropertyValue`], [`TdmsType`], [`TdmsTime`], [`Text`],
//!   [`Values`], [`Waveform`]: the content of files.
//! - [`TdmsFile::verify`], [`TdmsFile::repair`], [`TdmsFile::rewrite`]: recover a file, and merge
//!   many segments into a few long ones.
//! - [`SegmentSum`], [`SumsCheck`], [`TdmsFile::open_verified`]: checksums of segments in a separate
//!   file.
//! - Internal modules: `lead_in`, `metadata` and `raw_index` decode the bytes. `objects` and `walk`
//!   store the metadata that segments inherit from earlier segments. `layout` computes the
//!   positions of values.

#![forbid(unsafe_code)]

mod channel;
mod data_type;
mod element;
mod fault;
mod file;
mod index_file;
mod layout;
mod lead_in;
mod map;
mod metadata;
mod objects;
mod open;
mod path;
mod property;
mod raw_index;
mod read_at;
mod read_values;
mod recover;
mod rewrite;
mod rows;
mod scale;
mod sums;
mod text;
mod time;
mod values;
mod walk;
mod waveform;
mod windowed;
mod writer;

pub use channel::{Channel, ReadError};
pub use data_type::TdmsType;
pub use element::{ByteOrder, Element, Extended};
pub use fault::{Fault, Finding};
pub use file::{Report, TdmsFile};
pub use index_file::index_of;
pub use lead_in::{LEAD_IN_BYTES, lengthen_segment, unwritten_lead_in};
pub use open::{Limits, OpenError};
pub use path::{ObjectPath, PathError};
pub use property::{Properties, PropertyValue};
pub use raw_index::Scaler;
pub use read_at::ReadAt;
pub use recover::{Repair, RepairMode, Verification};
pub use rewrite::{RewriteError, Rewritten};
pub use rows::{RowExtent, RowPlace};
pub use scale::{ScaleChain, ScaleError, Scaling};
pub use sums::{
    BodySum, ChecksummedFile, SUMS_ENTRY_BYTES, SegmentSum, SumsCheck, SumsId, SumsState,
    UncheckedSegments,
};
pub use text::Text;
pub use time::TdmsTime;
pub use values::Values;
pub use waveform::Waveform;
pub use windowed::Windowed;
pub use writer::{
    Arrangement, ChannelAmount, ChannelId, Data, SegmentPlace, Version, WriteError, Writer,
    WriterOptions,
};
