//! Why a variable does not update, as far as its engine can see: a walk from its name to its
//! source.

use trunkline_types::{Access, Level, Timestamp};

use crate::alias::Target;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::outcome::AccessError;
use crate::sync::Arc;
use crate::variable::Variable;

/// One step of the walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What was looked at.
    pub subject: Subject,
    /// What was found.
    pub verdict: Verdict,
    /// It, in a sentence.
    pub sentence: String,
    /// What to do; empty when nothing is to be done.
    pub next: String,
}

/// What a step looks at, in the order of the walk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// Whether the name leads to a variable.
    Name,
    /// Whether its library is deployed.
    Library,
    /// Whether the caller may read it.
    Rights,
    /// What delivers its value.
    Source,
    /// What the value says about itself.
    Quality,
    /// How old the value is.
    Age,
    /// What the write path holds back: range, deadband, refusals.
    Filter,
    /// What subscribers do not get.
    Buffer,
}

/// What a step found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing wrong here.
    Fine,
    /// Worth knowing, not the cause.
    Note,
    /// This is why.
    Fault,
}

impl Engine {
    /// Walks from the name to the source and says at each step what it found. The first fault is
    /// the cause; steps after a fault that hides them are left out.
    pub fn explain(&self, caller: &Caller, name: &str, wall: Timestamp) -> Vec<Step> {
        // Of a field it is said what is said of its variable.
        let name = name.split_once('#').map_or(name, |(variable, _)| variable);
        let variable = match self.resolve_one(caller, name) {
            Ok(variable) => variable,
            Err(error) => return vec![unresolved(&error)],
        };
        let found = format!("{} is variable {}", name, variable.handle());
        let mut steps = vec![fine(Subject::Name, found)];
        steps.extend(self.walk(caller, variable, wall));
        steps
    }

    /// The walk from the variable on.
    fn walk(&self, caller: &Caller, variable: &Arc<Variable>, wall: Timestamp) -> Vec<Step> {
        let library = variable.name().split('/').next().unwrap_or_default();
        let mut steps = vec![deployed(variable, library)];
        if variable.is_stopped() {
            // What its source and its age would say only repeats that.
            return steps;
        }
        steps.push(self.rights(caller, variable));
        steps.push(match self.bound_to(variable) {
            Some(target) => self.target(caller, target, wall),
            None => self.source(variable),
        });
        if let Some(forced) = self.forced_state(variable) {
            steps.push(forced);
            return steps;
        }
        let update = variable.update();
        steps.push(quality(variable, &update));
        steps.push(age(variable, &update, wall));
        steps.push(filter(variable));
        steps.extend(self.audited_state(variable));
        steps.push(fine(
            Subject::Buffer,
            match variable.subscribers() {
                1 => "1 subscription hears of its updates".to_owned(),
                count => format!("{count} subscriptions hear of its updates"),
            },
        ));
        steps
    }

    /// What delivers the variable's value and how it does, in a sentence; empty when nothing does.
    pub fn source_state(&self, variable: &Variable) -> String {
        let has_none = variable.properties().source.is_empty() && !variable.is_provided();
        if has_none && !variable.is_alias() {
            return String::new();
        }
        self.source(variable).sentence
    }

    fn rights(&self, caller: &Caller, variable: &Variable) -> Step {
        match variable.check_readable(caller) {
            Ok(()) => match variable.properties().access {
                Access::ReadOnly => note(
                    Subject::Rights,
                    "it is read-only: only its source writes it".to_owned(),
                ),
                _ if caller.rights.write => {
                    fine(Subject::Rights, "you may read and write it".to_owned())
                }
                _ => note(Subject::Rights, "you may read it, not write it".to_owned()),
            },
            Err(error) => Step {
                subject: Subject::Rights,
                verdict: Verdict::Fault,
                sentence: error.to_string(),
                next: "change its access or ask for the right".to_owned(),
            },
        }
    }

    /// The first thing wrong with the target of an alias, by the target's own walk.
    fn target(&self, caller: &Caller, target: &Arc<Variable>, wall: Timestamp) -> Step {
        let name = target.name();
        let walk = self.walk(caller, target, wall);
        // Whoever may read the alias is told what is wrong behind it.
        let mut faults = walk
            .into_iter()
            .filter(|step| step.verdict == Verdict::Fault && step.subject != Subject::Rights);
        match faults.next() {
            None => fine(Subject::Source, format!("it is an alias of {name}")),
            Some(fault) => Step {
                subject: Subject::Source,
                sentence: match fault.subject {
                    // It names the variable at fault already.
                    Subject::Source if target.is_alias() => fault.sentence,
                    _ => format!("it is an alias of {name}: {}", fault.sentence),
                },
                ..fault
            },
        }
    }

    fn source(&self, variable: &Variable) -> Step {
        if let Some(Target::Unbound(unbound)) = variable.lock().target() {
            return Step {
                subject: Subject::Source,
                verdict: Verdict::Fault,
                sentence: format!("it is an alias, and {}", unbound.sentence),
                next: "deploy its target, or correct `alias`".to_owned(),
            };
        }
        if let Some(target) = self.bound_to(variable) {
            return fine(
                Subject::Source,
                format!("it is an alias of {}", target.name()),
            );
        }
        let configured = &variable.properties().source;
        let Some(index) = variable.provider_index() else {
            if configured.is_empty() {
                return fine(
                    Subject::Source,
                    "it has no source: it changes when somebody writes it".to_owned(),
                );
            }
            return Step {
                subject: Subject::Source,
                verdict: Verdict::Fault,
                sentence: format!("its source {configured} is not served by any I/O server"),
                next: unserved(configured),
            };
        };
        let (name, provider) = self.providers().get(index);
        let Some(provider) = provider else {
            let next = match self.providers().is_process(index) {
                true => format!("start it: trunkline io run DRIVER --name {name}"),
                false => format!("start {name} again and look at its log"),
            };
            return Step {
                subject: Subject::Source,
                verdict: Verdict::Fault,
                sentence: format!("I/O server {name} is not running"),
                next,
            };
        };
        match provider.trouble() {
            Some(trouble) => Step {
                subject: Subject::Source,
                verdict: Verdict::Fault,
                sentence: format!("I/O server {name}: {trouble}"),
                next: "repair what it names; it tries again by itself".to_owned(),
            },
            None => fine(
                Subject::Source,
                format!("I/O server {name} runs without errors"),
            ),
        }
    }
}

/// What to do about a source that the engine has never heard of.
fn unserved(source: &str) -> String {
    match source.split_once(':') {
        Some((name, _)) => format!(
            "add an [[io]] section named {name}, start it as a process (trunkline io run DRIVER \
             --name {name}), or correct `source`"
        ),
        None => "write it as NAME:ITEM, with the name of an I/O server".to_owned(),
    }
}

fn deployed(variable: &Variable, library: &str) -> Step {
    match variable.is_stopped() {
        false => fine(Subject::Library, format!("library {library} is deployed")),
        true => Step {
            subject: Subject::Library,
            verdict: Verdict::Fault,
            sentence: format!("library {library} is stopped: nobody can write its variables"),
            next: format!("start it: trunkline library start {library}"),
        },
    }
}

fn quality(variable: &Variable, update: &crate::update::Update) -> Step {
    if update.sequence == 0 {
        let next = match variable.properties().source.is_empty() {
            true => "write it once, or give it an `initial` value",
            false => "wait for the first scan of its source",
        };
        return Step {
            subject: Subject::Quality,
            verdict: Verdict::Fault,
            sentence: "nothing has been written to it since the engine started".to_owned(),
            next: next.to_owned(),
        };
    }
    let quality = update.quality;
    let sentence = match quality.level() {
        Level::Good => return fine(Subject::Quality, "its value is good".to_owned()),
        _ => format!("its value is {quality}: {}", quality.reason().sentence()),
    };
    let verdict = if quality.level() == Level::Bad {
        Verdict::Fault
    } else {
        Verdict::Note
    };
    let next = "look at its source".to_owned();
    Step {
        subject: Subject::Quality,
        verdict,
        sentence,
        next,
    }
}

fn age(variable: &Variable, update: &crate::update::Update, wall: Timestamp) -> Step {
    let properties = variable.properties();
    if update.sequence == 0 || !properties.timestamps {
        return fine(Subject::Age, "it carries no time".to_owned());
    }
    let nanos = wall.nanos_since(update.engine_timestamp).max(0) as u64;
    let age = std::time::Duration::from_nanos(nanos);
    let sentence = format!(
        "update {} came {:.1} s ago",
        update.sequence,
        age.as_secs_f64()
    );
    match properties.max_age {
        Some(max_age) if age > max_age => Step {
            subject: Subject::Age,
            verdict: Verdict::Fault,
            sentence: format!("{sentence}, later than its max_age of {max_age:?} allows"),
            next: "find out why its source or its writers went silent".to_owned(),
        },
        _ => fine(Subject::Age, sentence),
    }
}

fn filter(variable: &Variable) -> Step {
    let ledger = variable.ledger();
    let deadband = variable.properties().deadband;
    let sentence = format!(
        "of {} writes {} were applied, {} unchanged, {} refused, {} unknown",
        ledger.offered, ledger.written, ledger.unchanged, ledger.refused, ledger.unknown
    );
    let held_back = ledger.unchanged + ledger.refused;
    if held_back > 0 && ledger.written <= 1 {
        let next = match ledger.unchanged > ledger.refused {
            true => format!(
                "its deadband is {} % for clients and {} % for its source: make it smaller",
                deadband.user_percent, deadband.source_percent
            ),
            false => "write a value that its type, range and access allow".to_owned(),
        };
        return Step {
            subject: Subject::Filter,
            verdict: Verdict::Fault,
            sentence,
            next,
        };
    }
    match held_back {
        0 => fine(Subject::Filter, sentence),
        _ => note(Subject::Filter, sentence),
    }
}

fn unresolved(error: &AccessError) -> Step {
    let next = match error {
        AccessError::UnknownName {
            suggestion: Some(name),
            ..
        } => format!("try {name}"),
        AccessError::UnknownName { .. } => {
            "deploy the library it belongs to, or look for it with find".to_owned()
        }
        _ => "correct the name".to_owned(),
    };
    Step {
        subject: Subject::Name,
        verdict: Verdict::Fault,
        sentence: error.to_string(),
        next,
    }
}

fn fine(subject: Subject, sentence: String) -> Step {
    Step {
        subject,
        verdict: Verdict::Fine,
        sentence,
        next: String::new(),
    }
}

fn note(subject: Subject, sentence: String) -> Step {
    Step {
        subject,
        verdict: Verdict::Note,
        sentence,
        next: String::new(),
    }
}
