//! What the logs of a folder have that is in no file yet.

use std::collections::HashMap;
use std::path::Path;

use trunkline_types::Timestamp;
use trunkline_types::history::{HistoryEvent, HistoryMark, RowKey, Rows};

use crate::catalogue::{ENGINE_SERIES, STOPPED, Series};
use crate::error::Error;
use crate::log;
use crate::log::tail::Segment;

/// The logs of a folder, as a run of the engine left them or writes them now.
#[derive(Debug, Default)]
pub(crate) struct Unsealed {
    /// Those whose rows are in no file, oldest first.
    pub(crate) segments: Vec<Segment>,
    /// The series that these define.
    pub(crate) series: Vec<Series>,
    /// Segments whose rows are in files: their logs can be removed.
    pub(crate) sealed: Vec<u64>,
    /// The number of the newest log; 0 if there is none.
    pub(crate) newest: u64,
    /// How the last run ended, if it did not stop in an orderly way.
    pub(crate) interrupted: Option<HistoryMark>,
    /// The logs that are damaged.
    pub(crate) damaged: Vec<DamagedLog>,
}

/// A log from which rows are missing.
#[derive(Clone, Debug)]
pub(crate) struct DamagedLog {
    pub(crate) segment: u64,
    /// The time of the last commit before each damaged stretch.
    pub(crate) after: Vec<Option<Timestamp>>,
}

impl DamagedLog {
    pub(crate) fn sentence(&self) -> String {
        let Self { segment, after } = self;
        let places = after.len();
        format!("log-{segment:010}.tlh is damaged in {places} places, and rows are missing")
    }
}

impl Unsealed {
    /// Reads the logs. Rows up to the segment `sealed` are in files.
    pub(crate) fn read(folder: &Path, sealed: u64, wall: Timestamp) -> Result<Self, Error> {
        let mut found = Self::default();
        for number in log::segments(folder)? {
            let recovered = log::recover(&log::path(folder, number), number)?;
            found.newest = found.newest.max(number);
            let epoch = recovered.last_epoch();
            if let Some(last) = recovered.last_commit {
                // Overwritten by what a newer log says.
                found.interrupted = (!recovered.is_stopped).then_some(HistoryMark {
                    key: RowKey {
                        time: last.as_nanos(),
                        epoch,
                        sequence: STOPPED,
                    },
                    event: HistoryEvent::Interrupted,
                });
            }
            if number <= sealed {
                found.sealed.push(number);
                continue;
            }
            let mut segment = Segment::new(number);
            if !recovered.damage.is_empty() {
                segment.add(ENGINE_SERIES, &losses(&recovered.damage, epoch, wall), wall);
                found.damaged.push(DamagedLog {
                    segment: number,
                    after: recovered.damage,
                });
            }
            for (id, rows) in &recovered.rows {
                segment.add(*id, rows, recovered.last_commit.unwrap_or(wall));
            }
            found.series.extend(recovered.series);
            found.segments.push(segment);
        }
        Ok(found)
    }

    /// Adds how the last run ended, if it did not stop in an orderly way, as a segment of its own.
    pub(crate) fn add_end(&mut self, sealed: u64) {
        if let Some(mark) = self.interrupted.take() {
            let mut rows = Rows::new(None);
            rows.push_mark(mark);
            let mut segment = Segment::new(self.newest.max(sealed) + 1);
            let time = Timestamp::from_nanos(mark.key.time);
            segment.add(ENGINE_SERIES, &rows, time);
            self.segments.push(segment);
        }
    }
}

/// Returns the series of a log that are not known yet.
///
/// # Errors
/// A series is known with another name or type.
pub(crate) fn unknown(of_log: &[Series], known: &[Series]) -> Result<Vec<Series>, Error> {
    let mut new: Vec<Series> = Vec::new();
    let mut by_id: HashMap<u32, &Series> = known.iter().map(|one| (one.id, one)).collect();
    for one in of_log {
        match by_id.get(&one.id) {
            Some(known) if known.name == one.name && known.data_type == one.data_type => {}
            Some(known) => {
                return Err(Error::damaged(format!(
                    "series {} is {} in its catalogue, and {} in the log",
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

/// Events for the stretches of a log that are damaged, each after the last commit before it.
fn losses(damage: &[Option<Timestamp>], epoch: u64, wall: Timestamp) -> Rows {
    let mut rows = Rows::new(None);
    for before in damage {
        rows.push_mark(HistoryMark {
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
