//! Runs one I/O server: its scans, its orders and its publications.
//!
//! Each server has its own thread, so that a slow device delays nothing else. Writes and requests
//! of clients reach the server through a queue; its publications use the normal write path.

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

/// Maximum number of samples held back while the `stall` of a variable makes the source wait.
const HELD_MAX: usize = 65_536;
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
    /// Set once, when the thread has started.
    thread: OnceLock<Weak<Housekeeper>>,
}

#[derive(Default)]
struct Queue {
    /// The engine bounds this queue: it limits the unanswered writes of a provider.
    sends: VecDeque<(Ticket, u32, Value)>,
    /// A set: each variable waits at most once, however often it is requested.
    requests: HashSet<u32>,
    /// Reads with a waiting caller. The engine bounds them together with the sends.
    reads: VecDeque<(Ticket, u32)>,
    /// Variables to deliver from now on, each with its item name.
    binds: Vec<SourceItem>,
    error: Option<String>,
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
    /// Samples that wait for room in subscriptions, oldest first.
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
            held: VecDeque::new(),
        };
        let provider = engine
            .providers()
            .attach_source(Arc::clone(&orders) as Arc<dyn Provider>)?;
        let _already = id.set(provider);
        let turn = move |now, wall| Some(runner.turn_or_fail(now, wall));
        let thread = Housekeeper::start(clock, turn).map_err(|error| {
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
    /// Calls [`Runner::turn`]. A panic of the driver counts as a failure of the device, which is
    /// then opened again.
    fn turn_or_fail(&mut self, now: Tick, wall: Timestamp) -> Tick {
        if let Ok(due) = catch_unwind(AssertUnwindSafe(|| self.turn(now, wall))) {
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

    /// Runs all tasks that are due, and returns the time of the next turn.
    fn turn(&mut self, now: Tick, wall: Timestamp) -> Tick {
        let mut wakes = Wakes::new();
        self.take_binds(now, wall, &mut wakes);
        if let Some(Err(error)) = self.device.open_if_due(now, wall) {
            self.failed(&error, now, wall, &mut wakes);
        }
        self.carry_out_orders(now, wall, &mut wakes);
        if let Some(scanned) = self.device.scan_if_due(now, wall) {
            self.publish(None, now, wall, &mut wakes);
            if let Err(error) = scanned {
                self.failed(&error, now, wall, &mut wakes);
            }
        }
        let held_until = self.release_held(now, wall, &mut wakes);
        self.report_health();
        let due = self.device.next_due();
        held_until.map_or(due, |until| due.min(until))
    }

    /// Binds deployed or edited variables, and unbinds removed ones.
    fn take_binds(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let binds = std::mem::take(&mut lock(&self.orders.queue).binds);
        if binds.is_empty() {
            return;
        }
        for SourceItem { handle, item } in binds {
            match self.device.bind(handle, &item) {
                Some(_) if self.device.is_open() => {
                    // Opening the device published all items. This one is bound later, so it needs
                    // a request.
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

    fn failed(&self, error: &IoError, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        self.report_failure(error.to_string(), error.reason(), now, wall, wakes);
    }

    /// Makes the variables of a failed device bad until it works again.
    fn report_failure(
        &self,
        sentence: String,
        reason: Reason,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        lock(&self.orders.queue).error = Some(sentence);
        if let Some(id) = self.id.get() {
            let quality = Quality::bad(reason);
            self.engine
                .providers()
                .set_source_quality(*id, quality, now, wall, wakes);
        }
    }

    /// Carries out the orders queued so far. Later orders wait until the due scan has run.
    fn carry_out_orders(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let (sends, requests, reads) = {
            let mut queue = lock(&self.orders.queue);
            let requests = std::mem::take(&mut queue.requests);
            (queue.sends.len(), requests, queue.reads.len())
        };
        // Takes one order at a time, so that the other orders stay in the queue if the driver
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
            // Publishes the other items that the device returned, and the other variables of this
            // item.
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

    /// Writes the scanned values to every variable they feed, except `but`, which already has its
    /// value.
    fn publish(&mut self, but: Option<u32>, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let (engine, caller, held) = (&self.engine, &self.caller, &mut self.held);
        self.device.publish(but, |handle, published| {
            let sample = Sample {
                handle,
                value: published.value.clone(),
                quality: published.quality,
                source_timestamp: published.source_timestamp,
            };
            let waits =
                !held.is_empty() || write(engine, caller, &sample, now, wall, wakes).is_some();
            if waits {
                hold(held, engine, sample);
            }
        });
    }

    /// Writes the held samples in order. If some remain, returns the time of the next attempt.
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
        let health = self.device.server().health();
        if self.device.is_open() {
            let error = match health.state {
                HealthState::Good => None,
                _ => health.last_error,
            };
            lock(&self.orders.queue).error = error;
        }
    }
}

/// Writes one sample. If it has to wait, returns the time until which it waits.
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

/// Holds a sample back. If that exceeds the bound, the sample is lost, and counted in the
/// variable's ledger.
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
