//! A recorder of variables in the process of the Python program.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyFileExistsError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::fs::{FallocateFlags, fallocate};
use trunkline::Client;
use trunkline::record::{
    RecordingError, VariableRecorder, VariableRecorderOptions, VariableRecorderStatus,
};
use trunkline::tdms::{Arrangement, ObjectPath, PropertyValue, Writer, WriterOptions};
use trunkline::types::{Contract, Pattern};

use crate::call::duration;
use crate::errors;
use crate::tdms::property;

/// What a recorder records, and how.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RecorderOptions<'py> {
    path: PathBuf,
    names: Vec<String>,
    excluded: Vec<String>,
    contract: String,
    write_every: f64,
    has_sums: bool,
    properties: Bound<'py, PyDict>,
    preallocate: u64,
}

/// A recorder of variables into a TDMS file.
#[pyclass(frozen)]
pub(crate) struct Recorder {
    path: PathBuf,
    state: Mutex<State>,
    properties: Vec<(String, PropertyValue)>,
    is_preallocated: bool,
    process: u32,
}

enum State {
    Running(VariableRecorder),
    Stopped(Box<VariableRecorderStatus>),
}

impl Recorder {
    pub(crate) fn start(
        py: Python<'_>,
        client: &Client,
        options: RecorderOptions<'_>,
    ) -> PyResult<Self> {
        let path = options.path;
        let patterns = patterns(&options.names)?;
        let excluded = patterns_of_excluded(&options.excluded)?;
        let mut properties = Vec::new();
        for (name, value) in options.properties.iter() {
            properties.push((name.extract()?, property(&value)?));
        }
        let contract: Contract = options
            .contract
            .parse()
            .map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let recorder = VariableRecorderOptions {
            contract,
            write_every: duration(options.write_every).max(Duration::from_millis(1)),
            has_sums: options.has_sums,
            ..VariableRecorderOptions::default()
        };
        let started =
            py.detach(|| VariableRecorder::start(client, &patterns, &excluded, &path, recorder));
        let started = started.map_err(|error| start_error(py, &path, &error))?;
        let recorder = Self {
            state: Mutex::new(State::Running(started)),
            properties,
            is_preallocated: options.preallocate > 0,
            process: process::id(),
            path,
        };
        if options.preallocate > 0 {
            let reserved = py.detach(|| reserve(&recorder.path, options.preallocate));
            if let Err(error) = reserved {
                let _status = recorder.end(py);
                return Err(PyOSError::new_err(format!(
                    "{}: {} bytes cannot be reserved: {error}; choose another disk, or leave out \
                     preallocate",
                    recorder.path.display(),
                    options.preallocate
                )));
            }
        }
        Ok(recorder)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the recording, and writes the properties of the file.
    fn end(&self, py: Python<'_>) -> VariableRecorderStatus {
        py.detach(|| {
            let mut state = self.state();
            let stopped = State::Stopped(Box::default());
            let status = match std::mem::replace(&mut *state, stopped) {
                State::Stopped(status) => *status,
                State::Running(recorder) => {
                    let mut status = recorder.stop();
                    let finished = self.finish(&mut status.progress.bytes);
                    if let (Err(error), None) = (finished, &status.error) {
                        status.error = Some(format!("the properties were not written: {error}"));
                    }
                    status
                }
            };
            *state = State::Stopped(Box::new(status.clone()));
            status
        })
    }

    /// Releases what was reserved, and appends a segment with the properties.
    fn finish(&self, bytes: &mut u64) -> io::Result<()> {
        // A file without any variable was removed.
        if !self.path.exists() || (self.properties.is_empty() && !self.is_preallocated) {
            return Ok(());
        }
        let mut file = File::options().append(true).open(&self.path)?;
        let position = file.metadata()?.len();
        if self.is_preallocated {
            // Blocks beyond the end are released, and the content stays.
            file.set_len(position)?;
        }
        let mut writer = Writer::new(WriterOptions {
            position,
            ..WriterOptions::default()
        });
        for (name, value) in &self.properties {
            let set = writer.set(&ObjectPath::File, name.as_str(), value.clone());
            set.map_err(io::Error::other)?;
        }
        let mut segment = Vec::new();
        let written = writer.write(&[], Arrangement::Contiguous, &mut segment);
        written.map_err(io::Error::other)?;
        file.write_all(&segment)?;
        file.sync_all()?;
        *bytes += segment.len() as u64;
        Ok(())
    }
}

#[pymethods]
impl Recorder {
    /// The state of the recording.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = py.detach(|| match &*self.state() {
            State::Running(recorder) => recorder.status(),
            State::Stopped(status) => VariableRecorderStatus::clone(status),
        });
        status_of(py, &status)
    }

    /// Ends the recording, and returns its state.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = self.end(py);
        status_of(py, &status)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.process == process::id() {
            let _status = Python::try_attach(|py| self.end(py));
        } else {
            // The thread of the recorder is one of the parent process.
            let stopped = State::Stopped(Box::default());
            std::mem::forget(std::mem::replace(&mut *self.state(), stopped));
        }
    }
}

fn patterns(names: &[String]) -> PyResult<Vec<Pattern>> {
    if names.is_empty() {
        return Err(PyValueError::new_err(
            "there is nothing to record; name variables, or a pattern such as daq/**",
        ));
    }
    patterns_of_excluded(names)
}

fn patterns_of_excluded(names: &[String]) -> PyResult<Vec<Pattern>> {
    let parsed = names.iter().map(|name| Pattern::parse(name));
    parsed
        .collect::<Result<_, _>>()
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn reserve(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::options().append(true).open(path)?;
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes)?;
    Ok(())
}

fn start_error(py: Python<'_>, path: &Path, error: &RecordingError) -> PyErr {
    let name = path.display().to_string();
    match error {
        RecordingError::File(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            PyFileExistsError::new_err(format!("{name} exists already; choose another name"))
        }
        RecordingError::File(error) => PyOSError::new_err(format!("{name}: {error}")),
        RecordingError::Call(error) => errors::of_call(py, error),
        other => errors::new(py, "Error", "recording", &other.to_string(), Some(&name)),
    }
}

fn status_of<'py>(
    py: Python<'py>,
    status: &VariableRecorderStatus,
) -> PyResult<Bound<'py, PyDict>> {
    let progress = &status.progress;
    let named = PyDict::new(py);
    named.set_item("variables", progress.variables)?;
    named.set_item("samples", progress.updates)?;
    named.set_item("in_file", progress.in_file)?;
    named.set_item("on_disk", progress.on_disk)?;
    named.set_item("bytes", progress.bytes)?;
    named.set_item("lost", progress.lost)?;
    named.set_item("unknown_gaps", progress.unknown_gaps)?;
    named.set_item("connected", status.is_connected)?;
    named.set_item("following", status.is_following)?;
    let moved = status.moved_file.as_ref();
    named.set_item("moved", moved.map(ToString::to_string))?;
    named.set_item("free_bytes", status.free_space.bytes)?;
    named.set_item("error", status.error.as_deref())?;
    named.set_item("unmatched", &status.unmatched)?;
    named.set_item("refused", &status.refused)?;
    Ok(named)
}
