//! Library requests, which are carried out at most once.
//!
//! Unlike a query, a library request that was sent completely is not repeated on the next
//! connection: its outcome is unknown, and the program gets that as the answer.

use std::sync::Arc;

use trunkline_proto::message::library::{
    DeployBuilder, DeployHead, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::LibraryDefinition;

use crate::answer::Answer;
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::open::wrong_answer;
use crate::outcome::WriteOutcome;
use crate::request::{Request, RequestId, Verb};

impl ClientCore {
    /// Deploys a library, all of it or nothing. With `replace`, the library may already be
    /// deployed; unchanged variables keep their handles. Answered by [`Answer::Library`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn deploy(
        &mut self,
        library: Arc<LibraryDefinition>,
        replace: bool,
    ) -> Result<RequestId, RequestError> {
        let items = library.variables.len().max(1);
        self.check_request(items)?;
        Ok(self.ask(items, Verb::Deploy { library, replace }))
    }

    /// Undeploys, starts or stops a library. Answered by [`Answer::Library`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn order_library(
        &mut self,
        name: &str,
        verb: LibraryVerb,
    ) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        let library = name.to_owned();
        Ok(self.ask(1, Verb::OrderLibrary { verb, library }))
    }

    pub(crate) fn handle_report(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let report = LibraryReport::decode(frame)?;
        let Some((id, request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        if !matches!(
            request.verb,
            Verb::Deploy { .. } | Verb::OrderLibrary { .. }
        ) {
            self.requests.put_back(id, request);
            return Err(wrong_answer("REPORT"));
        }
        self.end_with(id, &request, Answer::Library(report));
        Ok(())
    }

    /// Returns a fault if the engine does not support this request. It would skip the frame and
    /// never answer.
    pub(crate) fn not_understood(&self, request: &Request) -> Option<Fault> {
        let session = self.connection.session()?;
        let (feature, missing) = request.verb.needs()?;
        if session.features.contains(feature) {
            return None;
        }
        let sentence = format!("{} {missing}", session.engine_name);
        Some(Fault::new(FaultCode::NotSupported, sentence))
    }
}

impl Request {
    /// Returns the fault for a request that changes the engine and whose connection was lost, or
    /// `None` if the request can be sent again.
    pub(crate) fn unknown_outcome(&self) -> Option<Fault> {
        let is_with_the_engine = self.wire.is_some() && self.sent >= self.total;
        let is_unknown = self.verb.is_order() && is_with_the_engine;
        is_unknown.then(|| self.unknown_because("the connection was lost"))
    }

    /// Returns the answer to a request that was sent and whose call ends before the engine's
    /// answer; `None` if the request changes nothing.
    pub(crate) fn unknown_answer(&self) -> Option<Answer> {
        let fault = self.unknown_because("the call ended");
        match &self.verb {
            Verb::Group(group) => Some(Answer::Group(group.ended(WriteOutcome::Unknown(fault)))),
            Verb::Lease { page, .. } => {
                let granted = page.variables.iter();
                Some(Answer::Leases(
                    granted.map(|_| Err(fault.clone())).collect(),
                ))
            }
            verb if verb.is_order() => Some(Answer::Refused(fault)),
            _ => None,
        }
    }

    fn unknown_because(&self, why: &str) -> Fault {
        let look = match self.verb {
            Verb::Group(_) => "read one of its variables",
            Verb::Forcing { .. } => "look with `trunkline force --list`",
            Verb::Lease { .. } => "ask for the lease again, or give it back",
            _ => "look with `trunkline ls`",
        };
        let sentence = format!(
            "{why} before the engine answered, so it may have been carried out or not; {look}"
        );
        Fault::new(FaultCode::TimedOut, sentence)
    }
}

/// Appends the next DEPLOY frame, of about `page` bytes.
pub(crate) fn send_deploy(
    library: &LibraryDefinition,
    replace: bool,
    number: u32,
    sent: &mut u32,
    page: usize,
    out: &mut Vec<u8>,
) {
    let head = DeployHead {
        library: &library.name,
        description: &library.description,
        replace,
    };
    let mut frame = DeployBuilder::begin(out, number, &head);
    for variable in library.variables.get(*sent as usize..).unwrap_or_default() {
        if frame.len_bytes() >= page {
            break;
        }
        frame.push(variable);
        *sent += 1;
    }
    frame.finish((*sent as usize) < library.variables.len());
}

/// Appends an ORDER frame.
pub(crate) fn send_order(verb: LibraryVerb, library: &str, number: u32, out: &mut Vec<u8>) {
    LibraryOrder { verb, library }.encode(number, out);
}
