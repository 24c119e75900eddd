//! Plays the updates of a recording in the order of their times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_tdms::ObjectPath;
use trunkline_types::{DataType, Quality, Timestamp, Value};

use super::opened::{PlaybackFile, StartTimes};
use super::series_checker::SeriesChecker;
use crate::playback::{MissingPart, PlaybackError, numbered_files};

#[derive(Clone, PartialEq, Debug)]
pub struct PlayedVariable {
    /// Name of the variable: its group, or its group and channel.
    pub name: String,
    pub data_type: DataType,
    /// Number of updates in all files, without copies from earlier files.
    pub updates: u64,
    /// Number of incomplete updates at the truncated end of a file. They are not played.
    pub cut_off: u64,
    /// Number of updates skipped so far because their text cannot be read.
    pub unreadable: u64,
    /// Number of gaps that the files record: places where updates are missing.
    pub gaps: u64,
    /// Number of updates missing in these gaps, excluding gaps of unknown size.
    pub lost: u64,
    /// Number of gaps with an unknown number of missing updates.
    pub unknown_gaps: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PlayedUpdate {
    /// The variable, as an index into [`RecordedVariables::variables`].
    pub variable: usize,
    /// Time since the first update of the recording, which never decreases. Updates that predate
    /// the recording or their file are played immediately.
    pub after: Duration,
    pub value: Value,
    /// Time at which the value was measured.
    pub source_timestamp: Timestamp,
    /// Quality of the value; good if the recording contains no qualities.
    pub quality: Quality,
}

/// Plays the updates of all variables of a recording, in the order of their times.
///
/// A variable is a group that [`VariableRecording`](super::VariableRecording) wrote, or any channel
/// whose property `wf_increment` gives the times of its values. Up to 65,536 values and 16 MiB of
/// text are read ahead over all channels, and at least 16 values of each channel.
///
/// The files of a series are played one after another, and only one file is open at a time. Updates
/// that a file copied from the previous file are not played again.
#[derive(Debug)]
pub struct RecordedVariables {
    checker: SeriesChecker,
    skipped: Vec<ObjectPath>,
    missing: Vec<MissingPart>,
    current: Current,
    /// Files that have not been opened yet.
    files: VecDeque<SeriesFile>,
    /// The next update of each variable of the current file: the time of the update, the variable's
    /// number in the recording, and the variable's number in the file.
    next_updates: BinaryHeap<Reverse<(i128, usize, usize)>>,
    /// Time of the first update, in nanoseconds since 1970.
    first_time: Option<i128>,
    /// Offset of the last played update from the first one, in nanoseconds.
    last_offset: i128,
    /// Numbers of the variables that are not played further.
    ended: HashSet<usize>,
}

/// The file being played.
#[derive(Debug)]
struct Current {
    file: PlaybackFile,
    /// Number in the recording of each variable of the file.
    numbers: Vec<usize>,
}

#[derive(Debug)]
struct SeriesFile {
    path: PathBuf,
    follows_missing_file: bool,
}

impl RecordedVariables {
    /// Opens a single file, even if it belongs to a series. Channels that cannot be played are
    /// skipped; [`skipped`](Self::skipped) returns them.
    pub fn open(path: &Path) -> Result<Self, PlaybackError> {
        Self::of(vec![(1, path.to_owned())], path)
    }

    /// Opens a recording: the file `path` and, if this file begins a series, `name_0002.tdms` and
    /// so on. [`missing`](Self::missing) returns the parts that are missing.
    ///
    /// # Errors
    /// [`PlaybackError`]. [`PlaybackError::NotContinued`] means that a file has the name of a file
    /// of the series but does not continue the series.
    pub fn open_series(path: &Path) -> Result<Self, PlaybackError> {
        Self::of(numbered_files(path), path)
    }

    fn of(numbered: Vec<(u32, PathBuf)>, first_path: &Path) -> Result<Self, PlaybackError> {
        let mut checker = SeriesChecker::default();
        let (mut skipped, mut skipped_paths) = (Vec::new(), HashSet::new());
        let (mut missing, mut files) = (Vec::new(), VecDeque::new());
        let mut start_times = StartTimes::default();
        let mut first = None;
        let mut previous_number = 0;
        for (number, path) in numbered {
            let missing_files = MissingPart::files_between(first_path, previous_number, number);
            previous_number = number;
            let follows_missing_file = missing_files.is_some();
            missing.extend(missing_files);
            let mut file = PlaybackFile::open(&path)?;
            let continuation = checker.add_file(&mut file, follows_missing_file)?;
            if continuation.missing > 0 {
                missing.push(MissingPart::Updates {
                    path: path.clone(),
                    updates: continuation.missing,
                    variables: continuation.affected_variables,
                });
            }
            if let Some(why) = file.cut_off() {
                let path = path.clone();
                missing.push(MissingPart::End { path, why });
            }
            for ((number, variable), reader) in continuation
                .numbers
                .iter()
                .zip(&file.variables)
                .zip(&file.readers)
            {
                if let Some(total) = checker.variables.get_mut(*number) {
                    let new_updates = variable.updates.saturating_sub(reader.skipped_updates);
                    total.updates = total.updates.saturating_add(new_updates);
                    total.cut_off = total.cut_off.saturating_add(variable.cut_off);
                    total.gaps = total.gaps.saturating_add(variable.gaps);
                    total.lost = total.lost.saturating_add(variable.lost);
                    total.unknown_gaps = total.unknown_gaps.saturating_add(variable.unknown_gaps);
                }
            }
            for channel in &file.skipped {
                if skipped_paths.insert(channel.clone()) {
                    skipped.push(channel.clone());
                }
            }
            if start_times.first_new.is_none() {
                let times = file.start_times()?;
                start_times.first_new = times.first_new;
                start_times.last_old = start_times.last_old.max(times.last_old);
            }
            match first {
                None => first = Some((file, continuation.numbers)),
                Some(_) => files.push_back(SeriesFile {
                    path,
                    follows_missing_file,
                }),
            }
        }
        let (mut file, numbers) = match first {
            Some(first) => first,
            // This cannot happen, because a recording has at least one file.
            None => (PlaybackFile::open(first_path)?, Vec::new()),
        };
        checker.restart();
        checker.add_file(&mut file, false)?;
        let mut recording = Self {
            checker,
            skipped,
            missing,
            current: Current { file, numbers },
            files,
            next_updates: BinaryHeap::new(),
            first_time: start_times.first_new.or(start_times.last_old),
            last_offset: 0,
            ended: HashSet::new(),
        };
        recording.queue_next_of_all()?;
        Ok(recording)
    }

    /// Returns the variables, in the order of the files.
    pub fn variables(&self) -> &[PlayedVariable] {
        &self.checker.variables
    }

    /// Returns the channels that cannot be played. Either their values have no times, no variable
    /// can have their type, or other channels of their variable are missing or have the wrong type.
    pub fn skipped(&self) -> &[ObjectPath] {
        &self.skipped
    }

    /// Returns the parts of the recording that are missing, in the order of the files.
    pub fn missing(&self) -> &[MissingPart] {
        &self.missing
    }

    /// Restricts playback to one variable, which is an index into [`variables`](Self::variables).
    pub fn select_only(&mut self, variable: usize) {
        self.ended = (0..self.checker.variables.len()).collect();
        self.ended.remove(&variable);
        self.next_updates
            .retain(|Reverse((_, number, _))| *number == variable);
    }

    /// Returns the next readable update, or `None` at the end. If a clock was set back, later
    /// updates are played immediately.
    ///
    /// # Errors
    /// [`PlaybackError::Read`]: the file cannot be read. [`PlaybackError::Damaged`]: the data is
    /// not a valid value of its variable. Later updates of that variable are not played, and the
    /// next call continues with the other variables. The errors of
    /// [`open_series`](Self::open_series): the next file of the series can no longer be opened.
    pub fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError> {
        loop {
            let Some(Reverse((time, number, variable))) = self.next_updates.pop() else {
                match self.open_next()? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            let read = self.current.file.read(variable);
            if matches!(read, Err(PlaybackError::Damaged { .. })) {
                self.ended.insert(number);
            }
            let (update, was_played) = read?;
            self.queue_next(variable)?;
            if was_played {
                continue;
            }
            let Some((value, quality)) = update else {
                if let Some(variable) = self.checker.variables.get_mut(number) {
                    variable.unreadable += 1;
                }
                continue;
            };
            let first = *self.first_time.get_or_insert(time);
            self.last_offset = self.last_offset.max(time.saturating_sub(first));
            let after = u64::try_from(self.last_offset).unwrap_or(u64::MAX);
            return Ok(Some(PlayedUpdate {
                variable: number,
                after: Duration::from_nanos(after),
                value,
                source_timestamp: Timestamp::from_nanos(i64::try_from(time).unwrap_or(0)),
                quality,
            }));
        }
    }

    /// Opens the next file. Returns false if there is no other file.
    fn open_next(&mut self) -> Result<bool, PlaybackError> {
        let Some(next) = self.files.pop_front() else {
            return Ok(false);
        };
        let mut file = PlaybackFile::open(&next.path)?;
        let numbers = self
            .checker
            .add_file(&mut file, next.follows_missing_file)?
            .numbers;
        self.current = Current { file, numbers };
        self.queue_next_of_all()?;
        Ok(true)
    }

    /// Queues the next update of each variable of the current file.
    fn queue_next_of_all(&mut self) -> Result<(), PlaybackError> {
        for variable in 0..self.current.numbers.len() {
            self.queue_next(variable)?;
        }
        Ok(())
    }

    /// Queues the next update of a variable by its time.
    fn queue_next(&mut self, variable: usize) -> Result<(), PlaybackError> {
        let number = self.current.numbers.get(variable);
        let number = number.filter(|number| !self.ended.contains(number));
        if let Some(number) = number
            && let Some(time) = self.current.file.next_time(variable)?
        {
            self.next_updates.push(Reverse((time, *number, variable)));
        }
        Ok(())
    }
}
