//! `io`: runs an I/O server in a separate process as the source of an engine's variables.

use std::time::Duration;

use trunkline::io::{Drivers, IoServer, Setting, Settings};
use trunkline::{Provider, ProviderOptions, ProviderStatus};
use trunkline_types::name::check_segment;

use crate::arguments;
use crate::connection;
use crate::output::record::{JsonSchema, Record, Serialize, json};
use crate::targets;
use crate::{CliError, Context, Exit, Problem, counted};

/// Run I/O servers in separate processes
///
/// An I/O server connects devices to the variables of an engine. `serve` runs the I/O servers of its
/// configuration in its own process; `io run` runs one in a separate process, on this or another
/// machine.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(Args),
    /// List the built-in drivers
    Drivers,
}

/// Run an I/O server until Ctrl-C or SIGTERM
///
/// The I/O server delivers all variables whose `source` names it, including variables that are
/// deployed later. When the I/O server stops, the quality of these variables becomes bad, with the
/// reason. When it runs again, on this host or another one, it updates the variables again.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The driver; `trunkline io drivers` lists them
    #[arg(value_name = "DRIVER")]
    driver: String,

    /// Settings of the driver
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, Setting)>,

    /// Name of the I/O server, as in `source = "NAME:ITEM"` of the variables (default: the
    /// driver's name)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Interval between scans, from 100us to 24h: seconds, or a number with us, ms, s, m or h
    /// (default: the driver's own)
    #[arg(long, value_name = "TIME", value_parser = period, allow_hyphen_values = true)]
    period: Option<Duration>,

    /// Also deploy the libraries that the I/O server offers
    #[arg(long)]
    publish: bool,
}

/// A line of `io drivers`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline driver, version 1")]
pub(crate) struct Driver {
    /// Name of the driver, in `io run` and in `driver` of a configuration.
    driver: &'static str,
    /// Devices or data that the driver connects to.
    description: &'static str,
}

impl Record for Driver {
    const COLUMNS: &'static [&'static str] = &["driver", "description"];
}

/// A line of `io run`, printed whenever the state changes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum ProviderEvent {
    /// The state of the I/O server.
    Providing {
        /// The I/O server.
        name: String,
        /// URL of the engine.
        url: String,
        /// Whether the I/O server currently delivers variables to the engine.
        provided: bool,
        /// Number of variables that it delivers.
        variables: usize,
        /// Number of variables whose item the I/O server does not have.
        missing: usize,
        /// One of these items. Left out when there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        missing_item: Option<String>,
        /// Error of the engine, or of the connection to it. Left out when there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        engine_error: Option<String>,
        /// Error of the device. Left out when there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        device_error: Option<String>,
    },
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Run(args) => provide(args, context),
        Subcommand::Drivers => list(context),
    }
}

/// Returns the drivers that configurations and `io run` can use.
pub(super) fn drivers() -> Drivers {
    Drivers::built_in().with(trunkline_boiler::DRIVER)
}

fn list(context: &Context) -> Result<Exit, CliError> {
    let drivers = drivers();
    context.list(drivers.iter().map(|driver| Driver {
        driver: driver.name,
        description: driver.description,
    }))?;
    Ok(Exit::Success)
}

fn provide(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let engine = targets::engine(&context.settings)?;
    let server = server(args)?;
    let name = args.name.as_deref().unwrap_or(&args.driver);
    check_name(name)?;
    let options = ProviderOptions {
        name: name.to_owned(),
        period: args.period,
        publish: args.publish,
    };
    context.interrupted.handle_presses(u32::MAX);
    let connect = connection::options(&engine, &context.settings, false)?;
    let provider = Provider::start(&connect, &options, server);
    let provider = provider.map_err(|error| Problem::system(&error))?;
    let address = targets::address(&engine);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            context.interrupted.wait_for_first();
            provider.stop();
        });
        let mut status = provider.status();
        loop {
            show(name, &address, &status, context)?;
            match provider.wait_status(&status) {
                Some(next) => status = next,
                None => return Ok(Exit::Success),
            }
        }
    })
}

fn server(args: &Args) -> Result<Box<dyn IoServer>, Problem> {
    let mut settings = Settings::new();
    for (key, value) in &args.settings {
        if settings.insert(key.clone(), value.clone()).is_some() {
            return Err(Problem::usage(format!(
                "the setting {key} is given twice; give each setting only once"
            )));
        }
    }
    drivers()
        .create(&args.driver, &settings)
        .map_err(|error| Problem::new(Exit::ProblemsFound, "driver", error.to_string()))
}

fn check_name(name: &str) -> Result<(), Problem> {
    let invalid = |reason: &str| Problem::usage(format!("--name \"{name}\": {reason}"));
    check_segment(name).map_err(|error| invalid(&error.to_string()))?;
    match name.contains(':') {
        false => Ok(()),
        true => Err(invalid(
            "a name cannot contain a colon, because source = \"NAME:ITEM\" uses it as the separator",
        )),
    }
}

fn show(
    name: &str,
    address: &str,
    status: &ProviderStatus,
    context: &Context,
) -> Result<(), CliError> {
    let terminal = &context.terminal;
    if context.settings.is_json() {
        let status = status.clone();
        terminal.line(&json(&ProviderEvent::Providing {
            name: name.to_owned(),
            url: format!("tl://{address}"),
            provided: status.is_provided,
            variables: status.variables,
            missing: status.missing,
            missing_item: status.missing_item,
            engine_error: status.engine_error,
            device_error: status.device_error,
        }))?;
        return terminal.flush();
    }
    let line = match status.is_provided {
        true => format!(
            "I/O server {name} delivers {} of tl://{address} · press Ctrl-C to stop",
            counted(status.variables as u64, "variable")
        ),
        false => format!("I/O server {name} waits for the engine at tl://{address}"),
    };
    terminal.line(&line)?;
    if let Some(item) = &status.missing_item {
        let sentence = match status.missing {
            1 => format!(
                "  the `source` of 1 variable contains item {item}, which the I/O server does not have; \
                 correct the configuration of the variable"
            ),
            count => format!(
                "  the `source` of {count} variables contains items that the I/O server does not have, \
                 such as {item}; correct the configuration of the variables"
            ),
        };
        context.warn(&sentence)?;
    }
    let engine = status.engine_error.iter().map(|error| ("engine", error));
    let device = status.device_error.iter().map(|error| ("device", error));
    for (origin, error) in engine.chain(device) {
        let sentence = format!("  {origin}: {error}");
        context.warn(&sentence)?;
    }
    terminal.flush()
}

/// Parses an interval between scans. The range is the same as in a configuration.
fn period(text: &str) -> Result<Duration, String> {
    let period = arguments::duration(text)?;
    match (Duration::from_micros(100)..=Duration::from_secs(86_400)).contains(&period) {
        true => Ok(period),
        false => Err("it must be from 100us to 24h".to_owned()),
    }
}

/// Parses `KEY=VALUE`, where the value is true, false, a number, or text.
fn setting(text: &str) -> Result<(String, Setting), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), setting_value(value.trim())))
        }
        _ => Err("it must have the form KEY=VALUE".to_owned()),
    }
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
    fn setting_types_follow_their_syntax() {
        let value = |text: &str| setting(text).unwrap().1;
        assert_eq!(value("seed=7"), Setting::Integer(7));
        assert_eq!(value("speed = 1.5"), Setting::Float(1.5));
        assert_eq!(value("fast=true"), Setting::Bool(true));
        assert_eq!(
            value("port=/dev/ttyS0"),
            Setting::String("/dev/ttyS0".to_owned())
        );
        assert_eq!(value("text=a=b"), Setting::String("a=b".to_owned()));
        assert!(setting("seed").is_err());
        assert!(setting("=7").is_err());
    }

    #[test]
    fn interval_between_scans_is_within_the_range_of_a_configuration() {
        assert_eq!(period("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(period("24h"), Ok(Duration::from_secs(86_400)));
        for text in ["0", "99us", "25h"] {
            assert_eq!(period(text).unwrap_err(), "it must be from 100us to 24h");
        }
        assert_eq!(period("-1s").unwrap_err(), "a time cannot be negative");
    }

    #[test]
    fn names_are_valid_in_a_source() {
        assert!(check_name("plant").is_ok());
        for name in ["", "a/b", "a:b"] {
            assert_eq!(check_name(name).unwrap_err().exit, Exit::Usage, "{name}");
        }
    }
}
