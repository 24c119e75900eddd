//! A folder as a file system keeps it: what programs see, and what a loss of power leaves of it.
//!
//! The model: what was written lies in memory until the file is synced; of each 512-byte sector
//! that was not, the disk holds the old or the new bytes; the file's length is the old one or the
//! new one; a file that was made or removed is there or not until its folder is synced.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const SECTOR: usize = 512;

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// What programs see, and what is certain to be on the disk.
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
    /// Looks at the folder again.
    pub fn look(&mut self, folder: &Path) {
        let before = std::mem::replace(&mut self.seen, read(folder));
        // A file that was renamed takes along what is certain of it.
        for (name, bytes) in &self.seen {
            let mut synced = self.synced.iter();
            let is_it =
                |old: &String, synced: &Vec<u8>| !self.seen.contains_key(old) && synced == bytes;
            if !before.contains_key(name) && synced.any(|(old, synced)| is_it(old, synced)) {
                self.synced.insert(name.clone(), bytes.clone());
            }
        }
    }

    /// The file was synced with what is seen now.
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

    /// What a killed process leaves.
    pub fn as_it_is(&self) -> Image {
        Image(self.seen.clone())
    }

    /// What a loss of power leaves at least.
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
            // Never written: zeros, or the part of the sector that there is.
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
        let _none = fs::remove_dir_all(folder);
        fs::create_dir(folder).expect("there is room");
        for (name, bytes) in &self.0 {
            fs::write(folder.join(name), bytes).expect("there is room");
        }
    }
}

fn read(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).expect("it is there");
    let entries = entries.map(|entry| entry.expect("it is there"));
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("it is there"))
        })
        .collect()
}
