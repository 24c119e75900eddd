//! The accounts and rules in the security folder of an engine, for `user` and `access`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline::config;
use trunkline_access::{Place, PolicyWarning};
use trunkline_identity::accounts::{AccessEdit, AccessFile, AccessFileError, Accounts, EditError};
use trunkline_identity::files::FileError;
use trunkline_identity::folder::ACCESS;

use crate::terminal::escaped_path;
use crate::{CliError, Context, Exit, Problem};

/// Where the security folder is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FolderArgs {
    /// Security folder of the engine. Default: the folder set in the file given with --config,
    /// otherwise the folder `security` in the current folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "config")]
    security: Option<PathBuf>,

    /// Configuration file of the engine, whose key `security` names the folder. May be given several
    /// times, as for `serve`
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
}

/// Name of the folder that `trunkline init` creates next to the configuration.
const FOLDER: &str = "security";

/// Number of attempts to change a file that another program is changing, and the pause between them.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

impl FolderArgs {
    /// Reads the accounts and rules.
    pub(crate) fn load(&self) -> Result<Accounts, Problem> {
        let file = self.file()?;
        file.load().map_err(|error| problem(&error, file.path()))
    }

    /// Changes the accounts and rules. An engine that runs notices the change.
    pub(crate) fn edit<T>(
        &self,
        context: &Context,
        change: impl Fn(&mut AccessEdit) -> Result<T, EditError>,
    ) -> Result<(T, Accounts), Problem> {
        let file = self.file()?;
        for _ in 1..ATTEMPTS {
            match file.edit(&change) {
                // An engine that registers a key holds the lock for milliseconds.
                Err(AccessFileError::InUse(_)) if !context.interrupted.is_pressed() => {
                    context.interrupted.wait(PAUSE);
                }
                result => return result.map_err(|error| problem(&error, file.path())),
            }
        }
        file.edit(&change)
            .map_err(|error| problem(&error, file.path()))
    }

    fn file(&self) -> Result<AccessFile, Problem> {
        Ok(AccessFile::new(self.folder()?.join(ACCESS)))
    }

    fn folder(&self) -> Result<PathBuf, Problem> {
        if let Some(folder) = &self.security {
            return Ok(folder.clone());
        }
        if self.config.is_empty() {
            return Ok(PathBuf::from(FOLDER));
        }
        let plan = config::load(&self.config).map_err(|errors| Problem {
            exit: Exit::ProblemsFound,
            ..Problem::from_message("configuration", errors.to_string())
        })?;
        plan.engine.security.ok_or_else(|| {
            let sentence = "the configuration names no security folder; add `security = \
                            \"security\"` to [engine], or specify the folder with --security";
            Problem::failed("no-security", sentence)
        })
    }
}

/// Converts an error of the file of accounts and rules into a problem.
fn problem(error: &AccessFileError, path: &Path) -> Problem {
    match error {
        AccessFileError::File(FileError::Missing(_)) => {
            let folder = path.parent().unwrap_or(path);
            let sentence = format!(
                "there is no security folder {}; specify it with --security or --config, or create \
                 it with `trunkline init`",
                escaped_path(folder)
            );
            Problem::failed("no-security", sentence)
        }
        AccessFileError::File(error) => Problem::failed(CODE, error.to_string()),
        // The text has several lines with remedies of their own.
        AccessFileError::Invalid { .. } => Problem {
            exit: Exit::ProblemsFound,
            ..Problem::from_message(CODE, error.to_string())
        },
        AccessFileError::Rejected(_) => Problem::from_message(CODE, error.to_string()),
        AccessFileError::InUse(_) | AccessFileError::Changed(_) => {
            Problem::failed("in-use", error.to_string())
        }
        AccessFileError::Edit(edit) => {
            let code = match edit {
                EditError::NoAccount { .. } => UNKNOWN_ACCOUNT,
                EditError::AccountExists(_) => "account-exists",
                EditError::Disabled(_) => ACCOUNT_DISABLED,
                EditError::AlreadyThere { .. } => "already-there",
                EditError::NotThere { .. } => "not-there",
                EditError::NoRule(_) => "unknown-rule",
                EditError::RuleExists(_) => "rule-exists",
                EditError::Invalid(_) => CODE,
            };
            Problem::failed(code, error.to_string())
        }
    }
}

/// Error code for a file that cannot be used.
const CODE: &str = "access-file";

pub(crate) const UNKNOWN_ACCOUNT: &str = "unknown-account";

pub(crate) const ACCOUNT_DISABLED: &str = "account-disabled";

/// Shows the warnings about the rules, or about the rule at one place.
pub(crate) fn warn(
    accounts: &Accounts,
    place: Option<&Place>,
    context: &Context,
) -> Result<(), CliError> {
    let policy = accounts.policy();
    for warning in policy.warnings() {
        let (PolicyWarning::EmptyGroup { place: at, .. }
        | PolicyWarning::NoVariable { place: at, .. }
        | PolicyWarning::NotEverything { place: at, .. }
        | PolicyWarning::NoAdministrator { place: at }) = warning;
        if place.is_none_or(|place| place == at) {
            note(context, "rule-warning", &warning.to_string())?;
        }
    }
    match (place, policy.warnings_omitted()) {
        (Some(_), _) | (None, 0) => Ok(()),
        (None, omitted) => note(
            context,
            "rule-warning",
            &format!("and {omitted} more warnings"),
        ),
    }
}

/// Writes a warning to standard error: a problem in JSON output, otherwise a marked sentence.
pub(crate) fn note(context: &Context, code: &'static str, sentence: &str) -> Result<(), CliError> {
    match context.settings.is_json() {
        true => context.note_with_code(code, sentence),
        false => context.warn(&format!("*** {sentence}")),
    }
}
