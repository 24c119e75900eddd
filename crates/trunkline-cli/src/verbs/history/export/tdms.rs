//! Writes variables as `record` does: a group with the channels time, value and quality for each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use trunkline::record::{Segments, VariableRecordError, VariableRecording};
use trunkline_types::history::{HistoryEvent, HistoryItem, HistorySeries};

use super::Failed;
use crate::Problem;
use crate::verbs::tdms::output_file::OutputFile;

/// Approximate bytes of updates that are buffered for one segment.
const WAITING_BYTES: usize = 8 << 20;

pub(super) struct Recording {
    recording: VariableRecording<Shared>,
    out: Shared,
    /// Number of events of each variable.
    events: BTreeMap<String, u64>,
}

/// The file that the recording appends to.
#[derive(Clone)]
struct Shared(Rc<RefCell<OutputFile>>);

impl Segments for Shared {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        // The file is synced before it gets its name.
        self.0.borrow_mut().flush()
    }
}

impl Recording {
    pub(super) fn new(out: OutputFile) -> Self {
        let out = Shared(Rc::new(RefCell::new(out)));
        Self {
            recording: VariableRecording::new(out.clone(), WAITING_BYTES),
            out,
            events: BTreeMap::new(),
        }
    }

    /// Adds a page of a variable.
    pub(super) fn add(&mut self, series: &HistorySeries) -> Result<(), Failed> {
        let name = &series.variable;
        let id = self.recording.add(name, &series.data_type);
        let id = id.map_err(|error| match error {
            VariableRecordError::OtherType { .. } => {
                let sentence = format!(
                    "{name} was recorded with several types, and a TDMS file has one for each \
                     variable; choose a time with one type, or another format"
                );
                Failed::Other(Problem::failed("several-types", sentence).into())
            }
            error => failed(error),
        })?;
        let mut events = match self.events.get(name) {
            Some(events) => *events,
            None => {
                let described = self.recording.describe(id, &series.units, "");
                described.map_err(failed)?;
                0
            }
        };
        for item in series.items() {
            match item {
                HistoryItem::Reading(reading) => {
                    let taken = self.recording.take(id, &reading.sample, &reading.lost);
                    taken.map_err(failed)?;
                }
                // It becomes a gap before the next update.
                HistoryItem::Event {
                    event: HistoryEvent::Lost(_),
                    ..
                } => {}
                HistoryItem::Event { when, event } => {
                    events += 1;
                    let name = format!("event_{events}");
                    let set = self.recording.set_property(id, &name, event.name());
                    set.map_err(failed)?;
                    let time = format!("event_{events}_time");
                    let set = self.recording.set_property(id, &time, when);
                    set.map_err(failed)?;
                }
            }
        }
        // The rest of the variable may be on the next page.
        if let Some(lost) = series.lost_after_last() {
            self.recording.note_lost(id, lost.count()).map_err(failed)?;
        }
        self.events.insert(name.clone(), events);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<OutputFile, Failed> {
        self.recording.finish().map_err(failed)?;
        drop(self.recording);
        let out = Rc::try_unwrap(self.out.0).map(RefCell::into_inner);
        out.map_err(|_| Failed::Io(io::Error::other("the file is still in use")))
    }
}

fn failed(error: VariableRecordError) -> Failed {
    match error {
        VariableRecordError::File(error) => Failed::Io(error),
        error => Failed::Other(Problem::failed("not-written", error.to_string()).into()),
    }
}
