//! The verbs with one answer: each makes a request, whose answer [`ClientCore::take`] takes.

use std::sync::Arc;

use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::group::GROUP_MAX;
use trunkline_proto::message::library::LibraryVerb;
use trunkline_types::{AuditQuery, Condition, LibraryDefinition, Tick};

use crate::client::ClientCore;
use crate::error::{RequestError, WriteError};
use crate::options::OpenOptions;
use crate::page::{ReadList, ReadingPage};
use crate::request::{
    Audit, Close, Deploy, Engine, Find, Flush, Forcing, Info, Lease, LeaseTerms, Open,
    OrderLibrary, Page, Read, ReadPage, RequestId, RequestValue, Snapshot, Why, WriteGroup,
};
use crate::variable::VariableRef;
use crate::write::Write;

/// Every verb returns a [`RequestError`] if a bound is reached or the client is closed.
impl ClientCore {
    /// Opens variables by their full names, in one request.
    ///
    /// An open variable stays open across reconnects, until it is closed as often as it was opened.
    /// Opening happens in the background: wait for the answer to verify the names, or continue
    /// meanwhile.
    pub fn open<N: AsRef<str>>(
        &mut self,
        names: &[N],
        options: OpenOptions,
    ) -> Result<RequestId<Open>, RequestError> {
        self.check_request(names.len())?;
        self.variables.reserve(names.len());
        self.variables.reserve_handles(names.len());
        let variables = names
            .iter()
            .map(|name| self.variables.acquire(name.as_ref()))
            .collect();
        let page = Page::new(variables);
        self.ask(names.len(), Open { page, options })
    }

    /// Closes variables, once each. Subscriptions continue, because they hold their own openings.
    pub fn close(&mut self, variables: &[VariableRef]) -> Result<RequestId<Close>, RequestError> {
        self.check_request(variables.len())?;
        let mut page = Page::of(variables);
        let mut handles = Vec::new();
        for (variable, item) in variables.iter().zip(0..) {
            let result = self.variables.close_opening(*variable);
            page.set(item, result.map(|handle| handles.extend(handle)));
        }
        let nothing_to_send = handles.is_empty();
        let request = self.ask(variables.len(), Close { handles, page })?;
        if nothing_to_send {
            self.end_at_once(request);
        }
        Ok(request)
    }

    /// Asks the engine for current readings, whether new or not.
    pub fn read(&mut self, variables: &[VariableRef]) -> Result<RequestId<Read>, RequestError> {
        let list = ReadList::new(variables, ReadingPage::new());
        self.ask(variables.len(), Read(list))
    }

    /// Same as [`read`](Self::read), but reuses the storage of `page` instead of allocating a
    /// reading per item. On an error, the page is lost.
    pub fn read_page(
        &mut self,
        variables: &[VariableRef],
        page: ReadingPage,
    ) -> Result<RequestId<ReadPage>, RequestError> {
        let list = ReadList::new(variables, page);
        self.ask(variables.len(), ReadPage(Read(list)))
    }

    /// Asks for the values of variables at one instant, for up to 4,096 of them. With more, each
    /// value is consistent only by itself, and the answer says so.
    pub fn snapshot(
        &mut self,
        variables: &[VariableRef],
    ) -> Result<RequestId<Snapshot>, RequestError> {
        let list = ReadList::new(variables, ReadingPage::new());
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

    /// Writes all of these values or none, with one engine timestamp and one commit number.
    /// Subscribers of all of them receive them contiguously. With `try_only`, a group that would
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
        self.check_writes(&writes)?;
        let group = WriteGroup {
            writes,
            try_only,
            outcome: None,
        };
        self.ask(items, group).map_err(|error| match error {
            RequestError::Closed { cause } => WriteError::Closed { cause },
            _ => WriteError::OutcomesNotTaken {
                waiting: self.requests.count(),
            },
        })
    }

    /// Sends everything handed over before, and has the engine send what it gathers for its
    /// clients. Answered with the counts of all writes once the engine has carried out what came
    /// before, and every earlier write has ended. Later writes do not delay it.
    ///
    /// One buffer serves the whole connection, so a flush also sends the data of other threads and
    /// subscriptions of this client.
    pub fn flush(&mut self) -> Result<RequestId<Flush>, RequestError> {
        self.ask(1, Flush::default())
    }

    /// Searches for names that match a pattern, and collects every page: at most `limit` names if
    /// given, and never more than [`request_items_max`](crate::ClientOptions::request_items_max).
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
            limit: limit.min(self.options.request_items_max),
            cursor: 0,
            found: Vec::new(),
        };
        self.ask(1, find)
    }

    /// Asks the engine why a variable does not deliver.
    pub fn why(&mut self, name: &str) -> Result<RequestId<Why>, RequestError> {
        self.ask(1, Why::new(name, false, None))
    }

    /// Same as [`why`](Self::why), followed by what this end knows. While there is no connection,
    /// because an attempt has failed or the client is closed, the answer is the reason for that
    /// alone.
    pub fn explain(&mut self, now: Tick, name: &str) -> Result<RequestId<Why>, RequestError> {
        let Some(step) = self.explain_connection(now, name) else {
            return self.ask(1, Why::new(name, true, None));
        };
        let request = self.push(1, Why::new(name, true, Some(vec![step])));
        self.end_at_once(request);
        Ok(request)
    }

    /// Asks for information about the engine itself.
    pub fn engine_info(&mut self) -> Result<RequestId<Engine>, RequestError> {
        self.ask(1, Engine::default())
    }

    /// Queries the audit. Collects every page, up to the query's limit or
    /// [`AUDIT_ENTRIES_MAX`](crate::AUDIT_ENTRIES_MAX); `next` in the answer is where the following
    /// entries begin.
    pub fn audit(&mut self, query: AuditQuery) -> Result<RequestId<Audit>, RequestError> {
        self.ask(1, Audit::new(Box::new(query)))
    }

    /// Queries the forced variables, or switches forcing for the whole engine. Answered with every
    /// page of the list, but never more than
    /// [`request_items_max`](crate::ClientOptions::request_items_max) entries.
    pub fn forcing(&mut self, verb: ForcingVerb) -> Result<RequestId<Forcing>, RequestError> {
        self.ask(1, Forcing::new(verb))
    }

    /// Deploys a library, all of it or nothing. With `replace`, the library may already be
    /// deployed; unchanged variables keep their handles.
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
