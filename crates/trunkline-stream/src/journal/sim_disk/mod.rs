//! A disk in memory that can be stopped at every call, and then shows the states that a crash can
//! leave.
//!
//! It is plain code without dependencies, next to the real disk. It is not behind a feature or in
//! the tests, because the simulator uses it too, and so that it cannot be built differently from
//! the code that it replaces. A program that does not use it does not contain it.
//!
//! It models these events:
//! - The program is killed: everything written by its calls is kept, and any part of the
//!   interrupted call.
//! - Power fails: unsynced bytes after some byte are lost, zero or arbitrary; any subset of the
//!   changes of names since the last sync of the folder is kept.
//! - A call fails, once or permanently; a full disk has written a part of the bytes.

mod inode;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile};
use inode::{Inode, Write, at};

pub use inode::{Rest, Tear};

/// The effect of a crash on unsynced data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The program was killed: everything that it wrote is kept.
    Killed,
    /// Power failed.
    PowerFailed(Tear),
}

/// A range of calls that fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Number of the first failing call, counted from 0.
    pub from: u64,
    /// Number after the last failing call.
    pub until: u64,
    /// Kind of the error.
    pub kind: io::ErrorKind,
    /// Calls that only read succeed.
    pub only_changes: bool,
}

/// A folder on a simulated disk. Clones refer to the same folder.
#[derive(Clone, Debug)]
pub struct SimDisk {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, Arc<Mutex<Inode>>>,
    safe_names: BTreeMap<String, Arc<Mutex<Inode>>>,
    changes: Vec<Change>,
    calls: u64,
    stop_at: Option<(u64, u64)>,
    is_stopped: bool,
    failures: Vec<Failure>,
    /// Limit for the size of all files together, in bytes.
    room: Option<u64>,
    /// Number of power failures.
    power_failures: u32,
}

#[derive(Clone, Debug)]
enum Change {
    Set(String, Arc<Mutex<Inode>>),
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
    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        lock(&self.state).calls
    }

    /// Stops the program in call number `call`, counted from 0. A write has then written `bytes` of
    /// its bytes; any other call has done nothing. All later calls fail.
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
    pub fn mend(&self) {
        let mut state = lock(&self.state);
        state.failures.clear();
        state.room = None;
    }

    /// Limits the size of all files together.
    pub fn set_room(&self, bytes: u64) {
        lock(&self.state).room = Some(bytes);
    }

    /// Size of all files together, in bytes.
    pub fn used(&self) -> u64 {
        lock(&self.state).used()
    }

    /// The disk as the next program finds it.
    pub fn after(&self, crash: Crash) -> Self {
        let state = lock(&self.state);
        let next = match crash {
            // Nothing is lost, and nothing becomes more durable.
            Crash::Killed => State {
                names: state.names.clone(),
                safe_names: state.safe_names.clone(),
                changes: state.changes.clone(),
                power_failures: state.power_failures,
                ..State::default()
            },
            Crash::PowerFailed(tear) => {
                let left = |(name, inode): (String, Arc<Mutex<Inode>>)| {
                    let bytes = lock(&inode).after(tear);
                    let inode = Inode {
                        safe: bytes.clone(),
                        bytes,
                        writes: Vec::new(),
                    };
                    (name, Arc::new(Mutex::new(inode)))
                };
                let names: BTreeMap<_, _> = state
                    .names_after(tear.names)
                    .into_iter()
                    .map(left)
                    .collect();
                State {
                    safe_names: names.clone(),
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

    /// The content of a file; `None` if it does not exist.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = lock(&self.state);
        state.names.get(name).map(|inode| lock(inode).bytes.clone())
    }

    /// Flips bits of a byte, like a failing disk.
    pub fn alter(&self, name: &str, offset: u64, bits: u8) {
        if let Some(inode) = lock(&self.state).names.get(name) {
            let inode = &mut *lock(inode);
            for bytes in [&mut inode.bytes, &mut inode.safe] {
                if let Some(byte) = bytes.get_mut(at(offset)) {
                    *byte ^= bits;
                }
            }
        }
    }
}

impl State {
    fn used(&self) -> u64 {
        let len = |inode: &Arc<Mutex<Inode>>| lock(inode).bytes.len() as u64;
        self.names.values().map(len).sum()
    }

    fn names_after(&self, kept: u64) -> BTreeMap<String, Arc<Mutex<Inode>>> {
        let mut names = self.safe_names.clone();
        for (i, change) in self.changes.iter().enumerate() {
            if kept >> i.min(63) & 1 == 0 {
                continue;
            }
            match change {
                Change::Set(name, inode) => _ = names.insert(name.clone(), inode.clone()),
                Change::Rename(from, to) => {
                    if let Some(inode) = names.remove(from) {
                        names.insert(to.clone(), inode);
                    }
                }
                Change::Remove(name) => _ = names.remove(name),
            }
        }
        names
    }

    /// Counts a call. On failure also returns how many bytes are written nevertheless.
    fn call(&mut self, is_change: bool, len: u64) -> Result<(), (u64, io::Error)> {
        let gone = || io::Error::other("the program has stopped");
        if self.is_stopped {
            return Err((0, gone()));
        }
        let number = self.calls;
        self.calls += 1;
        if let Some((_, bytes)) = self.stop_at.filter(|(call, _)| *call == number) {
            self.is_stopped = true;
            return Err((bytes.min(len), gone()));
        }
        let wrong = |failure: &&Failure| {
            (failure.from..failure.until).contains(&number) && (is_change || !failure.only_changes)
        };
        if let Some(failure) = self.failures.iter().find(wrong) {
            return Err((len / 2, failure.kind.into()));
        }
        match self.room {
            Some(room) if len > 0 && self.used().saturating_add(len) > room => {
                let fits = room.saturating_sub(self.used());
                Err((fits, io::ErrorKind::StorageFull.into()))
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self) -> io::Result<()> {
        self.call(true, 0).map_err(|(_, error)| error)
    }

    fn look(&mut self) -> io::Result<()> {
        self.call(false, 0).map_err(|(_, error)| error)
    }
}

impl Disk for SimDisk {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn boot(&self) -> u32 {
        lock(&self.state).power_failures.saturating_add(1)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = lock(&self.state);
        state.look()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        state.change()?;
        let inode = Arc::new(Mutex::new(Inode::default()));
        let change = Change::Set(name.to_owned(), inode.clone());
        state.changes.push(change);
        state.names.insert(name.to_owned(), inode.clone());
        Ok(self.file(inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        state.look()?;
        match state.names.get(name) {
            Some(inode) => Ok(self.file(inode.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.change()?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        let change = Change::Rename(from.to_owned(), to.to_owned());
        state.changes.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.change()?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.changes.push(Change::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.change()?;
        state.safe_names = state.names.clone();
        state.changes.clear();
        Ok(())
    }
}

impl SimDisk {
    fn file(&self, inode: Arc<Mutex<Inode>>) -> Arc<dyn DiskFile> {
        Arc::new(SimFile {
            inode,
            disk: self.state.clone(),
        })
    }
}

#[derive(Debug)]
struct SimFile {
    inode: Arc<Mutex<Inode>>,
    disk: Arc<Mutex<State>>,
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        lock(&self.disk).look()?;
        Ok(lock(&self.inode).bytes.len() as u64)
    }

    fn write_at(&self, offset: u64, pieces: [&[u8]; 2]) -> io::Result<()> {
        let bytes = pieces.concat();
        let done = lock(&self.disk).call(true, bytes.len() as u64);
        let (count, result) = match done {
            Ok(()) => (bytes.len() as u64, Ok(())),
            Err((count, error)) => (count, Err(error)),
        };
        if count > 0 {
            lock(&self.inode).write(offset, &bytes[..at(count)]);
        }
        result
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        lock(&self.disk).look()?;
        let inode = lock(&self.inode);
        let there = inode.bytes.get(at(offset)..).unwrap_or_default();
        let count = there.len().min(bytes.len());
        bytes[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        lock(&self.disk).change()?;
        let mut inode = lock(&self.inode);
        inode.bytes.truncate(at(len));
        inode.writes.push(Write::Truncate(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.disk).change()?;
        let inode = &mut *lock(&self.inode);
        inode.safe = inode.bytes.clone();
        inode.writes.clear();
        Ok(())
    }
}
