//! Expands `[[variable]]` tables into the variables that they define.

mod prepared;
mod repeat;
mod templated_text;

use trunkline_types::{Pattern, VariableDefinition};

use crate::display::grouped;
use crate::error::ConfigErrorKind as Kind;
use crate::fields::{Braces, Values};
use crate::intern::Interner;
use crate::keys::Section;
use crate::node::Table;
use crate::report::Report;
use crate::sections::{check_keys, required};
use crate::source::Place;
use crate::variable::{Draft, IoNames, Layer, TextMode};

pub(crate) use prepared::PreparedTable;

/// State that is shared by all variables of all files.
#[derive(Debug)]
pub(crate) struct Expansion<'p> {
    pub report: &'p mut Report,
    pub io: IoNames,
    /// Number of variables defined so far.
    pub variable_count: u128,
    pub variables_max: u32,
    pub interner: Interner,
}

/// The library that variables are added to, with the overrides of one file.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub library: String,
    pub overrides: Vec<Override<'a>>,
    pub variables: Vec<Variable>,
    /// True if an error prevented the creation of some variables. An override without matches is
    /// then not reported, because it may be intended for one of them.
    pub is_incomplete: bool,
    /// Index of the file, which distinguishes the overrides of different files.
    pub file: u32,
}

/// A variable and the place that defined it.
#[derive(Debug)]
pub(crate) struct Variable {
    pub definition: VariableDefinition,
    pub place: Place,
}

/// One `[[override]]`.
#[derive(Debug)]
pub(crate) struct Override<'a> {
    pub pattern: Option<Pattern>,
    pub text: String,
    pub place: Place,
    pub draft: Draft<'a>,
    pub has_matched: bool,
}

impl<'a> Override<'a> {
    /// Reads an `[[override]]`.
    pub fn read(table: &'a Table, report: &mut Report) -> Self {
        check_keys(table, Section::Override, report);
        let braces = Braces::Reject(Section::Override);
        let draft = Draft::read(table, Layer::Override, braces, TextMode::Fill, report);
        let node = required(table, Section::Override, "match", report);
        let text = node.and_then(|node| Values::plain(report).text("match", node));
        let place = node.map_or(table.place, |node| node.place);
        let pattern = text.as_ref().and_then(|text| {
            let parsed = Pattern::parse(text);
            let refused = |error: trunkline_types::pattern::PatternError| {
                let reason = error.to_string();
                report.error(
                    place,
                    Kind::InvalidPattern {
                        text: text.clone(),
                        reason,
                    },
                );
            };
            parsed.map_err(refused).ok()
        });
        let text = text.unwrap_or_default();
        Self {
            pattern,
            text,
            place,
            draft,
            has_matched: false,
        }
    }
}

impl Expansion<'_> {
    /// Adds `count` to the number of variables. If this exceeds the limit, reports an error and
    /// returns false.
    fn reserve_variables(&mut self, count: u128, place: Place) -> bool {
        let max = u128::from(self.variables_max);
        let was_full = self.variable_count > max;
        self.variable_count = self.variable_count.saturating_add(count);
        if self.variable_count <= max {
            return true;
        }
        if !was_full {
            let (count, max) = (grouped(self.variable_count), grouped(max));
            self.report
                .error(place, Kind::TooManyVariables { count, max });
        }
        false
    }
}

impl Target<'_> {
    /// Reports the overrides that matched no variable.
    pub fn check_overrides(&self, report: &mut Report) {
        for rule in &self.overrides {
            if rule.pattern.is_some() && !rule.has_matched && !self.is_incomplete {
                report.error(
                    rule.place,
                    Kind::MatchesNothing {
                        text: rule.text.clone(),
                    },
                );
            }
        }
    }
}
