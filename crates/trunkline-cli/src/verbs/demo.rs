//! `demo`: runs an engine for trying things, with a simulated plant and this machine's own
//! readings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline::config::{DeploymentPlan, IoConfig};
use trunkline::types::ListenAddress;
use trunkline::types::url::DEFAULT_PORT;
use trunkline::{Engine, Event, OpenOptions, SubscribeOptions};
use trunkline_net::server::raise_descriptor_limit;
use trunkline_types::text::{Digits, FormatOptions, format_value};
use trunkline_types::{Contract, Reading};

use super::serve::{self, ListenArgs};
use super::{Context, Verb, io};
use crate::arguments::Form;
use crate::exit::Exit;
use crate::interrupt::StopSignals;
use crate::output::json::Object;
use crate::problem::Stop;
use crate::terminal::Mood;

/// Run a demonstration: a simulated boiler house and the readings of this machine
///
/// The engine runs in memory until Ctrl-C, and by default only this machine can reach it. The
/// command prints examples to try.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    listen: ListenArgs,
}

pub(crate) const VERB: Verb = Verb::reading(
    "demo",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::NotPermitted,
    ],
);

/// A variable that moves from the first second on.
const SHOWN: &str = "boiler/level";
/// A variable that needs two samples, a second apart, to have a value.
const USAGE: &str = "host/cpu/total";
/// Longest time to watch each of them; the shown one moves ten times a second.
const LOOK_MAX: Duration = Duration::from_secs(5);

const TO_TRY: [&str; 6] = [
    "trunkline monitor boiler/level",
    "trunkline put boiler/feed 80",
    "trunkline get host/cpu/total boiler/level",
    "trunkline info boiler/level",
    "trunkline find 'boiler/**'",
    "trunkline why boiler/level",
];

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    let mut plan = DeploymentPlan {
        io: vec![IoConfig::new("sim", "sim"), IoConfig::new("host", "host")],
        ..DeploymentPlan::default()
    };
    plan.engine.name = Some("demo".to_owned());
    serve::apply(&mut plan, &args.listen);
    let mut signals = StopSignals::new()?;
    raise_descriptor_limit(plan.engine.limits.sessions_max as usize);
    let engine = Engine::from_plan_with(&plan, &io::drivers())
        .map_err(|error| serve::of_start(&error, &plan))?;
    match context.settings.form {
        Form::Json | Form::Jsonl => announce_json(&engine, context)?,
        _ => announce(&engine, context)?,
    }
    serve::warn_if_open(&engine, context)?;
    serve::warn_of_users(&engine, &plan, context)?;
    signals.wait();
    engine.shutdown(serve::GRACE);
    Ok(Exit::Done)
}

fn announce(engine: &Engine, context: &Context) -> Result<(), Stop> {
    let terminal = &context.terminal;
    let version = env!("CARGO_PKG_VERSION");
    let places = engine.listening().into_iter();
    let hosts: Vec<String> = places
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
    terminal.line("  Try in another terminal")?;
    for line in preparations(engine)
        .iter()
        .map(String::as_str)
        .chain(TO_TRY)
    {
        terminal.line(&format!("    {line}"))?;
    }
    terminal.line("")?;
    show_movement(engine, context)?;
    await_usage(engine, context);
    let addresses = serve::urls(engine);
    terminal.line(&format!(
        "  Listening on {} · Ctrl-C ends it",
        addresses.join(" and ")
    ))?;
    terminal.flush()
}

fn announce_json(engine: &Engine, context: &Context) -> Result<(), Stop> {
    let addresses = serve::urls(engine);
    let mut object = Object::new();
    object.put("event", "serving");
    object.put("engine", "demo");
    object.put("variables", engine.variable_count());
    object.put("listen", addresses);
    serve::put_local_sockets(engine, &mut object);
    object.put("io", vec!["sim", "host"]);
    context.terminal.line(&object.into_json().to_string())?;
    context.terminal.flush()
}

/// Returns the commands that the other shell needs first: the path of the command, and the URL of
/// the engine, unless both are the default.
fn preparations(engine: &Engine) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(folder) = folder_off_path() {
        lines.push(format!("export PATH=\"{}:$PATH\"", folder.display()));
    }
    let addresses = engine.local_addrs();
    let is_usual = addresses
        .iter()
        .any(|address| address.port() == DEFAULT_PORT);
    if let (false, Some(url)) = (is_usual, serve::urls(engine).first()) {
        lines.push(format!("export TRUNKLINE_URL={url}"));
    }
    lines
}

/// Returns the folder of this program if a shell would not find it by name.
fn folder_off_path() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_on_path = std::env::split_paths(&path).any(|entry| is_same(&entry, &folder));
    (!is_on_path).then_some(folder)
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Shows the first value, and the first one that differs from it.
fn show_movement(engine: &Engine, context: &Context) -> Result<(), Stop> {
    let Ok(client) = engine.client() else {
        return Ok(());
    };
    let options = OpenOptions {
        describe: true,
        ..OpenOptions::default()
    };
    let opened = client.open(&[SHOWN], options, LOOK_MAX).ok();
    let Some(Ok(opened)) = opened.and_then(|mut opened| opened.pop()) else {
        return Ok(());
    };
    let precision = opened
        .properties
        .as_ref()
        .and_then(|properties| properties.precision);
    let units = opened
        .properties
        .as_ref()
        .map(|properties| properties.units.clone());
    // One digit more than usual, because the plant starts at rest.
    let format = FormatOptions {
        precision: precision.map(|digits| Digits::Fixed(digits.saturating_add(1))),
        ..FormatOptions::default()
    };
    let text = |reading: &Reading| format_value(&reading.sample.value, &opened.data_type, &format);
    let subscription = client.subscribe(&[SHOWN], Contract::Latest, SubscribeOptions::default());
    let Ok(subscription) = subscription else {
        return Ok(());
    };
    let clock = context.clock;
    let end = clock.now().saturating_add(LOOK_MAX);
    let mut first: Option<String> = None;
    while clock.now() < end {
        let Some(event) = subscription.next(Some(end.since(clock.now()))) else {
            break;
        };
        let Event::Reading { reading, .. } = event else {
            continue;
        };
        if reading.position.sequence == 0 {
            continue;
        }
        let now = text(&reading);
        match &first {
            None => first = Some(now),
            Some(before) if *before != now => {
                let units = units.unwrap_or_default();
                let moves = context.terminal.paint(Mood::Fine, "moves");
                let line = format!("  {SHOWN} {moves}: {before} → {now} {units}");
                return context.terminal.line(&line);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Waits until the suggested variable that starts without a value has one.
fn await_usage(engine: &Engine, context: &Context) {
    let Ok(client) = engine.client() else {
        return;
    };
    let subscription = client.subscribe(&[USAGE], Contract::Latest, SubscribeOptions::default());
    let Ok(subscription) = subscription else {
        return;
    };
    let clock = context.clock;
    let end = clock.now().saturating_add(LOOK_MAX);
    while clock.now() < end {
        match subscription.next(Some(end.since(clock.now()))) {
            Some(Event::Reading { reading, .. }) if reading.sample.quality.is_good() => return,
            Some(_) => {}
            None => return,
        }
    }
}
