//! Updates of a variable that are missing, and how its group says so.

use trunkline_tdms::{ObjectPath, WriteError, Writer};

/// Gaps of one variable in one file.
#[derive(Debug)]
pub(super) struct Gaps {
    /// Missing before the next update; none: an unknown number.
    missing: Option<u64>,
    /// Gaps that the file does not say yet: row, and how many are missing.
    noted: Vec<(u64, Option<u64>)>,
    /// Gaps that it says.
    described: u64,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            missing: Some(0),
            noted: Vec::new(),
            described: 0,
        }
    }
}

impl Gaps {
    /// So many are missing before the next update; none: an unknown number.
    pub(super) fn lose(&mut self, lost: Option<u64>) {
        let missing = self.missing.zip(lost);
        self.missing = missing.map(|(before, lost)| before.saturating_add(lost));
    }

    /// What is missing is so before this row.
    pub(super) fn note(&mut self, row: u64) {
        let missing = self.missing.replace(0);
        if missing != Some(0) {
            self.noted.push((row, missing));
        }
    }

    /// Sets the properties of gaps that the file does not say yet.
    pub(super) fn describe(
        &mut self,
        group: &ObjectPath,
        writer: &mut Writer,
    ) -> Result<(), WriteError> {
        for (row, lost) in self.noted.drain(..) {
            self.described += 1;
            let number = self.described;
            // -1 is an unknown number.
            let lost = lost.map_or(-1, |lost| i64::try_from(lost).unwrap_or(i64::MAX));
            writer.set(group, format!("gap_{number}_row"), row)?;
            writer.set(group, format!("gap_{number}_lost"), lost)?;
        }
        Ok(())
    }
}
