//! Updates of variables into a TDMS file.

use std::collections::HashMap;
use std::io;

use trunkline_tdms::{
    Arrangement, ChannelId, Data, ObjectPath, TdmsTime, TdmsType, Text, Values, WriteError, Writer,
    WriterOptions,
};
use trunkline_types::{DataType, Lost, Sample};

use super::file::Segments;
use super::values;
use super::{QUALITY, TIME, TYPE, VALUE};
use crate::error::os_error;

/// Bytes of an update beside its value.
const UPDATE_BYTES: usize = size_of::<TdmsTime>() + size_of::<u32>();

/// A variable of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VariableId(u32);

/// Why a variable, or an update of it, is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableRecordError {
    /// Values of this type have no channel.
    #[error(
        "{name} holds {data_type}, which is not recorded; record its parts as variables of their \
         own, or record it as a stream"
    )]
    Type {
        /// The variable.
        name: String,
        /// Its type.
        data_type: DataType,
    },
    /// An update is of another type than its variable was when it was added.
    #[error("{name}: an update of another type than it had before; record it in another file")]
    OtherType {
        /// The variable.
        name: String,
    },
    /// The format does not have that.
    #[error("{name}: {source}")]
    Format {
        /// The variable.
        name: String,
        /// What.
        source: Box<WriteError>,
    },
    /// There is no such variable in this recording.
    #[error("a variable of another recording; add it to this one first")]
    Unknown,
    /// The file takes nothing now. What waits is written when it does.
    #[error("the file takes nothing now: {0}; what waits is tried again")]
    File(#[from] io::Error),
    /// A sync has failed, now or before. Updates are still written.
    #[error(
        "syncing failed: {}; updates behind the first {on_disk} may not outlive a loss of power, \
         even if a later sync succeeds; go on in another file",
        io::Error::from_raw_os_error(*os_error)
    )]
    Sync {
        /// The number of the system's error.
        os_error: i32,
        /// Updates that had outlived a loss of power before.
        on_disk: u64,
    },
}

/// How far a recording of variables is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VariableProgress {
    /// Variables in it.
    pub variables: u64,
    /// Updates that were taken.
    pub updates: u64,
    /// Updates that are in the file, which outlives the program.
    pub in_file: u64,
    /// Updates that outlive a loss of power. No more than there were when a sync has failed.
    pub on_disk: u64,
    /// The number of the system's error when a sync has failed: `on_disk` stays what it is.
    pub sync_failure: Option<i32>,
    /// Updates that are missing, before the recording or in it, as far as their number is known.
    pub lost: u64,
    /// How often an unknown number was lost.
    pub unknown_gaps: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes that wait to be written.
    pub waiting_bytes: usize,
}

/// Records updates of variables, each with its time and quality.
///
/// Each variable is a group of its name with the channels `time` (of the source), `value` and
/// `quality` (packed, as in memory). Updates wait in memory until they are
/// [written](Self::write_out), or until they have `waiting_bytes_max`, and as much again while the
/// file takes nothing; what comes then is lost, and counted. Where updates are missing, the group
/// gets the properties `gap_N_row` and `gap_N_lost`, with N counted from 1; -1 says that it is not
/// known how many.
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
    channels: [ChannelId; 3],
    times: Vec<TdmsTime>,
    values: Values,
    qualities: Vec<u32>,
    /// Updates that were taken.
    rows: u64,
    gaps: u64,
    /// Missing before the next update; none: an unknown number.
    missing: Option<u64>,
}

impl<S: Segments> VariableRecording<S> {
    /// A recording into `out`, of which about `waiting_bytes_max` bytes wait in memory at most, and
    /// as many again when the file takes nothing.
    pub fn new(out: S, waiting_bytes_max: usize) -> Self {
        let mut writer = Writer::new(WriterOptions::default());
        if let Some(number) = out.sums_number() {
            // So that the first segment tells checksums of this file from those of another. This
            // is a property that every file may have.
            let _ = writer.set(&ObjectPath::File, "sums_id", number);
        }
        Self {
            out,
            writer,
            variables: Vec::new(),
            by_name: HashMap::new(),
            waiting_bytes_max,
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
    /// [`VariableRecordError::Type`], [`VariableRecordError::Format`]: a variable that comes again
    /// with another type is one of them.
    pub fn add(
        &mut self,
        name: &str,
        data_type: &DataType,
    ) -> Result<VariableId, VariableRecordError> {
        let column = values::column(data_type).and_then(|column| {
            let channel_type = column.as_data()?.data_type();
            Some((column, channel_type))
        });
        let (values, channel_type) = column.ok_or_else(|| VariableRecordError::Type {
            name: name.to_owned(),
            data_type: data_type.clone(),
        })?;
        let group = ObjectPath::group(name);
        let format = |source| VariableRecordError::Format {
            name: name.to_owned(),
            source: Box::new(source),
        };
        let mut channel = |channel: &str, data_type| {
            let added = self.writer.channel(name, channel, data_type);
            added.map_err(format)
        };
        let channels = [
            channel(TIME, TdmsType::Time)?,
            channel(VALUE, channel_type)?,
            channel(QUALITY, TdmsType::U32)?,
        ];
        if let Some(found) = self.by_name.get(&group) {
            return Ok(*found);
        }
        let text = Text::from(data_type.to_string());
        self.writer.set(&group, TYPE, text).map_err(format)?;
        // As many as fit into a file.
        let id = VariableId(self.variables.len() as u32);
        self.by_name.insert(group.clone(), id);
        self.variables.push(Recorded {
            group,
            channels,
            times: Vec::new(),
            values,
            qualities: Vec::new(),
            rows: 0,
            gaps: 0,
            missing: Some(0),
        });
        self.progress.variables += 1;
        Ok(id)
    }

    /// Takes an update, before which `lost` is missing.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: as much waits as may, and the file takes nothing: the update
    /// is lost, and counted. [`VariableRecordError::OtherType`].
    pub fn take(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
    ) -> Result<(), VariableRecordError> {
        self.note_lost(variable, lost.count())?;
        let bytes = values::byte_len(&sample.value) + UPDATE_BYTES;
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
        let one = one.ok_or(VariableRecordError::Unknown)?;
        if !values::push(&mut one.values, &sample.value) {
            return Err(VariableRecordError::OtherType {
                name: one.group.name().to_string(),
            });
        }
        one.times.push(sample.source_timestamp.into());
        one.qualities.push(sample.quality.to_bits());
        if one.missing != Some(0) {
            one.gaps += 1;
            let (number, row, group) = (one.gaps, one.rows, one.group.clone());
            let missing = one.missing.map_or(-1, |missing| missing.cast_signed());
            one.missing = Some(0);
            let format = |source| VariableRecordError::Format {
                name: group.name().to_string(),
                source: Box::new(source),
            };
            let set = self.writer.set(&group, format!("gap_{number}_row"), row);
            set.map_err(format)?;
            let set = self
                .writer
                .set(&group, format!("gap_{number}_lost"), missing);
            set.map_err(format)?;
        }
        let one = self.variables.get_mut(variable.0 as usize);
        if let Some(one) = one {
            one.rows += 1;
        }
        self.waiting += bytes;
        self.waiting_updates += 1;
        self.progress.updates += 1;
        Ok(())
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
        one.missing = one
            .missing
            .zip(lost)
            .map(|(before, lost)| before.saturating_add(lost));
        Ok(())
    }

    /// Writes everything that waits, as one segment.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: nothing of it was written, and it waits still.
    pub fn write_out(&mut self) -> Result<(), VariableRecordError> {
        self.write_pending()?;
        let with_values = self.variables.iter().filter(|one| !one.times.is_empty());
        let data: Vec<(ChannelId, Data<'_>)> = with_values
            .flat_map(|one| {
                let [time, value, quality] = one.channels;
                let values = one.values.as_data().map(|data| (value, data));
                let times = (time, Data::from(&one.times[..]));
                let qualities = (quality, Data::from(&one.qualities[..]));
                [Some(times), values, Some(qualities)].into_iter().flatten()
            })
            .collect();
        let written = self
            .writer
            .write(&data, Arrangement::Contiguous, &mut self.pending);
        written.map_err(|source| VariableRecordError::Format {
            name: "the recording".to_owned(),
            source: Box::new(source),
        })?;
        for one in &mut self.variables {
            one.times.clear();
            one.qualities.clear();
            values::clear(&mut one.values);
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

    /// How far it is.
    pub fn progress(&self) -> VariableProgress {
        VariableProgress {
            waiting_bytes: self.waiting + self.pending.len(),
            ..self.progress
        }
    }
}
