//! `io`: runs an I/O server in a separate process, as the source of an engine's variables.

use std::time::Duration;

use trunkline::io::{Drivers, IoServer, Setting, Settings};
use trunkline::{Provider, ProviderOptions, ProviderStatus};
use trunkline_types::name::check_segment;

use super::{Context, Verb};
use crate::arguments::{self, Form};
use crate::connection;
use crate::exit::Exit;
use crate::interrupt::StopSignals;
use crate::output::counted;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::Mood;

/// Run I/O servers in processes of their own
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(Args),
    /// List the built-in drivers
    Drivers,
}

/// Run an I/O server until Ctrl-C or SIGTERM
///
/// The I/O server delivers every variable of the engine whose `source` names it, including
/// variables that are deployed later. When it ends, for whatever reason, these variables become bad
/// and name the cause. When it runs again, on this host or another, they continue.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The driver; `trunkline io drivers` lists them
    #[arg(value_name = "DRIVER")]
    driver: String,

    /// Settings of the driver
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, Setting)>,

    /// The name that `source = "NAME:ITEM"` of the variables gives (default: the driver's)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Time from one scan to the next: seconds, or a number with us, ms, s, m or h (default: the
    /// driver's own)
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    period: Option<Duration>,

    /// Also deploy the libraries that the I/O server offers
    #[arg(long)]
    publish: bool,
}

pub(crate) const VERB: Verb = Verb::group(
    "io",
    &[
        Verb::writing(
            "run",
            &[Exit::Done, Exit::SomeFailed, Exit::Usage, Exit::Found],
        ),
        Verb::reading("drivers", &[Exit::Done, Exit::Usage]),
    ],
);

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, Stop> {
    match command {
        Subcommand::Run(args) => provide(args, context),
        Subcommand::Drivers => list(context),
    }
}

/// Returns the drivers that configurations and `io run` name.
pub(super) fn drivers() -> Drivers {
    Drivers::built_in().with(trunkline_boiler::DRIVER)
}

fn list(context: &Context) -> Result<Exit, Stop> {
    let columns = &["driver", "description"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    for driver in drivers().iter() {
        let mut object = Object::new();
        object.put("driver", driver.name);
        object.put("description", driver.description);
        records.push(Row {
            cells: vec![driver.name.to_owned(), driver.description.to_owned()],
            object,
            mood: Mood::Plain,
        })?;
    }
    records.finish()?;
    Ok(Exit::Done)
}

fn provide(args: &Args, context: &Context) -> Result<Exit, Stop> {
    let engine = targets::engine(&context.settings)?;
    let server = server(args)?;
    let name = args.name.as_deref().unwrap_or(&args.driver);
    check_name(name)?;
    let options = ProviderOptions {
        name: name.to_owned(),
        period: args.period,
        publish: args.publish,
    };
    let mut signals = StopSignals::new()?;
    let connect = connection::options(&engine, &context.settings, false);
    let provider = Provider::start(&connect, &options, server);
    let provider =
        provider.map_err(|error| Problem::new(Exit::SomeFailed, "system", &error.to_string()))?;
    let address = targets::address(&engine);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            signals.wait();
            provider.stop();
        });
        let mut status = provider.status();
        loop {
            show(name, &address, &status, context)?;
            match provider.wait_status(&status) {
                Some(next) => status = next,
                None => return Ok(Exit::Done),
            }
        }
    })
}

fn server(args: &Args) -> Result<Box<dyn IoServer>, Problem> {
    let mut settings = Settings::new();
    for (key, value) in &args.settings {
        if settings.insert(key.clone(), value.clone()).is_some() {
            return Err(Problem::usage(&format!("{key} is given twice")));
        }
    }
    drivers()
        .create(&args.driver, &settings)
        .map_err(|error| Problem::new(Exit::Found, "driver", &error.to_string()))
}

fn check_name(name: &str) -> Result<(), Problem> {
    let reason = match check_segment(name) {
        Ok(()) if !name.contains(':') => return Ok(()),
        Ok(()) => "a name cannot contain a colon, because source = \"NAME:ITEM\" uses it as \
                   separator"
            .to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Problem::usage(&format!("--name \"{name}\": {reason}")))
}

/// Shows the state of the provider.
fn show(name: &str, address: &str, status: &ProviderStatus, context: &Context) -> Result<(), Stop> {
    let terminal = &context.terminal;
    if matches!(context.settings.form, Form::Json | Form::Jsonl) {
        let mut object = Object::new();
        object.put("event", "providing");
        object.put("name", name);
        object.put("url", format!("tl://{address}"));
        object.put("provided", status.is_provided);
        object.put("variables", status.variables);
        object.put("missing", status.missing);
        if let Some(item) = &status.missing_item {
            object.put("missing_item", item.as_str());
        }
        for (key, trouble) in [
            ("engine_trouble", &status.engine_trouble),
            ("device_trouble", &status.device_trouble),
        ] {
            if let Some(trouble) = trouble {
                object.put(key, trouble.as_str());
            }
        }
        terminal.line(&object.into_json().to_string())?;
        return terminal.flush();
    }
    let line = match status.is_provided {
        true => format!(
            "I/O server {name} delivers {} of tl://{address} · Ctrl-C ends it",
            counted(status.variables as u64, "variable")
        ),
        false => format!("I/O server {name} waits for the engine at tl://{address}"),
    };
    terminal.line(&line)?;
    if let Some(item) = &status.missing_item {
        let sentence = match status.missing {
            1 => {
                format!(
                    "  1 variable names item {item}, which the I/O server does not have; correct \
                     `source`"
                )
            }
            count => format!(
                "  {count} variables name items that the I/O server does not have, such as {item}; \
                 correct `source`"
            ),
        };
        terminal.note(&terminal.error_paint(Mood::Bad, &sentence))?;
    }
    let engine = status.engine_trouble.iter().map(|why| ("engine", why));
    let device = status.device_trouble.iter().map(|why| ("device", why));
    for (what, trouble) in engine.chain(device) {
        let sentence = format!("  {what}: {trouble}");
        terminal.note(&terminal.error_paint(Mood::Bad, &sentence))?;
    }
    terminal.flush()
}

/// Parses `KEY=VALUE`: true, false, a number, or text.
fn setting(text: &str) -> Result<(String, Setting), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err("write it as KEY=VALUE".to_owned());
    };
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() {
        return Err("write it as KEY=VALUE".to_owned());
    }
    Ok((key.to_owned(), setting_value(value)))
}

fn setting_value(text: &str) -> Setting {
    if let Ok(value) = text.parse() {
        return Setting::Bool(value);
    }
    if let Ok(value) = text.parse() {
        return Setting::Integer(value);
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Setting::Float(value),
        _ => Setting::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_what_they_look_like() {
        let of = |text: &str| setting(text).unwrap().1;
        assert_eq!(of("seed=7"), Setting::Integer(7));
        assert_eq!(of("speed = 1.5"), Setting::Float(1.5));
        assert_eq!(of("fast=true"), Setting::Bool(true));
        assert_eq!(
            of("port=/dev/ttyS0"),
            Setting::String("/dev/ttyS0".to_owned())
        );
        assert_eq!(of("text=a=b"), Setting::String("a=b".to_owned()));
        assert!(setting("seed").is_err());
        assert!(setting("=7").is_err());
    }

    #[test]
    fn a_name_is_what_a_source_can_say() {
        assert!(check_name("plant").is_ok());
        for name in ["", "a/b", "a:b"] {
            assert_eq!(check_name(name).unwrap_err().exit, Exit::Usage, "{name}");
        }
    }
}
