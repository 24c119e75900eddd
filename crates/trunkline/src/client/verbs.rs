//! Defines each verb of a client once, for three clients: a [`blocking`](super::Client) client and
//! an [`aio`] client wait for the answer, and a [`polled`] client returns a [`PendingCall`] at
//! once.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use trunkline_client::{
    AlarmName, AlarmQuery, ClientCore, ClientOptions, Condition, ConnectionState, ControlList,
    Event, ForcedList, Found, GroupOutcome, Lease, LeaseTerms, NotTried, OpenOptions, Opened,
    ReadingBuffer, Request, RequestId, Session, Snapshot, Step, SubscribeOptions, VariableRef,
    Write, WriteBatchId, WriteCounts, WriteOutcome,
};
use trunkline_net::{Clock, Dialler, Link, LinkOptions, Peer, TransportUsed};
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::message::library::{LibraryReport, LibraryVerb};
use trunkline_proto::message::pair::{Pair, Paired};
use trunkline_proto::{Fault, ThroughputMode};
use trunkline_types::alarm::{
    AlarmAction, AlarmJournalPage, AlarmJournalQuery, AlarmState, AlarmStatus,
};
use trunkline_types::history::{HistoryPage, HistoryQuery};
use trunkline_types::{
    AuditPage, AuditQuery, Contract, ControlEntry, ControlTerms, LibraryDefinition, Reading, Tick,
};

use super::clients::{aio, blocking, polled};
use super::{
    CallError, Callbacks, ConnectError, ConnectOptions, OnChangeError, PatternSet, callbacks,
    events,
};
use crate::contexts::ClientSecurity;

/// Expands one verb for one client.
macro_rules! verb {
    ($form:ident now [$($doc:tt)*] $name:ident [$($generics:tt)*] ($me:ident $($args:tt)*)
        [$answer:ty] [$($other:ty)?] [$body:expr] []) => {
        $($doc)*
        pub fn $name<$($generics)*>(&$me $($args)*) -> $answer {
            $body
        }
    };
    (blocking waits [$($doc:tt)*] $name:ident [$($generics:tt)*] ($me:ident $($args:tt)*)
        [$answer:ty] [] [$body:expr] [$($then:expr)?]) => {
        $($doc)*
        pub fn $name<$($generics)*>(
            &$me $($args)*, timeout: Duration,
        ) -> Result<$answer, CallError> {
            let answer = $me.shared.call($body, timeout)?;
            $(let answer = $then(answer);)?
            Ok(answer)
        }
    };
    (aio waits [$($doc:tt)*] $name:ident [$($generics:tt)*] ($me:ident $($args:tt)*)
        [$answer:ty] [] [$body:expr] [$($then:expr)?]) => {
        $($doc)*
        pub async fn $name<$($generics)*>(
            &$me $($args)*, timeout: Duration,
        ) -> Result<$answer, CallError> {
            let call = $me.shared.begin($body)?;
            let answer = $me.shared.wait_async(call, timeout).await?;
            $(let answer = $then(answer);)?
            Ok(answer)
        }
    };
    (polled waits [$($doc:tt)*] $name:ident [$($generics:tt)*] ($me:ident $($args:tt)*)
        [$answer:ty] [] [$body:expr] []) => {
        $($doc)*
        pub fn $name<$($generics)*>(
            &$me $($args)*
        ) -> Result<PendingCall<$answer>, CallError> {
            let call = $me.shared.begin($body)?;
            Ok(PendingCall::new(&$me.shared, call))
        }
    };
    // The polled client has no such verb, because it would return before the caller's buffer is
    // filled.
    (polled waits [$($doc:tt)*] $name:ident [$($generics:tt)*] ($me:ident $($args:tt)*)
        [$answer:ty] [] [$body:expr] [$then:expr]) => {};
    (aio follows [$($doc:tt)*] $name:ident [$($generics:tt)*] ($me:ident $($args:tt)*)
        [$blocking:ty] [$answer:ty] [$body:expr] []) => {
        $($doc)*
        pub fn $name<$($generics)*>(&$me $($args)*) -> Result<$answer, CallError> {
            let id = $me.shared.begin($body)?;
            Ok(<$answer>::new(&$me.shared, id))
        }
    };
    ($form:ident follows [$($doc:tt)*] $name:ident [$($generics:tt)*] ($me:ident $($args:tt)*)
        [$answer:ty] [$aio:ty] [$body:expr] []) => {
        $($doc)*
        pub fn $name<$($generics)*>(&$me $($args)*) -> Result<$answer, CallError> {
            let id = $me.shared.begin($body)?;
            Ok(<$answer>::new(&$me.shared, id))
        }
    };
}

/// Expands the list of verbs. The kinds of verbs are:
/// - `waits`: the blocking and the async form have a `timeout` and return the answer, and the
///   polled form returns a [`PendingCall`]. `then` processes the answer.
/// - `now`: returns at once in every form.
/// - `follows`: subscribes and returns at once. The second type is the type in the async form.
macro_rules! verbs {
    ($(
        $(#[$doc:meta])*
        $kind:ident fn $name:ident $([$($generics:tt)*])? (&$me:ident $(, $arg:ident: $ty:ty)*)
            -> $answer:ty $(| $aio:ty)? = $body:expr $(, then $then:expr)?;
    )*) => {
        verbs! { @form blocking $(
            $kind [$(#[$doc])*] $name [$($($generics)*)?] ($me $(, $arg: $ty)*)
            [$answer] [$($aio)?] [$body] [$($then)?]
        )* }
        verbs! { @form aio $(
            $kind [$(#[$doc])*] $name [$($($generics)*)?] ($me $(, $arg: $ty)*)
            [$answer] [$($aio)?] [$body] [$($then)?]
        )* }
        verbs! { @form polled $(
            $kind [$(#[$doc])*] $name [$($($generics)*)?] ($me $(, $arg: $ty)*)
            [$answer] [$($aio)?] [$body] [$($then)?]
        )* }

        /// The names of all verbs, for tests and for other languages.
        #[doc(hidden)]
        pub const VERBS: &[&str] = &[$(stringify!($name)),*];
    };
    (@form $form:ident $(
        $kind:ident $doc:tt $name:ident $generics:tt $args:tt
        $answer:tt $aio:tt $body:tt $then:tt
    )*) => {
        impl $form::Client {
            $(verb! { $form $kind $doc $name $generics $args $answer $aio $body $then })*
        }
    };
}

verbs! {
    /// Waits until the connection is up.
    ///
    /// # Errors
    /// [`CallError::NotConnected`] with the cause if the connection is not up in time.
    waits fn wait_connected(&self) -> Arc<Session> = |_, _| Ok::<_, CallError>(WaitConnected);

    /// Returns the address and identity of the engine; `None` while the connection is down.
    now fn peer(&self) -> Option<Peer> = self.shared.link.peer();

    /// Returns the transport of the connection; `None` while the connection is down.
    now fn transport(&self) -> Option<TransportUsed> = self.shared.link.transport();

    /// Returns the certificate of the authority that issued the engine's certificate, DER; `None`
    /// without an encrypted connection.
    now fn authority(&self) -> Option<Arc<[u8]>>
        = self.shared.link.with(|core, _, _| core.channel().authority.clone());

    /// Returns the state of the connection, with the cause if it is down.
    now fn state(&self) -> ConnectionState = self.shared.link.with(|core, _, _| core.state());

    /// Returns the throughput settings of both directions; `None` if the connection is not in
    /// throughput mode.
    now fn throughput_mode(&self) -> Option<ThroughputMode>
        = self.shared.link.with(|core, _, _| core.throughput_mode());

    /// Opens variables. The options can add the current reading and the description of each
    /// variable to the same round trip.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer. An error about one name is in that name's result.
    waits fn open[N: AsRef<str>](&self, names: &[N], options: OpenOptions)
        -> Vec<Result<Opened, Fault>> = |core, _| core.open(names, options);

    /// Closes variables. Subscriptions to the variables are not affected.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    waits fn close_variables(&self, variables: &[VariableRef]) -> Vec<Result<(), Fault>>
        = |core, _| core.close(variables);

    /// Reads the current values of variables from the engine.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    waits fn read(&self, variables: &[VariableRef]) -> Vec<Result<Reading, Fault>>
        = |core, _| core.read(variables);

    /// Replaces the contents of `buffer` with the current readings of `variables`, stored in one
    /// block of memory. The data is the same as from [`read`](Self::read), without an allocation
    /// per reading. Use this verb to read many variables repeatedly: refilling a buffer needs no
    /// new memory.
    ///
    /// # Errors
    /// As [`open`](Self::open). After an error, or if the call is dropped before its answer
    /// arrives, the buffer is empty and its memory is not reused.
    waits fn read_into(&self, variables: &[VariableRef], buffer: &mut ReadingBuffer) -> ()
        = |core, _| core.read_into(variables, std::mem::take(buffer)),
        then |filled| *buffer = filled;

    /// Reads at most 4,096 variables at one instant. With more variables, the readings are not from
    /// one instant, and the snapshot reports that.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer. An error about one variable is in its reading.
    waits fn snapshot(&self, variables: &[VariableRef]) -> Snapshot
        = |core, _| core.snapshot(variables);

    /// Asks the providers of variables for fresh values, which arrive as updates of the variables.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    waits fn request_value(&self, variables: &[VariableRef]) -> Vec<Result<(), Fault>>
        = |core, _| core.request_value(variables);

    /// Writes values and waits for all outcomes.
    ///
    /// At the timeout, the call ends all writes that have no outcome. A write that was not sent is
    /// [cancelled](crate::NotTried::Cancelled) and will never be sent. A write that was sent is
    /// [unknown](WriteOutcome::Unknown), because the engine may still carry it out.
    ///
    /// # Errors
    /// [`CallError`] if none of the writes was sent, and none will be.
    waits fn write(&self, writes: impl IntoIterator<Item = Write>) -> Vec<WriteOutcome>
        = |core, _| core.write(writes);

    /// Queues writes and returns at once. [`write_counts`](Self::write_counts) counts their
    /// outcomes. Writes wait at most `life` for a connection and are then cancelled.
    ///
    /// # Errors
    /// [`CallError::Write`] if too many writes are already waiting.
    now fn write_untracked(&self, writes: impl IntoIterator<Item = Write>, life: Duration)
        -> Result<(), CallError>
        = self.shared.begin(|core, now| core.write_untracked(writes, now.saturating_add(life)));

    /// Writes a group: either all of these values or none. A group has at most 4,096 variables, one
    /// engine timestamp and one commit number. A subscription to all its variables receives them
    /// contiguously. The call waits while an `all` subscription stalls its writers.
    ///
    /// The engine refuses a group with variables that have a provider, unless these writes use
    /// [`Write::set`].
    ///
    /// # Errors
    /// [`CallError`] if the client does not accept the group, or cannot send it in time; it is then
    /// never sent. If the engine refuses the group, the outcomes give the reason. If the group was
    /// sent but not answered in time, its outcomes are unknown.
    waits fn write_group(&self, writes: impl IntoIterator<Item = Write>) -> GroupOutcome
        = |core, _| core.write_group(writes.into_iter().collect(), false);

    /// As [`write_group`](Self::write_group), but never stalls: a group that would have to wait for
    /// a subscription is not written, and all its outcomes are would-block.
    ///
    /// # Errors
    /// As [`write_group`](Self::write_group).
    waits fn try_write_group(&self, writes: impl IntoIterator<Item = Write>) -> GroupOutcome
        = |core, _| core.write_group(writes.into_iter().collect(), true);

    /// Returns the counts of all writes so far, by outcome.
    now fn write_counts(&self) -> WriteCounts
        = self.shared.link.with(|core, _, _| core.write_counts());

    /// Sends all queued data at once, and waits until every write queued before this call has its
    /// outcome. Writes that other threads queue during the call do not delay it. In [throughput
    /// mode](crate::ConnectOptions::throughput_mode), the call also sends the data that this
    /// connection has gathered for any thread, and makes the engine send the data that it has
    /// gathered for its clients.
    ///
    /// # Errors
    /// [`CallError`] if one of these writes has no outcome in time, or if there is no connection.
    waits fn flush(&self) -> WriteCounts = |core, _| core.flush();

    /// Takes, renews or releases leases. While this connection holds the lease of a variable, the
    /// engine refuses writes by other clients. A lease ends when its time expires or the connection
    /// ends.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer. If another client holds the lease of a variable, the
    /// result of that variable names the client.
    waits fn lease(&self, variables: &[VariableRef], terms: LeaseTerms)
        -> Vec<Result<Lease, Fault>> = |core, _| core.lease(variables, terms);

    /// Takes control of a folder, such as `boiler` or `boiler/pump`: until it ends, the engine refuses
    /// writes by other clients to the variables in the folder. Holders of lower levels lose their
    /// control. Control ends with the connection, when its duration has passed, or when it is released
    /// or taken over; the client does not take it again automatically.
    ///
    /// # Errors
    /// [`CallError::Fault`]: the code `controlled` if a client of the same or a higher level has
    /// control, which the sentence names, or `denied` without the right to write every variable of
    /// the folder. [`CallError`] if there is no answer.
    waits fn take_control(&self, folder: &str, terms: ControlTerms) -> ControlEntry
        = |core, _| core.take_control(folder, terms);

    /// Asks for control of a folder. If another client has it, waits in the engine's queue:
    /// `is_waiting` of the answer is then true, and [`follow_control`](Self::follow_control) reports
    /// the change when control is granted. The request ends with the connection.
    ///
    /// # Errors
    /// [`CallError::Fault`]: the code `denied`, or `limit-reached` if too many requests wait.
    waits fn request_control(&self, folder: &str, terms: ControlTerms) -> ControlEntry
        = |core, _| core.request_control(folder, terms);

    /// Hands control of a folder over to the client that made the request `number`, as
    /// [`controls`](Self::controls) reports it. The answer is the control of that client.
    ///
    /// # Errors
    /// [`CallError::Fault`]: this client does not control the folder, or there is no such request.
    waits fn give_control(&self, folder: &str, number: u64) -> ControlEntry
        = |core, _| core.give_control(folder, number);

    /// Releases control of a folder, or withdraws the request for it. The first client that waits
    /// gets control.
    ///
    /// # Errors
    /// [`CallError::Fault`]: the code `not-controlled` if this client has neither.
    waits fn release_control(&self, folder: &str) -> () = |core, _| core.release_control(folder);

    /// Returns the holders of the folders that overlap `folder`, and the waiting requests for them; of
    /// all folders if `folder` is empty. With `own`, returns only what concerns this client.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    waits fn controls(&self, folder: &str, own: bool) -> ControlList
        = |core, _| core.controls(folder, own);

    /// Waits until something has changed in what this client controls and waits for: control was
    /// granted or has ended, or another client asks for it. `known` is the `revision` of the last
    /// [`controls`](Self::controls), or the last answer of this call. After a reconnection, which
    /// ends control, it returns at once. Returns the new revision.
    ///
    /// # Errors
    /// [`CallError::TimedOut`] if nothing has changed in time.
    waits fn follow_control(&self, known: u64) -> u64 = |core, _| core.follow_control(known);

    /// Subscribes to variables under one contract. One round trip opens and subscribes all of them,
    /// and each reconnection repeats it.
    ///
    /// The call does not wait for the engine. The first reading of a variable is its value at the
    /// moment when the subscription starts; earlier writes are not delivered.
    ///
    /// # Errors
    /// [`CallError::Subscribe`]. An error about one name arrives as an event.
    follows fn subscribe[N: AsRef<str>](
        &self, names: &[N], contract: Contract, options: SubscribeOptions
    ) -> events::Subscription | events::aio::Subscription
        = |core, _| core.subscribe(names, contract, options);

    /// Subscribes under one contract to all variables that match the patterns, including variables
    /// that are created later.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    follows fn subscribe_patterns(
        &self, set: &PatternSet<'_>, contract: Contract, options: SubscribeOptions
    ) -> events::PatternSubscription | events::aio::PatternSubscription
        = |core, _| core.follow(set.names, set.patterns, set.excluded, contract, options);

    /// Watches the names that match a pattern: reports first the existing names, then each name
    /// that appears or disappears.
    ///
    /// # Errors
    /// [`CallError::Request`] if the client is closed. An invalid pattern is reported as an event.
    follows fn watch(&self, pattern: &str) -> events::Watch | events::aio::Watch
        = |core, _| core.watch(pattern);

    /// Subscribes to variables as [`subscribe`](Self::subscribe) does, and calls a function with
    /// every event: each reading with the updates lost before it, and each change of the
    /// connection.
    ///
    /// A dedicated thread makes the calls, one at a time, so the function delays neither the
    /// connection nor a writer. While the function runs, updates queue under the contract, within
    /// the queue's limit. If the function panics, the thread calls it again for the next event.
    ///
    /// # Errors
    /// [`OnChangeError`]: the subscription cannot be created, or the system cannot start another
    /// thread.
    now fn on_change[N: AsRef<str>](
        &self,
        names: &[N],
        contract: Contract,
        options: SubscribeOptions,
        call: impl FnMut(Event) + Send + 'static
    ) -> Result<Callbacks, OnChangeError> = {
        let id = self.shared.begin(|core, _| core.subscribe(names, contract, options))?;
        callbacks::start(&self.shared, id, call)
    };

    /// Returns the variables whose names match `pattern`, at most `limit` of them.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the pattern is invalid.
    waits fn find(&self, pattern: &str, limit: Option<usize>) -> Vec<Found>
        = |core, _| core.find(pattern, limit);

    /// Returns the variables whose names match `pattern` and whose fields satisfy all conditions,
    /// at most `limit` of them.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the pattern or a condition is invalid.
    waits fn search(&self, pattern: &str, conditions: &[Condition], limit: Option<usize>)
        -> Vec<Found> = |core, _| core.search(pattern, conditions, limit);

    /// Returns everything the engine knows about the variables.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    waits fn info(&self, variables: &[VariableRef]) -> Vec<Result<VariableInfo, Fault>>
        = |core, _| core.info(variables);

    /// Asks the engine for a joining token, with which another program registers its key with an
    /// account. Needs the right to administer the engine.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the right is missing, if the engine has no accounts, or if the
    /// account or the role is not valid.
    waits fn pair(&self, pair: &Pair) -> Paired = |core, _| core.pair(pair.clone());

    /// Explains why a variable does not update. The steps lead from the name to the source of the
    /// variable and on to this program. Without a connection, the connection is the only step.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    waits fn why(&self, name: &str) -> Vec<Step> = |core, now| core.explain(now, name);

    /// Returns the engine's description of itself, such as its name, version and libraries.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    waits fn engine_info(&self) -> EngineInfo = |core, _| core.engine_info();

    /// Queries the audit trail: writes of variables with `audit = true`, forces and orders. A page has at
    /// most the query's limit, or 100,000 entries. To continue, use `next` of the page as the start of the
    /// next query.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the engine refuses the query, [`CallError`] if there is no answer.
    waits fn audit(&self, query: AuditQuery) -> AuditPage = |core, _| core.audit(query);

    /// Returns the alarms that the query selects, with their states.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the engine refuses the query, [`CallError`] if there is no answer.
    waits fn alarms(&self, query: AlarmQuery) -> Vec<AlarmStatus> = |core, _| core.alarms(query);

    /// Returns entries of the alarm journal, one for every change of an alarm, at most 100,000. To
    /// continue, use `next` of the page as the `from` of the next query.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer; [`CallError::Fault`] if the journal cannot be read.
    waits fn alarm_journal(&self, query: AlarmJournalQuery) -> AlarmJournalPage
        = |core, _| core.alarm_journal(query);

    /// Returns a page of the recorded history of variables: rows and events, or buckets of them.
    /// Pages have a bounded size. To continue, use `next` of the page as the `from` of the next
    /// query; it is `None` in the last page.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer; [`CallError::Fault`] if the engine records no history
    /// or cannot read it.
    waits fn history(&self, query: HistoryQuery) -> HistoryPage = |core, _| core.history(query);

    /// Applies an action to alarms: acknowledge, reset, shelve, unshelve, take out of service or
    /// return to service. The comment may be empty. The result of each alarm is its new state, or
    /// the reason why the engine refused the action.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer.
    waits fn act_on_alarms(&self, alarms: Vec<AlarmName>, action: AlarmAction, comment: &str)
        -> Vec<Result<AlarmState, Fault>>
        = |core, _| core.act_on_alarms(alarms, action, comment);

    /// Returns the forced variables, each with the principal, the time of forcing, and the value of
    /// its source. [`Write::force`] and [`Write::unforce`] force single variables. To force many at
    /// once, switch forcing off, force each variable, and switch forcing on again.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the engine refuses the request, [`CallError`] if there is no answer.
    waits fn forced(&self) -> ForcedList = |core, _| core.forcing(ForcingVerb::List);

    /// Switches forcing on or off for the whole engine. While forcing is off, every variable shows
    /// the value of its source, and the engine keeps the list of forced variables. `total` in the
    /// answer is the number of affected variables.
    ///
    /// # Errors
    /// As [`forced`](Self::forced). If there is no answer, the engine may still have switched
    /// forcing.
    waits fn set_forcing(&self, on: bool) -> ForcedList = |core, _| {
        core.forcing(if on { ForcingVerb::On } else { ForcingVerb::Off })
    };

    /// Unforces every variable of the engine.
    ///
    /// # Errors
    /// As [`set_forcing`](Self::set_forcing).
    waits fn clear_forcing(&self) -> ForcedList = |core, _| core.forcing(ForcingVerb::Clear);

    /// Deploys all variables of a library or, after an error, none. With `replace`, the library may
    /// already be deployed; unchanged variables keep their values and subscribers.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the engine refuses the library, or received it and did not answer in
    /// time. In the second case, the engine may still deploy the library. After any other
    /// [`CallError`], the library was not sent and never will be.
    waits fn deploy(&self, library: impl Into<Arc<LibraryDefinition>>, replace: bool)
        -> LibraryReport = |core, _| core.deploy(library.into(), replace);

    /// Removes a library and notifies the users of its variables. Without `force`, the engine
    /// refuses this while its variables have subscribers.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    waits fn undeploy(&self, name: &str, force: bool) -> LibraryReport
        = |core, _| core.order_library(name, LibraryVerb::Undeploy { force });

    /// Starts a stopped library.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    waits fn start_library(&self, name: &str) -> LibraryReport
        = |core, _| core.order_library(name, LibraryVerb::Start);

    /// Stops a library. Its variables keep their values, and cannot be written until the library is
    /// started again.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    waits fn stop_library(&self, name: &str) -> LibraryReport
        = |core, _| core.order_library(name, LibraryVerb::Stop);

    /// Stops the engine, in order. The call returns when the engine has accepted the order; it then
    /// stops its I/O servers, stores what waits to be stored, and closes all connections.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the caller has no right to administer the engine, or if the program
    /// that runs the engine does not accept the order; [`CallError`] if there is no answer.
    waits fn stop_engine(&self) -> () = |core, _| core.stop_engine();

    /// Makes the engine read its configuration files again, and apply what can be applied while it
    /// runs. The report counts variables, and names the keys that were applied and those that need
    /// a restart. If the files have an error, nothing changes.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the files have an error, if the caller has no right to administer the
    /// engine, or if the program that runs the engine does not accept the order; [`CallError`] if
    /// there is no answer.
    waits fn reload_engine(&self) -> LibraryReport = |core, _| core.reload_engine();

    /// Sends waiting data and closes the connection. Dropping the last reference does the same.
    now fn close(&self) -> () = self.shared.close();
}

impl polled::Client {
    /// Reads the current values of variables into `buffer`. The answer contains the filled buffer.
    ///
    /// # Errors
    /// As [`open`](Self::open). After an error, the buffer is lost.
    pub fn read_into(
        &self,
        variables: &[VariableRef],
        buffer: ReadingBuffer,
    ) -> Result<PendingCall<ReadingBuffer>, CallError> {
        let call = self
            .shared
            .begin(|core, _| core.read_into(variables, buffer))?;
        Ok(PendingCall::new(&self.shared, call))
    }
}

/// Time limit for sending waiting data when a client is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// A request that a caller waits for.
pub(crate) trait Call: Send + Sync {
    type Answer;

    fn check(&self, core: &mut ClientCore) -> Option<Result<Self::Answer, CallError>>;

    /// Ends the call. Returns `None` if no part of it was sent, and none will be.
    fn end(&self, core: &mut ClientCore) -> Option<Result<Self::Answer, CallError>>;

    /// Abandons the call. Does nothing if the answer was already taken.
    fn forget(&self, core: &mut ClientCore);
}

impl<R: Request> Call for RequestId<R> {
    type Answer = R::Answer;

    fn check(&self, core: &mut ClientCore) -> Option<Result<R::Answer, CallError>> {
        Some(core.take(*self)?.map_err(CallError::Fault))
    }

    fn end(&self, core: &mut ClientCore) -> Option<Result<R::Answer, CallError>> {
        Some(core.give_up(*self)?.map_err(CallError::Fault))
    }

    fn forget(&self, core: &mut ClientCore) {
        core.forget(*self);
    }
}

impl Call for WriteBatchId {
    type Answer = Vec<WriteOutcome>;

    fn check(&self, core: &mut ClientCore) -> Option<Result<Vec<WriteOutcome>, CallError>> {
        core.take_outcomes(*self).map(Ok)
    }

    fn end(&self, core: &mut ClientCore) -> Option<Result<Vec<WriteOutcome>, CallError>> {
        let outcomes = core.end_writes(*self);
        let is_cancelled = |one: &_| matches!(one, WriteOutcome::NotTried(NotTried::Cancelled(_)));
        (!outcomes.iter().all(is_cancelled)).then_some(Ok(outcomes))
    }

    fn forget(&self, core: &mut ClientCore) {
        core.end_writes(*self);
    }
}

struct WaitConnected;

impl Call for WaitConnected {
    type Answer = Arc<Session>;

    fn check(&self, core: &mut ClientCore) -> Option<Result<Arc<Session>, CallError>> {
        match core.state() {
            ConnectionState::Connected(session) => Some(Ok(session)),
            _ => None,
        }
    }

    fn end(&self, _: &mut ClientCore) -> Option<Result<Arc<Session>, CallError>> {
        None
    }

    fn forget(&self, _: &mut ClientCore) {}
}

/// The connection of a client with the settings of its calls, shared with the client's
/// subscriptions.
pub(crate) struct Shared {
    pub(crate) link: Arc<Link<ClientCore>>,
    pub(crate) clock: Clock,
    fail_fast: bool,
}

impl Shared {
    pub(crate) fn start(
        dialler: Dialler,
        options: &ConnectOptions,
    ) -> Result<Arc<Self>, ConnectError> {
        use std::hash::{BuildHasher, RandomState};
        let core = ClientCore::new(ClientOptions {
            program: options.program.clone(),
            user: options.user.clone(),
            pid: std::process::id(),
            credentials: options
                .security
                .as_ref()
                .and_then(ClientSecurity::credentials),
            throughput_mode: options.throughput_mode,
            // A random seed makes clients redial at different moments.
            seed: RandomState::new().hash_one(std::process::id()),
            ..ClientOptions::default()
        });
        let link = LinkOptions {
            spin: options.spin,
            ..LinkOptions::default()
        };
        let link = Link::start(dialler, core, link)?;
        let clock = Clock::new();
        Ok(Arc::new(Self {
            link,
            clock,
            fail_fast: options.fail_fast,
        }))
    }

    pub(crate) fn deadline(&self, timeout: Duration) -> Tick {
        self.clock.now().saturating_add(timeout)
    }

    pub(crate) fn begin<C, E: Into<CallError>>(
        &self,
        ask: impl FnOnce(&mut ClientCore, Tick) -> Result<C, E>,
    ) -> Result<C, CallError> {
        let begun = self.link.with(|core, now, _| ask(core, now));
        begun.map_err(Into::into)
    }

    /// Sends the request and waits for the answer. This thread drives the connection while it
    /// waits.
    pub(crate) fn call<C: Call, E: Into<CallError>>(
        &self,
        ask: impl FnOnce(&mut ClientCore, Tick) -> Result<C, E>,
        timeout: Duration,
    ) -> Result<C::Answer, CallError> {
        let deadline = Some(self.deadline(timeout));
        let check = |core: &mut ClientCore, call: &C| self.check(core, call);
        let (call, answer) = self
            .link
            .call_until(deadline, ask, check)
            .map_err(Into::into)?;
        answer.unwrap_or_else(|| self.give_up(&call, timeout))
    }

    /// Waits for the answer in a task. Dropping the future abandons the call.
    pub(crate) async fn wait_async<C: Call>(
        &self,
        call: C,
        timeout: Duration,
    ) -> Result<C::Answer, CallError> {
        let deadline = Some(self.deadline(timeout));
        let mut waiting = CallGuard {
            shared: self,
            call,
            is_done: false,
        };
        let check = |core: &mut ClientCore, _| self.check(core, &waiting.call);
        let answer = self.link.wait(deadline, check).await;
        waiting.is_done = true;
        answer.unwrap_or_else(|| self.give_up(&waiting.call, timeout))
    }

    /// Returns the answer, or the error if none will arrive. A waiting caller polls this.
    pub(crate) fn check<C: Call + ?Sized>(
        &self,
        core: &mut ClientCore,
        call: &C,
    ) -> Option<Result<C::Answer, CallError>> {
        call.check(core).or_else(|| {
            let error = self.connection_error(core)?;
            Some(call.end(core).unwrap_or(Err(error)))
        })
    }

    /// Ends a call that has timed out. A request that was not sent will not be sent.
    fn give_up<C: Call + ?Sized>(&self, call: &C, after: Duration) -> Result<C::Answer, CallError> {
        self.link.with(|core, _, _| {
            let answer = call.end(core);
            answer.unwrap_or_else(|| Err(timeout_error(core, after)))
        })
    }

    /// Returns an error if waiting for the connection cannot succeed.
    fn connection_error(&self, core: &ClientCore) -> Option<CallError> {
        match core.state() {
            ConnectionState::Closed { cause } => Some(CallError::NotConnected { cause }),
            ConnectionState::Connecting {
                last_failure: Some(cause),
                ..
            } if self.fail_fast => Some(CallError::NotConnected { cause }),
            _ => None,
        }
    }

    pub(crate) fn close(&self) {
        self.link.with(|core, _, _| core.send_gathered());
        self.link.close(self.deadline(CLOSE_GRACE));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

fn timeout_error(core: &ClientCore, after: Duration) -> CallError {
    match core.state().cause() {
        Some(cause) => CallError::NotConnected {
            cause: Arc::clone(cause),
        },
        None => CallError::TimedOut { after },
    }
}

/// Abandons the call if it is dropped before its answer arrives.
struct CallGuard<'a, C: Call> {
    shared: &'a Shared,
    call: C,
    is_done: bool,
}

impl<C: Call> Drop for CallGuard<'_, C> {
    fn drop(&mut self) {
        if !self.is_done {
            let link = &self.shared.link;
            link.with(|core, _, _| self.call.forget(core));
        }
    }
}

/// A call in progress. A thread polls it, or a task awaits it. Dropping it has the effect of a
/// timeout: the answer is discarded.
#[must_use = "dropping it abandons the call"]
pub struct PendingCall<A> {
    shared: Arc<Shared>,
    call: Box<dyn Call<Answer = A>>,
}

impl<A> PendingCall<A> {
    fn new(shared: &Arc<Shared>, call: impl Call<Answer = A> + 'static) -> Self {
        Self {
            shared: Arc::clone(shared),
            call: Box::new(call),
        }
    }

    /// Returns the answer if it has arrived, or the error if none will arrive; `None` in all other
    /// cases. Returns the answer only once.
    ///
    /// # Errors
    /// Those of the verb that returned this call; see [`Client`](crate::Client).
    pub fn poll(&self) -> Option<Result<A, CallError>> {
        let link = &self.shared.link;
        self.or_closed_error(link.with(|core, _, _| self.shared.check(core, &*self.call)))
    }

    /// As [`poll`](Self::poll), but waits up to `timeout`. The call continues after `None`.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn wait(&self, timeout: Duration) -> Option<Result<A, CallError>> {
        let deadline = Some(self.shared.deadline(timeout));
        let check = |core: &mut ClientCore, _| self.shared.check(core, &*self.call);
        self.or_closed_error(self.shared.link.wait_until(deadline, check))
    }

    /// Ends the call as a timeout does, which came after `after`: returns the answer as far as it is
    /// known, such as the outcomes of writes, or the error. A request that was not sent is never sent.
    ///
    /// # Errors
    /// As [`poll`](Self::poll); [`CallError::TimedOut`] if there is no answer.
    pub fn end(&self, after: Duration) -> Result<A, CallError> {
        self.shared.give_up(&*self.call, after)
    }

    /// Returns an error once the client is closed, because no answer can arrive then.
    fn or_closed_error(
        &self,
        answer: Option<Result<A, CallError>>,
    ) -> Option<Result<A, CallError>> {
        let shared = &self.shared;
        let close = || shared.give_up(&*self.call, Duration::ZERO);
        answer.or_else(|| shared.link.is_closed().then(close))
    }

    /// Returns the answer if it has arrived, and `None` while the connection is down.
    #[cfg(target_os = "linux")]
    pub(crate) fn arrived(&self) -> Option<Result<A, CallError>> {
        let link = &self.shared.link;
        link.with(|core, _, _| self.call.check(core))
    }
}

impl<A> Future for PendingCall<A> {
    type Output = Result<A, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (shared, call) = (&self.shared, &*self.call);
        let check = |core: &mut ClientCore, _| shared.check(core, call);
        let answer = shared.link.poll_until(context, None, check);
        answer.map(|answer| answer.unwrap_or_else(|| shared.give_up(call, Duration::ZERO)))
    }
}

impl<A> Drop for PendingCall<A> {
    fn drop(&mut self) {
        let link = &self.shared.link;
        link.with(|core, _, _| self.call.forget(core));
    }
}

impl<A> fmt::Debug for PendingCall<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").finish_non_exhaustive()
    }
}
