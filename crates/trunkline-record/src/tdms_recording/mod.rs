//! Records rows of a ring as channels of a TDMS file.

mod ends;
mod error;
mod gaps;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::{
    Arrangement, ChannelAmount, ChannelId, ObjectPath, PropertyValue, Text, Waveform, WriteError,
    Writer, WriterOptions,
};

use self::ends::SegmentEnd;
pub use self::error::{RecordError, TdmsLayout};
pub use self::gaps::DiskFullLosses;
use crate::error::{QueueError, Refused};
use crate::queue::{Closed, Durability, Progress, WriteQueue};

/// Records rows from regions into one TDMS file.
///
/// Each region is written in place as a segment or, while the disk is busy, as another chunk of the
/// last segment. Each gap that the device left is recorded in two properties of the group, with N
/// counted from 1: `gap_N_row` is the number in the file of the first row after the gap, and
/// `gap_N_lost` is the number of rows missing before that row.
#[derive(Debug)]
pub struct TdmsRecording {
    queue: WriteQueue,
    writer: Writer,
    group: ObjectPath,
    channels: Vec<ChannelId>,
    arrangement: Arrangement,
    row_bytes: u64,
    rows: u64,
    gaps: u64,
    lost: u64,
    disk_full_losses: DiskFullLosses,
    /// Number of rows lost since the disk became full that no gap records yet.
    unrecorded_rows: u64,
    /// Number of copied rows that are not in a segment yet.
    collected_rows: u64,
    /// Ends of the segments that are not in the file yet.
    pending_ends: VecDeque<SegmentEnd>,
    rows_in_file: u64,
    /// Number of lost rows that the file records, at most `lost`.
    lost_in_file: u64,
    /// Number of lost rows that headers record, including headers that are not in the file yet.
    lost_in_headers: u64,
    has_header_overflow: bool,
    amounts: Vec<ChannelAmount>,
    header: Vec<u8>,
    padding: Vec<u8>,
}

impl TdmsRecording {
    /// Starts a recording into the file of `queue`, to which nothing was appended yet. On return,
    /// the file is on the disk and defines its channels, but contains no values. Readers can
    /// therefore open it even after a crash. `wait` is the timeout of this call.
    ///
    /// # Errors
    /// [`RecordError`]. A file that [`tdms_queue`](crate::tdms_queue) created is then removed,
    /// because it contains no rows, and its name can be used again.
    pub fn start(
        queue: WriteQueue,
        layout: &TdmsLayout,
        wait: Duration,
    ) -> Result<Self, RecordError> {
        let mut recording = Self::new(queue, layout)?;
        match recording.write_first_segment(wait) {
            Ok(()) => Ok(recording),
            Err(error) => {
                recording.queue.abandon();
                Err(error)
            }
        }
    }

    /// Writes the first segment, which defines the channels.
    fn write_first_segment(&mut self, wait: Duration) -> Result<(), RecordError> {
        if let Some(number) = self.queue.sums_number() {
            // The first segment identifies the checksums that belong to this file.
            self.writer.set(&ObjectPath::File, "sums_id", number)?;
        }
        self.append_properties()?;
        Ok(self.queue.flush(Durability::OnDisk, wait)?)
    }

    fn new(queue: WriteQueue, layout: &TdmsLayout) -> Result<Self, RecordError> {
        let block_bytes = NonZeroU64::new(queue.block_bytes() as u64);
        let mut writer = Writer::new(WriterOptions {
            block_bytes: block_bytes.filter(|block| block.get() > 1),
            ..WriterOptions::default()
        });
        let mut row_bytes = 0;
        let mut channels = Vec::with_capacity(layout.channels.len());
        for (name, data_type) in &layout.channels {
            let size = data_type.size().filter(|size| *size > 0);
            row_bytes += size.ok_or_else(|| RecordError::NoSize {
                channel: name.clone(),
                data_type: *data_type,
            })?;
            channels.push(writer.channel(layout.group.clone(), name.clone(), *data_type)?);
        }
        set_waveform(&mut writer, layout)?;
        for name in &layout.timestamps {
            let path = ObjectPath::channel(layout.group.clone(), name.clone());
            writer.set(&path, "value_type", "timestamp")?;
            writer.set(&path, "unit_string", "ns")?;
        }
        let arrangement = match channels.len() {
            0 => return Err(RecordError::NoChannels),
            1 => Arrangement::Contiguous,
            _ => Arrangement::Interleaved,
        };
        let pending_ends = VecDeque::with_capacity(queue.segments_unwritten_max());
        Ok(Self {
            queue,
            writer,
            group: ObjectPath::Group(layout.group.clone()),
            amounts: Vec::with_capacity(channels.len()),
            channels,
            arrangement,
            row_bytes,
            rows: 0,
            gaps: 0,
            lost: 0,
            disk_full_losses: DiskFullLosses::default(),
            unrecorded_rows: 0,
            collected_rows: 0,
            pending_ends,
            rows_in_file: 0,
            lost_in_file: 0,
            lost_in_headers: 0,
            has_header_overflow: false,
            header: Vec::new(),
            padding: Vec::new(),
        })
    }

    /// Sets the times of the rows, which are written with the next region.
    pub(crate) fn set_waveform(&mut self, layout: &TdmsLayout) -> Result<(), RecordError> {
        Ok(set_waveform(&mut self.writer, layout)?)
    }

    /// Sets a property, which is written with the next region.
    pub fn set(
        &mut self,
        path: &ObjectPath,
        name: impl Into<Text>,
        value: impl Into<PropertyValue>,
    ) -> Result<(), RecordError> {
        Ok(self.writer.set(path, name, value)?)
    }

    /// Writes the rows of a region in place. This call waits only while the maximum number of
    /// regions is outstanding, for at most the time set in the queue's options. The region is
    /// released once its rows are in the file.
    ///
    /// If the options allow copying, small and unaligned regions are copied and released at once.
    /// Copied rows are written when they fill a segment, when they reach their maximum age, or
    /// before a region that is not copied.
    ///
    /// # Errors
    /// [`RecordError::RowSizeMismatch`]: the region is released and nothing was written.
    /// [`RecordError::Refused`] returns the region.
    pub fn write(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        let count = region.elements();
        let element_bytes = region.bytes().len() as u64 / count.max(1);
        if element_bytes != self.row_bytes {
            let row_bytes = self.row_bytes;
            return Err(RecordError::RowSizeMismatch {
                element_bytes,
                row_bytes,
            });
        }
        match self.prepare_for(&region) {
            Ok(()) => {}
            Err(RecordError::Queue(error)) if self.counts_as_loss(&error) => {
                self.count_lost(&region);
                return Ok(());
            }
            Err(RecordError::Queue(error)) => {
                return Err(Box::new(Refused { region, error }).into());
            }
            Err(error) => return Err(error),
        }
        if self.has_header_overflow {
            return Err(RecordError::HeaderOverflow);
        }
        let (losses, unrecorded_rows, lost) =
            (self.disk_full_losses, self.unrecorded_rows, self.lost);
        self.note_lost_before(&region)?;
        if self.queue.is_to_be_copied(&region) {
            self.queue.collect(&region);
            self.rows += count;
            self.collected_rows += count;
            self.count_rows();
            return Ok(());
        }
        if self.try_extend(&region) {
            self.queue.extend(region);
            self.rows += count;
            self.note_extension();
            self.count_rows();
            return Ok(());
        }
        self.build_header(count)?;
        // From here on, only an overlong header can be refused, and the writer cannot undo that
        // header.
        self.has_header_overflow = true;
        let appended = self
            .queue
            .append(&self.header, region, &self.padding, false);
        if appended.is_err() {
            // The caller retries this region, and the retry also records the rows missing before
            // it.
            (self.disk_full_losses, self.unrecorded_rows, self.lost) =
                (losses, unrecorded_rows, lost);
        }
        appended?;
        self.has_header_overflow = false;
        self.rows += count;
        self.note_end();
        self.count_rows();
        Ok(())
    }

    /// Tries to add the rows of a region to the last segment, under its existing header. Returns
    /// true if the writer counted the rows as written.
    fn try_extend(&mut self, region: &ReadRegion) -> bool {
        if !self.queue.may_extend(region) {
            return false;
        }
        self.set_amounts(region.elements());
        let added = self.writer.add_chunk(&self.amounts, self.arrangement);
        added.is_some()
    }

    /// Ensures that the queue can accept a region before the writer counts its segment as written.
    fn prepare_for(&mut self, region: &ReadRegion) -> Result<(), RecordError> {
        let is_copied = self.queue.is_to_be_copied(region);
        let is_full = region.bytes().len() > self.queue.free_copy_bytes();
        if !is_copied || is_full || self.queue.is_collected_data_due() {
            self.write_collected()?;
        }
        match is_copied {
            true => self.queue.prepare_to_collect()?,
            false => self.queue.prepare_for(region)?,
        }
        Ok(())
    }

    /// Writes the copied rows, if there are any.
    fn write_collected(&mut self) -> Result<(), RecordError> {
        if self.collected_rows == 0 || self.has_header_overflow {
            return Ok(());
        }
        self.queue.prepare_to_collect()?;
        self.build_header(self.collected_rows)?;
        self.has_header_overflow = true;
        self.queue.append_collected(&self.header, &self.padding)?;
        self.has_header_overflow = false;
        self.collected_rows = 0;
        self.note_end();
        Ok(())
    }

    /// Sets the amount of every channel to `count` rows.
    fn set_amounts(&mut self, count: u64) {
        self.amounts.clear();
        self.amounts
            .extend(self.channels.iter().map(|channel| ChannelAmount {
                channel: *channel,
                count,
                bytes: 0,
            }));
    }

    /// Builds the header of a segment of `count` rows, and the padding after the rows.
    fn build_header(&mut self, count: u64) -> Result<(), RecordError> {
        self.set_amounts(count);
        self.header.clear();
        self.padding.clear();
        self.writer
            .header(&self.amounts, self.arrangement, &mut self.header)?;
        self.writer.pad(&mut self.padding)?;
        self.lost_in_headers = self.lost;
        Ok(())
    }

    /// Returns the number of rows accepted.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of rows in the file, according to the completions processed so far. These
    /// rows survive if the program is killed.
    pub fn rows_in_file(&self) -> u64 {
        self.rows_in_file
    }

    /// Returns the number of rows lost before or between the accepted rows.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns true if a header was too long, after which the file accepts no more rows.
    pub(crate) fn has_header_overflow(&self) -> bool {
        self.has_header_overflow
    }

    pub fn queue(&self) -> &WriteQueue {
        &self.queue
    }

    pub fn progress(&self) -> Progress {
        self.queue.progress()
    }

    /// Processes the completions that have arrived, without waiting, and releases their regions.
    /// Also writes copied rows that have reached their maximum age.
    pub fn poll(&mut self) -> Result<(), RecordError> {
        self.queue.poll()?;
        if self.queue.is_collected_data_due() && self.progress().failure.is_none() {
            self.write_collected()?;
        }
        self.count_rows();
        Ok(())
    }

    /// Starts making written data durable, like [`WriteQueue::begin_sync`]. Copied rows that are
    /// not in a segment yet are not included.
    pub fn begin_sync(&mut self) -> Result<bool, RecordError> {
        Ok(self.queue.begin_sync()?)
    }

    /// Waits until all accepted rows have the given durability.
    ///
    /// # Errors
    /// [`RecordError::Queue`]; [`RecordError::HeaderOverflow`] if copied rows can never be written.
    pub fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), RecordError> {
        self.write_collected()?;
        let flushed = self.queue.flush(durability, wait);
        self.count_rows();
        flushed?;
        self.check_complete()
    }

    /// Checks that all accepted rows are in segments.
    fn check_complete(&self) -> Result<(), RecordError> {
        match self.collected_rows {
            0 => Ok(()),
            _ => Err(RecordError::HeaderOverflow),
        }
    }

    /// Ends the file, like [`WriteQueue::close`].
    ///
    /// # Errors
    /// [`RecordError::Queue`], after which the caller may call this again.
    /// [`RecordError::HeaderOverflow`]: the file is closed without the most recently copied rows
    /// (see [`rows_in_file`](Self::rows_in_file)).
    pub fn close(&mut self, wait: Duration) -> Result<Closed, RecordError> {
        let closed = self.end(wait)?;
        match closed.failure {
            // The failure already reports that rows are missing.
            Some(_) => Ok(closed),
            None => self.check_complete().map(|()| closed),
        }
    }

    /// Ends the file like [`close`](Self::close), but does not report copied rows that are missing.
    pub(crate) fn end(&mut self, wait: Duration) -> Result<Closed, RecordError> {
        match self.write_collected() {
            // After these errors the copied rows are missing from the file, like rows being
            // written.
            Ok(()) | Err(RecordError::Queue(QueueError::Failed(_) | QueueError::Closed)) => {}
            Err(_) if self.has_header_overflow => {}
            Err(error) => return Err(error),
        }
        let closed = self.queue.close(wait);
        self.count_rows();
        Ok(closed?)
    }
}

fn set_waveform(writer: &mut Writer, layout: &TdmsLayout) -> Result<(), WriteError> {
    for (name, _) in &layout.channels {
        let path = ObjectPath::channel(layout.group.clone(), name.clone());
        let properties = layout.waveform.map(Waveform::to_properties);
        for (property, value) in properties.into_iter().flatten() {
            writer.set(&path, property, value)?;
        }
    }
    Ok(())
}
