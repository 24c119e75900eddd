//! Selects rows by the times in a separate channel, as in recordings of variables.

use std::collections::BTreeSet;

use trunkline_tdms::{Channel, ObjectPath, ReadAt, TdmsFile, TdmsTime, TdmsType, Text, Values};

use super::blocks::unreadable;
use super::columns::{Column, name_of};
use super::opened::escaped;
use crate::Problem;

const TIME: &str = "time";

/// Properties of a group that give the number of initial rows that are older than the file.
const OLDER_ROWS: [&str; 2] = ["initial_rows", "carried_rows"];

const NANOS: f64 = 1e9;

/// Number of times to read at once.
const BLOCK_ROWS: u64 = 1 << 16;

/// The times of the rows of a group.
#[derive(Debug)]
pub(super) struct Times<'a, R> {
    channel: Channel<'a, R>,
    /// Number of initial rows that are older than the file.
    older_rows: u64,
}

/// Why rows cannot be selected by time, and what to do instead.
#[derive(Debug)]
pub(super) struct NoTimes {
    pub(super) reason: String,
    pub(super) remedy: Option<String>,
}

impl<'a, R: ReadAt> Times<'a, R> {
    pub(super) fn of(file: &'a TdmsFile<R>, columns: &[Column<'a, R>]) -> Result<Self, NoTimes> {
        let no_times = |reason: String| NoTimes {
            reason,
            remedy: None,
        };
        let groups = columns
            .iter()
            .filter_map(|column| column.channel.path().parent());
        let groups: BTreeSet<ObjectPath> = groups.collect();
        let times = |group: &ObjectPath| {
            let times = file.channel(&ObjectPath::channel(group.name(), TIME))?;
            (times.data_type() == TdmsType::Time).then_some(times)
        };
        let Some((group, channel)) = groups.iter().find_map(|group| Some((group, times(group)?)))
        else {
            return Err(no_times("the channels do not share a waveform".to_owned()));
        };
        if groups.len() > 1 {
            let group = escaped(&name_of(group));
            return Err(NoTimes {
                reason: "the channels belong to several groups, each with its own times".to_owned(),
                remedy: Some(format!(
                    "choose one with --channel, such as '{group}/*', or give row numbers"
                )),
            });
        }
        let has_elements = |column: &&Column<'_, R>| {
            let path = column.channel.path();
            let count = Text::from(format!("{}.count", path.name()));
            column.channel.len() != channel.len()
                || file
                    .channel(&ObjectPath::channel(group.name(), count))
                    .is_some()
        };
        if let Some(column) = columns.iter().find(has_elements) {
            let name = escaped(&column.name);
            return Err(no_times(format!(
                "{name} does not have one value for each time"
            )));
        }
        let properties = file.properties(group);
        let older_rows = OLDER_ROWS.iter().filter_map(|name| {
            let value = properties?.get(name.as_bytes())?;
            value.as_u64()
        });
        Ok(Self {
            older_rows: older_rows.max().unwrap_or(0),
            channel,
        })
    }

    /// Returns the time `seconds` after the first row that is not older than the file. Without rows,
    /// the time is arbitrary.
    pub(super) fn time_after_first(&self, seconds: f64) -> Result<TdmsTime, Problem> {
        let first = self.older_rows.min(self.channel.len().saturating_sub(1));
        let Some(time) = self.read(first, 1)?.first().copied() else {
            return Ok(TdmsTime::default());
        };
        let Some(first_time) = time.to_timestamp() else {
            let sentence =
                format!("the time of the first row, {time}, is out of range; give row numbers");
            return Err(Problem::usage(sentence));
        };
        let nanos = (seconds * NANOS).round() as i64;
        Ok(first_time.saturating_add_nanos(nanos).into())
    }

    /// Returns the first row that is not before `time`.
    pub(super) fn first_from(&self, time: TdmsTime) -> Result<u64, Problem> {
        let mut first = None;
        self.for_each(|row, row_time| {
            first = (row_time >= time).then_some(row);
            first.is_none()
        })?;
        Ok(first.unwrap_or_else(|| self.channel.len()))
    }

    /// Returns the row after the last row before `time`. Times decrease where a clock was set back.
    pub(super) fn end_before(&self, time: TdmsTime) -> Result<u64, Problem> {
        let mut end = 0;
        self.for_each(|row, row_time| {
            if row_time < time {
                end = row + 1;
            }
            true
        })?;
        Ok(end)
    }

    /// Iterates over the times until `wants_more` returns false.
    fn for_each(&self, mut wants_more: impl FnMut(u64, TdmsTime) -> bool) -> Result<(), Problem> {
        let mut row = 0;
        while row < self.channel.len() {
            let times = self.read(row, BLOCK_ROWS)?;
            if times.is_empty() {
                break;
            }
            for time in times {
                if !wants_more(row, time) {
                    return Ok(());
                }
                row += 1;
            }
        }
        Ok(())
    }

    fn read(&self, from: u64, count: u64) -> Result<Vec<TdmsTime>, Problem> {
        match self.channel.read(from, count) {
            Ok(Values::Time(times)) => Ok(times),
            Ok(_) => Ok(Vec::new()),
            Err(error) => Err(unreadable(&error)),
        }
    }
}
