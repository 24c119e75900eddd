//! Puts a backup in the place of the files of an engine.
//!
//! The files are copied beside their places first. Then a note beside the place lists the moves that
//! exchange the old files for the new ones, and they are made in this order. A command that is
//! killed before the note leaves the old files in place; later, the note tells what is left to do,
//! and the next call completes it.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trunkline_history::backup_files::FolderLock;
use trunkline_store::StoreLock;
use trunkline_types::Timestamp;

use crate::create::real;
use crate::error::Error;
use crate::files::{
    Meter, copy, create_file, create_folder, folder_of, remove_file_if_there,
    remove_folder_if_there, sync_folder, with_suffix,
};
use crate::manifest::{Entry, Finding, HISTORY, Manifest, STORE};
use crate::verify::{compare, difference};
use crate::{Places, Watch};

/// What is appended to a place for the files that are being copied, and for the note.
const COPYING: &str = ".restoring";
const NOTE: &str = ".restore";

/// The result of [`restore`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The manifest of the backup; `None` if an interrupted restore was completed.
    pub manifest: Option<Manifest>,
    /// Where the files that were in the places before are now.
    pub aside: Vec<PathBuf>,
}

/// The moves that exchange the files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// For the people who find it.
    what: String,
    moves: Vec<Move>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    from: PathBuf,
    to: PathBuf,
    /// True if it moves something that was there before.
    is_aside: bool,
}

/// Returns the note of a restore that was cut off while it replaced files of these places. Until it
/// is completed, no engine may start with them.
pub fn unfinished_restore(places: &Places) -> Option<PathBuf> {
    let places = [&places.store, &places.history].into_iter().flatten();
    let mut notes = places.map(|place| with_suffix(&real(place), NOTE));
    notes.find(|note| note.exists())
}

/// Checks a backup, and puts it in place. Files in the places are moved aside if they may be
/// replaced (`may_replace`), never deleted.
///
/// # Errors
/// [`Error`]. All but [`Error::Unfinished`] and [`Error::Stuck`] leave everything as it was.
pub fn restore(
    backup: &Path,
    places: &Places,
    may_replace: bool,
    now: Timestamp,
    watch: &mut Watch<'_>,
) -> Result<Restored, Error> {
    if let Some(note) = unfinished_restore(places) {
        let aside = complete(&note)?;
        return Ok(Restored {
            manifest: None,
            aside,
        });
    }
    let manifest = Manifest::read(backup)?.ok_or_else(|| Error::NoBackup(backup.to_owned()))?;
    let findings = compare(backup, &manifest, watch)?;
    if !findings.is_empty() {
        return Err(Error::Damaged {
            backup: backup.to_owned(),
            findings,
        });
    }
    let has_store = manifest.files.iter().any(|entry| entry.path == STORE);
    let has_history = manifest
        .files
        .iter()
        .any(|entry| entry.path.starts_with(HISTORY));
    let of = |has: bool, place: &Option<PathBuf>, what| match (has, place) {
        (true, None) => Err(Error::NoPlace(what)),
        (true, Some(place)) => Ok(Some(real(place))),
        (false, _) => Ok(None),
    };
    let store = of(has_store, &places.store, "store")?;
    let history = of(has_history, &places.history, "history")?;
    let moves = plan(store.as_deref(), history.as_deref(), now);
    let first = [&store, &history].into_iter().flatten().next();
    let Some(first) = first else {
        return Err(Error::NoBackup(backup.to_owned()));
    };
    let in_use = || take_locks(store.as_deref(), history.as_deref());
    drop(in_use()?);
    let there = moves.iter().find(|one| one.is_aside && one.from.exists());
    if let Some(one) = there
        && !may_replace
    {
        return Err(Error::Exists(one.from.clone()));
    }
    let copied = copy_beside(
        backup,
        &manifest,
        store.as_deref(),
        history.as_deref(),
        watch,
    );
    if let Err(error) = copied {
        for place in [&store, &history].into_iter().flatten() {
            // The next restore removes what cannot be removed now.
            let _ = remove_any(&with_suffix(place, COPYING));
        }
        return Err(error);
    }
    let note = with_suffix(first, NOTE);
    write_note(&note, backup, moves)?;
    // An engine that looks for the note from now on does not start. One may have started before.
    match in_use() {
        Ok(locks) => drop(locks),
        Err(error) => {
            remove_file_if_there(&note)?;
            return Err(error);
        }
    }
    let aside = complete(&note)?;
    Ok(Restored {
        manifest: Some(manifest),
        aside,
    })
}

fn take_locks(
    store: Option<&Path>,
    history: Option<&Path>,
) -> Result<(Option<StoreLock>, Option<FolderLock>), Error> {
    let store = match store {
        Some(store) => StoreLock::take(store).map_err(Error::Store)?,
        None => None,
    };
    let history = match history {
        Some(history) => FolderLock::take(history).map_err(Error::History)?,
        None => None,
    };
    Ok((store, history))
}

/// Returns the moves, in the order in which they are made: everything old first.
fn plan(store: Option<&Path>, history: Option<&Path>, now: Timestamp) -> Vec<Move> {
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
    if let Some(store) = store {
        let old = with_suffix(store, &suffix);
        // A log of the old store would damage the new one.
        for end in ["", "-wal", "-shm"] {
            aside(with_suffix(store, end), with_suffix(&old, end));
        }
    }
    if let Some(folder) = history {
        aside(folder.to_owned(), with_suffix(folder, &suffix));
    }
    for place in [store, history].into_iter().flatten() {
        moves.push(Move {
            from: with_suffix(place, COPYING),
            to: place.to_owned(),
            is_aside: false,
        });
    }
    moves
}

/// Copies the files of a backup to places beside their own.
fn copy_beside(
    backup: &Path,
    manifest: &Manifest,
    store: Option<&Path>,
    history: Option<&Path>,
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let mut meter = Meter::new(Some(manifest.bytes()), watch);
    let mut folders = Vec::new();
    for place in [store, history].into_iter().flatten() {
        remove_any(&with_suffix(place, COPYING))?;
        create_folder(&folder_of(place))?;
        folders.push(folder_of(place));
    }
    for entry in &manifest.files {
        let to = match (entry.path.strip_prefix(HISTORY), store, history) {
            (Some(inside), _, Some(history)) => with_suffix(history, COPYING).join(inside),
            (None, Some(store), _) => with_suffix(store, COPYING),
            _ => continue,
        };
        let folder = folder_of(&to);
        create_folder(&folder)?;
        // A folder and those above it may be new.
        for new in folder.ancestors() {
            if folders.iter().any(|known| known == new) {
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

/// Makes the moves of a note that are not made yet, and removes it. Returns what was moved aside.
fn complete(note: &Path) -> Result<Vec<PathBuf>, Error> {
    let text = fs::read(note).map_err(Error::io(note))?;
    let content: Note = serde_json::from_slice(&text)
        .map_err(|error| Error::io(note)(std::io::Error::other(error.to_string())))?;
    let mut aside = Vec::new();
    // Once the new files begin to come into their places, what is there is not old.
    let has_begun = content
        .moves
        .iter()
        .any(|one| !one.is_aside && !one.from.exists());
    for one in &content.moves {
        if !(one.is_aside && has_begun) {
            move_to(one)?;
        }
        if one.is_aside && one.to.exists() {
            aside.push(one.to.clone());
        }
        // Everything old is out of its place for sure before anything new comes.
        sync_folder(&folder_of(&one.to))?;
    }
    remove_file_if_there(note)?;
    sync_folder(&folder_of(note))?;
    Ok(aside)
}

/// Moves a file or a folder, unless that is done already.
fn move_to(one: &Move) -> Result<(), Error> {
    let stuck = |why: String| Error::Stuck {
        from: one.from.clone(),
        to: one.to.clone(),
        why,
    };
    if !one.from.exists() {
        return Ok(());
    }
    if one.to.exists() {
        return Err(stuck("there is something already".to_owned()));
    }
    fs::rename(&one.from, &one.to).map_err(|error| stuck(error.to_string()))
}

fn remove_any(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(path)(error)),
        Ok(there) if there.is_dir() => remove_folder_if_there(path),
        Ok(_) => remove_file_if_there(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of each file of a place, with the old or the new one.
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
            let places = Places {
                store: Some(store.clone()),
                history: Some(history.clone()),
            };
            assert_eq!(unfinished_restore(&places), None);
            let moves = plan(Some(&store), Some(&history), now);
            let note = with_suffix(&store, NOTE);
            write_note(&note, Path::new("b"), moves.clone()).unwrap();
            for one in moves.iter().take(kill) {
                move_to(one).unwrap();
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
