//! `put`: writes values and says what came of each.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline::{OpenOptions, Opened, Write, WriteOutcome};
use trunkline_types::text::parse_value;
use trunkline_types::{Lost, Position, Quality, Reading, Sample, Value};

use super::{Context, Verb};
use crate::connection::{Connection, facts, writing_fault};
use crate::exit::{Exit, Tally};
use crate::output::csv;
use crate::output::readings::{Change, Plan, ReadingPrinter};
use crate::output::{Facts, Shown};
use crate::problem::{Problem, Stop};
use crate::targets::{self, Targets, Wanted};

/// Write values, and wait until each is confirmed
///
/// `put NAME VALUE`, `put NAME=VALUE NAME=VALUE`, `put NAME -` (the value from standard input), or
/// `put --csv FILE`. Values are written as the variable's type wants them: 72.5, on, AUTO, text,
/// [1, 2, 3]. All of them go as one batch; a value that is refused leaves the others alone.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// NAME VALUE, or any number of NAME=VALUE
    #[arg(value_name = "NAME VALUE", allow_negative_numbers = true)]
    words: Vec<String>,

    /// Write the rows of a file with the columns name and value, such as `get -o csv` makes; `-` is
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with = "words")]
    csv: Option<PathBuf>,

    /// Do not wait until the engine has confirmed the values
    #[arg(long)]
    no_wait: bool,
}

pub(crate) const VERB: Verb = Verb {
    name: "put",
    writes: true,
    exits: &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Refused,
        Exit::Unknown,
        Exit::Interrupted,
    ],
};

/// A value for a name, as it was typed.
type Pair = (String, String);

/// What is to become of one pair.
enum Item {
    /// It is wrong, and nothing is sent.
    Wrong(Problem),
    /// It is sent, as this write of the batch.
    Sent {
        opened: Opened,
        value: Value,
        index: usize,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let pairs = pairs(args)?;
    let operands: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
    let targets = targets::resolve(&operands, &context.settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let (items, writes) = prepare(&connection, &pairs, targets)?;
    let name_width = pairs
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let plan = Plan {
        name_width,
        with_time: false,
        started: context.started,
    };
    let printer = ReadingPrinter::new(&context.settings, &context.terminal, plan)?;
    let report = Report {
        context,
        printer,
        name_width,
        tally: Tally::default(),
    };
    if args.no_wait {
        let sent = connection.client.write_untracked(writes);
        sent.map_err(|error| connection.failed(&error))?;
        // Sends what waits, without waiting for what the engine says to it.
        connection.client.close();
        return report.sent(&pairs, &items);
    }
    report.written(&connection, &pairs, &items, writes)
}

/// What is to be written, from the command line, standard input or a file.
fn pairs(args: &Args) -> Result<Vec<Pair>, Problem> {
    if let Some(path) = &args.csv {
        return pairs_of_csv(path);
    }
    match args.words.as_slice() {
        [] => Err(Problem::usage(
            "put needs a name and a value; as in put boiler/setpoint 75",
        )),
        words if words.iter().all(|word| word.contains('=')) => Ok(words
            .iter()
            .filter_map(|word| word.split_once('='))
            .map(owned)
            .collect()),
        [name, value] if value == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Problem::usage(&format!("standard input: {error}")))?;
            let text = text.strip_suffix('\n').unwrap_or(&text);
            let text = text.strip_suffix('\r').unwrap_or(text);
            Ok(vec![(name.clone(), text.to_owned())])
        }
        [name, value] => Ok(vec![(name.clone(), value.clone())]),
        [name] => {
            let sentence = format!("what is to be written to {name}? put {name} VALUE");
            Err(Problem::usage(&sentence))
        }
        _ => {
            let sentence = "several values are written as NAME=VALUE NAME=VALUE; a value with spaces \
                            needs quotes";
            Err(Problem::usage(sentence))
        }
    }
}

fn owned((name, value): (&str, &str)) -> Pair {
    (name.to_owned(), value.to_owned())
}

fn pairs_of_csv(path: &Path) -> Result<Vec<Pair>, Problem> {
    let shown = path.display();
    let wrong = |place: String, what: &str| Problem::usage(&format!("{shown}{place}: {what}"));
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| wrong(String::new(), &error.to_string()))?;
    let rows = csv::parse(&text).map_err(|(line, what)| wrong(format!(":{line}"), what))?;
    let Some((header, rows)) = rows.split_first() else {
        return Ok(Vec::new());
    };
    let column = |name: &str| {
        header
            .cells
            .iter()
            .position(|cell| cell == name)
            .ok_or_else(|| {
                let what =
                    format!("there is no column \"{name}\"; the first line names the columns");
                wrong(format!(":{}", header.line), &what)
            })
    };
    let (name, value) = (column("name")?, column("value")?);
    rows.iter()
        .map(|row| match (row.cells.get(name), row.cells.get(value)) {
            (Some(name), Some(value)) => Ok((name.clone(), value.clone())),
            _ => Err(wrong(format!(":{}", row.line), "the row is too short")),
        })
        .collect()
}

/// Opens the variables, and makes a write of each value that fits.
fn prepare(
    connection: &Connection,
    pairs: &[Pair],
    targets: Targets,
) -> Result<(Vec<Item>, Vec<Write>), Stop> {
    let names: Vec<Result<String, Problem>> = targets.wanted.into_iter().map(name_of).collect();
    let good: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    let options = OpenOptions {
        read: true,
        describe: true,
        ..OpenOptions::default()
    };
    let mut opened = connection.open(&good, options)?.into_iter();
    let mut writes = Vec::with_capacity(good.len());
    let mut items = Vec::with_capacity(pairs.len());
    for (name, (_, text)) in names.into_iter().zip(pairs) {
        let opened = name.and_then(|name| match opened.next() {
            Some(opened) => opened.and_then(|opened| convert(&name, opened, text)),
            None => Err(Problem::new(Exit::SomeFailed, "failed", "there was no answer").of(&name)),
        });
        items.push(match opened {
            Err(problem) => Item::Wrong(problem),
            Ok((opened, value)) => {
                writes.push(Write::new(opened.variable, value.clone()));
                Item::Sent {
                    opened,
                    value,
                    index: writes.len() - 1,
                }
            }
        });
    }
    Ok((items, writes))
}

fn name_of(wanted: Wanted) -> Result<String, Problem> {
    match wanted {
        Wanted::Name(name) => Ok(name),
        Wanted::Wrong(problem) => Err(problem),
        Wanted::Pattern(pattern) => {
            let sentence = "a pattern is not written to; name the variables one by one";
            Err(Problem::new(Exit::SomeFailed, "bad-name", sentence).of(&pattern.to_string()))
        }
    }
}

fn convert(name: &str, opened: Opened, text: &str) -> Result<(Opened, Value), Problem> {
    match parse_value(text, &opened.data_type) {
        Ok(value) => Ok((opened, value)),
        Err(error) => {
            Err(Problem::new(Exit::Refused, "invalid-value", &error.to_string()).of(name))
        }
    }
}

/// What came of a write that did not fail.
#[derive(Clone, Copy)]
struct Outcome {
    word: &'static str,
    position: Option<Position>,
}

/// Says what came of the writes.
struct Report<'a> {
    context: &'a Context,
    printer: ReadingPrinter,
    name_width: usize,
    tally: Tally,
}

impl Report<'_> {
    /// All were sent, and that is all that is known.
    fn sent(mut self, pairs: &[Pair], items: &[Item]) -> Result<Exit, Stop> {
        for ((name, _), item) in pairs.iter().zip(items) {
            match item {
                Item::Wrong(problem) => self.failed(problem)?,
                Item::Sent { opened, value, .. } => {
                    let outcome = Outcome {
                        word: "sent",
                        position: None,
                    };
                    self.changed((name, opened, value), None, outcome, "not confirmed")?;
                }
            }
        }
        Ok(self.tally.exit())
    }

    /// Writes, and waits for what comes of it.
    fn written(
        mut self,
        connection: &Connection,
        pairs: &[Pair],
        items: &[Item],
        writes: Vec<Write>,
    ) -> Result<Exit, Stop> {
        let began = self.context.clock.now();
        let outcomes = match writes.is_empty() {
            true => Ok(Vec::new()),
            false => connection.client.write(writes, connection.timeout()),
        };
        let took = self.context.clock.now().since(began);
        // What came between the sending and the answer leaves every write unknown.
        let lost = outcomes.as_ref().err().map(|error| {
            let why = connection.failed(error);
            let sentence = format!(
                "it is not known whether it was written: {}; read it again",
                why.message
            );
            Problem::new(Exit::Unknown, "unknown", &sentence)
        });
        let outcomes = outcomes.unwrap_or_default();
        let now = self.read_back(connection, items, &outcomes);
        let remark = confirmed_by(connection, took);
        for ((name, _), item) in pairs.iter().zip(items) {
            let (opened, value, index) = match item {
                Item::Wrong(problem) => {
                    self.failed(problem)?;
                    continue;
                }
                Item::Sent {
                    opened,
                    value,
                    index,
                } => (opened, value, *index),
            };
            let (outcome, remark) = match outcomes.get(index) {
                Some(WriteOutcome::Applied(position)) => (
                    Outcome {
                        word: "applied",
                        position: Some(*position),
                    },
                    remark.as_str(),
                ),
                Some(WriteOutcome::Unchanged(position)) => {
                    let outcome = Outcome {
                        word: "unchanged",
                        position: Some(*position),
                    };
                    (outcome, "unchanged: it is within the deadband")
                }
                Some(WriteOutcome::Superseded) => {
                    let outcome = Outcome {
                        word: "superseded",
                        position: None,
                    };
                    (outcome, "superseded by a later write")
                }
                other => {
                    self.failed(&problem_of(other, lost.as_ref()).of(name))?;
                    continue;
                }
            };
            // Another write may have followed already; what is told is what came of this one.
            let is_ours = |reading: &&Reading| Some(reading.position) == outcome.position;
            let reading = now.get(index).and_then(Option::as_ref).filter(is_ours);
            self.changed((name, opened, value), reading, outcome, remark)?;
        }
        Ok(self.tally.exit())
    }

    /// What the engine holds now, by the index of the write: the value may have been pulled into its range
    /// or come back from a device.
    fn read_back(
        &self,
        connection: &Connection,
        items: &[Item],
        outcomes: &[WriteOutcome],
    ) -> Vec<Option<Reading>> {
        if outcomes.is_empty() {
            return Vec::new();
        }
        let variables: Vec<_> = items
            .iter()
            .filter_map(|item| match item {
                Item::Sent { opened, .. } => Some(opened.variable),
                Item::Wrong(_) => None,
            })
            .collect();
        // Without an answer, what was written stands for it.
        let readings = connection.client.read(&variables, connection.timeout());
        readings.map_or_else(
            |_| Vec::new(),
            |all| all.into_iter().map(Result::ok).collect(),
        )
    }

    fn changed(
        &mut self,
        (name, opened, value): (&str, &Opened, &Value),
        reading: Option<&Reading>,
        outcome: Outcome,
        remark: &str,
    ) -> Result<(), Stop> {
        let facts: Facts = facts(opened);
        let received = self.context.clock.wall();
        let shown = |reading| Shown::new(name, &facts, reading, received);
        let old = opened.reading.as_ref().map(shown);
        // Where the engine was not asked, or holds a newer value already, what was written is shown.
        let assumed = Reading {
            sample: Sample {
                value: value.clone(),
                source_timestamp: received,
                engine_timestamp: received,
                quality: Quality::GOOD,
            },
            position: outcome.position.unwrap_or_default(),
            lost: Lost::NONE,
            stale: None,
            own: true,
        };
        let new = Shown {
            is_written: true,
            ..shown(reading.unwrap_or(&assumed))
        };
        self.printer.print_change(&Change {
            old: old.as_ref(),
            new,
            is_assumed: reading.is_none(),
            position: outcome.position,
            outcome: outcome.word,
            remark,
        })
    }

    fn failed(&mut self, problem: &Problem) -> Result<(), Stop> {
        self.tally
            .item_failed(self.context.show(problem, self.name_width)?);
        Ok(())
    }
}

/// Why a write came to nothing, or may have.
fn problem_of(outcome: Option<&WriteOutcome>, lost: Option<&Problem>) -> Problem {
    match (outcome, lost) {
        (Some(WriteOutcome::Refused(fault)), _) => writing_fault(fault),
        (Some(WriteOutcome::Unknown(fault)), _) => {
            let sentence = format!("it is not known whether it was written: {}", fault.sentence);
            Problem::new(Exit::Unknown, fault.code.name(), &sentence)
        }
        (Some(WriteOutcome::WouldBlock), _) => {
            let sentence =
                "a subscriber's buffer is full and the variable lets writers wait; try again";
            Problem::new(Exit::Refused, "would-block", sentence)
        }
        (_, Some(lost)) => lost.clone(),
        (_, None) => {
            let sentence = "it is not known whether it was written; read it again";
            Problem::new(Exit::Unknown, "unknown", sentence)
        }
    }
}

fn confirmed_by(connection: &Connection, took: Duration) -> String {
    let millis = took.as_secs_f64() * 1e3;
    format!(
        "confirmed by {}@{}, {millis:.1} ms",
        connection.engine_name, connection.address
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs_of(words: &[&str]) -> Result<Vec<Pair>, Problem> {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        pairs(&Args {
            words,
            csv: None,
            no_wait: false,
        })
    }

    fn pair(name: &str, value: &str) -> Pair {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_name_and_a_value_or_any_number_of_pairs() {
        assert_eq!(pairs_of(&["a/b", "5"]), Ok(vec![pair("a/b", "5")]));
        assert_eq!(pairs_of(&["a/b", "x=y"]), Ok(vec![pair("a/b", "x=y")]));
        assert_eq!(pairs_of(&["a/b=x=y"]), Ok(vec![pair("a/b", "x=y")]));
        let two = vec![pair("a/b", "1"), pair("a/c", "")];
        assert_eq!(pairs_of(&["a/b=1", "a/c="]), Ok(two));
    }

    #[test]
    fn anything_else_is_a_wrong_command_line() {
        for words in [
            &[][..],
            &["a/b"],
            &["a/b", "1", "2"],
            &["a/b=1", "a/c", "2"],
        ] {
            assert_eq!(pairs_of(words).unwrap_err().exit, Exit::Usage, "{words:?}");
        }
    }

    #[test]
    fn a_file_needs_its_two_columns_and_may_have_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            pairs_of_csv(&path)
        };
        let pairs = read("ts,value,name\n1,\"x,y\",a/b\n\n2,5,a/c\n");
        assert_eq!(pairs, Ok(vec![pair("a/b", "x,y"), pair("a/c", "5")]));
        for (text, message) in [
            ("name,wert\na/b,1\n", ":1: there is no column \"value\""),
            ("name,value\na/b\n", ":2: the row is too short"),
            ("name,value\na/b,\"1\n", ":2: a quote is not closed"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.message.ends_with(message), "{}", problem.message);
        }
        let missing = pairs_of_csv(&folder.path().join("none.csv")).unwrap_err();
        assert_eq!(missing.exit, Exit::Usage);
    }
}
