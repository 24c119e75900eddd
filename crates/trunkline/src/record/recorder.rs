//! Variables into a recording.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_client::SubscribeOptions;
use trunkline_net::Clock;
use trunkline_record::{
    Displaced, Room, Rotation, SegmentFile, VariableProgress, VariableSeries, series_file,
};
use trunkline_types::{Contract, Pattern};

use super::descriptions::Descriptions;
use super::recorder_thread::Running;
use super::unmatched::Unmatched;
use super::{RecordingError, Stopper, stopper};
use crate::client::{Client, PatternSet};

/// How variables are recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VariableRecorderOptions {
    /// What is recorded of each variable, and how much may wait. Unless set, every update.
    pub contract: Contract,
    /// How often what waits is written. Unless set, 1 s. That much is lost when the program is
    /// killed.
    pub write_every: Duration,
    /// How often the file is made safe from a loss of power. Unless set, 10 s.
    pub sync_every: Duration,
    /// Bytes that wait to be written, and as many again while the disk takes nothing. Unless set,
    /// 4 MiB.
    pub waiting_bytes_max: usize,
    /// Whether checksums are written beside the file, in `x.tdms.sums`. Unless set, they are not.
    pub has_sums: bool,
    /// When it goes on in another file of a series, which it then does too when one has failed:
    /// `x.tdms`, `x_0002.tdms` and so on. Unless set, there is one file, whatever becomes of it.
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

/// How a recorder is.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct VariableRecorderStatus {
    /// How far the recording is, in all its files.
    pub progress: VariableProgress,
    /// How many files it has.
    pub files: u32,
    /// The connection to the engine is up.
    pub is_connected: bool,
    /// The first reading of every variable that was there when the recording began has arrived: it
    /// gets every later update of them. Stays true once it is.
    pub is_following: bool,
    /// Where the file that is written is, if its name no longer leads to it. Updates in a file
    /// that was removed or replaced count as lost.
    pub displaced: Option<Displaced>,
    /// The same of its checksums, without which it is written all the same.
    pub sums_displaced: Option<Displaced>,
    /// Room on the disk.
    pub room: Room,
    /// What is wrong with the file now.
    pub trouble: Option<String>,
    /// Patterns, and names without wildcards, that have matched nothing so far, since the engine
    /// has told what there is. What appears later is recorded.
    pub unmatched: Vec<String>,
    /// Variables that are not recorded, and why.
    pub refused: Vec<(String, String)>,
    /// How many those are.
    pub refused_count: u64,
}

/// Records the updates of variables into a TDMS file, in a thread. Dropping it ends the recording
/// as [`stop`](Self::stop) does.
///
/// It is driven by events: what does not change costs nothing. Memory is bounded by the contract on
/// one side and [`waiting_bytes_max`](VariableRecorderOptions::waiting_bytes_max) on the other;
/// what is lost on either is in the file as a gap, and counted.
#[derive(Debug)]
pub struct VariableRecorder {
    status: Arc<Mutex<VariableRecorderStatus>>,
    stopper: Option<Stopper>,
    thread: Option<JoinHandle<()>>,
}

impl VariableRecorder {
    /// Records what `patterns` match now and later, without what `excluded` do, into the new file
    /// `path`, or the series that begins with it.
    ///
    /// # Errors
    /// [`RecordingError::File`]: it is there already, or the next one of the series, or cannot be
    /// made, or there is no thread to be had. [`RecordingError::Call`].
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
        let subscription =
            client.subscribe_patterns(&set, options.contract, SubscribeOptions::default())?;
        let clock = Clock::new();
        let next = series_file(path, 2);
        if options.rotation.is_some() && next.exists() {
            let text = format!("{} is there already", next.display());
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
            descriptions: Descriptions::new(client.clone()),
            recording,
            first: path.to_owned(),
            clock,
            since: clock.now(),
            items: HashMap::new(),
            unheard: 0,
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

    /// How it is. What is told of the file is as old as its last write.
    #[must_use]
    pub fn status(&self) -> VariableRecorderStatus {
        locked(&self.status).clone()
    }

    /// Records every update that the engine has when this is called, waiting at most 2 s for those
    /// that are on their way, makes the file safe from a loss of power, and ends the recording.
    /// Updates of a `sampled` subscription that are not due yet are not recorded.
    /// [`VariableRecorderStatus::trouble`] says what failed. A file without any variable is
    /// removed.
    #[must_use]
    pub fn stop(mut self) -> VariableRecorderStatus {
        self.end();
        self.status()
    }

    fn end(&mut self) {
        self.stopper = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

impl Drop for VariableRecorder {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes the files of a recording, by their number.
pub(super) type Open = Box<dyn FnMut(u32) -> io::Result<SegmentFile> + Send>;

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
    // Every change of it is one assignment.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
