//! TDMS files: writer, reader and recovery. Bytes in, bytes out; it opens no files.
//!
//! TDMS is a format for measured values: a file has groups, a group has channels, a channel has
//! values of one type, and each of them has properties. A file is a row of segments, and each
//! segment says only what is new:
//!
//! ```text
//! segment | segment | segment ...          a file can end after any of them
//!    |
//!    +-- lead-in (28 bytes) | metadata | raw data
//!                                 |          |
//!          objects, properties, --+          +-- chunks: values channel by channel
//!          how their data lies                   or row by row
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
//! - [`TdmsFile`] and [`Channel`]: reading, from anything that is [`ReadAt`], in pieces.
//!   [`Limits`] bound what a file may make its reader do; [`Report`] and [`Fault`] say what is
//!   wrong with it.
//! - [`RowExtent`], [`RowPlace`]: rows of several channels, where they lie in the file and as they
//!   lie in memory.
//! - [`Scaling`]: from raw numbers to engineering values.
//! - [`Writer`]: segments, whole when they are given out, with [`index_of`] for the index file.
//! - [`ObjectPath`], [`Properties`], [`PropertyValue`], [`TdmsType`], [`TdmsTime`], [`Text`],
//!   [`Values`], [`Waveform`]: what files hold.
//! - [`TdmsFile::verify`], [`TdmsFile::repair`], [`TdmsFile::rewrite`]: recovery, and few long
//!   segments out of many.
//! - [`SegmentSum`], [`SumsCheck`], [`TdmsFile::open_summed`]: checksums of segments, in a file
//!   beside it.
//! - Inside: `lead_in`, `metadata` and `raw_index` read the bytes, `objects` and `walk` hold what
//!   segments take over from those before, `layout` says where values stand.

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
pub use lead_in::{LEAD_IN_BYTES, unwritten_segment};
pub use open::{Limits, OpenError};
pub use path::{ObjectPath, PathError};
pub use property::{Properties, PropertyValue};
pub use raw_index::Scaler;
pub use read_at::ReadAt;
pub use recover::{Mending, Repair, Verification};
pub use rewrite::{RewriteError, Rewritten};
pub use rows::{RowExtent, RowPlace};
pub use scale::{ScaleChain, ScaleError, Scaling};
pub use sums::{
    BodySum, SUMS_ENTRY_BYTES, SegmentSum, Summed, SumsCheck, SumsId, SumsState, Unsummed,
};
pub use text::Text;
pub use time::TdmsTime;
pub use values::Values;
pub use waveform::Waveform;
pub use windowed::Windowed;
pub use writer::{
    Arrangement, ChannelId, Data, SegmentPlace, Share, Version, WriteError, Writer, WriterOptions,
    lengthen_segment,
};
