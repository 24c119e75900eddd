//! Updates of variables into a TDMS file.

use std::collections::HashMap;

use trunkline_tdms::{
    Arrangement, ChannelId, Data, ObjectPath, TdmsTime, TdmsType, Text, WriteError, Writer,
    WriterOptions,
};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{DataType, Lost, Sample};

use super::columns::{self, Columns};
use super::error::{VariableProgress, VariableRecordError};
use super::file::Segments;
use super::gaps::Gaps;
use super::layout::{COLUMNS_MAX, Layout, NoLayout};
use super::{QUALITY, TIME, TYPE};
use crate::error::os_error;

/// Bytes of an update beside its value.
const UPDATE_BYTES: usize = size_of::<TdmsTime>() + size_of::<u32>();

/// Most bytes that wait, whatever was asked for: text of one segment has to be shorter than 4 GiB.
const WAITING_BYTES_MAX: usize = 1 << 30;

/// A variable of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VariableId(u32);

/// Records updates of variables, each with its time and quality.
///
/// Each variable is a group of its name with the channels `time` (of the source), `value` and
/// `quality` (packed, as in memory); values that have parts have several channels, whose names
/// begin with `value`. Updates wait in memory until they are [written](Self::write_out), or until
/// they have `waiting_bytes_max`, and as much again while the file takes nothing; what comes then
/// is lost, and counted. Each write is one segment with whole updates. Where updates are missing,
/// the group gets the properties `gap_N_row` and `gap_N_lost`, with N counted from 1; -1 says that
/// it is not known how many.
#[derive(Debug)]
pub struct VariableRecording<S> {
    out: S,
    writer: Writer,
    variables: Vec<Recorded>,
    /// Where each is among those.
    by_name: HashMap<ObjectPath, VariableId>,
    waiting_bytes_max: usize,
    waiting: usize,
    waiting_updates: u64,
    /// A segment that the file has not taken yet, and updates in it.
    pending: Vec<u8>,
    pending_updates: u64,
    progress: VariableProgress,
}

#[derive(Debug)]
struct Recorded {
    group: ObjectPath,
    data_type: DataType,
    layout: Layout,
    channels: Channels,
    waiting: Columns,
    /// Rows of the file, with those that wait.
    rows: u64,
    gaps: Gaps,
}

/// Where the columns of a variable are in the file.
#[derive(Debug)]
struct Channels {
    time: ChannelId,
    values: Vec<ChannelId>,
    quality: ChannelId,
}

impl Channels {
    fn add(writer: &mut Writer, name: &str, layout: &Layout) -> Result<Self, WriteError> {
        let time = writer.channel(name, TIME, TdmsType::Time)?;
        let columns = layout.columns.iter();
        let values = columns.map(|one| writer.channel(name, &*one.name, one.data_type));
        Ok(Self {
            time,
            values: values.collect::<Result<_, _>>()?,
            quality: writer.channel(name, QUALITY, TdmsType::U32)?,
        })
    }
}

impl<S: Segments> VariableRecording<S> {
    /// A recording into `out`, of which about `waiting_bytes_max` bytes (1 GiB at most) wait in
    /// memory, and as many again when the file takes nothing.
    pub fn new(out: S, waiting_bytes_max: usize) -> Self {
        let writer = writer_of(&out);
        Self {
            out,
            writer,
            variables: Vec::new(),
            by_name: HashMap::new(),
            waiting_bytes_max: waiting_bytes_max.min(WAITING_BYTES_MAX),
            waiting: 0,
            waiting_updates: 0,
            pending: Vec::new(),
            pending_updates: 0,
            progress: VariableProgress::default(),
        }
    }

    /// Adds a variable; the same name gives the same one.
    ///
    /// # Errors
    /// [`VariableRecordError::OtherType`]: it is there already, with another type.
    /// [`VariableRecordError::Type`], [`VariableRecordError::TooManyParts`],
    /// [`VariableRecordError::Format`].
    pub fn add(
        &mut self,
        name: &str,
        data_type: &DataType,
    ) -> Result<VariableId, VariableRecordError> {
        let group = ObjectPath::group(name);
        if let Some(id) = self.by_name.get(&group) {
            let before = self.variables.get(id.0 as usize);
            return match before.is_some_and(|one| one.data_type == *data_type) {
                true => Ok(*id),
                false => Err(VariableRecordError::OtherType {
                    name: name.to_owned(),
                }),
            };
        }
        let layout = Layout::of(data_type).map_err(|no_layout| match no_layout {
            NoLayout::TooManyColumns => VariableRecordError::TooManyParts {
                name: name.to_owned(),
                max: COLUMNS_MAX,
            },
            NoLayout::UnknownType => VariableRecordError::Type {
                name: name.to_owned(),
                data_type: data_type.clone(),
            },
        })?;
        let format = |source| format_error(&group, source);
        let channels = Channels::add(&mut self.writer, name, &layout).map_err(format)?;
        let text = Text::from(data_type.to_string());
        self.writer.set(&group, TYPE, text).map_err(format)?;
        // As many as fit into a file.
        let id = VariableId(self.variables.len() as u32);
        self.by_name.insert(group.clone(), id);
        self.variables.push(Recorded {
            waiting: Columns::of(&layout),
            group,
            data_type: data_type.clone(),
            layout,
            channels,
            rows: 0,
            gaps: Gaps::default(),
        });
        self.progress.variables += 1;
        Ok(id)
    }

    /// Takes an update, before which `lost` is missing.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: as much waits as may, and the file takes nothing: the update
    /// is lost, and counted. [`VariableRecordError::OtherType`], [`VariableRecordError::TooLong`].
    pub fn take(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
    ) -> Result<(), VariableRecordError> {
        self.note_lost(variable, lost.count())?;
        if let Err(error) = self.check(variable, sample) {
            self.note_lost(variable, Some(1))?;
            return Err(error);
        }
        let bytes = columns::byte_len(&sample.value) + UPDATE_BYTES;
        let is_full = |it: &Self| it.waiting > 0 && it.waiting + bytes > it.waiting_bytes_max;
        if is_full(self)
            && let Err(error) = self.write_out()
            // What waited may be a segment by now, which waits beside what comes.
            && is_full(self)
        {
            self.note_lost(variable, Some(1))?;
            return Err(error);
        }
        let one = self.variables.get_mut(variable.0 as usize);
        one.ok_or(VariableRecordError::Unknown)?.push(sample);
        self.waiting += bytes;
        self.waiting_updates += 1;
        self.progress.updates += 1;
        Ok(())
    }

    /// Whether an update can be recorded as one of this variable.
    fn check(&self, variable: VariableId, sample: &Sample) -> Result<(), VariableRecordError> {
        let one = self.variables.get(variable.0 as usize);
        let one = one.ok_or(VariableRecordError::Unknown)?;
        let name = || one.group.name().to_string();
        if !sample.value.has_type(&one.data_type) {
            return Err(VariableRecordError::OtherType { name: name() });
        }
        // As players check: none of a recording takes more memory.
        let is_fixed = one.data_type.fixed_size().is_some();
        match is_fixed || encoded_len(&sample.value) <= VALUE_BYTES_MAX {
            true => Ok(()),
            false => Err(VariableRecordError::TooLong { name: name() }),
        }
    }

    /// Updates of a variable are missing before its next one; none: an unknown number.
    ///
    /// # Errors
    /// [`VariableRecordError::Unknown`].
    pub fn note_lost(
        &mut self,
        variable: VariableId,
        lost: Option<u64>,
    ) -> Result<(), VariableRecordError> {
        let one = self.variables.get_mut(variable.0 as usize);
        let one = one.ok_or(VariableRecordError::Unknown)?;
        self.progress.lost += lost.unwrap_or(0);
        self.progress.unknown_gaps += u64::from(lost.is_none());
        one.gaps.lose(lost);
        Ok(())
    }

    /// Writes everything that waits, as one segment.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: nothing of it was written, and it waits still.
    pub fn write_out(&mut self) -> Result<(), VariableRecordError> {
        self.write_pending()?;
        for one in &mut self.variables {
            let gaps = one.gaps.describe(&one.group, &mut self.writer);
            gaps.map_err(|source| format_error(&one.group, source))?;
        }
        let waiting = self.variables.iter();
        let waiting = waiting.filter(|one| !one.waiting.times.is_empty());
        let data: Vec<(ChannelId, Data<'_>)> = waiting.flat_map(Recorded::data).collect();
        let written = self
            .writer
            .write(&data, Arrangement::Contiguous, &mut self.pending);
        written.map_err(|source| format_error(&ObjectPath::group("the recording"), source))?;
        for one in &mut self.variables {
            one.waiting.clear();
        }
        self.pending_updates = std::mem::take(&mut self.waiting_updates);
        self.waiting = 0;
        self.write_pending()
    }

    fn write_pending(&mut self) -> Result<(), VariableRecordError> {
        if !self.pending.is_empty() {
            self.out.append(&self.pending)?;
            self.progress.bytes += self.pending.len() as u64;
            self.pending.clear();
        }
        self.progress.in_file += std::mem::take(&mut self.pending_updates);
        Ok(())
    }

    /// Writes everything that waits, and makes it safe from a loss of power.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]; [`VariableRecordError::Sync`], then and ever after.
    pub fn sync(&mut self) -> Result<(), VariableRecordError> {
        self.write_out()?;
        if self.progress.sync_failure.is_none()
            && let Err(error) = self.out.sync()
        {
            self.progress.sync_failure = Some(os_error(&error));
        }
        // The system reports an error of writing once: a later sync would prove nothing.
        if let Some(os_error) = self.progress.sync_failure {
            let on_disk = self.progress.on_disk;
            return Err(VariableRecordError::Sync { os_error, on_disk });
        }
        self.progress.on_disk = self.progress.in_file;
        Ok(())
    }

    /// As [`sync`](Self::sync), and updates that are missing behind the last one of a variable are
    /// a gap behind it.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn finish(&mut self) -> Result<(), VariableRecordError> {
        for one in &mut self.variables {
            one.gaps.note(one.rows);
        }
        self.sync()
    }

    /// How far it is.
    pub fn progress(&self) -> VariableProgress {
        VariableProgress {
            waiting_bytes: self.waiting + self.pending.len(),
            ..self.progress
        }
    }
}

impl Recorded {
    /// Appends an update, which was checked.
    fn push(&mut self, sample: &Sample) {
        self.gaps.note(self.rows);
        let waiting = &mut self.waiting;
        waiting.times.push(sample.source_timestamp.into());
        waiting.push(&self.layout, &sample.value);
        waiting.qualities.push(sample.quality.to_bits());
        self.rows += 1;
    }

    /// What waits, channel by channel. The qualities come last: of a segment that is cut off, an
    /// update that has one is whole.
    fn data(&self) -> impl Iterator<Item = (ChannelId, Data<'_>)> {
        let values = self.channels.values.iter().zip(&self.waiting.values);
        // Of elements there may be none.
        let values = values.filter(|(_, values)| !values.is_empty());
        let values = values.filter_map(|(channel, values)| Some((*channel, values.as_data()?)));
        let times = (self.channels.time, Data::from(&*self.waiting.times));
        let qualities = (self.channels.quality, Data::from(&*self.waiting.qualities));
        std::iter::once(times)
            .chain(values)
            .chain(std::iter::once(qualities))
    }
}

/// The writer of a new file.
fn writer_of(out: &impl Segments) -> Writer {
    let mut writer = Writer::new(WriterOptions::default());
    if let Some(number) = out.sums_number() {
        // So that the first segment tells checksums of this file from those of another. This is a
        // property that every file may have.
        let _ = writer.set(&ObjectPath::File, "sums_id", number);
    }
    writer
}

fn format_error(group: &ObjectPath, source: WriteError) -> VariableRecordError {
    VariableRecordError::Format {
        name: group.name().to_string(),
        source: Box::new(source),
    }
}
