//! Examines an existing recording: its files, its rows, and their interval.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use trunkline_tdms::{
    Channel, Limits, ObjectPath, Properties, RowExtent, TdmsFile, TdmsType, Text,
};

use super::error::{GROUPS_LISTED_MAX, PlaybackError};
use super::missing::MissingPart;
use super::series::numbered_files;
use crate::backend::check_regular;

/// Maximum number of row extents that are kept per file; a file with more is read value by value.
const EXTENTS_MAX: usize = 1 << 20;

/// Maximum number of gaps that are kept per file; more gaps are played as if no rows were missing.
const GAPS_MAX: u64 = 1 << 20;

/// Selects the part of a recording to play.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selection {
    /// Name of the group. `None` selects the only group that has channels.
    pub group: Option<Text>,
    /// Names of the channels, in the order of their values in a row. An empty list selects all
    /// channels with values of a fixed size, except the channel of times, in the order of the file.
    pub channels: Vec<Text>,
    /// Channels that are not played if `channels` is empty.
    pub excluded: Vec<ObjectPath>,
    /// True to play channels that have a scaling as engineering values, in 64-bit floats.
    pub is_scaled: bool,
    /// Name of the channel that contains the time of each row, with the type TimeStamp. With
    /// `None`, the property `wf_increment` gives the interval.
    pub times: Option<Text>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PlayedChannel {
    pub path: ObjectPath,
    /// Type of the channel's values in a row.
    pub data_type: TdmsType,
    /// True if the channel's values are converted to engineering values.
    pub is_scaled: bool,
    /// Offset of the channel's value in the row, in bytes.
    pub offset: usize,
}

/// A place in a recording where rows are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Number of the row after the gap, counted over all files.
    pub row: u64,
    /// Number of rows missing before that row.
    pub lost: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct PlayedFile {
    pub(super) path: PathBuf,
    pub(super) rows: u64,
    /// Positions of the rows in the file, if their layout equals that of the ring; `None` if the
    /// rows are read value by value.
    pub(super) extents: Option<Vec<RowExtent>>,
}

/// The selected part of a recording, which has one file or a series of files.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    pub(super) files: Vec<PlayedFile>,
    pub(super) group: Text,
    channels: Vec<PlayedChannel>,
    row_bytes: usize,
    gaps: Vec<Gap>,
    missing: Vec<MissingPart>,
    /// Number of rows of the series up to the end of the last file examined, including missing rows
    /// and rows before the first file.
    series_rows: u64,
    /// True if the last file examined is complete.
    is_last_complete: bool,
    /// Interval between rows in seconds, if the file contains it.
    increment: Option<f64>,
    pub(super) times: Option<ObjectPath>,
}

impl Recording {
    /// Examines a recording without reading its values. The recording consists of the file
    /// `name.tdms` and, if this file begins a series, of `name_0002.tdms` and so on.
    /// [`missing`](Self::missing) returns the parts that are missing.
    ///
    /// # Errors
    /// [`PlaybackError`], with the file and the cause.
    pub fn open(path: &Path, selection: &Selection) -> Result<Self, PlaybackError> {
        let mut recording = Self::from_first_file(path, selection)?;
        let mut previous_number = 0;
        for (number, file) in numbered_files(path) {
            let missing_files = MissingPart::files_between(path, previous_number, number);
            previous_number = number;
            let are_files_missing = missing_files.is_some();
            recording.missing.extend(missing_files);
            recording.add_file(file, selection, are_files_missing)?;
        }
        Ok(recording)
    }

    /// Reads from the first file the properties that apply to all files.
    fn from_first_file(path: &Path, selection: &Selection) -> Result<Self, PlaybackError> {
        let file = open(path)?;
        let group = group(&file, path, selection)?;
        let channel = |name: &Text| ObjectPath::channel(group.clone(), name.clone());
        let times = selection.times.as_ref().map(channel);
        let mut paths: Vec<ObjectPath> = selection.channels.iter().map(channel).collect();
        if paths.is_empty() {
            let is_in_group =
                |path: &ObjectPath| path.parent() == Some(ObjectPath::Group(group.clone()));
            let candidates = file.channels().filter(|channel| {
                is_in_group(channel.path())
                    && channel.data_type().size().is_some_and(|size| size > 0)
            });
            let candidates = candidates.map(|channel| channel.path().clone());
            let is_selected = |path: &ObjectPath| {
                Some(path) != times.as_ref() && !selection.excluded.contains(path)
            };
            paths = candidates.filter(is_selected).collect();
        }
        let (mut channels, mut row_bytes) = (Vec::new(), 0);
        for channel_path in paths {
            let found = find(&file, path, &channel_path)?;
            let is_scaled = selection.is_scaled && has_scale(&found);
            let data_type = match is_scaled {
                true => TdmsType::F64,
                false => plain_type(&found),
            };
            let size = data_type.size().filter(|size| *size > 0);
            let size = size.ok_or_else(|| PlaybackError::NoSize {
                channel: channel_path.clone(),
                data_type,
            })?;
            channels.push(PlayedChannel {
                path: channel_path,
                data_type,
                is_scaled,
                offset: row_bytes,
            });
            // The size of a value is at most 16 bytes.
            row_bytes += size as usize;
        }
        let Some(first) = channels.first() else {
            return Err(PlaybackError::NoChannel {
                path: path.to_owned(),
                channel: ObjectPath::Group(group),
            });
        };
        let waveform = find(&file, path, &first.path)?.waveform();
        let increment = waveform.map(|waveform| waveform.increment);
        if let Some(times) = &times {
            let data_type = find(&file, path, times)?.data_type();
            if data_type != TdmsType::Time {
                return Err(PlaybackError::FileMismatch {
                    path: path.to_owned(),
                    difference: format!(
                        "{times} has the type {data_type}; times need the type TimeStamp"
                    ),
                });
            }
        }
        Ok(Self {
            files: Vec::new(),
            group,
            increment: increment.filter(|seconds| seconds.is_finite() && *seconds > 0.0),
            channels,
            row_bytes,
            gaps: Vec::new(),
            missing: Vec::new(),
            series_rows: 0,
            is_last_complete: true,
            times,
        })
    }

    fn add_file(
        &mut self,
        path: PathBuf,
        selection: &Selection,
        are_files_missing: bool,
    ) -> Result<(), PlaybackError> {
        let file = open(&path)?;
        if !self.files.is_empty() && file.channels().next().is_none() {
            // The recording ended before the first header of this file was written.
            let why = match file.report().incomplete {
                Some(finding) => finding.to_string(),
                None => "the file is empty".to_owned(),
            };
            self.missing.push(MissingPart::End { path, why });
            self.is_last_complete = false;
            return Ok(());
        }
        let mut rows = u64::MAX;
        for channel in &self.channels {
            let found = find(&file, &path, &channel.path)?;
            let is_scaled = selection.is_scaled && has_scale(&found);
            let data_type = plain_type(&found);
            if is_scaled != channel.is_scaled || !is_scaled && data_type != channel.data_type {
                // A file without values does not contain the type.
                if !found.is_empty() {
                    let difference = format!("{} has the type {data_type}", channel.path);
                    return Err(PlaybackError::FileMismatch { path, difference });
                }
            }
            rows = rows.min(found.len());
        }
        if let Some(times) = &self.times {
            rows = rows.min(find(&file, &path, times)?.len());
        }
        let properties = file.properties(&ObjectPath::Group(self.group.clone()));
        let first_row = self.rows();
        let number = |name: &str| properties?.get(name.as_bytes())?.as_u64();
        self.check_series_row(&path, number("series_row"), are_files_missing)?;
        if let Some(why) = file.report().incomplete {
            let (path, why) = (path.clone(), why.to_string());
            self.missing.push(MissingPart::End { path, why });
        }
        self.is_last_complete = file.report().incomplete.is_none();
        self.series_rows = self.series_rows.saturating_add(rows);
        self.gaps.extend(
            properties
                .into_iter()
                .flat_map(recorded_gaps)
                .map(|gap| Gap {
                    row: first_row.saturating_add(gap.row),
                    ..gap
                }),
        );
        // A gap before the first row of a file may have been recorded after other gaps of the file.
        self.gaps.sort_by_key(|gap| gap.row);
        let is_plain = self.channels.iter().all(|channel| !channel.is_scaled);
        let paths: Vec<_> = self
            .channels
            .iter()
            .map(|channel| channel.path.clone())
            .collect();
        let extents = match is_plain {
            true => file.rows_in_place(&paths, EXTENTS_MAX),
            false => None,
        };
        // If channels differ in length, the shortest channel determines the number of rows.
        self.files.push(PlayedFile {
            path,
            rows,
            extents,
        });
        Ok(())
    }

    /// Compares the property `series_row` of the next file, the number of rows in earlier files,
    /// with the number of rows found in them. Rows that were not found are missing.
    fn check_series_row(
        &mut self,
        path: &Path,
        expected: Option<u64>,
        are_files_missing: bool,
    ) -> Result<(), PlaybackError> {
        let (before, found) = (self.rows(), self.series_rows);
        match expected {
            // The file is not part of a series, or another program wrote it.
            None => {}
            Some(expected) if self.files.is_empty() => self.series_rows = expected,
            Some(expected) if expected == found => {}
            Some(expected) if expected > found && (are_files_missing || !self.is_last_complete) => {
                let (row, lost) = (before, expected - found);
                self.gaps.push(Gap { row, lost });
                let (path, rows) = (path.to_owned(), lost);
                self.missing.push(MissingPart::Rows { path, rows });
                self.series_rows = expected;
            }
            Some(expected) => {
                return Err(PlaybackError::NotContinued {
                    path: path.to_owned(),
                    difference: format!(
                        "it expects {expected} rows in them, but they have {found}"
                    ),
                });
            }
        }
        Ok(())
    }

    /// Returns the channels, in the order of their values in a row.
    pub fn channels(&self) -> &[PlayedChannel] {
        &self.channels
    }

    pub fn group(&self) -> &Text {
        &self.group
    }

    /// Returns the size of a row in bytes, which is also the element size of the ring to play into.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Returns the number of rows in all files.
    pub fn rows(&self) -> u64 {
        let rows = self.files.iter().map(|file| file.rows);
        rows.fold(0, u64::saturating_add)
    }

    /// Returns the paths of the files, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Returns the missing parts of the recording, in the order of the files. Missing rows
    /// are also among the [`gaps`](Self::gaps).
    pub fn missing(&self) -> &[MissingPart] {
        &self.missing
    }

    /// Returns the places where rows are missing.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns the interval between rows in seconds; `None` if the file does not contain it.
    pub fn increment(&self) -> Option<f64> {
        self.increment
    }

    /// Returns the number of rows that are read into the ring without decoding.
    pub fn rows_in_place(&self) -> u64 {
        let in_place = self.files.iter().filter(|file| file.extents.is_some());
        in_place.map(|file| file.rows).sum()
    }
}

/// Opens the intact part of a file. If the recording program was killed, a file may end anywhere.
pub(crate) fn open(path: &Path) -> Result<TdmsFile<File>, PlaybackError> {
    let found = check_regular(path).and_then(|()| File::open(path));
    let file = found.map_err(|source| PlaybackError::File {
        path: path.to_owned(),
        source,
    })?;
    let limits = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    TdmsFile::open_with(file, limits).map_err(|source| PlaybackError::Open {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

pub(super) fn find<'a>(
    file: &'a TdmsFile<File>,
    path: &Path,
    channel: &ObjectPath,
) -> Result<Channel<'a, File>, PlaybackError> {
    file.channel(channel)
        .ok_or_else(|| PlaybackError::NoChannel {
            path: path.to_owned(),
            channel: channel.clone(),
        })
}

fn group(file: &TdmsFile<File>, path: &Path, selection: &Selection) -> Result<Text, PlaybackError> {
    if let Some(group) = &selection.group {
        return Ok(group.clone());
    }
    let channels = file.paths().filter(|path| path.is_channel());
    let names = channels.filter_map(|channel| Some(channel.parent()?.name()));
    let mut names_seen: HashSet<Text> = HashSet::new();
    let mut groups: Vec<Text> = Vec::new();
    for name in names {
        if names_seen.insert(name.clone()) && groups.len() < GROUPS_LISTED_MAX {
            groups.push(name);
        }
    }
    let unlisted = names_seen.len() - groups.len();
    match <[Text; 1]>::try_from(groups) {
        Ok([group]) => Ok(group),
        Err(groups) => Err(PlaybackError::AmbiguousGroup {
            path: path.to_owned(),
            groups,
            unlisted,
        }),
    }
}

/// Returns the type of a channel's values when they are read without scaling.
fn plain_type(channel: &Channel<'_, File>) -> TdmsType {
    match channel.scalers() {
        [scaler] => scaler.data_type,
        _ => channel.data_type().without_unit(),
    }
}

fn has_scale(channel: &Channel<'_, File>) -> bool {
    matches!(channel.scaling(), trunkline_tdms::Scaling::Chain(_))
}

fn recorded_gaps(properties: &Properties) -> impl Iterator<Item = Gap> {
    let number = |name: String| properties.get(name.as_bytes())?.as_u64();
    (1..=GAPS_MAX).map_while(move |gap| {
        Some(Gap {
            row: number(format!("gap_{gap}_row"))?,
            lost: number(format!("gap_{gap}_lost"))?,
        })
    })
}
