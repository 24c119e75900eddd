//! A folder as a file system keeps it: the files that programs see, and those that survive a loss
//! of power.
//!
//! The model: written data is in memory until the file is synced; for each unsynced 512-byte
//! sector, the disk has the old or the new bytes; the file's length is the old or the new one; a
//! created or removed file exists or not until its folder is synced.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const SECTOR: usize = 512;

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// The files that programs see, and the part that is certain to be on the disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    seen: Files,
    /// Contents at the last sync of each file, whether its name is certain or not.
    synced: Files,
    /// The names that are certain.
    names: Vec<String>,
}

/// The files of one folder.
#[derive(Debug)]
pub struct Image(Files);

impl Disk {
    /// Reads the folder again.
    pub fn rescan(&mut self, folder: &Path) {
        let before = std::mem::replace(&mut self.seen, read(folder));
        // A renamed file keeps the part that is certain to be on the disk.
        for (name, bytes) in &self.seen {
            let mut synced = self.synced.iter();
            let is_it =
                |old: &String, synced: &Vec<u8>| !self.seen.contains_key(old) && synced == bytes;
            if !before.contains_key(name) && synced.any(|(old, synced)| is_it(old, synced)) {
                self.synced.insert(name.clone(), bytes.clone());
            }
        }
    }

    /// The file was synced with its visible content.
    pub fn sync_file(&mut self, name: &str) {
        if let Some(bytes) = self.seen.get(name) {
            self.synced.insert(name.to_owned(), bytes.clone());
        }
    }

    /// The folder was synced.
    pub fn sync_folder(&mut self) {
        self.names = self.seen.keys().cloned().collect();
        self.synced.retain(|name, _| self.seen.contains_key(name));
    }

    /// The state that a killed process leaves.
    pub fn as_it_is(&self) -> Image {
        Image(self.seen.clone())
    }

    /// The minimum that a loss of power leaves.
    pub fn only_synced(&self) -> Image {
        let files = self.names.iter().map(|name| {
            let bytes = self.synced.get(name).cloned().unwrap_or_default();
            (name.clone(), bytes)
        });
        Image(files.collect())
    }

    /// One of the things that a loss of power might leave.
    pub fn after_power_cut(&self, seed: u64) -> Image {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut files = Files::new();
        let certain = |name: &String| self.names.contains(name);
        let names = self
            .names
            .iter()
            .chain(self.seen.keys().filter(|name| !certain(name)));
        for name in names {
            let (old, new) = (self.synced.get(name), self.seen.get(name));
            let is_there = match (certain(name), new) {
                (true, Some(_)) => true,
                _ => random.bool(),
            };
            if is_there {
                let new = new.or(old).map_or(&[][..], Vec::as_slice);
                let old = old.map_or(&[][..], Vec::as_slice);
                files.insert(name.clone(), mixed(old, new, &mut random));
            }
        }
        Image(files)
    }
}

/// Sectors of the one or the other, up to the one's or the other's length.
fn mixed(old: &[u8], new: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let length = if random.bool() { old.len() } else { new.len() };
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let range = bytes.len()..(bytes.len() + SECTOR).min(length);
        let from = if random.bool() { old } else { new };
        let sector = from.get(range.clone());
        match sector.or_else(|| new.get(range.clone())) {
            Some(sector) => bytes.extend_from_slice(sector),
            // Never written: zeros, or the existing part of the sector.
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
    /// The files that a folder holds now.
    pub fn of(folder: &Path) -> Self {
        Self(read(folder))
    }

    /// Makes `folder` hold these files and nothing else.
    pub fn write_to(&self, folder: &Path) {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir(folder).expect("there is room");
        for (name, bytes) in &self.0 {
            fs::write(folder.join(name), bytes).expect("there is room");
        }
    }
}

fn read(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).expect("the file can be changed");
    let entries = entries.map(|entry| entry.expect("it is there"));
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (
                name,
                fs::read(entry.path()).expect("the file can be changed"),
            )
        })
        .collect()
}
