//! Keeps former segment files, and reuses them for new segments.

use std::io;
use std::sync::Arc;

use super::{Log, segment_name};
use crate::journal::disk::DiskFile;
use crate::journal::error::JournalError;

const SPARE_SUFFIX: &str = ".spare";

/// Maximum number of files kept for reuse. A file that already has space on the disk and in the page
/// cache can be written several times faster than a new file.
const SPARES_MAX: usize = 4;

/// Number of segments retired together, because each retirement costs one write of the cursor and
/// three syncs.
pub(super) const RETIRED_TOGETHER: usize = 4;

/// A former segment file, to be reused for another segment.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) name: String,
    file: Arc<dyn DiskFile>,
    len: u64,
    /// The new name of the file is durable, so new content cannot be mistaken for the former segment.
    is_name_durable: bool,
}

/// Returns true if this is the name of a file kept for reuse.
pub(in crate::journal) fn is_spare(name: &str) -> bool {
    name.ends_with(SPARE_SUFFIX)
}

impl Log {
    /// Returns the size of the file that the next segment will reuse, if any.
    pub(super) fn next_spare(&self) -> Option<u64> {
        let next = self.spares.iter().find(|spare| spare.is_name_durable);
        next.map(|spare| spare.len)
    }

    /// Creates a segment file with this name and header, and makes both durable. Returns the previous
    /// length of the file if it is reused, otherwise 0.
    pub(super) fn create_segment(
        &mut self,
        name: &str,
        header: &[u8],
    ) -> io::Result<(u64, Arc<dyn DiskFile>)> {
        let reusable = self.spares.iter().position(|spare| spare.is_name_durable);
        let Some(index) = reusable else {
            let file = self.disk.create(name)?;
            file.write_at(0, [header, &[]])?;
            file.sync()?;
            self.sync_folder()?;
            return Ok((0, file));
        };
        // The header is durable before the file gets the name, so a file with that name always has a
        // header.
        let spare = &self.spares[index];
        spare.file.write_at(0, [header, &[]])?;
        spare.file.sync()?;
        self.disk.rename(&spare.name, name)?;
        let spare = self.spares.remove(index);
        self.total -= spare.len;
        self.sync_folder()?;
        Ok((spare.len, spare.file))
    }

    pub(super) fn sync_folder(&mut self) -> io::Result<()> {
        self.disk.sync_folder()?;
        for spare in &mut self.spares {
            spare.is_name_durable = true;
        }
        Ok(())
    }

    /// Removes files kept for reuse until at most `max` of them remain.
    pub(super) fn remove_spares(&mut self, max: usize) -> Result<(), JournalError> {
        while self.spares.len() > max {
            let Some(spare) = self.spares.last() else {
                break;
            };
            let removed = self.disk.remove(&spare.name);
            removed.map_err(|cause| self.error("trimmed", cause))?;
            self.total -= self.spares.pop().map_or(0, |spare| spare.len);
        }
        Ok(())
    }

    /// Retires the first segment, and keeps the file for reuse or removes it.
    pub(super) fn retire_first(&mut self) -> io::Result<()> {
        let Some(first) = self.segments.front() else {
            return Ok(());
        };
        let name = segment_name(first.seq);
        if self.spares.len() < SPARES_MAX {
            let spare = Spare {
                name: format!("{:016x}{SPARE_SUFFIX}", first.seq),
                file: first.file.clone(),
                len: first.file_len(),
                is_name_durable: false,
            };
            self.disk.rename(&name, &spare.name)?;
            self.spares.push(spare);
        } else {
            self.disk.remove(&name)?;
            self.total -= first.file_len();
        }
        self.segments.pop_front();
        Ok(())
    }
}
