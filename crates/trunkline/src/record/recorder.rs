//! Records the updates of variables into TDMS files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_client::SubscribeOptions;
use trunkline_net::Clock;
use trunkline_record::{
    FreeSpace, MovedFile, Rotation, SegmentFile, VariableProgress, VariableSeries, series_file,
};
use trunkline_types::{Contract, Pattern};

use super::descriptions::Descriptions;
use super::recorder_thread::Running;
use super::unmatched::Unmatched;
use super::{RecordingError, Stopper, stopper};
use crate::client::{Client, PatternSet};

/// Settings for recording variables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VariableRecorderOptions {
    /// Contract of the subscription. It selects the updates to record and limits the updates that
    /// wait. Every update by default.
    pub contract: Contract,
    /// Interval at which waiting updates are written. If the program is killed, it loses at most
    /// the updates of one interval. 1 s by default.
    pub write_every: Duration,
    /// Interval at which the file is synced to survive a loss of power. 10 s by default.
    pub sync_every: Duration,
    /// Maximum size in bytes of the updates that wait to be written. While the disk accepts
    /// nothing, as much again may wait. 4 MiB by default.
    pub waiting_bytes_max: usize,
    /// Writes checksums next to the file, in `x.tdms.sums`. Off by default.
    pub has_sums: bool,
    /// Condition for continuing in the next file of a series: `x.tdms`, `x_0002.tdms` and so on. A
    /// series also continues in the next file after a failure. By default, there is a single file.
    pub rotation: Option<Rotation>,
}

impl Default for VariableRecorderOptions {
    fn default() -> Self {
        Self {
            contract: Contract::ALL,
            write_every: Duration::from_secs(1),
            sync_every: Duration::from_secs(10),
            waiting_bytes_max: 4 << 20,
            has_sums: false,
            rotation: None,
        }
    }
}

/// The state of a recorder.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct VariableRecorderStatus {
    /// Progress of the recording, summed over all its files.
    pub progress: VariableProgress,
    /// Number of files of the recording.
    pub files: u32,
    /// True while the connection to the engine is up.
    pub is_connected: bool,
    /// True once the first reading of every variable that existed when the recording began has
    /// arrived. After that, no update of these variables is missed. Never becomes false again.
    pub is_following: bool,
    /// Set if the path of the current file no longer leads to the file. Updates in a file that was
    /// removed or replaced count as lost.
    pub moved_file: Option<MovedFile>,
    /// As `moved_file`, for the file of checksums. The recording continues without that file.
    pub moved_sums_file: Option<MovedFile>,
    /// Free space on the disk.
    pub free_space: FreeSpace,
    /// Current failure of the file; `None` if there is none.
    pub error: Option<String>,
    /// Patterns, and names without wildcards, that have matched no variable so far. Empty until the
    /// engine has listed all existing variables. A matching variable that appears later is
    /// recorded.
    pub unmatched: Vec<String>,
    /// Variables that are not recorded, each with the reason. At most 100.
    pub refused: Vec<(String, String)>,
    /// Number of all variables that are not recorded.
    pub refused_count: u64,
}

/// Records the updates of variables into a TDMS file, on a dedicated thread. Dropping the recorder
/// ends the recording as [`stop`](Self::stop) does.
///
/// The recorder is driven by events, so variables that do not change cost nothing. Its memory is
/// limited by the contract and by
/// [`waiting_bytes_max`](VariableRecorderOptions::waiting_bytes_max). Lost updates are counted, and
/// recorded as a gap in the file.
#[derive(Debug)]
pub struct VariableRecorder {
    status: Arc<Mutex<VariableRecorderStatus>>,
    stopper: Option<Stopper>,
    thread: Option<JoinHandle<()>>,
}

impl VariableRecorder {
    /// Starts to record the variables that match `patterns` and do not match `excluded`, including
    /// variables that appear later. The recording is the new file `path`, or a series that begins
    /// with this file.
    ///
    /// # Errors
    /// - [`RecordingError::File`]: the file, or the next file of the series, already exists or
    ///   cannot be created, or the system cannot start another thread.
    /// - [`RecordingError::Call`]: the subscription cannot be created.
    pub fn start(
        client: &Client,
        patterns: &[Pattern],
        excluded: &[Pattern],
        path: &Path,
        options: VariableRecorderOptions,
    ) -> Result<Self, RecordingError> {
        let set = PatternSet {
            names: &[],
            patterns,
            excluded,
        };
        let recorded = SubscribeOptions {
            recorded: true,
            ..SubscribeOptions::default()
        };
        let subscription = client.subscribe_patterns(&set, options.contract, recorded)?;
        let clock = Clock::new();
        let next = series_file(path, 2);
        if options.rotation.is_some() && next.exists() {
            let text = format!("{} already exists", next.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text).into());
        }
        let files = Files {
            first: path.to_owned(),
            has_sums: options.has_sums,
        };
        let open: Open = Box::new(move |number| files.open(number));
        let recording = VariableSeries::start(
            open,
            options.rotation,
            options.waiting_bytes_max,
            Duration::ZERO,
        )?;
        let status = Arc::new(Mutex::new(VariableRecorderStatus {
            files: 1,
            ..VariableRecorderStatus::default()
        }));
        let (stopper, stopped) = stopper();
        let running = Running {
            client: client.clone(),
            subscription,
            descriptions: Descriptions::new(client.clone().into_polled()),
            recording,
            first: path.to_owned(),
            clock,
            since: clock.now(),
            items: HashMap::new(),
            awaiting_first_reading: 0,
            unmatched: Unmatched::new(patterns),
            options,
            status: status.clone(),
        };
        let thread = thread::Builder::new()
            .name("record-variables".to_owned())
            .spawn(move || running.run(&stopped))?;
        Ok(Self {
            status,
            stopper: Some(stopper),
            thread: Some(thread),
        })
    }

    /// Returns the current state. The state of the file is that of the last write.
    #[must_use]
    pub fn status(&self) -> VariableRecorderStatus {
        locked(&self.status).clone()
    }

    /// Ends the recording. Records every update that the engine had at the time of the call, and
    /// waits at most 2 s for updates that have not arrived yet, but not for updates of a `sampled`
    /// subscription. Then writes and syncs everything. A failure of this is in
    /// [`VariableRecorderStatus::error`]. Removes a file without any variable.
    #[must_use]
    pub fn stop(mut self) -> VariableRecorderStatus {
        self.end();
        self.status()
    }

    fn end(&mut self) {
        self.stopper = None;
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}

impl Drop for VariableRecorder {
    fn drop(&mut self) {
        self.end();
    }
}

pub(super) type Open = Box<dyn FnMut(u32) -> io::Result<SegmentFile> + Send>;

/// Opens the files of a recording.
struct Files {
    first: PathBuf,
    has_sums: bool,
}

impl Files {
    fn open(&self, number: u32) -> io::Result<SegmentFile> {
        let path = series_file(&self.first, number);
        match self.has_sums {
            true => SegmentFile::create_summed(&path),
            false => SegmentFile::create(&path),
        }
    }
}

pub(super) fn locked(
    status: &Mutex<VariableRecorderStatus>,
) -> MutexGuard<'_, VariableRecorderStatus> {
    // Each change is a single assignment, so a poisoned lock still protects consistent data.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
