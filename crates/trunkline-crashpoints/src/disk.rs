//! Models a folder and its subfolders: the files that programs see, and the files that survive a loss of
//! power.
//!
//! Written data is in memory until the file is synced. For each unsynced sector of 512 bytes, the disk has
//! either the old or the new bytes. The length of the file is either the old or the new length. A created,
//! renamed or removed file or folder may or may not exist until its parent folder is synced. If a file was
//! removed and created again, or another file was renamed to its name, the name refers to either the old or
//! the new file until the sync, never to a mixture of both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const SECTOR: usize = 512;

/// Files by their paths in the folder. Points share the content of files that do not change between them.
type Files = BTreeMap<PathBuf, Rc<Vec<u8>>>;

/// The files that programs see, and the part of them that certainly survives a loss of power.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    visible: Files,
    /// The folders that programs see, including empty ones.
    folders: BTreeSet<PathBuf>,
    /// Content of each file at its last sync, even if the name of the file is not durable.
    synced: Files,
    /// Removed files with their content at the last sync, until their removal is durable.
    removed: Files,
    /// The files and folders that certainly exist after a loss of power.
    durable_names: BTreeSet<PathBuf>,
}

/// A copy of the files of a folder.
#[derive(Debug)]
pub struct Image(Files);

impl Disk {
    /// Updates the visible files from the folder.
    pub(crate) fn rescan(&mut self, folder: &Path) {
        let mut visible = Files::new();
        self.folders.clear();
        let folders = &mut self.folders;
        read_files(folder, Path::new(""), &self.visible, &mut visible, folders);
        let previous = std::mem::replace(&mut self.visible, visible);
        // A renamed file keeps its synced content.
        for (name, bytes) in &self.visible {
            let mut synced = self.synced.iter();
            let is_renamed = |old: &PathBuf, synced: &Rc<Vec<u8>>| {
                !self.visible.contains_key(old) && synced == bytes
            };
            let is_changed = previous.get(name) != Some(bytes);
            if is_changed && synced.any(|(old, synced)| is_renamed(old, synced)) {
                let replaced = self.synced.insert(name.clone(), Rc::clone(bytes));
                if previous.contains_key(name) && self.is_durable(name) {
                    let replaced = replaced.unwrap_or_default();
                    self.removed.entry(name.clone()).or_insert(replaced);
                }
            }
        }
        for name in previous
            .keys()
            .filter(|name| !self.visible.contains_key(*name))
        {
            let synced = self.synced.remove(name).unwrap_or_default();
            if self.is_durable(name) {
                // If several files have had this name since the last sync, only the first one is durable.
                self.removed.entry(name.clone()).or_insert(synced);
            }
        }
    }

    /// Records that the file was synced with its visible content.
    pub(crate) fn sync_file(&mut self, name: &Path) {
        if let Some(bytes) = self.visible.get(name) {
            self.synced.insert(name.to_owned(), Rc::clone(bytes));
        }
    }

    /// Records that the folder was synced. A sync covers its entries, but not the entries of its subfolders.
    pub(crate) fn sync_folder(&mut self, folder: &Path) {
        let is_in = |name: &Path| name.parent() == Some(folder);
        self.durable_names.retain(|name| !is_in(name));
        // The removal of files in this folder is now durable.
        self.removed.retain(|name, _| !is_in(name));
        let visible = self.visible.keys().chain(&self.folders);
        let entries = visible.filter(|name| is_in(name));
        self.durable_names.extend(entries.cloned());
    }

    /// Returns the state that a killed process leaves.
    pub fn after_kill(&self) -> Image {
        Image(self.visible.clone())
    }

    /// Returns true if the file and all its parent folders certainly exist.
    fn is_durable(&self, name: &Path) -> bool {
        let mut path_and_parents = name.ancestors().filter(|path| *path != Path::new(""));
        path_and_parents.all(|path| self.durable_names.contains(path))
    }

    /// Returns the files that may exist: the visible ones, and those whose removal is not durable.
    fn possible_names(&self) -> BTreeSet<&PathBuf> {
        self.visible.keys().chain(self.removed.keys()).collect()
    }

    /// Returns the state in which a loss of power leaves only the synced data.
    pub fn only_synced(&self) -> Image {
        let durable = self
            .possible_names()
            .into_iter()
            .filter(|name| self.is_durable(name));
        let files = durable.map(|name| {
            let removed = self.removed.get(name);
            let bytes = removed.or_else(|| self.synced.get(name));
            (name.clone(), bytes.cloned().unwrap_or_default())
        });
        Image(files.collect())
    }

    /// Returns one of the states that a loss of power can leave, which `seed` selects.
    pub fn after_power_cut(&self, seed: u64) -> Image {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut files = Files::new();
        for name in self.possible_names() {
            if let Some(removed) = self.removed.get(name)
                && random.bool()
            {
                files.insert(name.clone(), Rc::clone(removed));
                continue;
            }
            let Some(new) = self.visible.get(name) else {
                continue;
            };
            let old = self.synced.get(name);
            let is_new = self.removed.contains_key(name) || !self.is_durable(name);
            if !is_new || random.bool() {
                let old = old.map_or(&[][..], |bytes| bytes.as_slice());
                files.insert(name.clone(), Rc::new(mix_sectors(old, new, &mut random)));
            }
        }
        Image(files)
    }
}

/// Takes the length, and each sector, from either `old` or `new` at random.
fn mix_sectors(old: &[u8], new: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    if old == new {
        return new.to_vec();
    }
    let length = if random.bool() { old.len() } else { new.len() };
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let range = bytes.len()..(bytes.len() + SECTOR).min(length);
        let from = if random.bool() { old } else { new };
        let sector = from.get(range.clone());
        match sector.or_else(|| new.get(range.clone())) {
            Some(sector) => bytes.extend_from_slice(sector),
            // Neither content covers the whole sector: use its existing part, followed by zeros.
            None => {
                let rest = from.get(range.start..).unwrap_or_default();
                bytes.extend_from_slice(rest);
                bytes.resize(range.end, 0);
            }
        }
    }
    bytes
}

impl Image {
    /// Reads the files of a folder.
    pub fn read(folder: &Path) -> Self {
        let mut files = Files::new();
        let mut folders = BTreeSet::new();
        read_files(
            folder,
            Path::new(""),
            &Files::new(),
            &mut files,
            &mut folders,
        );
        Self(files)
    }

    /// Replaces the content of `folder` with these files.
    pub fn write_to(&self, folder: &Path) {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir(folder).expect("the disk has room");
        for (name, bytes) in &self.0 {
            let path = folder.join(name);
            let parent = path.parent().expect("the file is in the folder");
            fs::create_dir_all(parent).expect("the disk has room");
            fs::write(path, bytes.as_slice()).expect("the disk has room");
        }
    }

    /// Returns the files, each with its length.
    pub fn names(&self) -> Vec<String> {
        let files = self.0.iter();
        files
            .map(|(name, bytes)| format!("{} ({})", name.display(), bytes.len()))
            .collect()
    }
}

fn read_files(
    folder: &Path,
    subfolder: &Path,
    known_files: &Files,
    files: &mut Files,
    folders: &mut BTreeSet<PathBuf>,
) {
    let entries = fs::read_dir(folder.join(subfolder)).expect("the file is readable");
    for entry in entries {
        let entry = entry.expect("the file exists");
        let name = subfolder.join(entry.file_name());
        if entry.file_type().expect("the file exists").is_dir() {
            read_files(folder, &name, known_files, files, folders);
            folders.insert(name);
            continue;
        }
        let bytes = fs::read(entry.path()).expect("the file is readable");
        let bytes = match known_files.get(&name).filter(|known| ***known == bytes) {
            Some(known) => Rc::clone(known),
            None => Rc::new(bytes),
        };
        files.insert(name, bytes);
    }
}
