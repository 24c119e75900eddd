//! Rewrites a file: many small segments become few long ones, in either version of the format.

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

/// Number of values read and written at a time.
const PIECE: u64 = 8 * 1024;
/// Amount of text gathered for one segment, in bytes.
const TEXT_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rewritten {
    pub bytes: u64,
    /// Values written, over all channels.
    pub values: u64,
    /// Values that could not be read. Empty strings or zeros replace them, so that rows keep their
    /// numbers.
    pub unreadable: u64,
    /// Channels that were left out, with the reason: they cannot be read, or no plain channel can
    /// represent them.
    pub channels_left_out: Vec<(ObjectPath, String)>,
    /// Properties that were left out because their types are never written, by object and name.
    pub left_out: Vec<(ObjectPath, Text)>,
}

/// The reason why a file cannot be rewritten. The output so far is not a complete file.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    #[error("{0}")]
    Read(#[from] ReadError),
    /// A channel cannot be written.
    #[error("{0}")]
    Write(#[from] WriteError),
    #[error("writing at byte {position} failed: {source}")]
    Sink {
        /// The position in the new file.
        position: u64,
        source: io::Error,
    },
    #[error("{path} is DAQmx data whose scales a plain channel cannot have; copy its values")]
    Daqmx { path: ObjectPath },
}

struct Rewrite<'a, R, W> {
    file: &'a TdmsFile<R>,
    is_wanted: &'a dyn Fn(&ObjectPath) -> bool,
    writer: Writer,
    out: &'a mut W,
    done: Rewritten,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Rewrites the whole file in little-endian order. All values of a channel are together in one
    /// segment; each channel of strings follows in separate segments. If the channels are
    /// interleaved, a segment has only as many rows as are read at a time, 4 MiB, so that each byte
    /// is read once.
    ///
    /// Memory is bounded whatever the length of the file. An incomplete file is written as far as
    /// it can be read.
    pub fn rewrite(
        &self,
        version: Version,
        out: &mut impl io::Write,
    ) -> Result<Rewritten, RewriteError> {
        self.rewrite_of(version, &|_| true, out)
    }

    /// Same as [`rewrite`](Self::rewrite), with only those channels for which `is_wanted` returns
    /// true.
    pub fn rewrite_of(
        &self,
        version: Version,
        is_wanted: &dyn Fn(&ObjectPath) -> bool,
        out: &mut impl io::Write,
    ) -> Result<Rewritten, RewriteError> {
        let writer = Writer::new(WriterOptions {
            version,
            ..WriterOptions::default()
        });
        match self.is_row_by_row() {
            true => Rewrite {
                file: &self.windowed(),
                is_wanted,
                writer,
                out,
                done: Rewritten::default(),
            }
            .run(),
            false => Rewrite {
                file: self,
                is_wanted,
                writer,
                out,
                done: Rewritten::default(),
            }
            .run(),
        }
    }
}

impl<R: ReadAt, W: io::Write> Rewrite<'_, R, W> {
    fn run(mut self) -> Result<Rewritten, RewriteError> {
        let (mut fixed, mut texts) = (Vec::new(), Vec::new());
        for path in self.file.paths() {
            if path.is_channel() && !(self.is_wanted)(path) {
                continue;
            }
            self.writer.object(path)?;
            if let Some(channel) = self.file.channel(path) {
                let declared = match self.declare(&channel) {
                    // A channel that cannot be represented does not prevent the others from being
                    // written.
                    Err(error @ (RewriteError::Daqmx { .. } | RewriteError::Write(_))) => {
                        let left_out = (path.clone(), error.to_string());
                        self.done.channels_left_out.push(left_out);
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
        let most = fixed.iter().map(|(_, channel)| channel.len()).max();
        let most = most.unwrap_or(0);
        let rows = match self.file.is_row_by_row() {
            true => self.file.rows_of(ROWS_BYTES),
            false => most.max(1),
        };
        let within =
            |channel: &Channel<'_, R>, from: u64| channel.len().saturating_sub(from).min(rows);
        let mut amounts: Vec<_> = fixed
            .iter()
            .map(|(id, channel)| amount(*id, within(channel, 0)))
            .collect();
        // Gives a channel of strings its type even if it has no strings.
        amounts.extend(texts.iter().map(|(id, _)| amount(*id, 0)));
        let mut header = Vec::new();
        self.writer
            .header(&amounts, Arrangement::Contiguous, &mut header)?;
        self.put(&header)?;
        let mut from = 0;
        loop {
            for (_, channel) in &fixed {
                self.values(channel, from, within(channel, from))?;
            }
            from += rows;
            if from >= most {
                break;
            }
            let there = fixed.iter().filter(|(_, channel)| channel.len() > from);
            let amounts: Vec<_> = there
                .map(|(id, channel)| amount(*id, within(channel, from)))
                .collect();
            header.clear();
            self.writer
                .header(&amounts, Arrangement::Contiguous, &mut header)?;
            self.put(&header)?;
        }
        for (id, channel) in &texts {
            self.texts(*id, channel)?;
        }
        Ok(self.done)
    }

    /// Creates the channel; returns `None` if it never had a type.
    fn declare(&mut self, channel: &Channel<'_, R>) -> Result<Option<ChannelId>, RewriteError> {
        let path = channel.path().clone();
        let ObjectPath::Channel(group, name) = path.clone() else {
            return Ok(None);
        };
        let data_type = match channel.scalers() {
            [] if channel.data_type() == TdmsType::Daqmx => TdmsType::Void,
            [] => channel.data_type().without_unit(),
            [one] => {
                let own = ScaleChain::of(channel.properties());
                let has_own = !matches!(own, Ok(None));
                let is_scaled = channel.scaling() != crate::scale::Scaling::None;
                if is_scaled && !has_own {
                    return Err(RewriteError::Daqmx { path });
                }
                if has_own {
                    // The scaler's number now refers to the plain values.
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
                    self.done.left_out.push((path, name));
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
        let mut values = vec![T::default(); PIECE.min(to - from) as usize];
        let (mut at, mut bytes) = (from, Vec::new());
        while at < to {
            let most = (to - at).min(values.len() as u64) as usize;
            let values = values.get_mut(..most).unwrap_or_default();
            let read = match channel.read_into(at, values) {
                Ok(read) => read,
                Err(error @ ReadError::Source { .. }) => return Err(error.into()),
                Err(error) => return self.unreadable::<T>(channel, (at, to), &error),
            };
            if read == 0 {
                // Every value within the length has a position; a source that shrinks fails above.
                break;
            }
            bytes.clear();
            T::encode_all(values.get(..read).unwrap_or(values), &mut bytes);
            self.put(&bytes)?;
            at += read as u64;
            self.done.values += read as u64;
        }
        Ok(())
    }

    /// Fills the remaining announced values of a channel whose scalers change partway.
    fn unreadable<T: Element>(
        &mut self,
        channel: &Channel<'_, R>,
        (from, to): (u64, u64),
        error: &ReadError,
    ) -> Result<(), RewriteError> {
        let left = to - from;
        self.done.unreadable += left;
        let left_out = (channel.path().clone(), error.to_string());
        if !self.done.channels_left_out.contains(&left_out) {
            self.done.channels_left_out.push(left_out);
        }
        let mut bytes = Vec::new();
        T::encode_all(&vec![T::default(); left.min(PIECE) as usize], &mut bytes);
        let mut written = 0;
        while written < left {
            let now = (left - written).min(PIECE);
            let piece = bytes.get(..(now as usize) * T::SIZE).unwrap_or(&bytes);
            let piece = piece.to_vec();
            self.put(&piece)?;
            written += now;
        }
        Ok(())
    }

    fn texts(&mut self, id: ChannelId, channel: &Channel<'_, R>) -> Result<(), RewriteError> {
        let mut at = 0;
        while at < channel.len() {
            let (mut strings, mut bytes) = (Vec::new(), 0);
            while bytes < TEXT_BYTES && at < channel.len() {
                let (more, unreadable) = channel.read_strings_lossy(at, PIECE, u64::MAX)?;
                let unreadable: usize = unreadable.iter().map(ExactSizeIterator::len).sum();
                self.done.unreadable += unreadable as u64;
                at += more.len() as u64;
                bytes += Data::String(&more).byte_len();
                strings.extend(more);
            }
            let mut segment = Vec::new();
            let data = [(id, Data::String(&strings))];
            self.writer
                .write(&data, Arrangement::Contiguous, &mut segment)?;
            self.put(&segment)?;
        }
        self.done.values += at;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        let position = self.done.bytes;
        self.out
            .write_all(bytes)
            .map_err(|source| RewriteError::Sink { position, source })?;
        self.done.bytes += bytes.len() as u64;
        Ok(())
    }
}
