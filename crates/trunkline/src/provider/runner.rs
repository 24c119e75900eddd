//! Runs the provider's thread, which scans the device and carries out orders of the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use trunkline_client::{ProviderEvent, ProviderReply};
use trunkline_io::{IoServer, ItemId};
use trunkline_types::{DataType, Quality, Reason, Value};

use super::link::{Counts, ProviderLink, WakeReason};
use super::raw::{applied, bad, publication};
use super::{ProviderOptions, State};
use crate::client::verbs::Shared;
use crate::device::{Device, PANICKED, PANICKED_IN_ORDER};

pub(super) struct Runner {
    link: ProviderLink,
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
            device: Device::new(server, options.period, now),
            types: HashMap::new(),
            missing: BTreeMap::new(),
            answering: None,
            items_to_request: BTreeSet::new(),
            link: ProviderLink::new(shared, state, libraries),
        }
    }

    pub(super) fn run(mut self) {
        while self.link.is_running() {
            let reason = self.wait();
            let step = AssertUnwindSafe(|| {
                match reason {
                    Some(WakeReason::Stop) => return,
                    Some(WakeReason::Event(event)) => self.handle_event(event),
                    None => {}
                }
                // Scans that are due run between orders, so that many orders do not delay scans.
                self.run_due_tasks();
            });
            if catch_unwind(step).is_err() {
                if let Some(ticket) = self.answering.take() {
                    let unknown = ProviderReply::Unknown(PANICKED_IN_ORDER.to_owned());
                    self.link.answer(ticket, unknown);
                }
                self.device.fail(self.link.now());
                self.report_failure(PANICKED.to_owned(), Reason::DeviceFailure);
            }
        }
        self.link.close();
    }

    /// Waits for an order, or until the next task is due.
    fn wait(&mut self) -> Option<WakeReason> {
        let due = match self.device.is_open() && !self.items_to_request.is_empty() {
            true => self.link.now(),
            false => self.device.next_due(),
        };
        let counts = Counts {
            variables: self.types.len(),
            missing: self.missing.len(),
            missing_item: self.missing.values().next().map(String::as_str),
        };
        self.link.wait(Some(due), &counts)
    }

    fn handle_event(&mut self, event: ProviderEvent) {
        match event {
            ProviderEvent::Provided => self.link.handle_provided(),
            ProviderEvent::Refused(fault) => self.link.handle_refused(fault),
            ProviderEvent::Disconnected => {
                self.device.unbind_all();
                self.types.clear();
                self.missing.clear();
                self.items_to_request.clear();
                self.link.handle_disconnected();
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
                self.link.answer(ticket, reply);
            }
            ProviderEvent::Read { ticket, handle } => {
                self.answering = Some(ticket);
                let reply = self.read(handle);
                self.answering = None;
                self.link.answer(ticket, reply);
            }
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
                    self.link.publish(vec![bad(handle, Reason::NotConnected)]);
                }
            }
            None => {
                self.missing.insert(handle, name.to_owned());
                self.link
                    .publish(vec![bad(handle, Reason::VariableMissing)]);
            }
        }
    }

    fn write(&mut self, handle: u32, value: &Value) -> ProviderReply {
        let (now, wall) = self.link.moment();
        let Some(data_type) = self.types.get(&handle) else {
            return self.no_item(handle);
        };
        match self.device.send(handle, value, now, wall) {
            Ok(read_back) => applied(&read_back, data_type, Quality::GOOD, None),
            Err(sentence) => ProviderReply::Refused(sentence),
        }
    }

    fn read(&mut self, handle: u32) -> ProviderReply {
        let (now, wall) = self.link.moment();
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

    fn run_due_tasks(&mut self) {
        let (now, wall) = self.link.moment();
        match self.device.open_if_due(now, wall) {
            None => {}
            Some(Ok(())) => self.link.state.change(|status| status.device_error = None),
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
        self.link
            .state
            .change(|status| status.device_error = Some(sentence));
        self.items_to_request = self.device.bound().map(|(_, item)| item).collect();
        let handles = self.types.keys();
        self.link
            .publish(handles.map(|handle| bad(*handle, reason)).collect());
    }

    /// Sends the scanned values to all variables of their items, except `except`, which already has
    /// its value.
    fn publish_scan(&mut self, except: Option<u32>) {
        let (types, mut publications) = (&self.types, Vec::new());
        self.device.publish(except, |handle, published| {
            let Some(data_type) = types.get(&handle) else {
                return;
            };
            publications.push(publication(handle, published, data_type));
        });
        self.link.publish(publications);
    }
}
