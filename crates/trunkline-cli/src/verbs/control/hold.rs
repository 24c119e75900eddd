//! Holds control, or waits for it, until Ctrl-C, and prints what happens.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use trunkline_types::{ControlEntry, ControlTerms};

use super::Place;
use crate::output::record::{JsonSchema, Notice, Serialize, json};
use crate::{CliError, Context, Exit};

/// Time after which the command looks whether Ctrl-C was pressed.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A line of `control take` and `control request`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(title = "Trunkline event of control, version 1")]
pub(crate) enum ControlEvent {
    /// The command waits for control.
    Waiting {
        /// The folder.
        folder: String,
        /// Number of the request.
        number: u64,
        /// The clients that have control of the folder, or of folders that overlap it.
        holders: Vec<String>,
    },
    /// The command, or its identity, has control.
    Granted {
        /// The folder.
        folder: String,
        /// Number of the control.
        number: u64,
        /// Level of control.
        level: &'static str,
    },
    /// Another client asks for control.
    Asked {
        /// The folder that the client asks for.
        folder: String,
        /// Number of the request, for `control give`.
        number: u64,
        /// The client.
        by: String,
    },
    /// The command has no control any more, and has ended.
    Ended {
        /// The folder.
        folder: String,
        /// The clients that have control now.
        holders: Vec<String>,
    },
    /// The command was interrupted, and has released the control or withdrawn the request.
    Released {
        /// The folder.
        folder: String,
    },
}

impl fmt::Display for ControlEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting {
                folder, holders, ..
            } => write!(
                f,
                "waiting for control of {folder}, which {} has",
                holders.join(" and ")
            ),
            Self::Granted { folder, level, .. } => {
                write!(f, "you control {folder} as {level}")
            }
            Self::Asked { folder, number, by } => write!(
                f,
                "{by} asks for control of {folder}; hand it over with `trunkline control give` and \
                 the number {number}"
            ),
            Self::Ended { folder, holders } if holders.is_empty() => {
                write!(f, "your control of {folder} has ended")
            }
            Self::Ended { folder, holders } => write!(
                f,
                "your control of {folder} has ended; {} has it now",
                holders.join(" and ")
            ),
            Self::Released { folder } => write!(f, "released {folder}"),
        }
    }
}

impl Notice for ControlEvent {}

/// Prints the token or request, and what happens to it, until Ctrl-C or until it ends. With a
/// duration, only until control is granted.
pub(super) fn hold(
    place: &Place,
    entry: ControlEntry,
    terms: ControlTerms,
    context: &Context,
) -> Result<Exit, CliError> {
    let print = |event: &ControlEvent| {
        context.terminal.line(&match context.settings.is_json() {
            true => json(event),
            false => event.to_string(),
        })?;
        context.terminal.flush()
    };
    let (folder, number) = (place.folder.to_string(), entry.number);
    if terms.duration.is_some() && !entry.is_waiting {
        print(&granted(&entry))?;
        return Ok(Exit::Success);
    }
    context.interrupted.handle_presses(1);
    let polled = place.connection.client.clone().into_polled();
    let mut was_held = false;
    let mut was_waiting = false;
    let mut asked = BTreeSet::new();
    loop {
        let list = place.call(|client, folder, wait| client.controls(folder, true, wait))?;
        let mut entries = list.entries.iter();
        let Some(own) = entries.find(|entry| entry.number == number) else {
            let holders = holders(place)?;
            print(&ControlEvent::Ended { folder, holders })?;
            return Ok(Exit::Refused);
        };
        if own.is_waiting && !was_waiting {
            was_waiting = true;
            let holders = holders(place)?;
            let folder = folder.clone();
            print(&ControlEvent::Waiting {
                folder,
                number,
                holders,
            })?;
        }
        if !own.is_waiting && !was_held {
            was_held = true;
            print(&granted(own))?;
            if terms.duration.is_some() {
                return Ok(Exit::Success);
            }
        }
        let others = list.entries.iter().filter(|entry| !entry.is_own);
        for other in others.filter(|other| was_held && other.is_waiting) {
            if asked.insert(other.number) {
                print(&ControlEvent::Asked {
                    folder: other.folder.to_string(),
                    number: other.number,
                    by: other.by.clone(),
                })?;
            }
        }
        let follow = polled.follow_control(list.revision);
        let follow = follow.map_err(|error| place.connection.failed(&error))?;
        let answer = loop {
            if context.interrupted.is_pressed() {
                break None;
            }
            if let Some(answer) = follow.wait(CHECK_INTERVAL) {
                break Some(answer);
            }
        };
        match answer {
            None => {
                place.call(|client, folder, wait| client.release_control(folder, wait))?;
                print(&ControlEvent::Released { folder })?;
                return Ok(Exit::Success);
            }
            Some(answer) => {
                answer.map_err(|error| place.connection.failed(&error))?;
            }
        }
    }
}

fn granted(entry: &ControlEntry) -> ControlEvent {
    ControlEvent::Granted {
        folder: entry.folder.to_string(),
        number: entry.number,
        level: entry.level.name(),
    }
}

/// Returns the other clients that have control of the folder or of overlapping ones.
fn holders(place: &Place) -> Result<Vec<String>, CliError> {
    let list = place.call(|client, folder, wait| client.controls(folder, false, wait))?;
    let held = list.entries.into_iter();
    let held = held.filter(|entry| !entry.is_waiting && !entry.is_own);
    Ok(held.map(|entry| entry.by).collect())
}
