//! The provider's thread, which scans the device and carries out orders of the engine.

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

enum Woken {
    Stop,
    Event(ProviderEvent),
    Deployed(Result<LibraryReport, CallError>),
}

const STANDBY: &str = "an I/O server of this name is already running; this one is a standby, and takes \
                       over when that one ends";

pub(super) struct Runner {
    shared: Arc<Shared>,
    state: Arc<State>,
    /// Libraries that the I/O server offers; deployed on every connection.
    libraries: Vec<Arc<LibraryDefinition>>,
    /// Deployments that have no answer yet.
    deploying: Vec<RequestId<Deploy>>,
    device: Device,
    types: HashMap<u32, DataType>,
    /// Variables that the device cannot deliver, with the names of the missing items.
    missing: BTreeMap<u32, String>,
    /// The order that the device is carrying out.
    answering: Option<u64>,
    /// Items to request once the device is open: newly bound ones, and all after a failure.
    fresh: BTreeSet<ItemId>,
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
            deploying: Vec::new(),
            device: Device::new(server, options.period, now),
            types: HashMap::new(),
            missing: BTreeMap::new(),
            answering: None,
            fresh: BTreeSet::new(),
            shared,
            state,
        }
    }

    pub(super) fn run(mut self) {
        while !self.state.is_stopping() && !self.shared.link.is_closed() {
            let woken = self.wait();
            let turn = AssertUnwindSafe(|| {
                match woken {
                    Some(Woken::Stop) => return,
                    Some(Woken::Event(event)) => self.take(event),
                    Some(Woken::Deployed(result)) => self.deployed(result),
                    None => {}
                }
                // Runs due scans between orders, so that many orders do not delay them.
                self.do_what_is_due();
            });
            if catch_unwind(turn).is_err() {
                if let Some(ticket) = self.answering.take() {
                    self.answer(ticket, ProviderReply::Unknown(PANICKED_IN_ORDER.to_owned()));
                }
                self.device.fail(self.shared.clock.now());
                self.failed(PANICKED.to_owned(), Reason::DeviceFailure);
            }
        }
        // Ends every wait for the status, which will not change any more.
        self.state.stop();
        // No other provider could deliver the variables while this connection is open.
        self.shared.close();
    }

    /// Waits for an order, or until the next task is due.
    fn wait(&mut self) -> Option<Woken> {
        let due = match self.device.is_open() && !self.fresh.is_empty() {
            true => self.shared.clock.now(),
            false => self.device.next_due(),
        };
        let (variables, missing) = (self.types.len(), self.missing.len());
        let missing_item = self.missing.values().next().map(String::as_str);
        let (shared, state, deploying) = (&self.shared, &self.state, &mut self.deploying);
        shared.link.wait_until(Some(due), |core, _| {
            if state.is_stopping() {
                return Some(Woken::Stop);
            }
            for (index, pending) in deploying.iter().enumerate() {
                if let Some(result) = shared.check(core, pending) {
                    deploying.swap_remove(index);
                    return Some(Woken::Deployed(result));
                }
            }
            let event = core.take_provider_event();
            if event.is_none() {
                // Reports once for all orders that arrived together.
                state.count_variables(variables, missing, missing_item);
            }
            event.map(Woken::Event)
        })
    }

    fn take(&mut self, event: ProviderEvent) {
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
                self.fresh.clear();
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

    /// Deploys the libraries that the I/O server offers; meanwhile the engine binds their
    /// variables.
    fn deploy(&mut self) {
        for library in &self.libraries {
            let library = Arc::clone(library);
            match self.shared.begin(|core, _| core.deploy(library, true)) {
                Ok(pending) => self.deploying.push(pending),
                Err(error) => {
                    let error = Some(error.to_string());
                    self.state.change(|status| status.engine_error = error);
                }
            }
        }
    }

    fn deployed(&self, result: Result<LibraryReport, CallError>) {
        // If the connection was lost meanwhile, the provider deploys again on the next one.
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
                self.fresh.insert(item);
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

    fn do_what_is_due(&mut self) {
        let (now, wall) = self.shared.clock.moment();
        match self.device.open_if_due(now, wall) {
            None => {}
            Some(Ok(())) => self.state.change(|status| status.device_error = None),
            Some(Err(error)) => self.failed(error.to_string(), error.reason()),
        }
        if self.device.is_open() {
            for item in std::mem::take(&mut self.fresh) {
                self.device.request(item, now, wall);
                self.publish_scan(None);
            }
        }
        if let Some(scanned) = self.device.scan_if_due(now, wall) {
            self.publish_scan(None);
            if let Err(error) = scanned {
                self.failed(error.to_string(), error.reason());
            }
        }
    }

    /// Reports a failure of the device. Its variables are bad until the device works again.
    fn failed(&mut self, sentence: String, reason: Reason) {
        self.state
            .change(|status| status.device_error = Some(sentence));
        self.fresh = self.device.bound().map(|(_, item)| item).collect();
        let handles = self.types.keys();
        self.publish(handles.map(|handle| bad(*handle, reason)).collect());
    }

    /// Sends the scanned values to every variable of their items, except `but`, which already has
    /// its value.
    fn publish_scan(&mut self, but: Option<u32>) {
        let (types, mut publications) = (&self.types, Vec::new());
        self.device.publish(but, |handle, published| {
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
