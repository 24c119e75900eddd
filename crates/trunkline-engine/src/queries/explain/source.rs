//! Explains the source of a variable's value, and the state of the source.

use trunkline_types::{Moment, WhyStage, WhyStep, WhyVerdict};

use super::Check;
use crate::caller::Caller;
use crate::features::alias::{Target, bound_to, target};
use crate::queries::Queries;
use crate::sync::Arc;
use crate::variable::Variable;

impl Queries<'_> {
    /// Returns a sentence about the source of the variable's value and the state of that source;
    /// empty if the variable has no source.
    pub fn source_state(&self, caller: &Caller, variable: &Variable) -> String {
        let has_none = variable.properties().source.is_empty() && !variable.is_provided();
        if has_none && !variable.is_alias() {
            return String::new();
        }
        self.source(caller, variable).sentence
    }

    /// Returns the first fault found for the target of an alias.
    pub(super) fn target(
        &self,
        caller: &Caller,
        target: &Arc<Variable>,
        moment: Moment,
    ) -> WhyStep {
        let name = caller.rights.shown(target.name());
        let walk = self.walk(caller, target, moment);
        // A caller that may read the alias may also learn of faults of its target.
        let mut faults = walk
            .into_iter()
            .filter(|(check, step)| step.verdict == WhyVerdict::Fault && *check != Check::Rights);
        match faults.next() {
            // The sentence could name the target, or its library or source.
            Some(_) if caller.rights.hides(target.name()) => WhyStep::fault(
                WhyStage::Source,
                format!("it is an alias of {name}, which has a fault"),
                "ask the engine's administrator for the cause",
            ),
            None => WhyStep::ok(WhyStage::Source, format!("it is an alias of {name}")),
            Some((check, fault)) => WhyStep {
                stage: WhyStage::Source,
                // The sentence of a source already names the faulty variable.
                sentence: match check == Check::Source && target.is_alias() {
                    true => fault.sentence,
                    false => format!("it is an alias of {name}: {}", fault.sentence),
                },
                ..fault
            },
        }
    }

    pub(super) fn source(&self, caller: &Caller, variable: &Variable) -> WhyStep {
        if let Some(Target::Unbound(unbound)) = target(&variable.lock()) {
            return WhyStep::fault(
                WhyStage::Source,
                format!(
                    "it is an alias, and {}",
                    unbound.sentence_for(&caller.rights)
                ),
                "deploy its target, or correct `alias`".to_owned(),
            );
        }
        if let Some(target) = bound_to(self.core, variable) {
            return WhyStep::ok(
                WhyStage::Source,
                format!("it is an alias of {}", caller.rights.shown(target.name())),
            );
        }
        let configured = &variable.properties().source;
        let Some(index) = variable.provider_index() else {
            if configured.is_empty() {
                return WhyStep::ok(
                    WhyStage::Source,
                    "it has no source: it changes when somebody writes it".to_owned(),
                );
            }
            return WhyStep::fault(
                WhyStage::Source,
                format!("its source {configured} is not served by any I/O server"),
                hint_without_server(configured),
            );
        };
        let (name, provider) = self.table.providers.get(index);
        let Some(provider) = provider else {
            let next = match self.table.providers.is_process(index) {
                true => format!(
                    "start its program, or a built-in driver with: trunkline io run DRIVER --name {name}"
                ),
                false => format!("start {name} again and look at its log"),
            };
            return WhyStep::fault(
                WhyStage::Source,
                format!("I/O server {name} is not running"),
                next,
            );
        };
        match provider.error() {
            Some(error) => WhyStep::fault(
                WhyStage::Source,
                format!("I/O server {name}: {error}"),
                "correct this error; the I/O server then recovers automatically".to_owned(),
            ),
            None => WhyStep::ok(
                WhyStage::Source,
                format!("I/O server {name} runs without errors"),
            ),
        }
    }
}

fn hint_without_server(source: &str) -> String {
    match source.split_once(':') {
        Some((name, _)) => format!(
            "add an [[io]] section named {name} (with driver = \"process\" for a program of its own), or \
             correct `source`"
        ),
        None => "write `source` as NAME:ITEM, where NAME is an I/O server".to_owned(),
    }
}
