//! Checks that each file of a series continues the previous one.

use std::collections::HashMap;

use trunkline_tdms::ObjectPath;

use super::discovery::VariableReader;
use super::opened::Opened;
use super::playing::PlayedVariable;
use crate::playback::PlaybackError;

/// Number of variables of a file whose last update is compared with the one copied to the next
/// file. Update counts are compared for all variables.
const COMPARED_MAX: usize = 64;

/// The variables of a series, and the state after the files examined so far.
#[derive(Debug, Default)]
pub(super) struct SeriesChecker {
    pub(super) variables: Vec<PlayedVariable>,
    numbers: HashMap<ObjectPath, usize>,
    states: Vec<SeriesState>,
    files: usize,
    /// True if the last file examined is complete.
    is_whole: bool,
}

/// The updates of one variable in the files examined so far.
#[derive(Clone, Copy, Default, Debug)]
struct SeriesState {
    /// Number of updates, including missing ones.
    updates: u64,
    /// Time of the last update, if it is compared.
    last: Option<i128>,
}

/// How a file continues the series.
#[derive(Debug)]
pub(super) struct Continuation {
    /// The number that each of the file's variables has in the series.
    pub(super) numbers: Vec<usize>,
    /// Number of updates missing before the file.
    pub(super) missing: u64,
    /// Number of variables that have missing updates.
    pub(super) affected_variables: u64,
}

impl SeriesChecker {
    /// Restarts at the first file; the variables keep their numbers.
    pub(super) fn restart(&mut self) {
        self.states.fill(SeriesState::default());
        self.files = 0;
    }

    /// Adds the next file, which then skips the updates that previous files contain.
    /// `are_files_missing` is true if files between it and the previous one are missing.
    pub(super) fn join(
        &mut self,
        file: &mut Opened,
        are_files_missing: bool,
    ) -> Result<Continuation, PlaybackError> {
        let mut continuation = Continuation {
            numbers: Vec::with_capacity(file.readers.len()),
            missing: 0,
            affected_variables: 0,
        };
        let may_miss = are_files_missing || !self.is_whole;
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
                    .in_series
                    .row
                    .map_or(0, |row| row.saturating_sub(reader.in_series.carried)),
                _ => first_number(reader, variable, state, may_miss, file)?,
            };
            let missing = match self.files {
                0 => 0,
                _ => first_number.saturating_sub(state.updates),
            };
            continuation.missing = continuation.missing.saturating_add(missing);
            continuation.affected_variables += u64::from(missing > 0);
            let skip = match self.files {
                0 => 0,
                _ => state
                    .updates
                    .saturating_sub(first_number)
                    .min(reader.updates),
            };
            let is_compared = index < COMPARED_MAX && reader.updates > 0;
            if skip > 0
                && is_compared
                && let Some(last) = state.last
                && file.time_of(reader, skip - 1)? != Some(last)
            {
                let name = &variable.name;
                let difference =
                    format!("its copy of the last update of {name} differs from the original");
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
                reader.skip = skip;
            }
            continuation.numbers.push(number);
        }
        let has_updates = file.readers.iter().any(|reader| reader.updates > 0);
        let lacking = is_present.iter().zip(&self.states).zip(&self.variables);
        let lacking = lacking
            .filter(|((is_present, state), _)| !**is_present && state.updates > 0)
            .map(|(_, variable)| &variable.name);
        let is_whole = file.cut_off().is_none();
        if let Some(name) = lacking
            .into_iter()
            .next()
            .filter(|_| has_updates && is_whole)
        {
            let difference = format!("it lacks the variable {name}, which they have");
            return Err(does_not_continue(file, difference));
        }
        self.files += 1;
        self.is_whole = is_whole;
        Ok(continuation)
    }

    /// Returns the variable's number in the series.
    fn number(
        &mut self,
        reader: &VariableReader,
        variable: &PlayedVariable,
        file: &Opened,
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

/// Returns the number that a file's first update has in the series.
fn first_number(
    reader: &VariableReader,
    variable: &PlayedVariable,
    state: SeriesState,
    may_miss: bool,
    file: &Opened,
) -> Result<u64, PlaybackError> {
    let (name, known_updates) = (&variable.name, state.updates);
    let Some(row) = reader.in_series.row else {
        return match known_updates {
            // The variable is new.
            0 => Ok(0),
            _ => {
                let difference = format!("it does not state how many updates of {name} they have");
                Err(does_not_continue(file, difference))
            }
        };
    };
    let first_number = row.checked_sub(reader.in_series.carried);
    match first_number.filter(|_| known_updates == row || known_updates < row && may_miss) {
        Some(first_number) => Ok(first_number),
        None => {
            let difference = format!(
                "it states {row} updates of {name} for them, but they have {known_updates}"
            );
            Err(does_not_continue(file, difference))
        }
    }
}

fn does_not_continue(file: &Opened, difference: String) -> PlaybackError {
    PlaybackError::OtherSeries {
        path: file.path.clone(),
        difference,
    }
}
