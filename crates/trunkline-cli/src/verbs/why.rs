//! `why`: explains why a variable does not update, or why there is no connection.
//!
//! The steps go from the name to this program. Those that the engine cannot see (address,
//! connection, version) are checked here, by doing what any command does; the engine provides those
//! after them.

use std::net::ToSocketAddrs;

use trunkline::proto::{Disconnect, Throughput, WhyStage, WhyVerdict};
use trunkline::{CallError, Client, Step};
use trunkline_types::Url;
use trunkline_types::text::parse_rfc3339;
use trunkline_types::url::Via;

use super::{Context, Verb};
use crate::arguments::Form;
use crate::connection::dial;
use crate::exit::Exit;
use crate::output::counted;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::output::times::TimeColumn;
use crate::problem::{Problem, Stop};
use crate::settings::Columns;
use crate::targets::{self, Wanted, address};
use crate::terminal::{Mood, plain};

/// Explain why a variable does not update; without a name, why there is no connection
///
/// The command checks the live state step by step, and prints the first cause and its remedy. If
/// there is a cause, the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The variable
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) const VERB: Verb = Verb::reading(
    "why",
    &[Exit::Done, Exit::Usage, Exit::Found, Exit::Interrupted],
);

/// Largest clock difference, in seconds, that is not worth a note.
const CLOCK_OFFSET_MAX_SECONDS: f64 = 1.0;

/// One step, checked here or by the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Finding {
    step: &'static str,
    verdict: Verdict,
    sentence: String,
    next: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Ok,
    Note,
    Fault,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let operands: Vec<String> = args.name.iter().cloned().collect();
    let targets = targets::resolve(&operands, &context.settings)?;
    let mut findings = vec![ok(
        "address",
        address_sentence(&targets.engine, args, context),
    )];
    match targets.wanted.into_iter().next() {
        None => {
            connection_steps(&targets.engine, context, &mut findings)?;
        }
        Some(Wanted::Name(name)) => {
            let client = connection_steps(&targets.engine, context, &mut findings)?;
            if let Some(client) = client {
                variable_steps(&client, &name, context, &mut findings);
            }
            return report(Some(&name), &findings, context);
        }
        Some(Wanted::Wrong(problem)) => {
            findings = vec![fault(
                "name",
                problem.message.clone(),
                problem
                    .hint
                    .clone()
                    .unwrap_or_else(|| "correct the name".to_owned()),
            )];
            return report(args.name.as_deref(), &findings, context);
        }
        Some(Wanted::Pattern(_)) => {
            let sentence = "why checks one variable; `trunkline find` lists matching variables";
            return Err(Problem::usage(sentence).into());
        }
    };
    report(None, &findings, context)
}

fn address_sentence(engine: &Url, args: &Args, context: &Context) -> String {
    let from = match (&args.name, &context.settings.url) {
        (Some(name), _) if name.contains("://") => "given by the URL",
        _ if std::env::var("TRUNKLINE_URL").as_deref() == Ok(context.settings.url.as_str()) => {
            "given by TRUNKLINE_URL"
        }
        (_, url) if url == "tl://localhost:5850" => "which is the default",
        _ => "given by --url",
    };
    format!("connecting to {}, {from}", address(engine))
}

/// Checks everything up to the engine. Returns the connection, if there is one.
fn connection_steps(
    engine: &Url,
    context: &Context,
    findings: &mut Vec<Finding>,
) -> Result<Option<Client>, Stop> {
    if !matches!(engine.via, Via::Unix(_) | Via::Shared(_)) && !host_step(engine, findings) {
        return Ok(None);
    }
    let timeout = context.settings.timeout;
    let client = dial(engine, &context.settings)?;
    let session = match client.wait_connected(timeout) {
        Ok(session) => session,
        Err(error) => {
            findings.push(unconnected(&error));
            return Ok(None);
        }
    };
    let over = client.transport();
    let over = over.map_or_else(String::new, |used| match used.why_not_shared_memory {
        Some(why) => format!("{} (no shared memory: {why})", used.name),
        None => used.name.to_owned(),
    });
    let gathered = client.throughput().map_or_else(String::new, |terms| {
        let Throughput { bytes, delay } = terms;
        format!(", sending at {bytes} bytes or after {delay:?}")
    });
    findings.push(ok(
        "connection",
        format!("connected to {} over {over}{gathered}", session.engine_name),
    ));
    let version = format!(
        "protocol {}; this is trunkline {}, the engine is {}",
        session.version,
        env!("CARGO_PKG_VERSION"),
        session.engine_version
    );
    findings.push(ok("version", version));
    let began = context.clock.now();
    match client.engine_info(timeout) {
        Ok(info) => {
            let took = context.clock.now().since(began).as_secs_f64();
            let sentence = format!(
                "up for {:.0} s with {}, connections: {}; it answers in {:.1} ms",
                info.uptime.as_secs_f64(),
                counted(info.variables, "variable"),
                info.sessions,
                took * 1e3
            );
            findings.push(ok("engine", sentence));
            let uptime = i64::try_from(info.uptime.as_nanos()).unwrap_or(i64::MAX);
            let its_time = info.started.saturating_add_nanos(uptime);
            let offset = context.clock.wall().nanos_since(its_time) as f64 / 1e9 - took / 2.0;
            findings.push(clock(offset));
        }
        Err(error) => {
            let next = "check its process, or allow more time with -w";
            findings.push(fault("engine", error.to_string(), next.to_owned()));
            return Ok(None);
        }
    }
    Ok(Some(client))
}

/// Checks that the host's name has an address. Returns true if so.
fn host_step(engine: &Url, findings: &mut Vec<Finding>) -> bool {
    let host = engine.host.as_deref().unwrap_or("localhost");
    match (host, engine.port_or_default()).to_socket_addrs() {
        Ok(addresses) => {
            let mut shown: Vec<String> =
                addresses.map(|address| address.ip().to_string()).collect();
            shown.dedup();
            findings.push(ok("host", format!("{host} is {}", shown.join(" and "))));
        }
        Err(error) => {
            let next = "check the spelling of the name and the DNS of this machine";
            let sentence = format!("the host name {host} has no address ({error})");
            findings.push(fault("host", sentence, next.to_owned()));
            return false;
        }
    }
    true
}

/// Describes the difference between the engine's clock and this machine's.
fn clock(offset_seconds: f64) -> Finding {
    if offset_seconds.abs() <= CLOCK_OFFSET_MAX_SECONDS {
        return ok(
            "clock",
            "the engine's clock and this machine's agree".to_owned(),
        );
    }
    let direction = if offset_seconds > 0.0 {
        "behind"
    } else {
        "ahead of"
    };
    Finding {
        step: "clock",
        verdict: Verdict::Note,
        sentence: format!(
            "the engine's clock is {:.1} s {direction} this machine's",
            offset_seconds.abs()
        ),
        next: "synchronise both; times shown are the engine's or its sources'".to_owned(),
    }
}

fn unconnected(error: &CallError) -> Finding {
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
    let (sentence, next) = match sentence.split_once("; ") {
        Some((sentence, next)) => (sentence.to_owned(), next.to_owned()),
        None => (
            sentence,
            "start the engine, or choose another with --url".to_owned(),
        ),
    };
    fault(step, sentence, next)
}

/// Adds the steps that concern the variable.
fn variable_steps(client: &Client, name: &str, context: &Context, findings: &mut Vec<Finding>) {
    match client.why(name, context.settings.timeout) {
        Ok(steps) => findings.extend(steps.into_iter().map(of_engine)),
        Err(error) => {
            let next = "check its process, or allow more time with -w";
            findings.push(fault("engine", error.to_string(), next.to_owned()));
        }
    }
}

fn of_engine(step: Step) -> Finding {
    Finding {
        step: match step.stage {
            WhyStage::Resolution => "name",
            stage => stage.name(),
        },
        verdict: match step.verdict {
            WhyVerdict::Ok => Verdict::Ok,
            WhyVerdict::Fault => Verdict::Fault,
            WhyVerdict::Note | WhyVerdict::Unknown(_) => Verdict::Note,
        },
        sentence: step.sentence,
        next: step.next,
    }
}

fn ok(step: &'static str, sentence: String) -> Finding {
    Finding {
        step,
        verdict: Verdict::Ok,
        sentence,
        next: String::new(),
    }
}

fn fault(step: &'static str, sentence: String, next: String) -> Finding {
    Finding {
        step,
        verdict: Verdict::Fault,
        sentence,
        next,
    }
}

/// Prints the steps, and the first cause in a sentence.
fn report(name: Option<&str>, findings: &[Finding], context: &Context) -> Result<Exit, Stop> {
    let form = context.settings.form;
    let times = context.settings.times.column(true, context.started);
    let shown = |finding: &Finding| match (&times, form) {
        // Programs get times in their usual form.
        (_, Form::Json | Form::Jsonl) | (None, _) => finding.clone(),
        (Some(times), _) => Finding {
            sentence: with_local_times(&finding.sentence, times),
            ..finding.clone()
        },
    };
    let findings: Vec<Finding> = findings.iter().map(shown).collect();
    let findings = &findings;
    let mut records = Records::new(
        &context.settings,
        &context.terminal,
        &["verdict", "step", "message", "hint"],
    )?;
    if context.settings.columns != Columns::Terse {
        for finding in findings {
            records.push(row(name, finding, form))?;
        }
    }
    records.finish()?;
    let cause = findings
        .iter()
        .find(|finding| finding.verdict == Verdict::Fault);
    if form.is_for_people() {
        context.terminal.lines(&conclusion(name, cause))?;
    }
    Ok(if cause.is_some() {
        Exit::Found
    } else {
        Exit::Done
    })
}

/// Replaces the times in a sentence of the engine by local ones, as shown everywhere here.
fn with_local_times(sentence: &str, times: &TimeColumn) -> String {
    let local = |word: &str| {
        let (time, rest) = match word.find(['.', ',', ';', ')']) {
            Some(_) => {
                let time = word.trim_end_matches(['.', ',', ';', ')']);
                (time, word.get(time.len()..).unwrap_or_default())
            }
            None => (word, ""),
        };
        match parse_rfc3339(time) {
            Ok(instant) => format!("{}{rest}", times.absolute(instant)),
            Err(_) => word.to_owned(),
        }
    };
    let words: Vec<String> = sentence.split(' ').map(local).collect();
    words.join(" ")
}

fn row(name: Option<&str>, finding: &Finding, form: Form) -> Row {
    let (word, mood) = match finding.verdict {
        Verdict::Ok => ("ok", Mood::Fine),
        Verdict::Note => ("note", Mood::Uncertain),
        Verdict::Fault => ("fault", Mood::Bad),
    };
    let mut object = Object::new();
    object.put_text("name", name.unwrap_or_default());
    object.put("step", finding.step);
    object.put("verdict", word);
    object.put("message", finding.sentence.as_str());
    object.put_text("hint", &finding.next);
    let next = match form {
        // People read it in the last line.
        Form::Table => String::new(),
        _ => finding.next.clone(),
    };
    let cells = vec![
        word.to_owned(),
        finding.step.to_owned(),
        finding.sentence.clone(),
        next,
    ];
    Row {
        cells,
        object,
        mood,
    }
}

fn conclusion(name: Option<&str>, cause: Option<&Finding>) -> String {
    match (name.map(plain), cause) {
        (Some(name), None) => format!("Nothing keeps {name} from updating."),
        (None, None) => "The connection is in order.".to_owned(),
        (name, Some(cause)) => {
            let what = match name {
                Some(name) => format!("{name} does not update"),
                None => "There is no connection".to_owned(),
            };
            let sentence = ended(&cause.sentence);
            match cause.next.as_str() {
                "" => format!("{what}: {sentence}"),
                next => format!("{what}: {sentence}\nNext: {}", ended(next)),
            }
        }
    }
}

/// Returns the sentence on one line, with a full stop at its end.
fn ended(sentence: &str) -> String {
    let sentence = plain(sentence);
    match sentence.ends_with(['.', '?', '!']) {
        true => sentence,
        false => format!("{sentence}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_is_named_with_what_to_do() {
        let cause = fault(
            "source",
            "its device is off".to_owned(),
            "switch it on".to_owned(),
        );
        let text = conclusion(Some("a/b"), Some(&cause));
        assert_eq!(
            text,
            "a/b does not update: its device is off.\nNext: switch it on."
        );
        assert_eq!(conclusion(None, None), "The connection is in order.");
    }

    #[test]
    fn a_clock_that_is_off_is_noted() {
        assert_eq!(clock(0.4).verdict, Verdict::Ok);
        assert_eq!(clock(-0.9).verdict, Verdict::Ok);
        let behind = clock(12.34);
        assert_eq!(behind.verdict, Verdict::Note);
        assert!(
            behind.sentence.contains("12.3 s behind"),
            "{}",
            behind.sentence
        );
        assert!(clock(-5.0).sentence.contains("ahead of"));
    }
}
