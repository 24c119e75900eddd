//! The settings of a command: its global options, checked for conflicts.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trunkline::proto::{Password, ThroughputMode};
use trunkline_types::Pattern;

use crate::Problem;
use crate::arguments::{GlobalArgs, OutputFormat};
use crate::output::template::Template;
use crate::output::times::TimeChoice;
use crate::output::values::ValueStyle;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// URL of the engine, as the user wrote it; `None` if the user gave none.
    pub(crate) url: Option<String>,
    /// Account that logs in with its password.
    pub(crate) account: Option<String>,
    /// The password, once the user has given it. Clones share it, so that the user gives it once.
    pub(crate) password: Arc<OnceLock<Password>>,
    pub(crate) batch: Option<ThroughputMode>,
    pub(crate) timeout: Duration,
    pub(crate) is_timeout_given: bool,
    pub(crate) output_format: OutputFormat,
    pub(crate) columns: Columns,
    pub(crate) values: ValueStyle,
    pub(crate) times: TimeChoice,
    pub(crate) exclude: Vec<Pattern>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Columns {
    Default,
    Terse,
    Wide,
    Template(Template),
}

impl Settings {
    /// Checks the options. `is_tty` is true if standard output is a terminal.
    pub(crate) fn new(global: &GlobalArgs, is_tty: bool) -> Result<Self, Problem> {
        let output_format = match (global.json, global.output_format) {
            (
                true,
                Some(
                    OutputFormat::Table
                    | OutputFormat::Plain
                    | OutputFormat::Json
                    | OutputFormat::Csv,
                ),
            ) => {
                return Err(Problem::usage(
                    "--json selects -o jsonl and cannot be combined with another -o; use only one of them",
                ));
            }
            (true, _) => OutputFormat::Jsonl,
            (false, Some(output_format)) => output_format,
            (false, None) if is_tty => OutputFormat::Table,
            (false, None) => OutputFormat::Plain,
        };
        let columns = columns(global)?;
        if columns != Columns::Default && !output_format.is_for_people() {
            let sentence = "-t, -a and --format work only with table and plain output; leave them \
                            out, or leave out --json or -o";
            return Err(Problem::usage(sentence));
        }
        let exclude = global.exclude.iter().map(|text| {
            Pattern::parse(text)
                .map_err(|error| Problem::usage(format!("--exclude \"{text}\": {error}")))
        });
        Ok(Self {
            url: global.url.clone(),
            account: global.account.clone(),
            password: Arc::default(),
            batch: global.batch,
            timeout: global.timeout,
            is_timeout_given: false,
            output_format,
            columns,
            values: ValueStyle::new(global, output_format),
            times: TimeChoice::new(global),
            exclude: exclude.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the timeout if one was given, for commands that otherwise wait forever.
    pub(crate) fn explicit_timeout(&self) -> Option<Duration> {
        self.is_timeout_given.then_some(self.timeout)
    }

    pub(crate) fn is_json(&self) -> bool {
        self.output_format.is_json()
    }

    pub(crate) fn is_excluded(&self, name: &str) -> bool {
        self.exclude.iter().any(|pattern| pattern.matches(name))
    }
}

impl OutputFormat {
    pub(crate) fn is_json(self) -> bool {
        matches!(self, OutputFormat::Json | OutputFormat::Jsonl)
    }

    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, OutputFormat::Table | OutputFormat::Plain)
    }
}

fn columns(global: &GlobalArgs) -> Result<Columns, Problem> {
    Ok(match (global.terse, global.wide, &global.template) {
        (false, false, None) => Columns::Default,
        (true, false, None) => Columns::Terse,
        (false, true, None) => Columns::Wide,
        (false, false, Some(text)) => Columns::Template(Template::parse(text)?),
        _ => {
            return Err(Problem::usage(
                "-t, -a and --format cannot be combined; use only one of them",
            ));
        }
    })
}
