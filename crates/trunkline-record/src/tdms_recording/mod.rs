//! Rows of a ring as channels of a TDMS file.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::{
    Arrangement, ChannelId, ObjectPath, PropertyValue, Share, TdmsType, Text, WriteError, Writer,
    WriterOptions,
};

use crate::backend::Backend;
use crate::error::{QueueError, Refused};
use crate::queue::{Closed, Durability, Progress, WriteQueue};

/// What the elements of a ring are: rows, of one value of each channel, little-endian and without
/// anything between them.
#[derive(Clone, PartialEq, Debug)]
pub struct TdmsLayout {
    /// The group of all channels.
    pub group: Text,
    /// Name and type of each, in the order in which they lie in a row.
    pub channels: Vec<(Text, TdmsType)>,
}

/// Why rows are not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The format does not have that.
    #[error(transparent)]
    Format(#[from] WriteError),
    /// A type without a size of its own.
    #[error(
        "channel {channel} holds {data_type}, which has no fixed size; record it as a variable"
    )]
    NoSize {
        /// The channel.
        channel: Text,
        /// Its type.
        data_type: TdmsType,
    },
    /// No channel at all.
    #[error("a recording without channels; name at least one")]
    NoChannels,
    /// The ring has elements of another size than the channels make.
    #[error(
        "the ring has elements of {element_bytes} bytes, and a row of these channels has \
         {row_bytes}; make them the same"
    )]
    OtherRows {
        /// Bytes of an element.
        element_bytes: u64,
        /// Bytes of a row.
        row_bytes: u64,
    },
    /// A header did not fit, so the file can have no further rows.
    #[error(
        "an earlier header did not fit into the memory for it, so this file can have no further \
         rows; close it, and go on in another one with a larger header_bytes_max"
    )]
    Over,
    /// It was not written; the region is still held, in `refused`.
    #[error(transparent)]
    Refused(#[from] Box<Refused>),
    /// Writing as a whole.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Records rows from regions into one TDMS file.
///
/// Each region is a segment, written from where it lies. Where the device has lost rows, the group
/// gets the properties `gap_N_row` (number of the first row behind the gap in the file) and
/// `gap_N_lost` (rows that are missing before it), with N counted from 1.
#[derive(Debug)]
pub struct TdmsRecording<B: Backend> {
    queue: WriteQueue<B>,
    writer: Writer,
    group: ObjectPath,
    channels: Vec<ChannelId>,
    arrangement: Arrangement,
    row_bytes: u64,
    rows: u64,
    gaps: u64,
    lost: u64,
    /// Where segments end that are not in the file yet, and rows up to there.
    ends: VecDeque<(u64, u64)>,
    rows_in_file: u64,
    is_over: bool,
    shares: Vec<Share>,
    header: Vec<u8>,
    behind: Vec<u8>,
}

impl<B: Backend> TdmsRecording<B> {
    /// A recording into the file of `queue`, to which nothing was appended. When this returns, the
    /// file is on the disk with its channels and without values: from now on it can be opened
    /// whatever happens. `wait` bounds how long that takes.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn start(
        queue: WriteQueue<B>,
        layout: &TdmsLayout,
        wait: Duration,
    ) -> Result<Self, RecordError> {
        let mut sut = Self::new(queue, layout)?;
        sut.writer
            .header(&[], Arrangement::Contiguous, &mut sut.header)?;
        sut.writer.pad(&mut sut.header)?;
        sut.queue.append_header(&sut.header)?;
        sut.queue.flush(Durability::OnDisk, wait)?;
        Ok(sut)
    }

    fn new(queue: WriteQueue<B>, layout: &TdmsLayout) -> Result<Self, RecordError> {
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
        let arrangement = match channels.len() {
            0 => return Err(RecordError::NoChannels),
            1 => Arrangement::Contiguous,
            _ => Arrangement::Interleaved,
        };
        Ok(Self {
            queue,
            writer,
            group: ObjectPath::Group(layout.group.clone()),
            shares: Vec::with_capacity(channels.len()),
            channels,
            arrangement,
            row_bytes,
            rows: 0,
            gaps: 0,
            lost: 0,
            ends: VecDeque::new(),
            rows_in_file: 0,
            is_over: false,
            header: Vec::new(),
            behind: Vec::new(),
        })
    }

    /// Sets a property, which is written with the next region.
    ///
    /// # Errors
    /// [`RecordError::Format`].
    pub fn set(
        &mut self,
        path: &ObjectPath,
        name: impl Into<Text>,
        value: impl Into<PropertyValue>,
    ) -> Result<(), RecordError> {
        Ok(self.writer.set(path, name, value)?)
    }

    /// Writes the rows of a region from where they lie. Returns at once, unless as many regions are
    /// being written as may be; then it waits as long as the queue's options say. The region is
    /// given back when it is in the file.
    ///
    /// # Errors
    /// [`RecordError::OtherRows`], after which nothing was written and the region is given back;
    /// [`RecordError::Refused`], with the region.
    pub fn write(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        let count = region.elements();
        let element_bytes = region.bytes().len() as u64 / count.max(1);
        if element_bytes != self.row_bytes {
            let row_bytes = self.row_bytes;
            return Err(RecordError::OtherRows {
                element_bytes,
                row_bytes,
            });
        }
        // Before the writer takes the segment for written.
        if let Err(error) = self.queue.make_room_for(&region) {
            return Err(Box::new(Refused { region, error }).into());
        }
        if self.is_over {
            return Err(RecordError::Over);
        }
        if region.lost_before() > 0 {
            self.note_gap(region.lost_before())?;
        }
        self.shares.clear();
        self.shares
            .extend(self.channels.iter().map(|channel| Share {
                channel: *channel,
                count,
                bytes: 0,
            }));
        self.header.clear();
        self.behind.clear();
        self.writer
            .header(&self.shares, self.arrangement, &mut self.header)?;
        self.writer.pad(&mut self.behind)?;
        // Only a header that is too long is refused now, and the writer cannot take it back.
        self.is_over = true;
        self.queue
            .append(&self.header, region, &self.behind, false)?;
        self.is_over = false;
        self.rows += count;
        self.ends.push_back((self.queue.position(), self.rows));
        self.count_rows();
        Ok(())
    }

    /// Rows of what is in the file by now.
    fn count_rows(&mut self) {
        let written = self.queue.progress().written;
        while let Some((_, rows)) = self.ends.pop_front_if(|(end, _)| *end <= written) {
            self.rows_in_file = rows;
        }
    }

    /// Says in the file that rows are missing before those that come next.
    pub(crate) fn note_gap(&mut self, lost: u64) -> Result<(), RecordError> {
        let number = self.gaps + 1;
        let (row, group) = (self.rows, self.group.clone());
        self.writer.set(&group, format!("gap_{number}_row"), row)?;
        self.writer
            .set(&group, format!("gap_{number}_lost"), lost)?;
        self.gaps = number;
        self.lost += lost;
        Ok(())
    }

    /// Rows that were taken.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that are in the file, as far as completions were taken: those that are found after the
    /// program is killed.
    pub fn rows_in_file(&self) -> u64 {
        self.rows_in_file
    }

    /// Rows that the device has lost between those.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What writes the file.
    pub fn queue(&self) -> &WriteQueue<B> {
        &self.queue
    }

    /// How far the file is.
    pub fn progress(&self) -> Progress {
        self.queue.progress()
    }

    /// Takes completions that have come, without waiting: regions are given back.
    ///
    /// # Errors
    /// [`RecordError::Queue`].
    pub fn poll(&mut self) -> Result<(), RecordError> {
        self.queue.poll()?;
        self.count_rows();
        Ok(())
    }

    /// Begins to make durable what is written: [`WriteQueue::begin_sync`].
    ///
    /// # Errors
    /// [`RecordError::Queue`].
    pub fn begin_sync(&mut self) -> Result<bool, RecordError> {
        Ok(self.queue.begin_sync()?)
    }

    /// Waits until everything that was taken is as safe as said.
    ///
    /// # Errors
    /// [`RecordError::Queue`].
    pub fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), RecordError> {
        let flushed = self.queue.flush(durability, wait);
        self.count_rows();
        Ok(flushed?)
    }

    /// Ends the file: [`WriteQueue::close`].
    ///
    /// # Errors
    /// [`RecordError::Queue`].
    pub fn close(&mut self, wait: Duration) -> Result<Closed, RecordError> {
        let closed = self.queue.close(wait);
        self.count_rows();
        Ok(closed?)
    }
}
