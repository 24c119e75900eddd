//! Records updates of variables to a TDMS file.

use std::collections::HashMap;

use trunkline_tdms::{
    Arrangement, ChannelId, Data, ObjectPath, PropertyValue, TdmsTime, WriteError, Writer,
};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{DataType, Lost, Sample};

use super::INITIAL;
use super::columns;
use super::error::{VariableProgress, VariableRecordError};
use super::file::{Segments, new_writer};
use super::layout::{COLUMNS_MAX, Layout, NoLayout};
use super::recorded::RecordedVariable;
use crate::error::os_error;
use crate::watched_path::MovedFile;

/// Size in bytes of an update without its value.
const UPDATE_BYTES: usize = size_of::<TdmsTime>() + size_of::<u32>();

/// Upper limit of `waiting_bytes_max`, because the text of one segment must be shorter than 4 GiB.
const WAITING_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowKind {
    /// Updates of variables. Each later file of a series begins with a copy of the last update.
    Updates,
    /// Elements of a stream, each of which is in exactly one file.
    Elements,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VariableId(u32);

/// Records updates of variables, each with its time and quality.
///
/// Each variable is a group with the name of the variable and the channels `time` (the source
/// timestamp), `value` and `quality` (packed, as in memory). Values with parts have several
/// channels, whose names begin with `value`.
///
/// Updates wait in memory until they are [written](Self::write_out) or until they reach
/// `waiting_bytes_max`. While the file accepts no data, twice that amount may wait; more updates
/// are lost and counted. Each write is one segment of complete updates.
///
/// Each gap is recorded in the properties `gap_N_row` and `gap_N_lost` of the group, with N counted
/// from 1. The value -1 of `gap_N_lost` means that the number of missing updates is unknown. If a
/// unit and a description are [set](Self::describe), the property `unit_string` of the channel of
/// values and the property `description` of the group contain them.
#[derive(Debug)]
pub struct VariableRecording<S> {
    out: S,
    writer: Writer,
    row_kind: RowKind,
    variables: Vec<RecordedVariable>,
    by_name: HashMap<ObjectPath, VariableId>,
    waiting_bytes_max: usize,
    waiting_bytes: usize,
    waiting_updates: u64,
    /// A segment that is not in the file yet.
    pending: Vec<u8>,
    /// Number of updates in `pending`.
    pending_updates: u64,
    /// Number of bytes of memory that these updates used while they were waiting.
    pending_bytes: usize,
    /// True if the recording may continue in another file. Updates are then kept until the current
    /// file contains them.
    is_series: bool,
    /// Size of the current file in bytes.
    file_bytes: u64,
    /// Number of updates in the current file that no earlier file contains.
    file_updates: u64,
    /// The system's error number if syncing the current file failed.
    sync_failure: Option<i32>,
    /// Number of updates in earlier files that may not survive a power loss.
    unsynced_updates: u64,
    /// Location of the current file if its name no longer refers to it.
    moved_file: Option<MovedFile>,
    /// Location of the checksum file if its name no longer refers to it.
    moved_sums_file: Option<MovedFile>,
    progress: VariableProgress,
}

impl<S: Segments> VariableRecording<S> {
    /// Creates a recording that writes to `out`. About `waiting_bytes_max` bytes (at most 1 GiB)
    /// may wait in memory, or twice that amount while the file accepts no data.
    pub fn new(out: S, waiting_bytes_max: usize) -> Self {
        let writer = new_writer(&out);
        Self {
            out,
            writer,
            row_kind: RowKind::Updates,
            variables: Vec::new(),
            by_name: HashMap::new(),
            waiting_bytes_max: waiting_bytes_max.min(WAITING_BYTES_MAX),
            waiting_bytes: 0,
            waiting_updates: 0,
            pending: Vec::new(),
            pending_updates: 0,
            pending_bytes: 0,
            is_series: false,
            file_bytes: 0,
            file_updates: 0,
            sync_failure: None,
            unsynced_updates: 0,
            moved_file: None,
            moved_sums_file: None,
            progress: VariableProgress::default(),
        }
    }

    /// Creates a recording that may continue in other files, like [`new`](Self::new).
    pub(super) fn for_series(out: S, waiting_bytes_max: usize) -> Self {
        Self {
            is_series: true,
            ..Self::new(out, waiting_bytes_max)
        }
    }

    pub(super) fn for_elements(self) -> Self {
        Self {
            row_kind: RowKind::Elements,
            ..self
        }
    }

    /// Adds a variable, or returns the existing variable with this name.
    ///
    /// # Errors
    /// [`VariableRecordError::OtherType`]: the variable exists with another type.
    /// [`VariableRecordError::Type`], [`VariableRecordError::TooManyParts`],
    /// [`VariableRecordError::Format`].
    pub fn add(
        &mut self,
        name: &str,
        data_type: &DataType,
    ) -> Result<VariableId, VariableRecordError> {
        let group = ObjectPath::group(name);
        if let Some(id) = self.by_name.get(&group) {
            let existing = self.variables.get(id.0 as usize);
            return match existing.is_some_and(|recorded| recorded.data_type == *data_type) {
                true => Ok(*id),
                false => Err(VariableRecordError::OtherType {
                    name: name.to_owned(),
                }),
            };
        }
        let layout = layout_of(name, data_type)?;
        let recorded = RecordedVariable::new(
            group.clone(),
            data_type.clone(),
            layout,
            self.row_kind,
            &mut self.writer,
        );
        let recorded = recorded.map_err(|source| format_error(&group, source))?;
        // The number of variables fits in a `u32`, because they all fit in one file.
        let id = VariableId(self.variables.len() as u32);
        self.by_name.insert(group, id);
        self.variables.push(recorded);
        self.progress.variables += 1;
        Ok(id)
    }

    /// Sets the unit and the description of a variable; either may be empty. They are written with
    /// the next segment and to every later file.
    pub fn describe(
        &mut self,
        variable: VariableId,
        unit: &str,
        description: &str,
    ) -> Result<(), VariableRecordError> {
        let recorded = self.variables.get_mut(variable.0 as usize);
        let recorded = recorded.ok_or(VariableRecordError::Unknown)?;
        let result = recorded.describe(unit, description, &mut self.writer);
        result.map_err(|source| format_error(&recorded.group, source))
    }

    /// Sets a property of a variable, which is written with the next segment of this file.
    pub fn set_property(
        &mut self,
        variable: VariableId,
        name: &str,
        value: impl Into<PropertyValue>,
    ) -> Result<(), VariableRecordError> {
        let recorded = self.variables.get(variable.0 as usize);
        let recorded = recorded.ok_or(VariableRecordError::Unknown)?;
        let result = self.writer.set(&recorded.group, name, value);
        result.map_err(|source| format_error(&recorded.group, source))
    }

    /// Accepts an update before which `lost` updates are missing.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: the memory for waiting updates is full and the file accepts
    /// no data. The update is lost and counted. [`VariableRecordError::OtherType`],
    /// [`VariableRecordError::TooLong`].
    pub fn take(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
    ) -> Result<(), VariableRecordError> {
        self.record_loss(variable, lost.count())?;
        if let Err(error) = self.check_sample(variable, sample) {
            self.record_loss(variable, Some(1))?;
            return Err(error);
        }
        let bytes = bytes_of(sample);
        if self.is_full(bytes)
            && let Err(error) = self.write_out()
            // The waiting updates may now be a segment, which does not count against the limit.
            && self.is_full(bytes)
        {
            self.record_loss(variable, Some(1))?;
            return Err(error);
        }
        self.push(variable, sample, bytes)
    }

    /// Accepts an update even if the memory for waiting updates is full, so that the update is not
    /// lost. The caller must stop taking updates while the recording
    /// [is at its limit](Self::is_at_limit).
    ///
    /// # Errors
    /// [`VariableRecordError::OtherType`], [`VariableRecordError::TooLong`]: the update is not
    /// accepted.
    pub(super) fn accept_beyond_limit(
        &mut self,
        variable: VariableId,
        sample: &Sample,
    ) -> Result<(), VariableRecordError> {
        self.check_sample(variable, sample)?;
        self.push(variable, sample, bytes_of(sample))
    }

    fn push(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        bytes: usize,
    ) -> Result<(), VariableRecordError> {
        let recorded = self.variables.get_mut(variable.0 as usize);
        recorded
            .ok_or(VariableRecordError::Unknown)?
            .push(sample, self.is_series);
        self.waiting_bytes += bytes;
        self.waiting_updates += 1;
        self.progress.updates += 1;
        Ok(())
    }

    /// Returns true if the waiting updates have reached the memory limit.
    pub(super) fn is_at_limit(&self) -> bool {
        self.waiting_bytes >= self.waiting_bytes_max && self.waiting_bytes > 0
    }

    /// Accepts the value that a variable had when its recording began. The value may be old, so
    /// playback does not wait between it and the next update if it is the first update.
    pub fn take_initial(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
    ) -> Result<(), VariableRecordError> {
        let recorded = self.variables.get(variable.0 as usize);
        let is_first = recorded.is_some_and(|recorded| recorded.rows() == 0);
        self.take(variable, sample, lost)?;
        if let Some(recorded) = self
            .variables
            .get_mut(variable.0 as usize)
            .filter(|_| is_first)
        {
            recorded.is_initial = true;
            let result = self.writer.set(&recorded.group, INITIAL, 1_u64);
            result.map_err(|source| format_error(&recorded.group, source))?;
        }
        Ok(())
    }

    /// Returns true if `bytes` more bytes of updates would exceed the memory limit.
    fn is_full(&self, bytes: usize) -> bool {
        self.waiting_bytes > 0 && self.waiting_bytes + bytes > self.waiting_bytes_max
    }

    /// Returns true if the waiting updates must be written before this update can be accepted.
    pub(super) fn is_full_for(&self, sample: &Sample) -> bool {
        self.is_full(bytes_of(sample))
    }

    fn check_sample(
        &self,
        variable: VariableId,
        sample: &Sample,
    ) -> Result<(), VariableRecordError> {
        let recorded = self.variables.get(variable.0 as usize);
        let recorded = recorded.ok_or(VariableRecordError::Unknown)?;
        let name = || recorded.group.name().to_string();
        if !sample.value.has_type(&recorded.data_type) {
            return Err(VariableRecordError::OtherType { name: name() });
        }
        // Playback has the same limit, so it can read every recorded value.
        let is_fixed = recorded.data_type.fixed_size().is_some();
        match is_fixed || encoded_len(&sample.value) <= VALUE_BYTES_MAX {
            true => Ok(()),
            false => Err(VariableRecordError::TooLong { name: name() }),
        }
    }

    /// Records that updates of a variable are missing before its next update. `None` means that
    /// their number is unknown.
    pub fn record_loss(
        &mut self,
        variable: VariableId,
        lost: Option<u64>,
    ) -> Result<(), VariableRecordError> {
        let recorded = self.variables.get_mut(variable.0 as usize);
        let recorded = recorded.ok_or(VariableRecordError::Unknown)?;
        self.progress.lost += lost.unwrap_or(0);
        self.progress.unknown_gaps += u64::from(lost.is_none());
        recorded.gaps.add_missing(lost);
        Ok(())
    }

    /// Writes all waiting updates as one segment.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: nothing was written, and the updates remain in memory.
    pub fn write_out(&mut self) -> Result<(), VariableRecordError> {
        self.write_pending()?;
        for recorded in &mut self.variables {
            let gaps = recorded
                .gaps
                .set_properties(&recorded.group, &mut self.writer);
            gaps.map_err(|source| format_error(&recorded.group, source))?;
        }
        let waiting = self
            .variables
            .iter()
            .filter(|recorded| recorded.is_waiting());
        let data: Vec<(ChannelId, Data<'_>)> = waiting.flat_map(RecordedVariable::data).collect();
        let written = self
            .writer
            .write(&data, Arrangement::Contiguous, &mut self.pending);
        written.map_err(|source| format_error(&ObjectPath::group("the recording"), source))?;
        for recorded in &mut self.variables {
            recorded.begin_segment(self.is_series);
        }
        self.pending_updates = std::mem::take(&mut self.waiting_updates);
        self.pending_bytes = match self.is_series {
            true => self.waiting_bytes,
            false => 0,
        };
        self.waiting_bytes = 0;
        self.write_pending()?;
        self.check_file_name()
    }

    /// Checks that the name of the current file still refers to the file.
    fn check_file_name(&mut self) -> Result<(), VariableRecordError> {
        if !self.is_removed() {
            self.moved_file = self.out.moved_file();
            self.moved_sums_file = self.out.moved_sums_file();
        }
        match self.moved_file.as_ref().filter(|found| found.is_removed()) {
            None => Ok(()),
            Some(found) => Err(VariableRecordError::Removed {
                moved_file: Box::new(found.clone()),
                updates: self.file_updates,
            }),
        }
    }

    fn is_removed(&self) -> bool {
        self.moved_file.as_ref().is_some_and(MovedFile::is_removed)
    }

    /// Returns the location of the current file if its name did not refer to it at the last write
    /// or sync. Updates in a file that was removed or replaced count as lost. Writing continues in
    /// a file that was renamed.
    pub fn moved_file(&self) -> Option<&MovedFile> {
        self.moved_file.as_ref()
    }

    /// Returns the number of free bytes in the file system; `None` if it does not report free
    /// space.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        self.out.free_bytes()
    }

    /// Returns the location of the checksum file, like [`moved_file`](Self::moved_file).
    pub fn moved_sums_file(&self) -> Option<&MovedFile> {
        self.moved_sums_file.as_ref()
    }

    fn write_pending(&mut self) -> Result<(), VariableRecordError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.out.append(&self.pending)?;
        self.progress.bytes += self.pending.len() as u64;
        self.file_bytes += self.pending.len() as u64;
        self.pending.clear();
        self.pending_bytes = 0;
        self.variables
            .iter_mut()
            .for_each(RecordedVariable::mark_written);
        self.file_updates += self.pending_updates;
        self.progress.in_file += std::mem::take(&mut self.pending_updates);
        Ok(())
    }

    /// Writes all waiting updates and makes them durable.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]; [`VariableRecordError::Sync`], which every later call returns
    /// too.
    pub fn sync(&mut self) -> Result<(), VariableRecordError> {
        self.write_out()?;
        self.sync_file()
    }

    /// Makes the content of the current file durable.
    pub(super) fn sync_file(&mut self) -> Result<(), VariableRecordError> {
        if self.sync_failure.is_none()
            && let Err(error) = self.out.sync()
        {
            self.sync_failure = Some(os_error(&error));
            self.progress.sync_failure = self.progress.sync_failure.or(self.sync_failure);
        }
        // The system reports a write error only once, so a later successful sync proves nothing.
        if let Some(os_error) = self.sync_failure {
            let on_disk = self.progress.on_disk;
            return Err(VariableRecordError::Sync { os_error, on_disk });
        }
        self.progress.on_disk = self.progress.in_file - self.unsynced_updates;
        self.variables
            .iter_mut()
            .for_each(RecordedVariable::mark_synced);
        self.check_file_name()
    }

    /// Continues in a new file. The new file receives the last value of each variable in the
    /// current file and the updates that the current file did not accept. Updates that may be
    /// missing from the current file become a gap in the new file.
    pub(super) fn continue_in(&mut self, out: S) -> Result<(), VariableRecordError> {
        self.writer = new_writer(&out);
        self.out = out;
        let is_removed = self.is_removed();
        let removed_updates = match is_removed {
            true => self.file_updates,
            false => 0,
        };
        self.progress.on_disk = self.effective_progress().on_disk;
        self.progress.in_file -= removed_updates;
        // Copied updates count again once the new file contains them.
        let mut copied_updates = removed_updates;
        (self.moved_file, self.moved_sums_file) = (None, None);
        (self.file_bytes, self.file_updates) = (0, 0);
        self.sync_failure = None;
        self.pending.clear();
        self.waiting_bytes += std::mem::take(&mut self.pending_bytes);
        self.waiting_updates += std::mem::take(&mut self.pending_updates);
        for recorded in &mut self.variables {
            let missing = recorded.continue_in(&mut self.writer, is_removed);
            let missing = missing.map_err(|source| format_error(&recorded.group, source))?;
            self.progress.unknown_gaps += u64::from(missing.is_none());
            self.progress.lost += missing.unwrap_or(0);
            copied_updates -= missing.unwrap_or(0);
        }
        self.waiting_updates += copied_updates;
        self.unsynced_updates = self.progress.in_file - self.progress.on_disk;
        Ok(())
    }

    /// Returns true if all updates in the current file are durable.
    pub(super) fn is_on_disk(&self) -> bool {
        let are_updates_durable =
            self.progress.in_file - self.progress.on_disk == self.unsynced_updates;
        are_updates_durable && !self.is_removed()
    }

    /// Returns the size of the current file in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the number of updates in the current file that no earlier file contains.
    pub(super) fn file_updates(&self) -> u64 {
        self.file_updates
    }

    /// Returns true if updates or gaps are not in the current file yet.
    pub(super) fn has_something_waiting(&self) -> bool {
        let mut variables = self.variables.iter();
        self.waiting_updates + self.pending_updates > 0
            || variables.any(|recorded| recorded.gaps.has_new_gaps())
    }

    /// Writes all waiting updates and makes them durable, like [`sync`](Self::sync). In addition,
    /// updates missing after a variable's last update become a gap at the end. The content of the
    /// file is synced even if the file does not accept the waiting updates.
    ///
    /// # Errors
    /// The errors of [`sync`](Self::sync), after which the caller may call this again.
    pub fn finish(&mut self) -> Result<(), VariableRecordError> {
        for recorded in &mut self.variables {
            recorded.gaps.record(recorded.rows());
        }
        let written = self.write_out();
        let synced = self.sync_file();
        written.and(synced)
    }

    /// Discards the waiting updates, which then count as lost. Returns their number.
    pub fn discard_waiting(&mut self) -> u64 {
        let updates =
            std::mem::take(&mut self.waiting_updates) + std::mem::take(&mut self.pending_updates);
        self.progress.lost += updates;
        self.pending.clear();
        (self.waiting_bytes, self.pending_bytes) = (0, 0);
        for recorded in &mut self.variables {
            recorded.discard_waiting();
        }
        updates
    }

    pub fn progress(&self) -> VariableProgress {
        VariableProgress {
            waiting_bytes: self.waiting_bytes + self.pending_bytes + self.pending.len(),
            ..self.effective_progress()
        }
    }

    /// Returns the progress, in which the updates of a removed file count as lost.
    fn effective_progress(&self) -> VariableProgress {
        if !self.is_removed() {
            return self.progress;
        }
        let in_file = self.progress.in_file - self.file_updates;
        VariableProgress {
            in_file,
            on_disk: self.progress.on_disk.min(in_file - self.unsynced_updates),
            lost: self.progress.lost + self.file_updates,
            ..self.progress
        }
    }
}

fn bytes_of(sample: &Sample) -> usize {
    columns::byte_len(&sample.value) + UPDATE_BYTES
}

pub(super) fn layout_of(name: &str, data_type: &DataType) -> Result<Layout, VariableRecordError> {
    Layout::of(data_type).map_err(|no_layout| match no_layout {
        NoLayout::TooManyColumns => VariableRecordError::TooManyParts {
            name: name.to_owned(),
            max: COLUMNS_MAX,
        },
        NoLayout::UnknownType => VariableRecordError::Type {
            name: name.to_owned(),
            data_type: data_type.clone(),
        },
    })
}

fn format_error(group: &ObjectPath, source: WriteError) -> VariableRecordError {
    VariableRecordError::Format {
        name: group.name().to_string(),
        source: Box::new(source),
    }
}
