//! Variables into a recording.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_client::{Event, FollowEvent, SubscribeOptions};
use trunkline_net::Clock;
use trunkline_record::{
    Rotation, SegmentFile, VariableId, VariableProgress, VariableSeries, series_file, sums_path,
};
use trunkline_types::{Contract, Lost, Pattern, Tick};

use super::{RecordingError, Stopped, Stopper, stopper};
use crate::client::{Client, PatternSet, PatternSubscription};

/// How long events are waited for before it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Events that are taken before it is looked whether something is due.
const TAKEN_MAX: usize = 4096;

/// How long a recorder that is stopped takes what has come before, at most.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Variables that are not recorded and are told by name; further ones are counted.
const REFUSED_MAX: usize = 100;

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
    /// What is wrong with the file now.
    pub trouble: Option<String>,
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
        let since = clock.now();
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
            subscription,
            recording,
            first: path.to_owned(),
            clock,
            since,
            items: HashMap::new(),
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

    /// Takes what has come by now, writes it, makes it safe from a loss of power, and ends.
    /// [`VariableRecorderStatus::trouble`] says when that did not succeed. A file in which nothing
    /// is, not even a variable, is removed.
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
type Open = Box<dyn FnMut(u32) -> io::Result<SegmentFile> + Send>;

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

/// What the thread has.
struct Running {
    subscription: PatternSubscription,
    recording: VariableSeries<SegmentFile, Open>,
    first: PathBuf,
    clock: Clock,
    since: Tick,
    items: HashMap<u32, Item>,
    options: VariableRecorderOptions,
    status: Arc<Mutex<VariableRecorderStatus>>,
}

/// How much is done about what waits.
#[derive(Clone, Copy, Debug)]
enum Writing {
    Out,
    Sync,
    Finish,
}

/// A variable that is followed.
#[derive(Debug)]
struct Item {
    id: VariableId,
    /// Nothing has come yet: what comes first is the value that it has already.
    is_new: bool,
    /// Lost after its last reading, which the next one says again.
    lost_since: Lost,
}

impl Running {
    fn run(mut self, stopped: &Stopped) {
        let (mut write_at, mut sync_at) = (self.clock.now(), self.clock.now());
        while !stopped.now() {
            if let Some(event) = self.subscription.next(Some(LOOK_EVERY)) {
                self.handle(event);
                self.handle_waiting(TAKEN_MAX);
            }
            let now = self.clock.now();
            if now >= sync_at {
                sync_at = now.saturating_add(self.options.sync_every);
                write_at = now.saturating_add(self.options.write_every);
                self.write(Writing::Sync);
            } else if now >= write_at {
                write_at = now.saturating_add(self.options.write_every);
                self.write(Writing::Out);
            }
        }
        self.end(self.clock.now().saturating_add(LAST_LOOK));
    }

    fn end(&mut self, until: Tick) {
        while self.handle_waiting(TAKEN_MAX) && self.clock.now() < until {}
        let lost: Vec<(VariableId, Lost)> = self
            .items
            .values()
            .map(|item| (item.id, item.lost_since))
            .collect();
        for (id, lost) in lost {
            // It is one of this recording.
            let _ = self.recording.note_lost(id, lost.count());
        }
        self.write(Writing::Finish);
        let progress = self.recording.progress();
        if progress.variables == 0 || progress.bytes == 0 {
            // Nothing is in it.
            let _ = std::fs::remove_file(&self.first);
            if self.options.has_sums {
                let _ = std::fs::remove_file(sums_path(&self.first));
            }
        }
    }

    /// Handles what waits, at most so many; whether there were as many.
    fn handle_waiting(&mut self, most: usize) -> bool {
        for _ in 0..most {
            match self.subscription.try_next() {
                Some(event) => self.handle(event),
                None => return false,
            }
        }
        true
    }

    fn handle(&mut self, event: FollowEvent) {
        match event {
            FollowEvent::Appeared {
                item,
                name,
                data_type,
                ..
            } => match self.recording.add(&name, &data_type) {
                Ok(id) => {
                    let lost_since = Lost::NONE;
                    let item_of_it = Item {
                        id,
                        is_new: true,
                        lost_since,
                    };
                    self.items.insert(item, item_of_it);
                }
                Err(error) => self.refuse(&name, error.to_string()),
            },
            FollowEvent::Gone { item, .. } => {
                self.items.remove(&item);
            }
            FollowEvent::PatternError { fault, .. } => self.refuse("a pattern", fault.to_string()),
            FollowEvent::Event(event) => self.handle_event(event),
            _ => {}
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Reading { item, reading } => {
                let Some(item) = self.items.get_mut(&item) else {
                    return;
                };
                item.lost_since = Lost::NONE;
                let (id, is_new) = (item.id, std::mem::take(&mut item.is_new));
                let now = self.clock.now().since(self.since);
                // Nothing was written to it yet.
                if reading.position.sequence == 0 {
                    return;
                }
                let (sample, lost) = (&reading.sample, &reading.lost);
                let taken = match is_new {
                    true => self.recording.take_initial(id, sample, lost, now),
                    false => self.recording.take(id, sample, lost, now),
                };
                if let Err(error) = taken {
                    locked(&self.status).trouble = Some(error.to_string());
                }
            }
            Event::Ended { item, lost, .. } => {
                if let (Some(item), Some(lost)) = (self.items.get_mut(&item), lost) {
                    item.lost_since.overrun = lost;
                }
            }
            Event::ItemError { fault, .. } => self.refuse("a variable", fault.to_string()),
            Event::Connected { .. } => locked(&self.status).is_connected = true,
            Event::Disconnected { .. } => locked(&self.status).is_connected = false,
            _ => {}
        }
    }

    fn refuse(&self, name: &str, why: String) {
        let mut status = locked(&self.status);
        status.refused_count += 1;
        if status.refused.len() < REFUSED_MAX {
            status.refused.push((name.to_owned(), why));
        }
    }

    fn write(&mut self, writing: Writing) {
        let now = self.clock.now().since(self.since);
        let written = match writing {
            Writing::Out => self.recording.write_out(now),
            Writing::Sync => self.recording.sync(now),
            Writing::Finish => self.recording.finish(now),
        };
        // Nobody asks for each.
        while self.recording.take_ended().is_some() {}
        let progress = self.recording.progress();
        let mut status = locked(&self.status);
        match written {
            Err(error) => status.trouble = Some(error.to_string()),
            // That a sync has failed stays true whatever is written behind it in this file.
            Ok(()) if progress.sync_failure.is_some() && self.options.rotation.is_none() => {}
            Ok(()) => status.trouble = None,
        }
        status.progress = progress;
        status.files = self.recording.number();
    }
}

fn locked(status: &Mutex<VariableRecorderStatus>) -> MutexGuard<'_, VariableRecorderStatus> {
    // Every change of it is one assignment.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
