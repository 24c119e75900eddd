//! Reads and writes the Parquet files, with their summaries, footers and checksums.

pub(crate) mod block_checksums;
pub(crate) mod footer;
pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod orphans;
pub(crate) mod part;
pub(crate) mod row_groups;
pub(crate) mod row_order;
mod run_columns;
pub(crate) mod schema;
pub(crate) mod seal;
pub(crate) mod summary;
pub(crate) mod unsealed;

use std::path::Path;

use crate::error::Error;
use crate::paths::files_below;

/// Returns the paths of all Parquet files of rows in a history's folder, relative to the folder.
pub(crate) fn files_in(folder: &Path) -> Result<Vec<String>, Error> {
    let all = files_below(&folder.join("samples"))?.into_iter();
    let parts = all.filter_map(|path| {
        let relative = path.strip_prefix(folder).ok()?.to_str()?;
        part::segments_of(relative).map(|_| relative.to_owned())
    });
    Ok(parts.collect())
}
