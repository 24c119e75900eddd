//! Refuses options that belong to another subcommand of the same command.
//!
//! `stream` takes its subcommand as a positional word, so the command line accepts the options of
//! all of them. Options that the subcommand in use would ignore are refused here.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::problem::Problem;

/// Command, argument, and the subcommands that it applies to. Arguments not listed apply to all, or
/// the command checks them itself.
const ARGUMENTS: [(&str, &str, &[&str]); 13] = [
    ("stream", "quota", &["write"]),
    ("stream", "data_type", &["write", "read", "bench"]),
    ("stream", "element_form", &["write", "read"]),
    ("stream", "count", &["write", "read"]),
    ("stream", "capacity", &["write", "read", "bench"]),
    ("stream", "chunk", &["write", "read", "bench"]),
    ("stream", "buffer", &["write", "read", "bench"]),
    ("stream", "gone_after", &["write", "read"]),
    ("stream", "insecure", &["write", "read"]),
    ("stream", "bytes", &["bench"]),
    ("stream", "over", &["bench"]),
    ("stream", "threads", &["bench"]),
    ("stream", "samples", &["bench"]),
];

/// Refuses an argument that the subcommand in use would ignore.
///
/// # Errors
/// Names the argument and the subcommands that it is for.
pub(crate) fn check(cli: &clap::Command, matches: &ArgMatches) -> Result<(), Problem> {
    let Some((command, given)) = matches.subcommand() else {
        return Ok(());
    };
    let Some(verb) = word(given) else {
        return Ok(());
    };
    for (of, id, verbs) in &ARGUMENTS {
        if *of != command || verbs.contains(&verb.as_str()) {
            continue;
        }
        if given.value_source(id) == Some(ValueSource::CommandLine) {
            let name = cli.find_subcommand(command).and_then(|found| {
                let mut arguments = found.get_arguments();
                let argument = arguments.find(|argument| argument.get_id() == id)?;
                Some(match argument.get_long() {
                    Some(long) => format!("--{long}"),
                    None => argument.get_value_names()?.first()?.to_string(),
                })
            });
            let sentence = format!(
                "{} is for `{command} {}`; leave it out of `{command} {verb}`",
                name.as_deref().unwrap_or(id),
                verbs.join("`, `"),
            );
            return Err(Problem::usage(&sentence));
        }
    }
    Ok(())
}

/// Returns true if an argument applies to this subcommand, as far as this table knows.
pub(crate) fn is_for(command: &str, id: &str, verb: &str) -> bool {
    let listed = ARGUMENTS
        .iter()
        .find(|(of, known, _)| (*of, *known) == (command, id));
    listed.is_none_or(|(_, _, verbs)| verbs.contains(&verb))
}

/// Returns the subcommand in use, as typed.
fn word(given: &ArgMatches) -> Option<String> {
    let mut raw = given.try_get_raw("verb").ok()??;
    Some(raw.next()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Cli;

    fn refused(line: &str) -> Option<String> {
        let cli = Cli::command();
        let matches = cli.clone().try_get_matches_from(line.split(' ')).unwrap();
        check(&cli, &matches).err().map(|problem| problem.message)
    }

    #[test]
    fn options_of_other_subcommands_are_refused() {
        for (line, message) in [
            (
                "trunkline stream write a/b --threads --bytes 1GB",
                "--bytes is for `stream bench`",
            ),
            (
                "trunkline stream ls --type i32",
                "--type is for `stream write`, `read`, `bench`",
            ),
        ] {
            assert_eq!(refused(line).as_deref(), Some(message), "{line}");
        }
        for line in [
            "trunkline io run sim --publish",
            "trunkline stream write a/b --type i32",
            "trunkline stream bench --type i32 --bytes 1MB",
            "trunkline get a/b",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
    }

    #[test]
    fn every_listed_argument_exists() {
        let cli = Cli::command();
        for (command, id, verbs) in &ARGUMENTS {
            // `record` does not exist on every system.
            let Some(found) = cli.find_subcommand(command) else {
                continue;
            };
            let argument = |id: &str| found.get_arguments().find(|one| one.get_id() == id);
            assert!(argument(id).is_some(), "{command} {id}");
            let words = argument("verb").unwrap().get_possible_values();
            for verb in *verbs {
                assert!(
                    words.iter().any(|word| word.get_name() == *verb),
                    "{command} {verb}"
                );
            }
        }
    }
}
