//! Files that the catalogue does not have: what a crash has left, and the only copies of rows.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::catalogue::PartRow;
use crate::compact::date_of;
use crate::error::Error;
use crate::folder::SET_APART;
use crate::footer;
use crate::part::{self, Part};
use crate::{files_below, files_in, remove_if_there, summary};

/// Removes unfinished files, and files whose rows are still in the log or in the files of the
/// catalogue. Other files that the catalogue does not have are set apart: nothing that may be the
/// only copy is removed. Returns the number of files that were set apart.
pub(crate) fn remove(folder: &Path, known: &[PartRow], logs: &[u64]) -> Result<usize, Error> {
    let mut count = 0;
    let unfinished = folder.join(part::UNFINISHED);
    if unfinished.exists() {
        std::fs::remove_dir_all(unfinished)?;
    }
    for path in files_in(folder)? {
        if known.iter().any(|part| part.path == path) {
            continue;
        }
        let own = segments(folder, &path);
        let in_logs = matches!(own.as_slice(), [(one, last)] if one == last && logs.contains(one));
        let from = folder.join(&path);
        if in_logs || is_in_others(folder, &path, &own, known) {
            remove_if_there(&from)?;
        } else {
            let apart = folder.join(SET_APART).join(&path);
            if let Some(parent) = apart.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::rename(&from, &apart)?;
            count += 1;
        }
    }
    remove_companions(folder, known)?;
    Ok(count)
}

/// Removes summaries and footers of files that the catalogue does not have.
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

/// Returns true if files of the same date have all of these segments.
fn is_in_others(folder: &Path, path: &str, own: &[(u64, u64)], known: &[PartRow]) -> bool {
    let same_date = known
        .iter()
        .filter(|part| date_of(&part.path) == date_of(path));
    let others = same_date.filter_map(|row| Part::new(folder, row.clone()).segments().ok());
    let others: Vec<(u64, u64)> = others.flatten().collect();
    let is_in = |segment: u64| {
        others
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&segment))
    };
    let mut numbers = own.iter().flat_map(|(from, to)| *from..=*to);
    !own.is_empty() && numbers.all(is_in)
}

/// The segments of the log whose rows a file has: by its footer, or by its name if that cannot be
/// read.
pub(crate) fn segments(folder: &Path, path: &str) -> Vec<(u64, u64)> {
    let footer = footer::find(&folder.join(path), &footer::copy_path(folder, path));
    match footer.and_then(|footer| footer.content()) {
        Ok(content) => content.note.segments,
        Err(_) => part::segments_of(path).into_iter().collect(),
    }
}
