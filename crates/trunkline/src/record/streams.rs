//! Records streams.

use std::io;
use std::time::Duration;

use trunkline_record::{
    Copying, Durability, RecordError, TdmsLayout, TdmsRecording, TdmsSeries, WriteQueue,
};
use trunkline_ring::{NoRegion, ReadRegion, RegionFiller, RegionReader};
use trunkline_stream::{StreamError, ValueReader, element_bytes};
use trunkline_tdms::{TdmsType, Text};
use trunkline_types::DataType;

use super::regions_out::{CHECK_INTERVAL, RegionsOut};
use super::{RecordingError, Stopped};

/// Counts of a recorded stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamRecorded {
    /// Number of elements taken from the stream.
    pub elements: u64,
    /// Size of these elements in bytes. Each was copied once, from the stream's buffer into the
    /// ring.
    pub bytes: u64,
    /// True if the stream has ended; false if the recording was stopped and the stream continues.
    pub has_ended: bool,
}

/// A destination for rows: one file, or a series of files.
pub trait RowsRecording {
    /// Writes the rows of a region, as [`TdmsRecording::write`] and [`TdmsSeries::write`] do.
    ///
    /// # Errors
    /// Those of the methods named above.
    fn write(&mut self, region: ReadRegion) -> Result<(), RecordError>;

    /// Waits until everything is as safe as `durability` requires, as [`TdmsRecording::flush`] and
    /// [`TdmsSeries::flush`] do.
    ///
    /// # Errors
    /// Those of the methods named above.
    fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), RecordError>;

    /// Processes completed writes, as [`TdmsRecording::poll`] and [`TdmsSeries::poll`] do.
    ///
    /// # Errors
    /// Those of the methods named above.
    fn poll(&mut self) -> Result<(), RecordError>;

    /// Returns the number of rows accepted so far.
    fn rows(&self) -> u64;

    /// Returns the settings for copying small regions, as configured in the queue; `None` if
    /// regions are never copied.
    fn copying(&self) -> Option<Copying>;

    /// Returns the time of the backend's clock.
    fn now(&self) -> Duration;
}

/// Implements the trait by methods of the same name. `$file` is the current file.
macro_rules! rows_recording {
    ([$($of:tt)*] $recording:ty, $self:ident, $file:expr) => {
        impl<$($of)*> RowsRecording for $recording {
            fn write(&mut self, region: ReadRegion) -> Result<(), RecordError> {
                self.write(region)
            }

            fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), RecordError> {
                self.flush(durability, wait)
            }

            fn poll(&mut self) -> Result<(), RecordError> {
                self.poll()
            }

            fn rows(&self) -> u64 {
                self.rows()
            }

            fn copying(&$self) -> Option<Copying> {
                $file.queue().options().copying
            }

            fn now(&$self) -> Duration {
                $file.queue().backend().now()
            }
        }
    };
}

rows_recording!([] TdmsRecording, self, self);
rows_recording!([O: FnMut(u32) -> io::Result<WriteQueue>] TdmsSeries<O>, self, self.file());

/// Copies elements of a stream into a ring for recording: all elements that have arrived and fit,
/// in one copy. Waits at most `timeout` for the first element. Returns the number of elements; 0 if
/// the ring is full.
///
/// Elements that do not fit stay in the stream, which stalls its writer, so nothing is lost.
///
/// # Errors
/// - [`RecordingError::Stream`]: no element arrived in time, or the stream has ended.
/// - [`RecordingError::RowSizeMismatch`]: the elements of the stream and the rows of the ring differ in
///   size.
/// - [`RecordingError::Ring`]: the ring has no region for the elements.
pub fn receive_into_ring(
    stream: &mut ValueReader,
    ring: &mut RegionFiller,
    timeout: Option<Duration>,
) -> Result<u64, RecordingError> {
    let row_bytes = ring.element_bytes();
    let stream_bytes = element_bytes(stream.data_type());
    if stream_bytes != Some(row_bytes) {
        return Err(RecordingError::RowSizeMismatch {
            data_type: stream.data_type().clone(),
            element_bytes: stream_bytes,
            row_bytes,
        });
    }
    let free = ring.room().map_err(NoRegion::from)?;
    if free == 0 {
        return Ok(0);
    }
    let most = usize::try_from(free).unwrap_or(usize::MAX);
    let elements = stream.acquire_bytes(most, timeout)?;
    let count = elements.elements() as u64;
    let space = ring.next(count).map_err(NoRegion::from)?;
    if let Some(space) = space.get_mut(..elements.len()) {
        space.copy_from_slice(&elements);
    }
    ring.commit(count);
    Ok(count)
}

/// Records a stream into a file or a series, in regions of `region_rows` rows, until the stream
/// ends or the recording is stopped. The recorder owns both ends of the ring, which must be unused
/// so that regions begin at block boundaries. Calls `on_region` after each region, and repeatedly
/// while the disk is full.
///
/// The stream waits while the disk is busy or full, so nothing is lost. Elements of a slow stream
/// wait at most 1 s, or 5 s if they have less than 4 KiB. They are then recorded without filling a
/// region, if the recording may copy them
/// ([`QueueOptions::copying`](trunkline_record::QueueOptions::copying)). The region after them does
/// not begin at a block boundary.
///
/// # Errors
/// [`RecordingError::Unwritten`] if the recording was stopped while the disk was full, or if the
/// disk stalls; other variants of [`RecordingError`] for other failures. The recording contains the
/// elements that were taken before the error and could be written.
pub fn record_stream<R: RowsRecording>(
    stream: &mut ValueReader,
    (filler, reader): (&mut RegionFiller, &mut RegionReader),
    recording: &mut R,
    region_rows: u64,
    stopped: &Stopped,
    on_region: impl FnMut(&R),
) -> Result<StreamRecorded, RecordingError> {
    let mut done = StreamRecorded::default();
    let mut out = RegionsOut::new(reader, recording, region_rows, stopped, on_region);
    let ended = record(stream, filler, &mut out, &mut done);
    let in_recording = out.recorded();
    match ended {
        Ok(()) => Ok(done),
        Err(RecordingError::Record(source)) if done.elements > in_recording => {
            let elements = done.elements - in_recording;
            Err(RecordingError::Unwritten { elements, source })
        }
        Err(error) => Err(error),
    }
}

fn record<R: RowsRecording, F: FnMut(&R)>(
    stream: &mut ValueReader,
    filler: &mut RegionFiller,
    out: &mut RegionsOut<'_, R, F>,
    done: &mut StreamRecorded,
) -> Result<(), RecordingError> {
    while !done.has_ended && !out.must_end() {
        match receive_into_ring(stream, filler, Some(CHECK_INTERVAL)) {
            // The disk is too slow. Waits until regions are written and their memory is back in the
            // ring.
            Ok(0) => out.flush()?,
            Ok(count) => {
                done.elements += count;
                done.bytes += count * filler.element_bytes() as u64;
            }
            Err(RecordingError::Stream(error)) => match *error {
                StreamError::Timeout { .. } => {}
                StreamError::Ended => done.has_ended = true,
                error => {
                    out.write_rest()?;
                    return Err(error.into());
                }
            },
            Err(error) => return Err(error),
        }
        out.write_due(done.elements)?;
    }
    Ok(out.end()?)
}

/// Returns the channels for elements of a type: one channel named `name`, or one channel for each
/// field of a struct. The elements are recorded without conversion. Timestamps are recorded as
/// 64-bit nanoseconds since 1970, as in memory. Properties of their channel mark them: `value_type`
/// is `timestamp`, and `unit_string` is `ns`.
///
/// # Errors
/// [`RecordingError::Type`]: elements of this type cannot be recorded as rows.
pub fn stream_layout(
    group: &str,
    name: &str,
    data_type: &DataType,
) -> Result<TdmsLayout, RecordingError> {
    let channels = match data_type {
        DataType::Struct(fields) => {
            let fields = fields.fields.iter();
            fields
                .map(|(name, part)| Some((Text::from(&**name), scalar_type(part)?)))
                .collect()
        }
        one => scalar_type(one).map(|one| vec![(Text::from(name), one)]),
    };
    let channels: Option<Vec<(Text, TdmsType)>> = channels;
    let timestamps = match data_type {
        DataType::Timestamp => vec![Text::from(name)],
        DataType::Struct(fields) => {
            let fields = fields.fields.iter();
            let times = fields.filter(|(_, part)| *part == DataType::Timestamp);
            times.map(|(name, _)| Text::from(&**name)).collect()
        }
        _ => Vec::new(),
    };
    let bytes = |channels: &[(Text, TdmsType)]| -> Option<u64> {
        channels.iter().map(|(_, part)| part.size()).sum()
    };
    channels
        .filter(|channels| {
            // The struct must have no padding between its fields.
            let stream_bytes = element_bytes(data_type).map(|bytes| bytes as u64);
            stream_bytes.is_some() && bytes(channels) == stream_bytes
        })
        .map(|channels| TdmsLayout {
            timestamps,
            group: group.into(),
            channels,
            waveform: None,
        })
        .ok_or_else(|| RecordingError::Type {
            data_type: data_type.clone(),
        })
}

fn scalar_type(data_type: &DataType) -> Option<TdmsType> {
    Some(match data_type {
        DataType::Bool => TdmsType::Bool,
        DataType::I8 => TdmsType::I8,
        DataType::I16 => TdmsType::I16,
        DataType::I32 => TdmsType::I32,
        DataType::I64 | DataType::Timestamp => TdmsType::I64,
        DataType::U8 => TdmsType::U8,
        DataType::U16 => TdmsType::U16,
        DataType::U32 | DataType::Enum(_) => TdmsType::U32,
        DataType::U64 => TdmsType::U64,
        DataType::F32 => TdmsType::F32,
        DataType::F64 => TdmsType::F64,
        _ => return None,
    })
}
