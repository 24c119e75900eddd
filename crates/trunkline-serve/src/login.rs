//! Establishes who the client of a session is, before the session opens.

use std::fmt;
use std::time::Duration;

use trunkline_engine::{Caller, Principal, Rights, Wake};
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::pair::{Pair, Paired};
use trunkline_proto::{Channel, Fault, FaultCode};
use trunkline_types::Moment;

use crate::gathering::SharedWake;
use crate::sync::{Arc, Mutex, lock};

/// Decides who the client of a connection is, and what the client may do.
pub trait Authenticator: Send + Sync {
    /// Decides about a HELLO. Called on the connection thread, so the call must not block: a
    /// decision that takes long is sent to `answer` later, from any thread.
    fn authenticate(&self, request: LoginRequest<'_>, answer: LoginAnswer);

    /// Issues a joining token for an account. The caller has the right to administer.
    ///
    /// # Errors
    /// [`Fault`]: the engine issues no tokens, too many are pending, or the account or the role is
    /// not valid.
    fn pair(&self, caller: &Caller, pair: &Pair, moment: Moment) -> Result<Paired, Fault>;
}

/// What is known of a client at its HELLO.
#[derive(Debug)]
pub struct LoginRequest<'a> {
    /// The session and the peer, as far as the transport knows them.
    pub caller: &'a Caller,
    pub channel: &'a Channel,
    /// The client's proofs. Everything else in it is a statement of the client, which nobody has
    /// verified.
    pub hello: &'a Hello,
    pub moment: Moment,
}

/// The identity of a session. It never changes: if the rights of the client change, the session
/// ends, and the client connects again.
#[derive(Clone, Debug)]
pub struct Identity {
    pub principal: Principal,
    pub rights: Rights,
    /// Name of the account; empty without one.
    pub account: String,
    /// Role of the account; empty without one.
    pub role: String,
    pub standing: Arc<Standing>,
    /// Called when the session ends, also if it ends before it takes this identity.
    pub on_end: Option<OnEnd>,
}

/// What the host does when a session ends, with the reason.
#[derive(Clone)]
pub struct OnEnd(pub Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for OnEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnEnd")
    }
}

/// The reason why a client is not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginRefusal {
    pub fault: Fault,
    /// Time after which the client should try again, if that can help.
    pub retry_after: Option<Duration>,
}

/// Ends a session from outside, because its account was changed or removed.
pub struct Standing {
    goodbye: Mutex<Option<Goodbye>>,
    wake: SharedWake,
}

/// Takes the decision about a HELLO. If it is dropped without a decision, the client is refused.
#[derive(Debug)]
pub struct LoginAnswer {
    slot: Arc<LoginSlot>,
    is_sent: bool,
}

/// The place where a session finds the decision about its HELLO.
#[derive(Debug)]
pub(crate) struct LoginSlot {
    decision: Mutex<Option<Result<Identity, LoginRefusal>>>,
    standing: Arc<Standing>,
}

/// The login of a connection that is not a [`Session`](crate::Session).
#[derive(Debug)]
pub struct AwaitedLogin(Arc<LoginSlot>);

impl AwaitedLogin {
    /// Asks who the client is. `wake` is called when there is a decision, and when the standing of the
    /// client ends.
    pub fn begin(
        authenticator: &dyn Authenticator,
        request: LoginRequest<'_>,
        wake: Arc<dyn Wake>,
    ) -> Self {
        let (answer, slot) = LoginAnswer::new(SharedWake(wake));
        authenticator.authenticate(request, answer);
        Self(slot)
    }

    /// Takes the decision; `None` while there is none.
    pub fn take(&self) -> Option<Result<Identity, LoginRefusal>> {
        self.0.take()
    }
}

impl Standing {
    /// Creates the standing of a client without a session. `wake` is called when it ends.
    pub fn of_guest(wake: Arc<dyn Wake>) -> Self {
        Self::new(SharedWake(wake))
    }

    fn new(wake: SharedWake) -> Self {
        Self {
            goodbye: Mutex::new(None),
            wake,
        }
    }

    /// Ends the session with this message. The first call counts.
    pub fn end(&self, goodbye: Goodbye) {
        lock(&self.goodbye).get_or_insert(goodbye);
        self.wake.wake();
    }

    /// Returns the message with which the session must end; `None` while it may continue.
    pub fn goodbye(&self) -> Option<Goodbye> {
        lock(&self.goodbye).clone()
    }
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standing")
            .field("goodbye", &self.goodbye())
            .finish_non_exhaustive()
    }
}

impl LoginAnswer {
    pub(crate) fn new(wake: SharedWake) -> (Self, Arc<LoginSlot>) {
        let slot = Arc::new(LoginSlot {
            decision: Mutex::new(None),
            standing: Arc::new(Standing::new(wake)),
        });
        let answer = Self {
            slot: Arc::clone(&slot),
            is_sent: false,
        };
        (answer, slot)
    }

    /// The standing of the session, for the identity that is sent.
    pub fn standing(&self) -> Arc<Standing> {
        Arc::clone(&self.slot.standing)
    }

    pub fn send(mut self, decision: Result<Identity, LoginRefusal>) {
        self.deliver(decision);
    }

    fn deliver(&mut self, decision: Result<Identity, LoginRefusal>) {
        self.is_sent = true;
        *lock(&self.slot.decision) = Some(decision);
        self.slot.standing.wake.wake();
    }
}

impl Drop for LoginAnswer {
    fn drop(&mut self) {
        if !self.is_sent {
            let sentence = "the engine is shutting down and did not check the login; log in again \
                            when the engine runs again";
            self.deliver(Err(LoginRefusal {
                fault: Fault::new(FaultCode::ShuttingDown, sentence),
                retry_after: None,
            }));
        }
    }
}

impl LoginSlot {
    /// Takes the decision; `None` while there is none.
    pub(crate) fn take(&self) -> Option<Result<Identity, LoginRefusal>> {
        lock(&self.decision).take()
    }
}

impl Drop for LoginSlot {
    fn drop(&mut self) {
        // The client was accepted, but its connection ended before.
        if let Some(Ok(identity)) = self.take()
            && let Some(OnEnd(report)) = identity.on_end
        {
            report("the connection ended while the engine checked the login");
        }
    }
}
