//! Runs the provider's thread, which scans the device and carries out orders of the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use trunkline_client::request::Deploy;
use trunkline_client::{ProviderEvent, ProviderReply, Publication, RequestId};
use trunkline_io::{IoServer, ItemId};
use trunkline_proto::message::library::LibraryReport;
use trunkline_types::{DataType, FaultCode, LibraryDefinition, Quality, Reason, Value};

use super::raw::{applied, bad, converted};
use super::{ProviderOptions, State};
use crate::client::CallError;
use crate::client::verbs::Shared;
use crate::device::{Device, PANICKED, PANICKED_IN_ORDER};

/// The reason why the thread woke up before a task was due.
enum WakeReason {
    Stop,
    Event(ProviderEvent),
    Deployed(Result<LibraryReport, CallError>),
}

const STANDBY: &str = "an I/O server with this name is already running; this one is a standby, \
                       and takes over when the other one ends";

pub(super) struct Runner {
    shared: Arc<Shared>,
    state: Arc<State>,
    /// Libraries that the I/O server offers. Each new connection deploys them.
    libraries: Vec<Arc<LibraryDefinition>>,
    /// Deployments without an answer so far.
    pending_deployments: Vec<RequestId<Deploy>>,
    device: Device,
    /// Types of the bound variables, by handle.
    types: HashMap<u32, DataType>,
    /// Variables whose item the device does not have, each with the name of the item.
    missing: BTreeMap<u32, String>,
    /// The order that the device is carrying out.
    answering: Option<u64>,
    /// Items to request as soon as the device is open: newly bound items, and all items after a
    /// failure.
    items_to_request: BTreeSet<ItemId>,
}

impl Runner {
    pub(super) fn new(
        shared: Arc<Shared>,
        state: Arc<State>,
        options: &ProviderOptions,
        server: Box<dyn IoServer>,
    ) -> Self {
        let libraries = match options.publish {
            true => server.libraries(&options.name),
            false => Vec::new(),
        };
        let now = shared.clock.now();
        Self {
            libraries: libraries.into_iter().map(Arc::new).collect(),
            pending_deployments: Vec::new(),
            device: Device::new(server, options.period, now),
            types: HashMap::new(),
            missing: BTreeMap::new(),
            answering: None,
            items_to_request: BTreeSet::new(),
            shared,
            state,
        }
    }

    pub(super) fn run(mut self) {
        while !self.state.is_stopping() && !self.shared.link.is_closed() {
            let reason = self.wait();
            let step = AssertUnwindSafe(|| {
                match reason {
                    Some(WakeReason::Stop) => return,
                    Some(WakeReason::Event(event)) => self.handle_event(event),
                    Some(WakeReason::Deployed(result)) => self.handle_deployed(result),
                    None => {}
                }
                // Scans that are due run between orders, so that many orders do not delay scans.
                self.run_due_tasks();
            });
            if catch_unwind(step).is_err() {
                if let Some(ticket) = self.answering.take() {
                    self.answer(ticket, ProviderReply::Unknown(PANICKED_IN_ORDER.to_owned()));
                }
                self.device.fail(self.shared.clock.now());
                self.report_failure(PANICKED.to_owned(), Reason::DeviceFailure);
            }
        }
        // Releases callers that wait for a change of the status, because it changes no more.
        self.state.stop();
        // Closes the connection, because another provider cannot deliver the variables while it is
        // open.
        self.shared.close();
    }

    /// Waits for an order, or until the next task is due.
    fn wait(&mut self) -> Option<WakeReason> {
        let due = match self.device.is_open() && !self.items_to_request.is_empty() {
            true => self.shared.clock.now(),
            false => self.device.next_due(),
        };
        let (variables, missing) = (self.types.len(), self.missing.len());
        let missing_item = self.missing.values().next().map(String::as_str);
        let (shared, state, pending) = (&self.shared, &self.state, &mut self.pending_deployments);
        shared.link.wait_until(Some(due), |core, _| {
            if state.is_stopping() {
                return Some(WakeReason::Stop);
            }
            for (index, deployment) in pending.iter().enumerate() {
                if let Some(result) = shared.check(core, deployment) {
                    pending.swap_remove(index);
                    return Some(WakeReason::Deployed(result));
                }
            }
            let event = core.take_provider_event();
            if event.is_none() {
                // Reports the counts once after all orders that arrived together.
                state.count_variables(variables, missing, missing_item);
            }
            event.map(WakeReason::Event)
        })
    }

    fn handle_event(&mut self, event: ProviderEvent) {
        match event {
            ProviderEvent::Provided => {
                self.state.change(|status| {
                    (status.is_provided, status.engine_error) = (true, None);
                });
                self.deploy();
            }
            ProviderEvent::Refused(fault) => {
                let error = Some(match fault.code {
                    FaultCode::NameTaken => STANDBY.to_owned(),
                    _ => fault.sentence,
                });
                self.state.change(|status| status.engine_error = error);
            }
            ProviderEvent::Disconnected => {
                self.device.unbind_all();
                self.types.clear();
                self.missing.clear();
                self.items_to_request.clear();
                let error = "not connected to the engine; retrying";
                self.state.change(|status| {
                    (status.is_provided, status.variables) = (false, 0);
                    (status.missing, status.missing_item) = (0, None);
                    status.engine_error = Some(error.to_owned());
                });
            }
            ProviderEvent::Bind {
                handle,
                data_type,
                item,
                ..
            } => self.bind(handle, data_type, &item),
            ProviderEvent::Unbind { handle } => self.unbind(handle),
            ProviderEvent::Write {
                ticket,
                handle,
                value,
            } => {
                self.answering = Some(ticket);
                let reply = self.write(handle, &value);
                self.answering = None;
                self.answer(ticket, reply);
            }
            ProviderEvent::Read { ticket, handle } => {
                self.answering = Some(ticket);
                let reply = self.read(handle);
                self.answering = None;
                self.answer(ticket, reply);
            }
        }
    }

    /// Deploys the libraries that the I/O server offers. While it does so, the engine binds their
    /// variables.
    fn deploy(&mut self) {
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

    fn unbind(&mut self, handle: u32) {
        self.device.unbind(handle);
        self.types.remove(&handle);
        self.missing.remove(&handle);
    }

    fn bind(&mut self, handle: u32, data_type: DataType, name: &str) {
        self.unbind(handle);
        match self.device.bind(handle, name) {
            Some(item) => {
                self.types.insert(handle, data_type);
                self.items_to_request.insert(item);
                if !self.device.is_open() {
                    self.publish(vec![bad(handle, Reason::NotConnected)]);
                }
            }
            None => {
                self.missing.insert(handle, name.to_owned());
                self.publish(vec![bad(handle, Reason::VariableMissing)]);
            }
        }
    }

    fn write(&mut self, handle: u32, value: &Value) -> ProviderReply {
        let (now, wall) = self.shared.clock.moment();
        let Some(data_type) = self.types.get(&handle) else {
            return self.no_item(handle);
        };
        match self.device.send(handle, value, now, wall) {
            Ok(read_back) => applied(&read_back, data_type, Quality::GOOD, None),
            Err(sentence) => ProviderReply::Refused(sentence),
        }
    }

    fn read(&mut self, handle: u32) -> ProviderReply {
        let (now, wall) = self.shared.clock.moment();
        let Some(data_type) = self.types.get(&handle) else {
            return self.no_item(handle);
        };
        let reply = match self.device.read(handle, now, wall) {
            Ok((value, quality, at)) => applied(&value, data_type, quality, at),
            Err(sentence) => return ProviderReply::Refused(sentence),
        };
        self.publish_scan(Some(handle));
        reply
    }

    /// Returns the refusal of an order for a variable that the device cannot deliver.
    fn no_item(&self, handle: u32) -> ProviderReply {
        ProviderReply::Refused(match self.missing.get(&handle) {
            Some(item) => format!("it has no item {item}; correct the variable's `source`"),
            None => "the engine has not bound this variable to it".to_owned(),
        })
    }

    fn answer(&self, ticket: u64, reply: ProviderReply) {
        let link = &self.shared.link;
        link.with(|core, _, _| core.answer_provider(ticket, reply));
    }

    fn run_due_tasks(&mut self) {
        let (now, wall) = self.shared.clock.moment();
        match self.device.open_if_due(now, wall) {
            None => {}
            Some(Ok(())) => self.state.change(|status| status.device_error = None),
            Some(Err(error)) => self.report_failure(error.to_string(), error.reason()),
        }
        if self.device.is_open() {
            for item in std::mem::take(&mut self.items_to_request) {
                self.device.request(item, now, wall);
                self.publish_scan(None);
            }
        }
        if let Some(scanned) = self.device.scan_if_due(now, wall) {
            self.publish_scan(None);
            if let Err(error) = scanned {
                self.report_failure(error.to_string(), error.reason());
            }
        }
    }

    /// Reports a failure of the device. Its variables are bad until the device works again.
    fn report_failure(&mut self, sentence: String, reason: Reason) {
        self.state
            .change(|status| status.device_error = Some(sentence));
        self.items_to_request = self.device.bound().map(|(_, item)| item).collect();
        let handles = self.types.keys();
        self.publish(handles.map(|handle| bad(*handle, reason)).collect());
    }

    /// Sends the scanned values to all variables of their items, except `except`, which already has
    /// its value.
    fn publish_scan(&mut self, except: Option<u32>) {
        let (types, mut publications) = (&self.types, Vec::new());
        self.device.publish(except, |handle, published| {
            let Some(data_type) = types.get(&handle) else {
                return;
            };
            let value = published.value.as_ref();
            publications.push(match value.map(|value| converted(value, data_type)) {
                Some(None) => bad(handle, Reason::OutOfRange),
                value => Publication {
                    handle,
                    value: value.flatten(),
                    quality: published.quality,
                    source_timestamp: published.source_timestamp,
                },
            });
        });
        self.publish(publications);
    }

    fn publish(&self, publications: Vec<Publication>) {
        if publications.is_empty() {
            return;
        }
        self.shared.link.with(|core, _, _| {
            for publication in publications {
                core.publish(publication);
            }
        });
    }
}
