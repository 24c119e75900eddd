//! The provider's thread: scans the device and carries out orders of the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{ProviderEvent, ProviderReply, Publication};
use trunkline_io::{IoServer, ItemId, Published, Scan, ScanSchedule};
use trunkline_proto::message::library::LibraryReport;
use trunkline_types::{DataType, LibraryDefinition, Quality, Reason, Tick, Value};

use super::raw::{applied, bad, converted};
use super::{ProviderOptions, State};
use crate::client::CallError;
use crate::client::verbs::{Pending, Shared};

/// First and longest delay before a device that could not be opened is retried.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The event that ended a wait.
enum Woken {
    Stop,
    Event(ProviderEvent),
    Deployed(Result<LibraryReport, CallError>),
}

/// State of the thread.
pub(super) struct Runner {
    shared: Arc<Shared>,
    state: Arc<State>,
    /// Libraries that the I/O server offers; deployed on every connection.
    libraries: Vec<Arc<LibraryDefinition>>,
    /// Deployments that are not answered yet.
    deploying: Vec<Pending<LibraryReport>>,
    server: Box<dyn IoServer>,
    schedule: ScanSchedule,
    scan: Scan,
    is_open: bool,
    retry: Duration,
    retry_at: Tick,
    /// Item and type of each variable that it delivers.
    bound: HashMap<u32, (ItemId, DataType)>,
    handles: HashMap<ItemId, Vec<u32>>,
    /// Variables that it cannot deliver, with the names of the missing items.
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
            schedule: ScanSchedule::new(options.period.unwrap_or(server.period()), now),
            server,
            scan: Scan::new(),
            is_open: false,
            retry: RETRY_FIRST,
            retry_at: now,
            bound: HashMap::new(),
            handles: HashMap::new(),
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
                // Scans keep their pace however many orders arrive.
                self.do_what_is_due();
            });
            if catch_unwind(turn).is_err() {
                if let Some(ticket) = self.answering.take() {
                    let sentence = "its driver panicked while it did this".to_owned();
                    self.answer(ticket, ProviderReply::Unknown(sentence));
                }
                let sentence = "its driver panicked, which is a fault of the driver; it is opened \
                                again";
                self.failed(sentence.to_owned(), Reason::DeviceFailure);
            }
        }
        // Ends every wait for the status: it will not change any more.
        self.state.stop();
        // No other provider could deliver the variables while this connection is open.
        self.shared.close();
    }

    /// Waits for an order, or for the next thing that is due.
    fn wait(&mut self) -> Option<Woken> {
        let due = match self.is_open {
            true if !self.fresh.is_empty() => self.shared.clock.now(),
            true => self.schedule.next_due(),
            false => self.retry_at,
        };
        let (variables, missing) = (self.bound.len(), self.missing.len());
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
                // Reported once for all that arrived together.
                state.count_variables(variables, missing, missing_item);
            }
            event.map(Woken::Event)
        })
    }

    fn take(&mut self, event: ProviderEvent) {
        match event {
            ProviderEvent::Provided => {
                self.state.change(|status| {
                    (status.is_provided, status.engine_trouble) = (true, None);
                });
                self.deploy();
            }
            ProviderEvent::Refused(fault) => {
                let trouble = Some(fault.sentence);
                self.state.change(|status| status.engine_trouble = trouble);
            }
            ProviderEvent::Disconnected => {
                self.bound.clear();
                self.handles.clear();
                self.missing.clear();
                self.fresh.clear();
                let trouble = "the connection to the engine is down; it is tried again";
                self.state.change(|status| {
                    (status.is_provided, status.variables) = (false, 0);
                    (status.missing, status.missing_item) = (0, None);
                    status.engine_trouble = Some(trouble.to_owned());
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
            _ => {}
        }
    }

    /// Deploys the libraries that the I/O server offers; the engine binds its variables meanwhile.
    fn deploy(&mut self) {
        for library in &self.libraries {
            match self.shared.deploy(Arc::clone(library), true) {
                Ok(pending) => self.deploying.push(pending),
                Err(error) => {
                    let trouble = Some(error.to_string());
                    self.state.change(|status| status.engine_trouble = trouble);
                }
            }
        }
    }

    fn deployed(&self, result: Result<LibraryReport, CallError>) {
        // If the connection was lost meanwhile, the next one deploys again.
        if let Err(error @ CallError::Fault(_)) = result {
            let trouble = Some(format!("its variables are not deployed: {error}"));
            self.state.change(|status| {
                if status.is_provided {
                    status.engine_trouble = trouble;
                }
            });
        }
    }

    fn unbind(&mut self, handle: u32) {
        if let Some((item, _)) = self.bound.remove(&handle)
            && let Some(handles) = self.handles.get_mut(&item)
        {
            handles.retain(|known| *known != handle);
        }
        self.missing.remove(&handle);
    }

    fn bind(&mut self, handle: u32, data_type: DataType, name: &str) {
        self.unbind(handle);
        match self.server.item(name) {
            Some(item) => {
                self.bound.insert(handle, (item, data_type));
                self.handles.entry(item).or_default().push(handle);
                self.fresh.insert(item);
                if !self.is_open {
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
        let Some((item, data_type)) = self.bound.get(&handle).cloned() else {
            return self.no_item(handle);
        };
        if !self.is_open {
            return ProviderReply::Refused("its device is not open".to_owned());
        }
        match self.server.send(item, value, now, wall) {
            Ok(read_back) => applied(&read_back, &data_type, Quality::GOOD, None),
            Err(refusal) => ProviderReply::Refused(refusal.to_string()),
        }
    }

    fn read(&mut self, handle: u32) -> ProviderReply {
        let (now, wall) = self.shared.clock.moment();
        let Some((item, data_type)) = self.bound.get(&handle).cloned() else {
            return self.no_item(handle);
        };
        if !self.is_open {
            return ProviderReply::Refused("its device is not open".to_owned());
        }
        self.scan.clear();
        if let Err(error) = self.server.request(item, now, wall, &mut self.scan) {
            return ProviderReply::Refused(error.to_string());
        }
        let found = self.scan.iter().rfind(|published| published.item == item);
        let reply = match found {
            Some(Published {
                value: Some(value),
                quality,
                source_timestamp,
                ..
            }) => applied(value, &data_type, *quality, *source_timestamp),
            _ => {
                let sentence = "its device gives no value of this item now".to_owned();
                ProviderReply::Refused(sentence)
            }
        };
        self.publish_scan(Some(handle));
        reply
    }

    /// Returns the refusal of an order for a variable that it does not deliver.
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
        if !self.is_open && now >= self.retry_at {
            match self.server.open(now, wall) {
                Ok(()) => {
                    self.is_open = true;
                    self.retry = RETRY_FIRST;
                    self.state.change(|status| status.device_trouble = None);
                }
                Err(error) => self.failed(error.to_string(), error.reason()),
            }
        }
        for item in std::mem::take(&mut self.fresh) {
            if !self.is_open {
                self.fresh.insert(item);
                continue;
            }
            self.scan.clear();
            // The error shows in the next scan.
            let _error = self.server.request(item, now, wall, &mut self.scan);
            self.publish_scan(None);
        }
        if self.is_open && self.schedule.is_due(now) {
            self.schedule.started(now);
            self.scan.clear();
            let result = self.server.scan(now, wall, &mut self.scan);
            self.publish_scan(None);
            if let Err(error) = result {
                self.failed(error.to_string(), error.reason());
            }
        }
    }

    /// Handles a device failure: its variables are bad until it is back.
    fn failed(&mut self, sentence: String, reason: Reason) {
        self.is_open = false;
        self.retry_at = self.shared.clock.now().saturating_add(self.retry);
        self.retry = (self.retry * 2).min(RETRY_MAX);
        self.state
            .change(|status| status.device_trouble = Some(sentence));
        self.fresh = self.handles.keys().copied().collect();
        self.publish(
            self.bound
                .keys()
                .map(|handle| bad(*handle, reason))
                .collect(),
        );
    }

    /// Sends the scanned values to every variable of their items, except `but`, which already has
    /// its value.
    fn publish_scan(&mut self, but: Option<u32>) {
        let mut publications = Vec::new();
        for published in self.scan.drain() {
            let handles = self.handles.get(&published.item).into_iter().flatten();
            for handle in handles.filter(|handle| Some(**handle) != but) {
                let Some((_, data_type)) = self.bound.get(handle) else {
                    continue;
                };
                let value = published.value.as_ref();
                let value = value.map(|value| converted(value, data_type));
                publications.push(match value {
                    Some(None) => bad(*handle, Reason::OutOfRange),
                    value => Publication {
                        handle: *handle,
                        value: value.flatten(),
                        quality: published.quality,
                        source_timestamp: published.source_timestamp,
                    },
                });
            }
        }
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
