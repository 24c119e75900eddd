//! Records updates of variables into a TDMS file.

use std::collections::HashMap;

use trunkline_tdms::{
    Arrangement, ChannelId, Data, ObjectPath, PropertyValue, TdmsTime, WriteError, Writer,
};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{DataType, Lost, Sample};

use super::INITIAL;
use super::columns;
use super::error::{VariableProgress, VariableRecordError};
use super::file::{Segments, writer_of};
use super::layout::{COLUMNS_MAX, Layout, NoLayout};
use super::recorded::Recorded;
use crate::error::os_error;
use crate::watched_path::MovedFile;

/// Size of an update without its value, in bytes.
const UPDATE_BYTES: usize = size_of::<TdmsTime>() + size_of::<u32>();

/// Upper limit of `waiting_bytes_max`: the text of one segment must be shorter than 4 GiB.
const WAITING_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowKind {
    /// Updates of variables. Each further file of a series begins with a copy of the last update.
    Updates,
    /// Elements of a stream, each of which is in exactly one file.
    Elements,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VariableId(u32);

/// Records updates of variables, each with its time and quality.
///
/// Each variable is a group of the same name with the channels `time` (of the source), `value` and
/// `quality` (packed, as in memory). Values with parts have several channels, whose names begin
/// with `value`.
///
/// Updates wait in memory until they are [written](Self::write_out), or until they reach
/// `waiting_bytes_max`. While the file accepts no data, twice that amount may wait; further updates
/// are lost and counted. Each write is one segment of complete updates.
///
/// For missing updates, the group gets the properties `gap_N_row` and `gap_N_lost`, with N counted
/// from 1; -1 means that their number is unknown. A unit and a description, if
/// [set](Self::describe), are stored as the properties `unit_string` of the channel of values and
/// `description` of the group.
#[derive(Debug)]
pub struct VariableRecording<S> {
    out: S,
    writer: Writer,
    row_kind: RowKind,
    variables: Vec<Recorded>,
    by_name: HashMap<ObjectPath, VariableId>,
    waiting_bytes_max: usize,
    waiting_bytes: usize,
    waiting_updates: u64,
    /// A segment that is not in the file yet.
    pending: Vec<u8>,
    /// Number of updates in `pending`.
    pending_updates: u64,
    /// Memory that these updates used while waiting, in bytes.
    pending_bytes: usize,
    /// True if the recording may continue in another file. Updates are then kept until this file
    /// contains them.
    is_series: bool,
    /// Size of this file in bytes.
    file_bytes: u64,
    /// Number of updates in this file that no previous file contains.
    file_updates: u64,
    /// The system's error number if syncing this file failed.
    sync_failure: Option<i32>,
    /// Updates in previous files that may not survive a power loss.
    unsynced_updates: u64,
    /// The file's location if its name no longer refers to it.
    moved_file: Option<MovedFile>,
    /// The same for the checksum file.
    moved_sums_file: Option<MovedFile>,
    progress: VariableProgress,
}

impl<S: Segments> VariableRecording<S> {
    /// Creates a recording into `out`. About `waiting_bytes_max` bytes (at most 1 GiB) wait in
    /// memory, and twice that while the file accepts no data.
    pub fn new(out: S, waiting_bytes_max: usize) -> Self {
        let writer = writer_of(&out);
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

    /// Same as [`new`](Self::new), for the first file of a series.
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

    /// Adds a variable, or returns the existing one of this name.
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
        let recorded = Recorded::new(
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
    /// the next segment and into every further file.
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

    /// Sets a property of a variable. It is written with the next segment of this file.
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

    /// Accepts an update that follows `lost` missing updates.
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
        self.note_lost(variable, lost.count())?;
        if let Err(error) = self.check(variable, sample) {
            self.note_lost(variable, Some(1))?;
            return Err(error);
        }
        let bytes = bytes_of(sample);
        if self.is_full(bytes)
            && let Err(error) = self.write_out()
            // The waiting updates may now be a segment, which does not count against the limit.
            && self.is_full(bytes)
        {
            self.note_lost(variable, Some(1))?;
            return Err(error);
        }
        self.push(variable, sample, bytes)
    }

    /// Accepts an update even if the waiting memory is full, so that it is not lost. The caller
    /// must stop taking updates while the recording [is at its limit](Self::is_at_limit).
    ///
    /// # Errors
    /// [`VariableRecordError::OtherType`], [`VariableRecordError::TooLong`]: the update is not
    /// accepted.
    pub(super) fn accept_beyond_limit(
        &mut self,
        variable: VariableId,
        sample: &Sample,
    ) -> Result<(), VariableRecordError> {
        self.check(variable, sample)?;
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

    /// Returns true if the maximum number of bytes is waiting.
    pub(super) fn is_at_limit(&self) -> bool {
        self.waiting_bytes >= self.waiting_bytes_max && self.waiting_bytes > 0
    }

    /// Accepts the value that a variable had when its recording began, which may be old. If it is
    /// the first update, playback does not wait between it and the next one.
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

    /// Returns true if `bytes` more would exceed the limit.
    fn is_full(&self, bytes: usize) -> bool {
        self.waiting_bytes > 0 && self.waiting_bytes + bytes > self.waiting_bytes_max
    }

    /// Returns true if the waiting updates must be written before an update can be accepted.
    pub(super) fn is_full_for(&self, sample: &Sample) -> bool {
        self.is_full(bytes_of(sample))
    }

    fn check(&self, variable: VariableId, sample: &Sample) -> Result<(), VariableRecordError> {
        let recorded = self.variables.get(variable.0 as usize);
        let recorded = recorded.ok_or(VariableRecordError::Unknown)?;
        let name = || recorded.group.name().to_string();
        if !sample.value.has_type(&recorded.data_type) {
            return Err(VariableRecordError::OtherType { name: name() });
        }
        // Playback applies the same limit, so no value of a recording needs more memory.
        let is_fixed = recorded.data_type.fixed_size().is_some();
        match is_fixed || encoded_len(&sample.value) <= VALUE_BYTES_MAX {
            true => Ok(()),
            false => Err(VariableRecordError::TooLong { name: name() }),
        }
    }

    /// Records that updates of a variable are missing before its next one; `None` means an unknown
    /// number.
    pub fn note_lost(
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
            let gaps = recorded.gaps.describe(&recorded.group, &mut self.writer);
            gaps.map_err(|source| format_error(&recorded.group, source))?;
        }
        let waiting = self
            .variables
            .iter()
            .filter(|recorded| recorded.is_waiting());
        let data: Vec<(ChannelId, Data<'_>)> = waiting.flat_map(Recorded::data).collect();
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
        self.check_place()
    }

    /// Checks that the name of the file still refers to it.
    fn check_place(&mut self) -> Result<(), VariableRecordError> {
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

    /// Returns the file's location if its name did not refer to it when it was last written or
    /// synced. Updates in a file that was removed or replaced count as lost; writing continues in a
    /// file that was renamed.
    pub fn moved_file(&self) -> Option<&MovedFile> {
        self.moved_file.as_ref()
    }

    /// Returns the free bytes of the file system; `None` if it does not report them.
    pub(super) fn room(&self) -> Option<u64> {
        self.out.room()
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
        self.variables.iter_mut().for_each(Recorded::mark_written);
        self.file_updates += self.pending_updates;
        self.progress.in_file += std::mem::take(&mut self.pending_updates);
        Ok(())
    }

    /// Writes all waiting updates and makes them durable.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]; [`VariableRecordError::Sync`], which every later call then
    /// returns as well.
    pub fn sync(&mut self) -> Result<(), VariableRecordError> {
        self.write_out()?;
        self.sync_file()
    }

    /// Makes the content of the file durable.
    pub(super) fn sync_file(&mut self) -> Result<(), VariableRecordError> {
        if self.sync_failure.is_none()
            && let Err(error) = self.out.sync()
        {
            self.sync_failure = Some(os_error(&error));
            self.progress.sync_failure = self.progress.sync_failure.or(self.sync_failure);
        }
        // The system reports a write error only once, so a later sync would prove nothing.
        if let Some(os_error) = self.sync_failure {
            let on_disk = self.progress.on_disk;
            return Err(VariableRecordError::Sync { os_error, on_disk });
        }
        self.progress.on_disk = self.progress.in_file - self.unsynced_updates;
        self.variables.iter_mut().for_each(Recorded::mark_synced);
        self.check_place()
    }

    /// Continues in a new file, which receives the last value of each variable in this one and the
    /// updates that this one did not accept. Updates that may be missing in this file become a gap
    /// in the new one.
    pub(super) fn continue_in(&mut self, out: S) -> Result<(), VariableRecordError> {
        self.writer = writer_of(&out);
        self.out = out;
        let is_removed = self.is_removed();
        let removed_updates = match is_removed {
            true => self.file_updates,
            false => 0,
        };
        self.progress.on_disk = self.counted().on_disk;
        self.progress.in_file -= removed_updates;
        // Updates that are copied count again once the next file is written.
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

    /// Returns true if everything in this file is durable.
    pub(super) fn is_on_disk(&self) -> bool {
        let is_safe = self.progress.in_file - self.progress.on_disk == self.unsynced_updates;
        is_safe && !self.is_removed()
    }

    /// Returns the size of this file in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the number of updates in this file that no previous file contains.
    pub(super) fn file_updates(&self) -> u64 {
        self.file_updates
    }

    /// Returns true if there are updates or gaps that are not in this file.
    pub(super) fn has_something_waiting(&self) -> bool {
        let mut variables = self.variables.iter();
        self.waiting_updates + self.pending_updates > 0
            || variables.any(|recorded| recorded.gaps.are_waiting())
    }

    /// Same as [`sync`](Self::sync); in addition, updates missing after the last one of a variable
    /// become a gap at its end. The content of the file is synced even if it does not accept the
    /// waiting updates.
    ///
    /// # Errors
    /// Same as [`sync`](Self::sync); the call may be repeated.
    pub fn finish(&mut self) -> Result<(), VariableRecordError> {
        for recorded in &mut self.variables {
            recorded.gaps.note(recorded.rows());
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
            ..self.counted()
        }
    }

    /// Returns the counters, with the updates of a removed file counted as lost.
    fn counted(&self) -> VariableProgress {
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
