//! Finds, describes and explains variables, and describes the engine.

use std::borrow::Cow;

use trunkline_engine::Variable;
use trunkline_engine::field::Field;
use trunkline_engine::search::Matcher;
use trunkline_proto::limits::{
    ENGINE_LIBRARIES_MAX, FIND_CONDITIONS_MAX, INFO_READERS_MAX, INFO_SUBSCRIPTIONS_MAX, PAGE_BYTES,
};
use trunkline_proto::message::engine::{EngineInfo, LibraryInfo};
use trunkline_proto::message::find::{
    FindCondition, FindConditions, FoundVariable, NamesBuilder, NamesHead,
};
use trunkline_proto::message::info::{
    InfoAnswerBuilder, ReaderInfo, SubscriptionInfo, VariableInfo,
};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::message::single::decode_empty;
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::message::why::Why;
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, Frame, FrameKind};
use trunkline_types::name::is_reserved;
use trunkline_types::{
    Access, AuditMode, Comparison, Condition, DataType, Effort, Pattern, Tick, Timestamp,
};

use crate::fault::not_agreed;
use crate::forcing::entry;
use crate::session::Session;
use crate::work::{Page, Progress, SLICE, Work};

/// Steps of a search before other sessions get their turn, independent of its matches: about 0.2
/// ms.
pub(crate) const SEARCH_STEPS: usize = 80_000;

impl Session {
    pub(crate) fn handle_browse(
        &mut self,
        frame: &Frame<'_>,
        kind: FrameKind,
    ) -> Result<(), Disconnect> {
        let request = frame.request();
        let work = match kind {
            FrameKind::Find => {
                let asked = FindConditions::decode(frame)?;
                let find = *asked.head();
                let cursor = u32::try_from(find.cursor).unwrap_or(u32::MAX);
                // One more than the limit shows that there are too many.
                let asked = asked.take(FIND_CONDITIONS_MAX + 1);
                let asked = asked.collect::<Result<Vec<_>, _>>()?;
                if !asked.is_empty() && !self.features.contains(Features::CONDITIONS) {
                    let fault = not_agreed("a condition in FIND", Features::CONDITIONS);
                    self.put_fault(request, &fault);
                    return Ok(());
                }
                let conditions = match conditions(&asked) {
                    Ok(conditions) => conditions,
                    Err(sentence) => {
                        self.put_fault(request, &Fault::new(FaultCode::BadRequest, sentence));
                        return Ok(());
                    }
                };
                Work::Find {
                    request,
                    pattern: find.pattern.to_owned(),
                    conditions,
                    cursor,
                    limit: find.limit,
                }
            }
            FrameKind::Why => {
                let why = Why::decode(frame)?;
                if self.parked_until.is_some() {
                    // Behind the parked write, the answer would come too late to explain it.
                    self.run_why(request, why.name, self.last_seen.1);
                    return Ok(());
                }
                Work::Why {
                    request,
                    name: why.name.to_owned(),
                }
            }
            _ => {
                decode_empty(frame)?;
                Work::Engine { request }
            }
        };
        self.work.push(work);
        Ok(())
    }

    /// Appends one page of names.
    pub(crate) fn run_find(
        &mut self,
        request: u32,
        pattern: &str,
        conditions: &[Matcher],
        cursor: &mut u32,
        limit: u32,
    ) -> Progress {
        let pattern = match Pattern::parse(pattern) {
            Ok(pattern) => pattern,
            Err(error) => {
                let fault = Fault::new(FaultCode::BadPattern, error.to_string());
                self.put_fault(request, &fault);
                return Progress::Done;
            }
        };
        let limit = match limit {
            0 => SLICE,
            limit => SLICE.min(limit as usize),
        };
        // Fields are found through their variables, whether they are open or not.
        let (pattern, fields) = match Field::asked_by(&pattern) {
            Some((body, fields)) => (body, Some(fields)),
            None => (pattern, None),
        };
        let limit = variables_of(limit, fields.as_deref());
        let mut answers = std::mem::take(&mut self.answers.frames);
        let before = answers.len();
        let mut names = NamesBuilder::begin(&mut answers, request, &NamesHead::default());
        let next = self.engine.search(
            &self.caller,
            &pattern,
            conditions,
            *cursor,
            limit,
            &mut Effort::new(SEARCH_STEPS),
            |variable| {
                for (name, data_type, access) in names_of(variable, fields.as_deref()) {
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
            // No match in this stretch: sends no page, and the search continues.
            answers.truncate(before);
            *cursor = next;
            self.answers.frames = answers;
            return Progress::More;
        }
        self.answers.frames = answers;
        Progress::Done
    }

    pub(crate) fn run_engine(&mut self, request: u32, now: Tick, wall: Timestamp) -> Progress {
        let uptime = now.since(self.options.started);
        let libraries = self.engine.libraries();
        let facts = self.options.facts.as_ref();
        let info = EngineInfo {
            name: self.engine.name().to_owned(),
            version: self.options.version.clone(),
            epoch: self.engine.epoch(),
            uptime,
            pid: self.options.pid,
            variables: self.engine.variable_count() as u64,
            sessions: facts.map_or(1, |facts| facts.sessions()),
            host: facts.map_or_else(String::new, |facts| facts.host()),
            started: wall
                .saturating_add_nanos(-i64::try_from(uptime.as_nanos()).unwrap_or(i64::MAX)),
            libraries: libraries
                .into_iter()
                .filter(|library| !is_reserved(&library.name))
                .take(ENGINE_LIBRARIES_MAX)
                .map(|library| LibraryInfo {
                    name: library.name,
                    state: library.state.name().to_owned(),
                    variables: library.handles.len() as u64,
                    description: library.description,
                })
                .collect(),
        };
        info.encode(request, &mut self.answers.frames);
        Progress::Done
    }

    /// Appends everything known about the next handles.
    pub(crate) fn info(&mut self, page: &mut Page, handles: &[u32]) {
        let head = AnswerHead {
            first_index: page.first_index(),
        };
        let mut answers = std::mem::take(&mut self.answers.frames);
        let mut frame = InfoAnswerBuilder::begin(&mut answers, page.request, &head);
        for handle in page.slice(handles) {
            page.next += 1;
            match self.engine.visible(&self.caller, *handle) {
                None => {
                    let error = self.engine.no_variable(*handle);
                    frame.push(&Err(Fault::from(&error).as_ref()));
                }
                Some(variable) => frame.push(&Ok(self.describe(&variable))),
            }
            if frame.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        frame.finish(page.has_more(handles.len()));
        self.answers.frames = answers;
    }

    fn describe(&self, variable: &Variable) -> VariableInfo {
        let update = variable.update();
        let handle = variable.handle();
        let subscriptions = self.consumer.subscriptions_of(handle);
        let subscriptions = subscriptions
            .into_iter()
            .take(INFO_SUBSCRIPTIONS_MAX)
            .filter_map(|(subscription, contract)| {
                let ledger = self.consumer.ledger(subscription, handle)?;
                let flags = self.flags_of(subscription);
                Some(SubscriptionInfo {
                    terms: SubscribeTerms {
                        subscription,
                        contract,
                        flags,
                    },
                    ledger,
                })
            })
            .collect();
        let held = self.engine.held_by(variable, self.last_seen.0);
        let held = held.as_ref();
        VariableInfo {
            name: variable.name().to_owned(),
            properties: (**variable.properties()).clone(),
            sequence: update.sequence,
            engine_timestamp: update.engine_timestamp,
            upstream: variable.ledger(),
            subscribers: variable.subscribers() as u64,
            last_writer: self.engine.last_writer(variable, &self.caller),
            source_state: self.engine.source_state(variable),
            held_by: held.map_or_else(String::new, |held| held.who.to_string()),
            lease_left: held.and_then(|held| held.left).unwrap_or_default(),
            writers_waiting: held.map_or(0, |held| held.waiting as u64),
            audit: match variable.properties().audit != AuditMode::Off {
                true => self.engine.audit_keeping().sentence.to_string(),
                false => String::new(),
            },
            subscriptions,
            readers: variable
                .readers(INFO_READERS_MAX)
                .into_iter()
                .map(|reader| ReaderInfo {
                    session: reader.whose.session,
                    from: reader.whose.from,
                    transport: reader.whose.transport.to_owned(),
                    repaired: reader.repaired,
                })
                .collect(),
            forced: self
                .engine
                .forced_of(variable)
                .map(|forced| entry(variable, forced)),
        }
    }
}

/// Checks the conditions of a search.
///
/// # Errors
/// A sentence for the client.
fn conditions(asked: &[FindCondition<'_>]) -> Result<Vec<Matcher>, String> {
    if asked.len() > FIND_CONDITIONS_MAX {
        return Err(format!(
            "a search has at most {FIND_CONDITIONS_MAX} conditions"
        ));
    }
    let condition = |asked: &FindCondition<'_>| {
        let number = asked.comparison;
        let Some(comparison) = Comparison::from_number(number) else {
            return Err(format!(
                "this engine knows no comparison {number}; update it"
            ));
        };
        let condition = Condition::new(asked.field, comparison, asked.value);
        Matcher::new(&condition).map_err(|error| error.to_string())
    };
    asked.iter().map(condition).collect()
}

/// Returns the number of variables for a page of `names` names, if each variable has these fields.
pub(crate) fn variables_of(names: usize, fields: Option<&[&'static Field]>) -> usize {
    names.div_ceil(fields.map_or(1, <[_]>::len).max(1))
}

/// Returns the names to report for a variable that was found: its own, or those of the given
/// fields.
pub(crate) fn names_of<'v>(
    variable: &'v Variable,
    fields: Option<&'v [&'static Field]>,
) -> impl Iterator<Item = (Cow<'v, str>, DataType, Access)> {
    let itself = fields.is_none().then(|| {
        let properties = variable.properties();
        let name = Cow::Borrowed(variable.name());
        (name, properties.data_type.clone(), properties.access)
    });
    let fields = fields.unwrap_or_default().iter().map(|field| {
        let name = Cow::Owned(format!("{}#{}", variable.name(), field.name));
        (name, field.data_type(), Access::ReadOnly)
    });
    itself.into_iter().chain(fields)
}
