//! Files that are not in the catalogue: leftovers of a crash, or the only copies of rows.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::catalogue::{PartRow, Series};
use crate::error::Error;
use crate::files::footer::{self, FooterContent};
use crate::files::join::date_of;
use crate::files::part::{self, Part, SeriesSpan};
use crate::files::{files_in, summary};
use crate::paths::{SET_APART, UNFINISHED, files_below, remove_if_there};

/// Returns true if all rows of a file have expired, given its series with the extent of their rows.
pub(crate) type HasExpired<'a> = &'a dyn Fn(&[(Series, SeriesSpan)]) -> bool;

/// Removes unfinished files, files whose rows are still in the log or in files of the catalogue, and
/// files whose rows have all expired. Moves other files that are not in the catalogue to `set-apart`:
/// nothing that may be the only copy is removed. Returns the number of files moved.
pub(crate) fn remove(
    folder: &Path,
    known: &[PartRow],
    logs: &[u64],
    is_expired: HasExpired<'_>,
) -> Result<usize, Error> {
    let mut count = 0;
    let unfinished = folder.join(UNFINISHED);
    if unfinished.exists() {
        std::fs::remove_dir_all(unfinished)?;
    }
    let mut segments_of_date: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    let paths: HashSet<&str> = known.iter().map(|part| part.path.as_str()).collect();
    for path in files_in(folder)? {
        if paths.contains(path.as_str()) {
            continue;
        }
        let content = content(folder, &path);
        let has_expired = |content: &FooterContent| is_expired(&content.series);
        let is_removed = content.as_ref().is_some_and(has_expired);
        let own = own_segments(content.as_ref(), &path);
        let in_logs = matches!(own.as_slice(), [(one, last)] if one == last && logs.contains(one));
        let from = folder.join(&path);
        let of_date = || segments_of(folder, date_of(&path), known);
        let others = segments_of_date
            .entry(date_of(&path).to_owned())
            .or_insert_with(of_date);
        if is_removed || in_logs || are_in(&own, others) {
            remove_if_there(&from)?;
        } else {
            set_apart(folder, &path)?;
            count += 1;
        }
    }
    remove_companions(folder, known)?;
    Ok(count)
}

/// Moves a file and the second copy of its footer to `set-apart`, or to a numbered folder within it if
/// the name is taken.
fn set_apart(folder: &Path, path: &str) -> Result<(), Error> {
    let copy = footer::copy_path(folder, path);
    let copy = copy.strip_prefix(folder).unwrap_or(&copy);
    let has_copy = folder.join(copy).exists();
    let apart = folder.join(SET_APART);
    let numbered = (2..).map(|number: u64| apart.join(number.to_string()));
    // After an interrupted move, only the copy may be there.
    let is_taken =
        |place: &PathBuf| place.join(path).exists() || (has_copy && place.join(copy).exists());
    let place = std::iter::once(apart.clone())
        .chain(numbered)
        .find(|place| !is_taken(place));
    let place = place.unwrap_or(apart);
    if has_copy {
        rename_into(&folder.join(copy), &place.join(copy))?;
    }
    rename_into(&folder.join(path), &place.join(path))
}

fn rename_into(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    Ok(std::fs::rename(from, to)?)
}

/// Removes summaries and footers that belong to no file of the catalogue.
fn remove_companions(folder: &Path, known: &[PartRow]) -> Result<(), Error> {
    let of_part = |part: &PartRow| {
        let summary = summary::path_of(folder, &part.path);
        [summary, footer::copy_path(folder, &part.path)]
    };
    let known: HashSet<PathBuf> = known.iter().flat_map(of_part).collect();
    for name in [summary::FOLDER, footer::FOLDER] {
        for path in files_below(&folder.join(name))? {
            if !known.contains(&path) {
                remove_if_there(&path)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn sentence(count: usize) -> String {
    format!("the catalogue lacks {count} files, which were moved to the folder set-apart")
}

/// Returns the segments whose rows are in the catalogue's files of a date.
fn segments_of(folder: &Path, date: &str, known: &[PartRow]) -> Vec<(u64, u64)> {
    let of_date = known.iter().filter(|part| date_of(&part.path) == date);
    let segments = of_date.filter_map(|row| Part::new(folder, row.clone()).segments().ok());
    segments.flatten().collect()
}

/// Returns true if `others` cover all of these segments.
fn are_in(own: &[(u64, u64)], others: &[(u64, u64)]) -> bool {
    let is_in = |segment: u64| {
        let mut others = others.iter();
        others.any(|(from, to)| (*from..=*to).contains(&segment))
    };
    let mut numbers = own.iter().flat_map(|(from, to)| *from..=*to);
    !own.is_empty() && numbers.all(is_in)
}

/// Returns the log segments whose rows a file has: from its footer, or from its name if the footer
/// cannot be read.
fn own_segments(content: Option<&FooterContent>, path: &str) -> Vec<(u64, u64)> {
    match content {
        Some(content) => content.note.segments.clone(),
        None => part::segments_of(path).into_iter().collect(),
    }
}

/// Returns the content of a file's footer, or `None` if it cannot be read.
fn content(folder: &Path, path: &str) -> Option<FooterContent> {
    let footer = footer::find(&folder.join(path), &footer::copy_path(folder, path));
    footer.and_then(|footer| footer.content()).ok()
}
