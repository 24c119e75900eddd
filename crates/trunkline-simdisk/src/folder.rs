//! Simulates a folder on a disk that can stop the program at any call.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::content::{Content, Tear, to_index};

/// The effect of a crash on unsynced data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The program was killed: all data that it wrote survives.
    Killed,
    /// Power was lost: synced data and a part of the unsynced data survive.
    PowerFailed(Tear),
}

/// A range of calls that fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Number of the first failing call, counted from 0.
    pub from: u64,
    /// Number after the last failing call.
    pub until: u64,
    pub kind: io::ErrorKind,
    /// True if calls that only read still succeed.
    pub only_changes: bool,
}

/// A folder on a simulated disk. Clones refer to the same folder.
#[derive(Clone, Debug)]
pub struct SimDisk {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

type SharedContent = Arc<Mutex<Content>>;

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, SharedContent>,
    durable_names: BTreeMap<String, SharedContent>,
    /// Changes of names since the last sync of the folder.
    changes: Vec<Change>,
    /// Number of calls so far.
    calls: u64,
    /// Number of the call in which the program stops, and the number of bytes that this call still writes.
    stop_at: Option<(u64, u64)>,
    is_stopped: bool,
    failures: Vec<Failure>,
    /// Limit for the size of all files together, in bytes.
    capacity: Option<u64>,
    /// Number of power failures.
    power_failures: u32,
}

#[derive(Clone, Debug)]
enum Change {
    Create(String, SharedContent),
    Rename(String, String),
    Remove(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for SimDisk {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("/simulated"),
            state: Arc::default(),
        }
    }
}

impl SimDisk {
    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        lock(&self.state).calls
    }

    /// Stops the program in call number `call`, counted from 0. A write then writes only its first
    /// `bytes` bytes; any other call has no effect. All later calls fail.
    pub fn stop_at(&self, call: u64, bytes: u64) {
        lock(&self.state).stop_at = Some((call, bytes));
    }

    /// Returns true once the program has stopped.
    pub fn is_stopped(&self) -> bool {
        lock(&self.state).is_stopped
    }

    /// Adds a range of calls that fail.
    pub fn fail(&self, failure: Failure) {
        lock(&self.state).failures.push(failure);
    }

    /// Ends all failures, and removes the size limit.
    pub fn clear_faults(&self) {
        let mut state = lock(&self.state);
        state.failures.clear();
        state.capacity = None;
    }

    /// Limits the size of all files together.
    pub fn set_capacity(&self, bytes: u64) {
        lock(&self.state).capacity = Some(bytes);
    }

    /// Returns the size of all files together, in bytes.
    pub fn used(&self) -> u64 {
        lock(&self.state).used()
    }

    /// Returns the disk in the state that the next program finds after the crash.
    pub fn after(&self, crash: Crash) -> Self {
        let state = lock(&self.state);
        let next = match crash {
            // No data is lost, and unsynced data stays unsynced.
            Crash::Killed => State {
                names: state.names.clone(),
                durable_names: state.durable_names.clone(),
                changes: state.changes.clone(),
                power_failures: state.power_failures,
                ..State::default()
            },
            Crash::PowerFailed(tear) => {
                let after_power_loss = |(name, content): (String, SharedContent)| {
                    let bytes = lock(&content).after(tear);
                    (name, Arc::new(Mutex::new(Content::new(bytes))))
                };
                let names: BTreeMap<_, _> = state
                    .names_after(tear.names)
                    .into_iter()
                    .map(after_power_loss)
                    .collect();
                State {
                    durable_names: names.clone(),
                    names,
                    power_failures: state.power_failures.saturating_add(1),
                    ..State::default()
                }
            }
        };
        Self {
            folder: self.folder.clone(),
            state: Arc::new(Mutex::new(next)),
        }
    }

    /// Returns the content of a file; `None` if it does not exist.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = lock(&self.state);
        state
            .names
            .get(name)
            .map(|content| lock(content).bytes().to_vec())
    }

    /// Flips bits of a byte, as a failing disk does.
    pub fn flip_bits(&self, name: &str, offset: u64, bits: u8) {
        if let Some(content) = lock(&self.state).names.get(name) {
            lock(content).flip_bits(offset, bits);
        }
    }
}

impl State {
    fn used(&self) -> u64 {
        let len = |content: &SharedContent| lock(content).bytes().len() as u64;
        self.names.values().map(len).sum()
    }

    fn names_after(&self, surviving_names: u64) -> BTreeMap<String, SharedContent> {
        let mut names = self.durable_names.clone();
        for (i, change) in self.changes.iter().enumerate() {
            if surviving_names >> i.min(63) & 1 == 0 {
                continue;
            }
            match change {
                Change::Create(name, content) => _ = names.insert(name.clone(), content.clone()),
                Change::Rename(from, to) => {
                    if let Some(content) = names.remove(from) {
                        names.insert(to.clone(), content);
                    }
                }
                Change::Remove(name) => _ = names.remove(name),
            }
        }
        names
    }

    /// Counts a call. On failure, also returns how many bytes are written before the call fails.
    fn count_call(&mut self, is_change: bool, len: u64) -> Result<(), (u64, io::Error)> {
        let stopped = || io::Error::other("the program has stopped");
        if self.is_stopped {
            return Err((0, stopped()));
        }
        let number = self.calls;
        self.calls += 1;
        if let Some((_, bytes)) = self.stop_at.filter(|(call, _)| *call == number) {
            self.is_stopped = true;
            return Err((bytes.min(len), stopped()));
        }
        let applies = |failure: &&Failure| {
            (failure.from..failure.until).contains(&number) && (is_change || !failure.only_changes)
        };
        if let Some(failure) = self.failures.iter().find(applies) {
            return Err((len / 2, failure.kind.into()));
        }
        match self.capacity {
            Some(capacity) if len > 0 && self.used().saturating_add(len) > capacity => {
                let fits = capacity.saturating_sub(self.used());
                Err((fits, io::ErrorKind::StorageFull.into()))
            }
            _ => Ok(()),
        }
    }

    fn count_change(&mut self) -> io::Result<()> {
        self.count_call(true, 0).map_err(|(_, error)| error)
    }

    fn count_query(&mut self) -> io::Result<()> {
        self.count_call(false, 0).map_err(|(_, error)| error)
    }
}

impl SimDisk {
    /// Returns the path of the folder, for messages.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a number that changes with each power loss.
    pub fn boot(&self) -> u32 {
        lock(&self.state).power_failures.saturating_add(1)
    }

    /// Returns the names of the files.
    ///
    /// # Errors
    /// The program has stopped, or a failure was set for this call.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let mut state = lock(&self.state);
        state.count_query()?;
        Ok(state.names.keys().cloned().collect())
    }

    /// Creates a file, replacing an existing one of this name. The name is durable after
    /// [`sync_folder`](Self::sync_folder).
    ///
    /// # Errors
    /// Same as [`list`](Self::list).
    pub fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = lock(&self.state);
        state.count_change()?;
        let content = SharedContent::default();
        let change = Change::Create(name.to_owned(), content.clone());
        state.changes.push(change);
        state.names.insert(name.to_owned(), content.clone());
        Ok(self.file(content))
    }

    /// Opens a file.
    ///
    /// # Errors
    /// Same as [`list`](Self::list), and `NotFound`.
    pub fn open(&self, name: &str) -> io::Result<SimFile> {
        let mut state = lock(&self.state);
        state.count_query()?;
        let content = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(content.clone()))
    }

    /// Renames a file, replacing an existing one of the new name.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.count_change()?;
        let content = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), content);
        let change = Change::Rename(from.to_owned(), to.to_owned());
        state.changes.push(change);
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.count_change()?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.changes.push(Change::Remove(name.to_owned()));
        Ok(())
    }

    /// Makes all changes of names durable.
    ///
    /// # Errors
    /// Same as [`list`](Self::list).
    pub fn sync_folder(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.count_change()?;
        state.durable_names = state.names.clone();
        state.changes.clear();
        Ok(())
    }

    fn file(&self, content: SharedContent) -> SimFile {
        SimFile {
            content,
            disk: self.state.clone(),
        }
    }
}

/// An open file of a [`SimDisk`]. All calls fail once the program has stopped. Other calls fail as
/// configured with [`fail`](SimDisk::fail).
#[derive(Debug)]
pub struct SimFile {
    content: SharedContent,
    disk: Arc<Mutex<State>>,
}

impl SimFile {
    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// Same as [`SimDisk::list`].
    pub fn size(&self) -> io::Result<u64> {
        lock(&self.disk).count_query()?;
        Ok(lock(&self.content).bytes().len() as u64)
    }

    /// Writes both pieces, one after the other, starting at `offset`.
    ///
    /// # Errors
    /// Same as [`SimDisk::list`], and `StorageFull`. The first bytes may have been written.
    pub fn write_at(&self, offset: u64, pieces: [&[u8]; 2]) -> io::Result<()> {
        let bytes = pieces.concat();
        let done = lock(&self.disk).count_call(true, bytes.len() as u64);
        let (count, result) = match done {
            Ok(()) => (bytes.len() as u64, Ok(())),
            Err((count, error)) => (count, Err(error)),
        };
        if count > 0 {
            lock(&self.content).write(offset, &bytes[..to_index(count)]);
        }
        result
    }

    /// Reads until `bytes` is full or the file ends, and returns the number of bytes read.
    ///
    /// # Errors
    /// Same as [`SimDisk::list`].
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        lock(&self.disk).count_query()?;
        let content = lock(&self.content);
        let available = content.bytes().get(to_index(offset)..).unwrap_or_default();
        let count = available.len().min(bytes.len());
        bytes[..count].copy_from_slice(&available[..count]);
        Ok(count)
    }

    /// Truncates the file to `len` bytes.
    ///
    /// # Errors
    /// Same as [`SimDisk::list`].
    pub fn truncate(&self, len: u64) -> io::Result<()> {
        lock(&self.disk).count_change()?;
        lock(&self.content).set_length(len);
        Ok(())
    }

    /// Makes the file's bytes durable.
    ///
    /// # Errors
    /// Same as [`SimDisk::list`].
    pub fn sync(&self) -> io::Result<()> {
        lock(&self.disk).count_change()?;
        lock(&self.content).sync();
        Ok(())
    }
}
