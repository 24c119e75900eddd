//! Creates or updates a backup.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use trunkline_engine::history::HistoryError;
use trunkline_engine::store::StoreErrorKind;
use trunkline_history::backup_files::{self, CopyError, LOCK, Listed, UNFINISHED};
use trunkline_types::Timestamp;

use crate::error::Error;
use crate::files::{
    Meter, Sum, copy, create_file, create_folder, folder_of, remove_file_if_there,
    remove_folder_if_there, sum_of, sync_folder,
};
use crate::manifest::{Entry, Finding, HISTORY, Manifest, STORE};
use crate::verify::damage_of;
use crate::{EnginePaths, Watch};

/// Maximum number of attempts to copy a database. Each attempt waits for the disk, so that together they take
/// several seconds.
const DATABASE_ATTEMPTS: u32 = 500;
/// Maximum number of attempts to copy the catalogue and the files that it lists, while files are replaced.
const CATALOGUE_ATTEMPTS: u32 = 100;
/// Name of the lock file in the folder of a backup.
const BACKUP_LOCK: &str = "backup.lock";

/// The result of [`create`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// The manifest of the new backup.
    pub manifest: Manifest,
    /// Number and total bytes of the copied files. All other files were already in the backup.
    pub copied: (u64, u64),
    /// Damaged files of the older backup. The new backup does not use them.
    pub damaged_in_older: Vec<Finding>,
}

/// Copies the files of an engine to a folder. If the folder contains a backup of the engine, copies only the
/// files that it lacks, and replaces the old backup atomically at the end. If `checks_older` is true, files
/// that are already in the backup are read, and are copied again if they are damaged.
///
/// The engine may be running, but must be in another process: when a process closes a file, the operating
/// system releases all locks that the process has on the file, including those of SQLite. The backup contains
/// everything that the engine stored before the call.
///
/// # Errors
/// Returns an [`Error`] if the files cannot be copied. An older backup in the folder then stays unchanged.
pub fn create(
    backup: &Path,
    engine: &str,
    places: &EnginePaths,
    checks_older: bool,
    now: Timestamp,
    watch: &mut Watch<'_>,
) -> Result<Created, Error> {
    let places = EnginePaths {
        store: places.store.as_deref().map(resolve),
        history: places.history.as_deref().map(resolve),
    };
    check_exists(&places)?;
    let _lock = prepare(backup, &places)?;
    let older = Manifest::read(backup)?;
    if let Some(older) = &older
        && older.engine != engine
    {
        return Err(Error::OtherEngine {
            path: backup.to_owned(),
            engine: older.engine.clone(),
        });
    }
    if older.is_some() {
        remove_leftovers(backup, older.as_ref())?;
    }
    let mut manifest = Manifest::new(engine, now.to_string());
    manifest.run = next_run(backup)?;
    let run_folder = backup.join(manifest.run.to_string());
    create_folder(&run_folder)?;
    let mut run = Run {
        backup,
        older: older.as_ref(),
        checks_older,
        manifest,
        meter: Meter::new(None, watch),
        folders: HashSet::from([backup.to_owned(), run_folder.clone()]),
        copied: (0, 0),
        damaged_in_older: Vec::new(),
    };
    let copied = run.copy_all(&places).and_then(|()| run.finish());
    if copied.is_err() && Manifest::read(backup).is_ok_and(|now| now == older) {
        // Remove the files copied so far. If this fails, the next run removes them.
        let _ = fs::remove_dir_all(&run_folder);
    }
    copied?;
    let Run {
        manifest,
        copied,
        damaged_in_older,
        ..
    } = run;
    remove_leftovers(backup, Some(&manifest))?;
    Ok(Created {
        manifest,
        copied,
        damaged_in_older,
    })
}

/// Returns the number of the next run. Numbers of existing folders are not reused, because a folder without a
/// manifest may contain valuable files.
fn next_run(backup: &Path) -> Result<u64, Error> {
    let mut newest = 0;
    for folder in fs::read_dir(backup).map_err(Error::io(backup))? {
        let name = folder.map_err(Error::io(backup))?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        newest = newest.max(number.unwrap_or(0));
    }
    Ok(newest.saturating_add(1))
}

/// Returns the absolute path without symbolic links. The file or folder need not exist.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    if let Ok(resolved) = fs::canonicalize(path) {
        return resolved;
    }
    let target = match fs::read_link(path) {
        Ok(target) => folder_of(path).join(target),
        Err(_) => path.to_owned(),
    };
    let folder = folder_of(&target);
    let folder = fs::canonicalize(&folder).or_else(|_| std::path::absolute(&folder));
    match (folder, target.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => target,
    }
}

/// Fails unless a store or a history is configured, and at least one of them exists.
fn check_exists(places: &EnginePaths) -> Result<(), Error> {
    let paths: Vec<&Path> = [&places.store, &places.history]
        .into_iter()
        .filter_map(Option::as_deref)
        .collect();
    if paths.is_empty() {
        return Err(Error::NothingConfigured);
    }
    if !paths.iter().any(|path| path.exists()) {
        let names = paths.iter().map(|path| path.display().to_string());
        return Err(Error::NoEngineFiles(
            names.collect::<Vec<_>>().join(" and no "),
        ));
    }
    Ok(())
}

/// Creates the folder of the backup and locks it. Fails if the folder contains other files, or if it overlaps
/// the history's folder.
fn prepare(backup: &Path, places: &EnginePaths) -> Result<File, Error> {
    let place = resolve(backup);
    if let Some(history) = &places.history
        && (place.starts_with(history) || history.starts_with(&place))
    {
        return Err(Error::OverlapsHistory(backup.to_owned()));
    }
    create_folder(backup)?;
    let lock = backup.join(BACKUP_LOCK);
    if !lock.exists() {
        let mut content = fs::read_dir(backup).map_err(Error::io(backup))?;
        if content.next().is_some() {
            return Err(Error::NotEmpty(backup.to_owned()));
        }
    }
    let file = create_file(&lock).map_err(Error::io(&lock))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse(backup.to_owned())),
        Err(TryLockError::Error(error)) => Err(Error::io(&lock)(error)),
    }
}

/// Removes files that are not in the manifest from the folders of all runs.
fn remove_leftovers(backup: &Path, manifest: Option<&Manifest>) -> Result<(), Error> {
    let files = manifest.map_or(&[][..], |manifest| &manifest.files);
    let known: HashSet<PathBuf> = files.iter().map(|entry| entry.place(backup)).collect();
    remove_file_if_there(&backup.join("manifest.json.new"))?;
    for folder in fs::read_dir(backup).map_err(Error::io(backup))? {
        let folder = folder.map_err(Error::io(backup))?;
        let name = folder.file_name();
        let is_run = name
            .to_str()
            .is_some_and(|name| name.parse::<u64>().is_ok());
        if is_run {
            prune(&folder.path(), &known)?;
        }
    }
    Ok(())
}

/// Removes all files except those in `known`, and removes empty folders. Returns true if `folder` was
/// removed.
fn prune(folder: &Path, known: &HashSet<PathBuf>) -> Result<bool, Error> {
    let mut is_empty = true;
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let entry = entry.map_err(Error::io(folder))?;
        let path = entry.path();
        if entry.file_type().map_err(Error::io(&path))?.is_dir() {
            is_empty &= prune(&path, known)?;
        } else if known.contains(&path) {
            is_empty = false;
        } else {
            remove_file_if_there(&path)?;
        }
    }
    if is_empty {
        remove_folder_if_there(folder)?;
    }
    Ok(is_empty)
}

/// Files that this run has copied or reused for any state of the catalogue: from path and identity to the
/// entry and the damage, if any.
#[derive(Default)]
struct CopiedFiles(HashMap<(String, Option<u32>), (Entry, Option<Finding>)>);

/// A backup in progress.
struct Run<'a, 'w> {
    backup: &'a Path,
    /// The manifest of the older backup in the folder.
    older: Option<&'a Manifest>,
    /// True if files of the older backup are verified before they are reused.
    checks_older: bool,
    manifest: Manifest,
    meter: Meter<'a, 'w>,
    /// Folders that must be synced, because they have new entries.
    folders: HashSet<PathBuf>,
    /// Number and total bytes of the copied files.
    copied: (u64, u64),
    damaged_in_older: Vec<Finding>,
}

impl<'a> Run<'a, '_> {
    /// Fails if the older backup has a store or history that the engine does not have now, because the new
    /// backup would delete its only copy.
    fn check_older_parts(&self, places: &EnginePaths) -> Result<(), Error> {
        let Some(older) = self.older else {
            return Ok(());
        };
        let exists = |path: Option<&PathBuf>| path.is_some_and(|path| path.exists());
        let has = |prefix: &str| older.files.iter().any(|one| one.path.starts_with(prefix));
        for (part, prefix, path) in [
            ("history", HISTORY, places.history.as_ref()),
            ("store", STORE, places.store.as_ref()),
        ] {
            if has(prefix) && !exists(path) {
                return Err(Error::PartMissing(part));
            }
        }
        Ok(())
    }

    fn copy_all(&mut self, places: &EnginePaths) -> Result<(), Error> {
        self.check_older_parts(places)?;
        if let Some(history) = places.history.as_deref().filter(|folder| folder.exists()) {
            self.copy_history(history)?;
        }
        if let Some(store) = places.store.as_deref().filter(|store| store.exists()) {
            self.copy_store(store)?;
        }
        Ok(())
    }

    /// Returns the folder with the files of this run.
    fn run_folder(&self) -> PathBuf {
        self.backup.join(self.manifest.run.to_string())
    }

    /// Returns the destination of a file in this run, and creates its folder.
    fn place(&mut self, path: &str) -> Result<PathBuf, Error> {
        let run_folder = self.run_folder();
        let place = run_folder.join(path);
        let folder = folder_of(&place);
        create_folder(&folder)?;
        let new = folder
            .ancestors()
            .take_while(|above| above.starts_with(&run_folder));
        self.folders.extend(new.map(Path::to_owned));
        Ok(place)
    }

    /// Reads a copied file again, and returns its manifest entry. `expected` is the checksum of the original;
    /// `None` if the copy was changed after it was made.
    fn entry(
        &mut self,
        path: &str,
        expected: Option<Sum>,
        identity: Option<u32>,
    ) -> Result<Entry, Error> {
        let place = self.place(path)?;
        let sum = sum_of(&place, &mut self.meter)?;
        let is_as_written = expected.is_none_or(|expected| expected == sum);
        if !is_as_written {
            return Err(Error::Unreliable(place));
        }
        self.copied.0 += 1;
        self.copied.1 += sum.bytes;
        self.meter.end_file();
        Ok(Entry {
            path: path.to_owned(),
            run: self.manifest.run,
            bytes: sum.bytes,
            crc32c: sum.crc32c,
            identity,
        })
    }

    /// Copies a database that is in use, together with its write-ahead log.
    fn copy_database(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        let meter = &mut self.meter;
        let copied =
            backup_files::copy_database(from, to, DATABASE_ATTEMPTS, &mut |from, to| match copy(
                from, to, meter,
            ) {
                Ok(_) => Ok(true),
                Err(error) if error.is_not_found() => Ok(false),
                Err(error) => Err(error),
            });
        copied.map_err(|error| match error {
            CopyError::Io { path, error } => Error::io(&path)(error),
            CopyError::Changing => Error::Changing(from.to_owned()),
            CopyError::Copy(error) => error,
        })
    }

    fn add(&mut self, path: &str, expected: Option<Sum>) -> Result<(), Error> {
        let entry = self.entry(path, expected, None)?;
        self.manifest.files.push(entry);
        Ok(())
    }

    fn note_damage(&mut self, path: &str, what: impl Into<String>) {
        self.manifest.damage.push(Finding {
            path: path.to_owned(),
            what: what.into(),
        });
    }

    fn copy_store(&mut self, store: &Path) -> Result<(), Error> {
        let place = self.place(STORE)?;
        self.copy_database(store, &place)?;
        let contents = trunkline_store::complete_copy(&place).map_err(|mut error| {
            error.location = store.display().to_string();
            Error::Store(error)
        })?;
        self.manifest.engine_id = contents
            .engine_id
            .map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect())
            .unwrap_or_default();
        if let Some(older) = self.older
            && !older.engine_id.is_empty()
            && !self.manifest.engine_id.is_empty()
            && older.engine_id != self.manifest.engine_id
        {
            return Err(Error::OtherEngine {
                path: self.backup.to_owned(),
                engine: older.engine.clone(),
            });
        }
        for one in contents.damage {
            let what = format!("the {} {} is damaged", one.kind, one.name);
            self.note_damage(STORE, what);
        }
        self.add(STORE, None)
    }

    /// Copies the logs first, then the catalogue, then the files that it lists.
    fn copy_history(&mut self, folder: &Path) -> Result<(), Error> {
        self.copy_logs(folder)?;
        let path = format!("{HISTORY}{}", backup_files::CATALOGUE);
        let mut files = CopiedFiles::default();
        let mut before = None;
        for _ in 0..CATALOGUE_ATTEMPTS {
            let catalogue = folder.join(backup_files::CATALOGUE);
            if !catalogue.exists() {
                return self.check_without_catalogue(folder);
            }
            let copy = self.place(&path)?;
            self.copy_database(&catalogue, &copy)?;
            let listed = backup_files::finish_catalogue_copy(&copy)
                .map_err(|error| at_source(error, folder))?;
            // If the catalogue has not changed, a missing file was not replaced by another file.
            let is_same = before.as_ref() == Some(&listed);
            if self.copy_listed(folder, &listed, is_same, &mut files)? {
                return self.add(&path, None);
            }
            before = Some(listed);
        }
        Err(Error::Replaced(folder.to_owned()))
    }

    /// Fails if a history without a catalogue has other files. The engine creates the catalogue before any
    /// other file.
    fn check_without_catalogue(&mut self, folder: &Path) -> Result<(), Error> {
        let has_samples = folder.join("samples").exists();
        let mut paths = self.manifest.files.iter().map(|entry| &entry.path);
        if has_samples || paths.any(|path| path.starts_with(HISTORY)) {
            let what = "its catalogue.sqlite is missing, but its other files exist";
            let kind = StoreErrorKind::Damaged(what.to_owned());
            return Err(Error::History(HistoryError::Files {
                location: folder.display().to_string(),
                kind,
            }));
        }
        Ok(())
    }

    fn copy_logs(&mut self, folder: &Path) -> Result<(), Error> {
        for log in backup_files::logs(folder).map_err(Error::History)? {
            let name = log.path.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{HISTORY}{name}");
            let place = self.place(&path)?;
            let sum = match copy(&log.path, &place, &mut self.meter) {
                Ok(sum) => sum,
                // The rows of this log have moved to files, which are copied later.
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            let mut copied_log = log.clone();
            copied_log.path = place;
            let damage = backup_files::damage_of_log(&copied_log).map_err(Error::History)?;
            if !damage.is_empty() {
                self.note_damage(&path, damage);
            }
            self.add(&path, Some(sum))?;
        }
        Ok(())
    }

    /// Copies the files that the catalogue lists, their companion files, and files of other kinds. Returns
    /// false if a file was replaced in the meantime, so that the catalogue must be copied again. If `is_last`
    /// is true, such a file is reported as missing instead.
    fn copy_listed(
        &mut self,
        folder: &Path,
        listed: &[Listed],
        is_last: bool,
        files: &mut CopiedFiles,
    ) -> Result<bool, Error> {
        let by_stem: HashMap<&str, &Listed> = listed.iter().map(|one| (one.stem(), one)).collect();
        let mut paths: BTreeMap<String, Option<&Listed>> = BTreeMap::new();
        for inside in other_files(folder)? {
            match backup_files::stem_of(&inside) {
                // A file that the catalogue does not list is left over, or newer than the catalogue.
                Some(stem) => {
                    if let Some(one) = by_stem.get(stem) {
                        paths.insert(inside, Some(*one));
                    }
                }
                None => {
                    paths.insert(inside, None);
                }
            }
        }
        for one in listed {
            paths.insert(one.path().to_owned(), Some(one));
        }
        let (mut entries, mut damage) = (Vec::new(), Vec::new());
        for (inside, of) in paths {
            let path = format!("{HISTORY}{inside}");
            let identity = of.map(Listed::identity);
            let key = (path.clone(), identity);
            if let Some((entry, what)) = files.0.get(&key).filter(|_| identity.is_some()) {
                entries.push(entry.clone());
                damage.extend(what.clone());
                continue;
            }
            if let Some(entry) = self.reusable_entry(&path, identity)? {
                files.0.insert(key, (entry.clone(), None));
                entries.push(entry);
                continue;
            }
            let place = self.place(&path)?;
            let sum = match copy(&folder.join(&inside), &place, &mut self.meter) {
                Ok(sum) => sum,
                Err(error) if error.is_not_found() && is_last => {
                    let what = "the catalogue lists it, but it is missing".to_owned();
                    damage.push(Finding { path, what });
                    continue;
                }
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(error),
            };
            let what = match of {
                Some(one) => one.damage(&self.run_folder().join(HISTORY), &inside),
                None => String::new(),
            };
            if !what.is_empty() && backup_files::is_redundant(&inside) {
                // The history does not need this file, and the next run copies it again.
                remove_file_if_there(&place)?;
                continue;
            }
            let what = (!what.is_empty()).then(|| Finding {
                path: path.clone(),
                what,
            });
            let entry = self.entry(&path, Some(sum), identity)?;
            files.0.insert(key, (entry.clone(), what.clone()));
            entries.push(entry);
            damage.extend(what);
        }
        self.manifest.files.extend(entries);
        self.manifest.damage.extend(damage);
        Ok(true)
    }

    /// Returns the entry of a file in the older backup if the new backup can use it: the file was intact when
    /// it was copied, and still is.
    fn reusable_entry(
        &mut self,
        path: &str,
        identity: Option<u32>,
    ) -> Result<Option<Entry>, Error> {
        let Some(entry) = self.older_entry(path, identity) else {
            return Ok(None);
        };
        let place = entry.place(self.backup);
        let damage = match self.checks_older {
            true => damage_of(&place, entry, &mut self.meter)?,
            false => match fs::metadata(&place) {
                Ok(file) if file.is_file() && file.len() == entry.bytes => None,
                _ => Some("it is missing, or its length has changed".to_owned()),
            },
        };
        match damage {
            None => Ok(Some(entry.clone())),
            Some(what) => {
                self.damaged_in_older.push(Finding {
                    path: path.to_owned(),
                    what,
                });
                Ok(None)
            }
        }
    }

    /// Returns the entry of a file in the older backup if the file was intact when it was copied, and the
    /// file of the history has not changed since.
    fn older_entry(&self, path: &str, identity: Option<u32>) -> Option<&'a Entry> {
        let older = self.older?;
        let index = older
            .files
            .binary_search_by(|entry| entry.path.as_str().cmp(path));
        let entry = older.files.get(index.ok()?)?;
        let was_damaged = older.damage.iter().any(|finding| finding.path == path);
        let is_same = identity.is_some() && entry.identity == identity;
        (is_same && !was_damaged).then_some(entry)
    }

    /// Makes all copied files durable, then replaces the manifest.
    fn finish(&mut self) -> Result<(), Error> {
        self.manifest.files.sort_by(|a, b| a.path.cmp(&b.path));
        for folder in &self.folders {
            sync_folder(folder)?;
        }
        self.manifest.write(self.backup)
    }
}

/// Replaces the location in an error about a copy with the location of the original.
fn at_source(error: HistoryError, folder: &Path) -> Error {
    Error::History(match error {
        HistoryError::Files { kind, .. } => HistoryError::Files {
            location: folder.display().to_string(),
            kind,
        },
        other @ (HistoryError::Spool { .. }
        | HistoryError::ForeignSpool { .. }
        | HistoryError::Query(_)) => other,
    })
}

/// Returns the relative paths of the files of a history, except for those that are copied separately or not
/// at all: the logs, the catalogue, the lock file and unfinished files.
fn other_files(folder: &Path) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        let place = folder.join(&inside);
        let entries = match fs::read_dir(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.map_err(Error::io(&place))?,
        };
        for entry in entries {
            let entry = entry.map_err(Error::io(&place))?;
            let path = inside.join(entry.file_name());
            let Some(name) = path.to_str().map(str::to_owned) else {
                continue;
            };
            let is_top = inside.as_os_str().is_empty();
            let is_copied_elsewhere = is_top
                && (name == LOCK
                    || name == UNFINISHED
                    || name.starts_with(backup_files::CATALOGUE)
                    || name.ends_with(".tlh"));
            let kind = match entry.file_type() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                kind => kind.map_err(Error::io(&entry.path()))?,
            };
            if is_copied_elsewhere {
                continue;
            } else if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}
