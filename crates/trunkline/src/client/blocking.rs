//! The blocking client: the calling thread drives the connection while it waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::SubscriptionAccount;
use trunkline_client::{
    Batch, ClientCore, Condition, ConnectionState, Event, Found, Item, OpenOptions, Opened,
    ReadingPage, Session, Step, SubscribeOptions, VariableRef, Write, WriteCounts, WriteOutcome,
};
use trunkline_net::{Dialler, Peer, TransportUsed};
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::{Fault, Throughput};
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Contract, Reading};

use super::subscription::{Followed, take_events};
use super::verbs::{Pending, Shared};
use super::{CallError, ConnectError, ConnectOptions};
use crate::Engine;

/// A connection to an engine, usable by any number of threads. It reconnects and restores its
/// subscriptions automatically. Cloning it clones the reference.
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
}

impl Client {
    /// Begins to connect to the engine that `url` names (`tl://host[:port]`; a bare name or
    /// `tl:///` means this machine). Calls wait for the connection; [`Client::wait_connected`]
    /// verifies it.
    ///
    /// # Errors
    /// [`ConnectError`]: `url` is not a URL, or the machine has no descriptor or thread left.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(&ConnectOptions::new(url)?)
    }

    /// Begins to connect with `options`.
    ///
    /// # Errors
    /// [`ConnectError::Start`]: the machine has no descriptor or thread left.
    pub fn connect_with(options: &ConnectOptions) -> Result<Self, ConnectError> {
        Ok(Self {
            shared: Shared::start(options.dialler(), options)?,
        })
    }

    /// Waits until the connection is up.
    ///
    /// # Errors
    /// [`CallError::NotConnected`] with the cause if it is not up within `timeout`.
    pub fn wait_connected(&self, timeout: Duration) -> Result<Arc<Session>, CallError> {
        let deadline = self.shared.deadline(timeout);
        let session = self
            .shared
            .link
            .wait_until(Some(deadline), |core, _| self.shared.session(core));
        session.unwrap_or_else(|| Err(self.shared.too_late(timeout)))
    }

    /// Returns the address and identity of the other end; `None` while the connection is down.
    pub fn peer(&self) -> Option<Peer> {
        self.shared.link.peer()
    }

    /// Returns the transport of the connection; `None` while the connection is down.
    pub fn transport(&self) -> Option<TransportUsed> {
        self.shared.link.transport()
    }

    /// Returns the state of the connection, with the cause if it is down.
    pub fn state(&self) -> ConnectionState {
        self.shared.link.with(|core, _, _| core.state())
    }

    /// Opens variables. With the options it also reads and describes them in the same round trip.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer. An error about one name is in that name's result.
    pub fn open<N: AsRef<str>>(
        &self,
        names: &[N],
        options: OpenOptions,
        timeout: Duration,
    ) -> Result<Vec<Result<Opened, Fault>>, CallError> {
        self.wait(self.shared.open(names, options)?, timeout)
    }

    /// Reads the current values of variables from the engine.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn read(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Vec<Result<Reading, Fault>>, CallError> {
        self.wait(self.shared.read(variables)?, timeout)
    }

    /// Replaces the contents of `page` with the current readings of `variables`, in one block of
    /// memory. It returns the same data as [`Client::read`] without allocating a reading for each.
    /// Programs that read many variables should use it: refilling a page needs no new memory.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use trunkline::{Client, OpenOptions, ReadingPage};
    /// # let client = Client::connect("tl:///")?;
    /// # let (patience, names) = (Duration::from_secs(5), ["rig/level", "rig/flow"]);
    /// let opened = client.open(&names, OpenOptions::default(), patience)?;
    /// let mut variables = Vec::new();
    /// for one in opened {
    ///     variables.push(one?.variable);
    /// }
    /// let mut page = ReadingPage::new();
    /// client.read_page(&variables, &mut page, patience)?;
    /// for reading in page.iter() {
    ///     let reading = reading.map_err(Clone::clone)?;
    ///     println!("{:?} {}", reading.get::<f64>(), reading.quality());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Client::open`]; the page is then empty and has lost its memory.
    pub fn read_page(
        &self,
        variables: &[VariableRef],
        page: &mut ReadingPage,
        timeout: Duration,
    ) -> Result<(), CallError> {
        let room = std::mem::take(page);
        *page = self.wait(self.shared.read_page(variables, room)?, timeout)?;
        Ok(())
    }

    /// Writes values and waits for all outcomes.
    ///
    /// When `timeout` expires, the call ends all writes without an outcome. A write that was not
    /// sent is [cancelled](crate::NotTried::Cancelled) and will never be sent. A write that was
    /// sent is [unknown](WriteOutcome::Unknown), because the engine may still carry it out.
    ///
    /// # Errors
    /// [`CallError`] if none of the writes was sent, and none will be.
    pub fn write(
        &self,
        writes: impl IntoIterator<Item = Write>,
        timeout: Duration,
    ) -> Result<Vec<WriteOutcome>, CallError> {
        let batch = self.shared.link.with(|core, _, _| core.write(writes))?;
        let deadline = self.shared.deadline(timeout);
        let outcomes = self.shared.link.wait_until(Some(deadline), |core, _| {
            self.shared.check_writes(core, batch)
        });
        outcomes.unwrap_or_else(|| self.shared.give_up_writes(batch, timeout))
    }

    /// Queues writes and returns at once; [`Client::write_counts`] counts their outcomes. The
    /// writes wait for the connection for at most `life`; those not sent by then are cancelled.
    ///
    /// # Errors
    /// [`CallError::Write`] if too many writes are already waiting.
    pub fn write_untracked(
        &self,
        writes: impl IntoIterator<Item = Write>,
        life: Duration,
    ) -> Result<(), CallError> {
        self.shared.write_untracked(writes, life)
    }

    /// Returns the outcomes of all writes so far, counted.
    pub fn write_counts(&self) -> WriteCounts {
        self.shared.link.with(|core, _, _| core.write_counts())
    }

    /// Sends everything now and waits until every write queued before the call has ended. Writes
    /// that other threads queue in the meantime do not delay it. On a connection in throughput mode
    /// ([`ConnectOptions::throughput`]) it also sends what this connection has gathered for any
    /// thread, and what the engine has gathered for this client and its other clients.
    ///
    /// # Errors
    /// [`CallError`] if one of these writes has not ended after `timeout`, or there is no
    /// connection.
    pub fn flush(&self, timeout: Duration) -> Result<WriteCounts, CallError> {
        let pending = self.shared.flush()?;
        let deadline = self.shared.deadline(timeout);
        let check = |core: &mut ClientCore| self.shared.check_flush(core, &pending);
        let counts = self
            .shared
            .link
            .wait_until(Some(deadline), |core, _| check(core));
        counts.unwrap_or_else(|| {
            self.shared.forget(&pending);
            Err(self.shared.too_late(timeout))
        })
    }

    /// Asks the providers of variables for fresh values, which arrive as updates of the variables.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn request_value(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Vec<Result<(), Fault>>, CallError> {
        self.wait(self.shared.request_value(variables)?, timeout)
    }

    /// Subscribes to variables under one contract. They are opened and subscribed in one round
    /// trip, and again after every reconnection.
    ///
    /// The call does not wait for the engine. A subscription starts with the value of the variable
    /// at that moment as its first reading; earlier writes are not delivered one by one.
    ///
    /// # Errors
    /// [`CallError::Subscribe`]. An error about one name arrives as an event.
    pub fn subscribe<N: AsRef<str>>(
        &self,
        names: &[N],
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<Subscription, CallError> {
        let id = self
            .shared
            .link
            .with(|core, _, _| core.subscribe(names, contract, options))?;
        let shared = Arc::clone(&self.shared);
        Ok(Subscription(Followed { shared, id }))
    }

    /// Returns the variables whose names match `pattern`, at most `limit` of them.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the pattern is invalid.
    pub fn find(
        &self,
        pattern: &str,
        limit: Option<usize>,
        timeout: Duration,
    ) -> Result<Vec<Found>, CallError> {
        self.wait(self.shared.find(pattern, &[], limit)?, timeout)
    }

    /// Returns the variables whose names match `pattern` and whose fields satisfy all conditions,
    /// at most `limit` of them.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the pattern or a condition is invalid.
    pub fn search(
        &self,
        pattern: &str,
        conditions: &[Condition],
        limit: Option<usize>,
        timeout: Duration,
    ) -> Result<Vec<Found>, CallError> {
        self.wait(self.shared.find(pattern, conditions, limit)?, timeout)
    }

    /// Returns everything the engine knows about the variables.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn info(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Vec<Result<VariableInfo, Fault>>, CallError> {
        self.wait(self.shared.info(variables)?, timeout)
    }

    /// Explains why a variable does not update, step by step from its name to its source and on to
    /// this program. Without a connection, the connection is the only step.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    pub fn why(&self, name: &str, timeout: Duration) -> Result<Vec<Step>, CallError> {
        if let Some(steps) = self.shared.why_unconnected(name) {
            return Ok(steps);
        }
        let mut steps = self.wait(self.shared.why(name)?, timeout)?;
        steps.extend(self.shared.why_here(name));
        Ok(steps)
    }

    /// Returns the engine's description of itself.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    pub fn engine_info(&self, timeout: Duration) -> Result<EngineInfo, CallError> {
        self.wait(self.shared.engine_info()?, timeout)
    }

    /// Returns the throughput settings of both directions; `None` unless the connection gathers.
    pub fn throughput(&self) -> Option<Throughput> {
        self.shared.link.with(|core, _, _| core.throughput())
    }

    /// Closes variables that were opened; subscriptions are not affected.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn close_variables(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<(), CallError> {
        self.wait(self.shared.close_variables(variables)?, timeout)
            .map(|_| ())
    }

    /// Sends what is waiting and closes the connection. Dropping the last reference does the same.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Converts this into a client for tasks, on the same connection.
    pub fn into_async(self) -> crate::aio::Client {
        crate::aio::Client::of(self.shared)
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn wait<R>(&self, pending: Pending<R>, timeout: Duration) -> Result<R, CallError> {
        let shared = &self.shared;
        let deadline = shared.deadline(timeout);
        let answer = shared
            .link
            .wait_until(Some(deadline), |core, _| shared.check(core, &pending));
        answer.unwrap_or_else(|| shared.give_up(&pending, timeout))
    }
}

impl Engine {
    /// Returns a client of this engine over a memory pipe. It has the same verbs and the same
    /// delivery as over the network, and also sees single-process variables.
    ///
    /// # Errors
    /// [`ConnectError::Start`]: the machine has no descriptor or thread left.
    pub fn client(&self) -> Result<Client, ConnectError> {
        let server = Arc::clone(&self.inner.server);
        let options = ConnectOptions::new("tl:///")?;
        let dialler = Dialler::pipe(move || server.accept_pipe());
        Ok(Client::of(Shared::start(dialler, &options)?))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// A subscription of a client. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription(pub(super) Followed);

impl Subscription {
    /// Waits for the next event: a reading, or a change of the connection, in the order in which
    /// they happened. Returns `None` if no event arrives within `timeout`; without a timeout it
    /// waits until the client is closed.
    pub fn next(&self, timeout: Option<Duration>) -> Option<Event> {
        let deadline = timeout.map(|timeout| self.0.shared.deadline(timeout));
        self.0
            .shared
            .link
            .wait_until(deadline, |core, now| core.next_event(now, self.0.id))
    }

    /// Returns the next event if one is waiting.
    pub fn try_next(&self) -> Option<Event> {
        self.0
            .shared
            .link
            .with(|core, now, _| core.next_event(now, self.0.id))
    }

    /// Returns up to `most` waiting events in order. It waits for at least one, unless none arrives
    /// within `timeout`. The events are the same as from [`Subscription::next`], at a fraction of
    /// the cost.
    pub fn next_many(&self, most: usize, timeout: Option<Duration>) -> Vec<Event> {
        let deadline = timeout.map(|timeout| self.0.shared.deadline(timeout));
        let take = |core: &mut ClientCore, now| take_events(core, now, self.0.id, most);
        self.0
            .shared
            .link
            .wait_until(deadline, take)
            .unwrap_or_default()
    }

    /// Replaces the contents of `batch` with up to `most` waiting readings in order, and the event
    /// after them if that is not a reading. It waits for at least one of the two, and returns false
    /// if none arrives within `timeout`. For programs that take millions of readings per second:
    /// refilling a batch allocates nothing, and its readings are used in place.
    ///
    /// ```no_run
    /// # use trunkline::types::Contract;
    /// # use trunkline::{Batch, Client, SubscribeOptions};
    /// # let client = Client::connect("tl:///")?;
    /// let levels = client.subscribe(&["rig/level"], Contract::ALL, SubscribeOptions::default())?;
    /// let (mut batch, mut sum) = (Batch::new(), 0.0);
    /// while levels.next_batch(&mut batch, 1000, None) {
    ///     for reading in batch.readings() {
    ///         sum += reading.get::<f64>().unwrap_or(0.0);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_batch(&self, batch: &mut Batch, most: usize, timeout: Option<Duration>) -> bool {
        batch.clear();
        let deadline = timeout.map(|timeout| self.0.shared.deadline(timeout));
        let link = &self.0.shared.link;
        let filled = link.wait_until(deadline, |core, now| {
            core.take_batch(now, self.0.id, most, batch).then_some(())
        });
        filled.is_some()
    }

    /// Returns the client's own copy of an item's newest value, new or not, without a round trip.
    /// The reading is marked `stale` while the connection is down.
    pub fn value(&self, item: u32) -> Option<Reading> {
        self.0.value(item)
    }

    /// Returns the name of an item, and its type once it is open.
    pub fn item(&self, item: u32) -> Option<Item> {
        self.0.item(item)
    }

    /// Accounts for every update of the subscribed variables: those that arrived, what this program
    /// did with them, and those that did not arrive, by cause. `None` if the subscription is
    /// closed.
    pub fn account(&self) -> Option<SubscriptionAccount> {
        self.0.account()
    }

    /// Accounts for the updates that reached this client.
    pub fn ledger(&self) -> Option<ClientLedger> {
        self.0.ledger()
    }
}
