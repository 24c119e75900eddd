//! `demo`: runs an engine for first experiments, with a simulated plant and measurements of this
//! machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline::config::{DeploymentPlan, HistoryConfig, IoConfig};
use trunkline::types::ListenAddress;
use trunkline::types::url::DEFAULT_PORT;
use trunkline::{Client, Engine, Event, SubscribeOptions};
use trunkline_net::server::raise_descriptor_limit;
use trunkline_types::history::{HistoryRule, HistorySettings};
use trunkline_types::text::{Digits, FormatOptions, format_value};
use trunkline_types::{Contract, Pattern, Reading};

use super::io;
use super::serve::{self, ListenArgs, ServeEvent};
use crate::connection::{metadata, open_options};
use crate::output::Metadata;
use crate::output::record::json;
use crate::terminal::Style;
use crate::verbs::audit::bad_pattern;
use crate::{CliError, Context, Exit, Problem};

/// Run a demonstration: a simulated boiler house, and the CPU, memory, disk and network use of this
/// computer
///
/// The engine keeps everything in memory, apart from a history in a temporary folder, and runs
/// until Ctrl-C. By default, only this machine can reach the engine. The command prints examples to
/// try.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    listen: ListenArgs,
}

/// A variable that changes from the first second.
const SHOWN_VARIABLE: &str = "boiler/level";
/// A variable that has a value only after two samples, a second apart.
const USAGE_VARIABLE: &str = "host/cpu/total";
/// Maximum time to watch each of these variables; `SHOWN_VARIABLE` changes ten times a second.
const WAIT_MAX: Duration = Duration::from_secs(5);

const EXAMPLES: [&str; 7] = [
    "trunkline monitor boiler/level",
    "trunkline put boiler/feed 80",
    "trunkline get host/cpu/total boiler/level",
    "trunkline history boiler/level --since 10m --plot",
    "trunkline info boiler/level",
    "trunkline find 'boiler/**'",
    "trunkline why boiler/level",
];

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let mut plan = DeploymentPlan {
        io: vec![IoConfig::new("sim", "sim"), IoConfig::new("host", "host")],
        ..DeploymentPlan::default()
    };
    plan.engine.name = Some("demo".to_owned());
    // The folder is deleted when the demo ends.
    let folder = tempfile::Builder::new()
        .prefix("trunkline-demo-")
        .tempdir()
        .map_err(|error| {
            let sentence = format!(
                "cannot create a temporary folder: {error}; set TMPDIR to a writable folder"
            );
            Problem::failed("no-folder", sentence)
        })?;
    plan.history = Some(HistoryConfig {
        folder: folder.path().to_owned(),
        spool: None,
        rules: vec![HistoryRule {
            pattern: Pattern::parse("**").map_err(bad_pattern)?,
            settings: Some(HistorySettings::default()),
        }],
    });
    serve::apply(&mut plan, &args.listen);
    context.interrupted.handle_presses(u32::MAX);
    raise_descriptor_limit(plan.engine.limits.sessions_max as usize);
    let engine = Engine::from_plan_with(&plan, &io::drivers(), Some(trunkline_history::open))
        .map_err(|error| serve::start_problem(&error, &plan))?;
    serve::accept_stop_orders(&engine, context);
    match context.settings.is_json() {
        true => {
            let line = json(&ServeEvent::new(&engine, &plan));
            context.terminal.line(&line)?;
            context.terminal.flush()?;
        }
        false => announce(&engine, context)?,
    }
    serve::warn(&engine, &plan, &serve::notes(context), context)?;
    context.interrupted.wait_for_first();
    engine.shutdown(serve::GRACE);
    Ok(Exit::Success)
}

fn announce(engine: &Engine, context: &Context) -> Result<(), CliError> {
    let terminal = &context.terminal;
    let version = env!("CARGO_PKG_VERSION");
    let addresses = engine.listening().into_iter();
    let hosts: Vec<String> = addresses
        .map(|address| match address {
            ListenAddress::Tcp(address) => address.ip().to_string(),
            ListenAddress::Unix(path) => path.to_string(),
        })
        .collect();
    terminal.line(&format!(
        "trunkline {version} demo · simulated boiler house and this machine · {} variables · in \
         memory · only on {}",
        engine.variable_count(),
        hosts.join(" and ")
    ))?;
    terminal.line("")?;
    serve::list_libraries(engine, context)?;
    terminal.line("")?;
    terminal.line("  Try this in another terminal:")?;
    for line in preparations(engine)
        .iter()
        .map(String::as_str)
        .chain(EXAMPLES)
    {
        terminal.line(&format!("    {line}"))?;
    }
    terminal.line("")?;
    show_movement(engine, context)?;
    await_usage(engine, context);
    let addresses = serve::urls(engine);
    terminal.line(&format!(
        "  Listening on {} · press Ctrl-C to stop",
        addresses.join(" and ")
    ))?;
    terminal.flush()
}

/// Returns the commands that the user must run first in another shell: they add the folder of this
/// program to `PATH`, and set the URL of the engine, each only if necessary.
fn preparations(engine: &Engine) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(folder) = folder_off_path() {
        lines.push(format!("export PATH=\"{}:$PATH\"", folder.display()));
    }
    let addresses = engine.local_addrs();
    let is_default_port = addresses
        .iter()
        .any(|address| address.port() == DEFAULT_PORT);
    if let (false, Some(url)) = (is_default_port, serve::urls(engine).first()) {
        lines.push(format!("export TRUNKLINE_URL={url}"));
    }
    lines
}

/// Returns the folder of this program if it is not in `PATH`.
fn folder_off_path() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_on_path = std::env::split_paths(&path).any(|entry| is_same(&entry, &folder));
    (!is_on_path).then_some(folder)
}

fn is_same(left: &Path, right: &Path) -> bool {
    match (left.canonicalize(), right.canonicalize()) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

/// Shows the first value of the variable, and the next different one.
fn show_movement(engine: &Engine, context: &Context) -> Result<(), CliError> {
    let Ok(client) = engine.client() else {
        return Ok(());
    };
    let opened = client
        .open(&[SHOWN_VARIABLE], open_options(false, true), WAIT_MAX)
        .ok();
    let Some(Ok(opened)) = opened.and_then(|mut opened| opened.pop()) else {
        return Ok(());
    };
    let Metadata {
        data_type,
        units,
        precision,
    } = metadata(&opened);
    // One decimal place more than configured, because the values change slowly at first.
    let format = FormatOptions {
        precision: precision.map(|digits| Digits::Fixed(digits.saturating_add(1))),
        ..FormatOptions::default()
    };
    let mut first = None;
    let moved = watch(&client, SHOWN_VARIABLE, context, |reading| {
        let now = format_value(&reading.sample.value, &data_type, &format);
        let first = first.get_or_insert_with(|| now.clone());
        (*first != now).then(|| (first.clone(), now))
    });
    let Some((old, new)) = moved else {
        return Ok(());
    };
    let updating = context.terminal.paint(Style::Good, "is updating");
    let line = format!("  {SHOWN_VARIABLE} {updating}: {old} → {new} {units}");
    context.terminal.line(&line)
}

/// Waits until `USAGE_VARIABLE` has a value.
fn await_usage(engine: &Engine, context: &Context) {
    if let Ok(client) = engine.client() {
        watch(&client, USAGE_VARIABLE, context, |reading| {
            reading.sample.quality.is_good().then_some(())
        });
    }
}

/// Returns the first result of `find` for the readings of a variable, or `None` after a timeout.
fn watch<R>(
    client: &Client,
    name: &str,
    context: &Context,
    mut find: impl FnMut(&Reading) -> Option<R>,
) -> Option<R> {
    let options = SubscribeOptions::default();
    let subscription = client.subscribe(&[name], Contract::Latest, options).ok()?;
    let end = context.clock.now().saturating_add(WAIT_MAX);
    loop {
        let remaining = end.since(context.clock.now());
        let event = (!remaining.is_zero()).then(|| subscription.next(Some(remaining)))??;
        if let Event::Reading { reading, .. } = event
            && reading.position.sequence > 0
            && let Some(found) = find(&reading)
        {
            return Some(found);
        }
    }
}
