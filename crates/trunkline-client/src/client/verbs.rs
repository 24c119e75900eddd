//! The verbs with one answer: writes, and requests whose answers [`ClientCore::take`] returns.

use std::sync::Arc;

use trunkline_proto::Fault;
use trunkline_proto::limits::HISTORY_PATTERNS_MAX;
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::group::GROUP_MAX;
use trunkline_proto::message::library::LibraryVerb;
use trunkline_types::alarm::{AlarmAction, AlarmJournalQuery};
use trunkline_types::history::HistoryQuery;
use trunkline_types::{AuditQuery, Condition, LibraryDefinition, Tick};

use super::ClientCore;
use crate::error::{RequestError, WriteError};
use crate::explain::explain_connection;
use crate::options::OpenOptions;
use crate::parts::Parts;
use crate::request::{
    ActOnAlarms, AlarmJournal, AlarmName, AlarmQuery, Alarms, AnyRequest, Audit, Close, Deploy,
    Engine, Find, Flush, Forcing, History, Info, Lease, LeaseTerms, Open, OrderLibrary, Read,
    ReadInto, Request, RequestId, RequestValue, Snapshot, Why, WriteGroup,
};
use crate::variables::VariableRef;
use crate::variables::page::Page;
use crate::variables::reading_buffer::{ReadList, ReadingBuffer};
use crate::writes::{Write, WriteBatchId, WriteCounts, WriteOutcome};

/// Every verb returns a [`RequestError`] if a bound is reached or the client is closed.
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
    /// there is no answer yet, or if it was already taken.
    pub fn take<R: Request>(&mut self, request: RequestId<R>) -> Option<Result<R::Answer, Fault>> {
        self.requests.take_answer(request.0, R::unpack)
    }

    /// Returns true if the answer is available.
    pub fn is_answered<R>(&self, request: RequestId<R>) -> bool {
        self.requests.is_answered(request.0)
    }

    /// Ends a call that has waited long enough. A request that was not sent is cancelled; a request
    /// that was sent is never sent again. Returns the engine's answer if it has arrived, or an
    /// answer with an unknown outcome if the request was sent and changes the engine.
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

    /// Abandons a request whose answer is no longer wanted, in the same way as
    /// [`give_up`](Self::give_up). Variables that the request opens are closed again.
    pub fn forget<R>(&mut self, request: RequestId<R>) {
        self.requests.forget(&mut self.parts, request.0);
    }

    /// Opens variables by their full names, in one request.
    ///
    /// A variable stays open across reconnects, until it is closed as often as it was opened. The
    /// request is carried out in the background: wait for the answer to verify the names, or
    /// continue in the meantime.
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

    /// Closes one opening of each variable. Subscriptions continue, because they have their own
    /// openings.
    pub fn close(&mut self, variables: &[VariableRef]) -> Result<RequestId<Close>, RequestError> {
        self.requests.check(&self.parts.base, variables.len())?;
        let mut page = Page::of(variables);
        let mut handles = Vec::new();
        for (variable, item) in variables.iter().zip(0..) {
            let result = self.parts.base.variables.close_opening(*variable);
            page.set(item, result.map(|handle| handles.extend(handle)));
        }
        let nothing_to_send = handles.is_empty();
        let request = self.ask(variables.len(), Close { handles, page })?;
        if nothing_to_send {
            self.requests.end_at_once(&mut self.parts, request.0);
        }
        Ok(request)
    }

    /// Asks the engine for the current readings, whether new or not.
    pub fn read(&mut self, variables: &[VariableRef]) -> Result<RequestId<Read>, RequestError> {
        let list = ReadList::new(variables, ReadingBuffer::new());
        self.ask(variables.len(), Read(list))
    }

    /// Same as [`read`](Self::read), but reuses the storage of `buffer` instead of allocating a
    /// reading per item. On an error, the buffer is lost.
    pub fn read_into(
        &mut self,
        variables: &[VariableRef],
        buffer: ReadingBuffer,
    ) -> Result<RequestId<ReadInto>, RequestError> {
        let list = ReadList::new(variables, buffer);
        self.ask(variables.len(), ReadInto(Read(list)))
    }

    /// Asks for the values of up to 4,096 variables at one instant. With more variables, each value
    /// is consistent only by itself, and the answer says so.
    pub fn snapshot(
        &mut self,
        variables: &[VariableRef],
    ) -> Result<RequestId<Snapshot>, RequestError> {
        let list = ReadList::new(variables, ReadingBuffer::new());
        self.ask(variables.len(), Snapshot { list, head: None })
    }

    /// Asks the sources of variables for fresh values, which arrive as updates.
    pub fn request_value(
        &mut self,
        variables: &[VariableRef],
    ) -> Result<RequestId<RequestValue>, RequestError> {
        let page = Page::of(variables);
        self.ask(variables.len(), RequestValue(page))
    }

    /// Asks for everything the engine knows about the variables.
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

    /// Writes values and returns at once. [`take_outcomes`](Self::take_outcomes) returns the
    /// outcomes once all of them are known. Writes are sent in the order in which they were made,
    /// many per frame.
    ///
    /// Without a connection, writes wait for the next one, until [`end_writes`](Self::end_writes)
    /// ends their call. Writes that were sent but not answered when the connection broke end as
    /// unknown, because the engine may have carried them out.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] if too many writes are already queued; then none of these is
    /// accepted.
    pub fn write(
        &mut self,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<WriteBatchId, WriteError> {
        self.parts.writes.write(&mut self.parts.base, writes)
    }

    /// Same as [`write`](Self::write), for writes whose outcomes are not taken individually.
    /// [`write_counts`](Self::write_counts) counts them, and
    /// [`last_write_fault`](Self::last_write_fault) returns the last fault. Writes not sent by
    /// `expires` are cancelled.
    ///
    /// # Errors
    /// Same as for [`write`](Self::write).
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

    /// Takes the outcomes once all of them are known, in the order of the writes. Returns `None`
    /// before that, and if they were already taken.
    pub fn take_outcomes(&mut self, batch: WriteBatchId) -> Option<Vec<WriteOutcome>> {
        self.parts.writes.take_outcomes(batch)
    }

    /// Returns true if every outcome of the batch is known.
    pub fn is_settled(&self, batch: WriteBatchId) -> bool {
        self.parts.writes.is_settled(batch)
    }

    /// Ends a call before all of its outcomes are known, and takes the outcomes. A write that was
    /// not sent is cancelled, and never sent. A write that was sent, even in part, is unknown,
    /// because the engine may still carry it out; [`write_counts`](Self::write_counts) counts its
    /// true outcome once the engine answers. Returns an empty list if the outcomes were already
    /// taken.
    pub fn end_writes(&mut self, batch: WriteBatchId) -> Vec<WriteOutcome> {
        self.parts.writes.end_call(&mut self.parts.base, batch)
    }

    /// Returns the counts of all writes by outcome.
    pub fn write_counts(&self) -> WriteCounts {
        self.parts.writes.counts()
    }

    /// Returns the reason for the last write that ended as refused, cancelled or unknown.
    pub fn last_write_fault(&self) -> Option<&Fault> {
        self.parts.writes.last_fault()
    }

    /// Writes all of these values or none, with one engine timestamp and one commit number. A
    /// subscriber of all of them receives them contiguously. With `try_only`, a group that would
    /// have to wait for a subscriber is not written.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] if the values exceed the limit on queued writes,
    /// [`WriteError::Group`] if there are no writes, or more than a group may have.
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

    /// Sends everything queued before, and asks the engine to send the data that it gathers for its
    /// clients. The answer, with the counts of all writes, arrives once the engine has carried out
    /// everything queued before and every earlier write has ended. Later writes do not delay it.
    ///
    /// The whole connection uses one buffer, so a flush also sends the data of other threads and
    /// subscriptions of this client.
    pub fn flush(&mut self) -> Result<RequestId<Flush>, RequestError> {
        self.ask(1, Flush::default())
    }

    /// Searches for names that match a pattern, and collects every page: at most `limit` names if
    /// `limit` is given, and never more than
    /// [`request_items_max`](crate::ClientOptions::request_items_max).
    pub fn find(
        &mut self,
        pattern: &str,
        limit: Option<usize>,
    ) -> Result<RequestId<Find>, RequestError> {
        self.search(pattern, &[], limit)
    }

    /// Same as [`find`](Self::find), with conditions that must all hold.
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

    /// Asks the engine why a variable does not deliver.
    pub fn why(&mut self, name: &str) -> Result<RequestId<Why>, RequestError> {
        self.ask(1, Why::new(name, false, None))
    }

    /// Same as [`why`](Self::why), followed by what the client itself knows. If there is no
    /// connection, because an attempt has failed or the client is closed, the answer is only the
    /// reason for that.
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

    /// Asks for information about the engine itself.
    pub fn engine_info(&mut self) -> Result<RequestId<Engine>, RequestError> {
        self.ask(1, Engine::default())
    }

    /// Queries the audit. Collects every page, up to the query's limit or
    /// [`AUDIT_ENTRIES_MAX`](crate::AUDIT_ENTRIES_MAX). `next` in the answer is the number of the
    /// first entry not collected.
    pub fn audit(&mut self, query: AuditQuery) -> Result<RequestId<Audit>, RequestError> {
        self.ask(1, Audit::new(Box::new(query)))
    }

    /// Queries the alarms of variables, and collects every page, up to
    /// [`ALARMS_MAX`](crate::ALARMS_MAX) alarms.
    pub fn alarms(&mut self, query: AlarmQuery) -> Result<RequestId<Alarms>, RequestError> {
        self.ask(1, Alarms::new(Box::new(query)))
    }

    /// Queries the alarm journal. The answer has at most
    /// [`AUDIT_ENTRIES_MAX`](crate::AUDIT_ENTRIES_MAX) entries, and the number at which to
    /// continue.
    pub fn alarm_journal(
        &mut self,
        query: AlarmJournalQuery,
    ) -> Result<RequestId<AlarmJournal>, RequestError> {
        self.ask(1, AlarmJournal::new(Box::new(query)))
    }

    /// Queries the recorded history of variables. The answer is one page. To continue, use its
    /// `next` as the `from` of the next query.
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

    /// Carries out an operator's action on alarms, with a comment, which may be empty. The result
    /// of each alarm is its new state, or the reason why the action was refused.
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

    /// Queries the forced variables, or switches forcing for the whole engine. The answer has every
    /// page of the list, but never more than
    /// [`request_items_max`](crate::ClientOptions::request_items_max) entries.
    pub fn forcing(&mut self, verb: ForcingVerb) -> Result<RequestId<Forcing>, RequestError> {
        self.ask(1, Forcing::new(verb))
    }

    /// Deploys a whole library or nothing. With `replace`, the library may already be deployed;
    /// unchanged variables keep their handles.
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
}
