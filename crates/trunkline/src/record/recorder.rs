//! Variables into a recording.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_client::{Event, FollowEvent, SubscribeOptions};
use trunkline_net::Clock;
use trunkline_record::{SegmentFile, VariableId, VariableProgress, VariableRecording};
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
}

impl Default for VariableRecorderOptions {
    fn default() -> Self {
        Self {
            contract: Contract::ALL,
            write_every: Duration::from_secs(1),
            sync_every: Duration::from_secs(10),
            waiting_bytes_max: 4 << 20,
            has_sums: false,
        }
    }
}

/// How a recorder is.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct VariableRecorderStatus {
    /// How far the recording is.
    pub progress: VariableProgress,
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
    /// `path`.
    ///
    /// # Errors
    /// [`RecordingError::File`]: it is there already, or cannot be made, or there is no thread to
    /// be had. [`RecordingError::Call`].
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
        let file = match options.has_sums {
            true => SegmentFile::create_summed(path),
            false => SegmentFile::create(path),
        }?;
        let status = Arc::new(Mutex::new(VariableRecorderStatus::default()));
        let (stopper, stopped) = stopper();
        let running = Running {
            subscription,
            recording: VariableRecording::new(file, options.waiting_bytes_max),
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
    /// [`VariableRecorderStatus::trouble`] says when that did not succeed.
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

/// What the thread has.
struct Running {
    subscription: PatternSubscription,
    recording: VariableRecording<SegmentFile>,
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
    /// Lost after its last reading, which the next one says again.
    lost_since: Lost,
}

impl Running {
    fn run(mut self, stopped: &Stopped) {
        let clock = Clock::new();
        let (mut write_at, mut sync_at) = (clock.now(), clock.now());
        while !stopped.now() {
            if let Some(event) = self.subscription.next(Some(LOOK_EVERY)) {
                self.handle(event);
                self.handle_waiting(TAKEN_MAX);
            }
            let now = clock.now();
            if now >= sync_at {
                sync_at = now.saturating_add(self.options.sync_every);
                write_at = now.saturating_add(self.options.write_every);
                self.write(Writing::Sync);
            } else if now >= write_at {
                write_at = now.saturating_add(self.options.write_every);
                self.write(Writing::Out);
            }
        }
        self.end(clock, clock.now().saturating_add(LAST_LOOK));
    }

    fn end(&mut self, clock: Clock, until: Tick) {
        while self.handle_waiting(TAKEN_MAX) && clock.now() < until {}
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
                    self.items.insert(item, Item { id, lost_since });
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
                let id = item.id;
                // Nothing was written to it yet.
                if reading.position.sequence == 0 {
                    return;
                }
                let taken = self.recording.take(id, &reading.sample, &reading.lost);
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
        let written = match writing {
            Writing::Out => self.recording.write_out(),
            Writing::Sync => self.recording.sync(),
            Writing::Finish => self.recording.finish(),
        };
        let progress = self.recording.progress();
        let mut status = locked(&self.status);
        match written {
            Err(error) => status.trouble = Some(error.to_string()),
            // That a sync has failed stays true whatever is written behind it.
            Ok(()) if progress.sync_failure.is_some() => {}
            Ok(()) => status.trouble = None,
        }
        status.progress = progress;
    }
}

fn locked(status: &Mutex<VariableRecorderStatus>) -> MutexGuard<'_, VariableRecorderStatus> {
    // Every change of it is one assignment.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
