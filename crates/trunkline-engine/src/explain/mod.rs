//! Explains why a variable does not update, as far as its engine can see: a walk from its name to
//! its subscribers.
//!
//! `CHECKS` lists the steps in order; each examines one thing. The asking session, and the path
//! from it to the program, are examined elsewhere.
//!
//! - `source`: the source of the value; `writes`: outcomes of writes; `buffer`: queued updates.

mod buffer;
mod source;
mod writes;

use trunkline_types::{Access, Level, Reason, Tick, Timestamp};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::outcome::AccessError;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

/// One step of the walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The part that was examined.
    pub subject: Subject,
    /// The result of the examination.
    pub verdict: Verdict,
    /// The result as a sentence.
    pub sentence: String,
    /// The remedy; empty if there is nothing to do.
    pub next: String,
}

/// The part that a step examines, in the order of the walk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// Resolution of the name.
    Name,
    /// State of its library.
    Library,
    /// The caller's rights to read and write it.
    Rights,
    /// Source of its value.
    Source,
    /// Quality of the value.
    Quality,
    /// Age of the value.
    Age,
    /// Exclusive right to write it.
    Writer,
    /// Writes held back: range, deadband, refusals.
    Filter,
    /// Updates that subscribers do not get.
    Buffer,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing is wrong here.
    Fine,
    /// Worth knowing, but not the cause.
    Note,
    /// The cause.
    Fault,
}

/// The arguments of a check.
struct Walk<'a> {
    engine: &'a Engine,
    caller: &'a Caller,
    variable: &'a Arc<Variable>,
    update: Update,
    now: Tick,
    wall: Timestamp,
}

/// The result of a check.
enum Checked {
    /// The check does not apply.
    Nothing,
    Step(Step),
    /// The last step, because the steps after it would only repeat it.
    Last(Step),
}

impl From<Step> for Checked {
    fn from(step: Step) -> Self {
        Checked::Step(step)
    }
}

impl From<Option<Step>> for Checked {
    fn from(step: Option<Step>) -> Self {
        step.map_or(Checked::Nothing, Checked::Step)
    }
}

/// The checks after the one of the name, in order.
const CHECKS: [fn(&Walk<'_>) -> Checked; 12] = [
    |walk| walk.library(),
    |walk| walk.rights().into(),
    |walk| walk.source().into(),
    |walk| walk.forced(),
    |walk| walk.quality().into(),
    |walk| walk.age().into(),
    |walk| walk.writer().into(),
    |walk| walk.filter().into(),
    |walk| walk.engine.audited_state(walk.variable).into(),
    |walk| walk.memory().into(),
    |walk| walk.buffers().into(),
    |walk| walk.subscribers().into(),
];

impl Engine {
    /// Walks from the name to the subscribers and reports the result of each step. The first fault
    /// is the cause. Steps hidden by a fault are left out.
    pub fn explain(&self, caller: &Caller, name: &str, now: Tick, wall: Timestamp) -> Vec<Step> {
        // A field is explained by its variable.
        let name = name.split_once('#').map_or(name, |(variable, _)| variable);
        let variable = match self.resolve_one(caller, name) {
            Ok(variable) => variable,
            Err(error) => return vec![self.unresolved(&error)],
        };
        let found = format!("{} is variable {}", name, variable.handle());
        let mut steps = vec![fine(Subject::Name, found)];
        steps.extend(self.walk(caller, &variable, now, wall));
        steps
    }

    /// The part of the walk after the name.
    fn walk(
        &self,
        caller: &Caller,
        variable: &Arc<Variable>,
        now: Tick,
        wall: Timestamp,
    ) -> Vec<Step> {
        let walk = Walk {
            engine: self,
            caller,
            variable,
            update: variable.update(),
            now,
            wall,
        };
        let mut steps = Vec::new();
        for check in CHECKS {
            match check(&walk) {
                Checked::Nothing => {}
                Checked::Step(step) => steps.push(step),
                Checked::Last(step) => {
                    steps.push(step);
                    break;
                }
            }
        }
        steps
    }

    fn unresolved(&self, error: &AccessError) -> Step {
        let AccessError::UnknownName { name, suggestion } = error else {
            return fault(Subject::Name, error.to_string(), "correct the name");
        };
        if let Some(suggestion) = suggestion {
            let sentence = match name.to_lowercase() == suggestion.to_lowercase() {
                true => format!(
                    "no variable is named {name}, but there is {suggestion}: upper and lower case \
                     differ"
                ),
                false => error.to_string(),
            };
            return fault(Subject::Name, sentence, format!("try {suggestion}"));
        }
        let library = name.split('/').next().unwrap_or_default();
        if self.library(library).is_none() {
            return fault(
                Subject::Library,
                format!("library {library} is not deployed, so there is no {name}"),
                format!("deploy it: trunkline deploy {library}.toml; or look for it with find"),
            );
        }
        let next = "look for it with find, or deploy its library again with it";
        fault(Subject::Name, error.to_string(), next)
    }
}

impl Walk<'_> {
    fn library(&self) -> Checked {
        let library = self.variable.name().split('/').next().unwrap_or_default();
        match self.variable.is_stopped() {
            false => fine(Subject::Library, format!("library {library} is deployed")).into(),
            // Its source and its age would only repeat that.
            true => Checked::Last(fault(
                Subject::Library,
                format!("library {library} is stopped: nobody can write its variables"),
                format!("start it: trunkline library start {library}"),
            )),
        }
    }

    fn rights(&self) -> Step {
        let (subject, caller) = (Subject::Rights, self.caller);
        if let Err(error) = self.variable.check_readable(caller) {
            let next = "change its access or ask for the right";
            return fault(subject, error.to_string(), next);
        }
        match self.variable.properties().access {
            Access::ReadOnly => note(subject, "it is read-only: only its source writes it"),
            _ if caller.rights.write => fine(subject, "you may read and write it"),
            _ => note(subject, "you may read it, not write it"),
        }
    }

    fn source(&self) -> Step {
        let Self {
            engine,
            caller,
            variable,
            ..
        } = *self;
        match engine.bound_to(variable) {
            Some(target) => engine.target(caller, &target, self.now, self.wall),
            None => engine.source(variable),
        }
    }

    fn forced(&self) -> Checked {
        match self.engine.forced_state(self.variable) {
            Some(step) => Checked::Last(step),
            None => Checked::Nothing,
        }
    }

    fn quality(&self) -> Step {
        let (subject, quality) = (Subject::Quality, self.update.quality);
        let source = &self.variable.properties().source;
        if self.update.sequence == 0 {
            let next = match source.is_empty() {
                true => "write it once, or give it an `initial` value",
                false => "wait for the first scan of its source",
            };
            let sentence = "nothing has been written to it since the engine started";
            return fault(subject, sentence, next);
        }
        if quality.level() == Level::Good {
            return fine(subject, "its value is good");
        }
        let sentence = format!("its value is {quality}: {}", quality.reason().sentence());
        if let Some(unscaled) = self.unscaled() {
            let next = "correct its `scale`, or what its source sends";
            return fault(subject, format!("{sentence}; {unscaled}"), next);
        }
        let next = match (quality.reason(), source.split_once(':')) {
            (Reason::VariableMissing, Some((server, item))) => {
                format!("correct `source`: I/O server {server} has no item {item}")
            }
            (Reason::Stale, _) => self.silent(),
            (_, Some((server, _))) => format!("see what is wrong at I/O server {server}"),
            (_, None) => match self.engine.last_writer(self.variable, self.caller) {
                who if who.is_empty() => "write it".to_owned(),
                who => format!("its last writer said so: {who}"),
            },
        };
        match quality.level() {
            Level::Bad => fault(subject, sentence, next),
            _ => Step {
                next,
                ..note(subject, sentence)
            },
        }
    }

    /// The remedy if no more updates arrive.
    fn silent(&self) -> String {
        match self.variable.properties().source.split_once(':') {
            Some((server, item)) => {
                format!(
                    "see whether the device behind {item} of I/O server {server} still delivers"
                )
            }
            None => match self.engine.last_writer(self.variable, self.caller) {
                who if who.is_empty() => "write it".to_owned(),
                who => format!("see whether its last writer still runs: {who}"),
            },
        }
    }

    fn age(&self) -> Step {
        let (properties, update) = (self.variable.properties(), &self.update);
        if update.sequence == 0 || !properties.timestamps {
            return fine(Subject::Age, "no timestamp");
        }
        let nanos = self.wall.nanos_since(update.engine_timestamp).max(0) as u64;
        let age = std::time::Duration::from_nanos(nanos);
        let (number, seconds) = (update.sequence, age.as_secs_f64());
        let sentence = format!("update {number} came {seconds:.1} s ago");
        match properties.max_age {
            Some(max_age) if age > max_age => fault(
                Subject::Age,
                format!("{sentence}, later than its max_age of {max_age:?} allows"),
                self.silent(),
            ),
            _ => fine(Subject::Age, sentence),
        }
    }
}

fn fine(subject: Subject, sentence: impl Into<String>) -> Step {
    Step {
        subject,
        verdict: Verdict::Fine,
        sentence: sentence.into(),
        next: String::new(),
    }
}

fn note(subject: Subject, sentence: impl Into<String>) -> Step {
    Step {
        verdict: Verdict::Note,
        ..fine(subject, sentence)
    }
}

fn fault(subject: Subject, sentence: impl Into<String>, next: impl Into<String>) -> Step {
    Step {
        verdict: Verdict::Fault,
        next: next.into(),
        ..fine(subject, sentence)
    }
}
