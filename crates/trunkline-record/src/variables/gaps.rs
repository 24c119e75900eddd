//! Missing updates of a variable, and how its group records them.

use trunkline_tdms::{ObjectPath, WriteError, Writer};

#[derive(Debug)]
pub(super) struct Gaps {
    /// Updates missing before the next one; `None` if the number is unknown.
    missing: Option<u64>,
    /// Gaps that are not in a segment yet.
    noted: Vec<Gap>,
    /// Gaps in a segment that is not in the file yet.
    pending: Vec<Gap>,
    /// Number of gaps in segments.
    described: u64,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    row: u64,
    /// `None` if the number is unknown.
    lost: Option<u64>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            missing: Some(0),
            noted: Vec::new(),
            pending: Vec::new(),
            described: 0,
        }
    }
}

impl Gaps {
    /// Adds updates missing before the next one; `None` if the number is unknown.
    pub(super) fn add_missing(&mut self, lost: Option<u64>) {
        self.missing = sum(self.missing, lost);
    }

    /// Records the missing updates as a gap before this row.
    pub(super) fn note(&mut self, row: u64) {
        let lost = self.missing.replace(0);
        if lost != Some(0) {
            self.noted.push(Gap { row, lost });
        }
    }

    pub(super) fn are_waiting(&self) -> bool {
        self.missing != Some(0) || !self.noted.is_empty()
    }

    /// Sets the properties of gaps that are not in a segment yet.
    pub(super) fn describe(
        &mut self,
        group: &ObjectPath,
        writer: &mut Writer,
    ) -> Result<(), WriteError> {
        for gap in self.noted.drain(..) {
            self.described += 1;
            let number = self.described;
            // -1 means an unknown number.
            let lost = gap
                .lost
                .map_or(-1, |lost| i64::try_from(lost).unwrap_or(i64::MAX));
            writer.set(group, format!("gap_{number}_row"), gap.row)?;
            writer.set(group, format!("gap_{number}_lost"), lost)?;
            self.pending.push(gap);
        }
        Ok(())
    }

    /// Records that the pending gaps are in the file.
    pub(super) fn mark_written(&mut self) {
        self.pending.clear();
    }

    /// Continues in another file, in which row `before` of this file is row `carried`. Rows of this
    /// file that are `missing` become a gap before it; `None` if their number is unknown.
    pub(super) fn continue_in(&mut self, before: u64, carried: u64, missing: Option<u64>) {
        let mut gaps = std::mem::take(&mut self.pending);
        gaps.append(&mut self.noted);
        for gap in &mut gaps {
            gap.row = gap.row.saturating_sub(before).saturating_add(carried);
        }
        if missing != Some(0) {
            match gaps.first_mut().filter(|gap| gap.row == carried) {
                Some(first) => first.lost = sum(first.lost, missing),
                None => gaps.insert(
                    0,
                    Gap {
                        row: carried,
                        lost: missing,
                    },
                ),
            }
        }
        self.noted = gaps;
        self.described = 0;
    }
}

/// Returns the sum; `None` if one of the numbers is unknown.
fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    let (left, right) = left.zip(right)?;
    Some(left.saturating_add(right))
}
