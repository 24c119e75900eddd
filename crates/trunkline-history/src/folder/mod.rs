//! Reads a folder without recording into it, even while an engine records.

pub mod backup_files;
pub(crate) mod compact;
pub(crate) mod export;
pub(crate) mod rebuild;
pub(crate) mod spooled;
pub(crate) mod verify;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trunkline_engine::history::HistoryError;
use trunkline_engine::store::StoreErrorKind;
use trunkline_types::history::{HistoryPage, HistoryQuery};
use trunkline_types::{DataType, Timestamp};

use crate::catalogue::snapshot::{ATTEMPTS, Snapshot};
use crate::catalogue::{ENGINE_SERIES, Series};
use crate::error::Error;
use crate::files::files_in;
use crate::files::part::Part;
use crate::files::unsealed::{self, DamagedLog, Unsealed};
use crate::folder::spooled::{KnownLogs, Spooled};
use crate::log::spool;
use crate::log::tail::{Segment, SeriesRows};
use crate::paths::{CATALOGUE, SET_APART};
use crate::query::{self, View};
use crate::{lock_file, log};

/// The folder of a history, opened for reading. Reading does not change the folder, and an engine may record
/// into it at the same time.
///
/// Queries return the rows that were recorded before the folder was opened. If the engine has replaced files
/// since then, the folder is read again.
pub struct HistoryFolder {
    folder: PathBuf,
    content: FolderContent,
}

/// The content of a folder at one moment.
pub(crate) struct FolderContent {
    /// All series, sorted by name and id.
    pub(crate) series: Vec<Series>,
    pub(crate) parts: Arc<Vec<Arc<Part>>>,
    /// The segments whose rows are not in files.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) damaged_logs: Vec<DamagedLog>,
    /// The logs of the spool that the folder knows.
    spool: KnownLogs,
}

/// The reason why a folder cannot be read or changed.
#[derive(Debug)]
pub enum FolderError {
    /// The folder does not exist, or contains no history.
    NoHistory {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder is the spool of a history.
    Spool {
        /// The folder.
        folder: PathBuf,
    },
    /// This user may not access the files in the folder.
    NotPermitted {
        /// The folder.
        folder: PathBuf,
    },
    /// An engine is recording into the folder, or another command is changing it.
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The catalogue is missing or damaged, or the folder cannot be used.
    History(HistoryError),
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHistory { folder } => write!(
                f,
                "there is no history in {}; specify the history folder that `trunkline serve` prints",
                folder.display()
            ),
            Self::Spool { folder } => write!(
                f,
                "{} is the spool of a history; specify the history folder instead, into which the \
                 engine moves these rows",
                folder.display()
            ),
            Self::NotPermitted { folder } => write!(
                f,
                "this user may not access the files in {}; run the command as the user that runs the \
                 engine, or change the permissions of the files",
                folder.display()
            ),
            Self::InUse { folder } => write!(
                f,
                "an engine is recording into {}, or another command is changing it; stop the engine \
                 or wait for the command, then try again",
                folder.display()
            ),
            Self::History(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FolderError {}

impl FolderError {
    /// Returns true if the catalogue is missing or damaged.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::History(HistoryError::Files {
                kind: StoreErrorKind::Damaged(_),
                ..
            })
        )
    }

    pub(crate) fn of(error: Error, folder: &Path) -> Self {
        let folder = folder.to_owned();
        match error {
            Error::InUse => Self::InUse { folder },
            Error::NoHistory => Self::NoHistory { folder },
            Error::IsSpool => Self::Spool { folder },
            Error::Io(error) if error.kind() == ErrorKind::PermissionDenied => {
                Self::NotPermitted { folder }
            }
            error => Self::History(error.of(&folder)),
        }
    }
}

/// A series of a folder: a variable with one type.
#[derive(Clone, PartialEq, Debug)]
pub struct FolderSeries {
    /// Name of the variable.
    pub name: String,
    /// Data type of the values.
    pub data_type: DataType,
    /// Units of the variable when it was first recorded; empty if it had none.
    pub units: String,
    /// Number of updates and events.
    pub rows: u64,
    /// Times of the first and the last update or event; `None` if there are none.
    pub times: Option<(Timestamp, Timestamp)>,
}

/// The totals of a folder.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FolderInfo {
    /// True if an engine is recording into the folder, or a command is changing it.
    pub is_in_use: bool,
    /// Number of series.
    pub series: u64,
    /// Number of updates and events, including events that concern all variables.
    pub rows: u64,
    /// Times of the first and the last update or event; `None` if there are none.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Number of Parquet files of rows.
    pub files: u64,
    /// Total size of the Parquet files of rows in bytes.
    pub file_bytes: u64,
    /// Number of logs whose rows are not in files yet.
    pub logs: u64,
    /// Number of updates and events in these logs.
    pub log_rows: u64,
    /// Total size of these logs in bytes.
    pub log_bytes: u64,
    /// The rows in the spool, which are not included in the other totals; `None` if the history has no spool.
    pub spooled: Option<Spooled>,
    /// Total size of all files in the folder in bytes.
    pub bytes: u64,
    /// Number of Parquet files in the folder `set-apart`, which were not in the catalogue when an engine
    /// started.
    pub set_apart: u64,
}

impl HistoryFolder {
    /// Opens a folder. `wall` is the current time.
    ///
    /// # Errors
    /// Returns a [`FolderError`] if there is no history, or the folder cannot be read.
    pub fn open(folder: impl Into<PathBuf>, wall: Timestamp) -> Result<Self, FolderError> {
        let folder = folder.into();
        match FolderContent::read(&folder, wall) {
            Ok(content) => Ok(Self { folder, content }),
            Err(error) => Err(FolderError::of(error, &folder)),
        }
    }

    /// Answers a query in the same way as an engine. `wall` is the current time.
    ///
    /// # Errors
    /// Returns a [`FolderError`] if the query is invalid, or the folder cannot be read.
    pub fn read(
        &mut self,
        query: &HistoryQuery,
        wall: Timestamp,
    ) -> Result<HistoryPage, FolderError> {
        let page = self.try_read(query, wall);
        page.map_err(|error| FolderError::of(error, &self.folder))
    }

    fn try_read(&mut self, query: &HistoryQuery, wall: Timestamp) -> Result<HistoryPage, Error> {
        for _ in 0..ATTEMPTS {
            let FolderContent {
                series,
                parts,
                segments,
                ..
            } = &self.content;
            let view_of = |id| View::of(parts, segments.iter().map(Arc::as_ref), id);
            let (mut page, _work) = query::read(query, series, &view_of, wall.as_nanos())?;
            if !page.state.is_empty() && self.refresh(wall)? {
                continue;
            }
            let logs = self.content.damaged_logs.iter().map(DamagedLog::sentence);
            let mut sentences: Vec<String> = logs.collect();
            sentences.extend((!page.state.is_empty()).then_some(page.state));
            page.state = sentences.join("; ");
            return Ok(page);
        }
        Err(Error::Changing)
    }

    /// Reads the folder again if an engine has replaced files. Returns false if no file was replaced.
    fn refresh(&mut self, wall: Timestamp) -> Result<bool, Error> {
        let now = Snapshot::read(&self.folder)?;
        let paths: HashSet<&str> = now.parts.iter().map(|row| row.path.as_str()).collect();
        let is_listed = |part: &Arc<Part>| paths.contains(part.row.path.as_str());
        if self.content.parts.iter().all(is_listed) {
            return Ok(false);
        }
        self.content = FolderContent::read(&self.folder, wall)?;
        Ok(true)
    }

    /// Returns the series sorted by name, and a description of unreadable data.
    ///
    /// # Errors
    /// Returns a [`FolderError`] if the folder cannot be read.
    pub fn series(&mut self, wall: Timestamp) -> Result<(Vec<FolderSeries>, String), FolderError> {
        let series = self.try_series(wall);
        series.map_err(|error| FolderError::of(error, &self.folder))
    }

    fn try_series(&mut self, wall: Timestamp) -> Result<(Vec<FolderSeries>, String), Error> {
        for _ in 0..ATTEMPTS {
            let (totals, damage) = self.content.totals();
            if !damage.is_empty() && self.refresh(wall)? {
                continue;
            }
            let recorded = self.content.series.iter();
            let recorded = recorded.filter(|one| one.id != ENGINE_SERIES);
            let series = recorded.map(|one| {
                let (rows, times) = totals.get(&one.id).copied().unwrap_or_default();
                FolderSeries {
                    name: one.name.clone(),
                    data_type: one.data_type.clone(),
                    units: one.units.clone(),
                    rows,
                    times: times.map(timestamps),
                }
            });
            return Ok((series.collect(), damage.join("; ")));
        }
        Err(Error::Changing)
    }

    /// Returns the totals of the folder.
    ///
    /// # Errors
    /// Returns a [`FolderError`] if the folder or its spool cannot be read.
    pub fn info(&self) -> Result<FolderInfo, FolderError> {
        let info = self.try_info();
        info.map_err(|error| FolderError::of(error, &self.folder))
    }

    fn try_info(&self) -> Result<FolderInfo, Error> {
        let FolderContent {
            series,
            parts,
            segments,
            ..
        } = &self.content;
        let file_rows = parts.iter().map(|part| part.row.rows).sum::<u64>();
        let log_rows = segments.iter().map(|one| one.count as u64).sum::<u64>();
        let file_times = parts
            .iter()
            .map(|part| (part.row.first_time, part.row.last_time));
        let log_series = segments.iter().flat_map(|one| one.rows.values());
        let times = file_times.chain(log_series.filter_map(SeriesRows::times));
        let mut info = FolderInfo {
            is_in_use: lock_file::is_held(&self.folder)?,
            series: series.iter().filter(|one| one.id != ENGINE_SERIES).count() as u64,
            rows: file_rows + log_rows,
            times: times.reduce(union).map(timestamps),
            files: parts.len() as u64,
            file_bytes: parts.iter().map(|part| part.row.bytes).sum(),
            log_rows,
            spooled: spooled::read(&self.folder, &self.content.spool, &mut |_, _, _| true)?,
            ..FolderInfo::default()
        };
        for segment in segments {
            // The segment that contains only the event `interrupted` has no log.
            if let Ok(found) = std::fs::metadata(log::path(&self.folder, segment.number)) {
                info.logs += 1;
                info.log_bytes += found.len();
            }
        }
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let found = match entry.metadata() {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    found => found?,
                };
                if found.is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                info.bytes += found.len();
                // Copies of footers are not counted as files that were set apart.
                let is_copy = entry.path().extension().is_some_and(|end| end == "footer");
                let is_set_apart = folder.starts_with(self.folder.join(SET_APART));
                info.set_apart += u64::from(is_set_apart && !is_copy);
            }
        }
        Ok(info)
    }
}

/// For each series id, the number of rows, and the times of the first and the last row.
type Totals = HashMap<u32, (u64, Option<(i64, i64)>)>;

impl FolderContent {
    pub(crate) fn read(folder: &Path, wall: Timestamp) -> Result<Self, Error> {
        let mut before = snapshot_of(folder)?;
        for _ in 0..ATTEMPTS {
            let parts = before.parts.iter();
            let parts = parts.map(|row| Arc::new(Part::new(folder, row.clone())));
            let parts: Vec<Arc<Part>> = parts.collect();
            let unsealed = Unsealed::beside(folder, &parts, &[], wall);
            let after = snapshot_of(folder)?;
            match unsealed {
                // If the files changed, the rows of a log may have moved to files in the meantime.
                Ok(unsealed) if after.parts == before.parts => {
                    return Self::of(folder, after, parts, unsealed);
                }
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            before = after;
        }
        Err(Error::Changing)
    }

    fn of(
        folder: &Path,
        snapshot: Snapshot,
        parts: Vec<Arc<Part>>,
        mut unsealed: Unsealed,
    ) -> Result<Self, Error> {
        let sealed = snapshot.sealed();
        let mut series = snapshot.series;
        series.extend(unsealed::unknown(&unsealed.series, &series)?);
        series.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        // While an engine records, the last run is not interrupted.
        if !lock_file::is_held(folder)? {
            unsealed.add_interrupted(sealed);
        }
        Ok(Self {
            series,
            parts: Arc::new(parts),
            segments: unsealed.segments.into_iter().map(Arc::new).collect(),
            damaged_logs: unsealed.damaged,
            spool: KnownLogs {
                in_files: snapshot.spool_logs,
                ends: [snapshot.spool_ends, unsealed.spool_ends].concat(),
            },
        })
    }

    /// Returns the totals of each series, and a description of unreadable data.
    fn totals(&self) -> (Totals, Vec<String>) {
        let mut damage: Vec<String> = self.damaged_logs.iter().map(DamagedLog::sentence).collect();
        let mut totals = Totals::new();
        let mut add = |id: u32, rows: u64, times: (i64, i64)| {
            let (total, total_times) = totals.entry(id).or_default();
            *total += rows;
            *total_times = Some(total_times.map_or(times, |earlier| union(earlier, times)));
        };
        for part in self.parts.iter() {
            match part.spans() {
                Ok(spans) => spans.into_iter().for_each(|(id, span)| {
                    add(id, span.rows, (span.first_time, span.last_time));
                }),
                Err(error) => damage.push(format!(
                    "{} cannot be read: {}",
                    part.row.path,
                    error.sentence()
                )),
            }
        }
        for (id, rows) in self.segments.iter().flat_map(|segment| &segment.rows) {
            if let Some(times) = rows.times() {
                add(*id, rows.count() as u64, times);
            }
        }
        (totals, damage)
    }
}

/// Reads the catalogue of a folder that should contain a history.
fn snapshot_of(folder: &Path) -> Result<Snapshot, Error> {
    match Snapshot::read(folder) {
        Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => Err(absence(folder)?),
        snapshot => snapshot,
    }
}

/// Determines why a folder has no catalogue.
pub(crate) fn absence(folder: &Path) -> Result<Error, Error> {
    if spool::is_spool(folder) {
        return Ok(Error::IsSpool);
    }
    let has_folder = folder.is_dir() && !folder.join(CATALOGUE).exists();
    let has_files = || -> Result<bool, Error> {
        Ok(!log::segments(folder)?.is_empty() || !files_in(folder)?.is_empty())
    };
    Ok(match has_folder && has_files()? {
        true => Error::damaged("its catalogue.sqlite is missing, but its other files exist"),
        false => Error::NoHistory,
    })
}

/// Returns the smallest range of times that contains both ranges.
fn union(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.min(b.0), a.1.max(b.1))
}

fn timestamps((first, last): (i64, i64)) -> (Timestamp, Timestamp) {
    (Timestamp::from_nanos(first), Timestamp::from_nanos(last))
}

impl fmt::Debug for HistoryFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryFolder")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
