//! Runs one I/O server: its scans, its orders and its publications.
//!
//! Each server has its own thread, so that a slow device delays nothing else. Writes and requests
//! of clients reach it through a queue; its publications take the write path.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use trunkline_engine::{Answer, Attempt, Caller, Engine, Origin, Provider, ProviderId};
use trunkline_engine::{SourceItem, Ticket, Wakes, Write, WriteValue};
use trunkline_io::{HealthState, IoServer, ItemId, Published, Scan, ScanSchedule};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::{Quality, Reason, Tick, Timestamp, Value};

use crate::engine::StartError;

/// Bound on samples held back for subscriptions whose variable's `stall` makes the source wait.
const HELD_MAX: usize = 65_536;
/// First and longest delay before a device that could not be opened is retried.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A running I/O server. Dropping it ends its thread.
pub(crate) struct IoHost {
    name: Arc<str>,
    id: ProviderId,
    thread: Arc<Housekeeper>,
}

/// The engine's view of an I/O server: its queue and its state.
struct Orders {
    name: Arc<str>,
    queue: Mutex<Queue>,
    /// Set once, when the thread runs.
    thread: OnceLock<Weak<Housekeeper>>,
}

#[derive(Default)]
struct Queue {
    /// Bounded by the engine, which limits the unanswered writes of a provider.
    sends: VecDeque<(Ticket, u32, Value)>,
    /// A set: each variable waits at most once, however often it is requested.
    requests: HashSet<u32>,
    /// Requests with a waiting caller; bounded together with the sends.
    reads: VecDeque<(Ticket, u32)>,
    /// Variables to deliver from now on, each with the name of its item.
    binds: Vec<SourceItem>,
    trouble: Option<String>,
}

impl Provider for Orders {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn send(&self, ticket: Ticket, handle: u32, raw: Value) {
        lock(&self.queue).sends.push_back((ticket, handle, raw));
        self.wake();
    }

    fn request(&self, ticket: Option<Ticket>, handle: u32) {
        let mut queue = lock(&self.queue);
        match ticket {
            Some(ticket) => queue.reads.push_back((ticket, handle)),
            None => {
                queue.requests.insert(handle);
            }
        }
        drop(queue);
        self.wake();
    }

    fn bind(&self, items: &[SourceItem]) {
        lock(&self.queue).binds.extend_from_slice(items);
        self.wake();
    }

    fn trouble(&self) -> Option<String> {
        lock(&self.queue).trouble.clone()
    }
}

impl Orders {
    fn wake(&self) {
        if let Some(thread) = self.thread.get().and_then(Weak::upgrade) {
            thread.wake();
        }
    }
}

/// State of the I/O server's thread.
struct Runner {
    engine: Engine,
    caller: Caller,
    orders: Arc<Orders>,
    server: Box<dyn IoServer>,
    /// The variables fed by each item.
    handles: HashMap<ItemId, Vec<u32>>,
    items: HashMap<u32, ItemId>,
    schedule: ScanSchedule,
    scan: Scan,
    is_open: bool,
    retry: Duration,
    retry_at: Tick,
    id: Arc<OnceLock<ProviderId>>,
    /// The order that the device is carrying out.
    answering: Option<(Ticket, u32)>,
    /// Samples whose subscriptions have no room yet, oldest first.
    held: VecDeque<Sample>,
}

struct Sample {
    handle: u32,
    /// `None`: only the quality changes.
    value: Option<Value>,
    quality: Quality,
    source_timestamp: Option<Timestamp>,
}

impl IoHost {
    /// Starts `server` under `name`. It delivers the variables whose `source` begins with that
    /// name.
    pub(crate) fn start(
        engine: &Engine,
        name: &str,
        server: Box<dyn IoServer>,
        period: Option<Duration>,
    ) -> Result<Self, StartError> {
        let name: Arc<str> = Arc::from(name);
        let queue = Mutex::new(Queue::default());
        let orders = Arc::new(Orders {
            name: Arc::clone(&name),
            queue,
            thread: OnceLock::new(),
        });
        let clock = Clock::new();
        let schedule = ScanSchedule::new(period.unwrap_or(server.period()), clock.now());
        let id = Arc::new(OnceLock::new());
        let mut runner = Runner {
            engine: engine.clone(),
            caller: Caller::engine(),
            orders: Arc::clone(&orders),
            server,
            handles: HashMap::new(),
            items: HashMap::new(),
            schedule,
            scan: Scan::new(),
            is_open: false,
            retry: RETRY_FIRST,
            retry_at: Tick::ZERO,
            id: Arc::clone(&id),
            answering: None,
            held: VecDeque::new(),
        };
        let provider = engine.attach_source(Arc::clone(&orders) as Arc<dyn Provider>)?;
        let _already = id.set(provider);
        let turn = move |now, wall| Some(runner.turn_or_fail(now, wall));
        let thread = Housekeeper::start(clock, turn).map_err(|error| {
            let (now, wall) = clock.moment();
            engine.detach_provider(provider, Reason::Inactive, now, wall, &mut Wakes::new());
            StartError::Thread(error)
        })?;
        let thread = Arc::new(thread);
        let _already = orders.thread.set(Arc::downgrade(&thread));
        Ok(Self {
            name,
            id: provider,
            thread,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Ends the thread; the variables turn bad with `reason`.
    pub(crate) fn stop(self, engine: &Engine, reason: Reason) {
        drop(self.thread);
        let (now, wall) = Clock::new().moment();
        let mut wakes = Wakes::new();
        engine.detach_provider(self.id, reason, now, wall, &mut wakes);
    }
}

impl Runner {
    /// Calls [`Runner::turn`]. A panic of the driver is treated as a failure of the device, which
    /// is opened again.
    fn turn_or_fail(&mut self, now: Tick, wall: Timestamp) -> Tick {
        if let Ok(due) = catch_unwind(AssertUnwindSafe(|| self.turn(now, wall))) {
            return due;
        }
        self.is_open = false;
        let mut wakes = Wakes::new();
        if let Some((ticket, handle)) = self.answering.take() {
            let why = "its driver panicked while it did this".to_owned();
            let (engine, unknown) = (&self.engine, Answer::Unknown(why));
            engine.answer(ticket, handle, unknown, now, wall, &mut wakes);
        }
        let sentence = "its driver panicked, which is a fault of the driver; it is opened again";
        let reason = Reason::DeviceFailure;
        self.failed(sentence.to_owned(), reason, now, wall, &mut wakes);
        self.retry_at
    }

    /// Does what is due, and returns the time of the next turn.
    fn turn(&mut self, now: Tick, wall: Timestamp) -> Tick {
        let mut wakes = Wakes::new();
        self.take_binds(now, wall, &mut wakes);
        if !self.is_open && now >= self.retry_at {
            self.open(now, wall, &mut wakes);
        }
        self.carry_out_orders(now, wall, &mut wakes);
        if self.is_open && self.schedule.is_due(now) {
            self.schedule.started(now);
            self.scan.clear();
            let result = self.server.scan(now, wall, &mut self.scan);
            self.publish(None, now, wall, &mut wakes);
            if let Err(error) = result {
                self.is_open = false;
                self.failed(error.to_string(), error.reason(), now, wall, &mut wakes);
            }
        }
        let held_until = self.release_held(now, wall, &mut wakes);
        self.report_health();
        let due = if self.is_open {
            self.schedule.next_due()
        } else {
            self.retry_at
        };
        held_until.map_or(due, |until| due.min(until))
    }

    /// Binds variables that were deployed or edited, and unbinds those that are gone.
    fn take_binds(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let binds = std::mem::take(&mut lock(&self.orders.queue).binds);
        if binds.is_empty() {
            return;
        }
        for SourceItem { handle, item } in binds {
            self.unbind(handle);
            match self.server.item(&item) {
                Some(item) => {
                    self.handles.entry(item).or_default().push(handle);
                    self.items.insert(handle, item);
                    if self.is_open {
                        // All items were published when the device was opened; this one is bound
                        // later, so it needs a request.
                        lock(&self.orders.queue).requests.insert(handle);
                    }
                }
                None => {
                    let quality = Quality::bad(Reason::VariableMissing);
                    self.engine.set_quality(handle, quality, now, wall, wakes);
                }
            }
        }
        let is_gone = |handle: &u32| {
            let variable = self.engine.variable(*handle);
            variable.is_none_or(|variable| variable.is_gone())
        };
        let gone: Vec<u32> = self.items.keys().copied().filter(is_gone).collect();
        for handle in gone {
            self.unbind(handle);
        }
    }

    fn unbind(&mut self, handle: u32) {
        let item = self.items.remove(&handle);
        if let Some(handles) = item.and_then(|item| self.handles.get_mut(&item)) {
            handles.retain(|known| *known != handle);
        }
    }

    fn open(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        match self.server.open(now, wall) {
            Ok(()) => {
                self.is_open = true;
                self.retry = RETRY_FIRST;
            }
            Err(error) => self.failed(error.to_string(), error.reason(), now, wall, wakes),
        }
    }

    /// Handles a device failure: its variables are bad until it is back.
    fn failed(
        &mut self,
        sentence: String,
        reason: Reason,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        self.retry_at = now.saturating_add(self.retry);
        self.retry = (self.retry * 2).min(RETRY_MAX);
        lock(&self.orders.queue).trouble = Some(sentence);
        if let Some(id) = self.id.get() {
            let quality = Quality::bad(reason);
            self.engine
                .set_source_quality(*id, quality, now, wall, wakes);
        }
    }

    /// Carries out the orders queued so far. Later ones wait until the scan that is due has run.
    fn carry_out_orders(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let (sends, requests, reads) = {
            let mut queue = lock(&self.orders.queue);
            let requests = std::mem::take(&mut queue.requests);
            (queue.sends.len(), requests, queue.reads.len())
        };
        // Orders are taken one at a time, so that a driver that panics leaves the others in the
        // queue.
        for _ in 0..sends {
            let Some((ticket, handle, raw)) = lock(&self.orders.queue).sends.pop_front() else {
                break;
            };
            self.answering = Some((ticket, handle));
            let answer = match self.items.get(&handle) {
                None => Answer::Refused("it has no such item".to_owned()),
                Some(_) if !self.is_open => Answer::Refused("its device is not open".to_owned()),
                Some(item) => match self.server.send(*item, &raw, now, wall) {
                    Ok(read_back) => Answer::Applied(read_back),
                    Err(refusal) => Answer::Refused(refusal.to_string()),
                },
            };
            self.answering = None;
            self.engine.answer(ticket, handle, answer, now, wall, wakes);
        }
        for _ in 0..reads {
            let Some((ticket, handle)) = lock(&self.orders.queue).reads.pop_front() else {
                break;
            };
            self.answering = Some((ticket, handle));
            let answer = self.read_now(handle, now, wall);
            self.answering = None;
            self.engine.answer(ticket, handle, answer, now, wall, wakes);
            // Publishes what the device returned besides, and the other variables of the item.
            self.publish(Some(handle), now, wall, wakes);
        }
        for handle in requests {
            let Some(item) = self.items.get(&handle).copied() else {
                continue;
            };
            if !self.is_open {
                continue;
            }
            self.scan.clear();
            // The error shows in the health and in the next scan.
            let _error = self.server.request(item, now, wall, &mut self.scan);
            self.publish(None, now, wall, wakes);
        }
    }

    /// Reads one item from the device for a waiting caller.
    fn read_now(&mut self, handle: u32, now: Tick, wall: Timestamp) -> Answer {
        self.scan.clear();
        let Some(item) = self.items.get(&handle).copied() else {
            return Answer::Refused("it has no such item".to_owned());
        };
        if !self.is_open {
            return Answer::Refused("its device is not open".to_owned());
        }
        if let Err(error) = self.server.request(item, now, wall, &mut self.scan) {
            return Answer::Refused(error.to_string());
        }
        match self.scan.iter().rfind(|published| published.item == item) {
            Some(Published {
                value: Some(value),
                quality,
                source_timestamp,
                ..
            }) => Answer::Read {
                value: value.clone(),
                quality: Some(*quality),
                source_timestamp: *source_timestamp,
            },
            _ => Answer::Refused("its device gives no value of this item now".to_owned()),
        }
    }

    /// Writes the scanned values to every variable they feed, except `but`, which already has its
    /// value.
    fn publish(&mut self, but: Option<u32>, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let mut scan = std::mem::take(&mut self.scan);
        for published in scan.drain() {
            let Some(handles) = self.handles.get(&published.item) else {
                continue;
            };
            for handle in handles.iter().filter(|handle| Some(**handle) != but) {
                let sample = Sample {
                    handle: *handle,
                    value: published.value.clone(),
                    quality: published.quality,
                    source_timestamp: published.source_timestamp,
                };
                let waits = !self.held.is_empty()
                    || write(&self.engine, &self.caller, &sample, now, wall, wakes).is_some();
                if waits {
                    hold(&mut self.held, &self.engine, sample);
                }
            }
        }
        self.scan = scan;
    }

    /// Writes the samples held back, in order. Returns the time of the next attempt if some remain.
    fn release_held(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) -> Option<Tick> {
        while let Some(sample) = self.held.front() {
            if let Some(until) = write(&self.engine, &self.caller, sample, now, wall, wakes) {
                let soon = now.saturating_add(Duration::from_millis(1));
                return Some(until.min(soon));
            }
            self.held.pop_front();
        }
        None
    }

    fn report_health(&self) {
        let health = self.server.health();
        if self.is_open {
            let trouble = match health.state {
                HealthState::Good => None,
                _ => health.last_error,
            };
            lock(&self.orders.queue).trouble = trouble;
        }
    }
}

/// Writes one sample. Returns the time until which it has to wait, if it does.
fn write(
    engine: &Engine,
    caller: &Caller,
    sample: &Sample,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) -> Option<Tick> {
    let Some(value) = &sample.value else {
        engine.set_quality(sample.handle, sample.quality, now, wall, wakes);
        return None;
    };
    let variable = engine.variable(sample.handle)?;
    let write = Write {
        value: WriteValue::Value(value),
        source_timestamp: sample.source_timestamp,
        quality: Some(sample.quality),
        origin: Origin::SourceRaw,
        ..Write::value(value)
    };
    match engine.try_write(caller, now, wall, &variable, &write, wakes) {
        Attempt::WouldBlock { until } => Some(until),
        Attempt::Done(_) | Attempt::Pending => None,
    }
}

/// Holds a sample back. Beyond the bound it is lost, and counted in the variable's ledger.
fn hold(held: &mut VecDeque<Sample>, engine: &Engine, sample: Sample) {
    if held.len() < HELD_MAX {
        held.push_back(sample);
    } else if let Some(variable) = engine.variable(sample.handle) {
        variable.count_upstream_lost(1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
