//! Files that were segments, and will be others.

use std::io;
use std::sync::Arc;

use super::{Log, segment_name};
use crate::journal::disk::DiskFile;
use crate::journal::error::JournalError;

const SPARE_SUFFIX: &str = ".spare";

/// Files that are kept to be written again, because a file that has its room on the disk and in the
/// system's cache takes bytes several times faster than a new one.
const SPARES_MAX: usize = 4;

/// Segments that are retired together, because each time costs a cursor and three syncs.
pub(super) const RETIRED_TOGETHER: usize = 4;

/// A file that was a segment, and will be another one.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) name: String,
    file: Arc<dyn DiskFile>,
    len: u64,
    /// Its name is safe: what is written to it is not taken for the segment that it was.
    is_settled: bool,
}

/// Whether that file is one that would have been written again.
pub(in crate::journal) fn is_spare(name: &str) -> bool {
    name.ends_with(SPARE_SUFFIX)
}

impl Log {
    /// Bytes of the file that the next segment will be, if there is one.
    pub(super) fn next_spare(&self) -> Option<u64> {
        let next = self.spares.iter().find(|spare| spare.is_settled);
        next.map(|spare| spare.len)
    }

    /// A file with that head, safe under that name, and its length if it is one that was there.
    pub(super) fn create_segment(
        &mut self,
        name: &str,
        head: &[u8],
    ) -> io::Result<(u64, Arc<dyn DiskFile>)> {
        let settled = self.spares.iter().position(|spare| spare.is_settled);
        let Some(index) = settled else {
            let file = self.disk.create(name)?;
            file.write_at(0, [head, &[]])?;
            file.sync()?;
            self.sync_folder()?;
            return Ok((0, file));
        };
        // Its head is safe before it has the name: what has the name has the head.
        let spare = &self.spares[index];
        spare.file.write_at(0, [head, &[]])?;
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
            spare.is_settled = true;
        }
        Ok(())
    }

    /// Removes the files that are kept to be written again, but for so many.
    pub(super) fn remove_spares(&mut self, kept: usize) -> Result<(), JournalError> {
        while self.spares.len() > kept {
            let Some(spare) = self.spares.last() else {
                break;
            };
            let removed = self.disk.remove(&spare.name);
            removed.map_err(|cause| self.error("trimmed", cause))?;
            self.total -= self.spares.pop().map_or(0, |spare| spare.len);
        }
        Ok(())
    }

    /// The first segment is done with: its file is removed, or kept to be written again.
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
                is_settled: false,
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
