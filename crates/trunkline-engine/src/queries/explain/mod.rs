//! Explains why a variable does not update, as far as its engine can tell. The checks follow the
//! path of a value from the variable's name to its subscribers.
//!
//! `Check` lists the checks in order; each examines one aspect. Other code examines the client's
//! session and the connection to the client.
//!
//! - `source`: the source of the value; `writes`: outcomes of writes; `buffer`: queued updates.

mod buffer;
mod source;
mod writes;

use trunkline_access::Action;
use trunkline_types::{Access, Level, Moment, Reason, Tick, Timestamp, WhyStage, WhyStep};

use super::Queries;
use crate::caller::Caller;
use crate::features::alarms::alarm_states;
use crate::features::alias::bound_to;
use crate::features::forcing::forced_state;
use crate::outcome::AccessError;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

/// The checks, in order. The name is checked before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Check {
    Library,
    Rights,
    Source,
    Forced,
    Quality,
    Age,
    Control,
    Writer,
    Filter,
    Alarms,
    Audit,
    Memory,
    Buffers,
    Subscribers,
}

/// The explained variable, with the data that the checks share.
struct Walk<'a> {
    queries: Queries<'a>,
    caller: &'a Caller,
    variable: &'a Arc<Variable>,
    update: Update,
    moment: Moment,
}

/// The result of a check.
enum Checked {
    Nothing,
    Step(WhyStep),
    /// The last step; further steps would only repeat it.
    Last(WhyStep),
}

impl From<WhyStep> for Checked {
    fn from(step: WhyStep) -> Self {
        Checked::Step(step)
    }
}

impl From<Option<WhyStep>> for Checked {
    fn from(step: Option<WhyStep>) -> Self {
        step.map_or(Checked::Nothing, Checked::Step)
    }
}

impl Check {
    const ALL: [Check; 14] = [
        Check::Library,
        Check::Rights,
        Check::Source,
        Check::Forced,
        Check::Quality,
        Check::Age,
        Check::Control,
        Check::Writer,
        Check::Filter,
        Check::Alarms,
        Check::Audit,
        Check::Memory,
        Check::Buffers,
        Check::Subscribers,
    ];

    fn run(self, walk: &Walk<'_>) -> Checked {
        match self {
            Check::Library => walk.library(),
            Check::Rights => walk.rights().into(),
            Check::Source => walk.source().into(),
            Check::Forced => walk.forced(),
            Check::Quality => walk.quality().into(),
            Check::Age => walk.age().into(),
            Check::Control => walk.control().into(),
            Check::Writer => walk.writer().into(),
            Check::Filter => walk.filter().into(),
            Check::Alarms => alarm_states(walk.caller, walk.variable).into(),
            Check::Audit => {
                let audit = walk.queries.of(&walk.queries.table.audit);
                audit.state_of(walk.variable).into()
            }
            Check::Memory => walk.memory().into(),
            Check::Buffers => walk.buffers().into(),
            Check::Subscribers => walk.subscribers().into(),
        }
    }
}

impl Queries<'_> {
    /// Runs all checks, from the name to the subscribers, and reports the result of each. The first
    /// fault is the cause. Checks whose result depends on a fault are left out.
    pub fn explain(&self, caller: &Caller, name: &str, now: Tick, wall: Timestamp) -> Vec<WhyStep> {
        // The explanation of a field is that of its variable.
        let name = name.split_once('#').map_or(name, |(variable, _)| variable);
        let variable = match self.core.resolve_one(caller, name) {
            Ok(variable) => variable,
            Err(error) => return vec![self.unresolved(caller, &error)],
        };
        let found = format!("{} is variable {}", name, variable.handle());
        let mut steps = vec![WhyStep::ok(WhyStage::Resolution, found)];
        let walk = self.walk(caller, &variable, Moment { now, wall });
        steps.extend(walk.into_iter().map(|(_, step)| step));
        steps
    }

    /// Runs the checks after the check of the name. Returns each step with its check.
    fn walk(
        &self,
        caller: &Caller,
        variable: &Arc<Variable>,
        moment: Moment,
    ) -> Vec<(Check, WhyStep)> {
        let walk = Walk {
            queries: *self,
            caller,
            variable,
            update: variable.update(),
            moment,
        };
        let mut steps = Vec::new();
        for check in Check::ALL {
            match check.run(&walk) {
                Checked::Nothing => {}
                Checked::Step(step) => steps.push((check, step)),
                Checked::Last(step) => {
                    steps.push((check, step));
                    break;
                }
            }
        }
        steps
    }

    fn unresolved(&self, caller: &Caller, error: &AccessError) -> WhyStep {
        let AccessError::UnknownName { name, suggestion } = error else {
            return WhyStep::fault(WhyStage::Resolution, error.to_string(), "correct the name");
        };
        if let Some(suggestion) = suggestion {
            let sentence = match name.to_lowercase() == suggestion.to_lowercase() {
                true => format!(
                    "no variable is named {name}, but there is {suggestion}: upper and lower case \
                     differ"
                ),
                false => error.to_string(),
            };
            return WhyStep::fault(WhyStage::Resolution, sentence, format!("try {suggestion}"));
        }
        let library = name.split('/').next().unwrap_or_default();
        // A caller who may read the whole library may know whether it is deployed.
        let may_know = caller.rights.permit_library(Action::Read, library);
        if may_know && self.of(&self.table.libraries).get(library).is_none() {
            return WhyStep::fault(
                WhyStage::Library,
                format!("library {library} is not deployed, so there is no {name}"),
                format!(
                    "deploy it: trunkline deploy {library}.toml; or look for the name with \
                     `trunkline find`"
                ),
            );
        }
        let next = "look for the name with `trunkline find`, or add the variable to its library and \
                    deploy the library again";
        WhyStep::fault(WhyStage::Resolution, error.to_string(), next)
    }
}

impl Walk<'_> {
    fn last_writer(&self) -> String {
        let writers = self.queries.of(&self.queries.table.writers);
        writers.last_writer(self.variable, self.caller)
    }

    fn library(&self) -> Checked {
        let library = self.variable.name().split('/').next().unwrap_or_default();
        match self.variable.is_stopped() {
            false => {
                WhyStep::ok(WhyStage::Library, format!("library {library} is deployed")).into()
            }
            // Steps about the source and the age would only report the same fault again.
            true => Checked::Last(WhyStep::fault(
                WhyStage::Library,
                format!("library {library} is stopped: its variables cannot be written"),
                format!("start it: trunkline library start {library}"),
            )),
        }
    }

    fn rights(&self) -> WhyStep {
        let (stage, caller) = (WhyStage::Rights, self.caller);
        if let Err(error) = self.variable.check_readable(caller) {
            let next = "change its `access`, or ask the engine's administrator for permission";
            return WhyStep::fault(stage, error.to_string(), next);
        }
        match self.variable.properties().access {
            Access::ReadOnly => WhyStep::note(stage, "it is read-only: only its source writes it"),
            Access::ReadWrite | Access::WriteOnly
                if self.variable.permits(caller, Action::Write) =>
            {
                WhyStep::ok(stage, "you may read and write it")
            }
            Access::ReadWrite | Access::WriteOnly => {
                let name = self.variable.name();
                let sentence = match caller.rights.reason(Action::Write, name) {
                    Some(reason) => format!("you may read it, but not write it: {reason}"),
                    None => "you may read it, but not write it".to_owned(),
                };
                WhyStep::note(stage, sentence)
            }
        }
    }

    fn source(&self) -> WhyStep {
        let Self {
            queries,
            caller,
            variable,
            ..
        } = *self;
        match bound_to(queries.core, variable) {
            Some(target) => queries.target(caller, &target, self.moment),
            None => queries.source(caller, variable),
        }
    }

    fn forced(&self) -> Checked {
        match forced_state(self.variable) {
            Some(step) => Checked::Last(step),
            None => Checked::Nothing,
        }
    }

    fn quality(&self) -> WhyStep {
        let (stage, quality) = (WhyStage::Source, self.update.quality);
        let source = &self.variable.properties().source;
        if self.update.sequence == 0 {
            let next = match source.is_empty() {
                true => "write it once, or give it an `initial` value",
                false => "wait for the first scan of its source",
            };
            let sentence = "nothing has been written to it since the engine deployed it";
            return WhyStep::fault(stage, sentence, next);
        }
        if quality.level() == Level::Good {
            return WhyStep::ok(stage, "its value is good");
        }
        let sentence = format!("its value is {quality}: {}", quality.reason().sentence());
        if let Some(unscaled) = self.unscaled() {
            let next = "correct its `scale`, or the values that its source sends";
            return WhyStep::fault(stage, format!("{sentence}; {unscaled}"), next);
        }
        let next = match (quality.reason(), source.split_once(':')) {
            (Reason::VariableMissing, Some((server, item))) => {
                format!("correct `source`: I/O server {server} has no item {item}")
            }
            (Reason::Stale, _) => self.missing_updates_hint(),
            (_, Some((server, _))) => format!("check I/O server {server} and its device"),
            (_, None) => match self.last_writer() {
                who if who.is_empty() => "write the variable".to_owned(),
                who => format!("write a new value; its last writer set this quality: {who}"),
            },
        };
        match quality.level() {
            Level::Bad => WhyStep::fault(stage, sentence, next),
            Level::Good | Level::Uncertain => WhyStep {
                next,
                ..WhyStep::note(stage, sentence)
            },
        }
    }

    fn missing_updates_hint(&self) -> String {
        match self.variable.properties().source.split_once(':') {
            Some((server, item)) => {
                format!(
                    "check whether I/O server {server} still receives values of {item} from its \
                     device"
                )
            }
            None => match self.last_writer() {
                who if who.is_empty() => "write the variable".to_owned(),
                who => format!("check whether its last writer is still running: {who}"),
            },
        }
    }

    fn age(&self) -> WhyStep {
        let (properties, update) = (self.variable.properties(), &self.update);
        if update.sequence == 0 || !properties.timestamps {
            return WhyStep::ok(WhyStage::Source, "no timestamp");
        }
        let nanos = self.moment.wall.nanos_since(update.engine_timestamp).max(0) as u64;
        let age = std::time::Duration::from_nanos(nanos);
        let (number, seconds) = (update.sequence, age.as_secs_f64());
        let sentence = format!("update {number} arrived {seconds:.1} s ago");
        match properties.max_age {
            Some(max_age) if age > max_age => WhyStep::fault(
                WhyStage::Source,
                format!("{sentence}, longer ago than its max_age of {max_age:?} allows"),
                self.missing_updates_hint(),
            ),
            _ => WhyStep::ok(WhyStage::Source, sentence),
        }
    }
}
