//! Removes or sets apart files that are not in the catalogue. Such files are left over from a crash, or are
//! the only copies of rows.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::catalogue::{PartRow, Series};
use crate::error::Error;
use crate::files::footer::{self, FooterContent};
use crate::files::join::date_of;
use crate::files::part::{self, Part, SeriesSpan};
use crate::files::{files_in, summary};
use crate::paths::{SET_APART, UNFINISHED, files_below, remove_if_there};
use crate::private;

/// A callback that returns true if all rows of a file have expired, given the series and row ranges of the
/// file.
pub(crate) type HasExpired<'a> = &'a dyn Fn(&[(Series, SeriesSpan)]) -> bool;

/// Cleans up files that are not in the catalogue. Removes unfinished files, files whose rows are still in the
/// log or in files of the catalogue, and files whose rows have all expired. Moves all other files to
/// `set-apart`, because they may be the only copies of their rows. Returns the number of files moved.
pub(crate) fn remove(
    folder: &Path,
    listed: &[PartRow],
    logs: &[u64],
    is_expired: HasExpired<'_>,
) -> Result<usize, Error> {
    let mut count = 0;
    let unfinished = folder.join(UNFINISHED);
    if unfinished.exists() {
        std::fs::remove_dir_all(unfinished)?;
    }
    let mut segments_of_date: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    let paths: HashSet<&str> = listed.iter().map(|part| part.path.as_str()).collect();
    for path in files_in(folder)? {
        if paths.contains(path.as_str()) {
            continue;
        }
        let content = content(folder, &path);
        let has_expired = |content: &FooterContent| is_expired(&content.series);
        let is_removed = content.as_ref().is_some_and(has_expired);
        let segments = own_segments(content.as_ref(), &path);
        let in_logs =
            matches!(segments.as_slice(), [(one, last)] if one == last && logs.contains(one));
        let from = folder.join(&path);
        let of_date = || segments_of(folder, date_of(&path), listed);
        let others = segments_of_date
            .entry(date_of(&path).to_owned())
            .or_insert_with(of_date);
        if is_removed || in_logs || are_covered(&segments, others) {
            remove_if_there(&from)?;
        } else {
            set_apart(folder, &path)?;
            count += 1;
        }
    }
    remove_companions(folder, listed)?;
    Ok(count)
}

/// Moves a file and the copy of its footer to `set-apart`, or to a numbered subfolder if `set-apart` already
/// contains a file with this path.
fn set_apart(folder: &Path, path: &str) -> Result<(), Error> {
    let copy = footer::copy_path(folder, path);
    let copy = copy.strip_prefix(folder).unwrap_or(&copy);
    let has_copy = folder.join(copy).exists();
    let set_apart_folder = folder.join(SET_APART);
    let numbered = (2..).map(|number: u64| set_apart_folder.join(number.to_string()));
    // After an interrupted move, possibly only the copy of the footer was moved.
    let is_taken =
        |place: &PathBuf| place.join(path).exists() || (has_copy && place.join(copy).exists());
    let place = std::iter::once(set_apart_folder.clone())
        .chain(numbered)
        .find(|place| !is_taken(place));
    let place = place.unwrap_or(set_apart_folder);
    if has_copy {
        rename_into(&folder.join(copy), &place.join(copy))?;
    }
    rename_into(&folder.join(path), &place.join(path))
}

fn rename_into(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(parent) = to.parent() {
        private::create_folders(parent)?;
    }
    Ok(std::fs::rename(from, to)?)
}

/// Removes summaries and copies of footers that belong to no file of the catalogue.
fn remove_companions(folder: &Path, listed: &[PartRow]) -> Result<(), Error> {
    let companions_of = |part: &PartRow| {
        let summary = summary::path_of(folder, &part.path);
        [summary, footer::copy_path(folder, &part.path)]
    };
    let listed: HashSet<PathBuf> = listed.iter().flat_map(companions_of).collect();
    for name in [summary::FOLDER, footer::FOLDER] {
        for path in files_below(&folder.join(name))? {
            if !listed.contains(&path) {
                remove_if_there(&path)?;
            }
        }
    }
    Ok(())
}

/// Returns a sentence for users about the number of files that were set apart.
pub(crate) fn sentence(count: usize) -> String {
    format!("{count} files were not in the catalogue, and were moved to the folder set-apart")
}

/// Returns the segments whose rows are in the catalogue's files of one date.
fn segments_of(folder: &Path, date: &str, listed: &[PartRow]) -> Vec<(u64, u64)> {
    let of_date = listed.iter().filter(|part| date_of(&part.path) == date);
    let segments = of_date.filter_map(|row| Part::new(folder, row.clone()).segments().ok());
    segments.flatten().collect()
}

/// Returns true if `others` contain all of these segments, and there is at least one segment.
fn are_covered(segments: &[(u64, u64)], others: &[(u64, u64)]) -> bool {
    let is_covered = |segment: u64| {
        let mut others = others.iter();
        others.any(|(from, to)| (*from..=*to).contains(&segment))
    };
    let mut numbers = segments.iter().flat_map(|(from, to)| *from..=*to);
    !segments.is_empty() && numbers.all(is_covered)
}

/// Returns the log segments whose rows a file contains. They are in the footer; if the footer cannot be read,
/// the name of the file is used.
fn own_segments(content: Option<&FooterContent>, path: &str) -> Vec<(u64, u64)> {
    match content {
        Some(content) => content.note.segments.clone(),
        None => part::segments_of(path).into_iter().collect(),
    }
}

/// Returns the content of a file's footer; `None` if it cannot be read.
fn content(folder: &Path, path: &str) -> Option<FooterContent> {
    let footer = footer::find(&folder.join(path), &footer::copy_path(folder, path));
    footer.and_then(|footer| footer.content()).ok()
}
