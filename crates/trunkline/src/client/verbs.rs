//! The requests and answers that both kinds of client have in common.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{
    Answer, ClientCore, ClientOptions, Condition, ConnectionState, ForcedList, Found, GroupOutcome,
    Lease, LeaseTerms, NotTried, OpenOptions, Opened, ReadingPage, RequestError, RequestId,
    Session, Snapshot, Step, VariableRef, Write, WriteBatchId, WriteCounts, WriteOutcome,
};
use trunkline_net::{Clock, Dialler, Link, LinkOptions};
use trunkline_proto::Fault;
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::message::library::{LibraryReport, LibraryVerb};
use trunkline_types::{AuditPage, AuditQuery, LibraryDefinition, Reading, Tick};

use super::{CallError, ConnectError, ConnectOptions};

/// Time to send what is still waiting when a client is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// A connection and the behaviour of its calls; shared by clients and their subscriptions.
pub(crate) struct Shared {
    pub(crate) link: Arc<Link<ClientCore>>,
    pub(crate) clock: Clock,
    fail_fast: bool,
}

/// A request in progress, and the function that reads its answer.
pub(crate) struct Pending<R> {
    pub(crate) id: RequestId,
    read: fn(Answer) -> Result<R, CallError>,
}

/// One result for each variable of a list.
pub(crate) type Results<T> = Vec<Result<T, Fault>>;

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
            throughput: options.throughput,
            // Makes each client dial at different moments.
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

    pub(crate) fn open<N: AsRef<str>>(
        &self,
        names: &[N],
        options: OpenOptions,
    ) -> Result<Pending<Results<Opened>>, CallError> {
        self.send(
            |core| core.open(names, options),
            |answer| match answer {
                Answer::Opened(results) => Ok(results),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn read(
        &self,
        variables: &[VariableRef],
    ) -> Result<Pending<Results<Reading>>, CallError> {
        self.send(
            |core| core.read(variables),
            |answer| match answer {
                Answer::Readings(results) => Ok(results),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn read_page(
        &self,
        variables: &[VariableRef],
        page: ReadingPage,
    ) -> Result<Pending<ReadingPage>, CallError> {
        self.send(
            |core| core.read_page(variables, page),
            |answer| match answer {
                Answer::Page(page) => Ok(page),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn request_value(
        &self,
        variables: &[VariableRef],
    ) -> Result<Pending<Results<()>>, CallError> {
        self.send(
            |core| core.request_value(variables),
            |answer| match answer {
                Answer::Requested(results) => Ok(results),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn info(
        &self,
        variables: &[VariableRef],
    ) -> Result<Pending<Results<VariableInfo>>, CallError> {
        self.send(
            |core| core.info(variables),
            |answer| match answer {
                Answer::Info(results) => Ok(results),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn find(
        &self,
        pattern: &str,
        conditions: &[Condition],
        limit: Option<usize>,
    ) -> Result<Pending<Vec<Found>>, CallError> {
        self.send(
            |core| core.search(pattern, conditions, limit),
            |answer| match answer {
                Answer::Names(found) => Ok(found),
                other => Err(unexpected(other)),
            },
        )
    }

    /// Returns the reason if there is no connection to ask over.
    pub(crate) fn why_unconnected(&self, name: &str) -> Option<Vec<Step>> {
        let now = self.clock.now();
        let step = |core: &mut ClientCore| core.explain_connection(now, name);
        self.link
            .with(|core, _, _| step(core))
            .map(|step| vec![step])
    }

    /// The steps that this end adds to those of the engine.
    pub(crate) fn why_here(&self, name: &str) -> Vec<Step> {
        let now = self.clock.now();
        self.link
            .with(|core, _, _| core.explain_consumer(now, name))
    }

    pub(crate) fn why(&self, name: &str) -> Result<Pending<Vec<Step>>, CallError> {
        self.send(
            |core| core.why(name),
            |answer| match answer {
                Answer::Why(steps) => Ok(steps),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn engine_info(&self) -> Result<Pending<EngineInfo>, CallError> {
        self.send(
            |core| core.engine_info(),
            |answer| match answer {
                Answer::Engine(info) => Ok(info),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn flush(&self) -> Result<Pending<()>, CallError> {
        self.send(
            |core| core.flush(),
            |answer| match answer {
                Answer::Flushed => Ok(()),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn write_group(
        &self,
        writes: Vec<Write>,
        try_only: bool,
    ) -> Result<Pending<GroupOutcome>, CallError> {
        let id = self
            .link
            .with(|core, _, _| core.write_group(writes, try_only))?;
        Ok(Pending {
            id,
            read: |answer| match answer {
                Answer::Group(ended) => Ok(ended),
                other => Err(unexpected(other)),
            },
        })
    }

    pub(crate) fn snapshot(
        &self,
        variables: &[VariableRef],
    ) -> Result<Pending<Snapshot>, CallError> {
        self.send(
            |core| core.snapshot(variables),
            |answer| match answer {
                Answer::Snapshot(snapshot) => Ok(snapshot),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn lease(
        &self,
        variables: &[VariableRef],
        terms: LeaseTerms,
    ) -> Result<Pending<Results<Lease>>, CallError> {
        self.send(
            |core| core.lease(variables, terms),
            |answer| match answer {
                Answer::Leases(results) => Ok(results),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn deploy(
        &self,
        library: Arc<LibraryDefinition>,
        replace: bool,
    ) -> Result<Pending<LibraryReport>, CallError> {
        self.send(|core| core.deploy(library, replace), library_report)
    }

    pub(crate) fn order_library(
        &self,
        name: &str,
        verb: LibraryVerb,
    ) -> Result<Pending<LibraryReport>, CallError> {
        self.send(|core| core.order_library(name, verb), library_report)
    }

    pub(crate) fn audit(&self, query: AuditQuery) -> Result<Pending<AuditPage>, CallError> {
        self.send(
            |core| core.audit(query),
            |answer| match answer {
                Answer::Audit(page) => Ok(page),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn forcing(&self, verb: ForcingVerb) -> Result<Pending<ForcedList>, CallError> {
        self.send(
            |core| core.forcing(verb),
            |answer| match answer {
                Answer::Forced(list) => Ok(list),
                other => Err(unexpected(other)),
            },
        )
    }

    pub(crate) fn close_variables(
        &self,
        variables: &[VariableRef],
    ) -> Result<Pending<Results<()>>, CallError> {
        self.send(
            |core| core.close(variables),
            |answer| match answer {
                Answer::Closed(results) => Ok(results),
                other => Err(unexpected(other)),
            },
        )
    }

    fn send<R>(
        &self,
        ask: impl FnOnce(&mut ClientCore) -> Result<RequestId, RequestError>,
        read: fn(Answer) -> Result<R, CallError>,
    ) -> Result<Pending<R>, CallError> {
        let id = self.link.with(|core, _, _| ask(core))?;
        Ok(Pending { id, read })
    }

    /// Returns the answer, or the error if there will be none. A waiting caller polls this.
    pub(crate) fn check<R>(
        &self,
        core: &mut ClientCore,
        pending: &Pending<R>,
    ) -> Option<Result<R, CallError>> {
        if let Some(answer) = core.take(pending.id) {
            return Some((pending.read)(answer));
        }
        let error = self.hopeless(core)?;
        Some(end(core, pending, error))
    }

    /// Ends a call whose time is over; its request will not be sent any more.
    pub(crate) fn give_up<R>(&self, pending: &Pending<R>, after: Duration) -> Result<R, CallError> {
        self.link
            .with(|core, _, _| end(core, pending, too_late(core, after)))
    }

    /// Returns the outcomes of a call's writes once all are known, or those known so far if waiting
    /// is useless.
    pub(crate) fn check_writes(
        &self,
        core: &mut ClientCore,
        batch: WriteBatchId,
    ) -> Option<Result<Vec<WriteOutcome>, CallError>> {
        if let Some(outcomes) = core.take_outcomes(batch) {
            return Some(Ok(outcomes));
        }
        let error = self.hopeless(core)?;
        Some(end_writes(core, batch, error))
    }

    /// Ends a writing call whose time is over; none of its writes will be sent any more.
    pub(crate) fn give_up_writes(
        &self,
        batch: WriteBatchId,
        after: Duration,
    ) -> Result<Vec<WriteOutcome>, CallError> {
        self.link
            .with(|core, _, _| end_writes(core, batch, too_late(core, after)))
    }

    /// Queues writes that are cancelled if they are not sent within `life`.
    pub(crate) fn write_untracked(
        &self,
        writes: impl IntoIterator<Item = Write>,
        life: Duration,
    ) -> Result<(), CallError> {
        Ok(self
            .link
            .with(|core, now, _| core.write_untracked(writes, now.saturating_add(life)))?)
    }

    /// Returns the outcome counts of all writes once a flush is answered.
    pub(crate) fn check_flush(
        &self,
        core: &mut ClientCore,
        flush: &Pending<()>,
    ) -> Option<Result<WriteCounts, CallError>> {
        let flushed = self.check(core, flush)?;
        Some(flushed.map(|()| core.write_counts()))
    }

    /// Returns an error if waiting for the connection is useless.
    pub(crate) fn hopeless(&self, core: &ClientCore) -> Option<CallError> {
        match core.state() {
            ConnectionState::Closed { cause } => Some(CallError::NotConnected { cause }),
            ConnectionState::Connecting {
                last_failure: Some(cause),
                ..
            } if self.fail_fast => Some(CallError::NotConnected { cause }),
            _ => None,
        }
    }

    /// Returns the session once there is one.
    pub(crate) fn session(&self, core: &ClientCore) -> Option<Result<Arc<Session>, CallError>> {
        match core.state() {
            ConnectionState::Connected(session) => Some(Ok(session)),
            _ => self.hopeless(core).map(Err),
        }
    }

    /// Returns the error of a call whose time is over.
    pub(crate) fn too_late(&self, after: Duration) -> CallError {
        self.link.with(|core, _, _| too_late(core, after))
    }

    /// Discards the answer, because no caller waits for it any longer.
    pub(crate) fn forget<R>(&self, pending: &Pending<R>) {
        self.link.with(|core, _, _| core.forget(pending.id));
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

fn too_late(core: &ClientCore, after: Duration) -> CallError {
    match core.state().cause() {
        Some(cause) => CallError::NotConnected {
            cause: Arc::clone(cause),
        },
        None => CallError::TimedOut { after },
    }
}

/// Ends a call. Returns the engine's answer if it has arrived, or that the outcome is unknown if
/// the request changes the engine and was sent; otherwise `error`.
fn end<R>(core: &mut ClientCore, pending: &Pending<R>, error: CallError) -> Result<R, CallError> {
    match core.give_up(pending.id) {
        Some(answer) => (pending.read)(answer),
        None => Err(error),
    }
}

/// Ends a writing call. Returns `error` if nothing was sent.
fn end_writes(
    core: &mut ClientCore,
    batch: WriteBatchId,
    error: CallError,
) -> Result<Vec<WriteOutcome>, CallError> {
    let outcomes = core.end_writes(batch);
    let is_cancelled =
        |outcome: &WriteOutcome| matches!(outcome, WriteOutcome::NotTried(NotTried::Cancelled(_)));
    match outcomes.iter().all(is_cancelled) {
        true => Err(error),
        false => Ok(outcomes),
    }
}

fn library_report(answer: Answer) -> Result<LibraryReport, CallError> {
    match answer {
        Answer::Library(report) => Ok(report),
        other => Err(unexpected(other)),
    }
}

fn unexpected(answer: Answer) -> CallError {
    match answer {
        Answer::Refused(fault) => CallError::Fault(fault),
        _ => CallError::Answer,
    }
}
