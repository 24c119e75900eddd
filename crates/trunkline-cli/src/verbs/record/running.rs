//! A recording that runs: other commands of the same user see how it is, and end it.
//!
//! ```text
//!   <folder of this user's sockets>/recordings/
//!      +-- 93b1c2....lock   locked as long as the recorder lives: file, process, since when
//!      +-- 93b1c2....sock   `status` and `stop` are asked here
//! ```
//!
//! Both are named after the path of the file. The lock is the system's: it ends with the process
//! however that ends, so what a killed recorder leaves behind blocks nobody. No signal is ever sent
//! to a process.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde_json::{Value as Json, json};
use trunkline_types::Tick;

use crate::exit::Exit;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::terminal::shown;
use crate::verbs::Context;
use crate::verbs::stream::units::per_second;

/// How long who asks may take to say what, and to take the answer.
const ASKING: Duration = Duration::from_secs(1);
/// Longest word that is asked.
const WORD_BYTES: usize = 16;
/// Commands that may wait for the end at a time; further ones are sent away.
const WAITING_MAX: usize = 16;
/// Over which time the rate is taken.
const RATE_OVER: Duration = Duration::from_secs(2);
/// How often a lock is tried that somebody has who does not answer.
const TRIES: usize = 100;

pub(super) const STATUS: &[u8] = b"status\n";
pub(super) const STOP: &[u8] = b"stop\n";

/// This recording, as others see it. It is taken away when it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    /// None where there is no place for it.
    place: Option<Place>,
    shared: Arc<Mutex<Shared>>,
    meter: Meter,
}

#[derive(Debug)]
struct Place {
    entry: Entry,
    lock: File,
}

/// What the thread that answers shares with the recorder.
#[derive(Debug, Default)]
struct Shared {
    status: Figures,
    is_told: bool,
    waiting: Vec<UnixStream>,
    /// What those that asked it to stop are answered.
    ended: Option<String>,
}

/// How a recording is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Figures {
    /// Updates or elements that were taken.
    pub(super) rows: u64,
    /// Bytes of the file.
    pub(super) bytes: u64,
    pub(super) bytes_per_second: f64,
    /// Bytes that wait to be written.
    pub(super) queue_bytes: u64,
    /// Rows that are known to be missing.
    pub(super) lost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Meter {
    since: Tick,
    bytes: u64,
    is_first: bool,
}

/// What a recorder says when it has ended.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    /// The line for people.
    pub(super) text: &'a str,
    /// The line for programs.
    pub(super) object: &'a Json,
    pub(super) exit: Exit,
}

impl Running {
    /// Takes the place of the recorder of a file.
    ///
    /// # Errors
    /// Another one has it.
    pub(super) fn begin(path: &Path, context: &Context) -> Result<Self, Stop> {
        let shared = Arc::<Mutex<Shared>>::default();
        let begun = Entry::of(path).and_then(|entry| match entry.lock()? {
            Some(lock) => Ok(Ok(entry.open(lock, path, &shared, context)?)),
            None => Ok(Err(entry)),
        });
        let place = match begun {
            Ok(Ok(place)) => Some(place),
            Ok(Err(entry)) => return Err(taken(path, &entry).into()),
            Err(error) => {
                // It is recorded all the same.
                let line = format!("`trunkline record stop` does not find this recording: {error}");
                match context.settings.is_json() {
                    true => {
                        let problem = Problem::new(Exit::SomeFailed, "not-listed", &line);
                        context.terminal.note(&problem.to_json().to_string())?;
                    }
                    false => context.terminal.note(&line)?,
                }
                None
            }
        };
        Ok(Self {
            place,
            shared,
            meter: Meter {
                since: context.clock.now(),
                bytes: 0,
                is_first: true,
            },
        })
    }

    /// Whether another command has said that it is to end.
    pub(super) fn is_told(&self) -> bool {
        lock(&self.shared).is_told
    }

    /// Says how it is; the rate is taken from that.
    pub(super) fn update(&mut self, now: Tick, figures: Figures) {
        let elapsed = now.since(self.meter.since);
        let mut shared = lock(&self.shared);
        let mut rate = shared.status.bytes_per_second;
        if self.meter.is_first || elapsed >= RATE_OVER {
            rate = per_second(figures.bytes.saturating_sub(self.meter.bytes), elapsed);
        }
        if elapsed >= RATE_OVER {
            self.meter = Meter {
                since: now,
                bytes: figures.bytes,
                is_first: false,
            };
        }
        shared.status = Figures {
            bytes_per_second: rate,
            ..figures
        };
    }

    /// The file is closed: takes the place away, and tells those that wait.
    pub(super) fn end(self, ended: &Ended<'_>) {
        self.answer(&json!({
            "exit": ended.exit.number(),
            "text": ended.text,
            "object": ended.object,
        }));
    }

    /// The same where it has failed. What the command itself is going to say of it is what those
    /// are told.
    pub(super) fn fail(self, stop: &Stop) {
        if let Stop::Problem(problem) = stop {
            self.answer(&json!({
                "exit": problem.exit.number(),
                "problem": problem.to_json(),
            }));
        }
    }

    fn answer(mut self, answer: &Json) {
        self.place = None;
        let line = answer.to_string();
        let waiting = {
            let mut shared = lock(&self.shared);
            shared.ended = Some(line.clone());
            std::mem::take(&mut shared.waiting)
        };
        for mut stream in waiting {
            // Who has gone away does not want to know.
            let _ = writeln!(stream, "{line}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // First the names, while nobody else can have them.
        let _ = std::fs::remove_file(&self.entry.socket);
        let _ = std::fs::remove_file(&self.entry.lock);
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Where the recorder of one file is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) lock: PathBuf,
    pub(super) socket: PathBuf,
}

impl Entry {
    /// Of the recorder of this file.
    ///
    /// # Errors
    /// There is no folder for it.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let name = format!("{:016x}", fnv1a(full(path)?.as_os_str().as_encoded_bytes()));
        let folder = folder()?;
        Ok(Self {
            lock: folder.join(format!("{name}.lock")),
            socket: folder.join(format!("{name}.sock")),
        })
    }

    /// All there are; those of recorders that were killed among them.
    ///
    /// # Errors
    /// The folder cannot be read.
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

    /// Takes the lock; none where a recorder that lives has it.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.mode(0o600).open(&self.lock)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if self.is_answering() => return Ok(None),
                // Somebody begins, ends, or tidies up.
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    std::thread::yield_now();
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            // Who had it before may have taken the name away in between.
            let there = std::fs::metadata(&self.lock);
            if there.is_ok_and(|there| there.ino() == file.metadata().map_or(0, |own| own.ino())) {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Whether a recorder is there to be asked.
    pub(super) fn is_answering(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// Takes away what a recorder that was killed has left; whether it was so.
    pub(super) fn tidy(&self) -> bool {
        match self.lock() {
            Ok(Some(lock)) => {
                drop(Place {
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
    ) -> io::Result<Place> {
        // From here on it is taken away again whatever fails.
        let place = Place { entry: self, lock };
        let about = json!({
            "file": full(path)?.display().to_string(),
            "pid": std::process::id(),
            "started": context.started.to_string(),
        });
        place.lock.set_len(0)?;
        (&place.lock).write_all(about.to_string().as_bytes())?;
        let _ = std::fs::remove_file(&place.entry.socket);
        let listener = UnixListener::bind(&place.entry.socket)?;
        let shared = shared.clone();
        // It ends with the process: nobody can reach it any more when the socket has no name.
        std::thread::Builder::new()
            .name("record-control".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    // Who asks in a wrong way gets no answer.
                    let _ = answer(stream, &shared);
                }
            })?;
        Ok(place)
    }

    /// What stands in the lock file: file, process, and since when.
    pub(super) fn about(&self) -> Option<Json> {
        let text = std::fs::read_to_string(&self.lock).ok()?;
        serde_json::from_str(&text).ok()
    }
}

fn answer(mut stream: UnixStream, shared: &Mutex<Shared>) -> io::Result<()> {
    stream.set_read_timeout(Some(ASKING))?;
    stream.set_write_timeout(Some(ASKING))?;
    let mut word = [0; WORD_BYTES];
    let length = stream.read(&mut word)?;
    let word = word.get(..length).unwrap_or_default();
    if word == STATUS {
        let figures = lock(shared).status;
        return writeln!(stream, "{}", figures.object().into_json());
    }
    if word == STOP {
        let mut shared = lock(shared);
        shared.is_told = true;
        if let Some(line) = &shared.ended {
            return writeln!(stream, "{line}");
        }
        if shared.waiting.len() < WAITING_MAX {
            shared.waiting.push(stream);
        }
    }
    Ok(())
}

impl Figures {
    fn object(&self) -> Object {
        let mut object = Object::default();
        object.put("rows", self.rows);
        object.put("bytes", self.bytes);
        object.put("bytes_per_second", self.bytes_per_second);
        object.put("queue_bytes", self.queue_bytes);
        object.put("lost", self.lost);
        object
    }

    /// Reads what [`STATUS`] was answered with.
    pub(super) fn read(json: &Json) -> Option<Self> {
        Some(Self {
            rows: json.get("rows")?.as_u64()?,
            bytes: json.get("bytes")?.as_u64()?,
            bytes_per_second: json.get("bytes_per_second")?.as_f64()?,
            queue_bytes: json.get("queue_bytes")?.as_u64()?,
            lost: json.get("lost")?.as_u64()?,
        })
    }
}

fn taken(path: &Path, entry: &Entry) -> Problem {
    let about = entry.about().unwrap_or_default();
    let who = match (about["pid"].as_u64(), about["started"].as_str()) {
        (Some(pid), Some(since)) => format!("process {pid}, since {since}"),
        _ => "another process".to_owned(),
    };
    let path = shown(path);
    let mut problem = Problem::new(Exit::SomeFailed, "is-recorded", "");
    problem.message = format!("{path} is being recorded by {who}");
    problem.hint = Some(format!(
        "`trunkline record stop {path}` ends that; or record to another file"
    ));
    problem
}

/// The folder of all recordings of this user that run.
fn folder() -> io::Result<PathBuf> {
    let of_user = trunkline_net::near::prepared_folder().ok_or_else(|| {
        let folder = trunkline_net::near::folder();
        let text = format!("{} is not a folder of this user alone", shown(&folder));
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    })?;
    let folder = of_user.join("recordings");
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder),
    }
}

/// The one path of a file, whether it is there yet or not.
pub(super) fn full(path: &Path) -> io::Result<PathBuf> {
    if let Ok(full) = path.canonicalize() {
        return Ok(full);
    }
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => Ok(folder.join(name)),
        _ => std::path::absolute(path),
    }
}

/// FNV-1a of 64 bits: names of the same length for paths of any.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Every change of it is whole.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_name_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there.tdms");
        std::fs::write(&there, "").unwrap();
        let around = folder.path().join("./x/../there.tdms");
        std::fs::create_dir(folder.path().join("x")).unwrap();
        assert_eq!(full(&there).unwrap(), full(&around).unwrap());
        let missing = folder.path().join("missing.tdms");
        let around = folder.path().join("x/../missing.tdms");
        assert_eq!(full(&missing).unwrap(), full(&around).unwrap());
        assert_ne!(full(&missing).unwrap(), full(&there).unwrap());
        // Known answers of the function.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_lock_is_had_by_one_and_what_is_left_behind_is_tidied() {
        let folder = tempfile::tempdir().unwrap();
        let sut = Entry {
            lock: folder.path().join("a.lock"),
            socket: folder.path().join("a.sock"),
        };
        let held = sut.lock().unwrap();
        assert!(held.is_some());
        assert!(sut.lock().unwrap().is_none());
        assert!(!sut.tidy(), "it is held");
        // As a process that is killed does: the names stay.
        drop(held);
        std::fs::write(&sut.socket, "").unwrap();
        assert!(sut.tidy());
        assert!(!sut.lock.exists() && !sut.socket.exists());
    }
}
