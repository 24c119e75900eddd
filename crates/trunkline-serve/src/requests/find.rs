//! Handles FIND: searches for variables by a pattern and conditions.

use std::borrow::Cow;

use trunkline_engine::Variable;
use trunkline_engine::fields::FieldPattern;
use trunkline_engine::search::Matcher;
use trunkline_proto::limits::FIND_CONDITIONS_MAX;
use trunkline_proto::message::find::{
    FindCondition, FindConditions, FoundVariable, NamesBuilder, NamesHead,
};
use trunkline_proto::{Fault, FaultCode, Features};
use trunkline_types::{Access, Comparison, Condition, DataType, Pattern, StepBudget};

use super::Rejection;
use crate::context::{Context, Progress, Request, SLICE};
use crate::fault::not_agreed;
use crate::gate::Admitted;

/// Maximum number of steps of a search before other sessions run: about 0.2 ms.
pub(crate) const SEARCH_STEPS: usize = 80_000;

#[derive(Debug)]
struct FindRequest {
    request: u32,
    pattern: String,
    conditions: Vec<Matcher>,
    cursor: u32,
    limit: u32,
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Rejection> {
    let frame_conditions = FindConditions::decode(frame)?;
    let find = *frame_conditions.head();
    // Decode one condition more than the limit, to detect that there are too many.
    let requested = frame_conditions
        .take(FIND_CONDITIONS_MAX + 1)
        .collect::<Result<Vec<_>, _>>()?;
    if !requested.is_empty() && !context.features.contains(Features::CONDITIONS) {
        return Err(not_agreed("a condition in FIND", Features::CONDITIONS).into());
    }
    context.queue.push(FindRequest {
        request: frame.request(),
        pattern: find.pattern.to_owned(),
        conditions: conditions(&requested)
            .map_err(|sentence| Fault::new(FaultCode::BadRequest, sentence))?,
        cursor: u32::try_from(find.cursor).unwrap_or(u32::MAX),
        limit: find.limit,
    });
    Ok(())
}

impl Request for FindRequest {
    /// Appends one page of names.
    fn run(&mut self, context: &mut Context) -> Progress {
        let request = self.request;
        let pattern = match Pattern::parse(&self.pattern) {
            Ok(pattern) => pattern,
            Err(error) => {
                let fault = Fault::new(FaultCode::BadPattern, error.to_string());
                context.put_fault(request, &fault);
                return Progress::Done;
            }
        };
        let limit = match self.limit {
            0 => SLICE,
            limit => SLICE.min(limit as usize),
        };
        // Fields are found through their variables, even if they are not open.
        let (pattern, fields) = match FieldPattern::split(&pattern) {
            Some((body, fields)) => (body, Some(fields)),
            None => (pattern, None),
        };
        let limit = variables_of(limit, fields.as_ref());
        let before = context.answers.frames.len();
        let answers = &mut context.answers.frames;
        let mut names = NamesBuilder::begin(answers, request, &NamesHead::default());
        let next = context.engine.queries().search(
            &context.caller,
            &pattern,
            &self.conditions,
            self.cursor,
            limit,
            &mut StepBudget::new(SEARCH_STEPS),
            |variable| {
                for (name, data_type, access) in names_of(variable, fields.as_ref()) {
                    names.push(&FoundVariable {
                        name: &name,
                        data_type,
                        access,
                    });
                }
            },
        );
        let found = names.count();
        names.finish_page(next.map(u64::from));
        if let (0, Some(next)) = (found, next) {
            // This part of the search found no match, so send no page and continue the search.
            context.answers.frames.truncate(before);
            self.cursor = next;
            return Progress::More;
        }
        Progress::Done
    }

    fn bytes(&self) -> usize {
        // A condition stores its text twice.
        let text = |condition: &Matcher| size_of::<Matcher>() + condition.text_bytes();
        self.pattern.len() + self.conditions.iter().map(text).sum::<usize>()
    }
}

/// Converts the conditions of a search. An error is a sentence for the client.
fn conditions(requested: &[FindCondition<'_>]) -> Result<Vec<Matcher>, String> {
    if requested.len() > FIND_CONDITIONS_MAX {
        return Err(format!(
            "a search can have at most {FIND_CONDITIONS_MAX} conditions; remove some of them"
        ));
    }
    let condition = |requested: &FindCondition<'_>| {
        let number = requested.comparison;
        let Some(comparison) = Comparison::from_number(number) else {
            return Err(format!(
                "this engine does not support comparison {number}; update the engine"
            ));
        };
        let condition = Condition::new(requested.field, comparison, requested.value);
        Matcher::new(&condition).map_err(|error| error.to_string())
    };
    requested.iter().map(condition).collect()
}

/// Returns the number of variables whose fields fill a page of `names` names.
pub(super) fn variables_of(names: usize, fields: Option<&FieldPattern>) -> usize {
    names.div_ceil(fields.map_or(1, FieldPattern::common).max(1))
}

/// Returns the names to report for a variable that was found: its own name, or the names of the
/// given fields.
pub(super) fn names_of<'v>(
    variable: &'v Variable,
    fields: Option<&FieldPattern>,
) -> impl Iterator<Item = (Cow<'v, str>, DataType, Access)> {
    let variable_name = fields.is_none().then(|| {
        let properties = variable.properties();
        let name = Cow::Borrowed(variable.name());
        (name, properties.data_type.clone(), properties.access)
    });
    let fields = fields.map_or(Vec::new(), |fields| fields.fields_of(variable));
    let fields = fields.into_iter().map(|field| {
        let name = Cow::Owned(format!("{}#{}", variable.name(), field.name()));
        (name, field.data_type(), Access::ReadOnly)
    });
    variable_name.into_iter().chain(fields)
}
