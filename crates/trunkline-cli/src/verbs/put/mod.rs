//! `put`, and similar verbs: writes values and reports the outcome of each write.

mod pairs;
mod report;

use std::path::PathBuf;

use trunkline::{Opened, VariableRef, Write};
use trunkline_types::text::parse_value;
use trunkline_types::{Position, Value};

use self::pairs::{Pair, pairs};
use self::report::Report;
use crate::connection::{Connection, open_options};
use crate::output::readings::{PrinterOptions, ReadingPrinter};
use crate::targets::{self, Target, Targets};
use crate::{CliError, Context, Exit, Problem, Tally};

/// Arguments of `put` and `set`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    values: ValueArgs,

    /// Write all values at one instant, or none; at most 4096 values. With --atomic, the arguments
    /// can also be NAME VALUE NAME VALUE
    #[arg(long, conflicts_with = "no_wait")]
    atomic: bool,

    /// Write only if the variable's last update has this sequence number (the key `seq` in JSON
    /// output). EPOCH:SEQ also checks the epoch, the number of the engine's current run. For one
    /// variable only
    #[arg(long, value_name = "SEQ", value_parser = expected, allow_negative_numbers = true)]
    expect: Option<Expected>,
}

/// The values, for `put`, `set` and `force`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct ValueArgs {
    /// NAME VALUE, or any number of NAME=VALUE
    #[arg(value_name = "NAME VALUE", allow_negative_numbers = true)]
    words: Vec<String>,

    /// Read names and values from a CSV file with the columns name and value, such as the output
    /// of `get -o csv`; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "words")]
    csv: Option<PathBuf>,

    /// Do not wait for the engine to confirm the values; refused values are then not reported
    #[arg(long)]
    no_wait: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Expected {
    /// `None` means the current epoch of the engine.
    epoch: Option<u64>,
    sequence: u64,
}

fn expected(text: &str) -> Result<Expected, String> {
    let number = |text: &str| {
        let wrong = |_| "not a sequence number; use SEQ or EPOCH:SEQ";
        text.parse::<u64>().map_err(wrong)
    };
    Ok(match text.split_once(':') {
        Some((epoch, sequence)) => Expected {
            epoch: Some(number(epoch)?),
            sequence: number(sequence)?,
        },
        None => Expected {
            epoch: None,
            sequence: number(text)?,
        },
    })
}

/// Arguments of `send` and `request`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceRequestArgs {
    /// The variables
    #[arg(value_name = "NAME", required = true)]
    pub(super) names: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct WriteSettings {
    no_wait: bool,
    atomic: bool,
    expected: Option<Expected>,
}

enum Item {
    Invalid(Problem),
    /// Sent as the write with this index in the batch.
    Sent {
        opened: Opened,
        value: Value,
        index: usize,
    },
}

/// Writes the values in the arguments of `put` or `set`. `make` creates each write.
pub(super) fn write_values(
    args: &Args,
    make: fn(VariableRef, Value) -> Write,
    context: &Context,
) -> Result<Exit, CliError> {
    let pairs = pairs(&args.values, args.atomic)?;
    let settings = WriteSettings {
        no_wait: args.values.no_wait,
        atomic: args.atomic,
        expected: args.expect,
    };
    if settings.expected.is_some() && pairs.len() != 1 {
        let sentence = "--expect accepts only one variable; write the variables one by one";
        return Err(Problem::usage(sentence).into());
    }
    write(&pairs, WriteKind::Value(make), settings, context)
}

/// Forces the variables in the arguments of `force`.
pub(super) fn force_values(args: &ValueArgs, context: &Context) -> Result<Exit, CliError> {
    let pairs = pairs(args, false)?;
    let settings = WriteSettings {
        no_wait: args.no_wait,
        ..WriteSettings::default()
    };
    write(&pairs, WriteKind::Value(Write::force), settings, context)
}

/// Sends a request without a value to each of these variables.
pub(super) fn write_orders(
    names: &[String],
    make: fn(VariableRef) -> Write,
    context: &Context,
) -> Result<Exit, CliError> {
    let pair = |name: &String| (name.clone(), String::new());
    let pairs: Vec<Pair> = names.iter().map(pair).collect();
    write(
        &pairs,
        WriteKind::Order(make),
        WriteSettings::default(),
        context,
    )
}

#[derive(Clone, Copy)]
enum WriteKind {
    Value(fn(VariableRef, Value) -> Write),
    /// A request without a value, such as `send` or `unforce`.
    Order(fn(VariableRef) -> Write),
}

fn write(
    pairs: &[Pair],
    kind: WriteKind,
    settings: WriteSettings,
    context: &Context,
) -> Result<Exit, CliError> {
    let operands: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
    let targets = targets::resolve(&operands, &context.settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let (items, mut writes) = prepare(&connection, pairs, kind, targets)?;
    if let Some(expected) = settings.expected {
        for write in &mut writes {
            write.options.expected = Some(Position {
                epoch: expected.epoch.unwrap_or(connection.epoch),
                sequence: expected.sequence,
            });
        }
    }
    let widths = pairs.iter().map(|(name, _)| crate::terminal::width(name));
    let name_width = widths.max().unwrap_or(0);
    let options = PrinterOptions {
        name_width,
        with_time: false,
        started: context.started,
    };
    let printer = ReadingPrinter::new(&context.settings, &context.terminal, options)?;
    let report = Report {
        context,
        printer,
        name_width,
        has_values: matches!(kind, WriteKind::Value(_)),
        unchanged: match kind {
            WriteKind::Value(_) => "unchanged: the value is within the deadband",
            WriteKind::Order(_) => "unchanged: the variable has no device",
        },
        tally: Tally::default(),
    };
    if settings.no_wait {
        connection.call(|client, life| client.write_untracked(writes, life))?;
        // Sends the queued writes, but does not wait for the engine's answer.
        connection.client.close();
        return report.report_sent(pairs, &items);
    }
    report.write_and_report(&connection, pairs, &items, writes, settings.atomic)
}

fn prepare(
    connection: &Connection,
    pairs: &[Pair],
    kind: WriteKind,
    targets: Targets,
) -> Result<(Vec<Item>, Vec<Write>), CliError> {
    let names: Vec<Result<String, Problem>> = targets.list.into_iter().map(name_of).collect();
    let valid: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    let mut opened = connection
        .open(&valid, open_options(true, true))?
        .into_iter();
    let mut writes = Vec::with_capacity(valid.len());
    let mut items = Vec::with_capacity(pairs.len());
    for (name, (_, text)) in names.into_iter().zip(pairs) {
        let opened = name.and_then(|name| match opened.next() {
            Some(opened) => opened.and_then(|opened| kind.build(&name, opened, text)),
            None => Err(Problem::failed("failed", "the engine did not answer").with_name(&name)),
        });
        items.push(match opened {
            Err(problem) => Item::Invalid(problem),
            Ok((opened, value, write)) => {
                writes.push(write);
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

fn name_of(target: Target) -> Result<String, Problem> {
    match target {
        Target::Name(name) => Ok(name),
        Target::Invalid(problem) => Err(problem),
        Target::Pattern(pattern) => {
            let sentence = "patterns are not accepted here; list the variables by name";
            Err(Problem::failed("bad-name", sentence).with_name(&pattern.to_string()))
        }
    }
}

impl WriteKind {
    /// Returns the write, and the value to show if the engine reports none.
    fn build(
        self,
        name: &str,
        opened: Opened,
        text: &str,
    ) -> Result<(Opened, Value, Write), Problem> {
        let variable = opened.variable;
        match self {
            WriteKind::Order(make) => {
                let reading = opened.reading.as_ref();
                let value = reading.map(|reading| reading.sample.value.clone());
                let value = value.unwrap_or_else(|| Value::default_of(&opened.data_type));
                Ok((opened, value, make(variable)))
            }
            WriteKind::Value(make) => match parse_value(text, &opened.data_type) {
                Ok(value) => Ok((opened, value.clone(), make(variable, value))),
                Err(error) => Err(
                    Problem::new(Exit::Refused, "invalid-value", error.to_string()).with_name(name),
                ),
            },
        }
    }
}
