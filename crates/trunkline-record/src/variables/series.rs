//! One recording of variables in several files.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use trunkline_types::{DataType, Lost, Sample};

use super::error::{VariableProgress, VariableRecordError};
use super::file::Segments;
use super::recording::{VariableId, VariableRecording};
use crate::place::Displaced;
use crate::queue::{Room, RoomAlarm, RoomWatch};
use crate::tdms_series::Rotation;

/// A file of a series that takes nothing more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EndedVariables {
    /// Which of the series, counted from 1.
    pub number: u32,
    /// Updates that it has taken.
    pub updates: u64,
    /// Its length.
    pub bytes: u64,
    /// It outlives a loss of power. Otherwise the next file says as a gap that updates may be
    /// missing.
    pub is_on_disk: bool,
}

/// Updates of variables in several files: it goes on in the next one when one is large, old, or has
/// failed.
///
/// Each file stands on its own. It has the types, and as the first update of each variable the last
/// one of the file before, with its time; the group's property `carried_rows` says so, and
/// `series_row` how many updates of the variable the files before have. What a file that has failed
/// did not take is in the next one. What it had taken and not made safe may be missing: in the next
/// one that is a gap of an unknown number.
///
/// It has no clock: the calls say what time it is, on any clock that never goes back. As much again
/// waits in memory as [`VariableRecording`] says, because updates are kept until a file has them,
/// and the last update of each variable.
#[derive(Debug)]
pub struct VariableSeries<S, O> {
    recording: VariableRecording<S>,
    open: O,
    rotation: Option<Rotation>,
    number: u32,
    /// When the first update came into the file.
    since: Duration,
    /// The file takes nothing more, and there is no next one yet.
    is_over: bool,
    ended: VecDeque<EndedVariables>,
    room: RoomWatch,
}

impl<S: Segments, O: FnMut(u32) -> io::Result<S>> VariableSeries<S, O> {
    /// Begins the first file. `open` makes a file by its number, counted from 1; the other
    /// arguments are as for [`VariableRecording::new`]. Without a rotation there is only this file,
    /// whatever becomes of it.
    ///
    /// # Errors
    /// What `open` says.
    pub fn start(
        mut open: O,
        rotation: Option<Rotation>,
        waiting_bytes_max: usize,
        now: Duration,
    ) -> io::Result<Self> {
        let out = open(1)?;
        let recording = match rotation {
            Some(_) => VariableRecording::of_series(out, waiting_bytes_max),
            None => VariableRecording::new(out, waiting_bytes_max),
        };
        Ok(Self {
            recording,
            open,
            rotation,
            number: 1,
            since: now,
            is_over: false,
            ended: VecDeque::new(),
            room: RoomWatch::new(RoomAlarm::default()),
        })
    }

    /// The same for elements of a stream.
    pub(super) fn start_elements(
        open: O,
        rotation: Option<Rotation>,
        waiting_bytes_max: usize,
        now: Duration,
    ) -> io::Result<Self> {
        let series = Self::start(open, rotation, waiting_bytes_max, now)?;
        Ok(Self {
            recording: series.recording.of_elements(),
            ..series
        })
    }

    /// As [`VariableRecording::add`], in this file and all that follow.
    ///
    /// # Errors
    /// As there.
    pub fn add(
        &mut self,
        name: &str,
        data_type: &DataType,
    ) -> Result<VariableId, VariableRecordError> {
        self.recording.add(name, data_type)
    }

    /// As [`VariableRecording::describe`].
    ///
    /// # Errors
    /// As there.
    pub fn describe(
        &mut self,
        variable: VariableId,
        unit: &str,
        description: &str,
    ) -> Result<(), VariableRecordError> {
        self.recording.describe(variable, unit, description)
    }

    /// As [`VariableRecording::take`].
    ///
    /// # Errors
    /// As there.
    pub fn take(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
        now: Duration,
    ) -> Result<(), VariableRecordError> {
        self.make_room_for(sample, now);
        self.recording.take(variable, sample, lost)
    }

    /// As [`VariableRecording::take_initial`], `now` as there.
    ///
    /// # Errors
    /// As there.
    pub fn take_initial(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
        now: Duration,
    ) -> Result<(), VariableRecordError> {
        self.make_room_for(sample, now);
        self.recording.take_initial(variable, sample, lost)
    }

    fn make_room_for(&mut self, sample: &Sample, now: Duration) {
        if self.rotation.is_some() && self.recording.is_full_for(sample) {
            // If it does not succeed, the recording says so where that matters.
            let _ = self.write_out(now);
        }
    }

    /// As [`VariableRecording::keep`].
    pub(super) fn keep(
        &mut self,
        variable: VariableId,
        sample: &Sample,
    ) -> Result<(), VariableRecordError> {
        self.recording.keep(variable, sample)
    }

    /// As [`VariableRecording::is_over_full`].
    pub(super) fn is_over_full(&self) -> bool {
        self.recording.is_over_full()
    }

    /// As [`VariableRecording::note_lost`].
    ///
    /// # Errors
    /// As there.
    pub fn note_lost(
        &mut self,
        variable: VariableId,
        lost: Option<u64>,
    ) -> Result<(), VariableRecordError> {
        self.recording.note_lost(variable, lost)
    }

    /// Writes everything that waits, as one segment, into this file or the next.
    ///
    /// # Errors
    /// As [`VariableRecording::write_out`]; the next file cannot be made. What waits is tried again
    /// with the next call.
    pub fn write_out(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.write(now, VariableRecording::write_out)
    }

    /// The same, and makes it safe from a loss of power.
    ///
    /// # Errors
    /// As [`write_out`](Self::write_out). Where a sync fails, it goes on in the next file, and this
    /// is an error only if it fails there too.
    pub fn sync(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.write(now, VariableRecording::sync)
    }

    /// Ends the recording, as [`VariableRecording::finish`].
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn finish(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.write(now, VariableRecording::finish)
    }

    fn write(
        &mut self,
        now: Duration,
        write: fn(&mut VariableRecording<S>) -> Result<(), VariableRecordError>,
    ) -> Result<(), VariableRecordError> {
        let written = self.write_here_or_next(now, write);
        if self.room.is_due(now) {
            let bytes = self.recording.progress().bytes;
            self.room.look(now, self.recording.room(), bytes);
        }
        self.room.set_full(
            written
                .as_ref()
                .is_err_and(VariableRecordError::is_disk_full),
        );
        written
    }

    fn write_here_or_next(
        &mut self,
        now: Duration,
        write: fn(&mut VariableRecording<S>) -> Result<(), VariableRecordError>,
    ) -> Result<(), VariableRecordError> {
        if self.recording.file_updates() == 0 {
            // It is as old as the first update in it.
            self.since = now;
        }
        if self.is_over || self.is_due(now) {
            return self.write_in_next(now, write);
        }
        match write(&mut self.recording) {
            Err(error) if self.rotation.is_some() && has_failed(&error) => {
                self.write_in_next(now, write)
            }
            done => done,
        }
    }

    /// Goes on in the next file. Where there is none to be had, this one is better than none.
    fn write_in_next(
        &mut self,
        now: Duration,
        write: fn(&mut VariableRecording<S>) -> Result<(), VariableRecordError>,
    ) -> Result<(), VariableRecordError> {
        self.is_over = true;
        // What this one has taken. That it is not safe is a gap of the next one.
        let _ = self.recording.sync_file();
        let gone_on = self.go_on(now);
        let written = write(&mut self.recording);
        gone_on.and(written)
    }

    /// Whether it is time for the next file, and there is something for it.
    fn is_due(&self, now: Duration) -> bool {
        self.rotation.is_some_and(|rotation| {
            let age = now.saturating_sub(self.since);
            let is_over =
                self.recording.file_bytes() >= rotation.bytes_max || age >= rotation.age_max;
            let has_own = self.recording.file_updates() > 0;
            is_over && has_own && self.recording.has_something_waiting()
        })
    }

    fn go_on(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        let out = (self.open)(self.number + 1)?;
        let updates = self.recording.file_updates();
        let bytes = self.recording.file_bytes();
        let is_on_disk = self.recording.is_on_disk();
        self.recording.go_on_in(out)?;
        self.ended.push_back(EndedVariables {
            number: self.number,
            updates,
            bytes,
            is_on_disk,
        });
        self.number += 1;
        self.since = now;
        self.is_over = false;
        Ok(())
    }

    /// The number of the file that is written, counted from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The next file that has ended. Kept until it is asked for.
    pub fn take_ended(&mut self) -> Option<EndedVariables> {
        self.ended.pop_front()
    }

    /// As [`VariableRecording::displaced`], of the file that is written.
    pub fn displaced(&self) -> Option<&Displaced> {
        self.recording.displaced()
    }

    /// As [`VariableRecording::sums_displaced`], of the file that is written.
    pub fn sums_displaced(&self) -> Option<&Displaced> {
        self.recording.sums_displaced()
    }

    /// Room on the disk, as of the last write.
    pub fn room(&self) -> Room {
        self.room.room()
    }

    /// As [`VariableRecording::give_up_waiting`].
    pub fn give_up_waiting(&mut self) -> u64 {
        self.recording.give_up_waiting()
    }

    /// How far it is, in all files.
    pub fn progress(&self) -> VariableProgress {
        self.recording.progress()
    }
}

/// Whether a file takes nothing more. One on a disk that is full does, when there is room.
fn has_failed(error: &VariableRecordError) -> bool {
    match error {
        VariableRecordError::File(_) => !error.is_disk_full(),
        VariableRecordError::Sync { .. }
        | VariableRecordError::Removed { .. }
        | VariableRecordError::Format { .. } => true,
        _ => false,
    }
}
