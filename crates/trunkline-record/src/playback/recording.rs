//! A recording that is there: its files, its rows, and when they were taken.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use trunkline_tdms::{
    Channel, Limits, ObjectPath, Properties, RowExtent, TdmsFile, TdmsType, Text,
};

use super::error::{GROUPS_TOLD, PlaybackError};
use super::missing::MissingPart;
use super::series::numbered_files;
use crate::backend::check_regular;

/// Pieces of a file that are kept; one with more of them is read value by value.
const EXTENTS_MAX: usize = 1 << 20;

/// Gaps of a file that are kept; those beyond are played as if nothing was missing.
const GAPS_MAX: u64 = 1 << 20;

/// What of a recording is played.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selection {
    /// The group. None: the only one that has channels.
    pub group: Option<Text>,
    /// Channels of it, in the order in which their values lie in a row. Empty: all that have values
    /// of a fixed size and are not the channel of times, in the order of the file.
    pub channels: Vec<Text>,
    /// Channels that are not played where `channels` is empty.
    pub left_out: Vec<ObjectPath>,
    /// Engineering values, as 64-bit floats, of channels that have scales.
    pub is_scaled: bool,
    /// The channel that says when each row was taken; it is of type TimeStamp. None: the property
    /// `wf_increment` says it.
    pub times: Option<Text>,
}

/// A channel of a row.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PlayedChannel {
    /// Which.
    pub path: ObjectPath,
    /// What lies in a row.
    pub data_type: TdmsType,
    /// Engineering values are computed.
    pub is_scaled: bool,
    /// Bytes of the row before it.
    pub offset: usize,
}

/// Rows that are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// The row behind the gap, counted through all files.
    pub row: u64,
    /// How many are missing before it.
    pub lost: u64,
}

/// One file of a recording.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PlayedFile {
    pub(super) path: PathBuf,
    pub(super) rows: u64,
    /// Where its rows lie as they are played; none: they are read value by value.
    pub(super) in_place: Option<Vec<RowExtent>>,
}

/// A recording in one file, or in a series of them, as it is to be played.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    pub(super) files: Vec<PlayedFile>,
    pub(super) group: Text,
    channels: Vec<PlayedChannel>,
    row_bytes: usize,
    gaps: Vec<Gap>,
    missing: Vec<MissingPart>,
    /// How many rows the series had, as far as its files were looked at: with those before the
    /// first file, and those that are missing.
    series_rows: u64,
    /// The file that was looked at last has everything that it should.
    is_whole: bool,
    /// Seconds from row to row, where the file says so.
    increment: Option<f64>,
    pub(super) times: Option<ObjectPath>,
}

impl Recording {
    /// Looks at a recording: `name.tdms`, and where a series begins with it, `name_0002.tdms` and
    /// so on. [`missing`](Self::missing) says what is not there. No value is read.
    ///
    /// # Errors
    /// [`PlaybackError`] says which file, and what is wrong with it.
    pub fn open(path: &Path, selection: &Selection) -> Result<Self, PlaybackError> {
        let mut recording = Self::of_first(path, selection)?;
        let mut before = 0;
        for (number, file) in numbered_files(path) {
            let absent = MissingPart::files_between(path, before, number);
            before = number;
            let are_files_missing = absent.is_some();
            recording.missing.extend(absent);
            recording.add(file, selection, are_files_missing)?;
        }
        Ok(recording)
    }

    /// What the first file says for all.
    fn of_first(path: &Path, selection: &Selection) -> Result<Self, PlaybackError> {
        let file = open(path)?;
        let group = group(&file, path, selection)?;
        let channel = |name: &Text| ObjectPath::channel(group.clone(), name.clone());
        let times = selection.times.as_ref().map(channel);
        let mut wanted: Vec<ObjectPath> = selection.channels.iter().map(channel).collect();
        if wanted.is_empty() {
            let of_group =
                |path: &ObjectPath| path.parent() == Some(ObjectPath::Group(group.clone()));
            let all = file.channels().filter(|channel| {
                of_group(channel.path()) && channel.data_type().size().is_some_and(|size| size > 0)
            });
            let all = all.map(|channel| channel.path().clone());
            let is_row = |path: &ObjectPath| {
                Some(path) != times.as_ref() && !selection.left_out.contains(path)
            };
            wanted = all.filter(is_row).collect();
        }
        let (mut channels, mut row_bytes) = (Vec::new(), 0);
        for path_of_channel in wanted {
            let found = find(&file, path, &path_of_channel)?;
            let is_scaled = selection.is_scaled && has_scale(&found);
            let data_type = match is_scaled {
                true => TdmsType::F64,
                false => plain_type(&found),
            };
            let size = data_type.size().filter(|size| *size > 0);
            let size = size.ok_or_else(|| PlaybackError::NoSize {
                channel: path_of_channel.clone(),
                data_type,
            })?;
            channels.push(PlayedChannel {
                path: path_of_channel,
                data_type,
                is_scaled,
                offset: row_bytes,
            });
            // Of a value: 16 at most.
            row_bytes += size as usize;
        }
        let Some(one) = channels.first() else {
            return Err(PlaybackError::NoChannel {
                path: path.to_owned(),
                channel: ObjectPath::Group(group),
            });
        };
        let waveform = find(&file, path, &one.path)?.waveform();
        let increment = waveform.map(|waveform| waveform.increment);
        if let Some(times) = &times {
            let holds = find(&file, path, times)?.data_type();
            if holds != TdmsType::Time {
                return Err(PlaybackError::OtherFile {
                    path: path.to_owned(),
                    what: format!("{times} holds {holds}, and no times"),
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
            is_whole: true,
            times,
        })
    }

    fn add(
        &mut self,
        path: PathBuf,
        selection: &Selection,
        are_files_missing: bool,
    ) -> Result<(), PlaybackError> {
        let file = open(&path)?;
        if !self.files.is_empty() && file.channels().next().is_none() {
            // It ended before its first header was there.
            let why = match file.report().incomplete {
                Some(finding) => finding.to_string(),
                None => "there is nothing in it".to_owned(),
            };
            self.missing.push(MissingPart::End { path, why });
            self.is_whole = false;
            return Ok(());
        }
        let mut rows = u64::MAX;
        for channel in &self.channels {
            let found = find(&file, &path, &channel.path)?;
            let is_scaled = selection.is_scaled && has_scale(&found);
            let holds = plain_type(&found);
            if is_scaled != channel.is_scaled || !is_scaled && holds != channel.data_type {
                // A file that ended before its first value says no type.
                if !found.is_empty() {
                    let what = format!("{} holds {holds}", channel.path);
                    return Err(PlaybackError::OtherFile { path, what });
                }
            }
            rows = rows.min(found.len());
        }
        if let Some(times) = &self.times {
            rows = rows.min(find(&file, &path, times)?.len());
        }
        let properties = file.properties(&ObjectPath::Group(self.group.clone()));
        let before = self.rows();
        let number = |name: &str| properties?.get(name.as_bytes())?.as_u64();
        self.join(&path, number("series_row"), are_files_missing)?;
        if let Some(why) = file.report().incomplete {
            let (path, why) = (path.clone(), why.to_string());
            self.missing.push(MissingPart::End { path, why });
        }
        self.is_whole = file.report().incomplete.is_none();
        self.series_rows = self.series_rows.saturating_add(rows);
        self.gaps
            .extend(properties.into_iter().flat_map(gaps_of).map(|gap| Gap {
                row: before.saturating_add(gap.row),
                ..gap
            }));
        // What is missing before a file may have been found out while it was written.
        self.gaps.sort_by_key(|gap| gap.row);
        let is_plain = self.channels.iter().all(|channel| !channel.is_scaled);
        let paths: Vec<_> = self
            .channels
            .iter()
            .map(|channel| channel.path.clone())
            .collect();
        let in_place = match is_plain {
            true => file.rows_in_place(&paths, EXTENTS_MAX),
            false => None,
        };
        // Where channels differ in length, rows go as far as all of them do.
        self.files.push(PlayedFile {
            path,
            rows,
            in_place,
        });
        Ok(())
    }

    /// The next file says how many rows those before have: what they do not have is missing.
    fn join(
        &mut self,
        path: &Path,
        said: Option<u64>,
        are_files_missing: bool,
    ) -> Result<(), PlaybackError> {
        let (before, had) = (self.rows(), self.series_rows);
        match said {
            // Files that another program has made one behind the other, or that stand alone.
            None => {}
            Some(said) if self.files.is_empty() => self.series_rows = said,
            Some(said) if said == had => {}
            Some(said) if said > had && (are_files_missing || !self.is_whole) => {
                let (row, lost) = (before, said - had);
                self.gaps.push(Gap { row, lost });
                let (path, rows) = (path.to_owned(), lost);
                self.missing.push(MissingPart::Rows { path, rows });
                self.series_rows = said;
            }
            Some(said) => {
                return Err(PlaybackError::OtherSeries {
                    path: path.to_owned(),
                    what: format!("it says that they have {said} rows, and they have {had}"),
                });
            }
        }
        Ok(())
    }

    /// The channels of a row, in their order.
    #[must_use]
    pub fn channels(&self) -> &[PlayedChannel] {
        &self.channels
    }

    /// The group that they are in.
    #[must_use]
    pub fn group(&self) -> &Text {
        &self.group
    }

    /// Bytes of a row: what a ring for it has as elements.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Rows of all files.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let rows = self.files.iter().map(|file| file.rows);
        rows.fold(0, u64::saturating_add)
    }

    /// Its files, in their order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// What the recording has had and is not there, in the order of the files. Missing rows are
    /// among the [`gaps`](Self::gaps) too.
    #[must_use]
    pub fn missing(&self) -> &[MissingPart] {
        &self.missing
    }

    /// Where rows are missing.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Seconds from one row to the next; none where the file does not say.
    #[must_use]
    pub fn increment(&self) -> Option<f64> {
        self.increment
    }

    /// Rows that are played from the file into the ring without being decoded.
    #[must_use]
    pub fn rows_in_place(&self) -> u64 {
        let in_place = self.files.iter().filter(|file| file.in_place.is_some());
        in_place.map(|file| file.rows).sum()
    }
}

/// Opens a file as far as it is sound: recordings end wherever their program did.
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
    let mut seen: HashSet<Text> = HashSet::new();
    let mut groups: Vec<Text> = Vec::new();
    for name in names {
        if seen.insert(name.clone()) && groups.len() < GROUPS_TOLD {
            groups.push(name);
        }
    }
    let further = seen.len() - groups.len();
    match <[Text; 1]>::try_from(groups) {
        Ok([group]) => Ok(group),
        Err(groups) => Err(PlaybackError::WhichGroup {
            path: path.to_owned(),
            groups,
            further,
        }),
    }
}

/// The type of what is read of a channel without its scales.
fn plain_type(channel: &Channel<'_, File>) -> TdmsType {
    match channel.scalers() {
        [one] => one.data_type,
        _ => channel.data_type().without_unit(),
    }
}

fn has_scale(channel: &Channel<'_, File>) -> bool {
    matches!(channel.scaling(), trunkline_tdms::Scaling::Chain(_))
}

/// The gaps that a group's properties tell of.
fn gaps_of(properties: &Properties) -> impl Iterator<Item = Gap> {
    let number = |name: String| properties.get(name.as_bytes())?.as_u64();
    (1..=GAPS_MAX).map_while(move |gap| {
        Some(Gap {
            row: number(format!("gap_{gap}_row"))?,
            lost: number(format!("gap_{gap}_lost"))?,
        })
    })
}
