//! Plays recordings into live variables.

use std::time::Duration;

use trunkline_client::{OpenOptions, VariableRef, Write, WriteCounts};
use trunkline_net::Clock;
use trunkline_record::{Pace, PlaybackError, PlayedUpdate};
use trunkline_types::wire::encoded_len;

use super::handed_over::{PendingUpdates, PlayFailure};
use super::{RecordingError, Stopped, UpdateSource};
use crate::client::Client;

/// Maximum number of updates per batch.
const BATCH_MAX: usize = 1000;

/// Approximate bytes per batch.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Longest wait before the stop signal is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Delay above which an update counts as late.
const LATE_AFTER: Duration = Duration::from_millis(20);

/// Settings for playing a recording into variables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlayVariablesOptions {
    /// The speed relative to the recording.
    pub pace: Pace,
    /// True if updates keep their recorded source timestamps. Otherwise the engine sets new
    /// timestamps.
    pub keep_timestamps: bool,
    /// Longest wait for an answer of the engine; 10 s by default.
    pub timeout: Duration,
}

impl Default for PlayVariablesOptions {
    fn default() -> Self {
        Self {
            pace: Pace::Original,
            keep_timestamps: false,
            timeout: Duration::from_secs(10),
        }
    }
}

/// Counts of a recording played into variables.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct VariablesPlayed {
    /// Updates passed to the engine.
    pub updates: u64,
    /// Updates of recorded variables that are not played.
    pub omitted: u64,
    /// Updates with unreadable text, of the variables that are played.
    /// [`PlayedVariable::unreadable`](trunkline_record::PlayedVariable::unreadable) counts these
    /// per variable.
    pub unreadable: u64,
    /// Updates that were passed on more than 20 ms late, because the file, the program or the
    /// engine was too slow.
    pub late: u64,
    /// Largest delay of an update.
    pub lateness_max: Duration,
    /// Applied writes. This field and the next two count all writes of this client since playing
    /// began, including writes that do not come from the recording.
    pub applied: u64,
    /// Writes of a value within the deadband of the previous one.
    pub unchanged: u64,
    /// Writes that were refused or not tried, or whose outcome is unknown.
    pub failed: u64,
    /// The reasons of failed writes, for the first 100 variables.
    pub failures: Vec<PlayFailure>,
    /// Variables that are not played, or not played to their end, each with the reason.
    pub refused: Vec<(String, String)>,
    /// True if everything was played; false if playing was stopped.
    pub is_complete: bool,
}

/// Plays a recording or a whole series into variables, each update at its recorded time, until the
/// recording ends or playing is stopped. `target` maps the name of a recorded variable to the name
/// of the variable to write, or to `None` to omit the variable. Both variables must have the same
/// type. Calls `on_updates` after each batch and while waiting for the next update.
///
/// # Errors
/// - [`RecordingError::NothingToPlay`]: no variable can be played.
/// - [`RecordingError::Call`]: the engine does not answer.
/// - [`RecordingError::Playback`]: the recording cannot be read further.
pub fn play_into_variables(
    client: &Client,
    recorded: &mut impl UpdateSource,
    target: impl Fn(&str) -> Option<String>,
    options: PlayVariablesOptions,
    stopped: &Stopped,
    mut on_updates: impl FnMut(&VariablesPlayed),
) -> Result<VariablesPlayed, RecordingError> {
    let speed = speed_of(options.pace)?;
    let mut done = VariablesPlayed::default();
    let targets = open(client, recorded, target, options.timeout, &mut done)?;
    let before = client.write_counts();
    let name = |variable: usize| {
        let known = targets.get(variable).and_then(Option::as_ref);
        known.map_or_else(String::new, |(_, name)| name.clone())
    };
    let mut pending_updates = PendingUpdates::new(client);
    let clock = Clock::new();
    let since = clock.now();
    let mut next = next_update(recorded, &mut done)?;
    // A stop that was requested before this call takes effect before the first write.
    on_updates(&done);
    while let Some(first) = next.take() {
        let due = due(first.after, speed);
        let now = clock.now().since(since);
        if due > now {
            next = Some(first);
            on_updates(&done);
            if stopped.wait_for((due - now).min(CHECK_INTERVAL)) {
                break;
            }
            continue;
        }
        if stopped.is_stopped() {
            next = Some(first);
            break;
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let (mut one, mut failure) = (Some(first), None);
        while let Some(update) = one.take() {
            let due = self::due(update.after, speed);
            if due > now || batch.len() >= BATCH_MAX || bytes >= BATCH_BYTES_MAX {
                next = Some(update);
                break;
            }
            let delay = now - due;
            let is_paced = speed.is_some();
            match targets.get(update.variable).and_then(Option::as_ref) {
                Some((variable, _)) => {
                    done.late += u64::from(is_paced && delay > LATE_AFTER);
                    if is_paced {
                        done.lateness_max = done.lateness_max.max(delay);
                    }
                    bytes += encoded_len(&update.value);
                    let number = update.variable;
                    batch.push((number, write(*variable, update, options.keep_timestamps)));
                }
                None => done.omitted += 1,
            }
            one = match next_update(recorded, &mut done) {
                Ok(update) => update,
                // Plays the updates that were read before the error. In a series, these extend to
                // the end of the file.
                Err(error) => {
                    failure = Some(error);
                    None
                }
            };
        }
        done.updates += batch.len() as u64;
        pending_updates.write(batch, name, options.timeout)?;
        count_outcomes(&mut done, &before, &client.write_counts());
        on_updates(&done);
        if let Some(error) = failure {
            client.flush(options.timeout)?;
            return Err(error);
        }
    }
    let counts = client.flush(options.timeout)?;
    count_outcomes(&mut done, &before, &counts);
    pending_updates.take_outcomes(name);
    done.failures = pending_updates.failures();
    done.is_complete = next.is_none();
    let played = recorded.variables().iter().zip(&targets);
    let played = played.filter_map(|(one, target)| target.as_ref().map(|_| one.unreadable));
    done.unreadable = played.sum();
    on_updates(&done);
    Ok(done)
}

/// Returns the next update that can be played. Reports each damaged variable once.
fn next_update(
    recorded: &mut impl UpdateSource,
    done: &mut VariablesPlayed,
) -> Result<Option<PlayedUpdate>, RecordingError> {
    loop {
        match recorded.next_update() {
            Err(error @ PlaybackError::Damaged { .. }) => {
                let why = error.to_string();
                if let PlaybackError::Damaged { variable, .. } = error {
                    done.refused.push((variable, why));
                }
            }
            other => return Ok(other?),
        }
    }
}

/// Returns the speed factor, or `None` for full speed.
pub(super) fn speed_of(pace: Pace) -> Result<Option<f64>, PlaybackError> {
    match pace {
        Pace::Full => Ok(None),
        Pace::Original => Ok(Some(1.0)),
        Pace::Scaled(speed) if speed.is_finite() && speed > 0.0 => Ok(Some(speed)),
        Pace::Scaled(speed) => Err(PlaybackError::Speed { speed }),
    }
}

/// Returns the time at which to play an update that was recorded `after` the first one; zero at
/// full speed.
pub(super) fn due(after: Duration, speed: Option<f64>) -> Duration {
    match speed {
        None => Duration::ZERO,
        // The result is not NaN, because the speed is above 0. No recording is long enough to
        // overflow.
        Some(speed) => {
            let nanoseconds = after.as_nanos() as f64 / speed;
            Duration::from_nanos(nanoseconds as u64)
        }
    }
}

fn write(variable: VariableRef, update: PlayedUpdate, keep_timestamps: bool) -> Write {
    let mut write = Write::new(variable, update.value);
    write.options.quality = Some(update.quality);
    write.options.source_timestamp = keep_timestamps.then_some(update.source_timestamp);
    write
}

/// Opens the target variables. Returns each with its name, indexed by the number of the recorded
/// variable; `None` for variables that are not played.
fn open(
    client: &Client,
    recorded: &impl UpdateSource,
    target: impl Fn(&str) -> Option<String>,
    timeout: Duration,
    done: &mut VariablesPlayed,
) -> Result<Vec<Option<(VariableRef, String)>>, RecordingError> {
    let variables = recorded.variables();
    let targets: Vec<Option<String>> = variables.iter().map(|one| target(&one.name)).collect();
    let names: Vec<&String> = targets.iter().flatten().collect();
    let mut opened = client
        .open(&names, OpenOptions::default(), timeout)?
        .into_iter();
    let mut into = Vec::with_capacity(variables.len());
    for (variable, target) in variables.iter().zip(&targets) {
        let Some(target) = target else {
            into.push(None);
            continue;
        };
        let why = match opened.next() {
            Some(Ok(opened)) if opened.data_type == variable.data_type => {
                into.push(Some((opened.variable, target.clone())));
                continue;
            }
            Some(Ok(opened)) => format!(
                "the variable has the type {}, but the recorded values have the type {}",
                opened.data_type, variable.data_type
            ),
            Some(Err(fault)) => fault.to_string(),
            None => "the engine did not answer for this variable".to_owned(),
        };
        done.refused.push((target.clone(), why));
        into.push(None);
    }
    if into.iter().all(Option::is_none) {
        let why = match done.refused.first() {
            Some((name, why)) => format!("the first one is {name}: {why}"),
            None if variables.is_empty() => {
                "the recording contains none; `trunkline tdms info` shows its contents".to_owned()
            }
            None => "every variable is excluded; exclude fewer".to_owned(),
        };
        return Err(RecordingError::NothingToPlay { why });
    }
    Ok(into)
}

fn count_outcomes(done: &mut VariablesPlayed, before: &WriteCounts, now: &WriteCounts) {
    done.applied = now.applied - before.applied;
    done.unchanged = now.unchanged - before.unchanged;
    let failed = |counts: &WriteCounts| {
        counts.refused + counts.would_block + counts.unknown + counts.cancelled
    };
    done.failed = failed(now) - failed(before);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaviour: B-72.
    #[test]
    fn update_is_due_at_the_recorded_speed_or_a_multiple() {
        let after = Duration::from_millis(100);
        assert_eq!(due(after, Some(1.0)), after);
        assert_eq!(due(after, Some(2.0)), after / 2);
        assert_eq!(due(after, Some(0.25)), after * 4);
        assert_eq!(due(after, None), Duration::ZERO);
    }
}
