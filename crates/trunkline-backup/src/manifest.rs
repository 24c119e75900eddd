//! Reads and writes the manifest, which lists the files of a backup.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::{create_file, sync_folder};

/// Version of the backup format.
const VERSION: u32 = 1;
/// File name of the manifest.
const NAME: &str = "manifest.json";
/// Maximum size of a manifest in bytes, enough for about 10 million files.
const BYTES_MAX: u64 = 2 << 30;

/// The manifest of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the backup format.
    pub form: u32,
    /// Version of the program that made the backup.
    pub program: String,
    /// Name of the engine.
    pub engine: String,
    /// Identity of the engine's store, in hexadecimal digits; empty if there is no store.
    pub engine_id: String,
    /// Time at which the backup began, in RFC 3339 format.
    pub taken: String,
    /// Number of the run that made or last renewed the backup.
    pub run: u64,
    /// All files, sorted by path.
    pub files: Vec<Entry>,
    /// Files of the engine that were damaged when they were copied.
    pub damage: Vec<Finding>,
}

/// The manifest entry of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// `store.db`, or a path that begins with `history/`.
    pub path: String,
    /// Number of the run that copied the file. The folder with the file has this number as its name.
    pub run: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// CRC-32C of the file.
    pub crc32c: u32,
    /// The checksum of the file in the history's catalogue; omitted for files that the catalogue does not
    /// list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<u32>,
}

/// A file that is damaged or missing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Path of the file, as in the manifest.
    pub path: String,
    /// Sentence that describes the damage.
    pub what: String,
}

/// The stored form of a manifest. The checksum covers the manifest without white space.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    crc32c: u32,
    manifest: Manifest,
}

impl Entry {
    /// Returns the path of the file in the backup.
    pub(crate) fn place(&self, backup: &Path) -> PathBuf {
        backup.join(self.run.to_string()).join(&self.path)
    }

    /// Returns true if the path is that of the store, or is inside `history/`.
    fn is_inside(&self) -> bool {
        let path = Path::new(&self.path);
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        is_plain && (self.path == STORE || self.path.starts_with(HISTORY))
    }
}

/// Path of the store in a backup.
pub(crate) const STORE: &str = "store.db";
/// Prefix of the paths of the history's files in a backup.
pub(crate) const HISTORY: &str = "history/";

impl Manifest {
    pub(crate) fn new(engine: &str, taken: String) -> Self {
        Self {
            form: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            engine: engine.to_owned(),
            engine_id: String::new(),
            taken,
            run: 1,
            files: Vec::new(),
            damage: Vec::new(),
        }
    }

    /// Returns the total length of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reads the manifest of a backup. Returns `None` if there is no manifest.
    pub(crate) fn read(backup: &Path) -> Result<Option<Self>, Error> {
        let path = backup.join(NAME);
        let length = match fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(Error::io(&path))?.len(),
        };
        let damaged = |what: String| Error::Manifest {
            path: path.clone(),
            what,
        };
        if length > BYTES_MAX {
            return Err(damaged(format!(
                "it has {length} bytes, more than the maximum of {BYTES_MAX}"
            )));
        }
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        let sealed: Result<Sealed, _> = serde_json::from_slice(&bytes);
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(_) if version_of(&bytes) > u64::from(VERSION) => {
                return Err(Error::Newer(backup.to_owned()));
            }
            Err(error) => return Err(damaged(error.to_string())),
        };
        let manifest = sealed.manifest;
        if sum_of(&manifest).map_err(damaged)? != sealed.crc32c {
            return Err(damaged("its checksum does not match".to_owned()));
        }
        if manifest.form > VERSION {
            return Err(Error::Newer(backup.to_owned()));
        }
        if let Some(entry) = manifest.files.iter().find(|entry| !entry.is_inside()) {
            return Err(damaged(format!(
                "{:?} is not a path in a backup",
                entry.path
            )));
        }
        Ok(Some(manifest))
    }

    /// Replaces the manifest of a backup atomically.
    pub(crate) fn write(&self, backup: &Path) -> Result<(), Error> {
        let (path, new) = (backup.join(NAME), backup.join("manifest.json.new"));
        let failed = |what: String| Error::Manifest {
            path: new.clone(),
            what,
        };
        let sealed = Sealed {
            crc32c: sum_of(self).map_err(failed)?,
            manifest: self.clone(),
        };
        let mut text = serde_json::to_vec_pretty(&sealed).map_err(|e| failed(e.to_string()))?;
        text.push(b'\n');
        let written = create_file(&new).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        });
        written.map_err(Error::io(&path))?;
        sync_folder(backup)
    }
}

fn sum_of(manifest: &Manifest) -> Result<u32, String> {
    let text = serde_json::to_vec(manifest).map_err(|error| error.to_string())?;
    Ok(crc32c::crc32c(&text))
}

/// Returns the format version of a manifest that may have unknown keys; 0 if it cannot be read.
fn version_of(bytes: &[u8]) -> u64 {
    let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    value["manifest"]["form"].as_u64().unwrap_or(0)
}
