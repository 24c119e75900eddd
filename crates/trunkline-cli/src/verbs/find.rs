//! `find`: lists the names that match a pattern and conditions.

use trunkline::{Comparison, Condition};
use trunkline_types::{Access, DataType, Pattern};

use super::ls::Entry;
use crate::arguments::data_type;
use crate::connection::{Connection, no_match, nothing_matches};
use crate::targets::{self, Target};
use crate::{CliError, Context, Exit};

/// Find variables by their names, fields and state
///
/// In a pattern, `*` matches any characters within a segment, and `**` matches any number of
/// segments. Text without `*` or `/` matches every name that contains it in any segment.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A pattern such as 'boiler/**', or a part of a name
    #[arg(value_name = "PATTERN")]
    pattern: String,

    /// Only variables of this type, such as f64; enum, array, struct and waveform match all types
    /// of that kind
    #[arg(long = "type", value_name = "TYPE", value_parser = type_or_kind)]
    data_type: Option<String>,

    /// Only variables with a field that meets this condition: FIELD=VALUE, FIELD!=VALUE,
    /// FIELD~TEXT (contains), 'FIELD>NUMBER' or 'FIELD<NUMBER', such as units=degC,
    /// description~pump, 'range.high>100'; `*` as FIELD stands for any text field. If the option is
    /// given several times, all conditions must be met
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<Condition>,

    /// Only variables with bad quality
    #[arg(long)]
    bad: bool,

    /// Only variables whose value is older than the `max_age` in their configuration
    #[arg(long)]
    stale: bool,

    /// Only forced variables
    #[arg(long)]
    forced: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let targets = targets::resolve(&[in_every_segment(&args.pattern)], &context.settings)?;
    let pattern = match targets.list.into_iter().next() {
        Some(Target::Pattern(pattern)) => pattern.to_string(),
        Some(Target::Name(name)) => name,
        Some(Target::Invalid(problem)) => return Err(problem.without_name().into()),
        None => return Ok(Exit::Success),
    };
    let connection = Connection::new(&targets.engine, context)?;
    let mut conditions = args.conditions.clone();
    let equals = |field, value| Condition::new(field, Comparison::Equal, value);
    conditions.extend(args.bad.then(|| equals("quality.level", "bad")));
    conditions.extend(args.stale.then(|| equals("stale", "true")));
    conditions.extend(args.forced.then(|| equals("forced", "true")));
    let found = connection.call(|client, wait| client.search(&pattern, &conditions, None, wait))?;
    let mut table = context.table_of(&["name", "type", "access"], false)?;
    let mut has_any = false;
    for found in found {
        let is_type = |ty: &String| is_type(&found.data_type, ty);
        let has_type = args.data_type.as_ref().is_none_or(is_type);
        if has_type && !context.settings.is_excluded(&found.name) {
            table.push(&Entry::of(&found))?;
            has_any = true;
        }
    }
    table.finish()?;
    if has_any {
        return Ok(Exit::Success);
    }
    let all = connection.call(|client, wait| client.find(&pattern, None, wait))?;
    let problem = match all.len() as u64 {
        0 => nothing_matches(&args.pattern),
        1 => no_match(
            &args.pattern,
            format!("1 name matches, but {}", args.exclusion(true, context)),
        ),
        count => no_match(
            &args.pattern,
            format!(
                "{count} names match, but {}",
                args.exclusion(false, context)
            ),
        ),
    };
    context.show(&problem, 0)
}

impl Args {
    /// Returns the end of a sentence about names that match the pattern but are not listed: the options
    /// that exclude the names. `is_single` is true for a single name.
    fn exclusion(&self, is_single: bool, context: &Context) -> String {
        let types = self.data_type.iter().map(|ty| format!("--type {ty}"));
        let conditions = self
            .conditions
            .iter()
            .map(|condition| format!("--where {condition}"));
        let states = [
            ("--bad", self.bad),
            ("--stale", self.stale),
            ("--forced", self.forced),
        ];
        let states = states.into_iter().filter(|(_, is_given)| *is_given);
        let excluded = context.settings.exclude.iter();
        let excluded = excluded.map(|pattern| format!("--exclude {pattern}"));
        let excluded = excluded.collect::<Vec<_>>().join(" ");
        let filters = types.chain(conditions);
        let filters = filters.chain(states.map(|(name, _)| name.to_owned()));
        let filters = filters.collect::<Vec<_>>().join(" ");
        match (is_single, filters.as_str(), excluded.as_str()) {
            (true, filters, "") => format!("it does not meet {filters}"),
            (true, "", excluded) => format!("{excluded} leaves it out"),
            (true, filters, excluded) => {
                format!("it does not meet {filters}, or {excluded} leaves it out")
            }
            (false, filters, "") => format!("none of them meets {filters}"),
            (false, "", excluded) => format!("{excluded} leaves them out"),
            (false, filters, excluded) => {
                format!("none of them meets {filters}, or {excluded} leaves them out")
            }
        }
    }
}

/// Turns a bare word into a pattern that matches it anywhere in a name.
fn in_every_segment(text: &str) -> String {
    let is_word = !Pattern::has_wildcards(text) && !text.contains('/') && !text.is_empty();
    match is_word {
        true => format!("**/*{text}*/**"),
        false => text.to_owned(),
    }
}

/// Checks a type, or a kind of types such as `array`.
fn type_or_kind(text: &str) -> Result<String, String> {
    match text {
        "enum" | "array" | "struct" | "waveform" => Ok(text.to_owned()),
        _ => data_type(text).map(|ty| ty.to_string()),
    }
}

/// Returns true if the type, or its kind, has this name.
fn is_type(ty: &DataType, expected: &str) -> bool {
    let text = ty.to_string();
    text == expected || text.split('(').next() == Some(expected)
}

pub(super) fn access_name(access: Access) -> &'static str {
    match access {
        Access::ReadWrite => "read-write",
        Access::ReadOnly => "read-only",
        Access::WriteOnly => "write-only",
    }
}

#[cfg(test)]
mod tests {
    use trunkline_types::text::parse_type;

    use super::*;

    #[test]
    fn word_is_searched_in_every_segment() {
        let pattern = Pattern::parse(&in_every_segment("pump")).unwrap();
        for name in ["boiler/pump/mode", "boiler/feedpump", "pumphouse/level"] {
            assert!(pattern.matches(name), "{name}");
        }
        assert!(!pattern.matches("boiler/level"));
        assert_eq!(in_every_segment("boiler/**"), "boiler/**");
        assert_eq!(in_every_segment("boiler/level"), "boiler/level");
    }

    #[test]
    fn an_unknown_type_is_refused_with_a_suggestion() {
        for text in [
            "enum",
            "array",
            "struct",
            "waveform",
            "f64",
            "array(f64, 3)",
        ] {
            assert_eq!(type_or_kind(text).as_deref(), Ok(text));
        }
        assert_eq!(type_or_kind("array(f64,3)").as_deref(), Ok("array(f64, 3)"));
        let error = type_or_kind("f46").unwrap_err();
        assert!(error.contains("did you mean f64?"), "{error}");
        assert!(type_or_kind("nonsense").is_err());
    }

    #[test]
    fn type_matches_exactly_or_by_kind() {
        let ty = parse_type("array(f64, 3)").unwrap();
        assert!(is_type(&ty, "array") && is_type(&ty, "array(f64, 3)"));
        assert!(!is_type(&ty, "f64") && !is_type(&ty, "arr"));
    }
}
