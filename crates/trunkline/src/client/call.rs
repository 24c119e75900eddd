//! Calls in progress, and the wait for their answers in every form: blocking, async and polled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use trunkline_client::{
    ClientCore, ClientOptions, ConnectionState, NotTried, Request, RequestId, Session,
    WriteBatchId, WriteOutcome,
};
use trunkline_net::{Clock, Dialler, Link, LinkOptions};
use trunkline_types::Tick;

use super::{CallError, ConnectError, ConnectOptions};

/// Time to send what is still waiting when a client is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// What a caller waits for.
pub(crate) trait Call: Send + Sync {
    type Answer;

    fn check(&self, core: &mut ClientCore) -> Option<Result<Self::Answer, CallError>>;

    /// Ends the call. Returns `None` if nothing of it was sent, and nothing will be.
    fn end(&self, core: &mut ClientCore) -> Option<Result<Self::Answer, CallError>>;

    /// Abandons the call. Does nothing if the answer was taken.
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

pub(super) struct Up;

impl Call for Up {
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

/// A connection and the behaviour of its calls; shared by clients and their subscriptions.
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

    pub(crate) fn begin<C, E: Into<CallError>>(
        &self,
        ask: impl FnOnce(&mut ClientCore, Tick) -> Result<C, E>,
    ) -> Result<C, CallError> {
        let begun = self.link.with(|core, now, _| ask(core, now));
        begun.map_err(Into::into)
    }

    /// Waits for the answer on this thread, which drives the connection meanwhile.
    pub(crate) fn wait<C: Call>(&self, call: C, timeout: Duration) -> Result<C::Answer, CallError> {
        let deadline = Some(self.deadline(timeout));
        let answer = self
            .link
            .wait_until(deadline, |core, _| self.check(core, &call));
        answer.unwrap_or_else(|| self.give_up(&call, timeout))
    }

    /// Waits for the answer in a task. A call that is dropped is abandoned.
    pub(crate) async fn wait_async<C: Call>(
        &self,
        call: C,
        timeout: Duration,
    ) -> Result<C::Answer, CallError> {
        let deadline = Some(self.deadline(timeout));
        let mut waiting = Waiting {
            shared: self,
            call,
            is_over: false,
        };
        let check = |core: &mut ClientCore, _| self.check(core, &waiting.call);
        let answer = self.link.wait(deadline, check).await;
        waiting.is_over = true;
        answer.unwrap_or_else(|| self.give_up(&waiting.call, timeout))
    }

    /// Returns the answer, or the error if there will be none. A waiting caller polls this.
    pub(crate) fn check<C: Call + ?Sized>(
        &self,
        core: &mut ClientCore,
        call: &C,
    ) -> Option<Result<C::Answer, CallError>> {
        call.check(core).or_else(|| {
            let error = self.hopeless(core)?;
            Some(call.end(core).unwrap_or(Err(error)))
        })
    }

    /// Ends a call whose time is over. Its request will not be sent any more.
    fn give_up<C: Call + ?Sized>(&self, call: &C, after: Duration) -> Result<C::Answer, CallError> {
        self.link.with(|core, _, _| {
            let answer = call.end(core);
            answer.unwrap_or_else(|| Err(too_late(core, after)))
        })
    }

    /// Returns an error if waiting for the connection is useless.
    fn hopeless(&self, core: &ClientCore) -> Option<CallError> {
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

fn too_late(core: &ClientCore, after: Duration) -> CallError {
    match core.state().cause() {
        Some(cause) => CallError::NotConnected {
            cause: Arc::clone(cause),
        },
        None => CallError::TimedOut { after },
    }
}

/// Abandons a call that is dropped before its answer.
struct Waiting<'a, C: Call> {
    shared: &'a Shared,
    call: C,
    is_over: bool,
}

impl<C: Call> Drop for Waiting<'_, C> {
    fn drop(&mut self) {
        if !self.is_over {
            let link = &self.shared.link;
            link.with(|core, _, _| self.call.forget(core));
        }
    }
}

/// A call in progress. A thread asks for its answer when it suits it, or a task awaits it. Dropping
/// it has the effect of a timeout, and the answer is discarded.
#[must_use = "dropping it abandons the call"]
pub struct PendingCall<A> {
    shared: Arc<Shared>,
    call: Box<dyn Call<Answer = A>>,
}

impl<A> PendingCall<A> {
    pub(super) fn new(shared: &Arc<Shared>, call: impl Call<Answer = A> + 'static) -> Self {
        Self {
            shared: Arc::clone(shared),
            call: Box::new(call),
        }
    }

    /// Returns the answer once, if it has arrived or if there will be none.
    ///
    /// # Errors
    /// As the verb of [`Client`](crate::Client).
    pub fn poll(&self) -> Option<Result<A, CallError>> {
        let link = &self.shared.link;
        self.unless_closed(link.with(|core, _, _| self.shared.check(core, &*self.call)))
    }

    /// As [`poll`](Self::poll), but waits up to `timeout`. `None` does not end the call.
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self, timeout: Duration) -> Option<Result<A, CallError>> {
        let deadline = Some(self.shared.deadline(timeout));
        let check = |core: &mut ClientCore, _| self.shared.check(core, &*self.call);
        self.unless_closed(self.shared.link.wait_until(deadline, check))
    }

    /// There will be no answer once the client is closed.
    fn unless_closed(&self, answer: Option<Result<A, CallError>>) -> Option<Result<A, CallError>> {
        let shared = &self.shared;
        let close = || shared.give_up(&*self.call, Duration::ZERO);
        answer.or_else(|| shared.link.is_closed().then(close))
    }

    /// Returns the answer if it has arrived, however long the connection is down.
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
