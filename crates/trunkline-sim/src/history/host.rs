//! Simulates the engine's process with the production history in a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trunkline_engine::history::History;
use trunkline_engine::{Engine, EngineOptions, Wake, Wakes};
use trunkline_history::FileHistory;
use trunkline_types::{DataType, Moment};

use super::plan::{library, rules};
use crate::remote::Service;
use crate::rng::Rng;

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// The state that is lost with the process.
pub struct Running {
    pub engine: Engine,
    pub history: Arc<FileHistory>,
    pub service: Service,
}

/// The content of a folder: the bytes of each file, by relative path.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

/// The machine on which the engine runs, with the folder of the history.
pub struct Host {
    folder: tempfile::TempDir,
    /// Number of the current folder. Each abrupt end of the engine creates a new folder.
    folders: u32,
    pub epoch: u64,
    pub running: Option<Running>,
}

impl Host {
    pub fn new() -> std::io::Result<Self> {
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let host = Self {
            folder: in_memory.or_else(|_| tempfile::tempdir())?,
            folders: 0,
            epoch: 0,
            running: None,
        };
        std::fs::create_dir(host.history_folder())?;
        Ok(host)
    }

    pub fn history_folder(&self) -> PathBuf {
        self.folder.path().join(self.folders.to_string())
    }

    pub fn image(&self) -> Image {
        let mut files = Image::new();
        read(&self.history_folder(), Path::new(""), &mut files);
        files
    }

    /// Ends the process abruptly. The next start finds the files of `image`, or the current files if
    /// `image` is `None`.
    pub fn end(&mut self, image: Option<Image>) -> std::io::Result<()> {
        let image = image.unwrap_or_else(|| self.image());
        self.running = None;
        std::fs::remove_dir_all(self.history_folder())?;
        self.folders += 1;
        std::fs::create_dir(self.history_folder())?;
        for (name, bytes) in image {
            let path = self.history_folder().join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, bytes)?;
        }
        Ok(())
    }

    /// Starts the process, and deploys the library.
    pub fn start(&mut self, variables: &[(String, DataType)], at: Moment) -> Result<(), String> {
        self.epoch += 1;
        let engine = Engine::new(EngineOptions::new("simulated", self.epoch));
        let opened = FileHistory::open(
            self.history_folder(),
            rules(),
            &engine,
            Box::new(NoWake),
            at.wall,
        );
        let history = Arc::new(opened.map_err(|error| error.to_string())?);
        self.running = Some(Running {
            service: Service::new(&engine),
            engine,
            history,
        });
        self.deploy(variables, at)
    }

    pub fn deploy(&mut self, variables: &[(String, DataType)], at: Moment) -> Result<(), String> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let deployed = running.engine.libraries().deploy_retained(
            &library(variables),
            true,
            &|_, _| None,
            at.now,
            at.wall,
            &mut Wakes::new(),
        );
        let deployed = deployed.map_err(|error| error.to_string())?;
        let followed = running.history.follow(&deployed.handles, at.wall);
        followed.map_err(|error| error.to_string())
    }
}

fn read(folder: &Path, inside: &Path, files: &mut Image) {
    for entry in std::fs::read_dir(folder.join(inside))
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = inside.join(entry.file_name());
        if entry.path().is_dir() {
            read(folder, &name, files);
        } else if let Ok(bytes) = std::fs::read(entry.path()) {
            files.insert(name, bytes);
        }
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Returns the files that remain if the process ends during a commit. A commit writes the log from front to
/// back, and then syncs it.
pub fn within_commit(before: &Image, after: &Image, loses_power: bool, rng: &mut Rng) -> Image {
    let mut image = after.clone();
    // A new log is created only after the previous one was synced.
    let newest = image
        .keys()
        .rfind(|path| has_extension(path, "tlh"))
        .cloned();
    for (path, new) in &mut image {
        let old = before.get(path).map_or(0, Vec::len);
        if Some(path) == newest.as_ref() && new.len() > old {
            let cut = rng.range(old as u64, new.len() as u64) as usize;
            match loses_power && rng.chance(0.5) {
                // The disk has the new length of the file, but not the bytes.
                true => new[cut..].fill(0),
                false => new.truncate(cut),
            }
        }
    }
    image
}

/// Returns the files that remain if the process ends during maintenance. Before the catalogue changes, any
/// of the new files may exist in addition to the old files. After that, any of the old files may still exist.
pub fn within_maintenance(before: &Image, after: &Image, rng: &mut Rng) -> Image {
    let is_catalogue = |path: &Path| path.to_string_lossy().starts_with("catalogue");
    let has_new_catalogue = rng.chance(0.5);
    let (certain, others) = match has_new_catalogue {
        true => (after, before),
        false => (before, after),
    };
    let mut image = certain.clone();
    let names: BTreeSet<&PathBuf> = others.keys().collect();
    for path in names {
        if !image.contains_key(path) && !is_catalogue(path) && rng.chance(0.5) {
            let bytes = others.get(path).cloned().unwrap_or_default();
            image.insert(path.clone(), bytes);
        }
    }
    // Add a file that was being written.
    if !has_new_catalogue && rng.chance(0.5) {
        let name = PathBuf::from("unfinished/part.parquet");
        image.insert(name, vec![7; rng.index(5000)]);
    }
    image
}

/// Calls `work` while no file can become longer than `bytes`. The limit applies to the whole process.
pub fn with_file_limit<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    let _blocked = signals.thread_block();
    let before = getrlimit(Resource::Fsize);
    let limit = Rlimit {
        current: Some(bytes),
        maximum: before.maximum,
    };
    let is_limited = setrlimit(Resource::Fsize, limit).is_ok();
    let done = work();
    if is_limited {
        let _ended = setrlimit(Resource::Fsize, before);
    }
    done
}

/// Returns the length of the newest log, in bytes.
pub fn log_length(image: &Image) -> u64 {
    let mut logs = image.iter().rev();
    let newest = logs.find(|(path, _)| has_extension(path, "tlh"));
    newest.map_or(0, |(_, bytes)| bytes.len() as u64)
}
