//! The targets of a command: an engine, and names or patterns of its variables.

use trunkline::Contexts;
use trunkline_types::url::Transport;
use trunkline_types::{Name, Pattern, Url};

use crate::Problem;
use crate::settings::Settings;

/// The engine and the operands of a command, resolved as far as possible without a connection.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Targets {
    pub(crate) engine: Url,
    pub(crate) list: Vec<Target>,
}

/// Error code for an operand that is not a valid name.
pub(crate) const BAD_NAME: &str = "bad-name";

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Target {
    Name(String),
    Pattern(Pattern),
    Invalid(Problem),
}

impl Targets {
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.list.iter().filter_map(|target| match target {
            Target::Pattern(pattern) => Some(pattern),
            _ => None,
        })
    }

    pub(crate) fn names(&self, settings: &Settings) -> Vec<String> {
        let names = self.list.iter().filter_map(|target| match target {
            Target::Name(name) if !settings.is_excluded(name) => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }
}

/// Where the URL of the engine comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// `--url` or TRUNKLINE_URL.
    Given,
    /// The selected context, with its name.
    Context(String),
    Default,
}

const DEFAULT_URL: &str = "tl://localhost:5850";

/// Returns the URL of the engine.
pub(crate) fn engine(settings: &Settings) -> Result<Url, Problem> {
    let (url, _) = engine_with_origin(settings)?;
    Ok(url)
}

/// Returns the URL of the engine: the given one, otherwise that of the selected context, otherwise
/// that of the engine on this machine.
pub(crate) fn engine_with_origin(settings: &Settings) -> Result<(Url, Origin), Problem> {
    if let Some(text) = &settings.url {
        return Ok((parse_engine(text)?, Origin::Given));
    }
    if let Some((name, url)) = selected()? {
        return Ok((url, Origin::Context(name)));
    }
    Ok((parse_engine(DEFAULT_URL)?, Origin::Default))
}

/// Returns the name and the URL of the selected context.
fn selected() -> Result<Option<(String, Url)>, Problem> {
    // Without a home folder, there are no contexts.
    let Ok(contexts) = Contexts::of_user() else {
        return Ok(None);
    };
    let failed = |error: &dyn std::fmt::Display| {
        Problem::from_message("context", error.to_string()).with_hint(
            "`trunkline ctx select NAME` selects another context, and `trunkline ctx select -` \
             selects none",
        )
    };
    let Some(name) = contexts.selected().map_err(|error| failed(&error))? else {
        return Ok(None);
    };
    // Not the default instead: the command would reach another engine than the user expects.
    match contexts.get(&name) {
        Ok(context) => Ok(Some((name, context.url))),
        Err(error) => Err(failed(&format!("the selected context {name}: {error}"))),
    }
}

fn parse_engine(text: &str) -> Result<Url, Problem> {
    let text = text.trim();
    let with_scheme = match text.contains("://") {
        true => text.to_owned(),
        false => format!("tl://{text}"),
    };
    let url = Url::parse(&with_scheme)
        .map_err(|error| Problem::usage(format!("--url \"{text}\": {error}")))?;
    match url.name {
        None => Ok(url),
        Some(name) => {
            let sentence = format!(
                "--url \"{text}\" names a variable, not only an engine; remove {name} from the URL, or \
                 pass it as an argument"
            );
            Err(Problem::usage(sentence))
        }
    }
}

/// Resolves the operands of a command, which must all belong to one engine.
pub(crate) fn resolve(operands: &[String], settings: &Settings) -> Result<Targets, Problem> {
    let default = engine(settings)?;
    let mut engines: Vec<Url> = Vec::new();
    let mut list = Vec::with_capacity(operands.len());
    for operand in operands {
        let (engine, target) = resolve_one(operand, &default);
        list.push(target);
        if !engines.iter().any(|listed| is_same(listed, &engine)) {
            engines.push(engine);
        }
    }
    if let [first, second, ..] = engines.as_slice() {
        let sentence = format!(
            "the names belong to several engines ({first} and {second}); use one command for each \
             engine"
        );
        return Err(Problem::usage(sentence));
    }
    let engine = engines.pop().unwrap_or(default);
    Ok(Targets { engine, list })
}

fn resolve_one(operand: &str, default: &Url) -> (Url, Target) {
    let invalid = |code: &'static str, sentence: String| {
        Target::Invalid(Problem::failed(code, sentence).with_name(operand))
    };
    let (engine, text) = match split_url(operand, default) {
        Ok(parts) => parts,
        Err(error) => return (default.clone(), invalid(BAD_NAME, error)),
    };
    let target = match Pattern::has_wildcards(&text) {
        true => match Pattern::parse(&text) {
            Ok(pattern) => Target::Pattern(pattern),
            Err(error) => invalid("bad-pattern", error.to_string()),
        },
        false => match Name::parse(&text) {
            Ok(name) => Target::Name(name.as_str().to_owned()),
            Err(error) => invalid(BAD_NAME, error.to_string()),
        },
    };
    (engine, target)
}

/// Splits an operand into its engine and the name at that engine.
pub(crate) fn split_url(operand: &str, default: &Url) -> Result<(Url, String), String> {
    if !operand.contains("://") {
        return Ok((default.clone(), operand.to_owned()));
    }
    let url = Url::parse(operand).map_err(|error| error.to_string())?;
    let name = url.name.clone().unwrap_or_default();
    Ok(match url.has_engine() {
        true => (url.without_name(), name),
        false => (default.clone(), name),
    })
}

fn is_same(left: &Url, right: &Url) -> bool {
    left.host == right.host
        && left.port_or_default() == right.port_or_default()
        && left.via == right.via
}

/// Returns the engine's address in its usual form, `localhost:5850`, or the path of its Unix
/// socket.
pub(crate) fn address(engine: &Url) -> String {
    if let Transport::Unix(path) | Transport::Shared(path) = &engine.via {
        return path.to_string();
    }
    let host = engine.host.as_deref().unwrap_or("localhost");
    match host.contains(':') {
        true => format!("[{host}]:{}", engine.port_or_default()),
        false => format!("{host}:{}", engine.port_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Exit;
    use crate::arguments::Cli;

    fn settings(url: &str) -> Settings {
        let cli = Cli::parse_from(["trunkline", "--url", url, "get", "a/b"]);
        Settings::new(&cli.global, false).unwrap()
    }

    fn resolve(operands: &[&str]) -> Result<Targets, Problem> {
        let operands: Vec<String> = operands.iter().map(|&text| text.to_owned()).collect();
        super::resolve(&operands, &settings("tl://localhost:5850"))
    }

    #[test]
    fn an_engine_is_written_with_or_without_its_scheme() {
        for text in ["tl://plant7:6000", "plant7:6000", "tl://plant7:6000/"] {
            let url = engine(&settings(text)).unwrap();
            assert_eq!(address(&url), "plant7:6000", "{text}");
        }
        assert_eq!(address(&engine(&settings("[::1]")).unwrap()), "[::1]:5850");
    }

    #[test]
    fn an_engine_with_a_name_or_without_a_host_is_refused() {
        for text in [
            "tl://plant7/boiler/level",
            "plant 7",
            "opc://plant7",
            "tl://plant7:port",
        ] {
            let problem = engine(&settings(text)).unwrap_err();
            assert_eq!(problem.exit, Exit::Usage, "{text}");
            assert!(problem.message.starts_with("--url"), "{text}");
        }
    }

    /// Behaviour: API-01.
    #[test]
    fn a_url_chooses_engine_and_variable() {
        let targets = resolve(&["tl://plant7:6000/boiler/level", "tl://PLANT7:6000/boiler/*"]);
        let targets = targets.unwrap();
        assert_eq!(address(&targets.engine), "plant7:6000");
        assert_eq!(targets.list[0], Target::Name("boiler/level".into()));
        assert!(matches!(&targets.list[1], Target::Pattern(_)));
        let local = resolve(&["tl:///boiler/level", "boiler/feed"]).unwrap();
        assert_eq!(address(&local.engine), "localhost:5850");
    }

    #[test]
    fn names_of_several_engines_are_refused() {
        let problem = resolve(&["tl://plant7/a/b", "a/b"]).unwrap_err();
        assert_eq!(problem.exit, Exit::Usage);
        assert!(problem.message.contains("plant7"), "{}", problem.message);
    }

    #[test]
    fn invalid_name_does_not_affect_the_others() {
        let targets = resolve(&["level", "a//b", "a/**b", "a/b", &"x/".repeat(40_000)]).unwrap();
        let codes: Vec<&str> = targets
            .list
            .iter()
            .map(|target| match target {
                Target::Invalid(problem) => problem.code.as_ref(),
                _ => "",
            })
            .collect();
        assert_eq!(
            codes,
            ["bad-name", "bad-name", "bad-pattern", "", "bad-name"]
        );
    }
}
