//! Opens one file of a recording for playback and reads its updates.

use std::fs::File;
use std::path::{Path, PathBuf};

use trunkline_tdms::{ObjectPath, TdmsFile};
use trunkline_types::{Quality, Value};

use super::column_reader::{Fault, ReadAhead};
use super::discovery::{PlayableChannels, VariableReader};
use super::playing::PlayedVariable;
use crate::playback::{PlaybackError, count_with_noun, open_recording};

/// Total number of values read ahead over all channels.
const VALUES_AHEAD: u64 = 1 << 16;

/// Total size in bytes of text read ahead over all channels.
const TEXT_BYTES_AHEAD: u64 = 16 << 20;

/// One file of a recording and its playback state.
#[derive(Debug)]
pub(super) struct PlaybackFile {
    pub(super) path: PathBuf,
    file: TdmsFile<File>,
    /// The variables, in the order of the file.
    pub(super) variables: Vec<PlayedVariable>,
    /// The reader of each variable.
    pub(super) readers: Vec<VariableReader>,
    pub(super) skipped: Vec<ObjectPath>,
    ahead: ReadAhead,
}

/// The times at which the updates of a file begin, in nanoseconds since 1970.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct StartTimes {
    /// Time of the first update that is not older than the file.
    pub(super) first_new: Option<i128>,
    /// Time of the last update that is older than the file.
    pub(super) last_old: Option<i128>,
}

impl PlaybackFile {
    pub(super) fn open(path: &Path) -> Result<Self, PlaybackError> {
        let file = open_recording(path)?;
        let found =
            PlayableChannels::of(&file).map_err(|source| PlaybackError::read(path, source))?;
        let columns: usize = found
            .readers
            .iter()
            .map(|reader| reader.columns.len() + 2)
            .sum();
        let columns = columns.max(1) as u64;
        Ok(Self {
            path: path.to_owned(),
            file,
            variables: found.variables,
            readers: found.readers,
            skipped: found.skipped,
            ahead: ReadAhead {
                values: (VALUES_AHEAD / columns).max(16),
                text_bytes: (TEXT_BYTES_AHEAD / columns).max(64),
            },
        })
    }

    /// Describes the incomplete end of the file; `None` if the file is complete.
    pub(super) fn cut_off(&self) -> Option<String> {
        let incomplete = self.file.report().incomplete;
        if let Some(finding) = incomplete {
            return Some(finding.to_string());
        }
        let cut_off = self.variables.iter().map(|variable| variable.cut_off);
        let cut_off = cut_off.fold(0, u64::saturating_add);
        let variables = self
            .variables
            .iter()
            .filter(|variable| variable.cut_off > 0)
            .count();
        (cut_off > 0).then(|| {
            let updates = count_with_noun(cut_off, "incomplete update");
            format!(
                "{updates} of {}",
                count_with_noun(variables as u64, "variable")
            )
        })
    }

    /// Returns the times at which the played updates begin.
    pub(super) fn start_times(&self) -> Result<StartTimes, PlaybackError> {
        let mut start_times = StartTimes::default();
        for reader in &self.readers {
            let older_updates = reader.older_updates;
            let (row, is_newer) = match reader.updates > older_updates {
                true => (older_updates, true),
                false => (older_updates.saturating_sub(1), false),
            };
            if row >= reader.updates {
                continue;
            }
            let time = self.time_of(reader, row)?;
            match is_newer {
                true => start_times.first_new = start_times.first_new.into_iter().chain(time).min(),
                false => start_times.last_old = start_times.last_old.max(time),
            }
        }
        Ok(start_times)
    }

    pub(super) fn time_of(
        &self,
        reader: &VariableReader,
        row: u64,
    ) -> Result<Option<i128>, PlaybackError> {
        match reader.time_of(&self.file, row) {
            Err(Fault::Read(source)) => Err(PlaybackError::Read {
                path: self.path.clone(),
                source,
            }),
            Err(Fault::Invalid(_)) => Ok(None),
            Ok(time) => Ok(time),
        }
    }

    /// Returns the time of the next update of a variable; `None` if the variable has no more
    /// updates.
    pub(super) fn next_time(&mut self, variable: usize) -> Result<Option<i128>, PlaybackError> {
        let Some(reader) = self.readers.get_mut(variable) else {
            return Ok(None);
        };
        if reader.played >= reader.updates {
            return Ok(None);
        }
        match reader.next_time(&self.file, self.ahead) {
            Ok(time) => Ok(Some(time)),
            Err(Fault::Read(source)) => Err(PlaybackError::Read {
                path: self.path.clone(),
                source,
            }),
            // This cannot happen, because there are at least as many times as updates.
            Err(Fault::Invalid(_)) => Ok(None),
        }
    }

    /// Reads the next value of a variable with its quality; `None` if it cannot be read. The flag
    /// is true if an earlier file contains the same update.
    pub(super) fn read(
        &mut self,
        variable: usize,
    ) -> Result<(Option<(Value, Quality)>, bool), PlaybackError> {
        let unknown = || PlaybackError::Damaged {
            path: self.path.clone(),
            variable: variable.to_string(),
            update: 0,
            why: "the file has no variable with this number".to_owned(),
        };
        let reader = self.readers.get_mut(variable);
        let (Some(reader), Some(played)) = (reader, self.variables.get(variable)) else {
            return Err(unknown());
        };
        let was_played = reader.played < reader.skipped_updates;
        let read = reader.read(&self.file, &played.data_type, self.ahead);
        let read = read.map_err(|fault| match fault {
            Fault::Read(source) => PlaybackError::Read {
                path: self.path.clone(),
                source,
            },
            Fault::Invalid(why) => PlaybackError::Damaged {
                path: self.path.clone(),
                variable: played.name.clone(),
                update: reader.played,
                why,
            },
        })?;
        Ok((read, was_played))
    }
}
