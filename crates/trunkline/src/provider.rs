//! An I/O server in a process of its own: it delivers variables of an engine elsewhere.
//!
//! It has a connection and a thread of its own. While it waits for the next scan it drives the
//! connection, so an order reaches the device without a wake-up in between. When the process ends,
//! however it does, the engine's variables turn bad with the cause; when it runs again, or another
//! one under the same name, they go on.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_client::{ProviderEvent, ProviderReply, Publication};
use trunkline_io::{IoServer, ItemId, Published, Scan, ScanSchedule};
use trunkline_types::{DataType, LibraryDefinition, Quality, Reason, Scaling, Tick, Value};

use crate::client::verbs::Shared;
use crate::client::{ConnectError, ConnectOptions};
use crate::keeper::lock;

/// How long until a device that could not be opened is tried again, at first and at most.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// How an I/O server delivers.
#[derive(Clone, Debug, Default)]
pub struct ProviderOptions {
    /// What `source = "NAME:ITEM"` names.
    pub name: String,
    /// Time from one scan to the next; `None`: the I/O server's own.
    pub period: Option<Duration>,
    /// Deploy the libraries that the I/O server offers.
    pub publish: bool,
}

/// How a provider is doing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProviderStatus {
    /// The engine has it deliver the variables that name it.
    pub is_provided: bool,
    /// Variables that it delivers.
    pub variables: usize,
    /// What is wrong, if something is: with the engine, or with the device.
    pub trouble: Option<String>,
}

/// A running provider. Dropping it ends it; its variables turn bad.
pub struct Provider {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<ProviderStatus>>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    /// Starts `server` as the source of the engine's variables that name it. The engine need not
    /// run yet: the provider connects as soon as it does, and again whenever it must.
    ///
    /// # Errors
    /// [`ConnectError`]: the machine has no descriptor or thread left.
    pub fn start(
        engine: &ConnectOptions,
        options: ProviderOptions,
        server: Box<dyn IoServer>,
    ) -> Result<Self, ConnectError> {
        let dialler = engine.dialler();
        let shared = Shared::start(dialler, engine)?;
        let (stop, status) = (Arc::default(), Arc::default());
        let libraries = match options.publish {
            true => server.libraries(&options.name),
            false => Vec::new(),
        };
        let now = shared.clock.now();
        let runner = Runner {
            shared: Arc::clone(&shared),
            stop: Arc::clone(&stop),
            status: Arc::clone(&status),
            libraries: libraries.into_iter().map(Arc::new).collect(),
            schedule: ScanSchedule::new(options.period.unwrap_or(server.period()), now),
            server,
            scan: Scan::new(),
            is_open: false,
            retry: RETRY_FIRST,
            retry_at: now,
            bound: HashMap::new(),
            handles: HashMap::new(),
            fresh: BTreeSet::new(),
        };
        shared.link.with(|core, _, _| core.provide(&options.name));
        let thread = thread::Builder::new()
            .name("trunkline-io".to_owned())
            .spawn(move || runner.run())
            .map_err(ConnectError::Thread)?;
        Ok(Self {
            shared,
            stop,
            status,
            thread: Some(thread),
        })
    }

    /// How it is doing.
    pub fn status(&self) -> ProviderStatus {
        lock(&self.status).clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.shared.link.wake_waiters();
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended already.
            let _ended = thread.join();
        }
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// What the thread waits for.
enum Woken {
    Stop,
    Event(ProviderEvent),
}

/// What the thread owns.
struct Runner {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<ProviderStatus>>,
    /// What the I/O server offers, to be deployed on every connection.
    libraries: Vec<Arc<LibraryDefinition>>,
    server: Box<dyn IoServer>,
    schedule: ScanSchedule,
    scan: Scan,
    is_open: bool,
    retry: Duration,
    retry_at: Tick,
    /// The item and the type of each variable that it delivers.
    bound: HashMap<u32, (ItemId, DataType)>,
    handles: HashMap<ItemId, Vec<u32>>,
    /// Items that the engine has not heard of since they were bound.
    fresh: BTreeSet<ItemId>,
}

impl Runner {
    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) && !self.shared.link.is_closed() {
            let due = match self.is_open {
                true => self.schedule.next_due(),
                false => self.retry_at,
            };
            let due = if self.is_open && !self.fresh.is_empty() {
                self.shared.clock.now()
            } else {
                due
            };
            let woken = self.shared.link.wait_until(Some(due), |core, _| {
                if self.stop.load(Ordering::Acquire) {
                    return Some(Woken::Stop);
                }
                core.take_provider_event().map(Woken::Event)
            });
            let turn = AssertUnwindSafe(|| match woken {
                Some(Woken::Stop) => {}
                Some(Woken::Event(event)) => self.take(event),
                None => self.do_what_is_due(),
            });
            if catch_unwind(turn).is_err() {
                let sentence = "its driver panicked, which is a fault of the driver; it is opened \
                                again";
                self.failed(sentence.to_owned(), Reason::DeviceFailure);
            }
        }
    }

    fn take(&mut self, event: ProviderEvent) {
        match event {
            ProviderEvent::Provided => {
                let mut status = lock(&self.status);
                (status.is_provided, status.trouble) = (true, None);
                drop(status);
                self.shared.link.with(|core, _, _| {
                    for library in &self.libraries {
                        // What is wrong with it shows in its variables: they are not bound.
                        let request = core.deploy(Arc::clone(library), true);
                        if let Ok(request) = request {
                            core.forget(request);
                        }
                    }
                });
            }
            ProviderEvent::Refused(fault) => {
                lock(&self.status).trouble = Some(fault.sentence);
            }
            ProviderEvent::Disconnected => {
                self.bound.clear();
                self.handles.clear();
                self.fresh.clear();
                *lock(&self.status) = ProviderStatus {
                    trouble: Some("the connection to the engine is down".to_owned()),
                    ..ProviderStatus::default()
                };
            }
            ProviderEvent::Bind {
                handle,
                data_type,
                item,
                ..
            } => self.bind(handle, data_type, &item),
            ProviderEvent::Write {
                ticket,
                handle,
                value,
            } => {
                let reply = self.write(handle, &value);
                self.answer(ticket, reply);
            }
            ProviderEvent::Read { ticket, handle } => {
                let reply = self.read(handle);
                self.answer(ticket, reply);
            }
            _ => {}
        }
    }

    fn bind(&mut self, handle: u32, data_type: DataType, name: &str) {
        if let Some((item, _)) = self.bound.remove(&handle)
            && let Some(handles) = self.handles.get_mut(&item)
        {
            handles.retain(|known| *known != handle);
        }
        match self.server.item(name) {
            Some(item) => {
                self.bound.insert(handle, (item, data_type));
                self.handles.entry(item).or_default().push(handle);
                self.fresh.insert(item);
                if !self.is_open {
                    self.publish(vec![bad(handle, Reason::NotConnected)]);
                }
            }
            None => self.publish(vec![bad(handle, Reason::ConfigurationError)]),
        }
        lock(&self.status).variables = self.bound.len();
    }

    fn write(&mut self, handle: u32, value: &Value) -> ProviderReply {
        let (now, wall) = (self.shared.clock.now(), self.shared.clock.wall());
        let Some((item, data_type)) = self.bound.get(&handle).cloned() else {
            return ProviderReply::Refused("it has no such item".to_owned());
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
        let (now, wall) = (self.shared.clock.now(), self.shared.clock.wall());
        let Some((item, data_type)) = self.bound.get(&handle).cloned() else {
            return ProviderReply::Refused("it has no such item".to_owned());
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

    fn answer(&self, ticket: u64, reply: ProviderReply) {
        let link = &self.shared.link;
        link.with(|core, _, _| core.answer_provider(ticket, reply));
    }

    fn do_what_is_due(&mut self) {
        let (now, wall) = (self.shared.clock.now(), self.shared.clock.wall());
        if !self.is_open && now >= self.retry_at {
            match self.server.open(now, wall) {
                Ok(()) => {
                    self.is_open = true;
                    self.retry = RETRY_FIRST;
                    lock(&self.status).trouble = None;
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
            // What is wrong shows in the next scan.
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

    /// Nothing can be had from the device: its variables say so until it is back.
    fn failed(&mut self, sentence: String, reason: Reason) {
        self.is_open = false;
        self.retry_at = self.shared.clock.now().saturating_add(self.retry);
        self.retry = (self.retry * 2).min(RETRY_MAX);
        lock(&self.status).trouble = Some(sentence);
        self.fresh = self.handles.keys().copied().collect();
        self.publish(
            self.bound
                .keys()
                .map(|handle| bad(*handle, reason))
                .collect(),
        );
    }

    /// Sends what the scan holds to every variable of its items, but for one that has it already.
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

fn bad(handle: u32, reason: Reason) -> Publication {
    Publication {
        handle,
        value: None,
        quality: Quality::bad(reason),
        source_timestamp: None,
    }
}

fn applied(
    value: &Value,
    data_type: &DataType,
    quality: Quality,
    source_timestamp: Option<trunkline_types::Timestamp>,
) -> ProviderReply {
    match converted(value, data_type) {
        Some(value) => ProviderReply::Applied {
            value,
            quality,
            source_timestamp,
        },
        None => {
            let sentence = format!("it read back {value:?}, which is no {data_type}");
            ProviderReply::Refused(sentence)
        }
    }
}

/// A raw number of the device in the variable's own numeric type, which is how it travels; `None`
/// when it does not fit.
fn converted(value: &Value, data_type: &DataType) -> Option<Value> {
    const AS_IT_IS: Scaling = Scaling::Linear {
        raw: [0.0, 1.0],
        eng: [0.0, 1.0],
    };
    match value.has_type(data_type) {
        true => Some(value.clone()),
        false => AS_IT_IS.to_engineering(value, data_type).ok(),
    }
}
