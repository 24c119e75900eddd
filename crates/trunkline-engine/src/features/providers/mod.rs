//! Providers: owners of variables' values outside the engine, such as I/O servers.
//!
//! A provider publishes values and accepts writes. It receives requests outside all locks, through
//! its own queue, and answers when it can. A write waits for the answer or for its time-out, and
//! the cell never shows a value that the device has not confirmed.

mod from_consumer;
mod pending;
mod write;

use std::time::Duration;

use trunkline_types::{Moment, Quality, Reason, Tick, Timestamp, Value};

use crate::caller::Caller;
use crate::delivery::mail::{ProviderId, SourceItem, Ticket};
use crate::delivery::outbox::Wakes;
use crate::features::alias::resolve_alias;
use crate::outcome::{Attempt, Refusal, UnknownCause, WriteOutcome};
use crate::sync::Arc;
use crate::update::NoMemory;
use crate::variable::{Redirect, Variable};
use crate::write::{
    Call, Origin, SLICE, View, Write, WriteEnd, count_refused, count_unknown, requalify,
};

use self::pending::PendingWrite;
pub(crate) use self::pending::{DeviceRequest, ProviderTable, Waiting};

pub type Providers<'e> = View<'e, ProviderTable>;

/// Maximum number of unanswered writes of one provider. Further writes are refused.
pub const PROVIDER_PENDING_MAX: usize = 4096;
pub const PROVIDER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// The engine's requests to a provider. Called on the writer's thread: implementations queue the
/// request and return.
pub trait Provider: Send + Sync {
    fn name(&self) -> Arc<str>;
    /// Writes `raw` to the device behind the variable `handle`, then calls
    /// [`answer`](Providers::answer).
    fn send(&self, ticket: Ticket, handle: u32, raw: Value);
    /// Reads a fresh value of the variable `handle` from the device. With a ticket, a caller waits
    /// for it: call [`answer`](Providers::answer) with [`Answer::Read`]. Without a ticket, publish
    /// the value when it is available.
    fn request(&self, ticket: Option<Ticket>, handle: u32);
    /// Starts publishing the values of these variables, each from its named item. Called when the
    /// provider is attached or when variables are deployed, with the variables whose `source`
    /// begins with the provider's name.
    fn bind(&self, _items: &[SourceItem]) {}
    /// Returns true if the provider has the right to provide this variable. Otherwise the variable
    /// behaves as if its provider were not running.
    fn may_provide(&self, _variable: &Variable) -> bool {
        true
    }
    /// Returns a sentence that describes the provider's current failure, if any.
    fn error(&self) -> Option<String>;
    /// Returns true while the provider has a connection to its device.
    fn is_connected(&self) -> bool {
        true
    }
    /// Returns true if the provider runs in a separate process. Its faults then do not result from
    /// the engine's configuration.
    fn is_process(&self) -> bool {
        false
    }
}

/// The state of a provider that variables name as their source: an I/O server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceState {
    pub name: Arc<str>,
    pub connection: SourceConnection,
    /// The provider's current failure as a sentence. A connected provider has one if some of its
    /// items cannot be read.
    pub error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceConnection {
    Connected,
    /// The provider runs, but has no connection to its device.
    Disconnected,
    /// The provider was stopped, or the process that runs it is not connected to the engine.
    NotRunning,
}

/// The error for a name that a running provider already has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an I/O server named {name} is already running; use another name, or stop that one")]
pub struct NameTaken {
    pub name: Arc<str>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Carried out. The device now has this raw value.
    Applied(Value),
    /// Carried out. This value was read from the device, after a write or on request.
    Read {
        value: Value,
        quality: Option<Quality>,
        source_timestamp: Option<Timestamp>,
    },
    /// Carried out, but there was not enough memory for the value read from the device.
    NoMemory(NoMemory),
    /// Not carried out: there was not enough memory to send the order, so the provider never
    /// received it.
    Unsent(NoMemory),
    Refused(String),
    /// The outcome is unknown, for the reason in this sentence.
    Unknown(String),
}

/// A detached provider, some of whose variables do not show the end of the provider yet.
#[derive(Debug)]
pub(crate) struct DetachedProvider {
    id: ProviderId,
    quality: Quality,
    /// Slot from which the remaining variables must be updated.
    next: u32,
    /// Time at which the provider was detached, or at which its variables were last processed.
    moment: Moment,
}

impl Providers<'_> {
    /// Returns the state of every provider that variables name as their source.
    pub fn sources(&self) -> Vec<SourceState> {
        let named = self.table.named().into_iter();
        named
            .map(|named| SourceState {
                connection: match &named.provider {
                    None => SourceConnection::NotRunning,
                    Some(provider) if provider.is_connected() => SourceConnection::Connected,
                    Some(_) => SourceConnection::Disconnected,
                },
                error: named.provider.and_then(|provider| provider.error()),
                name: named.name,
            })
            .collect()
    }

    /// Makes `provider` the owner of these variables' values. Variables without a value stay `bad:
    /// no-value` until it publishes one.
    pub fn attach(&self, provider: Arc<dyn Provider>, handles: &[u32]) -> ProviderId {
        let index = self.table.attach(provider);
        let variables = handles
            .iter()
            .filter_map(|handle| self.core.variable(*handle));
        // An alias gets its value from its target.
        for variable in variables.filter(|variable| !variable.is_alias()) {
            variable.set_provider(Some(index));
        }
        ProviderId(index)
    }

    /// Makes `provider` the owner of every variable whose `source` is `NAME:ITEM` with its name,
    /// including variables deployed later. It receives the variables through [`Provider::bind`].
    pub fn attach_source(&self, provider: Arc<dyn Provider>) -> Result<ProviderId, NameTaken> {
        // Prevents a deployment between the two steps.
        let _change = self.core.changes.lock();
        let mut wakes = Wakes::new();
        let mut ended = self.table.ended.lock();
        let id = ProviderId(self.table.attach_named(provider)?);
        // The variables must show the end of the previous provider before they show values from
        // this one.
        if let Some(at) = ended.iter().position(|one| one.id == id)
            && let Some(mut before) = ended.remove(at)
        {
            self.mark_slice(&mut before, &mut { usize::MAX }, &mut wakes);
        }
        drop(ended);
        self.bind_sources(self.core.all_variables(), Some(id));
        Ok(id)
    }

    /// Announces a provider that a separate process will [attach](Self::attach_source). Until then
    /// its variables behave as if the provider were detached: they cannot be written.
    pub fn expect_source(&self, name: &str, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let _change = self.core.changes.lock();
        self.table.expect(name);
        let orphans = self.bind_sources(self.core.all_variables(), None);
        mark_orphans(&orphans, Moment { now, wall }, wakes);
    }

    /// Binds variables that were deployed or edited to their providers.
    pub(crate) fn deployed(&self, handles: &[u32], moment: Moment, wakes: &mut Wakes) {
        let variables = handles.iter();
        let variables = variables.filter_map(|handle| self.core.variable(*handle));
        mark_orphans(&self.bind_sources(variables, None), moment, wakes);
    }

    /// Binds variables to the providers named by their sources, or only to the provider `only`. Returns
    /// the variables whose provider is not running.
    fn bind_sources(
        &self,
        variables: impl Iterator<Item = Arc<Variable>>,
        only: Option<ProviderId>,
    ) -> Vec<Arc<Variable>> {
        let named = self.table.named();
        let mut orphans = Vec::new();
        if named.is_empty() {
            return orphans;
        }
        let mut items: Vec<Vec<SourceItem>> = named.iter().map(|_| Vec::new()).collect();
        for variable in variables {
            let properties = variable.properties();
            let (source, current) = (properties.source.as_str(), variable.provider_index());
            let found = named.iter().zip(&mut items).find_map(|(named, items)| {
                let item = source.strip_prefix(&*named.name)?.strip_prefix(':')?;
                Some((named, item, items))
            });
            if let Some((named, item, items)) = found {
                // A provider that is bound again publishes its values again, as updates.
                if only.is_some_and(|only| only.0 != named.index) {
                    continue;
                }
                let provider = named.provider.as_ref();
                if provider.is_some_and(|one| !one.may_provide(&variable)) {
                    // Without an owner, clients could write it past its source.
                    variable.set_provider(Some(self.table.withheld(&named.name)));
                    orphans.push(variable);
                    continue;
                }
                // Binding again informs the provider of the new item.
                variable.set_provider(Some(named.index));
                let (handle, item) = (variable.handle(), Box::from(item));
                match named.provider {
                    Some(_) => items.push(SourceItem { handle, item }),
                    None => orphans.push(Arc::clone(&variable)),
                }
            } else if current.is_some_and(|current| {
                named.iter().any(|named| named.index == current) || self.table.is_withheld(current)
            }) {
                // The variable's previous source was that provider.
                variable.set_provider(None);
            }
        }
        for (named, items) in named.iter().zip(items) {
            if let Some(provider) = named.provider.as_ref().filter(|_| !items.is_empty()) {
                provider.bind(&items);
            }
        }
        orphans
    }

    /// Detaches a provider. Its variables become bad for the given reason, and its unanswered
    /// writes end with an unknown outcome.
    pub fn detach(
        &self,
        id: ProviderId,
        reason: Reason,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let Some(name) = self.table.detach(id) else {
            return;
        };
        for (_, write) in self.table.take_all_of(id) {
            let cause = UnknownCause::ProviderGone {
                provider: Arc::clone(&name),
            };
            self.finish_unknown(write, cause, Moment { now, wall }, wakes);
        }
        let quality = Quality::bad(reason);
        self.table.ended.lock().push_back(DetachedProvider {
            id,
            quality,
            next: 1,
            moment: Moment { now, wall },
        });
        // Later polls mark the variables beyond the first slice.
        self.mark_ended(&mut { SLICE }, Moment { now, wall }, wakes);
    }

    /// Marks variables whose provider was detached, examining at most `budget` variables. Returns
    /// false if some remain.
    fn mark_ended(&self, budget: &mut usize, moment: Moment, wakes: &mut Wakes) -> bool {
        let mut ended = self.table.ended.lock();
        while let Some(first) = ended.front_mut() {
            first.moment = moment;
            if !self.mark_slice(first, budget, wakes) {
                return false;
            }
            ended.pop_front();
        }
        true
    }

    fn mark_slice(
        &self,
        ended: &mut DetachedProvider,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        while ended.next < self.core.variables.end() {
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            if let Some(variable) = self.core.variables.at(ended.next)
                && variable.provider_index() == Some(ended.id.0)
            {
                requalify(&variable, ended.quality, ended.moment, wakes);
            }
            ended.next += 1;
        }
        true
    }

    /// Sets the quality of all variables of a provider, for example when its device has failed.
    pub fn set_source_quality(
        &self,
        id: ProviderId,
        quality: Quality,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        for variable in self.core.all_variables() {
            if variable.provider_index() == Some(id.0) {
                requalify(&variable, quality, Moment { now, wall }, wakes);
            }
        }
    }

    /// Sets the quality of one variable, as reported by its source. The last value remains.
    pub fn set_quality(
        &self,
        handle: u32,
        quality: Quality,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        if let Some(variable) = self.core.variable(handle) {
            requalify(&variable, quality, Moment { now, wall }, wakes);
        }
    }

    /// Receives the provider's answer to a write. After the write's time-out, an answer changes
    /// only the variable's value: a value read back is correct whenever it arrives, as long as the
    /// provider is attached and owns the variable.
    pub fn answer(
        &self,
        ticket: Ticket,
        handle: u32,
        answer: Answer,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let pending = self.table.take(ticket);
        // The variable recorded with the write is more reliable than the handle supplied by the
        // provider.
        let recorded = pending.as_ref().map(|write| Arc::clone(&write.variable));
        let Some(variable) = recorded.or_else(|| self.core.variable(handle)) else {
            return;
        };
        let variable = &variable;
        let (provider, running) = self.table.get(ticket.provider.0);
        let is_owner = variable.provider_index() == Some(ticket.provider.0);
        if pending.is_none() && (running.is_none() || !is_owner) {
            return;
        }
        let is_pending = pending.is_some();
        let waiting = pending.map(|write| write.waiting).unwrap_or_default();
        let moment = Moment { now, wall };
        let is_done = matches!(
            answer,
            Answer::Applied(_) | Answer::Read { .. } | Answer::NoMemory(_)
        );
        if is_done && waiting.writer > 0 {
            variable.lock().set_put_by(waiting.writer);
        }
        let outcome = match answer {
            Answer::Applied(value) => {
                let write = Write::value(&value);
                self.read_back(write, &waiting, variable, moment, provider, wakes)
            }
            Answer::Read {
                value,
                quality,
                source_timestamp,
            } => {
                let write = Write {
                    quality,
                    source_timestamp,
                    ..Write::value(&value)
                };
                self.read_back(write, &waiting, variable, moment, provider, wakes)
            }
            Answer::NoMemory(error) => {
                read_back_without_memory(variable, moment, provider, error, wakes)
            }
            Answer::Refused(_) | Answer::Unknown(_) | Answer::Unsent(_) if !is_pending => return,
            Answer::Unsent(error) => count_refused(variable, Refusal::NoMemory(error)),
            Answer::Unknown(why) => {
                count_unknown(variable, UnknownCause::Provider { provider, why })
            }
            Answer::Refused(reason) => {
                count_refused(variable, Refusal::Provider { provider, reason })
            }
        };
        self.report(&waiting, variable, moment, outcome, wakes);
    }

    /// Publishes the current value of the device. Nothing can delay it: a full `all` subscription
    /// ends, whatever the variable's `stall` setting.
    fn read_back(
        &self,
        mut write: Write<'_>,
        waiting: &Waiting,
        variable: &Variable,
        moment: Moment,
        provider: Arc<str>,
        wakes: &mut Wakes,
    ) -> WriteOutcome {
        write.origin = Origin::SourceRaw;
        let engine = Caller::engine();
        let completion = waiting.completion.as_ref();
        let named = completion.and_then(|completion| completion.named.as_deref());
        let redirect = named.map(Redirect::from);
        let call = Call {
            may_stall: false,
            completion,
            observer: waiting.observer.as_deref(),
            redirect: redirect.as_ref(),
            ..Call::of(&engine, moment, variable, &write)
        };
        match self.core.put(&call, wakes) {
            Ok(Attempt::Done(outcome)) => outcome,
            Ok(Attempt::WouldBlock { .. } | Attempt::Pending) => {
                let why = "it could not be published".to_owned();
                count_unknown(variable, UnknownCause::ReadBack { provider, why })
            }
            Err(Refusal::NoMemory(error)) => {
                read_back_without_memory(variable, moment, provider, error, wakes)
            }
            Err(refusal) => {
                let why = refusal.to_string();
                count_unknown(variable, UnknownCause::ReadBack { provider, why })
            }
        }
    }

    /// Reports the outcome of a write to all callers that wait for it. An applied write was already
    /// reported at its commit.
    fn report(
        &self,
        waiting: &Waiting,
        variable: &Variable,
        moment: Moment,
        outcome: WriteOutcome,
        wakes: &mut Wakes,
    ) {
        if let Some(observer) = &waiting.observer {
            let end = WriteEnd {
                variable,
                moment,
                old: &variable.update(),
                new: None,
                outcome: &outcome,
            };
            observer.ended(self.core, &end, wakes);
        }
        if let Some(completion) = &waiting.completion
            && !matches!(outcome, WriteOutcome::Applied(_))
        {
            completion.end(outcome, wakes);
        }
    }

    /// Asks the variable's provider for a fresh value. Returns false if the variable has no running
    /// provider.
    pub fn request(&self, handle: u32) -> bool {
        let Some(variable) = self
            .core
            .variable(handle)
            .map(|named| resolve_alias(self.core, &named))
        else {
            return false;
        };
        let index = variable.provider_index();
        let provider = index.and_then(|index| self.table.get(index).1);
        if let Some(provider) = &provider {
            provider.request(None, variable.handle());
        }
        provider.is_some()
    }

    /// Returns true while a write or a request is waiting for its provider's answer. A write that
    /// has timed out must no longer be sent to the device.
    pub fn awaits_answer(&self, ticket: Ticket) -> bool {
        self.table.is_pending(ticket)
    }

    /// Ends writes whose provider has taken too long, and marks variables whose provider was
    /// detached, one slice of each. Returns the time of the next call, which is the current time if
    /// work remains.
    pub(crate) fn poll(&self, moment: Moment, wakes: &mut Wakes) -> Option<Tick> {
        let due = self.table.take_due(moment.now, SLICE);
        let took_all = due.len() < SLICE;
        for (ticket, write) in due {
            let (provider, _) = self.table.get(ticket.provider.0);
            let cause = UnknownCause::ProviderTimedOut { provider };
            self.finish_unknown(write, cause, moment, wakes);
        }
        match took_all && self.mark_ended(&mut { SLICE }, moment, wakes) {
            true => self.table.next_deadline(),
            false => Some(moment.now),
        }
    }

    fn finish_unknown(
        &self,
        write: PendingWrite,
        cause: UnknownCause,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let variable = &write.variable;
        let outcome = count_unknown(variable, cause);
        self.report(&write.waiting, variable, moment, outcome, wakes);
    }
}

/// Marks variables that have never had a value as bad, because their provider is not running.
/// Retained and initial values have their own qualities.
fn mark_orphans(orphans: &[Arc<Variable>], moment: Moment, wakes: &mut Wakes) {
    for variable in orphans.iter().filter(|variable| variable.sequence() == 0) {
        requalify(variable, Quality::bad(Reason::ProviderGone), moment, wakes);
    }
}

/// Marks a variable as bad, because there is not enough memory to show the device's current value.
/// Counts the write as unknown.
fn read_back_without_memory(
    variable: &Variable,
    moment: Moment,
    provider: Arc<str>,
    error: NoMemory,
    wakes: &mut Wakes,
) -> WriteOutcome {
    let quality = Quality::bad(Reason::MemoryFull);
    requalify(variable, quality, moment, wakes);
    count_unknown(variable, UnknownCause::ReadBackMemory { provider, error })
}
