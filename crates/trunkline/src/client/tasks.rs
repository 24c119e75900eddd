//! The client for tasks of any executor: the same verbs on the same connection, waiting with
//! wakers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::SubscriptionAccount;
use trunkline_client::{
    Batch, ClientCore, Condition, ConnectionState, Event, Found, Item, OpenOptions, Opened,
    ReadingPage, Session, Step, SubscribeOptions, VariableRef, Write, WriteBatchId, WriteCounts,
    WriteOutcome,
};
use trunkline_net::Peer;
use trunkline_proto::Fault;
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::info::VariableInfo;
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Contract, Reading};

use super::subscription::{Followed, take_events};
use super::verbs::{Pending, Shared};
use super::{CallError, ConnectError, ConnectOptions};

/// A connection to an engine for tasks; see the blocking [`Client`](crate::Client) for each verb.
///
/// # Cancel safety
/// Dropping a call has the effect of its timeout. A request that was not sent is cancelled and will
/// never be sent. A request that was sent may still be carried out; its answer is discarded on
/// arrival.
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
}

/// Ends the writes of a dropped call.
struct EndWrites<'a> {
    shared: &'a Shared,
    batch: WriteBatchId,
}

impl Drop for EndWrites<'_> {
    fn drop(&mut self) {
        // Does nothing if the outcomes were taken.
        let Self { shared, batch } = self;
        shared.link.with(|core, _, _| core.end_writes(*batch));
    }
}

/// Abandons a request if its call is dropped before the answer.
struct Abandon<'a, R> {
    shared: &'a Shared,
    pending: Pending<R>,
    answered: bool,
}

impl<R> Drop for Abandon<'_, R> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.forget(&self.pending);
        }
    }
}

impl Client {
    /// As [`Client::connect`](crate::Client::connect); begins to connect and returns at once.
    ///
    /// # Errors
    /// [`ConnectError`]: `url` is not a URL, or the machine has no descriptor or thread left.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(&ConnectOptions::new(url)?)
    }

    /// As [`Client::connect_with`](crate::Client::connect_with).
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
    pub async fn wait_connected(&self, timeout: Duration) -> Result<Arc<Session>, CallError> {
        let shared = &self.shared;
        let deadline = shared.deadline(timeout);
        let session = shared
            .link
            .wait(Some(deadline), |core, _| shared.session(core))
            .await;
        session.unwrap_or_else(|| Err(shared.too_late(timeout)))
    }

    /// As [`Client::peer`](crate::Client::peer).
    pub fn peer(&self) -> Option<Peer> {
        self.shared.link.peer()
    }

    /// As [`Client::transport`](crate::Client::transport).
    pub fn transport(&self) -> Option<trunkline_net::TransportUsed> {
        self.shared.link.transport()
    }

    /// Returns the state of the connection, with the cause if it is down.
    pub fn state(&self) -> ConnectionState {
        self.shared.link.with(|core, _, _| core.state())
    }

    /// As [`Client::open`](crate::Client::open).
    ///
    /// # Errors
    /// [`CallError`] if there is no answer. An error about one name is in that name's result.
    pub async fn open<N: AsRef<str>>(
        &self,
        names: &[N],
        options: OpenOptions,
        timeout: Duration,
    ) -> Result<Vec<Result<Opened, Fault>>, CallError> {
        let pending = self.shared.open(names, options)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::read`](crate::Client::read).
    ///
    /// # Errors
    /// As [`Client::open`].
    pub async fn read(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Vec<Result<Reading, Fault>>, CallError> {
        let pending = self.shared.read(variables)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::read_page`](crate::Client::read_page).
    ///
    /// # Errors
    /// As [`Client::open`]; the page is then empty, and also after a call that was dropped.
    pub async fn read_page(
        &self,
        variables: &[VariableRef],
        page: &mut ReadingPage,
        timeout: Duration,
    ) -> Result<(), CallError> {
        let room = std::mem::take(page);
        let pending = self.shared.read_page(variables, room)?;
        *page = self.wait(pending, timeout).await?;
        Ok(())
    }

    /// As [`Client::write`](crate::Client::write).
    ///
    /// # Errors
    /// As there.
    pub async fn write(
        &self,
        writes: impl IntoIterator<Item = Write>,
        timeout: Duration,
    ) -> Result<Vec<WriteOutcome>, CallError> {
        let shared = &self.shared;
        let batch = shared.link.with(|core, _, _| core.write(writes))?;
        let deadline = shared.deadline(timeout);
        let _call = EndWrites { shared, batch };
        let outcomes = shared
            .link
            .wait(Some(deadline), |core, _| shared.check_writes(core, batch))
            .await;
        outcomes.unwrap_or_else(|| shared.give_up_writes(batch, timeout))
    }

    /// As [`Client::write_untracked`](crate::Client::write_untracked); never waits.
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

    /// As [`Client::request_value`](crate::Client::request_value).
    ///
    /// # Errors
    /// As [`Client::open`].
    pub async fn request_value(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Vec<Result<(), Fault>>, CallError> {
        let pending = self.shared.request_value(variables)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::subscribe`](crate::Client::subscribe); never waits.
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

    /// As [`Client::find`](crate::Client::find).
    ///
    /// # Errors
    /// [`CallError::Fault`] if the pattern is invalid.
    pub async fn find(
        &self,
        pattern: &str,
        limit: Option<usize>,
        timeout: Duration,
    ) -> Result<Vec<Found>, CallError> {
        let pending = self.shared.find(pattern, &[], limit)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::search`](crate::Client::search).
    ///
    /// # Errors
    /// As there.
    pub async fn search(
        &self,
        pattern: &str,
        conditions: &[Condition],
        limit: Option<usize>,
        timeout: Duration,
    ) -> Result<Vec<Found>, CallError> {
        let pending = self.shared.find(pattern, conditions, limit)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::info`](crate::Client::info).
    ///
    /// # Errors
    /// As [`Client::open`].
    pub async fn info(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Vec<Result<VariableInfo, Fault>>, CallError> {
        let pending = self.shared.info(variables)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::why`](crate::Client::why).
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    pub async fn why(&self, name: &str, timeout: Duration) -> Result<Vec<Step>, CallError> {
        if let Some(steps) = self.shared.why_unconnected(name) {
            return Ok(steps);
        }
        let pending = self.shared.why(name)?;
        let mut steps = self.wait(pending, timeout).await?;
        steps.extend(self.shared.why_here(name));
        Ok(steps)
    }

    /// As [`Client::engine_info`](crate::Client::engine_info).
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    pub async fn engine_info(&self, timeout: Duration) -> Result<EngineInfo, CallError> {
        let pending = self.shared.engine_info()?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::flush`](crate::Client::flush).
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    pub async fn flush(&self, timeout: Duration) -> Result<WriteCounts, CallError> {
        let pending = self.shared.flush()?;
        let too_late = |shared: &Shared, pending: &Pending<()>| {
            shared.forget(pending);
            Err(shared.too_late(timeout))
        };
        self.wait_for(pending, timeout, Shared::check_flush, too_late)
            .await
    }

    /// As [`Client::close_variables`](crate::Client::close_variables).
    ///
    /// # Errors
    /// As [`Client::open`].
    pub async fn close_variables(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<(), CallError> {
        let pending = self.shared.close_variables(variables)?;
        self.wait(pending, timeout).await.map(|_| ())
    }

    /// As [`Client::close`](crate::Client::close); never waits for the engine.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Converts this into a blocking client, on the same connection.
    pub fn into_blocking(self) -> crate::Client {
        crate::Client::of(self.shared)
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) async fn wait<R>(
        &self,
        pending: Pending<R>,
        timeout: Duration,
    ) -> Result<R, CallError> {
        let give_up = |shared: &Shared, pending: &Pending<R>| shared.give_up(pending, timeout);
        self.wait_for(pending, timeout, Shared::check, give_up)
            .await
    }

    async fn wait_for<R, A>(
        &self,
        pending: Pending<R>,
        timeout: Duration,
        check: impl Fn(&Shared, &mut ClientCore, &Pending<R>) -> Option<Result<A, CallError>>,
        give_up: impl FnOnce(&Shared, &Pending<R>) -> Result<A, CallError>,
    ) -> Result<A, CallError> {
        let shared = &*self.shared;
        let deadline = shared.deadline(timeout);
        let mut call = Abandon {
            shared,
            pending,
            answered: false,
        };
        let answer = shared
            .link
            .wait(Some(deadline), |core, _| check(shared, core, &call.pending))
            .await;
        call.answered = answer.is_some();
        answer.unwrap_or_else(|| give_up(shared, &call.pending))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// A subscription for tasks. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription(pub(super) Followed);

impl Subscription {
    /// Waits for the next event, in the order in which they happened. Returns `None` once the
    /// client is closed.
    ///
    /// # Cancel safety
    /// No event is lost if the call is dropped.
    pub async fn next(&self) -> Option<Event> {
        self.0
            .shared
            .link
            .wait(None, |core, now| core.next_event(now, self.0.id))
            .await
    }

    /// Waits for events and returns up to `most` of them, at least one. Returns none once the
    /// client is closed.
    ///
    /// # Cancel safety
    /// No event is lost if the call is dropped.
    pub async fn next_many(&self, most: usize) -> Vec<Event> {
        let take = |core: &mut ClientCore, now| take_events(core, now, self.0.id, most);
        let link = &self.0.shared.link;
        link.wait(None, take).await.unwrap_or_default()
    }

    /// As [`Subscription::next_batch`](crate::Subscription::next_batch); returns false once the
    /// client is closed.
    ///
    /// # Cancel safety
    /// No reading is lost if the call is dropped.
    pub async fn next_batch(&self, batch: &mut Batch, most: usize) -> bool {
        batch.clear();
        let link = &self.0.shared.link;
        let filled = link.wait(None, |core, now| {
            core.take_batch(now, self.0.id, most, batch).then_some(())
        });
        filled.await.is_some()
    }

    /// Returns the client's own copy of an item's newest value; see the blocking form.
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
