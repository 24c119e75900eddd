//! Rewrites a file with few long segments instead of many short ones, in either version of the
//! format.

use std::io;

use crate::channel::{Channel, ReadError};
use crate::data_type::TdmsType;
use crate::element::Element;
use crate::file::TdmsFile;
use crate::path::ObjectPath;
use crate::read_at::ReadAt;
use crate::scale::ScaleChain;
use crate::text::Text;
use crate::values::with_element;
use crate::windowed::ROWS_BYTES;
use crate::writer::{
    Arrangement, ChannelAmount, ChannelId, Data, Version, WriteError, Writer, WriterOptions,
};

/// Maximum number of values read and written at a time.
const PIECE_VALUES: u64 = 8 * 1024;
/// Size in bytes of text that is collected for one segment.
const TEXT_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rewritten {
    /// Length of the new file in bytes.
    pub bytes: u64,
    /// Number of values written, over all channels.
    pub values: u64,
    /// Number of values that could not be read. Empty strings or zeros replace them, so that rows
    /// keep their numbers.
    pub unreadable: u64,
    /// Channels that were left out because they cannot be read or no plain channel can represent
    /// them, with the reason.
    pub channels_left_out: Vec<(ObjectPath, String)>,
    /// Properties that were left out because their types are never written, with object and name.
    pub properties_left_out: Vec<(ObjectPath, Text)>,
}

/// The reason why a file cannot be rewritten. The output written so far is not a complete file.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    #[error("{0}")]
    Read(#[from] ReadError),
    /// A channel cannot be written.
    #[error("{0}")]
    Write(#[from] WriteError),
    #[error("cannot write the new file at byte {position}: {source}")]
    Sink {
        /// Position in the new file, in bytes.
        position: u64,
        source: io::Error,
    },
    #[error(
        "{path} has DAQmx data whose scales a plain channel cannot have; copy the values of the \
         channel instead"
    )]
    Daqmx { path: ObjectPath },
}

struct Rewrite<'a, R, W> {
    file: &'a TdmsFile<R>,
    is_selected: &'a dyn Fn(&ObjectPath) -> bool,
    writer: Writer,
    out: &'a mut W,
    result: Rewritten,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Rewrites the whole file in little-endian order. All values of a channel are in one segment,
    /// except that channels of strings follow in separate segments. If the channels of the original
    /// file are interleaved, each segment has at most 4 MiB of rows, so that each byte is read
    /// only once.
    ///
    /// Memory use is bounded for files of any length. The readable part of an incomplete file is
    /// written.
    pub fn rewrite(
        &self,
        version: Version,
        out: &mut impl io::Write,
    ) -> Result<Rewritten, RewriteError> {
        self.rewrite_selected(version, &|_| true, out)
    }

    /// Rewrites the file like [`rewrite`](Self::rewrite), but only with the channels for which
    /// `is_selected` returns true.
    pub fn rewrite_selected(
        &self,
        version: Version,
        is_selected: &dyn Fn(&ObjectPath) -> bool,
        out: &mut impl io::Write,
    ) -> Result<Rewritten, RewriteError> {
        let writer = Writer::new(WriterOptions {
            version,
            ..WriterOptions::default()
        });
        match self.is_row_by_row() {
            true => Rewrite {
                file: &self.windowed(),
                is_selected,
                writer,
                out,
                result: Rewritten::default(),
            }
            .run(),
            false => Rewrite {
                file: self,
                is_selected,
                writer,
                out,
                result: Rewritten::default(),
            }
            .run(),
        }
    }
}

impl<R: ReadAt, W: io::Write> Rewrite<'_, R, W> {
    fn run(mut self) -> Result<Rewritten, RewriteError> {
        let (mut fixed, mut texts) = (Vec::new(), Vec::new());
        for path in self.file.paths() {
            if path.is_channel() && !(self.is_selected)(path) {
                continue;
            }
            self.writer.object(path)?;
            if let Some(channel) = self.file.channel(path) {
                let declared = match self.declare(&channel) {
                    // If a channel cannot be represented, the other channels are still written.
                    Err(error @ (RewriteError::Daqmx { .. } | RewriteError::Write(_))) => {
                        let left_out = (path.clone(), error.to_string());
                        self.result.channels_left_out.push(left_out);
                        None
                    }
                    declared => declared?,
                };
                match declared {
                    Some(id) if channel.data_type() == TdmsType::String => {
                        texts.push((id, channel));
                    }
                    Some(id) => fixed.push((id, channel)),
                    None => {}
                }
            }
            self.properties(path)?;
        }
        let amount = |id: ChannelId, count| ChannelAmount {
            channel: id,
            count,
            bytes: 0,
        };
        let rows_max = fixed.iter().map(|(_, channel)| channel.len()).max();
        let rows_max = rows_max.unwrap_or(0);
        let rows = match self.file.is_row_by_row() {
            true => self.file.rows_of(ROWS_BYTES),
            false => rows_max.max(1),
        };
        let rows_in_segment =
            |channel: &Channel<'_, R>, from: u64| channel.len().saturating_sub(from).min(rows);
        let mut amounts: Vec<_> = fixed
            .iter()
            .map(|(id, channel)| amount(*id, rows_in_segment(channel, 0)))
            .collect();
        // Naming a channel of strings here gives it a type, even if it has no strings.
        amounts.extend(texts.iter().map(|(id, _)| amount(*id, 0)));
        let mut header = Vec::new();
        self.writer
            .header(&amounts, Arrangement::Contiguous, &mut header)?;
        self.write_bytes(&header)?;
        let mut from = 0;
        loop {
            for (_, channel) in &fixed {
                self.values(channel, from, rows_in_segment(channel, from))?;
            }
            from += rows;
            if from >= rows_max {
                break;
            }
            let with_values = fixed.iter().filter(|(_, channel)| channel.len() > from);
            let amounts: Vec<_> = with_values
                .map(|(id, channel)| amount(*id, rows_in_segment(channel, from)))
                .collect();
            header.clear();
            self.writer
                .header(&amounts, Arrangement::Contiguous, &mut header)?;
            self.write_bytes(&header)?;
        }
        for (id, channel) in &texts {
            self.texts(*id, channel)?;
        }
        Ok(self.result)
    }

    /// Creates a channel in the new file. Returns `None` if the original channel never had a type.
    fn declare(&mut self, channel: &Channel<'_, R>) -> Result<Option<ChannelId>, RewriteError> {
        let path = channel.path().clone();
        let ObjectPath::Channel(group, name) = path.clone() else {
            return Ok(None);
        };
        let data_type = match channel.scalers() {
            [] if channel.data_type() == TdmsType::Daqmx => TdmsType::Void,
            [] => channel.data_type().without_unit(),
            [one] => {
                let own_chain = ScaleChain::of(channel.properties());
                let has_own_chain = !matches!(own_chain, Ok(None));
                let is_scaled = channel.scaling() != crate::scale::Scaling::None;
                if is_scaled && !has_own_chain {
                    return Err(RewriteError::Daqmx { path });
                }
                if has_own_chain {
                    // The number of the scaler now refers to the plain values.
                    let kind = format!("NI_Scale[{}]_Scale_Type", one.scale_id);
                    self.writer.set(&path, kind, "AdvancedAPI")?;
                }
                one.data_type
            }
            _ => return Err(RewriteError::Daqmx { path }),
        };
        if data_type == TdmsType::Void {
            return Ok(None);
        }
        Ok(Some(self.writer.channel(group, name, data_type)?))
    }

    fn properties(&mut self, path: &ObjectPath) -> Result<(), RewriteError> {
        for (name, value) in self.file.properties(path).into_iter().flatten() {
            match self.writer.set(path, name.clone(), value.clone()) {
                Ok(()) => {}
                Err(WriteError::UnwritableProperty { path, name, .. }) => {
                    self.result.properties_left_out.push((path, name));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn values(
        &mut self,
        channel: &Channel<'_, R>,
        from: u64,
        count: u64,
    ) -> Result<(), RewriteError> {
        with_element!(
            channel.only_type()?,
            T => self.values_of::<T>(channel, (from, from + count)),
            Ok(())
        )
    }

    fn values_of<T: Element>(
        &mut self,
        channel: &Channel<'_, R>,
        (from, to): (u64, u64),
    ) -> Result<(), RewriteError> {
        let mut values = vec![T::default(); PIECE_VALUES.min(to - from) as usize];
        let (mut at, mut bytes) = (from, Vec::new());
        while at < to {
            let count = (to - at).min(values.len() as u64) as usize;
            let values = values.get_mut(..count).unwrap_or_default();
            let read = match channel.read_into(at, values) {
                Ok(read) => read,
                Err(error @ ReadError::Source { .. }) => return Err(error.into()),
                Err(error) => return self.write_unreadable::<T>(channel, (at, to), &error),
            };
            if read == 0 {
                // This cannot happen: every value has a position, and a source that shrinks fails
                // above.
                break;
            }
            bytes.clear();
            T::encode_all(values.get(..read).unwrap_or(values), &mut bytes);
            self.write_bytes(&bytes)?;
            at += read as u64;
            self.result.values += read as u64;
        }
        Ok(())
    }

    /// Writes zeros for the remaining declared values of a channel that can no longer be read.
    fn write_unreadable<T: Element>(
        &mut self,
        channel: &Channel<'_, R>,
        (from, to): (u64, u64),
        error: &ReadError,
    ) -> Result<(), RewriteError> {
        let remaining = to - from;
        self.result.unreadable += remaining;
        let left_out = (channel.path().clone(), error.to_string());
        if !self.result.channels_left_out.contains(&left_out) {
            self.result.channels_left_out.push(left_out);
        }
        let mut bytes = Vec::new();
        T::encode_all(
            &vec![T::default(); remaining.min(PIECE_VALUES) as usize],
            &mut bytes,
        );
        let mut written = 0;
        while written < remaining {
            let count = (remaining - written).min(PIECE_VALUES);
            let piece = bytes.get(..(count as usize) * T::SIZE).unwrap_or(&bytes);
            let piece = piece.to_vec();
            self.write_bytes(&piece)?;
            written += count;
        }
        Ok(())
    }

    fn texts(&mut self, id: ChannelId, channel: &Channel<'_, R>) -> Result<(), RewriteError> {
        let mut at = 0;
        while at < channel.len() {
            let (mut strings, mut bytes) = (Vec::new(), 0);
            while bytes < TEXT_BYTES && at < channel.len() {
                let (more, unreadable) = channel.read_strings_lossy(at, PIECE_VALUES, u64::MAX)?;
                let unreadable: usize = unreadable.iter().map(ExactSizeIterator::len).sum();
                self.result.unreadable += unreadable as u64;
                at += more.len() as u64;
                bytes += Data::String(&more).byte_len();
                strings.extend(more);
            }
            let mut segment = Vec::new();
            let data = [(id, Data::String(&strings))];
            self.writer
                .write(&data, Arrangement::Contiguous, &mut segment)?;
            self.write_bytes(&segment)?;
        }
        self.result.values += at;
        Ok(())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        let position = self.result.bytes;
        self.out
            .write_all(bytes)
            .map_err(|source| RewriteError::Sink { position, source })?;
        self.result.bytes += bytes.len() as u64;
        Ok(())
    }
}
