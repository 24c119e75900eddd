//! Opening and closing by name.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::open::{Opened as OpenedFrame, OpenedVariable};
use trunkline_proto::message::results::Results;
use trunkline_proto::{Disconnect, Fault, FaultCode, FaultRef, Frame};
use trunkline_types::name::NAME_BYTES_MAX;
use trunkline_types::{Access, Tick};

use crate::answer::{Answer, Opened, Page};
use crate::browse::answer_run;
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::options::{Need, OpenOptions};
use crate::request::{Request, RequestId, Verb, malformed};
use crate::variable::VariableRef;
use crate::wire::Next;

impl ClientCore {
    /// Opens variables by their full names, in one request. Answered by [`Answer::Opened`].
    ///
    /// An open variable stays open across reconnects, until it is closed as often as it was opened.
    /// Opening happens in the background: wait for the answer to verify the names, or continue
    /// meanwhile.
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn open<N: AsRef<str>>(
        &mut self,
        names: &[N],
        options: OpenOptions,
    ) -> Result<RequestId, RequestError> {
        self.check_request(names.len())?;
        self.variables.reserve(names.len());
        self.variables.reserve_handles(names.len());
        let variables = names
            .iter()
            .map(|name| self.variables.acquire(name.as_ref()))
            .collect();
        Ok(self.ask(
            names.len(),
            Verb::Open {
                page: Page::new(variables),
                options,
            },
        ))
    }

    /// Closes variables, once each. Answered by [`Answer::Closed`]. Subscriptions continue, because
    /// they hold their own openings.
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn close(&mut self, variables: &[VariableRef]) -> Result<RequestId, RequestError> {
        self.check_request(variables.len())?;
        let mut page = Page::new(variables.to_vec());
        let mut handles = Vec::new();
        for (variable, item) in variables.iter().zip(0..) {
            let result = self.variables.close_opening(*variable);
            page.set(item, result.map(|handle| handles.extend(handle)));
        }
        let nothing_to_send = handles.is_empty();
        let id = self.ask(variables.len(), Verb::Close { handles, page });
        if nothing_to_send && let Some(request) = self.requests.take_out(id.0) {
            self.end_request(id.0, request, None);
        }
        Ok(id)
    }

    /// Closes variables that the program never received, without an answer.
    pub(crate) fn close_quietly(&mut self, variables: &[VariableRef]) {
        let closed = variables
            .iter()
            .filter_map(|v| self.variables.close_opening(*v).ok());
        let handles: Vec<u32> = closed.flatten().collect();
        if !handles.is_empty() && self.connection.is_open() {
            self.requests.push(Verb::Close {
                handles,
                page: Page::new(Vec::new()),
            });
        }
    }

    /// Checks the length of a name before it is sent. Returns 0 in place of a handle, because an
    /// opening sends the name instead.
    pub(crate) fn check_name(&self, variable: VariableRef) -> Result<u32, Fault> {
        let name = self
            .variables
            .get(variable)
            .map_or("", |variable| &*variable.name);
        if name.len() <= NAME_BYTES_MAX {
            return Ok(0);
        }
        let sentence = format!(
            "the name has {} bytes; {NAME_BYTES_MAX} is the limit",
            name.len()
        );
        Err(Fault::new(FaultCode::BadName, sentence))
    }

    pub(crate) fn handle_opened(&mut self, now: Tick, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let opened = OpenedFrame::decode(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = self.take_opened(now, &mut request, opened);
        self.settle_if(taken, id, request, frame)
    }

    fn take_opened(
        &mut self,
        now: Tick,
        request: &mut Request,
        opened: OpenedFrame<'_>,
    ) -> Result<(), Disconnect> {
        let mut index = opened.first_index();
        for item in opened {
            let item = item?;
            let place = request.answer_item(index)?;
            index = index.saturating_add(1);
            match &mut request.verb {
                Verb::Open { page, options } => {
                    let Some(item_index) = page.asked(place) else {
                        continue;
                    };
                    let Some(variable) = page.variable(item_index) else {
                        continue;
                    };
                    let result = self.note_opened(now, variable, item)?;
                    page.set(
                        item_index,
                        result.and_then(|opened| check_needs(opened, *options)),
                    );
                }
                Verb::Restore { page } => {
                    let Some(item_index) = page.asked(place) else {
                        continue;
                    };
                    let Some(variable) = page.variable(item_index) else {
                        continue;
                    };
                    let result = self.note_opened(now, variable, item)?;
                    page.set(item_index, result.map(|_| ()));
                }
                Verb::OpenItems { wire, items } => {
                    let (wire, item_index) = (*wire, items.get(place as usize).copied());
                    let found = item_index.and_then(|index| {
                        Some((index, self.wires.item_mut(wire, index)?.variable))
                    });
                    let Some((item_index, variable)) = found else {
                        continue;
                    };
                    let result = self.note_opened(now, variable, item)?;
                    self.item_opened(wire, item_index, Next::First, result.map(|_| ()));
                }
                _ => return Err(wrong_answer("OPENED")),
            }
        }
        Ok(())
    }

    /// Records the engine's answer for one name.
    fn note_opened(
        &mut self,
        now: Tick,
        variable: VariableRef,
        answer: Result<OpenedVariable<'_>, FaultRef<'_>>,
    ) -> Result<Result<Opened, Fault>, Disconnect> {
        let opened = match answer {
            Ok(opened) => opened,
            Err(fault) => {
                let fault = fault.to_fault();
                self.variables.refused(variable, &fault);
                return Ok(Err(fault));
            }
        };
        let OpenedVariable {
            handle,
            data_type,
            access,
            reading,
            properties,
        } = opened;
        self.variables.opened(variable, handle, &data_type, access);
        if let Some(properties) = &properties {
            self.note_max_age(variable, properties.max_age);
        }
        let reading = match reading.filter(|_| access != Access::WriteOnly) {
            Some(record) => {
                let known = self.variables.get(variable);
                let arrival = self.connection.arrival(now)?;
                let max_age = known.and_then(|v| v.max_age);
                let entry = arrival.entry(&record, &data_type, max_age)?;
                Some(entry.into_reading(arrival.epoch))
            }
            None => None,
        };
        let properties = properties.map(Arc::new);
        Ok(Ok(Opened {
            variable,
            data_type,
            access,
            reading,
            properties,
        }))
    }

    /// Applies the maximum age from newly received properties to the variable's items.
    fn note_max_age(&mut self, variable: VariableRef, max_age: Option<Duration>) {
        let Some(known) = self.variables.get_mut(variable) else {
            return;
        };
        known.max_age = max_age;
        for (wire, item) in known.items.iter() {
            if let Some(item) = self.wires.item_mut(*wire, *item) {
                item.max_age = max_age;
            }
        }
    }

    /// Ends an opening. Successful openings are kept if the program wants the answer, and closed
    /// otherwise.
    pub(crate) fn finish_opening(
        &mut self,
        page: Page<Opened>,
        missing: &Fault,
        wanted: bool,
    ) -> Vec<Result<Opened, Fault>> {
        let variables = page.variables.clone();
        let results = page.finish(missing);
        let mut unwanted = Vec::new();
        for (variable, result) in variables.iter().zip(&results) {
            if result.is_err() {
                self.variables.release(*variable);
                continue;
            }
            self.variables.count_opening(*variable);
            if !wanted {
                unwanted.push(*variable);
            }
        }
        self.close_quietly(&unwanted);
        results
    }

    pub(crate) fn handle_closed(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let results = Results::decode(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = take_closed(&mut request, results);
        self.settle_if(taken, id, request, frame)
    }
}

/// Processes CLOSED. Closing cannot fail: a handle that the engine does not know counts as closed.
fn take_closed(request: &mut Request, results: Results<'_>) -> Result<(), Disconnect> {
    if !matches!(request.verb, Verb::Close { .. } | Verb::Unsubscribe { .. }) {
        return Err(wrong_answer("CLOSED"));
    }
    let (first, count) = (results.first_index(), results.answered());
    for exception in results {
        exception?;
    }
    answer_run(request, first, count)?;
    Ok(())
}

/// The error for a frame that answers a request of another kind.
pub(crate) fn wrong_answer(kind: &str) -> Disconnect {
    malformed(format!(
        "{kind} answers a request that asked for something else"
    ))
}

/// Checks that the variable permits the access that the program requires.
fn check_needs(opened: Opened, options: OpenOptions) -> Result<Opened, Fault> {
    let fault = |code: FaultCode| Err(Fault::from(code));
    match opened.access {
        Access::ReadOnly if options.writing == Need::Required => fault(FaultCode::NotWritable),
        Access::WriteOnly if options.reading == Need::Required => fault(FaultCode::NotReadable),
        _ => Ok(Opened {
            access: wanted_access(opened.access, options)?,
            ..opened
        }),
    }
}

/// Returns the part of the variable's access that this opening uses.
fn wanted_access(access: Access, options: OpenOptions) -> Result<Access, Fault> {
    let reads = access != Access::WriteOnly && options.reading != Need::None;
    let writes = access != Access::ReadOnly && options.writing != Need::None;
    match (reads, writes) {
        (true, true) => Ok(Access::ReadWrite),
        (true, false) => Ok(Access::ReadOnly),
        (false, true) => Ok(Access::WriteOnly),
        (false, false) => {
            let sentence = "neither of the accesses that this opening asks for is there";
            Err(Fault::new(FaultCode::Denied, sentence))
        }
    }
}

impl Answer {
    /// Returns the opened variables, if this answers an opening.
    ///
    /// # Errors
    /// The fault of the whole request, or `bad request` if this answers another kind of request.
    pub fn into_opened(self) -> Result<Vec<Result<Opened, Fault>>, Fault> {
        match self {
            Answer::Opened(results) => Ok(results),
            Answer::Refused(fault) => Err(fault),
            _ => Err(FaultCode::BadRequest.into()),
        }
    }
}
