//! Writes segments that contain only what has changed. Each segment is complete when it is
//! returned.
//!
//! The length of a segment is known before its first byte is written, and written bytes are never
//! changed. A file truncated at any point therefore consists of complete segments and at most one
//! truncated segment. A caller that writes the values before their header can extend the segment
//! until it writes the header ([`Writer::add_chunk`]).

mod data;
mod error;
mod header;

use std::collections::HashMap;
use std::num::NonZeroU64;

use crate::data_type::TdmsType;
use crate::path::ObjectPath;
use crate::property::{Properties, PropertyValue};
use crate::text::Text;

use self::header::Scratch;

pub use self::data::Data;
pub use self::error::WriteError;

/// Longest path that is written, in bytes; readers may reject longer ones.
const PATH_BYTES_MAX: u64 = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// 1.0, number 4712: for readers that support nothing else.
    V1,
    /// 2.0, number 4713.
    #[default]
    V2,
}

impl Version {
    /// Returns the number used in lead-ins.
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 4712,
            Self::V2 => 4713,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriterOptions {
    pub version: Version,
    /// If set, raw data begins at a multiple of this many bytes in the file: metadata is padded
    /// with zeros.
    pub block_bytes: Option<NonZeroU64>,
    /// The position of the first segment in the file: 0, or the end of the segments to append to.
    /// The first segment repeats all metadata.
    pub position: u64,
}

/// The order of the values of several channels in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arrangement {
    /// All values of one channel, then all of the next.
    #[default]
    Contiguous,
    /// One value of each channel, then the next of each.
    Interleaved,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChannelId(u32);

/// The amount of a channel's data in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelAmount {
    pub channel: ChannelId,
    pub count: u64,
    /// For strings, the bytes of their text and table. For other types the bytes follow from the
    /// count, and this field is ignored.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentPlace {
    pub position: u64,
    /// Size of lead-in and metadata, in bytes.
    pub header_bytes: u64,
    /// Size of the raw data, which follows the header, in bytes.
    pub raw_bytes: u64,
}

/// Builds segments. Keeps the metadata that the file contains so far, but no values.
#[derive(Debug)]
pub struct Writer {
    options: WriterOptions,
    objects: Vec<Object>,
    numbers: HashMap<ObjectPath, u32>,
    /// The file's list of objects: the number of each, and its amount if it has data.
    list: Vec<(u32, Option<ChannelAmount>)>,
    position: u64,
    is_first: bool,
    /// The arrangement of the segment last described; `None` if it has no values.
    open: Option<Arrangement>,
    scratch: Scratch,
}

#[derive(Debug)]
struct Object {
    path: ObjectPath,
    /// The type of its values; `None` for groups and the file.
    data_type: Option<TdmsType>,
    /// Properties that are not written yet.
    unwritten: Properties,
    /// True once the file contains its path.
    is_written: bool,
    /// Its amount, as last described in the file.
    described: Option<ChannelAmount>,
}

impl Writer {
    /// Creates a writer for a new file, or for segments to append to one.
    pub fn new(options: WriterOptions) -> Self {
        let mut writer = Self {
            options,
            objects: Vec::new(),
            numbers: HashMap::new(),
            list: Vec::new(),
            position: options.position,
            is_first: true,
            open: None,
            scratch: Scratch::default(),
        };
        writer.ensure(&ObjectPath::File);
        writer
    }

    pub fn options(&self) -> WriterOptions {
        self.options
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns a channel, creating it and its group if they are new.
    pub fn channel(
        &mut self,
        group: impl Into<Text>,
        name: impl Into<Text>,
        data_type: TdmsType,
    ) -> Result<ChannelId, WriteError> {
        let path = ObjectPath::channel(group, name);
        let is_writable = data_type == data_type.without_unit()
            && (data_type.size().is_some() || data_type == TdmsType::String)
            && !matches!(data_type, TdmsType::Void | TdmsType::Extended);
        if !is_writable {
            return Err(WriteError::Unwritable { path, data_type });
        }
        check_path(&path)?;
        let number = self.ensure(&path);
        if let Some(object) = self.objects.get_mut(number as usize) {
            let before = *object.data_type.get_or_insert(data_type);
            if before != data_type {
                let now = data_type;
                return Err(WriteError::TypeChange { path, before, now });
            }
        }
        Ok(ChannelId(number))
    }

    /// Creates an object, possibly without data or properties. The file object and the groups of
    /// channels are created automatically.
    pub fn object(&mut self, path: &ObjectPath) -> Result<(), WriteError> {
        check_path(path)?;
        self.ensure(path);
        Ok(())
    }

    /// Sets a property, which is written with the next segment. Creates the object if it is new.
    pub fn set(
        &mut self,
        path: &ObjectPath,
        name: impl Into<Text>,
        value: impl Into<PropertyValue>,
    ) -> Result<(), WriteError> {
        let (name, value) = (name.into(), value.into());
        check_path(path)?;
        let limit = u64::from(u32::MAX);
        let too_long = |what, bytes: &Text| {
            let bytes = bytes.as_bytes().len() as u64;
            (bytes > limit).then(|| WriteError::TooLong {
                path: path.clone(),
                what,
                bytes,
                limit,
            })
        };
        let text = value.as_text().and_then(|text| too_long("a text", text));
        if let Some(error) = too_long("the name of a property", &name).or(text) {
            return Err(error);
        }
        let data_type = value.data_type();
        if matches!(data_type, TdmsType::Void | TdmsType::Extended) {
            let path = path.clone();
            return Err(WriteError::UnwritableProperty {
                path,
                name,
                data_type,
            });
        }
        let number = self.ensure(path);
        if let Some(object) = self.objects.get_mut(number as usize) {
            object.unwritten.insert(name, value);
        }
        Ok(())
    }

    /// Appends a segment with these values and all properties set since the last one.
    ///
    /// If there is nothing to write, nothing is appended, and `raw_bytes` and `header_bytes` are 0.
    ///
    /// # Errors
    /// [`WriteError`]; nothing was appended, and further segments can be written.
    pub fn write(
        &mut self,
        values: &[(ChannelId, Data<'_>)],
        arrangement: Arrangement,
        out: &mut Vec<u8>,
    ) -> Result<SegmentPlace, WriteError> {
        let mut amounts = Vec::with_capacity(values.len());
        for (channel, data) in values {
            let object = self.objects.get(channel.0 as usize);
            let object = object.ok_or(WriteError::UnknownChannel)?;
            let (now, before) = (data.data_type(), object.data_type);
            if before != Some(now) {
                return Err(WriteError::TypeChange {
                    path: object.path.clone(),
                    before: before.unwrap_or(TdmsType::Void),
                    now,
                });
            }
            amounts.push(ChannelAmount {
                channel: *channel,
                count: data.len() as u64,
                bytes: data.byte_len(),
            });
        }
        let place = self.header(&amounts, arrangement, out)?;
        match arrangement {
            Arrangement::Contiguous => values.iter().for_each(|(_, data)| data.encode(out)),
            Arrangement::Interleaved => {
                let rows = amounts.first().map_or(0, |amount| amount.count);
                for row in 0..rows as usize {
                    values
                        .iter()
                        .for_each(|(_, data)| data.encode_one(row, out));
                }
            }
        }
        Ok(place)
    }

    /// Returns the number of an object. Creates it and its parents if they are new.
    fn ensure(&mut self, path: &ObjectPath) -> u32 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        if let Some(parent) = path.parent() {
            self.ensure(&parent);
        }
        let number = self.objects.len() as u32;
        self.objects.push(Object {
            path: path.clone(),
            data_type: None,
            unwritten: Properties::new(),
            is_written: false,
            described: None,
        });
        self.numbers.insert(path.clone(), number);
        number
    }
}

fn check_path(path: &ObjectPath) -> Result<(), WriteError> {
    let bytes = path.to_bytes().len() as u64;
    match bytes <= PATH_BYTES_MAX {
        true => Ok(()),
        false => Err(WriteError::TooLong {
            path: path.clone(),
            what: "a path",
            bytes,
            limit: PATH_BYTES_MAX,
        }),
    }
}
