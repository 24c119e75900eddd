//! Checks that each file of a series continues the previous one.

use std::collections::HashMap;

use trunkline_tdms::ObjectPath;

use super::discovery::VariableReader;
use super::opened::Opened;
use super::playing::PlayedVariable;
use crate::playback::PlaybackError;

/// Number of variables of a file whose last update is compared with the one copied to the next
/// file. Update counts are compared for all variables.
const COMPARED: usize = 64;

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
    /// Number of updates missing before the file, and number of variables they belong to.
    pub(super) missing: u64,
    pub(super) missing_of: u64,
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
            missing_of: 0,
        };
        let may_miss = are_files_missing || !self.is_whole;
        let mut is_here = vec![false; self.variables.len()];
        for at in 0..file.readers.len() {
            let (Some(reader), Some(variable)) = (file.readers.get(at), file.variables.get(at))
            else {
                continue;
            };
            let number = self.number(reader, variable, file)?;
            if let Some(is_here) = is_here.get_mut(number) {
                *is_here = true;
            }
            let state = self.states.get(number).copied().unwrap_or_default();
            let begin = match self.files {
                0 => reader
                    .in_series
                    .row
                    .map_or(0, |row| row.saturating_sub(reader.in_series.carried)),
                _ => begin(reader, variable, state, may_miss, file)?,
            };
            let missing = match self.files {
                0 => 0,
                _ => begin.saturating_sub(state.updates),
            };
            continuation.missing = continuation.missing.saturating_add(missing);
            continuation.missing_of += u64::from(missing > 0);
            let skip = match self.files {
                0 => 0,
                _ => state.updates.saturating_sub(begin).min(reader.updates),
            };
            let is_compared = at < COMPARED && reader.updates > 0;
            if skip > 0
                && is_compared
                && let Some(last) = state.last
                && file.time_of(reader, skip - 1)? != Some(last)
            {
                let name = &variable.name;
                let what =
                    format!("its copy of the last update of {name} differs from the original");
                return Err(other(file, what));
            }
            let last = match is_compared {
                true => file.time_of(reader, reader.updates - 1)?,
                false => state.last.filter(|_| reader.updates == 0),
            };
            let updates = begin.saturating_add(reader.updates).max(state.updates);
            if let Some(state) = self.states.get_mut(number) {
                *state = SeriesState { updates, last };
            }
            if let Some(reader) = file.readers.get_mut(at) {
                reader.skip = skip;
            }
            continuation.numbers.push(number);
        }
        let has_updates = file.readers.iter().any(|reader| reader.updates > 0);
        let gone = is_here.iter().zip(&self.states).zip(&self.variables);
        let gone = gone
            .filter(|((is_here, state), _)| !**is_here && state.updates > 0)
            .map(|(_, variable)| &variable.name);
        let is_whole = file.cut_off().is_none();
        if let Some(name) = gone.into_iter().next().filter(|_| has_updates && is_whole) {
            let what = format!("it lacks the variable {name}, which they have");
            return Err(other(file, what));
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
        if let Some(number) = self.numbers.get(&reader.place) {
            let known = self.variables.get(*number);
            return match known.filter(|known| known.data_type != variable.data_type) {
                None => Ok(*number),
                Some(known) => {
                    let (name, here) = (&variable.name, &variable.data_type);
                    let what = format!(
                        "{name} has the type {here}, but had the type {} before",
                        known.data_type
                    );
                    Err(other(file, what))
                }
            };
        }
        let number = self.variables.len();
        self.numbers.insert(reader.place.clone(), number);
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
fn begin(
    reader: &VariableReader,
    variable: &PlayedVariable,
    state: SeriesState,
    may_miss: bool,
    file: &Opened,
) -> Result<u64, PlaybackError> {
    let (name, there) = (&variable.name, state.updates);
    let Some(row) = reader.in_series.row else {
        return match there {
            // The variable is new.
            0 => Ok(0),
            _ => {
                let what = format!("it does not state how many updates of {name} they have");
                Err(other(file, what))
            }
        };
    };
    let begin = row.checked_sub(reader.in_series.carried);
    match begin.filter(|_| there == row || there < row && may_miss) {
        Some(begin) => Ok(begin),
        None => {
            let what = format!("it states {row} updates of {name} for them, but they have {there}");
            Err(other(file, what))
        }
    }
}

fn other(file: &Opened, what: String) -> PlaybackError {
    PlaybackError::OtherSeries {
        path: file.path.clone(),
        what,
    }
}
