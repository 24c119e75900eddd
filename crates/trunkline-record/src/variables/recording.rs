//! Updates of variables into a TDMS file.

use std::collections::HashMap;

use trunkline_tdms::{Arrangement, ChannelId, Data, ObjectPath, TdmsTime, WriteError, Writer};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{DataType, Lost, Sample};

use super::INITIAL;
use super::columns;
use super::error::{VariableProgress, VariableRecordError};
use super::file::{Segments, writer_of};
use super::layout::{COLUMNS_MAX, Layout, NoLayout};
use super::recorded::Recorded;
use crate::error::os_error;
use crate::place::Displaced;

/// Bytes of an update beside its value.
const UPDATE_BYTES: usize = size_of::<TdmsTime>() + size_of::<u32>();

/// Most bytes that wait, whatever was asked for: text of one segment has to be shorter than 4 GiB.
const WAITING_BYTES_MAX: usize = 1 << 30;

/// What the rows of a recording are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// Updates of variables. The next file of a series begins with the last one.
    Updates,
    /// Elements of a stream, each of which is in one file.
    Elements,
}

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
/// it is not known how many. Unit and description, where they are [told](Self::describe), are the
/// properties `unit_string` of the channel with the values and `description` of the group.
#[derive(Debug)]
pub struct VariableRecording<S> {
    out: S,
    writer: Writer,
    rows: Rows,
    variables: Vec<Recorded>,
    /// Where each is among those.
    by_name: HashMap<ObjectPath, VariableId>,
    waiting_bytes_max: usize,
    waiting: usize,
    waiting_updates: u64,
    /// A segment that the file has not taken yet, updates in it, and bytes of those as they were.
    pending: Vec<u8>,
    pending_updates: u64,
    pending_bytes: usize,
    /// Whether it goes on in another file, for which updates are kept until this one has them.
    is_series: bool,
    /// Bytes of this file, and updates that no file before has.
    file_bytes: u64,
    file_updates: u64,
    /// Why this file cannot be made safe.
    sync_failure: Option<i32>,
    /// Updates in files before that may not outlive a loss of power.
    unsafe_updates: u64,
    /// Where the files are, if their names no longer lead to them.
    displaced: Option<Displaced>,
    sums_displaced: Option<Displaced>,
    progress: VariableProgress,
}

impl<S: Segments> VariableRecording<S> {
    /// A recording into `out`, of which about `waiting_bytes_max` bytes (1 GiB at most) wait in
    /// memory, and as many again when the file takes nothing.
    pub fn new(out: S, waiting_bytes_max: usize) -> Self {
        let writer = writer_of(&out);
        Self {
            out,
            writer,
            rows: Rows::Updates,
            variables: Vec::new(),
            by_name: HashMap::new(),
            waiting_bytes_max: waiting_bytes_max.min(WAITING_BYTES_MAX),
            waiting: 0,
            waiting_updates: 0,
            pending: Vec::new(),
            pending_updates: 0,
            pending_bytes: 0,
            is_series: false,
            file_bytes: 0,
            file_updates: 0,
            sync_failure: None,
            unsafe_updates: 0,
            displaced: None,
            sums_displaced: None,
            progress: VariableProgress::default(),
        }
    }

    /// The same as the first file of a series.
    pub(super) fn of_series(out: S, waiting_bytes_max: usize) -> Self {
        Self {
            is_series: true,
            ..Self::new(out, waiting_bytes_max)
        }
    }

    /// The same for elements of a stream.
    pub(super) fn of_elements(self) -> Self {
        Self {
            rows: Rows::Elements,
            ..self
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
        let layout = layout_of(name, data_type)?;
        let (of, writer) = (data_type.clone(), &mut self.writer);
        let recorded = Recorded::new(group.clone(), of, layout, self.rows, writer);
        let recorded = recorded.map_err(|source| format_error(&group, source))?;
        // As many as fit into a file.
        let id = VariableId(self.variables.len() as u32);
        self.by_name.insert(group, id);
        self.variables.push(recorded);
        self.progress.variables += 1;
        Ok(id)
    }

    /// Says in which unit a variable's values are, and what it is; either may be empty. They are
    /// written with the next segment, and into every file that follows.
    ///
    /// # Errors
    /// [`VariableRecordError::Unknown`], [`VariableRecordError::Format`].
    pub fn describe(
        &mut self,
        variable: VariableId,
        unit: &str,
        description: &str,
    ) -> Result<(), VariableRecordError> {
        let one = self.variables.get_mut(variable.0 as usize);
        let one = one.ok_or(VariableRecordError::Unknown)?;
        let described = one.describe(unit, description, &mut self.writer);
        described.map_err(|source| format_error(&one.group, source))
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
        let bytes = bytes_of(sample);
        if self.is_full(bytes)
            && let Err(error) = self.write_out()
            // What waited may be a segment by now, which waits beside what comes.
            && self.is_full(bytes)
        {
            self.note_lost(variable, Some(1))?;
            return Err(error);
        }
        self.push(variable, sample, bytes)
    }

    /// Takes an update, however much waits, so that it is not lost: the caller stops taking
    /// while the recording [is over full](Self::is_over_full).
    ///
    /// # Errors
    /// [`VariableRecordError::OtherType`], [`VariableRecordError::TooLong`]: it is not taken.
    pub(super) fn keep(
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
        let one = self.variables.get_mut(variable.0 as usize);
        one.ok_or(VariableRecordError::Unknown)?
            .push(sample, self.is_series);
        self.waiting += bytes;
        self.waiting_updates += 1;
        self.progress.updates += 1;
        Ok(())
    }

    /// Whether as many bytes wait as may.
    pub(super) fn is_over_full(&self) -> bool {
        self.waiting >= self.waiting_bytes_max && self.waiting > 0
    }

    /// Takes the value that a variable had when its recording began, however old it is: where it is
    /// the first, playing does not wait between it and what comes next.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_initial(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
    ) -> Result<(), VariableRecordError> {
        let one = self.variables.get(variable.0 as usize);
        let is_first = one.is_some_and(|one| one.rows() == 0);
        self.take(variable, sample, lost)?;
        if let Some(one) = self
            .variables
            .get_mut(variable.0 as usize)
            .filter(|_| is_first)
        {
            one.is_initial = true;
            let set = self.writer.set(&one.group, INITIAL, 1_u64);
            set.map_err(|source| format_error(&one.group, source))?;
        }
        Ok(())
    }

    /// Whether so many bytes more are too many.
    fn is_full(&self, bytes: usize) -> bool {
        self.waiting > 0 && self.waiting + bytes > self.waiting_bytes_max
    }

    /// Whether what waits has to be written before an update can be taken.
    pub(super) fn is_full_for(&self, sample: &Sample) -> bool {
        self.is_full(bytes_of(sample))
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
        let waiting = self.variables.iter().filter(|one| one.is_waiting());
        let data: Vec<(ChannelId, Data<'_>)> = waiting.flat_map(Recorded::data).collect();
        let written = self
            .writer
            .write(&data, Arrangement::Contiguous, &mut self.pending);
        written.map_err(|source| format_error(&ObjectPath::group("the recording"), source))?;
        for one in &mut self.variables {
            one.put_together(self.is_series);
        }
        self.pending_updates = std::mem::take(&mut self.waiting_updates);
        self.pending_bytes = match self.is_series {
            true => self.waiting,
            false => 0,
        };
        self.waiting = 0;
        self.write_pending()?;
        self.check_place()
    }

    /// Checks whether the name of the file still leads to it.
    fn check_place(&mut self) -> Result<(), VariableRecordError> {
        if !self.is_removed() {
            self.displaced = self.out.displaced();
            self.sums_displaced = self.out.sums_displaced();
        }
        match self.displaced.as_ref().filter(|found| found.is_removed()) {
            None => Ok(()),
            Some(found) => Err(VariableRecordError::Removed {
                displaced: Box::new(found.clone()),
                updates: self.file_updates,
            }),
        }
    }

    fn is_removed(&self) -> bool {
        self.displaced.as_ref().is_some_and(Displaced::is_removed)
    }

    /// Where the file is, if its name no longer led to it when it was written or synced last. The
    /// updates in a file that was removed or replaced count as lost; one that was renamed is still
    /// written.
    pub fn displaced(&self) -> Option<&Displaced> {
        self.displaced.as_ref()
    }

    /// Bytes that the file system has left; none where it does not say.
    pub(super) fn room(&self) -> Option<u64> {
        self.out.room()
    }

    /// The same of the file with the checksums.
    pub fn sums_displaced(&self) -> Option<&Displaced> {
        self.sums_displaced.as_ref()
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
        self.variables.iter_mut().for_each(Recorded::written);
        self.file_updates += self.pending_updates;
        self.progress.in_file += std::mem::take(&mut self.pending_updates);
        Ok(())
    }

    /// Writes everything that waits, and makes it safe from a loss of power.
    ///
    /// # Errors
    /// [`VariableRecordError::File`]; [`VariableRecordError::Sync`], then and ever after.
    pub fn sync(&mut self) -> Result<(), VariableRecordError> {
        self.write_out()?;
        self.sync_file()
    }

    /// Makes safe what the file has.
    pub(super) fn sync_file(&mut self) -> Result<(), VariableRecordError> {
        if self.sync_failure.is_none()
            && let Err(error) = self.out.sync()
        {
            self.sync_failure = Some(os_error(&error));
            self.progress.sync_failure = self.progress.sync_failure.or(self.sync_failure);
        }
        // The system reports an error of writing once: a later sync would prove nothing.
        if let Some(os_error) = self.sync_failure {
            let on_disk = self.progress.on_disk;
            return Err(VariableRecordError::Sync { os_error, on_disk });
        }
        self.progress.on_disk = self.progress.in_file - self.unsafe_updates;
        self.variables.iter_mut().for_each(Recorded::synced);
        self.check_place()
    }

    /// Goes on in a new file, which gets the last value of each variable that this one has, and
    /// what this one has not taken. What of this one may be missing is a gap there.
    ///
    /// # Errors
    /// [`VariableRecordError::Format`].
    pub(super) fn go_on_in(&mut self, out: S) -> Result<(), VariableRecordError> {
        self.writer = writer_of(&out);
        self.out = out;
        let is_removed = self.is_removed();
        let of_removed = match is_removed {
            true => self.file_updates,
            false => 0,
        };
        self.progress.on_disk = self.counted().on_disk;
        self.progress.in_file -= of_removed;
        // Those that are taken over are in the next file when that is written.
        let mut taken_over = of_removed;
        (self.displaced, self.sums_displaced) = (None, None);
        (self.file_bytes, self.file_updates) = (0, 0);
        self.sync_failure = None;
        self.pending.clear();
        self.waiting += std::mem::take(&mut self.pending_bytes);
        self.waiting_updates += std::mem::take(&mut self.pending_updates);
        for one in &mut self.variables {
            let missing = one.go_on(&mut self.writer, is_removed);
            let missing = missing.map_err(|source| format_error(&one.group, source))?;
            self.progress.unknown_gaps += u64::from(missing.is_none());
            self.progress.lost += missing.unwrap_or(0);
            taken_over -= missing.unwrap_or(0);
        }
        self.waiting_updates += taken_over;
        self.unsafe_updates = self.progress.in_file - self.progress.on_disk;
        Ok(())
    }

    /// Whether everything that this file has taken is safe.
    pub(super) fn is_on_disk(&self) -> bool {
        let is_safe = self.progress.in_file - self.progress.on_disk == self.unsafe_updates;
        is_safe && !self.is_removed()
    }

    /// Bytes of this file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Updates that this file has taken, and none before.
    pub(super) fn file_updates(&self) -> u64 {
        self.file_updates
    }

    /// Whether there are updates, or gaps, that this file has not taken.
    pub(super) fn has_something_waiting(&self) -> bool {
        let mut variables = self.variables.iter();
        self.waiting_updates + self.pending_updates > 0
            || variables.any(|one| one.gaps.are_waiting())
    }

    /// As [`sync`](Self::sync), and updates that are missing behind the last one of a variable are
    /// a gap behind it. What the file has is made safe even if it does not take what waits.
    ///
    /// # Errors
    /// As [`sync`](Self::sync); it may be called again.
    pub fn finish(&mut self) -> Result<(), VariableRecordError> {
        for one in &mut self.variables {
            one.gaps.note(one.rows());
        }
        let written = self.write_out();
        let synced = self.sync_file();
        written.and(synced)
    }

    /// Gives up the updates that wait: they are in no file, and count as lost. How many they are.
    pub fn give_up_waiting(&mut self) -> u64 {
        let updates =
            std::mem::take(&mut self.waiting_updates) + std::mem::take(&mut self.pending_updates);
        self.progress.lost += updates;
        self.pending.clear();
        (self.waiting, self.pending_bytes) = (0, 0);
        for one in &mut self.variables {
            one.give_up_waiting();
        }
        updates
    }

    /// How far it is.
    pub fn progress(&self) -> VariableProgress {
        VariableProgress {
            waiting_bytes: self.waiting + self.pending_bytes + self.pending.len(),
            ..self.counted()
        }
    }

    /// What was counted, with the updates of a file that was removed as lost.
    fn counted(&self) -> VariableProgress {
        if !self.is_removed() {
            return self.progress;
        }
        let in_file = self.progress.in_file - self.file_updates;
        VariableProgress {
            in_file,
            on_disk: self.progress.on_disk.min(in_file - self.unsafe_updates),
            lost: self.progress.lost + self.file_updates,
            ..self.progress
        }
    }
}

fn bytes_of(sample: &Sample) -> usize {
    columns::byte_len(&sample.value) + UPDATE_BYTES
}

/// The channels of values of this type.
///
/// # Errors
/// [`VariableRecordError::Type`], [`VariableRecordError::TooManyParts`].
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
