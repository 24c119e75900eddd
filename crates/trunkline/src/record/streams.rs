//! Streams into recordings.

use std::io;
use std::time::Duration;

use trunkline_record::{
    Backend, Copying, Durability, QueueError, RecordError, TdmsLayout, TdmsRecording, TdmsSeries,
    WriteQueue,
};
use trunkline_ring::{NoRegion, ReadRegion, RegionFiller, RegionReader};
use trunkline_stream::{StreamError, ValueReader, element_bytes};
use trunkline_tdms::{TdmsType, Text};
use trunkline_types::DataType;

use super::{RecordingError, Stopped};

/// How long it is waited for elements before it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long the disk may stand when the ring is full.
const DISK_WAIT: Duration = Duration::from_secs(5);

/// How long elements of a slow stream wait for a region to become full: a block of them at least,
/// and fewer. Each time they and their header fill up two blocks of the file.
const AGE_MAX: Duration = Duration::from_secs(1);
const AGE_MAX_OF_FEW: Duration = Duration::from_secs(5);
const BLOCK_BYTES: u64 = 4096;

/// What was recorded of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamRecorded {
    /// Elements that were taken from the stream.
    pub elements: u64,
    /// Bytes of them, each of which was copied once, from the stream's buffer into the ring.
    pub bytes: u64,
    /// The stream has ended; otherwise it was stopped, and goes on.
    pub has_ended: bool,
}

/// Where rows of a stream are recorded: one file, or a series of them.
pub trait RowsRecording {
    /// Writes the rows of a region: [`TdmsRecording::write`], [`TdmsSeries::write`].
    ///
    /// # Errors
    /// As there.
    fn write(&mut self, region: ReadRegion) -> Result<(), RecordError>;

    /// Waits until everything is as safe as said: [`TdmsRecording::flush`], [`TdmsSeries::flush`].
    ///
    /// # Errors
    /// As there.
    fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), RecordError>;

    /// Takes completions that have come: [`TdmsRecording::poll`], [`TdmsSeries::poll`].
    ///
    /// # Errors
    /// As there.
    fn poll(&mut self) -> Result<(), RecordError>;

    /// Rows that were taken.
    fn rows(&self) -> u64;

    /// Which regions are copied, as the queue was told.
    fn copying(&self) -> Option<Copying>;

    /// The backend's clock.
    fn now(&self) -> Duration;
}

impl<B: Backend> RowsRecording for TdmsRecording<B> {
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

    fn copying(&self) -> Option<Copying> {
        self.queue().options().copying
    }

    fn now(&self) -> Duration {
        self.queue().backend().now()
    }
}

impl<B: Backend, O: FnMut(u32) -> io::Result<WriteQueue<B>>> RowsRecording for TdmsSeries<B, O> {
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

    fn copying(&self) -> Option<Copying> {
        self.file().copying()
    }

    fn now(&self) -> Duration {
        self.file().now()
    }
}

/// Copies elements of a stream into a ring, where they are recorded from: as many as have arrived
/// and as there is room for, in one copy. Waits for the first one for at most `timeout`. How many;
/// 0 where the ring is full.
///
/// What has no room stays in the stream, which holds its writer up: nothing is lost.
///
/// # Errors
/// [`RecordingError::Stream`]: nothing came in time, or the stream is over.
/// [`RecordingError::OtherRows`], [`RecordingError::Ring`].
pub fn receive_into_ring(
    stream: &mut ValueReader,
    ring: &mut RegionFiller,
    timeout: Option<Duration>,
) -> Result<u64, RecordingError> {
    let row_bytes = ring.element_bytes();
    let of_stream = element_bytes(stream.data_type());
    if of_stream != Some(row_bytes) {
        return Err(RecordingError::OtherRows {
            data_type: stream.data_type().clone(),
            element_bytes: of_stream,
            row_bytes,
        });
    }
    let room = ring.room().map_err(NoRegion::from)?;
    if room == 0 {
        return Ok(0);
    }
    let most = usize::try_from(room).unwrap_or(usize::MAX);
    let elements = stream.acquire_bytes(most, timeout)?;
    let count = elements.elements() as u64;
    let space = ring.next(count).map_err(NoRegion::from)?;
    if let Some(space) = space.get_mut(..elements.len()) {
        space.copy_from_slice(&elements);
    }
    ring.commit(count);
    Ok(count)
}

/// Records a stream into a file or a series until it ends or is stopped, in regions of
/// `region_rows` rows. Both ends of the ring are the recorder's, and nothing was in it before, so
/// that regions begin at blocks; `on_region` is called after each
/// region, and from time to time while the disk is full.
///
/// The stream waits while the disk does, and while it is full: nothing is lost. Elements of a slow
/// stream wait for 1 s, fewer than 4 KiB of them for 5 s, and are then recorded though they are no
/// whole region, where the recording may copy them
/// ([`QueueOptions::copying`](trunkline_record::QueueOptions::copying)): the next region does not
/// begin at a block.
///
/// # Errors
/// [`RecordingError::Unwritten`]: it was stopped while the disk was full, or the disk stands.
/// [`RecordingError`]. What was taken from the stream before is in the recording, as far as that
/// can be written.
pub fn record_stream<R: RowsRecording>(
    stream: &mut ValueReader,
    (filler, reader): (&mut RegionFiller, &mut RegionReader),
    recording: &mut R,
    region_rows: u64,
    stopped: &Stopped,
    on_region: impl FnMut(&R),
) -> Result<StreamRecorded, RecordingError> {
    let mut done = StreamRecorded::default();
    let rows = region_rows.clamp(1, reader.capacity());
    let before = recording.rows();
    let row_bytes = filler.element_bytes().max(1);
    let copying = recording.copying();
    let mut out = Out {
        ring: reader,
        at: 0,
        // Of a power of two, the part that a row does not have.
        block_rows: BLOCK_BYTES >> (row_bytes as u64).trailing_zeros().min(BLOCK_BYTES.ilog2()),
        rows_before: before,
        odd_rows_max: copying.map_or(0, |copying| copying.segment_bytes / row_bytes) as u64,
        recording,
        stopped,
        on_region,
    };
    let ended = out.record(stream, filler, rows, &mut done);
    let in_recording = out.recording.rows().saturating_sub(before);
    match ended {
        Ok(()) => Ok(done),
        Err(RecordingError::Record(source)) if done.elements > in_recording => {
            let elements = done.elements - in_recording;
            Err(RecordingError::Unwritten { elements, source })
        }
        Err(error) => Err(error),
    }
}

/// Where elements go from the ring.
struct Out<'a, R, F> {
    ring: &'a mut RegionReader,
    /// Where in the ring the next region begins.
    at: u64,
    /// Rows that are whole blocks together.
    block_rows: u64,
    rows_before: u64,
    /// Rows of the longest region that may begin within a block; 0: none may.
    odd_rows_max: u64,
    recording: &'a mut R,
    stopped: &'a Stopped,
    on_region: F,
}

impl<R: RowsRecording, F: FnMut(&R)> Out<'_, R, F> {
    fn record(
        &mut self,
        stream: &mut ValueReader,
        filler: &mut RegionFiller,
        rows: u64,
        done: &mut StreamRecorded,
    ) -> Result<(), RecordingError> {
        // Since when elements wait for others.
        let mut since = self.recording.now();
        while !done.has_ended && !self.stopped.now() {
            match receive_into_ring(stream, filler, Some(LOOK_EVERY)) {
                // The disk is behind: regions come back when something is written.
                Ok(0) => self.recording.flush(Durability::InFile, DISK_WAIT)?,
                Ok(count) => {
                    done.elements += count;
                    done.bytes += count * filler.element_bytes() as u64;
                }
                Err(RecordingError::Stream(error)) => match *error {
                    StreamError::Timeout { .. } => {}
                    StreamError::Ended => done.has_ended = true,
                    error => {
                        self.write_all(1, rows)?;
                        return Err(error.into());
                    }
                },
                Err(error) => return Err(error),
            }
            let written = self.write_all(rows, rows)?;
            if written || self.write_old(since, done.elements, rows)? {
                since = self.recording.now();
            }
            self.recording.poll()?;
            (self.on_region)(self.recording);
        }
        self.write_all(1, rows)?;
        self.recording.flush(Durability::InFile, DISK_WAIT)?;
        (self.on_region)(self.recording);
        Ok(())
    }

    /// Writes what has waited for long since, of so many elements that came, though it is no whole
    /// region: whole blocks, or all where there is none. Whether there was something.
    fn write_old(
        &mut self,
        since: Duration,
        elements: u64,
        rows: u64,
    ) -> Result<bool, RecordError> {
        let age = self.recording.now().saturating_sub(since);
        let recorded = self.recording.rows().saturating_sub(self.rows_before);
        let waiting = elements.saturating_sub(recorded);
        if self.odd_rows_max == 0 || waiting == 0 || age < AGE_MAX {
            return Ok(false);
        }
        let in_blocks = waiting - waiting % self.block_rows;
        if in_blocks == 0 && age < AGE_MAX_OF_FEW {
            return Ok(false);
        }
        let most = if in_blocks == 0 { waiting } else { in_blocks };
        self.write_some(1, most, rows)
    }

    /// Writes the regions that are there, of at least `least` rows. Whether there were any.
    fn write_all(&mut self, least: u64, rows: u64) -> Result<bool, RecordError> {
        self.write_some(least, u64::MAX, rows)
    }

    /// Writes regions of at least `least` rows, and no more than `most` rows of all. They end where
    /// all of them had `rows` rows, so that one that has fewer does not put those behind it off
    /// their blocks.
    fn write_some(&mut self, least: u64, most: u64, rows: u64) -> Result<bool, RecordError> {
        let mut written = 0;
        while written < most {
            let at = self.at % self.ring.capacity().max(1);
            let left = (rows - at % rows).min(most - written);
            let wanted = match at.is_multiple_of(self.block_rows) || self.odd_rows_max == 0 {
                true => left,
                false => left.min(self.odd_rows_max),
            };
            let region = match least {
                1 => self.ring.acquire_available(wanted),
                _ => self.ring.acquire(wanted),
            };
            match region {
                Ok(region) => {
                    self.at = region.position() + region.elements();
                    written += region.elements();
                    self.write(region)?;
                }
                Err(NoRegion::AllLent { .. }) => {
                    self.recording.flush(Durability::InFile, DISK_WAIT)?;
                }
                Err(_) => break,
            }
        }
        Ok(written > 0)
    }

    /// Writes a region; holds it while the disk is full, until it is to end. Meanwhile nothing is
    /// taken from the stream, which holds its writer up.
    fn write(&mut self, mut region: ReadRegion) -> Result<(), RecordError> {
        loop {
            let refused = match self.recording.write(region) {
                Err(RecordError::Refused(refused)) => refused,
                done => return done,
            };
            let is_full = matches!(refused.error, QueueError::DiskFull { .. });
            (self.on_region)(self.recording);
            if !is_full || self.stopped.within(LOOK_EVERY) {
                return Err(refused.into());
            }
            region = refused.region;
            self.recording.poll()?;
        }
    }
}

/// The channels that elements of a type are recorded as, without being converted: one named `name`,
/// or one for each field of a struct. Timestamps become 64-bit nanoseconds since 1970, as they lie
/// in memory.
///
/// # Errors
/// [`RecordingError::Type`].
pub fn stream_layout(
    group: &str,
    name: &str,
    data_type: &DataType,
) -> Result<TdmsLayout, RecordingError> {
    let channels = match data_type {
        DataType::Struct(fields) => {
            let fields = fields.fields.iter();
            fields
                .map(|(name, part)| Some((Text::from(&**name), plain(part)?)))
                .collect()
        }
        one => plain(one).map(|one| vec![(Text::from(name), one)]),
    };
    let channels: Option<Vec<(Text, TdmsType)>> = channels;
    let bytes = |channels: &[(Text, TdmsType)]| -> Option<u64> {
        channels.iter().map(|(_, part)| part.size()).sum()
    };
    channels
        .filter(|channels| {
            // Nothing lies between the parts.
            let of_stream = element_bytes(data_type).map(|bytes| bytes as u64);
            of_stream.is_some() && bytes(channels) == of_stream
        })
        .map(|channels| TdmsLayout {
            group: group.into(),
            channels,
        })
        .ok_or_else(|| RecordingError::Type {
            data_type: data_type.clone(),
        })
}

fn plain(data_type: &DataType) -> Option<TdmsType> {
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
