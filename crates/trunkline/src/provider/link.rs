//! The connection of a provider: events of the engine, deployment, publications, and the status.

use std::sync::Arc;

use trunkline_client::request::Deploy;
use trunkline_client::{ProviderEvent, ProviderReply, Publication, RequestId};
use trunkline_proto::Fault;
use trunkline_proto::message::library::LibraryReport;
use trunkline_types::{FaultCode, LibraryDefinition, Tick, Timestamp};

use super::State;
use crate::client::CallError;
use crate::client::verbs::Shared;

/// The reason why the provider's thread woke up before a task was due.
pub(super) enum WakeReason {
    Stop,
    Event(ProviderEvent),
}

/// Number of variables that a provider delivers, and of those whose item it does not have.
pub(super) struct Counts<'a> {
    pub(super) variables: usize,
    pub(super) missing: usize,
    /// Name of one of the missing items.
    pub(super) missing_item: Option<&'a str>,
}

const STANDBY: &str = "an I/O server with this name is already running; this one is a standby, \
                       and takes over when the other one ends";

pub(super) struct ProviderLink {
    shared: Arc<Shared>,
    pub(super) state: Arc<State>,
    /// Libraries that the I/O server offers. Each new connection deploys them.
    libraries: Vec<Arc<LibraryDefinition>>,
    /// Deployments without an answer so far.
    pending_deployments: Vec<RequestId<Deploy>>,
}

impl ProviderLink {
    pub(super) fn new(
        shared: Arc<Shared>,
        state: Arc<State>,
        libraries: Vec<LibraryDefinition>,
    ) -> Self {
        Self {
            shared,
            state,
            libraries: libraries.into_iter().map(Arc::new).collect(),
            pending_deployments: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    pub(super) fn moment(&self) -> (Tick, Timestamp) {
        self.shared.clock.moment()
    }

    pub(super) fn is_running(&self) -> bool {
        !self.state.is_stopping() && !self.shared.link.is_closed()
    }

    /// Waits for an event of the engine, or until `due`.
    pub(super) fn wait(&mut self, due: Option<Tick>, counts: &Counts<'_>) -> Option<WakeReason> {
        loop {
            let (shared, state) = (&self.shared, &self.state);
            let pending = &mut self.pending_deployments;
            let woken = shared.link.wait_until(due, |core, _| {
                if state.is_stopping() {
                    return Some(Ok(WakeReason::Stop));
                }
                for (index, deployment) in pending.iter().enumerate() {
                    if let Some(result) = shared.check(core, deployment) {
                        pending.swap_remove(index);
                        return Some(Err(result));
                    }
                }
                let event = core.take_provider_event();
                if event.is_none() {
                    // Reports the counts once after all orders that arrived together.
                    state.count_variables(counts.variables, counts.missing, counts.missing_item);
                }
                event.map(|event| Ok(WakeReason::Event(event)))
            });
            match woken {
                Some(Err(deployed)) => self.handle_deployed(deployed),
                Some(Ok(reason)) => return Some(reason),
                None => return None,
            }
        }
    }

    /// The engine uses this provider. Deploys the libraries that the I/O server offers; while it does
    /// so, the engine binds their variables.
    pub(super) fn handle_provided(&mut self) {
        self.state.change(|status| {
            (status.is_provided, status.engine_error) = (true, None);
        });
        for library in &self.libraries {
            let library = Arc::clone(library);
            match self.shared.begin(|core, _| core.deploy(library, true)) {
                Ok(pending) => self.pending_deployments.push(pending),
                Err(error) => {
                    let error = Some(error.to_string());
                    self.state.change(|status| status.engine_error = error);
                }
            }
        }
    }

    fn handle_deployed(&self, result: Result<LibraryReport, CallError>) {
        // After a lost connection, the provider deploys again on the next connection.
        if let Err(error @ CallError::Fault(_)) = result {
            let error = Some(format!("its variables are not deployed: {error}"));
            self.state.change(|status| {
                if status.is_provided {
                    status.engine_error = error;
                }
            });
        }
    }

    pub(super) fn handle_refused(&self, fault: Fault) {
        let error = Some(match fault.code {
            FaultCode::NameTaken => STANDBY.to_owned(),
            _ => fault.sentence,
        });
        self.state.change(|status| status.engine_error = error);
    }

    pub(super) fn handle_disconnected(&self) {
        let error = "not connected to the engine; retrying";
        self.state.change(|status| {
            (status.is_provided, status.variables) = (false, 0);
            (status.missing, status.missing_item) = (0, None);
            status.engine_error = Some(error.to_owned());
        });
    }

    pub(super) fn publish(&self, publications: Vec<Publication>) {
        publish(&self.shared, publications);
    }

    pub(super) fn answer(&self, ticket: u64, reply: ProviderReply) {
        answer(&self.shared, ticket, reply);
    }

    pub(super) fn close(&self) {
        // Releases callers that wait for a change of the status, because it changes no more.
        self.state.stop();
        // Closes the connection, because another provider cannot deliver the variables while it is
        // open.
        self.shared.close();
    }
}

/// Sends publications to the engine.
pub(super) fn publish(shared: &Shared, publications: Vec<Publication>) {
    if publications.is_empty() {
        return;
    }
    shared.link.with(|core, _, _| {
        for publication in publications {
            core.publish(publication);
        }
    });
}

/// Answers an order of the engine.
pub(super) fn answer(shared: &Shared, ticket: u64, reply: ProviderReply) {
    shared
        .link
        .with(|core, _, _| core.answer_provider(ticket, reply));
}
