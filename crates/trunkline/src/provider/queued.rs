//! An I/O server whose program is not called: it publishes values when it has them, and takes orders
//! from a queue.
//!
//! ```text
//!  program --publish------> last values -----------------------------------> engine
//!          <--next_order--- orders <---- thread "trunkline-io" <------------ engine
//!          --answer-------------------------------------------------------> engine
//! ```
//!
//! The thread follows the engine: which variables are bound, and which orders arrive. It also answers
//! orders that the program does not answer in time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_client::{ProviderEvent, ProviderReply, Publication};
use trunkline_io::{ItemId, Published};
use trunkline_types::{DataType, LibraryDefinition, Quality, Reason, Tick, Timestamp, Value};

use super::link::{self, Counts, ProviderLink, WakeReason};
use super::raw::{applied, bad, publication};
use super::{ProviderStatus, State};
use crate::client::verbs::Shared;
use crate::client::{ConnectError, ConnectOptions};

/// Settings of a [`QueuedProvider`].
#[derive(Clone, Debug)]
pub struct QueuedProviderOptions {
    /// The name that `source = "NAME:ITEM"` refers to.
    pub name: String,
    /// Names of the items, each once. Their places are their numbers.
    pub items: Vec<String>,
    /// Libraries to deploy at the engine. They replace versions that are already deployed.
    pub libraries: Vec<LibraryDefinition>,
    /// Longest time from the arrival of an order to the program's answer.
    pub order_timeout: Duration,
    /// True if the program reads the device when a client asks for a fresh value. Otherwise, the client
    /// gets the last published value.
    pub takes_requests: bool,
}

/// What the engine wants of the program.
#[derive(Clone, PartialEq, Debug)]
pub struct Order {
    /// Number of the order, for [`QueuedProvider::answer`].
    pub number: u64,
    /// The item.
    pub item: ItemId,
    /// The raw value that a client has written; `None` is a request for a fresh value.
    pub value: Option<Value>,
}

/// The program's answer to an order.
#[derive(Clone, PartialEq, Debug)]
pub enum OrderAnswer {
    /// The order was carried out.
    Done,
    /// The order was carried out, and the device has this value now.
    Has {
        /// The raw value.
        value: Value,
        /// Its quality.
        quality: Quality,
        /// Time of the measurement; `None` is the current time.
        source_timestamp: Option<Timestamp>,
    },
    /// The device keeps its value, for this reason, which says what to do.
    Refused(String),
    /// It is unknown whether the device has the value, for this reason.
    Unknown(String),
}

/// The reason why the provider did not do what its program asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueuedProviderError {
    /// [`QueuedProvider::stop`] was called, or the system ended the provider.
    #[error("the I/O server was closed")]
    Closed,
    /// There is no such item.
    #[error("there is no item {item}; this I/O server has {count}, numbered from 0")]
    UnknownItem {
        /// Number of the item.
        item: u32,
        /// Number of items.
        count: usize,
    },
    /// Nobody waits for this answer.
    #[error(
        "nobody waits for the answer to order {0} any more: it was answered already, or too late; if \
         the device has the value, publish it"
    )]
    LateAnswer(u64),
}

/// A running I/O server. Dropping it stops it, and its variables become bad.
pub struct QueuedProvider {
    exchange: Arc<Exchange>,
    thread: Option<JoinHandle<()>>,
}

/// Maximum number of orders that wait for the program. The engine gets a refusal for further ones.
const ORDERS_MAX: usize = 4096;

/// Data that the program and the thread exchange.
struct Exchange {
    shared: Arc<Shared>,
    state: Arc<State>,
    /// Numbers of the items, by name.
    items: HashMap<String, usize>,
    takes_requests: bool,
    order_timeout: Duration,
    exchanged: Mutex<Exchanged>,
    changed: Condvar,
}

#[derive(Default)]
struct Exchanged {
    /// The variables of the engine, by handle.
    bound: HashMap<u32, Bound>,
    /// The handles of each item's variables.
    handles: Vec<Vec<u32>>,
    /// Variables whose item does not exist, with the name of the item.
    missing: BTreeMap<u32, String>,
    /// The last value of each item.
    last: Vec<Option<Published>>,
    /// Numbers of the orders that the program has not taken.
    waiting: VecDeque<u64>,
    /// Orders without an answer. Numbers ascend with the deadlines.
    unanswered: BTreeMap<u64, Unanswered>,
    orders_issued: u64,
    is_closed: bool,
}

struct Bound {
    item: usize,
    data_type: DataType,
}

struct Unanswered {
    ticket: u64,
    handle: u32,
    item: usize,
    value: Option<Value>,
    deadline: Tick,
    is_taken: bool,
}

impl QueuedProvider {
    /// Starts an I/O server in this process. The engine need not be running: the provider connects as
    /// soon as it is, and reconnects after a lost connection.
    ///
    /// # Errors
    /// [`ConnectError`]: the system cannot provide another descriptor or thread.
    pub fn start(
        engine: &ConnectOptions,
        options: QueuedProviderOptions,
    ) -> Result<Self, ConnectError> {
        let shared = Shared::start(engine.dialler(), engine)?;
        let state = Arc::new(State::default());
        let count = options.items.len();
        let exchange = Arc::new(Exchange {
            shared: Arc::clone(&shared),
            state: Arc::clone(&state),
            items: options.items.into_iter().zip(0..).collect(),
            takes_requests: options.takes_requests,
            order_timeout: options.order_timeout,
            exchanged: Mutex::new(Exchanged {
                handles: vec![Vec::new(); count],
                last: vec![None; count],
                ..Exchanged::default()
            }),
            changed: Condvar::new(),
        });
        let link = ProviderLink::new(Arc::clone(&shared), state, options.libraries);
        shared.link.with(|core, _, _| core.provide(&options.name));
        let follower = Arc::clone(&exchange);
        let thread = thread::Builder::new()
            .name("trunkline-io".to_owned())
            .spawn(move || follower.follow(link))
            .map_err(ConnectError::Thread)?;
        Ok(Self {
            exchange,
            thread: Some(thread),
        })
    }

    /// Publishes values: each reaches all variables of its item at once. While there is no connection,
    /// the last value of each item is kept, and delivered once there is one. A value that a variable's
    /// type cannot hold makes that variable bad.
    ///
    /// # Errors
    /// [`QueuedProviderError::UnknownItem`]; then nothing is published.
    /// [`QueuedProviderError::Closed`].
    pub fn publish(&self, values: &[Published]) -> Result<(), QueuedProviderError> {
        for published in values {
            self.exchange.check_item(published.item)?;
        }
        let mut exchanged = self.exchange.lock();
        if exchanged.is_closed {
            return Err(QueuedProviderError::Closed);
        }
        let mut publications = Vec::with_capacity(values.len());
        for published in values {
            exchanged.record(published, None, &mut publications);
        }
        // Within the lock, so that values reach the engine in the order of `last`.
        link::publish(&self.exchange.shared, publications);
        Ok(())
    }

    /// Returns the last value of an item, and its quality; `None` if it was never published.
    pub fn last(&self, item: ItemId) -> Option<Published> {
        self.exchange.lock().last.get(item.index())?.clone()
    }

    /// Waits for the next order, and takes it. With `None`, waits without limit; returns `None` at the
    /// timeout.
    ///
    /// # Errors
    /// [`QueuedProviderError::Closed`].
    pub fn next_order(
        &self,
        timeout: Option<Duration>,
    ) -> Result<Option<Order>, QueuedProviderError> {
        self.wait_order(timeout, Exchanged::take_order)
    }

    /// As [`next_order`](Self::next_order), but leaves the order in the queue.
    ///
    /// # Errors
    /// [`QueuedProviderError::Closed`].
    pub fn peek_order(
        &self,
        timeout: Option<Duration>,
    ) -> Result<Option<Order>, QueuedProviderError> {
        self.wait_order(timeout, Exchanged::peek_order)
    }

    /// Takes an order from the queue that [`peek_order`](Self::peek_order) has returned. Returns false if
    /// another thread has taken it, or if its time is over.
    pub fn take_order(&self, number: u64) -> bool {
        self.exchange.lock().take(number)
    }

    fn wait_order(
        &self,
        timeout: Option<Duration>,
        first: impl Fn(&mut Exchanged) -> Option<Order>,
    ) -> Result<Option<Order>, QueuedProviderError> {
        let clock = &self.exchange.shared.clock;
        let deadline = timeout.map(|timeout| clock.now().saturating_add(timeout));
        let mut exchanged = self.exchange.lock();
        loop {
            if exchanged.is_closed {
                return Err(QueuedProviderError::Closed);
            }
            if let Some(order) = first(&mut exchanged) {
                return Ok(Some(order));
            }
            let changed = &self.exchange.changed;
            exchanged = match deadline {
                None => changed
                    .wait(exchanged)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.since(clock.now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    let waited = changed.wait_timeout(exchanged, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Answers an order. Orders may be answered in any order and by any thread.
    ///
    /// # Errors
    /// [`QueuedProviderError::LateAnswer`]: the client has got another answer already.
    pub fn answer(&self, number: u64, answer: OrderAnswer) -> Result<(), QueuedProviderError> {
        let mut exchanged = self.exchange.lock();
        let order = exchanged
            .unanswered
            .remove(&number)
            .ok_or(QueuedProviderError::LateAnswer(number))?;
        let mut publications = Vec::new();
        let reply = exchanged.reply(&order, answer, &mut publications);
        link::publish(&self.exchange.shared, publications);
        link::answer(&self.exchange.shared, order.ticket, reply);
        Ok(())
    }

    /// Returns the current state.
    pub fn status(&self) -> ProviderStatus {
        self.exchange.state.status()
    }

    /// Waits until the state differs from `known`. Returns `None` once the provider is
    /// [stopped](Self::stop).
    pub fn wait_status(&self, known: &ProviderStatus) -> Option<ProviderStatus> {
        self.exchange.state.wait(known)
    }

    /// Returns the number of values that were dropped because the connection was too slow, and of those
    /// that the engine refused.
    pub fn losses(&self) -> (u64, u64) {
        let link = &self.exchange.shared.link;
        link.with(|core, _, _| core.provider_losses())
    }

    /// Stops the provider without waiting for its thread. Waiting calls end.
    pub fn stop(&self) {
        self.exchange.close();
        self.exchange.state.stop();
        self.exchange.shared.link.wake_waiters();
    }
}

impl Drop for QueuedProvider {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // The result is ignored, because a thread that panicked has ended as well.
            let _ended = thread.join();
        }
        self.exchange.shared.close();
    }
}

impl fmt::Debug for QueuedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedProvider")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, Exchanged> {
        self.exchanged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn check_item(&self, item: ItemId) -> Result<(), QueuedProviderError> {
        let count = self.items.len();
        match item.index() < count {
            true => Ok(()),
            false => Err(QueuedProviderError::UnknownItem {
                item: item.0,
                count,
            }),
        }
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Follows the engine until the provider is stopped.
    fn follow(&self, mut link: ProviderLink) {
        while link.is_running() {
            let due = self.end_late_orders();
            let exchanged = self.lock();
            let missing_item = exchanged.missing.values().next().cloned();
            let counts = Counts {
                variables: exchanged.bound.len(),
                missing: exchanged.missing.len(),
                missing_item: missing_item.as_deref(),
            };
            drop(exchanged);
            let reason = link.wait(due, &counts);
            if let Some(WakeReason::Event(event)) = reason {
                self.handle_event(event, &mut link);
            }
        }
        self.close();
        link.close();
    }

    fn handle_event(&self, event: ProviderEvent, link: &mut ProviderLink) {
        match event {
            ProviderEvent::Provided => link.handle_provided(),
            ProviderEvent::Refused(fault) => link.handle_refused(fault),
            ProviderEvent::Disconnected => {
                self.lock().unbind_all();
                link.handle_disconnected();
            }
            ProviderEvent::Bind {
                handle,
                data_type,
                item,
                ..
            } => self.bind(handle, data_type, &item),
            ProviderEvent::Unbind { handle } => self.lock().unbind(handle),
            ProviderEvent::Write {
                ticket,
                handle,
                value,
            } => self.begin_order(ticket, handle, Some(value)),
            ProviderEvent::Read { ticket, handle } => self.begin_order(ticket, handle, None),
        }
    }

    fn bind(&self, handle: u32, data_type: DataType, name: &str) {
        let mut exchanged = self.lock();
        exchanged.unbind(handle);
        let first = match self.items.get(name) {
            Some(&item) => {
                let last = exchanged.last.get(item).cloned().flatten();
                let first = match last {
                    Some(last) => publication(handle, &last, &data_type),
                    // The variable may still have a value from before.
                    None => bad(handle, Reason::NotConnected),
                };
                exchanged.bound.insert(handle, Bound { item, data_type });
                if let Some(handles) = exchanged.handles.get_mut(item) {
                    handles.push(handle);
                }
                first
            }
            None => {
                exchanged.missing.insert(handle, name.to_owned());
                bad(handle, Reason::VariableMissing)
            }
        };
        link::publish(&self.shared, vec![first]);
    }

    /// Puts an order of the engine into the queue, or answers it at once.
    fn begin_order(&self, ticket: u64, handle: u32, value: Option<Value>) {
        let mut exchanged = self.lock();
        if let Some(reply) = self.immediate_reply(&exchanged, handle, value.is_none()) {
            drop(exchanged);
            link::answer(&self.shared, ticket, reply);
            return;
        }
        let item = exchanged.bound.get(&handle).map_or(0, |bound| bound.item);
        exchanged.orders_issued += 1;
        let number = exchanged.orders_issued;
        let deadline = self.shared.clock.now().saturating_add(self.order_timeout);
        exchanged.unanswered.insert(
            number,
            Unanswered {
                ticket,
                handle,
                item,
                value,
                deadline,
                is_taken: false,
            },
        );
        exchanged.waiting.push_back(number);
        drop(exchanged);
        self.changed.notify_one();
    }

    /// Returns the answer to an order that the program need not see.
    fn immediate_reply(
        &self,
        exchanged: &Exchanged,
        handle: u32,
        is_request: bool,
    ) -> Option<ProviderReply> {
        let refused = |sentence: &str| Some(ProviderReply::Refused(sentence.to_owned()));
        let Some(bound) = exchanged.bound.get(&handle) else {
            return match exchanged.missing.get(&handle) {
                Some(item) => refused(&format!(
                    "it has no item {item}; correct the variable's `source`"
                )),
                None => refused("the engine has not bound this variable to it"),
            };
        };
        if is_request && !self.takes_requests {
            let last = exchanged.last.get(bound.item)?.as_ref();
            return match last.and_then(|last| Some((last.value.as_ref()?, last))) {
                Some((value, last)) => Some(applied(
                    value,
                    &bound.data_type,
                    last.quality,
                    last.source_timestamp,
                )),
                None => refused("its program has not published a value of this item"),
            };
        }
        match exchanged.waiting.len() < ORDERS_MAX {
            true => None,
            false => {
                refused("its program does not take orders, and too many are waiting; try again")
            }
        }
    }

    /// Answers orders whose time is over. Returns the next deadline.
    fn end_late_orders(&self) -> Option<Tick> {
        let now = self.shared.clock.now();
        let mut exchanged = self.lock();
        loop {
            let (number, order) = exchanged.unanswered.first_key_value()?;
            if order.deadline > now {
                return Some(order.deadline);
            }
            let (number, ticket, is_taken) = (*number, order.ticket, order.is_taken);
            exchanged.unanswered.remove(&number);
            exchanged.waiting.retain(|waiting| *waiting != number);
            let reply = match is_taken {
                true => ProviderReply::Unknown(
                    "its program took the order and did not answer in time".to_owned(),
                ),
                false => ProviderReply::Refused(
                    "its program does not take orders; it is busy or hangs".to_owned(),
                ),
            };
            link::answer(&self.shared, ticket, reply);
        }
    }
}

impl Exchanged {
    fn unbind(&mut self, handle: u32) {
        self.missing.remove(&handle);
        let bound = self.bound.remove(&handle);
        let handles = bound.and_then(|bound| self.handles.get_mut(bound.item));
        if let Some(handles) = handles {
            handles.retain(|other| *other != handle);
        }
    }

    /// Forgets the variables, and the orders, which belong to the connection that was lost.
    fn unbind_all(&mut self) {
        self.bound.clear();
        self.missing.clear();
        self.handles.iter_mut().for_each(Vec::clear);
        self.waiting.clear();
        self.unanswered.clear();
    }

    /// Records a value, and adds the publications for the variables of its item, except `except`.
    fn record(
        &mut self,
        published: &Published,
        except: Option<u32>,
        publications: &mut Vec<Publication>,
    ) {
        let item = published.item.index();
        let handles = self.handles.get(item).into_iter().flatten();
        for handle in handles.filter(|handle| Some(**handle) != except) {
            if let Some(bound) = self.bound.get(handle) {
                publications.push(publication(*handle, published, &bound.data_type));
            }
        }
        let Some(last) = self.last.get_mut(item) else {
            return;
        };
        match last {
            // A failure keeps the last value.
            Some(last) if published.value.is_none() => last.quality = published.quality,
            last => *last = Some(published.clone()),
        }
    }

    fn take_order(&mut self) -> Option<Order> {
        let order = self.peek_order()?;
        self.take(order.number);
        Some(order)
    }

    fn peek_order(&mut self) -> Option<Order> {
        let number = *self.waiting.front()?;
        let order = self.unanswered.get(&number)?;
        Some(Order {
            number,
            item: ItemId(order.item as u32),
            value: order.value.clone(),
        })
    }

    fn take(&mut self, number: u64) -> bool {
        let Some(place) = self.waiting.iter().position(|waiting| *waiting == number) else {
            return false;
        };
        self.waiting.remove(place);
        if let Some(order) = self.unanswered.get_mut(&number) {
            order.is_taken = true;
        }
        true
    }

    /// Returns the reply to an order. Other variables of its item get the value as well.
    fn reply(
        &mut self,
        order: &Unanswered,
        answer: OrderAnswer,
        publications: &mut Vec<Publication>,
    ) -> ProviderReply {
        let item = ItemId(order.item as u32);
        let published = match answer {
            OrderAnswer::Refused(sentence) => return ProviderReply::Refused(sentence),
            OrderAnswer::Unknown(sentence) => return ProviderReply::Unknown(sentence),
            OrderAnswer::Has {
                value,
                quality,
                source_timestamp,
            } => Published {
                item,
                value: Some(value),
                quality,
                source_timestamp,
            },
            OrderAnswer::Done => match &order.value {
                Some(value) => Published {
                    item,
                    value: Some(value.clone()),
                    quality: Quality::GOOD,
                    source_timestamp: None,
                },
                None => match self.last.get(order.item).cloned().flatten() {
                    Some(last) => last,
                    None => {
                        let sentence = "its program has not published a value of this item";
                        return ProviderReply::Refused(sentence.to_owned());
                    }
                },
            },
        };
        self.record(&published, Some(order.handle), publications);
        let Some(bound) = self.bound.get(&order.handle) else {
            return ProviderReply::Unknown(
                "the variable was bound to another item meanwhile".to_owned(),
            );
        };
        match &published.value {
            Some(value) => applied(
                value,
                &bound.data_type,
                published.quality,
                published.source_timestamp,
            ),
            None => ProviderReply::Refused("its device returned no value for this item".to_owned()),
        }
    }
}
