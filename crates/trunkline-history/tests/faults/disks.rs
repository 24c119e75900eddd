//! The two folders of a history with a spool, and what may happen to their disks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use trunkline_engine::history::{History, HistoryError, SpoolState};
use trunkline_types::Value;

use crate::disk_full::{VARIABLES, some_writes};
use crate::rig::{
    Line, Plant, SECOND, START, assert_same, copy, files_of, folder, length_of_log, limited,
};

/// The folder of a history and its spool, and the rows written to the history.
pub(crate) struct Disks {
    pub(crate) root: TempDir,
    epoch: u64,
    pub(crate) time: i64,
    pub(crate) written: Vec<Line>,
}

impl Disks {
    pub(crate) fn new() -> Self {
        Self {
            root: folder(),
            epoch: 0,
            time: START,
            written: Vec::new(),
        }
    }

    /// Starts an engine whose folder has no room for the rows after its first ones, so that they are in
    /// the spool.
    pub(crate) fn spooling() -> (Self, Plant) {
        let mut disks = Self::new();
        let mut plant = disks.start();
        disks.write(&mut plant);
        disks.record_with_room(&plant, 10);
        (disks, plant)
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.root.path().join("history")
    }

    pub(crate) fn spool(&self) -> PathBuf {
        self.root.path().join("spool")
    }

    pub(crate) fn try_start(&mut self) -> Result<Plant, HistoryError> {
        self.epoch += 1;
        let (history, spool) = (self.history(), self.spool());
        Plant::open_with_spool(&history, Some(&spool), self.epoch, self.time, &VARIABLES)
    }

    pub(crate) fn start(&mut self) -> Plant {
        let mut plant = self.try_start().unwrap();
        self.lengthen(&mut plant);
        plant
    }

    /// Makes the log in the folder longer than other files, so that only the log reaches a limit.
    pub(crate) fn lengthen(&mut self, plant: &mut Plant) {
        let long = Value::String("x".repeat(150_000).into());
        self.written.push(plant.write("text", &long));
        record(plant);
    }

    /// Ends the engine without a stop.
    pub(crate) fn kill(&mut self, plant: Plant) {
        self.time = plant.time + SECOND;
        drop(plant);
    }

    pub(crate) fn write(&mut self, plant: &mut Plant) {
        self.written.extend(some_writes(plant, 3));
    }

    /// Records while the log in the folder has room for this number of bytes.
    pub(crate) fn record_with_room(&self, plant: &Plant, room: u64) {
        let length = length_of_log(&self.history());
        limited(length + room, || plant.record());
    }

    /// Returns the number of logs in the spool.
    pub(crate) fn logs(&self) -> usize {
        files_of(&self.spool(), "tlh").len()
    }

    pub(crate) fn assert_all(&self, plant: &Plant, what: &str) {
        assert_same(&plant.everything().lines, &self.written, what);
    }

    /// Expects that the history can be written again, and that all rows of the spool are moved back.
    pub(crate) fn assert_back(&self, plant: &Plant, what: &str) {
        plant.maintain();
        plant.record();
        plant.maintain();
        assert_eq!(state(plant).cause, None, "{what}");
        assert_eq!(plant.history.figures().spooled, 0, "{what}");
        assert_eq!(self.logs(), 0, "{what}");
        self.assert_all(plant, what);
    }
}

/// Records everything. If there are too many closed segments, moves them to files first.
pub(crate) fn record(plant: &Plant) {
    plant.record();
    if !plant.history.is_idle() {
        plant.maintain();
        plant.record();
    }
    assert!(plant.history.is_idle());
}

pub(crate) fn state(plant: &Plant) -> SpoolState {
    plant.history.spool().unwrap()
}

/// What replaces a file or folder that is moved away.
pub(crate) enum Replacement<'a> {
    Nothing,
    /// An empty file: a folder cannot be created there, as if the mount point were missing.
    File,
    /// An empty folder: reading it as a file fails.
    Folder,
    /// A copy of a folder, as if another disk were mounted there.
    CopyOf(&'a Path),
    /// A link to itself: looking it up fails.
    Loop,
    /// A pipe: its reader waits for a writer.
    Pipe,
}

/// A file or folder that was moved away.
pub(crate) struct Away {
    path: PathBuf,
    pub(crate) kept: PathBuf,
}

impl Away {
    pub(crate) fn new(path: PathBuf, replacement: Replacement<'_>) -> Self {
        let kept = path.with_extension("away");
        fs::rename(&path, &kept).unwrap();
        match replacement {
            Replacement::Nothing => {}
            Replacement::File => fs::write(&path, "").unwrap(),
            Replacement::Folder => fs::create_dir(&path).unwrap(),
            Replacement::CopyOf(other) => copy(other, &path),
            Replacement::Loop => symlink(&path, &path).unwrap(),
            Replacement::Pipe => make_pipe(&path),
        }
        Self { path, kept }
    }

    /// Moves it back, instead of its replacement.
    pub(crate) fn restore(self) {
        match self.path.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&self.path).unwrap(),
            Ok(_) => fs::remove_file(&self.path).unwrap(),
            Err(_) => {}
        }
        fs::rename(self.kept, self.path).unwrap();
    }
}

pub(crate) fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}
