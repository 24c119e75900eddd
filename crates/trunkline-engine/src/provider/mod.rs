//! Providers: whoever owns a variable's value outside the engine, such as an I/O server.
//!
//! A provider publishes values and is asked to take them. It is asked outside every lock through a
//! queue of its own, and answers when it can; a write waits for the answer or for its time-out, the
//! cell never shows what the device did not confirm.

mod pending;

use std::time::Duration;

use trunkline_types::{Quality, Reason, Tick, Timestamp, Value};

use crate::audit::Audited;
use crate::caller::Caller;
use crate::engine::{Engine, SLICE};
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, UnknownCause, WriteOutcome};
use crate::sync::Arc;
use crate::update::NoMemory;
use crate::variable::Variable;
use crate::write::{Origin, Put, Write, count_refused, count_unknown, requalify};

use self::pending::PendingWrite;
pub(crate) use self::pending::{Ask, Providers, SendFailure, Waiting};

/// Writes that one provider may have unanswered; the next is refused.
pub const PROVIDER_PENDING_MAX: usize = 4096;
/// How long a provider may take to answer a write.
pub const PROVIDER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// A write that a provider has to answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket {
    number: u64,
    provider: ProviderId,
}

/// What the engine asks of a provider. Called on the writer's thread: queue the order and return.
pub trait Provider: Send + Sync {
    /// For people: the name of the I/O server.
    fn name(&self) -> Arc<str>;
    /// Write `raw` to the device behind the variable `handle`, then call [`Engine::answer`].
    fn send(&self, ticket: Ticket, handle: u32, raw: Value);
    /// Get a fresh value of the variable `handle` from the device. With a ticket somebody waits for
    /// it: call [`Engine::answer`] with [`Answer::Read`]. Without one, publish it when it can be
    /// had.
    fn request(&self, ticket: Option<Ticket>, handle: u32);
    /// Deliver these variables from now on, each from the item of this name: those whose `source`
    /// begins with the provider's name, when it is attached or when they are deployed.
    fn bind(&self, _items: &[SourceItem]) {}
    /// One sentence about its present state when something is wrong with it.
    fn trouble(&self) -> Option<String>;
    /// Whether it runs in a process of its own, for which the engine's configuration is not to
    /// blame.
    fn is_process(&self) -> bool {
        false
    }
}

/// A variable that a provider is to deliver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceItem {
    /// The variable.
    pub handle: u32,
    /// The part of its `source` behind the colon.
    pub item: Box<str>,
}

/// Another provider of this name runs already.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "an I/O server named {name} is running already; give this one another name, or stop that one"
)]
pub struct NameTaken {
    /// The name.
    pub name: Arc<str>,
}

/// What a provider says to a write.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Done; the device now holds this raw value.
    Applied(Value),
    /// Done; this is what was read from the device, to a write or to a request for a fresh value.
    Read {
        /// The raw value.
        value: Value,
        /// How far it can be trusted; `None`: good.
        quality: Option<Quality>,
        /// When it was read; `None`: now.
        source_timestamp: Option<Timestamp>,
    },
    /// Done; there was no memory for what was read from the device.
    NoMemory(NoMemory),
    /// Not done: there was no memory to send the order, so the provider has never had it.
    Unsent(NoMemory),
    /// Not done, and why, in a sentence.
    Refused(String),
    /// Nobody knows whether it was done, and why not, in a sentence.
    Unknown(String),
}

/// A provider that has gone, and some of whose variables do not say so yet.
#[derive(Debug)]
pub(crate) struct Ended {
    id: ProviderId,
    quality: Quality,
    /// The slot at which the look at the variables goes on.
    next: u32,
    /// When it went, or was looked at last.
    time: (Tick, Timestamp),
}

/// A provider's place in the engine; give it back with [`Engine::detach_provider`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProviderId(usize);

impl ProviderId {
    pub(crate) fn at(index: usize) -> Self {
        Self(index)
    }
}

impl Engine {
    /// Makes `provider` the owner of these variables' values. Until it publishes, those that have
    /// no value yet stay `bad: no-value`.
    pub fn attach_provider(&self, provider: Arc<dyn Provider>, handles: &[u32]) -> ProviderId {
        let index = self.providers().attach(provider);
        let variables = handles.iter().filter_map(|handle| self.variable(*handle));
        // An alias has its value from its target.
        for variable in variables.filter(|variable| !variable.is_alias()) {
            variable.set_provider(Some(index));
        }
        ProviderId(index)
    }

    /// Makes `provider` the owner of every variable whose `source` is `NAME:ITEM` with its name,
    /// those that are deployed later included. It is told which with [`Provider::bind`].
    ///
    /// # Errors
    /// [`NameTaken`].
    pub fn attach_source(&self, provider: Arc<dyn Provider>) -> Result<ProviderId, NameTaken> {
        // Nothing is deployed between the two steps.
        let _change = self.changes_lock();
        let mut wakes = Wakes::new();
        let mut ended = self.providers().ended.lock();
        let id = ProviderId(self.providers().attach_named(provider)?);
        // Its variables say that the one before it has gone before they say anything of this one.
        if let Some(at) = ended.iter().position(|one| one.id == id)
            && let Some(mut before) = ended.remove(at)
        {
            self.mark_some(&mut before, &mut { usize::MAX }, &mut wakes);
        }
        drop(ended);
        for library in self.libraries() {
            self.bind_sources(&library.handles);
        }
        Ok(id)
    }

    /// A provider of this name will be [attached](Self::attach_source), from a process of its own.
    /// Until then its variables are as those of one that has gone: nobody can write them.
    pub fn expect_source(&self, name: &str, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let _change = self.changes_lock();
        self.providers().expect(name);
        for library in self.libraries() {
            let orphans = self.bind_sources(&library.handles);
            self.mark_orphans(&orphans, now, wall, wakes);
        }
    }

    /// Says of variables that never had a value why not: their source is not there. A retained or
    /// an initial value says itself how far it can be trusted.
    pub(crate) fn mark_orphans(
        &self,
        handles: &[u32],
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let gone = Quality::bad(Reason::ProviderGone);
        for variable in handles.iter().filter_map(|handle| self.variable(*handle)) {
            if variable.sequence() == 0 {
                requalify(&variable, gone, now, wall, wakes);
            }
        }
    }

    /// Joins variables that were deployed or edited to the providers that their sources name.
    /// Returns those whose provider does not run.
    pub(crate) fn bind_sources(&self, handles: &[u32]) -> Vec<u32> {
        let named = self.providers().named();
        let mut orphans = Vec::new();
        if named.is_empty() {
            return orphans;
        }
        let mut items: Vec<Vec<SourceItem>> = named.iter().map(|_| Vec::new()).collect();
        for variable in handles.iter().filter_map(|handle| self.variable(*handle)) {
            let properties = variable.properties();
            let (source, current) = (properties.source.as_str(), variable.provider_index());
            let mut found = named.iter().zip(&mut items).filter_map(|(named, items)| {
                let item = source.strip_prefix(&*named.name)?.strip_prefix(':')?;
                Some((named, item, items))
            });
            if let Some((named, item, items)) = found.next() {
                // Bound again, it hears of another item.
                variable.set_provider(Some(named.index));
                let (handle, item) = (variable.handle(), Box::from(item));
                match named.provider {
                    Some(_) => items.push(SourceItem { handle, item }),
                    None => orphans.push(handle),
                }
            } else if named.iter().any(|named| Some(named.index) == current) {
                // Its source was that provider's before.
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

    /// The provider has gone: its variables turn bad with the cause, and what it had not answered
    /// ends as unknown.
    pub fn detach_provider(
        &self,
        id: ProviderId,
        reason: Reason,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let Some(name) = self.providers().detach(id) else {
            return;
        };
        for (_, write) in self.providers().take_all_of(id) {
            let cause = UnknownCause::ProviderGone {
                provider: Arc::clone(&name),
            };
            self.finish_unknown(write, cause, wall, wakes);
        }
        let quality = Quality::bad(reason);
        self.providers().ended.lock().push_back(Ended {
            id,
            quality,
            next: 1,
            time: (now, wall),
        });
        // Those beyond a slice get theirs with the next polls.
        self.mark_ended(&mut { SLICE }, now, wall, wakes);
    }

    /// Says of variables whose provider has gone that it has, looking at `budget` variables at
    /// most; false when there are more.
    pub(crate) fn mark_ended(
        &self,
        budget: &mut usize,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> bool {
        let mut ended = self.providers().ended.lock();
        while let Some(first) = ended.front_mut() {
            first.time = (now, wall);
            if !self.mark_some(first, budget, wakes) {
                return false;
            }
            ended.pop_front();
        }
        true
    }

    fn mark_some(&self, ended: &mut Ended, budget: &mut usize, wakes: &mut Wakes) -> bool {
        let (now, wall) = ended.time;
        while ended.next < self.end() {
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            if let Some(variable) = self.registry().at(ended.next)
                && variable.provider_index() == Some(ended.id.0)
            {
                requalify(&variable, ended.quality, now, wall, wakes);
            }
            ended.next += 1;
        }
        true
    }

    /// What a provider says about all its variables at once, such as that its device is gone.
    pub fn set_source_quality(
        &self,
        id: ProviderId,
        quality: Quality,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        self.for_each_variable(|variable| {
            if variable.provider_index() == Some(id.0) {
                requalify(variable, quality, now, wall, wakes);
            }
        });
    }

    /// What a source says about one variable without a value: its last value stays, with this
    /// quality.
    pub fn set_quality(
        &self,
        handle: u32,
        quality: Quality,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        if let Some(variable) = self.variable(handle) {
            requalify(&variable, quality, now, wall, wakes);
        }
    }

    /// The provider's answer to a write. One that comes after the write's time-out changes nothing
    /// but the variable's value: the read-back is true whenever it arrives, as long as the provider
    /// is there and the variable is its own.
    pub fn answer(
        &self,
        ticket: Ticket,
        handle: u32,
        answer: Answer,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let pending = self.providers().take(ticket);
        // What the write was about is known better here than by its provider.
        let known = pending.as_ref().map(|write| Arc::clone(&write.variable));
        let Some(variable) = known.or_else(|| self.variable(handle)) else {
            return;
        };
        let variable = &variable;
        let (provider, running) = self.providers().get(ticket.provider.0);
        let is_owner = variable.provider_index() == Some(ticket.provider.0);
        if pending.is_none() && (running.is_none() || !is_owner) {
            return;
        }
        let waiting = pending.map(|write| write.waiting);
        let is_pending = waiting.is_some();
        let Waiting {
            completion,
            asked,
            writer,
        } = waiting.unwrap_or_default();
        let completion = completion.as_ref();
        let audited = asked.map(|asked| Audited::new(*asked));
        let outcome = match answer {
            answer @ (Answer::Applied(_) | Answer::Read { .. } | Answer::NoMemory(_)) => {
                let put = Put {
                    caller: &Caller::engine(),
                    now,
                    wall,
                    may_stall: false,
                    completion,
                    audited: audited.as_ref(),
                    watch: None,
                };
                if writer > 0 {
                    variable.lock().set_put_by(writer);
                }
                self.read_back(put, variable, provider, answer, wakes)
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
        if let Some(audited) = &audited {
            self.note_end(audited, variable, wall, &outcome, wakes);
        }
        if let Some(completion) = completion
            && !matches!(outcome, WriteOutcome::Applied { .. })
        {
            let outcome = Engine::end_for(completion, outcome);
            completion.outbox.complete(completion.id, outcome);
            wakes.add(&completion.outbox);
        }
    }

    /// Publishes what the device holds now. It is there, so nothing can hold it up: a full `all`
    /// subscription ends, whatever the owner's `stall`.
    fn read_back(
        &self,
        put: Put<'_>,
        variable: &Variable,
        provider: Arc<str>,
        answer: Answer,
        wakes: &mut Wakes,
    ) -> WriteOutcome {
        let (raw, quality, source_timestamp) = match answer {
            Answer::Read {
                value,
                quality,
                source_timestamp,
            } => (value, quality, source_timestamp),
            Answer::Applied(value) => (value, None, None),
            Answer::NoMemory(error) => {
                return read_back_without_memory(put, variable, provider, error, wakes);
            }
            Answer::Unsent(error) => return count_refused(variable, Refusal::NoMemory(error)),
            Answer::Refused(why) | Answer::Unknown(why) => {
                return count_unknown(variable, UnknownCause::Provider { provider, why });
            }
        };
        let mut write = Write::value(&raw);
        write.origin = Origin::SourceRaw;
        write.quality = quality;
        write.source_timestamp = source_timestamp;
        match self.put(put, variable, &write, wakes) {
            Ok(Attempt::Done(outcome)) => outcome,
            Ok(Attempt::WouldBlock { .. } | Attempt::Pending) => {
                let why = "it could not be published".to_owned();
                count_unknown(variable, UnknownCause::ReadBack { provider, why })
            }
            Err(Refusal::NoMemory(error)) => {
                read_back_without_memory(put, variable, provider, error, wakes)
            }
            Err(refusal) => {
                let why = refusal.to_string();
                count_unknown(variable, UnknownCause::ReadBack { provider, why })
            }
        }
    }

    /// Asks the variable's provider for a fresh value. False when it has none that runs.
    pub fn request(&self, handle: u32) -> bool {
        let Some(variable) = self.variable(handle).map(|named| self.behind(&named)) else {
            return false;
        };
        let index = variable.provider_index();
        let provider = index.and_then(|index| self.providers().get(index).1);
        if let Some(provider) = &provider {
            provider.request(None, variable.handle());
        }
        provider.is_some()
    }

    /// Whether a write or a request still waits for its provider's answer. One that has timed out
    /// is
    /// not to be sent to the device any more.
    pub fn awaits_answer(&self, ticket: Ticket) -> bool {
        self.providers().is_pending(ticket)
    }

    /// Ends writes whose provider has taken too long; at most `limit` per call.
    pub(crate) fn expire_pending(
        &self,
        now: Tick,
        wall: Timestamp,
        limit: usize,
        wakes: &mut Wakes,
    ) -> usize {
        let due = self.providers().take_due(now, limit);
        let count = due.len();
        for (ticket, write) in due {
            let (provider, _) = self.providers().get(ticket.provider.0);
            let cause = UnknownCause::ProviderTimedOut { provider };
            self.finish_unknown(write, cause, wall, wakes);
        }
        count
    }

    pub(crate) fn next_provider_deadline(&self) -> Option<Tick> {
        self.providers().next_deadline()
    }

    fn finish_unknown(
        &self,
        write: PendingWrite,
        cause: UnknownCause,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let variable = &write.variable;
        let outcome = count_unknown(variable, cause);
        let Waiting {
            completion, asked, ..
        } = write.waiting;
        if let Some(asked) = asked {
            self.note_end(&Audited::new(*asked), variable, wall, &outcome, wakes);
        }
        if let Some(completion) = completion {
            let outcome = Engine::end_for(&completion, outcome);
            completion.outbox.complete(completion.id, outcome);
            wakes.add(&completion.outbox);
        }
    }
}

/// The device holds what the variable cannot show: it must not look good.
fn read_back_without_memory(
    put: Put<'_>,
    variable: &Variable,
    provider: Arc<str>,
    error: NoMemory,
    wakes: &mut Wakes,
) -> WriteOutcome {
    let quality = Quality::bad(Reason::MemoryFull);
    requalify(variable, quality, put.now, put.wall, wakes);
    count_unknown(variable, UnknownCause::ReadBackMemory { provider, error })
}
