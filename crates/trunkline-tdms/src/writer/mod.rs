//! Builds complete segments whose metadata contains only changes.
//!
//! The length of a segment is known before its first byte is written, and written bytes never
//! change. A file that is truncated at any point therefore consists of complete segments and at
//! most one truncated segment. A caller that writes the values before their header can extend the
//! segment until it writes the header ([`Writer::add_chunk`]).

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

/// Maximum length in bytes of a path. Readers may reject longer paths.
const PATH_BYTES_MAX: u64 = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// Version 1.0 with the number 4712, for readers that support only this version.
    V1,
    /// Version 2.0 with the number 4713.
    #[default]
    V2,
}

impl Version {
    /// Returns the version number in lead-ins.
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
    /// Block size in bytes. If it is set, metadata is padded with zeros so that raw data begins on
    /// a block boundary of the file.
    pub block_bytes: Option<NonZeroU64>,
    /// Position of the first segment in the file: 0 for a new file, or the end of the existing
    /// segments. The first segment repeats all metadata.
    pub position: u64,
}

/// The order of the values of several channels in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arrangement {
    /// All values of one channel, then all values of the next channel.
    #[default]
    Contiguous,
    /// Rows with one value of each channel.
    Interleaved,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChannelId(u32);

/// The amount of a channel's data in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelAmount {
    pub channel: ChannelId,
    pub count: u64,
    /// Number of bytes of the text and the table of string ends, for strings only. For other types,
    /// this field is ignored, because the size follows from the count.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentPlace {
    pub position: u64,
    /// Total size in bytes of lead-in and metadata.
    pub header_bytes: u64,
    /// Size in bytes of the raw data, which follows the header.
    pub raw_bytes: u64,
}

/// Builds segments. The writer remembers the metadata that the file contains, but no values.
#[derive(Debug)]
pub struct Writer {
    options: WriterOptions,
    objects: Vec<Object>,
    numbers: HashMap<ObjectPath, u32>,
    /// The file's list of objects: the number of each object, and the amount if the object has
    /// data.
    list: Vec<(u32, Option<ChannelAmount>)>,
    position: u64,
    is_first: bool,
    /// Arrangement of the last segment, which can be extended; `None` if that segment has no
    /// values.
    open_arrangement: Option<Arrangement>,
    scratch: Scratch,
}

#[derive(Debug)]
struct Object {
    path: ObjectPath,
    /// Type of the channel's values; `None` for groups and the file.
    data_type: Option<TdmsType>,
    /// Properties that the file does not contain yet.
    unwritten: Properties,
    /// True once the file contains the object's path.
    is_written: bool,
    /// Amount of the channel's data, as last described in the file.
    last_described: Option<ChannelAmount>,
}

impl Writer {
    /// Creates a writer for a new file, or for segments that are appended to a file.
    pub fn new(options: WriterOptions) -> Self {
        let mut writer = Self {
            options,
            objects: Vec::new(),
            numbers: HashMap::new(),
            list: Vec::new(),
            position: options.position,
            is_first: true,
            open_arrangement: None,
            scratch: Scratch::default(),
        };
        writer.find_or_create(&ObjectPath::File);
        writer
    }

    pub fn options(&self) -> WriterOptions {
        self.options
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns a channel. Creates the channel and its group if they are new.
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
        let number = self.find_or_create(&path);
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
        self.find_or_create(path);
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
        let text = value
            .as_text()
            .and_then(|text| too_long("the text of a property", text));
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
        let number = self.find_or_create(path);
        if let Some(object) = self.objects.get_mut(number as usize) {
            object.unwritten.insert(name, value);
        }
        Ok(())
    }

    /// Appends a segment with these values and all properties that were set since the last segment.
    ///
    /// If there is nothing to write, nothing is appended, and `raw_bytes` and `header_bytes` are 0.
    ///
    /// # Errors
    /// [`WriteError`]. Nothing was appended, and the caller can write other segments.
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

    /// Returns the number of an object. Creates the object and its parents if they are new.
    fn find_or_create(&mut self, path: &ObjectPath) -> u32 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        if let Some(parent) = path.parent() {
            self.find_or_create(&parent);
        }
        let number = self.objects.len() as u32;
        self.objects.push(Object {
            path: path.clone(),
            data_type: None,
            unwritten: Properties::new(),
            is_written: false,
            last_described: None,
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
