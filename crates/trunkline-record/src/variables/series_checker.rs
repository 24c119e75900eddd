//! Checks that each file of a series continues the previous one.

use std::collections::HashMap;

use trunkline_tdms::ObjectPath;

use super::discovery::VariableReader;
use super::opened::PlaybackFile;
use super::playing::PlayedVariable;
use crate::playback::PlaybackError;

/// Maximum number of variables per file whose last update is compared with its copy in the next
/// file. Update counts are compared for all variables.
const COMPARED_MAX: usize = 64;

/// The variables of a series, and their state after the files examined so far.
#[derive(Debug, Default)]
pub(super) struct SeriesChecker {
    pub(super) variables: Vec<PlayedVariable>,
    numbers: HashMap<ObjectPath, usize>,
    states: Vec<SeriesState>,
    files: usize,
    /// True if the last file examined is complete.
    is_last_complete: bool,
}

/// The updates of one variable in the files examined so far.
#[derive(Clone, Copy, Default, Debug)]
struct SeriesState {
    /// Number of updates, including missing ones.
    updates: u64,
    /// Time of the last update, if it is compared with its copy in the next file.
    last: Option<i128>,
}

/// Describes how a file continues the series.
#[derive(Debug)]
pub(super) struct Continuation {
    /// Number in the series of each variable of the file.
    pub(super) numbers: Vec<usize>,
    /// Number of updates missing before the file.
    pub(super) missing: u64,
    /// Number of variables that have missing updates.
    pub(super) affected_variables: u64,
}

impl SeriesChecker {
    /// Restarts the check at the first file. The variables keep their numbers.
    pub(super) fn restart(&mut self) {
        self.states.fill(SeriesState::default());
        self.files = 0;
    }

    /// Adds the next file, which then skips the updates that earlier files contain.
    /// `are_files_missing` is true if files between this file and the previous one are missing.
    pub(super) fn add_file(
        &mut self,
        file: &mut PlaybackFile,
        are_files_missing: bool,
    ) -> Result<Continuation, PlaybackError> {
        let mut continuation = Continuation {
            numbers: Vec::with_capacity(file.readers.len()),
            missing: 0,
            affected_variables: 0,
        };
        let may_lack_updates = are_files_missing || !self.is_last_complete;
        let mut is_present = vec![false; self.variables.len()];
        for index in 0..file.readers.len() {
            let (Some(reader), Some(variable)) =
                (file.readers.get(index), file.variables.get(index))
            else {
                continue;
            };
            let number = self.number(reader, variable, file)?;
            if let Some(is_present) = is_present.get_mut(number) {
                *is_present = true;
            }
            let state = self.states.get(number).copied().unwrap_or_default();
            let first_number = match self.files {
                0 => reader
                    .series_position
                    .row
                    .map_or(0, |row| row.saturating_sub(reader.series_position.carried)),
                _ => first_number(reader, variable, state, may_lack_updates, file)?,
            };
            let missing = match self.files {
                0 => 0,
                _ => first_number.saturating_sub(state.updates),
            };
            continuation.missing = continuation.missing.saturating_add(missing);
            continuation.affected_variables += u64::from(missing > 0);
            let skipped_updates = match self.files {
                0 => 0,
                _ => state
                    .updates
                    .saturating_sub(first_number)
                    .min(reader.updates),
            };
            let is_compared = index < COMPARED_MAX && reader.updates > 0;
            if skipped_updates > 0
                && is_compared
                && let Some(last) = state.last
                && file.time_of(reader, skipped_updates - 1)? != Some(last)
            {
                let name = &variable.name;
                let difference = format!(
                    "its copy of the previous file's last update of {name} differs from the original"
                );
                return Err(does_not_continue(file, difference));
            }
            let last = match is_compared {
                true => file.time_of(reader, reader.updates - 1)?,
                false => state.last.filter(|_| reader.updates == 0),
            };
            let updates = first_number
                .saturating_add(reader.updates)
                .max(state.updates);
            if let Some(state) = self.states.get_mut(number) {
                *state = SeriesState { updates, last };
            }
            if let Some(reader) = file.readers.get_mut(index) {
                reader.skipped_updates = skipped_updates;
            }
            continuation.numbers.push(number);
        }
        let has_updates = file.readers.iter().any(|reader| reader.updates > 0);
        let missing_variables = is_present.iter().zip(&self.states).zip(&self.variables);
        let missing_variables = missing_variables
            .filter(|((is_present, state), _)| !**is_present && state.updates > 0)
            .map(|(_, variable)| &variable.name);
        let is_complete = file.cut_off().is_none();
        if let Some(name) = missing_variables
            .into_iter()
            .next()
            .filter(|_| has_updates && is_complete)
        {
            let difference = format!("it lacks the variable {name} of the earlier files");
            return Err(does_not_continue(file, difference));
        }
        self.files += 1;
        self.is_last_complete = is_complete;
        Ok(continuation)
    }

    /// Returns the variable's number in the series, and assigns one to a new variable.
    fn number(
        &mut self,
        reader: &VariableReader,
        variable: &PlayedVariable,
        file: &PlaybackFile,
    ) -> Result<usize, PlaybackError> {
        if let Some(number) = self.numbers.get(&reader.object) {
            let existing = self.variables.get(*number);
            return match existing.filter(|existing| existing.data_type != variable.data_type) {
                None => Ok(*number),
                Some(existing) => {
                    let (name, data_type) = (&variable.name, &variable.data_type);
                    let difference = format!(
                        "{name} has the type {data_type}, but had the type {} before",
                        existing.data_type
                    );
                    Err(does_not_continue(file, difference))
                }
            };
        }
        let number = self.variables.len();
        self.numbers.insert(reader.object.clone(), number);
        self.states.push(SeriesState::default());
        self.variables.push(PlayedVariable {
            updates: 0,
            cut_off: 0,
            gaps: 0,
            lost: 0,
            unknown_gaps: 0,
            ..variable.clone()
        });
        Ok(number)
    }
}

/// Returns the number in the series of a file's first update.
fn first_number(
    reader: &VariableReader,
    variable: &PlayedVariable,
    state: SeriesState,
    may_lack_updates: bool,
    file: &PlaybackFile,
) -> Result<u64, PlaybackError> {
    let (name, updates_found) = (&variable.name, state.updates);
    let Some(row) = reader.series_position.row else {
        return match updates_found {
            // No earlier file has this variable.
            0 => Ok(0),
            _ => {
                let difference =
                    format!("it does not state how many updates of {name} the earlier files have");
                Err(does_not_continue(file, difference))
            }
        };
    };
    let first_number = row.checked_sub(reader.series_position.carried);
    match first_number.filter(|_| updates_found == row || updates_found < row && may_lack_updates) {
        Some(first_number) => Ok(first_number),
        None => {
            let difference = format!(
                "it expects {row} updates of {name} in them, but they have {updates_found}"
            );
            Err(does_not_continue(file, difference))
        }
    }
}

fn does_not_continue(file: &PlaybackFile, difference: String) -> PlaybackError {
    PlaybackError::NotContinued {
        path: file.path.clone(),
        difference,
    }
}
