//! Reports the names and patterns of a recording that match nothing.

use std::collections::HashSet;

use trunkline::OpenOptions;
use trunkline::record::VariableRecorderStatus;
use trunkline_types::Pattern;

use super::recorded::Recorded;
use crate::connection::Connection;
use crate::verbs::monitor::MonitorEvent;
use crate::{CliError, Context, Problem};

/// The names and patterns that were reported as unmatched. Each one is reported once, but the recording
/// continues to wait for a match.
#[derive(Debug, Default)]
pub(super) struct Unmatched(HashSet<String>);

impl Unmatched {
    pub(super) fn report(
        &mut self,
        status: &VariableRecorderStatus,
        connection: &Connection,
        context: &Context,
    ) -> Result<(), CliError> {
        let new = status.unmatched.iter();
        let new = new.filter(|name| self.0.insert((*name).clone()));
        let (patterns, names): (Vec<&str>, Vec<&str>) = new
            .map(String::as_str)
            .partition(|name| Pattern::has_wildcards(name));
        let width = names.iter().map(|name| crate::terminal::width(name)).max();
        let width = width.unwrap_or(0);
        match connection.open(&names, OpenOptions::default()) {
            // The engine's error suggests a similar name.
            Ok(opened) => {
                for problem in opened.into_iter().filter_map(Result::err) {
                    context.terminal.problem(&problem, width)?;
                }
            }
            // The recording continues, so the names are reported without a suggestion.
            Err(_) => {
                for name in names {
                    let problem = Problem::failed("unknown-name", "not found");
                    context.terminal.problem(&problem.with_name(name), width)?;
                }
            }
        }
        for pattern in patterns {
            context.notify(&MonitorEvent::NoMatch {
                name: pattern.to_owned(),
            })?;
        }
        Ok(())
    }
}

/// Limits on the number and the total size of the names in the last line, because `record stop` receives
/// the whole line.
const NAMES_MAX: usize = 100;
const NAMES_BYTES_MAX: usize = 8 << 10;

/// Returns true if a name is unmatched, not only patterns.
pub(super) fn has_names(status: &VariableRecorderStatus) -> bool {
    let mut unmatched = status.unmatched.iter();
    unmatched.any(|name| !Pattern::has_wildcards(name))
}

pub(super) fn sum_up(status: &VariableRecorderStatus, recorded: &mut Recorded) {
    let mut bytes = 0;
    let listed = status.unmatched.iter().take_while(|name| {
        bytes += name.len();
        bytes <= NAMES_BYTES_MAX
    });
    recorded.unmatched = listed.take(NAMES_MAX).cloned().collect();
    let further = status.unmatched.len() - recorded.unmatched.len();
    recorded.unmatched_further = Some(further).filter(|further| *further > 0);
}
