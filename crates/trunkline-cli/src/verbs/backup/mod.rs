//! `backup`: copies the store and the history of an engine, checks the copy, and restores it.

use std::path::{Path, PathBuf};

use trunkline::config;
use trunkline_backup::{EnginePaths, Error, Finding, Manifest, Progress};
use trunkline_config::{ConfigErrors, DeploymentPlan, StoreChoice};
use trunkline_types::Tick;

use super::progress::Meter;
use super::serve;
use super::stream::units::{bytes_text, rate_text};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::Amount;
use crate::terminal::{Style, escaped, escaped_path};
use crate::{CliError, Context, Exit, Problem, counted};

/// Back up the store and the history of an engine, and restore them
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Create(CreateArgs),
    Verify(VerifyArgs),
    Restore(RestoreArgs),
}

/// Copy the store and the history of an engine to a folder, whether the engine is running or not
///
/// If the folder already contains a backup of this engine, the backup is updated: only history
/// files that it lacks are copied, and the older backup stays complete until the new one is. Files
/// that are already in the backup are checked, and copied again if they are damaged. The backup
/// contains everything that the engine acknowledged before the command started, but no
/// configuration files.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// The folder of the backup; it is created if it does not exist
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    #[command(flatten)]
    engine: EngineArgs,

    /// Do not check files that are already in the backup. This is faster, but does not find damage
    /// to these files
    #[arg(long)]
    unchecked: bool,
}

/// Read all files of a backup, and list those that are damaged or missing
///
/// If it finds any, the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The folder of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
}

/// Replace the store and the history of a stopped engine with a backup
///
/// All files of the backup are checked first. The store and the history are restored to the paths
/// in the configuration. If the command is killed, run it again: until it has finished, the engine
/// refuses to start.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The folder of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    #[command(flatten)]
    engine: EngineArgs,

    /// Move an existing store and history aside; their names then end in .replaced- followed by the
    /// time
    #[arg(long)]
    replace: bool,
}

/// The files of the engine, as for `serve`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// The configuration files of the engine, as for `trunkline serve`
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The store of the engine, if `trunkline serve` is run with this option
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

/// A line of `backup create` and `backup restore`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Result of `backup create` or `backup restore`, version 1")]
pub(crate) struct Done {
    /// The folder of the backup.
    backup: String,
    /// `created`; `restored`; `completed`: an interrupted restore was completed.
    #[schemars(extend("enum" = ["created", "restored", "completed"]))]
    outcome: &'static str,
    /// Name of the engine that was backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    /// Time at which the backup was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    taken: Option<String>,
    /// Number of files in the backup.
    files: u64,
    /// Total size of these files in bytes.
    bytes: u64,
    /// Number of files that were copied; the others were in the backup already.
    copied_files: u64,
    /// Total size of these files in bytes.
    copied_bytes: u64,
    /// Duration of the command in seconds.
    seconds: Amount,
    /// New paths of the files that a restore moved aside. Left out when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aside: Vec<String>,
}

impl Record for Done {
    const COLUMNS: &'static [&'static str] = &["backup", "outcome", "files", "copied", "rate"];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        match column {
            "files" if self.outcome == "completed" => Some(String::new()),
            "files" => Some(format!(
                "{}, {}",
                counted(self.files, "file"),
                bytes_text(self.bytes as f64)
            )),
            "copied" if self.outcome == "created" => Some(format!(
                "{} copied, {}",
                counted(self.copied_files, "file"),
                bytes_text(self.copied_bytes as f64)
            )),
            "copied" => Some(String::new()),
            "rate" if self.outcome == "completed" => Some(String::new()),
            "rate" => {
                let Amount(seconds) = self.seconds;
                let rate = self.copied_bytes as f64 / seconds.max(1e-9) / 1e6;
                Some(format!("{seconds:.1} s, {rate:.1} MB/s"))
            }
            _ => None,
        }
    }
}

/// A line of `backup verify`: a file that is damaged or missing.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A finding of `backup verify`, version 1")]
pub(crate) struct Found {
    /// Path of the file, as in the manifest of the backup.
    path: String,
    /// Description of the problem.
    what: String,
}

impl Record for Found {
    const COLUMNS: &'static [&'static str] = &["path", "what"];
    const IS_HEADED: bool = false;

    fn style(&self) -> Style {
        Style::Bad
    }
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        Self {
            path: finding.path.clone(),
            what: finding.what.clone(),
        }
    }
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    let context = &context.for_file_output();
    // The operations check for Ctrl-C between the blocks of a file.
    context.interrupted.handle_presses(1);
    let done = match command {
        Subcommand::Create(args) => create(args, context),
        Subcommand::Verify(args) => verify(args, context),
        Subcommand::Restore(args) => restore(args, context),
    };
    context.terminal.end_progress();
    done
}

fn create(args: &CreateArgs, context: &Context) -> Result<Exit, CliError> {
    let plan = match args.engine.plan() {
        Ok(plan) => plan?,
        Err(errors) => return serve::show_errors(&errors, context),
    };
    let name = serve::name_of(&plan);
    let started = context.clock.now();
    let now = context.clock.wall();
    let created = trunkline_backup::create(
        &args.backup,
        name,
        &places_of(&plan),
        !args.unchecked,
        now,
        &mut watch(context, "read and copied"),
    );
    let created = created.map_err(|error| cli_error(error, context))?;
    let seconds = context.clock.now().since(started).into();
    context.terminal.end_progress();
    for finding in &created.damaged_in_older {
        context.remark(&format!(
            "{} was damaged in the backup; if the engine still has the file, it was copied again: {}",
            escaped(&finding.path),
            finding.what
        ))?;
    }
    let (copied_files, copied_bytes) = created.copied;
    context.list([Done {
        copied_files,
        copied_bytes,
        seconds,
        ..done(&args.backup, "created", Some(&created.manifest))
    }])?;
    let damage = &created.manifest.damage;
    for finding in damage {
        let sentence = format!("it was damaged before it was copied: {}", finding.what);
        let problem = Problem::new(Exit::ProblemsFound, "damaged", sentence);
        context.show(&problem.with_name(&finding.path), 0)?;
    }
    Ok(Exit::ProblemsFound.when(!damage.is_empty()))
}

fn verify(args: &VerifyArgs, context: &Context) -> Result<Exit, CliError> {
    let verified = trunkline_backup::verify(&args.backup, &mut watch(context, "read"));
    let verified = verified.map_err(|error| cli_error(error, context))?;
    context.terminal.end_progress();
    context.list(verified.findings.iter().map(Found::from))?;
    let manifest = &verified.manifest;
    let summary = format!(
        "{} of {}, {}",
        counted(manifest.files.len() as u64, "file"),
        manifest.taken,
        bytes_text(manifest.bytes() as f64)
    );
    match verified.findings.len() as u64 {
        0 => context.remark(&format!("{summary}: all are intact"))?,
        count => {
            let findings = counted(count, "finding");
            context.remark(&format!("{summary}: {findings}"))?;
        }
    }
    Ok(Exit::ProblemsFound.when(!verified.findings.is_empty()))
}

fn restore(args: &RestoreArgs, context: &Context) -> Result<Exit, CliError> {
    let plan = match args.engine.plan() {
        Ok(plan) => plan?,
        Err(errors) => return serve::show_errors(&errors, context),
    };
    let started = context.clock.now();
    let restored = trunkline_backup::restore(
        &args.backup,
        &places_of(&plan),
        args.replace,
        context.clock.wall(),
        &mut watch(context, "read and copied"),
    );
    let restored = restored.map_err(|error| cli_error(error, context))?;
    let seconds = context.clock.now().since(started).into();
    context.terminal.end_progress();
    let outcome = match restored.manifest {
        Some(_) => "restored",
        None => "completed",
    };
    for finding in &restored.omitted {
        context.remark(&format!(
            "{} is damaged and was not restored; the history works without it: {}",
            escaped(&finding.path),
            finding.what
        ))?;
    }
    let aside = restored.aside.iter();
    let aside: Vec<String> = aside.map(|path| path.display().to_string()).collect();
    for path in &restored.aside {
        context.remark(&format!(
            "the previous data is now at {}",
            escaped_path(path)
        ))?;
    }
    let mut done = done(&args.backup, outcome, restored.manifest.as_ref());
    (done.copied_files, done.copied_bytes) = (done.files, done.bytes);
    context.list([Done {
        aside,
        seconds,
        ..done
    }])?;
    Ok(Exit::Success)
}

fn done(backup: &Path, outcome: &'static str, manifest: Option<&Manifest>) -> Done {
    Done {
        backup: backup.display().to_string(),
        outcome,
        engine: manifest.map(|manifest| manifest.engine.clone()),
        taken: manifest.map(|manifest| manifest.taken.clone()),
        files: manifest.map_or(0, |manifest| manifest.files.len() as u64),
        bytes: manifest.map_or(0, Manifest::bytes),
        copied_files: 0,
        copied_bytes: 0,
        seconds: Amount(0.0),
        aside: Vec::new(),
    }
}

impl EngineArgs {
    /// Returns the configuration that `serve` would use.
    fn plan(&self) -> Result<Result<DeploymentPlan, Problem>, ConfigErrors> {
        let mut plan = config::load(&self.files)?;
        serve::apply(&mut plan, &serve::ListenArgs::default());
        Ok(
            serve::store(self.store.as_deref(), &plan).map(|(store, _)| {
                plan.set_store(store);
                plan
            }),
        )
    }
}

/// Returns the paths where the engine of a configuration keeps its files.
pub(super) fn places_of(plan: &DeploymentPlan) -> EnginePaths {
    EnginePaths {
        store: match &plan.engine.store {
            StoreChoice::File(path) => Some(path.clone()),
            StoreChoice::Off | StoreChoice::Unset => None,
        },
        history: plan.history.as_ref().map(|history| history.folder.clone()),
    }
}

/// Refuses to start an engine if an unfinished restore has replaced only some of its files.
pub(super) fn check_restored(plan: &DeploymentPlan) -> Result<(), Problem> {
    match trunkline_backup::unfinished_restore(&places_of(plan)) {
        None => Ok(()),
        Some(note) => Err(Problem::failed(
            "unfinished-restore",
            Error::Unfinished(note).to_string(),
        )),
    }
}

/// Returns a callback that shows the progress on a terminal, and stops the operation after Ctrl-C.
fn watch<'c>(context: &'c Context, verb: &'static str) -> impl FnMut(Progress) -> bool + 'c {
    let start: Tick = context.clock.now();
    let mut meter = Meter::new(start);
    move |progress| {
        let now = context.clock.now();
        if let Some(rate) = meter.rate(now, progress.bytes, &context.terminal) {
            let total = progress.of_bytes.map_or_else(String::new, |bytes| {
                format!(" of {}", bytes_text(bytes as f64))
            });
            let line = format!(
                "{} {verb}, {}{total}, {}",
                counted(progress.files, "file"),
                bytes_text(progress.bytes as f64),
                rate_text(rate)
            );
            context.terminal.progress(&line);
        }
        !context.interrupted.is_pressed()
    }
}

/// Shows the individual findings of an error, and converts it.
fn cli_error(error: Error, context: &Context) -> CliError {
    let (exit, code) = match &error {
        Error::Interrupted => (Exit::Interrupted, "interrupted"),
        Error::NothingConfigured | Error::NotConfigured(_) => (Exit::Usage, "usage"),
        Error::Damaged { .. } | Error::Manifest { .. } => (Exit::ProblemsFound, "damaged"),
        Error::Exists(_) => (Exit::Failed, "exists"),
        Error::MountPoint(_) | Error::NotMoved { .. } => (Exit::Failed, "not-moved"),
        Error::Unfinished(_) | Error::IncompleteMove { .. } => (Exit::Failed, "unfinished-restore"),
        Error::Store(_) => (Exit::Failed, "store"),
        Error::History(_) => (Exit::Failed, "history"),
        Error::NoEngineFiles(_) => (Exit::Failed, "not-there"),
        Error::NoBackup(_) | Error::Newer(_) => (Exit::Failed, "not-readable"),
        Error::Io { .. }
        | Error::NotEmpty(_)
        | Error::OverlapsHistory(_)
        | Error::InUse(_)
        | Error::OtherEngine { .. }
        | Error::PartMissing(_)
        | Error::Unreliable(_)
        | Error::Changing(_)
        | Error::Replaced(_) => (Exit::Failed, "not-written"),
    };
    context.terminal.end_progress();
    if let Error::Damaged { findings, .. } = &error {
        for finding in findings {
            let problem = Problem::new(Exit::ProblemsFound, "damaged", &finding.what);
            if let Err(output_error) = context.show(&problem.with_name(&finding.path), 0) {
                return output_error;
            }
        }
    }
    Problem::new(exit, code, error.to_string()).into()
}
