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

/// A connection to an engine, used by any number of threads. It comes back by itself, and so do its
/// subscriptions. Cloning it clones the reference.
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
    /// [`ConnectError`]: not a URL, or the machine has no descriptor or thread left.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(&ConnectOptions::new(url)?)
    }

    /// Begins to connect as `options` say.
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
    /// [`CallError::NotConnected`] with the cause when it is not within `timeout`.
    pub fn wait_connected(&self, timeout: Duration) -> Result<Arc<Session>, CallError> {
        let deadline = self.shared.deadline(timeout);
        let session = self
            .shared
            .link
            .wait_until(Some(deadline), |core, _| self.shared.session(core));
        session.unwrap_or_else(|| Err(self.shared.too_late(timeout)))
    }

    /// Who is at the other end of the connection, and by what it is made; `None` while it is down.
    pub fn peer(&self) -> Option<Peer> {
        self.shared.link.peer()
    }

    /// What the connection is made of; `None` while it is down.
    pub fn transport(&self) -> Option<TransportUsed> {
        self.shared.link.transport()
    }

    /// How the connection is, with its cause when it is down.
    pub fn state(&self) -> ConnectionState {
        self.shared.link.with(|core, _, _| core.state())
    }

    /// Opens variables; with the options also reads and describes them, in the same round trip.
    ///
    /// # Errors
    /// [`CallError`] when there is no answer; what is wrong with one name is in its own result.
    pub fn open<N: AsRef<str>>(
        &self,
        names: &[N],
        options: OpenOptions,
        timeout: Duration,
    ) -> Result<Vec<Result<Opened, Fault>>, CallError> {
        self.wait(self.shared.open(names, options)?, timeout)
    }

    /// Reads variables as the engine holds them now.
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

    /// Replaces what `page` has by what variables are now, in one block of memory: what
    /// [`Client::read`] gives, without readings of their own. The cheapest form for programs that
    /// read many variables: a page that is filled again and again needs no new memory.
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
    /// As [`Client::open`]; the page is empty then, and has no room.
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
    /// When `timeout` is over, the call ends all writes that have no outcome by then: one that was
    /// not sent is [cancelled](WriteOutcome::Cancelled) and never sent; one that was sent is
    /// [unknown](WriteOutcome::Unknown), because the engine may still carry it out.
    ///
    /// # Errors
    /// [`CallError`] when none of the writes was sent, and none ever will be.
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

    /// Hands writes over and returns at once; what became of them shows in
    /// [`Client::write_counts`]. They wait for the connection as long as `life`: one that is not
    /// sent by then is cancelled.
    ///
    /// # Errors
    /// [`CallError::Write`] when too many writes wait already.
    pub fn write_untracked(
        &self,
        writes: impl IntoIterator<Item = Write>,
        life: Duration,
    ) -> Result<(), CallError> {
        self.shared.write_untracked(writes, life)
    }

    /// What became of all writes so far.
    pub fn write_counts(&self) -> WriteCounts {
        self.shared.link.with(|core, _, _| core.write_counts())
    }

    /// Sends everything now and waits until every write that was handed over before has ended.
    /// Writes that other threads hand over meanwhile do not delay it. Where a connection gathers
    /// ([`ConnectOptions::throughput`]), it also sends what this connection has gathered for any
    /// thread, and what the engine has gathered for this and for its other clients.
    ///
    /// # Errors
    /// [`CallError`] when one of these writes has not ended after `timeout`, or no connection.
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

    /// Asks the providers of variables for fresh values, which show in the variables.
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

    /// Follows variables under one contract: opened and subscribed in one round trip, and again
    /// after every reconnection.
    ///
    /// The call does not wait for the engine. A variable is followed from its first reading on,
    /// which is its value at that moment: writes before it are not delivered one by one.
    ///
    /// # Errors
    /// [`CallError::Subscribe`]; what is wrong with one name comes as an event.
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

    /// The variables whose names match, at most `limit` of them.
    ///
    /// # Errors
    /// [`CallError::Fault`] for a pattern that is none.
    pub fn find(
        &self,
        pattern: &str,
        limit: Option<usize>,
        timeout: Duration,
    ) -> Result<Vec<Found>, CallError> {
        self.wait(self.shared.find(pattern, &[], limit)?, timeout)
    }

    /// The variables whose names match and for whose fields all conditions hold, at most `limit`.
    ///
    /// # Errors
    /// [`CallError::Fault`] for a pattern that is none and for a condition that makes no sense.
    pub fn search(
        &self,
        pattern: &str,
        conditions: &[Condition],
        limit: Option<usize>,
        timeout: Duration,
    ) -> Result<Vec<Found>, CallError> {
        self.wait(self.shared.find(pattern, conditions, limit)?, timeout)
    }

    /// All that the engine knows of variables.
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

    /// Why a variable does not update, step by step from its name to its source and on to this
    /// program. Where there is no connection, that is the only step.
    ///
    /// # Errors
    /// [`CallError`] when there is no answer.
    pub fn why(&self, name: &str, timeout: Duration) -> Result<Vec<Step>, CallError> {
        if let Some(steps) = self.shared.why_unconnected(name) {
            return Ok(steps);
        }
        let mut steps = self.wait(self.shared.why(name)?, timeout)?;
        steps.extend(self.shared.why_here(name));
        Ok(steps)
    }

    /// What the engine says of itself.
    ///
    /// # Errors
    /// [`CallError`] when there is no answer.
    pub fn engine_info(&self, timeout: Duration) -> Result<EngineInfo, CallError> {
        self.wait(self.shared.engine_info()?, timeout)
    }

    /// How both directions of the connection gather; `None` while they do not.
    pub fn throughput(&self) -> Option<Throughput> {
        self.shared.link.with(|core, _, _| core.throughput())
    }

    /// Gives variables back that were opened; subscriptions are not touched.
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

    /// Sends what waits and closes the connection; so does dropping the last reference.
    pub fn close(&self) {
        self.shared.close();
    }

    /// The same connection for tasks.
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
    /// A client of this engine over a pipe in memory: the same verbs and the same delivery as over
    /// the network, and single-process variables are there too.
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
    /// The next event: a reading, or a change of the connection, in the order they happened.
    /// `None` when none came within `timeout`; without one it is waited for until the client is
    /// closed.
    pub fn next(&self, timeout: Option<Duration>) -> Option<Event> {
        let deadline = timeout.map(|timeout| self.0.shared.deadline(timeout));
        self.0
            .shared
            .link
            .wait_until(deadline, |core, now| core.next_event(now, self.0.id))
    }

    /// The next event if one waits.
    pub fn try_next(&self) -> Option<Event> {
        self.0
            .shared
            .link
            .with(|core, now, _| core.next_event(now, self.0.id))
    }

    /// Up to `most` of the events that wait, in order, and at least one unless none came within
    /// `timeout`: what [`Subscription::next`] would give one by one, at a fraction of its cost.
    pub fn next_many(&self, most: usize, timeout: Option<Duration>) -> Vec<Event> {
        let deadline = timeout.map(|timeout| self.0.shared.deadline(timeout));
        let take = |core: &mut ClientCore, now| take_events(core, now, self.0.id, most);
        self.0
            .shared
            .link
            .wait_until(deadline, take)
            .unwrap_or_default()
    }

    /// Replaces what `batch` has by up to `most` readings that wait, in order, and the event behind
    /// them if it is no reading; at least one of the two, unless none came within `timeout`: then
    /// false. The form for programs that take millions of readings per second: a batch that is
    /// filled again and again allocates nothing, and its readings are looked at where they lie.
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

    /// The client's own copy of an item's newest value, whether new or not; no round trip. It says
    /// `stale` while the connection is down.
    pub fn value(&self, item: u32) -> Option<Reading> {
        self.0.value(item)
    }

    /// What is known of an item: its name, and its type once it is open.
    pub fn item(&self, item: u32) -> Option<Item> {
        self.0.item(item)
    }

    /// What became of every update of its variables: what came, what this program did with it, and
    /// what did not come, with its cause. `None` when it was closed.
    pub fn account(&self) -> Option<SubscriptionAccount> {
        self.0.account()
    }

    /// What became of the updates that reached this client.
    pub fn ledger(&self) -> Option<ClientLedger> {
        self.0.ledger()
    }
}
