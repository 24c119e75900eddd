//! A file of a recording, opened for playback.

use std::fs::File;
use std::path::{Path, PathBuf};

use trunkline_tdms::{ObjectPath, TdmsFile};
use trunkline_types::{Quality, Value};

use super::column_reader::{Fault, ReadAhead};
use super::discovery::{PlayableChannels, VariableReader};
use super::playing::PlayedVariable;
use crate::playback::{PlaybackError, counted, open_recording};

/// Number of values read ahead, over all channels.
const VALUES_AHEAD: u64 = 1 << 16;

/// Amount of text read ahead, over all channels, in bytes.
const TEXT_BYTES_AHEAD: u64 = 16 << 20;

/// One file and its playback state.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    file: TdmsFile<File>,
    /// The variables in the order of the file.
    pub(super) variables: Vec<PlayedVariable>,
    /// The reader of each variable.
    pub(super) readers: Vec<VariableReader>,
    pub(super) skipped: Vec<ObjectPath>,
    ahead: ReadAhead,
}

/// The times at which the updates of a file begin.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct StartTimes {
    /// The time of the first update that is not older than the file.
    pub(super) own: Option<i128>,
    /// The time of the last update that is older than the file.
    pub(super) before: Option<i128>,
}

impl Opened {
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

    /// Describes the damage if the end of the file was cut off.
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
            let updates = counted(cut_off, "incomplete update");
            format!("{updates} of {}", counted(variables as u64, "variable"))
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
                true => start_times.own = start_times.own.into_iter().chain(time).min(),
                false => start_times.before = start_times.before.max(time),
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

    /// Returns the time of the next update of a variable; `None` if it has no more.
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
            // Cannot happen: there are at least as many times as updates.
            Err(Fault::Invalid(_)) => Ok(None),
        }
    }

    /// Reads the next value of a variable with its quality, or `None` if it cannot be read. The
    /// flag is true if a previous file contains the same update.
    pub(super) fn read(
        &mut self,
        variable: usize,
    ) -> Result<(Option<(Value, Quality)>, bool), PlaybackError> {
        let unknown = || PlaybackError::Damaged {
            path: self.path.clone(),
            variable: variable.to_string(),
            update: 0,
            why: "there is no such variable".to_owned(),
        };
        let reader = self.readers.get_mut(variable);
        let (Some(reader), Some(played)) = (reader, self.variables.get(variable)) else {
            return Err(unknown());
        };
        let was_played = reader.played < reader.skip;
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
