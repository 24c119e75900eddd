//! Names and patterns of a recording that match nothing.

use std::collections::HashSet;

use trunkline::OpenOptions;
use trunkline::record::VariableRecorderStatus;
use trunkline_types::Pattern;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::terminal::Mood;
use crate::verbs::Context;

/// The names and patterns reported as matching nothing. Each is reported once, and still waited
/// for.
#[derive(Debug, Default)]
pub(super) struct Unmatched(HashSet<String>);

impl Unmatched {
    /// Reports new ones.
    pub(super) fn say(
        &mut self,
        status: &VariableRecorderStatus,
        connection: &Connection,
        context: &Context,
    ) -> Result<(), Stop> {
        let news = status.unmatched.iter();
        let news = news.filter(|one| self.0.insert((*one).clone()));
        let (patterns, names): (Vec<&str>, Vec<&str>) = news
            .map(String::as_str)
            .partition(|one| Pattern::has_wildcards(one));
        let width = names.iter().map(|name| crate::terminal::width(name)).max();
        let width = width.unwrap_or(0);
        match connection.open(&names, OpenOptions::default()) {
            // The engine's error suggests a similar name.
            Ok(opened) => {
                for problem in opened.into_iter().filter_map(Result::err) {
                    context.terminal.problem(&problem, width)?;
                }
            }
            // Recording continues.
            Err(_) => {
                for name in names {
                    let problem = Problem::new(Exit::SomeFailed, "unknown-name", "not found");
                    context.terminal.problem(&problem.of(name), width)?;
                }
            }
        }
        for pattern in patterns {
            let sentence =
                format!("*** no name matches {pattern} yet; waiting for variables to appear");
            let terminal = &context.terminal;
            match context.settings.is_json() {
                true => {
                    let mut object = Object::new();
                    object.put("event", "no-match");
                    object.put("name", pattern);
                    terminal.note(&object.into_json().to_string())?;
                }
                false => terminal.note(&terminal.error_paint(Mood::Uncertain, &sentence))?,
            }
        }
        Ok(())
    }
}

/// Limits on the names in the last line, and on their bytes: `record stop` receives all of it.
const TOLD_MAX: usize = 100;
const TOLD_BYTES_MAX: usize = 8 << 10;

/// Returns true if a name without wildcards matched nothing.
pub(super) fn has_name(status: &VariableRecorderStatus) -> bool {
    let mut unmatched = status.unmatched.iter();
    unmatched.any(|one| !Pattern::has_wildcards(one))
}

/// Adds to the last line what has matched nothing.
pub(super) fn sum_up(status: &VariableRecorderStatus, text: &mut String, object: &mut Object) {
    if status.unmatched.is_empty() {
        return;
    }
    let mut bytes = 0;
    let told = status.unmatched.iter().take_while(|name| {
        bytes += name.len();
        bytes <= TOLD_BYTES_MAX
    });
    let told: Vec<String> = told.take(TOLD_MAX).cloned().collect();
    let further = status.unmatched.len() - told.len();
    text.push_str("; nothing matched: ");
    text.push_str(&told.join(", "));
    if further > 0 {
        text.push_str(&format!(", and {further} more"));
        object.put("unmatched_further", further as u64);
    }
    object.put("unmatched", told);
}
