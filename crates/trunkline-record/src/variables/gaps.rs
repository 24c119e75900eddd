//! Records the missing updates of a variable as properties of its group.

use trunkline_tdms::{ObjectPath, WriteError, Writer};

#[derive(Debug)]
pub(super) struct Gaps {
    /// Number of updates missing before the next update; `None` if the number is unknown.
    missing: Option<u64>,
    /// Gaps that are not in a segment yet.
    new_gaps: Vec<Gap>,
    /// Gaps in a segment that is not in the file yet.
    pending: Vec<Gap>,
    /// Number of gaps in the segments of this file.
    segment_gaps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Number of the row after the gap.
    row: u64,
    /// Number of missing updates; `None` if it is unknown.
    lost: Option<u64>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            missing: Some(0),
            new_gaps: Vec::new(),
            pending: Vec::new(),
            segment_gaps: 0,
        }
    }
}

impl Gaps {
    /// Adds `lost` updates missing before the next update; `None` if the number is unknown.
    pub(super) fn add_missing(&mut self, lost: Option<u64>) {
        self.missing = sum(self.missing, lost);
    }

    /// Records the missing updates as a gap before this row.
    pub(super) fn record(&mut self, row: u64) {
        let lost = self.missing.replace(0);
        if lost != Some(0) {
            self.new_gaps.push(Gap { row, lost });
        }
    }

    pub(super) fn has_new_gaps(&self) -> bool {
        self.missing != Some(0) || !self.new_gaps.is_empty()
    }

    /// Sets the properties of gaps that are not in a segment yet, for the next segment.
    pub(super) fn set_properties(
        &mut self,
        group: &ObjectPath,
        writer: &mut Writer,
    ) -> Result<(), WriteError> {
        for gap in self.new_gaps.drain(..) {
            self.segment_gaps += 1;
            let number = self.segment_gaps;
            // The value -1 means that the number is unknown.
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

    /// Continues in a new file, in which row `previous_rows` of this file becomes row
    /// `copied_rows`. The `missing` rows of this file become a gap before that row; `None` if their
    /// number is unknown.
    pub(super) fn continue_in(
        &mut self,
        previous_rows: u64,
        copied_rows: u64,
        missing: Option<u64>,
    ) {
        let mut gaps = std::mem::take(&mut self.pending);
        gaps.append(&mut self.new_gaps);
        for gap in &mut gaps {
            gap.row = gap
                .row
                .saturating_sub(previous_rows)
                .saturating_add(copied_rows);
        }
        if missing != Some(0) {
            match gaps.first_mut().filter(|gap| gap.row == copied_rows) {
                Some(first) => first.lost = sum(first.lost, missing),
                None => gaps.insert(
                    0,
                    Gap {
                        row: copied_rows,
                        lost: missing,
                    },
                ),
            }
        }
        self.new_gaps = gaps;
        self.segment_gaps = 0;
    }
}

/// Returns the sum of two numbers; `None` if one of them is unknown.
fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    let (left, right) = left.zip(right)?;
    Some(left.saturating_add(right))
}
