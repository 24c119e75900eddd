//! Runs one I/O server in a thread: scans the device, carries out orders and publishes values.
//!
//! A slow device delays nothing else, because each server has its own thread. Writes and requests
//! of clients reach the server through a queue. The values that it publishes use the normal write
//! path.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use trunkline_engine::{Answer, Attempt, Caller, Engine, Origin, Provider, ProviderId};
use trunkline_engine::{SourceItem, Ticket, Wakes, Write, WriteValue};
use trunkline_io::{HealthState, IoError, IoServer};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::{Quality, Reason, Tick, Timestamp, Value};

use crate::device::{Device, PANICKED, PANICKED_IN_ORDER};
use crate::engine::StartError;

/// Maximum number of samples that wait while a `stall` subscription makes the source wait.
const WAITING_SAMPLES_MAX: usize = 65_536;
/// A running I/O server. Dropping it ends its thread.
pub(crate) struct IoHost {
    name: Arc<str>,
    id: ProviderId,
    thread: Arc<Housekeeper>,
}

/// The queue of orders for an I/O server and its last error, as the engine uses them.
struct Orders {
    name: Arc<str>,
    queue: Mutex<Queue>,
    /// Set once, when the thread has started.
    thread: OnceLock<Weak<Housekeeper>>,
}

#[derive(Default)]
struct Queue {
    /// The engine bounds this queue: it limits the unanswered writes of a provider.
    sends: VecDeque<(Ticket, u32, Value)>,
    /// A set, because repeated requests for a variable need only one answer.
    requests: HashSet<u32>,
    /// Reads for which a caller waits. The engine limits reads and sends together.
    reads: VecDeque<(Ticket, u32)>,
    /// Variables to bind or unbind, each with its item name.
    binds: Vec<SourceItem>,
    error: Option<String>,
    /// True while the device is open.
    is_connected: bool,
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

    fn error(&self) -> Option<String> {
        lock(&self.queue).error.clone()
    }

    fn is_connected(&self) -> bool {
        lock(&self.queue).is_connected
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
    device: Device,
    id: Arc<OnceLock<ProviderId>>,
    /// The order that the device is carrying out.
    answering: Option<(Ticket, u32)>,
    /// Samples that wait for space in subscriptions, oldest first.
    waiting_samples: VecDeque<Sample>,
}

struct Sample {
    handle: u32,
    /// `None` if only the quality changes.
    value: Option<Value>,
    quality: Quality,
    source_timestamp: Option<Timestamp>,
}

impl IoHost {
    /// Starts `server` under `name`. It delivers every variable whose `source` begins with that
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
        let id = Arc::new(OnceLock::new());
        let mut runner = Runner {
            engine: engine.clone(),
            caller: Caller::engine(),
            orders: Arc::clone(&orders),
            device: Device::new(server, period, clock.now()),
            id: Arc::clone(&id),
            answering: None,
            waiting_samples: VecDeque::new(),
        };
        let provider = engine
            .providers()
            .attach_source(Arc::clone(&orders) as Arc<dyn Provider>)?;
        let _already = id.set(provider);
        let step = move |now, wall| Some(runner.run_step_or_fail(now, wall));
        let thread = Housekeeper::start(clock, step).map_err(|error| {
            let (now, wall) = clock.moment();
            engine
                .providers()
                .detach(provider, Reason::Inactive, now, wall, &mut Wakes::new());
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

    /// Ends the thread. The server's variables become bad with `reason`.
    pub(crate) fn stop(self, engine: &Engine, reason: Reason) {
        drop(self.thread);
        let (now, wall) = Clock::new().moment();
        let mut wakes = Wakes::new();
        engine
            .providers()
            .detach(self.id, reason, now, wall, &mut wakes);
    }
}

impl Runner {
    /// Calls [`Runner::run_step`]. A panic of the driver counts as a failure of the device, which
    /// is then opened again.
    fn run_step_or_fail(&mut self, now: Tick, wall: Timestamp) -> Tick {
        if let Ok(due) = catch_unwind(AssertUnwindSafe(|| self.run_step(now, wall))) {
            return due;
        }
        let mut wakes = Wakes::new();
        if let Some((ticket, handle)) = self.answering.take() {
            let unknown = Answer::Unknown(PANICKED_IN_ORDER.to_owned());
            self.engine
                .providers()
                .answer(ticket, handle, unknown, now, wall, &mut wakes);
        }
        self.device.fail(now);
        let (sentence, reason) = (PANICKED.to_owned(), Reason::DeviceFailure);
        self.report_failure(sentence, reason, now, wall, &mut wakes);
        self.device.next_due()
    }

    /// Runs all tasks that are due, and returns the time of the next step.
    fn run_step(&mut self, now: Tick, wall: Timestamp) -> Tick {
        let mut wakes = Wakes::new();
        self.apply_binds(now, wall, &mut wakes);
        if let Some(Err(error)) = self.device.open_if_due(now, wall) {
            self.report_error(&error, now, wall, &mut wakes);
        }
        self.carry_out_orders(now, wall, &mut wakes);
        if let Some(scanned) = self.device.scan_if_due(now, wall) {
            self.publish(None, now, wall, &mut wakes);
            if let Err(error) = scanned {
                self.report_error(&error, now, wall, &mut wakes);
            }
        }
        let retry_at = self.write_waiting_samples(now, wall, &mut wakes);
        self.report_health();
        let due = self.device.next_due();
        retry_at.map_or(due, |at| due.min(at))
    }

    /// Binds variables that were deployed or edited, and unbinds variables that were removed.
    fn apply_binds(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let binds = std::mem::take(&mut lock(&self.orders.queue).binds);
        if binds.is_empty() {
            return;
        }
        for SourceItem { handle, item } in binds {
            match self.device.bind(handle, &item) {
                Some(_) if self.device.is_open() => {
                    // Opening the device published all items that were bound then. An item bound
                    // later needs a request.
                    lock(&self.orders.queue).requests.insert(handle);
                }
                Some(_) => {}
                None => {
                    let quality = Quality::bad(Reason::VariableMissing);
                    self.engine
                        .providers()
                        .set_quality(handle, quality, now, wall, wakes);
                }
            }
        }
        let is_gone = |handle: &u32| {
            let variable = self.engine.variable(*handle);
            variable.is_none_or(|variable| variable.is_gone())
        };
        let bound = self.device.bound().map(|(handle, _)| handle);
        for handle in bound.filter(is_gone).collect::<Vec<u32>>() {
            self.device.unbind(handle);
        }
    }

    fn report_error(&self, error: &IoError, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        self.report_failure(error.to_string(), error.reason(), now, wall, wakes);
    }

    /// Reports a failure of the device. Its variables are bad until the device works again.
    fn report_failure(
        &self,
        sentence: String,
        reason: Reason,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let mut queue = lock(&self.orders.queue);
        queue.error = Some(sentence);
        queue.is_connected = self.device.is_open();
        drop(queue);
        if let Some(id) = self.id.get() {
            let quality = Quality::bad(reason);
            self.engine
                .providers()
                .set_source_quality(*id, quality, now, wall, wakes);
        }
    }

    /// Carries out the orders queued so far. Later orders wait until the next scan that is due has
    /// run.
    fn carry_out_orders(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let (sends, requests, reads) = {
            let mut queue = lock(&self.orders.queue);
            let requests = std::mem::take(&mut queue.requests);
            (queue.sends.len(), requests, queue.reads.len())
        };
        // Takes one order at a time, so that the remaining orders stay in the queue if the driver
        // panics.
        for _ in 0..sends {
            let Some((ticket, handle, raw)) = lock(&self.orders.queue).sends.pop_front() else {
                break;
            };
            self.answering = Some((ticket, handle));
            let answer = match self.device.send(handle, &raw, now, wall) {
                Ok(read_back) => Answer::Applied(read_back),
                Err(sentence) => Answer::Refused(sentence),
            };
            self.answering = None;
            self.engine
                .providers()
                .answer(ticket, handle, answer, now, wall, wakes);
        }
        for _ in 0..reads {
            let Some((ticket, handle)) = lock(&self.orders.queue).reads.pop_front() else {
                break;
            };
            self.answering = Some((ticket, handle));
            let answer = match self.device.read(handle, now, wall) {
                Ok((value, quality, source_timestamp)) => Answer::Read {
                    value,
                    quality: Some(quality),
                    source_timestamp,
                },
                Err(sentence) => Answer::Refused(sentence),
            };
            self.answering = None;
            self.engine
                .providers()
                .answer(ticket, handle, answer, now, wall, wakes);
            // Publishes the other items that the device returned, and the item's value to its other
            // variables.
            self.publish(Some(handle), now, wall, wakes);
        }
        for handle in requests {
            let Some(item) = self.device.item_of(handle) else {
                continue;
            };
            if self.device.is_open() {
                self.device.request(item, now, wall);
                self.publish(None, now, wall, wakes);
            }
        }
    }

    /// Publishes the scanned values to all their variables except `except`, which already has its
    /// value.
    fn publish(&mut self, except: Option<u32>, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let (engine, caller, waiting_samples) =
            (&self.engine, &self.caller, &mut self.waiting_samples);
        self.device.publish(except, |handle, published| {
            let sample = Sample {
                handle,
                value: published.value.clone(),
                quality: published.quality,
                source_timestamp: published.source_timestamp,
            };
            let must_wait = !waiting_samples.is_empty()
                || write(engine, caller, &sample, now, wall, wakes).is_some();
            if must_wait {
                add_waiting_sample(waiting_samples, engine, sample);
            }
        });
    }

    /// Writes the waiting samples in order. If some must still wait, returns the time of the next
    /// attempt.
    fn write_waiting_samples(
        &mut self,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Option<Tick> {
        while let Some(sample) = self.waiting_samples.front() {
            if let Some(until) = write(&self.engine, &self.caller, sample, now, wall, wakes) {
                let soon = now.saturating_add(Duration::from_millis(1));
                return Some(until.min(soon));
            }
            self.waiting_samples.pop_front();
        }
        None
    }

    fn report_health(&self) {
        let health = self.device.server().health();
        if self.device.is_open() {
            let error = match health.state {
                HealthState::Good => None,
                _ => health.last_error,
            };
            let mut queue = lock(&self.orders.queue);
            queue.error = error;
            queue.is_connected = true;
        }
    }
}

/// Writes one sample. If a subscription stalls it, returns the time until which the write would
/// wait.
fn write(
    engine: &Engine,
    caller: &Caller,
    sample: &Sample,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) -> Option<Tick> {
    let Some(value) = &sample.value else {
        engine
            .providers()
            .set_quality(sample.handle, sample.quality, now, wall, wakes);
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

/// Adds a sample to the waiting samples. If there are too many, drops the sample and counts it in
/// the variable's ledger.
fn add_waiting_sample(waiting_samples: &mut VecDeque<Sample>, engine: &Engine, sample: Sample) {
    if waiting_samples.len() < WAITING_SAMPLES_MAX {
        waiting_samples.push_back(sample);
    } else if let Some(variable) = engine.variable(sample.handle) {
        variable.count_upstream_lost(1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
