//! Reads the rows in the logs of a folder that are not in files yet.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use trunkline_types::Timestamp;
use trunkline_types::history::{HistoryEvent, HistoryEventRow, RowKey, Rows};

use crate::catalogue::{ENGINE_SERIES, STOPPED, Series, SpoolEnd};
use crate::error::Error;
use crate::files::part::Part;
use crate::log::tail::Segment;
use crate::log::{self, LogEnd, Recovered};

/// The content of the logs in a history's folder. An earlier run of the engine left them, or an engine is
/// writing them.
#[derive(Debug, Default)]
pub(crate) struct Unsealed {
    /// The segments whose rows are not in files, oldest first.
    pub(crate) segments: Vec<Segment>,
    /// The series that the logs of these segments define.
    pub(crate) series: Vec<Series>,
    /// The segments whose rows are in files, so that their logs can be removed.
    pub(crate) sealed: Vec<u64>,
    /// The number of the newest log; 0 if there is none.
    pub(crate) newest: u64,
    /// The number of the newest log with a commit; 0 if there is none.
    pub(crate) newest_commit: u64,
    /// The event that the last run was interrupted. `None` if it stopped in an orderly way, or if a file
    /// already has the event.
    pub(crate) interrupted: Option<HistoryEventRow>,
    /// The damaged logs among `segments`.
    pub(crate) damaged: Vec<DamagedLog>,
    /// The ends of logs of the spool that these logs continue.
    pub(crate) spool_ends: Vec<SpoolEnd>,
}

/// A damaged log. Rows are missing from it.
#[derive(Clone, Debug)]
pub(crate) struct DamagedLog {
    pub(crate) segment: u64,
    /// For each damaged section, the time of the last commit before it.
    pub(crate) after: Vec<Option<Timestamp>>,
}

impl DamagedLog {
    /// Describes the damage for users.
    pub(crate) fn sentence(&self) -> String {
        let Self { segment, after } = self;
        let places = after.len();
        format!("log-{segment:010}.tlh is damaged in {places} places, and rows are missing")
    }
}

impl Unsealed {
    /// Reads the logs in the folder of these files. Content after `ends` was never acknowledged and is left
    /// out.
    pub(crate) fn beside(
        folder: &Path,
        parts: &[Arc<Part>],
        ends: &[LogEnd],
        wall: Timestamp,
    ) -> Result<Self, Error> {
        let sealed = parts.iter().map(|part| part.row.segment).max();
        let mut found = Self::read(folder, sealed.unwrap_or(0), ends, wall)?;
        if found.newest <= sealed.unwrap_or(0) {
            found.update_interrupted(parts, wall);
        }
        Ok(found)
    }

    /// Sets `interrupted` from the events in the files. This is necessary if no log is newer than the files:
    /// in a copy made while an engine moved rows to files, or after a command was killed that had moved all
    /// rows.
    fn update_interrupted(&mut self, parts: &[Arc<Part>], wall: Timestamp) {
        // If the files cannot be read, `interrupted` keeps the value from the logs.
        let Ok(Some(last)) = last_event(parts) else {
            return;
        };
        let log_time = self.interrupted.map(|mark| mark.key.time);
        let file_time = parts.iter().map(|part| part.row.last_time).max();
        // A source's clock may be ahead, so limit the time to now.
        let file_time = file_time.map(|time| time.min(wall.as_nanos()));
        let time = log_time.max(file_time).unwrap_or(last.key.time);
        let is_running = last.event == HistoryEvent::Started;
        self.interrupted = is_running.then(|| interruption_at(time, last.key.epoch));
    }

    /// Reads the logs, each up to its end in `ends` if it has one. The rows of segments up to number `sealed`
    /// are in files.
    pub(crate) fn read(
        folder: &Path,
        sealed: u64,
        ends: &[LogEnd],
        wall: Timestamp,
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        for number in log::segments(folder)? {
            let segment_ends = ends.iter().filter(|end| end.segment == number);
            let end = segment_ends.map(|end| end.bytes).min();
            let recovered = log::recover_up_to(&log::path(folder, number), number, end)?;
            found.newest = found.newest.max(number);
            if recovered.last_commit.is_some() {
                // The logs are in ascending order, so the newest log with a commit decides.
                found.interrupted = interruption(&recovered);
                found.newest_commit = number;
            }
            if !recovered.rows.is_empty() {
                // If this log has no rows, its creation may have failed, and recording may have gone on in
                // the log of the spool.
                found.spool_ends.extend(recovered.follows_spool.clone());
            }
            if number <= sealed {
                found.sealed.push(number);
                continue;
            }
            let mut segment = Segment::new(number);
            found.damaged.extend(fill(&mut segment, &recovered, wall));
            found.series.extend(recovered.series);
            found.segments.push(segment);
        }
        Ok(found)
    }

    /// If the last run was interrupted, adds the event as a separate segment.
    pub(crate) fn add_interrupted(&mut self, sealed: u64) {
        if let Some(mark) = self.interrupted.take() {
            let mut rows = Rows::new(None);
            rows.push_event(mark);
            let mut segment = Segment::new(self.newest.max(sealed) + 1);
            let time = Timestamp::from_nanos(mark.key.time);
            segment.add(ENGINE_SERIES, &rows, time);
            self.segments.push(segment);
        }
    }
}

/// Adds the rows of a log to its segment. Returns the damage in the log; `None` if it is intact.
pub(crate) fn fill(
    segment: &mut Segment,
    recovered: &Recovered,
    wall: Timestamp,
) -> Option<DamagedLog> {
    if !recovered.damage.is_empty() {
        let losses = losses(&recovered.damage, recovered.epoch, wall);
        segment.add(ENGINE_SERIES, &losses, wall);
    }
    for (id, rows) in &recovered.rows {
        segment.add(*id, rows, recovered.last_commit.unwrap_or(wall));
    }
    (!recovered.damage.is_empty()).then(|| DamagedLog {
        segment: segment
            .spool_log
            .as_ref()
            .map_or(segment.number, |one| one.log),
        after: recovered.damage.clone(),
    })
}

/// Returns the event that the run that wrote this log was interrupted. Returns `None` if the run stopped in
/// an orderly way.
pub(crate) fn interruption(recovered: &Recovered) -> Option<HistoryEventRow> {
    let last = recovered.last_commit.filter(|_| !recovered.is_stopped)?;
    Some(interruption_at(last.as_nanos(), recovered.epoch))
}

fn interruption_at(time: i64, epoch: u64) -> HistoryEventRow {
    HistoryEventRow {
        key: RowKey {
            time,
            epoch,
            sequence: STOPPED,
        },
        event: HistoryEvent::Interrupted,
    }
}

/// Returns the last event in these files that an engine started, stopped or was interrupted.
fn last_event(parts: &[Arc<Part>]) -> Result<Option<HistoryEventRow>, Error> {
    let mut parts: Vec<&Arc<Part>> = parts.iter().collect();
    parts.sort_by_key(|part| Reverse(part.row.last_time));
    let mut last: Option<HistoryEventRow> = None;
    for part in parts {
        if last.is_some_and(|last| last.key.time > part.row.last_time) {
            break;
        }
        let marks = part.engine_marks()?;
        let part_events = marks.iter().copied().filter(|mark| {
            use HistoryEvent::{Interrupted, Started, Stopped};
            matches!(mark.event, Started | Stopped | Interrupted)
        });
        last = part_events.chain(last).max_by_key(|mark| mark.key);
    }
    Ok(last)
}

/// Returns the series in `logged` that are not in `known`.
///
/// # Errors
/// A series has a different name or data type in `known`.
pub(crate) fn unknown(logged: &[Series], known: &[Series]) -> Result<Vec<Series>, Error> {
    let mut new: Vec<Series> = Vec::new();
    let mut by_id: HashMap<u32, &Series> = known.iter().map(|one| (one.id, one)).collect();
    for one in logged {
        match by_id.get(&one.id) {
            Some(known) if known.name == one.name && known.data_type == one.data_type => {}
            Some(known) => {
                return Err(Error::damaged(format!(
                    "series {} has the variable {} in its catalogue, but {} in the log",
                    one.id, known.name, one.name
                )));
            }
            None => {
                by_id.insert(one.id, one);
                new.push(one.clone());
            }
        }
    }
    Ok(new)
}

/// Returns an event for each damaged section of a log, at the time of the last commit before it.
fn losses(damage: &[Option<Timestamp>], epoch: u64, wall: Timestamp) -> Rows {
    let mut rows = Rows::new(None);
    for before in damage {
        rows.push_event(HistoryEventRow {
            key: RowKey {
                time: before.unwrap_or(wall).as_nanos(),
                epoch,
                sequence: STOPPED,
            },
            event: HistoryEvent::Lost(None),
        });
    }
    rows
}
