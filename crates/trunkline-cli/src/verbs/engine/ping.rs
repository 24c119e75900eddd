//! `engine ping`: measures round trips to an engine.

use std::fmt;
use std::time::Duration;

use trunkline::{CallError, Client};

use crate::arguments::{number, positive_duration};
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Notice, Serialize, json};
use crate::{CliError, Context, Exit};

/// Measure how long an engine takes to answer
///
/// Each ping is one request about the engine itself; the engine answers it like any other request.
/// An answer that takes longer than --timeout counts as missing; if answers are missing, the exit
/// code is 4. Ctrl-C ends the command early.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of pings
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 4,
        value_parser = number::<u32>(1..=1_000_000),
        allow_negative_numbers = true
    )]
    count: u32,

    /// Time from an answer to the next ping
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = positive_duration,
        allow_hyphen_values = true
    )]
    interval: Duration,
}

/// A line of `engine ping`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(title = "Trunkline ping, version 1")]
pub(crate) enum PingEvent {
    /// The engine has answered.
    Answer {
        /// Number of the ping, from 1.
        number: u32,
        /// Round trip in milliseconds.
        ms: f64,
    },
    /// There was no answer in time, or no connection.
    Missing {
        /// Number of the ping, from 1.
        number: u32,
        /// Why there was no answer.
        reason: String,
    },
    /// The last line.
    Summary {
        /// Number of pings.
        sent: u32,
        /// Number of answers.
        answered: u32,
        /// Shortest round trip in milliseconds. Left out if there was no answer, as are the next two.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_ms: Option<f64>,
        /// Median of the round trips.
        #[serde(skip_serializing_if = "Option::is_none")]
        median_ms: Option<f64>,
        /// Longest round trip.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_ms: Option<f64>,
    },
}

impl fmt::Display for PingEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { number, ms } => write!(f, "answer {number}: {ms:.3} ms"),
            Self::Missing { number, reason } => write!(f, "no answer {number}: {reason}"),
            Self::Summary {
                sent,
                answered,
                min_ms,
                median_ms,
                max_ms,
            } => {
                write!(f, "{answered} of {sent} answered")?;
                let times = [("min", min_ms), ("median", median_ms), ("max", max_ms)];
                for (name, time) in times {
                    if let Some(ms) = time {
                        write!(f, " · {name} {ms:.3} ms")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Notice for PingEvent {}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    let print = |event: &PingEvent| {
        context.terminal.line(&match context.settings.is_json() {
            true => json(event),
            false => event.to_string(),
        })?;
        context.terminal.flush()
    };
    context.interrupted.handle_presses(1);
    let mut times = Vec::new();
    let mut sent = 0;
    while sent < args.count && !context.interrupted.is_pressed() {
        if sent > 0 {
            context.interrupted.wait(args.interval);
            if context.interrupted.is_pressed() {
                break;
            }
        }
        sent += 1;
        let started = context.clock.now();
        let answer = Client::engine_info(&connection.client, connection.timeout());
        let time = context.clock.now().since(started);
        print(&match answer {
            // A fault is an answer, too.
            Ok(_) | Err(CallError::Fault(_)) => {
                times.push(time);
                PingEvent::Answer {
                    number: sent,
                    ms: milliseconds(time),
                }
            }
            Err(error) => PingEvent::Missing {
                number: sent,
                reason: connection.failed(&error).message,
            },
        })?;
    }
    let answered = times.len() as u32;
    print(&summary(sent, times))?;
    match (context.interrupted.is_pressed(), answered == sent) {
        (true, _) => Ok(Exit::Interrupted),
        (false, all_answered) => Ok(Exit::TimedOut.when(!all_answered)),
    }
}

fn milliseconds(time: Duration) -> f64 {
    // Microseconds, because a smaller part is noise.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn summary(sent: u32, mut times: Vec<Duration>) -> PingEvent {
    times.sort_unstable();
    let middle = times.len() / 2;
    let median = match (times.get(middle.wrapping_sub(1)), times.get(middle)) {
        (Some(below), Some(above)) if times.len().is_multiple_of(2) => Some((*below + *above) / 2),
        (_, middle) => middle.copied(),
    };
    PingEvent::Summary {
        sent,
        answered: times.len() as u32,
        min_ms: times.first().copied().map(milliseconds),
        median_ms: median.map(milliseconds),
        max_ms: times.last().copied().map(milliseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_the_median_of_odd_and_even_numbers_of_answers() {
        let sut = |times: &[u64]| {
            let times = times.iter().map(|ms| Duration::from_millis(*ms)).collect();
            summary(5, times).to_string()
        };
        assert_eq!(sut(&[]), "0 of 5 answered");
        assert_eq!(
            sut(&[7]),
            "1 of 5 answered · min 7.000 ms · median 7.000 ms · max 7.000 ms"
        );
        assert_eq!(
            sut(&[9, 1, 4]),
            "3 of 5 answered · min 1.000 ms · median 4.000 ms · max 9.000 ms"
        );
        assert_eq!(
            sut(&[9, 1, 4, 5]),
            "4 of 5 answered · min 1.000 ms · median 4.500 ms · max 9.000 ms"
        );
    }
}
