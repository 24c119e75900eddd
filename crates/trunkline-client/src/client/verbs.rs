//! The client's operations that get a single answer: writes, and requests whose answers
//! [`ClientCore::take`] returns.

use std::sync::Arc;

use trunkline_proto::Fault;
use trunkline_proto::limits::HISTORY_PATTERNS_MAX;
use trunkline_proto::message::control::ControlVerb;
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::group::GROUP_MAX;
use trunkline_proto::message::library::LibraryVerb;
use trunkline_types::alarm::{AlarmAction, AlarmJournalQuery};
use trunkline_types::history::HistoryQuery;
use trunkline_types::{AuditQuery, Condition, ControlTerms, LibraryDefinition, Tick};

use super::ClientCore;
use crate::error::{RequestError, WriteError};
use crate::explain::explain_connection;
use crate::options::OpenOptions;
use crate::parts::Parts;
use crate::request::{
    ActOnAlarms, AlarmJournal, AlarmName, AlarmQuery, Alarms, AnyRequest, Audit, Close, Control,
    Controls, Deploy, Engine, Find, Flush, FollowControl, Forcing, History, Info, Lease,
    LeaseTerms, Open, OrderLibrary, Pair, Read, ReadInto, ReleaseControl, ReloadEngine, Request,
    RequestId, RequestValue, Snapshot, StopEngine, Why, WriteGroup,
};
use crate::variables::VariableRef;
use crate::variables::page::Page;
use crate::variables::reading_buffer::{ReadList, ReadingBuffer};
use crate::writes::{Write, WriteBatchId, WriteCounts, WriteOutcome};

/// Every request returns a [`RequestError`] if a limit is reached or the client is closed.
impl ClientCore {
    fn ask<R: Request + Into<AnyRequest>>(
        &mut self,
        items: usize,
        request: R,
    ) -> Result<RequestId<R>, RequestError> {
        self.requests
            .ask_for_program(&mut self.parts.base, items, request)
    }

    /// Takes the answer, or the fault if the engine refused the whole request. Returns `None` if
    /// there is no answer yet, or if the answer was already taken.
    pub fn take<R: Request>(&mut self, request: RequestId<R>) -> Option<Result<R::Answer, Fault>> {
        self.requests.take_answer(request.0, R::unpack)
    }

    /// Returns true if the answer has arrived and has not been taken yet.
    pub fn is_answered<R>(&self, request: RequestId<R>) -> bool {
        self.requests.is_answered(request.0)
    }

    /// Ends a call before its answer has arrived. A request that has not been sent is cancelled,
    /// and a request that has been sent is never sent again. Returns the engine's answer if it has
    /// arrived after all. Returns an answer with an unknown outcome if the request has been sent
    /// and changes the engine's state.
    pub fn give_up<R: Request>(
        &mut self,
        request: RequestId<R>,
    ) -> Option<Result<R::Answer, Fault>> {
        let answer = self.take(request).or_else(|| {
            let unknown = self.requests.get(request.0)?.unknown_answer()?;
            R::unpack(unknown).ok()
        });
        self.forget(request);
        answer
    }

    /// Like [`give_up`](Self::give_up), but discards the answer. Closes the variables that the
    /// request opens.
    pub fn forget<R>(&mut self, request: RequestId<R>) {
        self.requests.forget(&mut self.parts, request.0);
    }

    /// Opens variables by their full names, in one request.
    ///
    /// A variable stays open across reconnections until it has been closed as often as it was
    /// opened. The request runs in the background. Wait for the answer to find out whether the
    /// names exist, or continue without waiting.
    pub fn open<N: AsRef<str>>(
        &mut self,
        names: &[N],
        options: OpenOptions,
    ) -> Result<RequestId<Open>, RequestError> {
        self.requests.check(&self.parts.base, names.len())?;
        let variables = &mut self.parts.base.variables;
        variables.reserve(names.len());
        variables.reserve_handles(names.len());
        let opened = names.iter().map(|name| variables.acquire(name.as_ref()));
        let page = Page::new(opened.collect());
        self.ask(names.len(), Open { page, options })
    }

    /// Closes each variable once. Subscriptions to the variables continue, because they open the
    /// variables themselves.
    pub fn close(&mut self, variables: &[VariableRef]) -> Result<RequestId<Close>, RequestError> {
        self.requests.check(&self.parts.base, variables.len())?;
        let mut page = Page::of(variables);
        let mut handles = Vec::new();
        for (variable, item) in variables.iter().zip(0..) {
            let result = self.parts.base.variables.close_opening(*variable);
            page.set(item, result.map(|handle| handles.extend(handle)));
        }
        let has_nothing_to_send = handles.is_empty();
        let request = self.ask(variables.len(), Close { handles, page })?;
        if has_nothing_to_send {
            self.requests.end_at_once(&mut self.parts, request.0);
        }
        Ok(request)
    }

    /// Requests the current readings from the engine.
    pub fn read(&mut self, variables: &[VariableRef]) -> Result<RequestId<Read>, RequestError> {
        let list = ReadList::new(variables, ReadingBuffer::new());
        self.ask(variables.len(), Read(list))
    }

    /// Like [`read`](Self::read), but uses the memory of `buffer` instead of allocating each
    /// reading. After an error, the buffer is lost.
    pub fn read_into(
        &mut self,
        variables: &[VariableRef],
        buffer: ReadingBuffer,
    ) -> Result<RequestId<ReadInto>, RequestError> {
        let list = ReadList::new(variables, buffer);
        self.ask(variables.len(), ReadInto(Read(list)))
    }

    /// Requests the values of at most 4,096 variables at one instant. With more variables, the
    /// values are not from one instant, and the answer reports that.
    pub fn snapshot(
        &mut self,
        variables: &[VariableRef],
    ) -> Result<RequestId<Snapshot>, RequestError> {
        let list = ReadList::new(variables, ReadingBuffer::new());
        self.ask(variables.len(), Snapshot { list, head: None })
    }

    /// Requests fresh values from the sources of variables. The values arrive as updates.
    pub fn request_value(
        &mut self,
        variables: &[VariableRef],
    ) -> Result<RequestId<RequestValue>, RequestError> {
        let page = Page::of(variables);
        self.ask(variables.len(), RequestValue(page))
    }

    /// Requests everything the engine knows about variables.
    pub fn info(&mut self, variables: &[VariableRef]) -> Result<RequestId<Info>, RequestError> {
        let page = Page::of(variables);
        self.ask(variables.len(), Info(page))
    }

    /// Acquires, renews or releases leases.
    pub fn lease(
        &mut self,
        variables: &[VariableRef],
        terms: LeaseTerms,
    ) -> Result<RequestId<Lease>, RequestError> {
        let page = Page::of(variables);
        self.ask(variables.len(), Lease { page, terms })
    }

    /// Takes control of a folder at once, from holders of lower levels if there are any.
    pub fn take_control(
        &mut self,
        folder: &str,
        terms: ControlTerms,
    ) -> Result<RequestId<Control>, RequestError> {
        self.ask(1, Control::new(ControlVerb::Take, folder, terms))
    }

    /// Asks for control of a folder. The answer is the token, or the request if another client has
    /// control; see [`follow_control`](Self::follow_control).
    pub fn request_control(
        &mut self,
        folder: &str,
        terms: ControlTerms,
    ) -> Result<RequestId<Control>, RequestError> {
        self.ask(1, Control::new(ControlVerb::Request, folder, terms))
    }

    /// Hands control of a folder over to the client that made the request `number`.
    pub fn give_control(
        &mut self,
        folder: &str,
        number: u64,
    ) -> Result<RequestId<Control>, RequestError> {
        self.ask(1, Control::give(folder, number))
    }

    /// Releases control of a folder, or withdraws the request for it.
    pub fn release_control(
        &mut self,
        folder: &str,
    ) -> Result<RequestId<ReleaseControl>, RequestError> {
        self.ask(1, ReleaseControl(folder.to_owned()))
    }

    /// Lists the controlled folders that overlap `folder`, and the requests for them; all of them if
    /// `folder` is empty. With `own`, lists only those that concern this client.
    pub fn controls(
        &mut self,
        folder: &str,
        own: bool,
    ) -> Result<RequestId<Controls>, RequestError> {
        self.ask(1, Controls::new(folder, own))
    }

    /// Waits until something has changed in what this client controls and waits for. `known` is the
    /// revision of the last list, or the last answer. The answer is the new revision.
    pub fn follow_control(&mut self, known: u64) -> Result<RequestId<FollowControl>, RequestError> {
        self.ask(1, FollowControl::new(known))
    }

    /// Queues writes and returns at once. [`take_outcomes`](Self::take_outcomes) returns the
    /// outcomes as soon as all of them are known. Writes are sent in the order of the calls, many
    /// per frame.
    ///
    /// Without a connection, writes wait for the next connection, or until
    /// [`end_writes`](Self::end_writes) is called for their batch. If the connection breaks after a
    /// write was sent and before it was answered, its outcome is unknown, because the engine may
    /// have carried it out.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] if too many writes are already queued. None of the new writes is
    /// then accepted.
    pub fn write(
        &mut self,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<WriteBatchId, WriteError> {
        self.parts.writes.write(&mut self.parts.base, writes)
    }

    /// Like [`write`](Self::write), but for writes whose outcomes the program does not take.
    /// [`write_counts`](Self::write_counts) counts their outcomes, and
    /// [`last_write_fault`](Self::last_write_fault) returns the last fault. Writes that are not
    /// sent by `expires` are cancelled.
    ///
    /// # Errors
    /// The same as [`write`](Self::write).
    pub fn write_untracked(
        &mut self,
        writes: impl IntoIterator<Item = Write>,
        expires: Tick,
    ) -> Result<(), WriteError> {
        let Parts {
            base,
            writes: queue,
            ..
        } = &mut self.parts;
        queue.write_untracked(base, writes, expires)
    }

    /// Takes the outcomes, in the order of the writes, once all of them are known. Returns `None`
    /// before that, or if the outcomes have already been taken.
    pub fn take_outcomes(&mut self, batch: WriteBatchId) -> Option<Vec<WriteOutcome>> {
        self.parts.writes.take_outcomes(batch)
    }

    /// Returns true if all outcomes of the batch are known.
    pub fn is_settled(&self, batch: WriteBatchId) -> bool {
        self.parts.writes.is_settled(batch)
    }

    /// Ends a call before all its outcomes are known, and takes the outcomes. A write that has not
    /// been sent is cancelled and never sent. If a write has been sent, even in part, but not
    /// answered, its outcome is unknown, because the engine may still carry it out;
    /// [`write_counts`](Self::write_counts) counts its actual outcome when the engine answers.
    /// Returns an empty list if the outcomes have already been taken.
    pub fn end_writes(&mut self, batch: WriteBatchId) -> Vec<WriteOutcome> {
        self.parts.writes.end_call(&mut self.parts.base, batch)
    }

    /// Returns the counts of all writes by outcome.
    pub fn write_counts(&self) -> WriteCounts {
        self.parts.writes.counts()
    }

    /// Returns the fault of the last write that was refused or cancelled, or whose outcome is
    /// unknown.
    pub fn last_write_fault(&self) -> Option<&Fault> {
        self.parts.writes.last_fault()
    }

    /// Writes all of these values or none, with one engine timestamp and one commit number. A
    /// subscription to all the variables receives the values contiguously. With `try_only`, a group
    /// that would have to wait for a subscription is not written.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] if the values exceed the limits on queued writes;
    /// [`WriteError::Group`] if the group is empty or too large.
    pub fn write_group(
        &mut self,
        writes: Vec<Write>,
        try_only: bool,
    ) -> Result<RequestId<WriteGroup>, WriteError> {
        let (items, max) = (writes.len(), GROUP_MAX);
        if items == 0 || items > max {
            return Err(WriteError::Group { writes: items, max });
        }
        self.parts.writes.check(&self.parts.base, &writes)?;
        let group = WriteGroup {
            writes,
            try_only,
            outcome: None,
        };
        self.ask(items, group).map_err(|error| match error {
            RequestError::Closed { cause } => WriteError::Closed { cause },
            RequestError::TooManyRequests { .. } | RequestError::TooManyItems { .. } => {
                WriteError::OutcomesNotTaken {
                    waiting: self.requests.count(),
                }
            }
        })
    }

    /// Sends all queued data, and makes the engine send the data that it collects for its clients.
    /// The answer contains the counts of all writes. It arrives when the engine has carried out
    /// everything queued before this call and all earlier writes have ended. Later writes do not
    /// delay it.
    ///
    /// All threads and subscriptions of a client share one send buffer, so a flush sends the data
    /// of all of them.
    pub fn flush(&mut self) -> Result<RequestId<Flush>, RequestError> {
        self.ask(1, Flush::default())
    }

    /// Searches for names that match a pattern. The answer contains all pages: at most `limit`
    /// names if `limit` is given, and never more than
    /// [`request_items_max`](crate::ClientOptions::request_items_max).
    pub fn find(
        &mut self,
        pattern: &str,
        limit: Option<usize>,
    ) -> Result<RequestId<Find>, RequestError> {
        self.search(pattern, &[], limit)
    }

    /// Like [`find`](Self::find), but with conditions that must all be satisfied.
    pub fn search(
        &mut self,
        pattern: &str,
        conditions: &[Condition],
        limit: Option<usize>,
    ) -> Result<RequestId<Find>, RequestError> {
        let limit = limit.unwrap_or(usize::MAX);
        let find = Find {
            pattern: pattern.to_owned(),
            conditions: conditions.to_vec(),
            limit: limit.min(self.parts.base.options.request_items_max),
            cursor: 0,
            found: Vec::new(),
        };
        self.ask(1, find)
    }

    /// Asks the engine for a joining token, with which another program registers its key with an
    /// account. Needs the right to administer the engine.
    pub fn pair(
        &mut self,
        pair: trunkline_proto::message::pair::Pair,
    ) -> Result<RequestId<Pair>, RequestError> {
        self.ask(1, Pair::new(pair))
    }

    /// Asks the engine why a variable does not update.
    pub fn why(&mut self, name: &str) -> Result<RequestId<Why>, RequestError> {
        self.ask(1, Why::new(name, false, None))
    }

    /// Like [`why`](Self::why), but the answer also contains what the client itself knows. If there
    /// is no connection, because an attempt failed or the client is closed, the answer contains
    /// only the reason why there is none.
    pub fn explain(&mut self, now: Tick, name: &str) -> Result<RequestId<Why>, RequestError> {
        let Some(step) = explain_connection(&self.parts, now, name) else {
            return self.ask(1, Why::new(name, true, None));
        };
        let why = Why::new(name, true, Some(vec![step]));
        let request = self
            .requests
            .push_for_program(&mut self.parts.base.own_requests, 1, why);
        self.requests.end_at_once(&mut self.parts, request.0);
        Ok(request)
    }

    /// Requests information about the engine itself.
    pub fn engine_info(&mut self) -> Result<RequestId<Engine>, RequestError> {
        self.ask(1, Engine::default())
    }

    /// Queries the audit trail. The answer contains all pages, up to the query's limit or
    /// [`AUDIT_ENTRIES_MAX`](crate::AUDIT_ENTRIES_MAX) entries. `next` in the answer is the number
    /// of the entry at which the next query continues.
    pub fn audit(&mut self, query: AuditQuery) -> Result<RequestId<Audit>, RequestError> {
        self.ask(1, Audit::new(Box::new(query)))
    }

    /// Queries the alarms of variables. The answer contains all pages, up to
    /// [`ALARMS_MAX`](crate::ALARMS_MAX) alarms.
    pub fn alarms(&mut self, query: AlarmQuery) -> Result<RequestId<Alarms>, RequestError> {
        self.ask(1, Alarms::new(Box::new(query)))
    }

    /// Queries the alarm journal. The answer has at most
    /// [`AUDIT_ENTRIES_MAX`](crate::AUDIT_ENTRIES_MAX) entries, and the number at which the next
    /// query continues.
    pub fn alarm_journal(
        &mut self,
        query: AlarmJournalQuery,
    ) -> Result<RequestId<AlarmJournal>, RequestError> {
        self.ask(1, AlarmJournal::new(Box::new(query)))
    }

    /// Queries the recorded history of variables. The answer is one page. To continue, use `next`
    /// of the page as the `from` of the next query.
    ///
    /// # Errors
    /// [`RequestError::TooManyItems`] if the query has more than
    /// [`HISTORY_PATTERNS_MAX`](trunkline_proto::limits::HISTORY_PATTERNS_MAX) patterns.
    pub fn history(&mut self, query: HistoryQuery) -> Result<RequestId<History>, RequestError> {
        let (items, max) = (query.patterns.len(), HISTORY_PATTERNS_MAX);
        if items > max {
            return Err(RequestError::TooManyItems { items, max });
        }
        self.ask(1, History::new(Box::new(query)))
    }

    /// Applies an operator's action to alarms, with a comment, which may be empty. The result of
    /// each alarm is its new state, or the reason why the engine refused the action.
    pub fn act_on_alarms(
        &mut self,
        alarms: Vec<AlarmName>,
        action: AlarmAction,
        comment: &str,
    ) -> Result<RequestId<ActOnAlarms>, RequestError> {
        let comment = comment.to_owned();
        let request = ActOnAlarms {
            action,
            comment,
            results: Vec::with_capacity(alarms.len()),
            alarms,
        };
        self.ask(request.alarms.len(), request)
    }

    /// Queries the forced variables, or switches forcing for the whole engine. The answer contains
    /// all pages of the list, up to [`request_items_max`](crate::ClientOptions::request_items_max)
    /// entries.
    pub fn forcing(&mut self, verb: ForcingVerb) -> Result<RequestId<Forcing>, RequestError> {
        self.ask(1, Forcing::new(verb))
    }

    /// Deploys a library: all of its variables or, if there is an error, none. With `replace`, the
    /// library may already be deployed; unchanged variables keep their handles.
    pub fn deploy(
        &mut self,
        library: Arc<LibraryDefinition>,
        replace: bool,
    ) -> Result<RequestId<Deploy>, RequestError> {
        let items = library.variables.len().max(1);
        let deploy = Deploy {
            library,
            replace,
            report: None,
        };
        self.ask(items, deploy)
    }

    /// Undeploys, starts or stops a library.
    pub fn order_library(
        &mut self,
        name: &str,
        verb: LibraryVerb,
    ) -> Result<RequestId<OrderLibrary>, RequestError> {
        let order = OrderLibrary {
            verb,
            library: name.to_owned(),
            report: None,
        };
        self.ask(1, order)
    }

    /// Stops the engine. The answer arrives before the engine closes the connection.
    pub fn stop_engine(&mut self) -> Result<RequestId<StopEngine>, RequestError> {
        self.ask(1, StopEngine::default())
    }

    /// Makes the engine read its configuration files again.
    pub fn reload_engine(&mut self) -> Result<RequestId<ReloadEngine>, RequestError> {
        self.ask(1, ReloadEngine::default())
    }
}
