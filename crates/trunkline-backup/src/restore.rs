//! Replaces the files of an engine with those of a backup.
//!
//! First, the files are copied next to their destinations. Then a note, a file next to the first destination,
//! lists the moves that exchange the old files for the new ones. Then the moves are made in the order of the
//! note. If the command is killed before the note is written, the old files are still in place. If the
//! command is killed later, the next call makes the remaining moves of the note.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use trunkline_history::backup_files::{self, FolderLock};
use trunkline_store::StoreLock;
use trunkline_types::Timestamp;

use crate::create::resolve;
use crate::error::{Error, reason};
use crate::files::{
    Meter, copy, create_file, create_folder, folder_of, remove_file_if_there,
    remove_folder_if_there, sync_folder, with_suffix,
};
use crate::manifest::{Entry, Finding, HISTORY, Manifest, STORE};
use crate::verify::{compare, difference};
use crate::{EnginePaths, Watch};

/// Suffix of the path to which files are copied before they are moved to their destination.
const COPYING: &str = ".restoring";
/// Suffix of the path of the note.
const NOTE: &str = ".restore";
/// Suffixes of the files that SQLite keeps next to a store.
const STORE_LOGS: [&str; 2] = ["-wal", "-shm"];

/// The result of [`restore`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The manifest of the backup; `None` if an interrupted restore was completed.
    pub manifest: Option<Manifest>,
    /// New paths of the files that were at the destinations before.
    pub aside: Vec<PathBuf>,
    /// Damaged files of the backup that were not restored, because the engine does not need them.
    pub omitted: Vec<Finding>,
}

/// The note: the moves that exchange the old files for the new ones.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// An explanation for people who find the note.
    what: String,
    moves: Vec<Move>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    from: PathBuf,
    to: PathBuf,
    /// True if the move moves an old file aside.
    is_aside: bool,
}

/// Returns the path of the note of an interrupted restore to these paths; `None` if there is none. No engine
/// may start with these files until the restore is completed.
pub fn unfinished_restore(places: &EnginePaths) -> Option<PathBuf> {
    let mut notes = configured_paths(places).map(|place| with_suffix(&resolve(place), NOTE));
    notes.find(|note| note.exists())
}

/// Verifies and restores a backup. If `may_replace` is true, existing files are moved aside; they are never
/// deleted. Damaged files that the history does not need are left out: summaries, and copies of footers. If
/// an earlier restore was interrupted, completes that restore instead.
///
/// # Errors
/// Returns an [`Error`] if the backup cannot be restored. The files of the engine are then unchanged, except
/// after [`Error::Unfinished`] and [`Error::IncompleteMove`].
pub fn restore(
    backup: &Path,
    places: &EnginePaths,
    may_replace: bool,
    now: Timestamp,
    watch: &mut Watch<'_>,
) -> Result<Restored, Error> {
    if let Some(note) = unfinished_restore(places) {
        let aside = complete(&note, take_locks(&resolve_places(places))?, &mut make_move)?;
        return Ok(Restored {
            manifest: None,
            aside,
            omitted: Vec::new(),
        });
    }
    let mut manifest = Manifest::read(backup)?.ok_or_else(|| Error::NoBackup(backup.to_owned()))?;
    let findings = compare(backup, &manifest, watch)?;
    let (omitted, findings): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_redundant);
    if !findings.is_empty() {
        return Err(Error::Damaged {
            backup: backup.to_owned(),
            findings,
        });
    }
    let omitted_paths: HashSet<&str> = omitted.iter().map(|one| one.path.as_str()).collect();
    manifest
        .files
        .retain(|entry| !omitted_paths.contains(entry.path.as_str()));
    let places = destinations(&manifest, places)?;
    let moves = plan(&places, now);
    if let Some(place) = configured_paths(&places).find(|place| is_mount_point(place)) {
        return Err(Error::MountPoint(place.clone()));
    }
    drop(take_locks(&places)?);
    let existing = moves.iter().find(|one| one.is_aside && one.from.exists());
    if let Some(one) = existing
        && !may_replace
    {
        return Err(Error::Exists(one.from.clone()));
    }
    let copied = copy_beside(backup, &manifest, &places, watch);
    let aside = copied.and_then(|()| exchange(backup, &places, moves));
    if aside.is_err() && unfinished_restore(&places).is_none() {
        for place in configured_paths(&places) {
            // If this fails, the next restore removes the files.
            let _ = remove_any(&with_suffix(place, COPYING));
        }
    }
    Ok(Restored {
        manifest: Some(manifest),
        aside: aside?,
        omitted,
    })
}

/// Returns the configured paths of the store and the history.
fn configured_paths(places: &EnginePaths) -> impl Iterator<Item = &PathBuf> {
    [&places.store, &places.history].into_iter().flatten()
}

fn resolve_places(places: &EnginePaths) -> EnginePaths {
    EnginePaths {
        store: places.store.as_deref().map(resolve),
        history: places.history.as_deref().map(resolve),
    }
}

/// Returns the destinations of the store and the history, each only if the backup contains it.
fn destinations(manifest: &Manifest, places: &EnginePaths) -> Result<EnginePaths, Error> {
    let mut files = manifest.files.iter();
    let has_store = files.clone().any(|entry| entry.path == STORE);
    let has_history = files.any(|entry| entry.path.starts_with(HISTORY));
    let destination = |has: bool, place: &Option<PathBuf>, part| match (has, place) {
        (true, None) => Err(Error::NotConfigured(part)),
        (true, Some(place)) => Ok(Some(resolve(place))),
        (false, _) => Ok(None),
    };
    Ok(EnginePaths {
        store: destination(has_store, &places.store, "store")?,
        history: destination(has_history, &places.history, "history")?,
    })
}

/// Exchanges the old files for the new ones, which were copied next to their destinations. Returns the new
/// paths of the old files. After an error, the note remains if any file was moved.
fn exchange(backup: &Path, places: &EnginePaths, moves: Vec<Move>) -> Result<Vec<PathBuf>, Error> {
    let Some(first) = configured_paths(places).next() else {
        return Err(Error::NoBackup(backup.to_owned()));
    };
    let note = with_suffix(first, NOTE);
    write_note(&note, backup, moves.clone())?;
    let first_move = moves.iter().find(|one| one.from.exists());
    // An engine that starts from now on finds the note and stops. The locks detect an engine that started
    // before.
    let exchanged = take_locks(places).and_then(|locks| complete(&note, locks, &mut make_move));
    match exchanged {
        Err(error) if first_move.is_some_and(|one| one.from.exists()) => {
            // No file was moved.
            remove_file_if_there(&note)?;
            Err(match error {
                Error::IncompleteMove { from, to, why } => Error::NotMoved { from, to, why },
                error => error,
            })
        }
        exchanged => exchanged,
    }
}

/// Returns true if the history does not need the file.
fn is_redundant(finding: &Finding) -> bool {
    let inside = finding.path.strip_prefix(HISTORY);
    inside.is_some_and(backup_files::is_redundant)
}

/// Returns true if the path is a mount point, which cannot be renamed.
fn is_mount_point(place: &Path) -> bool {
    let found = statx(CWD, place, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// The locks that keep engines from using the files while they are moved.
type Locks = (Option<StoreLock>, Option<FolderLock>);

fn take_locks(places: &EnginePaths) -> Result<Locks, Error> {
    let store = match &places.store {
        Some(store) => StoreLock::take(store).map_err(Error::Store)?,
        None => None,
    };
    let history = match &places.history {
        Some(history) => FolderLock::take(history).map_err(Error::History)?,
        None => None,
    };
    Ok((store, history))
}

/// Returns the moves in order. The moves of old files come first.
fn plan(places: &EnginePaths, now: Timestamp) -> Vec<Move> {
    let time: String = now
        .to_string()
        .chars()
        .take_while(|letter| *letter != '.')
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let suffix = format!(".replaced-{}Z", time.trim_end_matches('Z'));
    let mut moves = Vec::new();
    let mut aside = |from: PathBuf, to: PathBuf| {
        moves.push(Move {
            from,
            to,
            is_aside: true,
        });
    };
    if let Some(store) = &places.store {
        let old = with_suffix(store, &suffix);
        aside(store.to_owned(), old.clone());
        // SQLite would apply a log of the old store to the new store.
        for end in STORE_LOGS {
            aside(with_suffix(store, end), with_suffix(&old, end));
        }
    }
    if let Some(folder) = &places.history {
        aside(folder.to_owned(), with_suffix(folder, &suffix));
    }
    for place in configured_paths(places) {
        moves.push(Move {
            from: with_suffix(place, COPYING),
            to: place.to_owned(),
            is_aside: false,
        });
    }
    moves
}

/// Copies the files of a backup next to their destinations.
fn copy_beside(
    backup: &Path,
    manifest: &Manifest,
    places: &EnginePaths,
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let mut meter = Meter::new(Some(manifest.bytes()), watch);
    let mut folders = Vec::new();
    for place in configured_paths(places) {
        remove_any(&with_suffix(place, COPYING))?;
        create_folder(&folder_of(place))?;
        folders.push(folder_of(place));
    }
    for entry in &manifest.files {
        let to = match (entry.path.strip_prefix(HISTORY), places) {
            (
                Some(inside),
                EnginePaths {
                    history: Some(history),
                    ..
                },
            ) => with_suffix(history, COPYING).join(inside),
            (
                None,
                EnginePaths {
                    store: Some(store), ..
                },
            ) => with_suffix(store, COPYING),
            _ => continue,
        };
        let folder = folder_of(&to);
        create_folder(&folder)?;
        // The folder and its parents may be new, so they must be synced.
        for new in folder.ancestors() {
            if folders.iter().any(|listed| listed == new) {
                break;
            }
            folders.push(new.to_owned());
        }
        copy_one(backup, entry, &to, &mut meter)?;
    }
    for folder in &folders {
        sync_folder(folder)?;
    }
    Ok(())
}

fn copy_one(
    backup: &Path,
    entry: &Entry,
    to: &Path,
    meter: &mut Meter<'_, '_>,
) -> Result<(), Error> {
    let sum = copy(&entry.place(backup), to, meter)?;
    meter.end_file();
    match difference(entry, sum) {
        None => Ok(()),
        Some(what) => Err(Error::Damaged {
            backup: backup.to_owned(),
            findings: vec![Finding {
                path: entry.path.clone(),
                what,
            }],
        }),
    }
}

fn write_note(note: &Path, backup: &Path, moves: Vec<Move>) -> Result<(), Error> {
    let content = Note {
        what: format!(
            "a restore of {} was interrupted; run the same `trunkline backup restore` again to \
             complete it",
            backup.display()
        ),
        moves,
    };
    let new = with_suffix(note, ".new");
    let written = serde_json::to_vec_pretty(&content)
        .map_err(std::io::Error::other)
        .and_then(|text| {
            let mut file = create_file(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, note)
        });
    written.map_err(Error::io(note))?;
    sync_folder(&folder_of(note))
}

/// Makes the remaining moves of a note, and removes the note. Returns the new paths of the old files.
fn complete(
    note: &Path,
    locks: Locks,
    make: &mut dyn FnMut(&Move) -> Result<(), Error>,
) -> Result<Vec<PathBuf>, Error> {
    let text = fs::read(note).map_err(Error::io(note))?;
    let content: Note = serde_json::from_slice(&text)
        .map_err(|error| Error::io(note)(std::io::Error::other(error.to_string())))?;
    let mut aside = Vec::new();
    // If any new file was moved already, all old files were moved, and a file at a destination is new.
    let has_moved_new = content
        .moves
        .iter()
        .any(|one| !one.is_aside && !one.from.exists());
    for one in &content.moves {
        if !(one.is_aside && has_moved_new) {
            make(one)?;
        }
        // Log files are part of the store, so do not list them.
        let is_log = STORE_LOGS
            .iter()
            .any(|end| one.to.to_string_lossy().ends_with(end));
        if one.is_aside && !is_log && one.to.exists() {
            aside.push(one.to.clone());
        }
        // Make each move durable, so that after a power loss, no new file is in place unless all old files
        // were moved.
        sync_folder(&folder_of(&one.to))?;
    }
    // The locks can be released before the note is removed, because engines do not start while it exists.
    drop(locks);
    remove_file_if_there(note)?;
    sync_folder(&folder_of(note))?;
    Ok(aside)
}

/// Moves a file or a folder. Does nothing if it does not exist, for example because it was moved already.
fn make_move(one: &Move) -> Result<(), Error> {
    let stuck = |why: String| Error::IncompleteMove {
        from: one.from.clone(),
        to: one.to.clone(),
        why,
    };
    if !one.from.exists() {
        return Ok(());
    }
    if one.to.exists() {
        return Err(stuck("the destination exists".to_owned()));
    }
    fs::rename(&one.from, &one.to).map_err(|error| stuck(reason(&error)))
}

fn remove_any(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(path)(error)),
        Ok(existing) if existing.is_dir() => remove_folder_if_there(path),
        Ok(_) => remove_file_if_there(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name and the content of each file or folder.
    fn content(folder: &Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let file = if path.is_dir() { path.join("in") } else { path };
            found.push((name, fs::read_to_string(file).unwrap()));
        }
        found.sort();
        found
    }

    /// Returns true if this process holds a lock of this kind on a file.
    fn is_locked(kind: &str, file: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let inode = format!(":{} ", fs::metadata(file).unwrap().ino());
        let own = format!(" {} ", std::process::id());
        let all = fs::read_to_string("/proc/locks").unwrap();
        all.lines()
            .any(|line| line.contains(kind) && line.contains(&inode) && line.contains(&own))
    }

    /// Without the locks, an engine that checked for the note before it was written might use the files while
    /// they are moved.
    #[test]
    fn files_are_locked_while_they_are_moved() {
        let now = Timestamp::from_nanos(1_790_000_000_000_000_000);
        let folder = tempfile::tempdir().unwrap();
        let (store, history) = (folder.path().join("p.db"), folder.path().join("p.history"));
        drop(trunkline_store::SqliteStore::open(&store).unwrap());
        fs::create_dir(&history).unwrap();
        fs::write(with_suffix(&store, COPYING), "new").unwrap();
        fs::create_dir(with_suffix(&history, COPYING)).unwrap();
        let places = EnginePaths {
            store: Some(store.clone()),
            history: Some(history.clone()),
        };
        let moves = plan(&places, now);
        let note = with_suffix(&store, NOTE);
        write_note(&note, Path::new("b"), moves.clone()).unwrap();
        let locks = take_locks(&places).unwrap();
        let (old_store, old_history) = (&moves.first().unwrap().to, &moves.get(3).unwrap().to);
        let mut made = 0;
        let aside = complete(&note, locks, &mut |one| {
            make_move(one)?;
            made += 1;
            assert!(is_locked("POSIX", old_store), "{made}");
            if one.to == *old_history || !one.is_aside {
                assert!(
                    is_locked("FLOCK", &old_history.join(backup_files::LOCK)),
                    "{made}"
                );
            }
            Ok(())
        });
        assert_eq!(aside.unwrap(), [old_store.clone(), old_history.clone()]);
        assert_eq!(made, 6);
        assert!(!is_locked("POSIX", old_store));
        assert!(!note.exists());
    }

    #[test]
    fn restore_that_was_killed_after_any_move_is_completed() {
        let now = Timestamp::from_nanos(1_790_000_000_000_000_000);
        let mut all = Vec::new();
        for kill in 0..=8 {
            let folder = tempfile::tempdir().unwrap();
            let (store, history) = (folder.path().join("p.db"), folder.path().join("p.history"));
            for (suffix, text) in [("", "old"), (COPYING, "new")] {
                fs::write(with_suffix(&store, suffix), text).unwrap();
                fs::create_dir(with_suffix(&history, suffix)).unwrap();
                fs::write(with_suffix(&history, suffix).join("in"), text).unwrap();
            }
            fs::write(with_suffix(&store, "-wal"), "old log").unwrap();
            let places = EnginePaths {
                store: Some(store.clone()),
                history: Some(history.clone()),
            };
            assert_eq!(unfinished_restore(&places), None);
            let moves = plan(&places, now);
            let note = with_suffix(&store, NOTE);
            write_note(&note, Path::new("b"), moves.clone()).unwrap();
            for one in moves.iter().take(kill) {
                make_move(one).unwrap();
            }
            assert_eq!(unfinished_restore(&places), Some(note));
            let done = restore(Path::new("none"), &places, true, now, &mut |_| true).unwrap();
            assert_eq!(done.manifest, None);
            assert_eq!(unfinished_restore(&places), None);
            all.push(content(folder.path()));
        }
        let old = "replaced-20260921T141320Z";
        let of = |name: String, text: &str| (name, text.to_owned());
        let expected = vec![
            of("p.db".to_owned(), "new"),
            of(format!("p.db.{old}"), "old"),
            of(format!("p.db.{old}-wal"), "old log"),
            of("p.history".to_owned(), "new"),
            of(format!("p.history.{old}"), "old"),
        ];
        for (kill, found) in all.into_iter().enumerate() {
            assert_eq!(found, expected, "killed after {kill} moves");
        }
    }
}
