//! Writes recorded variables to a TDMS file in the form of `record`: a group for each variable, with the
//! channels time, value and quality.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use trunkline::record::{Segments, VariableRecordError, VariableRecording};
use trunkline_types::history::{HistoryEvent, HistoryItem, HistorySeries};

use super::ExportError;
use crate::Problem;
use crate::verbs::tdms::output_file::OutputFile;

/// Approximate number of bytes of updates that are buffered for one segment.
const SEGMENT_BYTES: usize = 8 << 20;

pub(super) struct Recording {
    recording: VariableRecording<SharedFile>,
    out: SharedFile,
    /// Number of events so far, by variable.
    events: BTreeMap<String, u64>,
}

/// The file that the recording appends to.
#[derive(Clone)]
struct SharedFile(Rc<RefCell<OutputFile>>);

impl Segments for SharedFile {
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
        let out = SharedFile(Rc::new(RefCell::new(out)));
        Self {
            recording: VariableRecording::new(out.clone(), SEGMENT_BYTES),
            out,
            events: BTreeMap::new(),
        }
    }

    /// Adds a page of a variable.
    pub(super) fn add(&mut self, series: &HistorySeries) -> Result<(), ExportError> {
        let name = &series.variable;
        let id = self.recording.add(name, &series.data_type);
        let id = id.map_err(|error| match error {
            VariableRecordError::OtherType { .. } => {
                let sentence = format!(
                    "{name} was recorded with several types, but a TDMS file has one type for each \
                     variable; choose a time range with one type, or another format"
                );
                ExportError::Other(Problem::failed("several-types", sentence).into())
            }
            error => failed(error),
        })?;
        let mut events = match self.events.get(name) {
            Some(events) => *events,
            None => {
                let result = self.recording.describe(id, &series.units, "");
                result.map_err(failed)?;
                0
            }
        };
        for item in series.items() {
            match item {
                HistoryItem::Reading(reading) => {
                    let result = self.recording.take(id, &reading.sample, &reading.lost);
                    result.map_err(failed)?;
                }
                // The loss becomes a gap before the next update.
                HistoryItem::Event {
                    event: HistoryEvent::Lost(_),
                    ..
                } => {}
                HistoryItem::Event { when, event } => {
                    events += 1;
                    let name = format!("event_{events}");
                    let result = self.recording.set_property(id, &name, event.name());
                    result.map_err(failed)?;
                    let time = format!("event_{events}_time");
                    let result = self.recording.set_property(id, &time, when);
                    result.map_err(failed)?;
                }
            }
        }
        // The next page may continue this variable.
        if let Some(lost) = series.lost_after_last() {
            self.recording
                .record_loss(id, lost.count())
                .map_err(failed)?;
        }
        self.events.insert(name.clone(), events);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<OutputFile, ExportError> {
        self.recording.finish().map_err(failed)?;
        drop(self.recording);
        let out = Rc::try_unwrap(self.out.0).map(RefCell::into_inner);
        out.map_err(|_| ExportError::Io(io::Error::other("the file is still in use")))
    }
}

fn failed(error: VariableRecordError) -> ExportError {
    match error {
        VariableRecordError::File(error) => ExportError::Io(error),
        error => ExportError::Other(Problem::failed("not-written", error.to_string()).into()),
    }
}
