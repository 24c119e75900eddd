//! Makes a running recording visible to other commands of the same user, which query and stop it.
//!
//! ```text
//!   <folder of this user's sockets>/recordings/
//!      +-- 93b1c2....lock   locked while the recorder lives; contains file, process ID, start time
//!      +-- 93b1c2....sock   accepts the requests `status` and `stop`
//! ```
//!
//! Both names are a hash of the path of the recorded file. The operating system releases the lock
//! when the process ends, for any reason, so the files that a killed recorder leaves behind block
//! nothing. No command sends a signal to a recorder.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use trunkline_types::Tick;

use super::recorded::Recorded;
use crate::output::record;
use crate::replace::folder_of;
use crate::terminal::escaped_path;
use crate::verbs::stream::units::per_second;
use crate::{CliError, Context, Exit, Problem};

/// Timeout for reading the request of a client, and for writing the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const REQUEST_BYTES: usize = 16;
/// Maximum number of commands that may wait for the end of the recording. Further commands are refused
/// immediately.
const WAITING_MAX: usize = 16;
/// Time over which the rate of the recording is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(2);
/// Maximum number of attempts to take a lock whose holder does not answer.
const LOCK_ATTEMPTS: usize = 100;

pub(super) const STATUS: &[u8] = b"status\n";
pub(super) const STOP: &[u8] = b"stop\n";

/// The entry of this recording, visible to other commands. Dropping it removes the entry.
#[derive(Debug)]
pub(super) struct Running {
    registered: Option<RegisteredEntry>,
    shared: Arc<Mutex<Shared>>,
    rate_window: RateWindow,
}

#[derive(Debug)]
struct RegisteredEntry {
    entry: Entry,
    lock: File,
}

/// State shared by the recorder and the thread that answers other commands.
#[derive(Debug, Default)]
struct Shared {
    status: Figures,
    is_stop_requested: bool,
    /// Connections of the commands that wait for the end of the recording.
    waiting: Vec<UnixStream>,
    /// Answer to commands that request a stop after the recording has ended.
    final_answer: Option<String>,
}

/// The state of a recording in numbers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Number of recorded updates or elements.
    pub(super) rows: u64,
    /// Bytes written so far, over all files.
    pub(super) bytes: u64,
    pub(super) bytes_per_second: f64,
    /// Bytes waiting to be written.
    pub(super) queue_bytes: u64,
    /// Number of updates or rows that are missing, if known.
    pub(super) lost: u64,
}

/// The current window for measuring the rate.
#[derive(Clone, Copy, Debug)]
struct RateWindow {
    started_at: Tick,
    /// Bytes that were written when the window started.
    bytes_at_start: u64,
    is_first: bool,
}

impl Running {
    /// Registers this process as the recorder of a file.
    pub(super) fn begin(path: &Path, context: &Context) -> Result<Self, CliError> {
        let shared = Arc::<Mutex<Shared>>::default();
        let result = Entry::of(path).and_then(|entry| match entry.lock()? {
            Some(lock) => Ok(Ok(entry.open(lock, path, &shared, context)?)),
            None => Ok(Err(entry)),
        });
        let registered = match result {
            Ok(Ok(registered)) => Some(registered),
            Ok(Err(entry)) => return Err(already_recorded(path, &entry).into()),
            Err(error) => {
                // The recording continues without an entry.
                let line = format!(
                    "the recording is not listed, so `trunkline record stop` cannot stop it: {error}"
                );
                context.note_with_code("not-listed", &line)?;
                None
            }
        };
        Ok(Self {
            registered,
            shared,
            rate_window: RateWindow {
                started_at: context.clock.now(),
                bytes_at_start: 0,
                is_first: true,
            },
        })
    }

    /// Returns true if another command has requested a stop.
    pub(super) fn is_stop_requested(&self) -> bool {
        lock(&self.shared).is_stop_requested
    }

    pub(super) fn update(&mut self, now: Tick, figures: Figures) {
        let elapsed = now.since(self.rate_window.started_at);
        let mut shared = lock(&self.shared);
        let mut rate = shared.status.bytes_per_second;
        if self.rate_window.is_first || elapsed >= RATE_WINDOW {
            let bytes = figures
                .bytes
                .saturating_sub(self.rate_window.bytes_at_start);
            rate = per_second(bytes, elapsed);
        }
        if elapsed >= RATE_WINDOW {
            self.rate_window = RateWindow {
                started_at: now,
                bytes_at_start: figures.bytes,
                is_first: false,
            };
        }
        shared.status = Figures {
            bytes_per_second: rate,
            ..figures
        };
    }

    /// Removes the entry, sends the result to the waiting commands, and reports the result on standard
    /// error. Call this after the file is closed.
    pub(super) fn end(
        self,
        result: Result<(Recorded, Exit), CliError>,
        context: &Context,
    ) -> Result<Exit, CliError> {
        match &result {
            Ok((ended, exit)) => self.answer(&json!({
                "exit": exit.number(),
                "text": ended.to_string(),
                "object": record::object(ended),
            })),
            Err(CliError::Problem(problem)) => self.answer(&refusal(problem)),
            Err(CliError::PipeClosed) => {}
        }
        let (ended, exit) = result?;
        context.notify(&ended)?;
        Ok(exit)
    }

    fn answer(mut self, answer: &Json) {
        self.registered = None;
        let line = answer.to_string();
        let waiting = {
            let mut shared = lock(&self.shared);
            shared.final_answer = Some(line.clone());
            std::mem::take(&mut shared.waiting)
        };
        for mut stream in waiting {
            // The client may have disconnected.
            let _ = writeln!(stream, "{line}");
        }
    }
}

impl Drop for RegisteredEntry {
    fn drop(&mut self) {
        // Remove the names first, while the lock still excludes other processes.
        let _ = std::fs::remove_file(&self.entry.socket);
        let _ = std::fs::remove_file(&self.entry.lock);
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Paths of the two files that represent a running recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) lock: PathBuf,
    pub(super) socket: PathBuf,
}

impl Entry {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let name = format!(
            "{:016x}",
            fnv1a(canonical(path)?.as_os_str().as_encoded_bytes())
        );
        let folder = folder()?;
        Ok(Self {
            lock: folder.join(format!("{name}.lock")),
            socket: folder.join(format!("{name}.sock")),
        })
    }

    /// Returns all entries, including those of killed recorders.
    pub(super) fn all() -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder()?)? {
            let lock = entry?.path();
            if lock.extension().is_some_and(|end| end == "lock") {
                let socket = lock.with_extension("sock");
                all.push(Self { lock, socket });
            }
        }
        Ok(all)
    }

    /// Takes the lock. Returns `None` if a live recorder holds it.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        for _ in 0..LOCK_ATTEMPTS {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.mode(0o600).open(&self.lock)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if self.is_answering() => return Ok(None),
                // Another process is starting, ending, or cleaning up.
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    std::thread::yield_now();
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            // The previous holder may have removed the lock file in the meantime.
            let current = std::fs::metadata(&self.lock);
            let opened = file.metadata().map_or(0, |opened| opened.ino());
            if current.is_ok_and(|current| current.ino() == opened) {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    pub(super) fn is_answering(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// Removes the entry if its recorder was killed. Returns true if the entry was removed.
    pub(super) fn remove_if_stale(&self) -> bool {
        match self.lock() {
            Ok(Some(lock)) => {
                drop(RegisteredEntry {
                    entry: self.clone(),
                    lock,
                });
                true
            }
            _ => false,
        }
    }

    fn open(
        self,
        lock: File,
        path: &Path,
        shared: &Arc<Mutex<Shared>>,
        context: &Context,
    ) -> io::Result<RegisteredEntry> {
        // From here on, dropping `registered` removes the entry after any error.
        let registered = RegisteredEntry { entry: self, lock };
        let description = json!({
            "file": canonical(path)?.display().to_string(),
            "pid": std::process::id(),
            "started": context.started.to_string(),
        });
        registered.lock.set_len(0)?;
        (&registered.lock).write_all(description.to_string().as_bytes())?;
        let _ = std::fs::remove_file(&registered.entry.socket);
        let listener = UnixListener::bind(&registered.entry.socket)?;
        let shared = shared.clone();
        // The thread runs until the process ends. After the path of the socket is removed, no client
        // can connect to the thread.
        std::thread::Builder::new()
            .name("record-control".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A malformed request gets no answer.
                    let _ = answer(stream, &shared);
                }
            })?;
        Ok(registered)
    }

    /// Returns the contents of the lock file: the recorded file, the process ID and the start time.
    pub(super) fn description(&self) -> Option<Json> {
        let text = std::fs::read_to_string(&self.lock).ok()?;
        serde_json::from_str(&text).ok()
    }
}

fn answer(mut stream: UnixStream, shared: &Mutex<Shared>) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut request = [0; REQUEST_BYTES];
    let length = stream.read(&mut request)?;
    let request = request.get(..length).unwrap_or_default();
    if request == STATUS {
        let figures = lock(shared).status;
        return writeln!(stream, "{}", json!(figures));
    }
    if request == STOP {
        let mut shared = lock(shared);
        shared.is_stop_requested = true;
        if let Some(line) = &shared.final_answer {
            return writeln!(stream, "{line}");
        }
        if shared.waiting.len() == WAITING_MAX {
            shared.waiting.retain(is_connected);
        }
        if shared.waiting.len() == WAITING_MAX {
            return writeln!(stream, "{}", refusal(&too_many_waiting()));
        }
        shared.waiting.push(stream);
    }
    Ok(())
}

/// Returns the answer for a recording that has failed, or for a request that is refused.
fn refusal(problem: &Problem) -> Json {
    json!({ "exit": problem.exit.number(), "problem": problem })
}

/// Returns false if the command at the other end has disconnected.
fn is_connected(stream: &UnixStream) -> bool {
    let read = stream
        .set_nonblocking(true)
        .and_then(|()| (&*stream).read(&mut [0]));
    let is_open = match read {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    };
    is_open && stream.set_nonblocking(false).is_ok()
}

fn too_many_waiting() -> Problem {
    Problem::from_message("too-many-waiting", format!(
        "the recording is ending, but {WAITING_MAX} commands, the maximum, are already waiting for \
         it to end"
    ))
.with_hint("`trunkline record ls` shows whether it is still running")
}

fn already_recorded(path: &Path, entry: &Entry) -> Problem {
    let description = entry.description().unwrap_or_default();
    let recorder = match (description["pid"].as_u64(), description["started"].as_str()) {
        (Some(pid), Some(since)) => format!("process {pid}, since {since}"),
        _ => "another process".to_owned(),
    };
    let path = escaped_path(path);
    Problem::from_message(
        "is-recorded",
        format!("{path} is being recorded by {recorder}"),
    )
    .with_hint(format!(
        "end that recording with `trunkline record stop {path}`, or record to another file"
    ))
}

fn folder() -> io::Result<PathBuf> {
    let user_folder = trunkline_net::near::prepare_socket_folder().ok_or_else(|| {
        let folder = trunkline_net::near::folder();
        let text = format!(
            "{} is not a folder that only this user can access; remove it, or change its \
             permissions",
            escaped_path(&folder)
        );
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    })?;
    let folder = user_folder.join("recordings");
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder),
    }
}

/// Returns the canonical path of a file, whether or not it exists yet.
pub(super) fn canonical(path: &Path) -> io::Result<PathBuf> {
    if let Ok(full) = path.canonicalize() {
        return Ok(full);
    }
    match (folder_of(path).canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => Ok(folder.join(name)),
        _ => std::path::absolute(path),
    }
}

/// Computes the 64-bit FNV-1a hash. Names made from it have the same length for paths of any length.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // No code panics in the middle of an update, so the data is consistent even if the lock is
    // poisoned.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_paths_have_the_same_canonical_path() {
        let folder = tempfile::tempdir().unwrap();
        let existing = folder.path().join("there.tdms");
        std::fs::write(&existing, "").unwrap();
        let indirect = folder.path().join("./x/../there.tdms");
        std::fs::create_dir(folder.path().join("x")).unwrap();
        assert_eq!(canonical(&existing).unwrap(), canonical(&indirect).unwrap());
        let missing = folder.path().join("missing.tdms");
        let indirect = folder.path().join("x/../missing.tdms");
        assert_eq!(canonical(&missing).unwrap(), canonical(&indirect).unwrap());
        assert_ne!(canonical(&missing).unwrap(), canonical(&existing).unwrap());
        // Published results of FNV-1a.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    /// Sends `stop` to a recorder, and returns the command's end of the connection.
    fn stop(shared: &Mutex<Shared>) -> UnixStream {
        let (mut command, recorder) = UnixStream::pair().unwrap();
        command.write_all(STOP).unwrap();
        command.set_nonblocking(true).unwrap();
        answer(recorder, shared).unwrap();
        command
    }

    fn answered(mut command: &UnixStream) -> Option<String> {
        let mut text = String::new();
        match command.read_to_string(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            result => Some(result.map(|_| text).unwrap()),
        }
    }

    #[test]
    fn waiting_command_beyond_the_limit_is_answered_at_once() {
        let sut = Mutex::<Shared>::default();
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| stop(&sut)).collect();
        let line = answered(&stop(&sut)).unwrap();
        let answer: Json = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["exit"], Exit::Failed.number());
        assert_eq!(answer["problem"]["code"], "too-many-waiting");
        let message = answer["problem"]["message"].as_str().unwrap();
        assert!(message.contains("is ending"), "{message}");
        // One command disconnects, and another takes its place.
        waiting.pop();
        let last = stop(&sut);
        assert_eq!(answered(&last), None);
        waiting.push(last);
        assert!(waiting.iter().all(|command| answered(command).is_none()));
    }

    #[test]
    fn lock_is_exclusive_and_files_of_a_killed_recorder_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let sut = Entry {
            lock: folder.path().join("a.lock"),
            socket: folder.path().join("a.sock"),
        };
        let lock = sut.lock().unwrap();
        assert!(lock.is_some());
        assert!(sut.lock().unwrap().is_none());
        assert!(!sut.remove_if_stale(), "the lock is held");
        // Like a killed process, this leaves the files behind.
        drop(lock);
        std::fs::write(&sut.socket, "").unwrap();
        assert!(sut.remove_if_stale());
        assert!(!sut.lock.exists() && !sut.socket.exists());
    }
}
