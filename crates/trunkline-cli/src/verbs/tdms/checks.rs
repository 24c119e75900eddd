//! Refuses options of one verb given to another.

use clap::ValueEnum as _;

use super::{Args, Order};
use crate::problem::Problem;

/// # Errors
/// An option that does not apply to this verb.
pub(super) fn check(args: &Args) -> Result<(), Problem> {
    let verb = args.verb;
    let shows_rows = matches!(verb, Order::Cat | Order::Head | Order::Convert);
    let writes = matches!(verb, Order::Convert | Order::Defrag | Order::Repair);
    let given = [
        (args.out.is_some(), writes, "OUT"),
        (
            !args.channel.is_empty(),
            shows_rows || verb == Order::Info,
            "--channel",
        ),
        (args.from.is_some(), shows_rows, "--from"),
        (args.to.is_some(), shows_rows, "--to"),
        (args.count.is_some(), shows_rows, "--count"),
        (args.raw, shows_rows, "--raw"),
        (args.out_form.is_some(), verb == Order::Convert, "--as"),
        (args.force, writes, "--force"),
        (args.spreadsheet, shows_rows, "--spreadsheet"),
        (args.dry_run, verb == Order::Repair, "--dry-run"),
        (args.unsummed.is_some(), verb == Order::Repair, "--unsummed"),
    ];
    match given.iter().find(|(given, fits, _)| *given && !fits) {
        None => Ok(()),
        Some((_, _, option)) => {
            let name = verb.to_possible_value();
            let name = name.as_ref().map_or("this", |name| name.get_name());
            let sentence = format!(
                "{option} does not go with {name}; `trunkline help tdms` says what it goes with"
            );
            Err(Problem::usage(&sentence))
        }
    }
}
