//! Gives access to a channel of an open file, and finds the positions of its values.

use std::io;
use std::ops::Range;

use crate::data_type::TdmsType;
use crate::element::ByteOrder;
use crate::fault::Finding;
use crate::file::TdmsFile;
use crate::layout::{Column, Place};
use crate::map::{Extent, Run};
use crate::objects::Object;
use crate::path::ObjectPath;
use crate::property::Properties;
use crate::raw_index::Scaler;
use crate::read_at::ReadAt;
use crate::waveform::Waveform;

/// A channel of an open file. Its values are numbered from 0 across all segments.
#[derive(Debug)]
pub struct Channel<'a, R> {
    file: &'a TdmsFile<R>,
    number: u32,
    object: &'a Object,
    /// The runs that contain the channel's values, each with the number of the first value.
    starts: Vec<(u64, &'a Run)>,
    len: u64,
}

/// The reason why values cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {path} at byte {position}: {source}")]
    Source {
        path: ObjectPath,
        position: u64,
        source: io::Error,
    },
    #[error("{path} has the type {holds} and cannot be read as {asked}")]
    WrongType {
        path: ObjectPath,
        holds: TdmsType,
        asked: TdmsType,
    },
    /// The channel has several DAQmx scalers, but none was specified.
    #[error("{path} has {scaler_count} DAQmx scalers; specify one of them")]
    SeveralScalers {
        path: ObjectPath,
        scaler_count: usize,
    },
    /// The channel has no DAQmx scaler with the requested id.
    #[error(
        "{path} has no DAQmx scaler with the id {scale_id}{}",
        format_known_ids(known)
    )]
    UnknownScaler {
        path: ObjectPath,
        /// The requested id.
        scale_id: u32,
        /// The ids of the channel's scalers.
        known: Vec<u32>,
    },
    /// The file is damaged at the position of the values.
    #[error("{path}: {finding}")]
    Damaged {
        path: ObjectPath,
        /// The position and the kind of the damage.
        finding: Finding,
    },
}

/// Values of a channel that are stored at equal distances in one part of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    /// Position in the file of the chunk's first value.
    pub(crate) position: u64,
    /// Number of the first value to read, counted from `position`.
    pub(crate) first: u64,
    /// Number of values to read.
    pub(crate) count: u64,
    /// Distance in bytes between consecutive values.
    pub(crate) stride: u64,
    pub(crate) order: ByteOrder,
    pub(crate) column: &'a Column,
    pub(crate) scaler: Option<&'a Scaler>,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Returns the channel at a path; `None` if the channel does not exist.
    pub fn channel(&self, path: &ObjectPath) -> Option<Channel<'_, R>> {
        let number = self.map.objects.number(path)?;
        path.is_channel()
            .then(|| Channel::of(self, number))
            .flatten()
    }

    /// Returns all channels, in the order in which the file first names them.
    pub fn channels(&self) -> impl Iterator<Item = Channel<'_, R>> {
        let objects = self.map.objects.iter().enumerate();
        let channels = objects.filter(|(_, object)| object.path.is_channel());
        channels.filter_map(|(number, _)| Channel::of(self, number as u32))
    }
}

impl<'a, R: ReadAt> Channel<'a, R> {
    pub(crate) fn of(file: &'a TdmsFile<R>, number: u32) -> Option<Self> {
        let object = file.map.objects.get(number)?;
        let (mut starts, mut len) = (Vec::new(), 0);
        for run in &file.map.runs {
            let Some(column) = run.layout.column(number) else {
                continue;
            };
            let tail = run.layout.tail_count(column, run.tail);
            let values = run.chunks() * column.count + tail;
            if values > 0 {
                starts.push((len, run));
                len += values;
            }
        }
        Some(Self {
            file,
            number,
            object,
            starts,
            len,
        })
    }

    pub fn path(&self) -> &'a ObjectPath {
        &self.object.path
    }

    /// Returns the type of the channel's values: [`TdmsType::Void`] if the channel never had
    /// values, or [`TdmsType::Daqmx`] if the scalers define the type.
    pub fn data_type(&self) -> TdmsType {
        self.object.data_type
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn properties(&self) -> &'a Properties {
        &self.object.properties
    }

    /// Returns the spacing of the values in time or along another axis, if the channel's properties
    /// define it.
    pub fn waveform(&self) -> Option<Waveform> {
        Waveform::of(self.properties())
    }

    /// Returns the channel's DAQmx scalers as the file first describes them; empty without DAQmx
    /// data.
    pub fn scalers(&self) -> &'a [Scaler] {
        let column = self.starts.first();
        let column = column.and_then(|(_, run)| run.layout.column(self.number));
        column.map_or(&[], |column| scalers(column))
    }

    /// Returns true if the channel's values are numbers, or if its DAQmx scalers produce numbers.
    pub(crate) fn is_number(&self) -> bool {
        let of = |data_type: TdmsType| {
            !matches!(
                data_type.without_unit(),
                TdmsType::String
                    | TdmsType::Time
                    | TdmsType::Void
                    | TdmsType::ComplexF32
                    | TdmsType::ComplexF64
            )
        };
        of(self.data_type()) && self.scalers().iter().all(|scaler| of(scaler.data_type))
    }

    /// Returns the range of value numbers of each chunk, in the order in which the chunks were
    /// written.
    pub fn chunks(&self) -> impl Iterator<Item = Range<u64>> {
        self.starts
            .iter()
            .enumerate()
            .flat_map(|(at, (start, run))| {
                let end = self.starts.get(at + 1).map_or(self.len, |next| next.0);
                let count = run.layout.column(self.number).map_or(1, |c| c.count).max(1);
                let chunks = (end - start).div_ceil(count);
                let start = *start;
                (0..chunks).map(move |n| {
                    let begin = start + n * count;
                    // The last chunk may declare far more values than exist.
                    begin..begin.saturating_add(count).min(end)
                })
            })
    }

    pub(crate) fn file(&self) -> &'a TdmsFile<R> {
        self.file
    }

    pub(crate) fn source(&self) -> &'a R {
        &self.file.source
    }

    pub(crate) fn source_error(&self, position: u64, source: io::Error) -> ReadError {
        let path = self.path().clone();
        ReadError::Source {
            path,
            position,
            source,
        }
    }

    /// Calls `visit` for every span of the file that contains values of `start..start + count`.
    pub(crate) fn visit(
        &self,
        start: u64,
        count: u64,
        scale_id: Option<u32>,
        mut visit: impl FnMut(Span<'a>) -> Result<(), ReadError>,
    ) -> Result<u64, ReadError> {
        let count = count.min(self.len.saturating_sub(start));
        let (mut at, mut remaining) = (start, count);
        let mut next = self.starts.partition_point(|(first, _)| *first <= start);
        next = next.saturating_sub(1);
        while remaining > 0 {
            let Some((first, run)) = self.starts.get(next) else {
                break;
            };
            let end = self.starts.get(next + 1).map_or(self.len, |run| run.0);
            while at < end && remaining > 0 {
                let Some(span) = self.span(run, at - first, scale_id)? else {
                    break;
                };
                let count = span.count.min(remaining);
                visit(Span { count, ..span })?;
                at += count;
                remaining -= count;
            }
            at = at.max(end);
            next += 1;
        }
        Ok(count - remaining)
    }

    /// Returns the span that begins with value `at` of a run.
    fn span(
        &self,
        run: &'a Run,
        at: u64,
        scale_id: Option<u32>,
    ) -> Result<Option<Span<'a>>, ReadError> {
        let Some(column) = run.layout.column(self.number) else {
            return Ok(None);
        };
        let scaler = self.scaler(column, scale_id)?;
        let layout = &*run.layout;
        let span = |position, place: Place, first, count| Span {
            position: position + place.offset,
            first,
            count,
            stride: place.stride,
            order: layout.order,
            column,
            scaler,
        };
        let (chunks, per_chunk) = (run.chunks(), column.count.max(1));
        let chunk = at / per_chunk;
        if chunk >= chunks {
            let place = layout.tail_place(column, scaler, run.tail);
            let Some(last) = run.extents.last() else {
                return Ok(None);
            };
            let position = last.position + last.chunks * layout.chunk_bytes;
            let first = at - chunks * per_chunk;
            let count = place.count.saturating_sub(first);
            return Ok((count > 0).then(|| span(position, place, first, count)));
        }
        let Some(extent) = extent_of(&run.extents, chunk) else {
            return Ok(None);
        };
        let within = chunk - extent.chunks_before;
        let place = layout.place(column, scaler);
        let position = extent.position + within * layout.chunk_bytes;
        let first = at % per_chunk;
        let mut count = per_chunk - first;
        if per_chunk.checked_mul(place.stride) == Some(layout.chunk_bytes) {
            // The values of the next chunks continue at the same stride.
            count += (extent.chunks - within - 1) * per_chunk;
        }
        Ok(Some(span(position, place, first, count)))
    }

    fn scaler(
        &self,
        column: &'a Column,
        scale_id: Option<u32>,
    ) -> Result<Option<&'a Scaler>, ReadError> {
        let all = scalers(column);
        if all.is_empty() && scale_id.is_none() {
            return Ok(None);
        }
        match (all, scale_id) {
            ([one], None) => Ok(Some(one)),
            (_, None) => Err(ReadError::SeveralScalers {
                path: self.path().clone(),
                scaler_count: all.len(),
            }),
            (all, Some(scale_id)) => self.find_scaler(all, scale_id).map(Some),
        }
    }

    pub(crate) fn find_scaler(
        &self,
        scalers: &'a [Scaler],
        scale_id: u32,
    ) -> Result<&'a Scaler, ReadError> {
        let found = scalers.iter().find(|scaler| scaler.scale_id == scale_id);
        found.ok_or_else(|| ReadError::UnknownScaler {
            path: self.path().clone(),
            scale_id,
            known: scalers.iter().map(|scaler| scaler.scale_id).collect(),
        })
    }
}

/// Returns the ids as the end of an error message; empty for a channel without scalers.
fn format_known_ids(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    match ids.as_slice() {
        [] => String::new(),
        ids => format!("; use one of {}", ids.join(", ")),
    }
}

fn scalers(column: &Column) -> &[Scaler] {
    column.daqmx.as_ref().map_or(&[], |daqmx| &daqmx.scalers)
}

/// Returns the extent that contains a chunk of a run.
fn extent_of(extents: &[Extent], chunk: u64) -> Option<&Extent> {
    let after = extents.partition_point(|extent| extent.chunks_before <= chunk);
    extents.get(after.checked_sub(1)?)
}
