//! `why`: explains why a variable does not update, or why there is no connection.
//!
//! This module connects like any other command, and reports the steps that the engine cannot see:
//! address, host, connection and version. The engine reports the further steps.

use std::net::ToSocketAddrs;

use trunkline::proto::{Disconnect, ThroughputMode, WhyStage, WhyVerdict};
use trunkline::{CallError, Client, Step};
use trunkline_types::Url;
use trunkline_types::text::parse_rfc3339;
use trunkline_types::url::Transport;

use crate::arguments::OutputFormat;
use crate::connection::dial;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::times::TimeColumn;
use crate::settings::Columns;
use crate::targets::{self, Origin, Target, address};
use crate::terminal::{Style, escaped};
use crate::{CliError, Context, Exit, Problem, counted};

/// Explain why a variable does not update or, without a name, why there is no connection
///
/// The command checks the live state step by step, and prints the first cause it finds and how to
/// remedy it. If it finds one, the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The variable
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Maximum clock difference, in seconds, that is not reported.
const CLOCK_OFFSET_MAX_SECONDS: f64 = 1.0;

/// Hint for an engine that accepts the connection but does not answer.
const NO_ANSWER_HINT: &str =
    "check whether the engine is overloaded or stopped, or allow more time with -w";

/// One line of `why`, in the order from the address to the reader. The first `fault` is the cause.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline diagnosis, version 1")]
pub(crate) struct Finding {
    /// Name of the variable. Left out when only the connection was checked.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// The step that was checked: address, host, connection, protocol, version, engine, clock, name,
    /// library, rights, source, filter, buffer, ...
    step: &'static str,
    /// `ok`: nothing is wrong; `note`: worth knowing; `fault`: why the variable does not update.
    verdict: Verdict,
    /// Result of the check.
    message: String,
    /// Recommended action. Left out when there is nothing to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
    /// True in a table, where the last line shows the hint.
    #[serde(skip)]
    is_in_table: bool,
}

impl Record for Finding {
    const COLUMNS: &'static [&'static str] = &["verdict", "step", "message", "hint"];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        (self.is_in_table && column == "hint").then(String::new)
    }

    fn style(&self) -> Style {
        match self.verdict {
            Verdict::Ok => Style::Good,
            Verdict::Note => Style::Warning,
            Verdict::Fault => Style::Bad,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Ok,
    Note,
    Fault,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let operands: Vec<String> = args.name.iter().cloned().collect();
    let targets = targets::resolve(&operands, &context.settings)?;
    let engine = &targets.engine;
    let (_, origin) = targets::engine_with_origin(&context.settings)?;
    let sentence = address_sentence(engine, origin, args, context);
    let mut findings = vec![ok("address", sentence)];
    let name = match targets.list.first() {
        None => {
            connection_steps(engine, context, &mut findings)?;
            None
        }
        Some(Target::Name(name)) => {
            if let Some(client) = connection_steps(engine, context, &mut findings)? {
                variable_steps(&client, name, context, &mut findings);
            }
            Some(name.as_str())
        }
        Some(Target::Invalid(problem)) => {
            let hint = problem.hint.as_deref().unwrap_or("correct the name");
            findings = vec![fault("name", problem.message.clone(), hint)];
            args.name.as_deref()
        }
        Some(Target::Pattern(_)) => {
            let sentence = "`why` needs the name of a variable, not a pattern; `trunkline find` lists the \
                            variables that match";
            return Err(Problem::usage(sentence).into());
        }
    };
    report(name, findings, context)
}

fn address_sentence(engine: &Url, origin: Origin, args: &Args, context: &Context) -> String {
    let given = context.settings.url.as_deref();
    let origin = match (&args.name, origin) {
        (Some(name), _) if name.contains("://") => "given by the URL".to_owned(),
        (_, Origin::Given) if std::env::var("TRUNKLINE_URL").ok().as_deref() == given => {
            "given by TRUNKLINE_URL".to_owned()
        }
        (_, Origin::Given) => "given by --url".to_owned(),
        (_, Origin::Context(name)) => format!("of the selected context {name}"),
        (_, Origin::Default) => "which is the default".to_owned(),
    };
    format!("connecting to {}, {origin}", address(engine))
}

/// Checks every step up to the engine. Returns the client if it is connected.
fn connection_steps(
    engine: &Url,
    context: &Context,
    findings: &mut Vec<Finding>,
) -> Result<Option<Client>, CliError> {
    if !matches!(engine.via, Transport::Unix(_) | Transport::Shared(_))
        && !host_step(engine, findings)
    {
        return Ok(None);
    }
    let timeout = context.settings.timeout;
    let client = dial(engine, &context.settings)?;
    let session = match client.wait_connected(timeout) {
        Ok(session) => session,
        Err(error) => {
            findings.push(connection_fault(&error));
            return Ok(None);
        }
    };
    let transport = client.transport();
    let transport = transport.map_or_else(String::new, |used| match used.why_not_shared_memory {
        Some(reason) => format!("{} (no shared memory: {reason})", used.name),
        None => used.name.to_owned(),
    });
    let batching = client.throughput_mode().map_or_else(String::new, |terms| {
        let ThroughputMode { bytes, delay } = terms;
        format!(", sending at {bytes} bytes or after {delay:?}")
    });
    findings.push(ok(
        "connection",
        format!(
            "connected to {} over {transport}{batching}",
            session.engine_name
        ),
    ));
    let version = format!(
        "protocol {}; this is trunkline {}, the engine is {}",
        session.version,
        env!("CARGO_PKG_VERSION"),
        session.engine_version
    );
    findings.push(ok("version", version));
    let started_at = context.clock.now();
    match client.engine_info(timeout) {
        Ok(info) => {
            let round_trip = context.clock.now().since(started_at).as_secs_f64();
            let sentence = format!(
                "running for {:.0} s with {}, connections: {}; it answered in {:.1} ms",
                info.uptime.as_secs_f64(),
                counted(info.variables, "variable"),
                info.sessions,
                round_trip * 1e3
            );
            findings.push(ok("engine", sentence));
            let uptime = i64::try_from(info.uptime.as_nanos()).unwrap_or(i64::MAX);
            let engine_time = info.started.saturating_add_nanos(uptime);
            let offset =
                context.clock.wall().nanos_since(engine_time) as f64 / 1e9 - round_trip / 2.0;
            findings.push(clock(offset));
        }
        Err(error) => {
            findings.push(fault("engine", error.to_string(), NO_ANSWER_HINT));
            return Ok(None);
        }
    }
    Ok(Some(client))
}

/// Checks that the host name has an address. Returns true if it has one.
fn host_step(engine: &Url, findings: &mut Vec<Finding>) -> bool {
    let host = engine.host.as_deref().unwrap_or("localhost");
    match (host, engine.port_or_default()).to_socket_addrs() {
        Ok(addresses) => {
            let addresses = addresses.map(|address| address.ip().to_string());
            let mut addresses: Vec<String> = addresses.collect();
            addresses.dedup();
            let sentence = match addresses.join(" and ") {
                address if address == host => format!("{host} is an IP address"),
                addresses => format!("{host} resolves to {addresses}"),
            };
            findings.push(ok("host", sentence));
            true
        }
        Err(error) => {
            let next = "check the spelling of the host name, and the DNS settings of this machine";
            let sentence = format!("the host name {host} has no address ({error})");
            findings.push(fault("host", sentence, next));
            false
        }
    }
}

fn clock(offset_seconds: f64) -> Finding {
    if offset_seconds.abs() <= CLOCK_OFFSET_MAX_SECONDS {
        return ok(
            "clock",
            "the clocks of the engine and this machine agree".to_owned(),
        );
    }
    let direction = match offset_seconds > 0.0 {
        true => "behind",
        false => "ahead of",
    };
    let offset = offset_seconds.abs();
    let sentence = format!("the engine's clock is {offset:.1} s {direction} this machine's");
    let hint = "synchronise both clocks; timestamps come from the engine and its sources";
    finding("clock", Verdict::Note, sentence, hint)
}

fn connection_fault(error: &CallError) -> Finding {
    let (step, sentence) = match error {
        CallError::NotConnected { cause } => {
            let step = match &**cause {
                Disconnect::VersionMismatch(_) => "version",
                Disconnect::NotTrunkline { .. } | Disconnect::Malformed { .. } => "protocol",
                _ => "connection",
            };
            (step, cause.to_string())
        }
        CallError::TimedOut { after } => {
            let sentence = format!(
                "no answer within {after:?}; check that the machine is on, and that no firewall \
                 blocks the connection"
            );
            ("connection", sentence)
        }
        other => ("connection", other.to_string()),
    };
    let (sentence, next) = sentence
        .split_once("; ")
        .unwrap_or((&sentence, "start the engine, or choose another with --url"));
    fault(step, sentence.to_owned(), next)
}

fn variable_steps(client: &Client, name: &str, context: &Context, findings: &mut Vec<Finding>) {
    match client.why(name, context.settings.timeout) {
        Ok(steps) => findings.extend(steps.into_iter().map(finding_of_engine)),
        Err(error) => {
            findings.push(fault("engine", error.to_string(), NO_ANSWER_HINT));
        }
    }
}

fn finding_of_engine(step: Step) -> Finding {
    let stage = match step.stage {
        WhyStage::Resolution => "name",
        stage => stage.name(),
    };
    let verdict = match step.verdict {
        WhyVerdict::Ok => Verdict::Ok,
        WhyVerdict::Fault => Verdict::Fault,
        WhyVerdict::Note | WhyVerdict::Unknown(_) => Verdict::Note,
    };
    finding(stage, verdict, step.sentence, &step.next)
}

fn ok(step: &'static str, message: String) -> Finding {
    finding(step, Verdict::Ok, message, "")
}

fn fault(step: &'static str, message: String, hint: &str) -> Finding {
    finding(step, Verdict::Fault, message, hint)
}

fn finding(step: &'static str, verdict: Verdict, message: String, hint: &str) -> Finding {
    Finding {
        name: String::new(),
        step,
        verdict,
        message,
        hint: hint.to_owned(),
        is_in_table: false,
    }
}

fn report(
    name: Option<&str>,
    mut findings: Vec<Finding>,
    context: &Context,
) -> Result<Exit, CliError> {
    let format = context.settings.output_format;
    // JSON output keeps the times as the engine writes them.
    let times = context.settings.times.column(true, context.started);
    let times = times.filter(|_| !format.is_json());
    let mut table = context.table::<Finding>()?;
    for finding in &mut findings {
        finding.name = name.unwrap_or_default().to_owned();
        finding.is_in_table = format == OutputFormat::Table;
        if let Some(times) = &times {
            finding.message = with_local_times(&finding.message, times);
        }
        if context.settings.columns != Columns::Terse {
            table.push(finding)?;
        }
    }
    table.finish()?;
    let is_fault = |finding: &&Finding| finding.verdict == Verdict::Fault;
    let cause = findings.iter().find(is_fault);
    if format.is_for_people() {
        context.terminal.lines(&conclusion(name, cause))?;
    }
    Ok(Exit::ProblemsFound.when(cause.is_some()))
}

/// Replaces the times in a sentence from the engine with times in the style of the output.
fn with_local_times(sentence: &str, times: &TimeColumn) -> String {
    let local = |word: &str| {
        let time = word.trim_end_matches(['.', ',', ';', ')']);
        match parse_rfc3339(time) {
            Ok(instant) => format!("{}{}", times.absolute(instant), &word[time.len()..]),
            Err(_) => word.to_owned(),
        }
    };
    let words: Vec<String> = sentence.split(' ').map(local).collect();
    words.join(" ")
}

fn conclusion(name: Option<&str>, cause: Option<&Finding>) -> String {
    match (name.map(escaped), cause) {
        (Some(name), None) => format!("Nothing prevents {name} from updating."),
        (None, None) => "The connection works.".to_owned(),
        (name, Some(cause)) => {
            let subject = match name {
                // The variable updates; one of its consumers does not receive or record all of it.
                Some(name) if cause.step == WhyStage::Consumer.name() => name,
                Some(name) => format!("{name} does not update"),
                None => "There is no connection".to_owned(),
            };
            let sentence = with_full_stop(&cause.message);
            match cause.hint.as_str() {
                "" => format!("{subject}: {sentence}"),
                next => format!("{subject}: {sentence}\nNext: {}", with_full_stop(next)),
            }
        }
    }
}

/// Returns the sentence on one line, with a full stop at its end.
fn with_full_stop(sentence: &str) -> String {
    let sentence = escaped(sentence);
    match sentence.ends_with(['.', '?', '!']) {
        true => sentence,
        false => format!("{sentence}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_cause_is_reported_with_a_remedy() {
        let cause = fault("source", "its device is off".to_owned(), "switch it on");
        let text = conclusion(Some("a/b"), Some(&cause));
        assert_eq!(
            text,
            "a/b does not update: its device is off.\nNext: switch it on."
        );
        let cause = fault("consumer", "it is not recorded now".to_owned(), "make room");
        let text = conclusion(Some("a/b"), Some(&cause));
        assert_eq!(text, "a/b: it is not recorded now.\nNext: make room.");
        assert_eq!(conclusion(None, None), "The connection works.");
    }

    #[test]
    fn a_large_clock_difference_is_reported() {
        assert_eq!(clock(0.4).verdict, Verdict::Ok);
        assert_eq!(clock(-0.9).verdict, Verdict::Ok);
        let behind = clock(12.34);
        assert_eq!(behind.verdict, Verdict::Note);
        assert!(
            behind.message.contains("12.3 s behind"),
            "{}",
            behind.message
        );
        assert!(clock(-5.0).message.contains("ahead of"));
    }
}
