//! Sessions of the directory of streams: each connection logs in, and its requests pass the gate.
//!
//! ```text
//!   S_LOGIN, or the user that the system reports
//!      |
//!      v  Logins: account, rights                Gate: pass_stream for each request
//!   StreamSession ----------------------> DirectorySession -----> DirectoryHost
//! ```
//!
//! If the rights of the account change, the session ends, and the directory ends the connections between
//! endpoints that it has permitted.

use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::{Caller, Rights, Wake};
use trunkline_net::{Clock, Notifier};
use trunkline_proto::frame::{FrameHeader, HEADER_BYTES};
use trunkline_proto::limits::{HELLO_DEADLINE, HELLO_FRAME_MAX};
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::stream::directory::Identity as PeerIdentity;
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::{Channel, Disconnect, Endpoint, Fault, FaultCode, Frame, FrameKind};
use trunkline_serve::gate::{note_stream, pass_stream, shows_stream};
use trunkline_serve::{AwaitedLogin, Identity, LoginRefusal, LoginRequest, OnEnd, Standing};
use trunkline_stream::directory::{DirectoryHost, DirectorySession, Gate};
use trunkline_types::{Moment, StreamUrl, Tick, Timestamp};
use zeroize::Zeroize;

use crate::logins::Logins;

/// A connection to the directory.
pub(crate) struct StreamSession {
    state: State,
    /// The client, with its rights once it has logged in.
    caller: Caller,
    channel: Channel,
    logins: Arc<Logins>,
    directory: Arc<DirectoryHost>,
    notifier: Notifier,
    /// The connection's socket can be handed over to another process.
    can_hand_over: bool,
    /// Time at which the client must have logged in.
    login_deadline: Tick,
    /// Ends the session if the account of its client changes.
    standing: Option<Arc<Standing>>,
    /// Called when the session ends; `None` afterwards.
    on_end: Option<OnEnd>,
}

enum State {
    /// The first frame has not arrived completely.
    First(Vec<u8>),
    /// The decision about the login is awaited. The client may have sent more.
    Login(AwaitedLogin, Vec<u8>),
    Open(Box<DirectorySession>),
}

/// Wakes the thread of a connection.
struct NotifyWake(Notifier);

impl Wake for NotifyWake {
    fn wake(&self) {
        self.0.notify();
    }
}

/// The rights of a client at the directory.
struct ClientGate {
    caller: Caller,
    logins: Arc<Logins>,
    standing: Option<Arc<Standing>>,
}

impl Gate for ClientGate {
    fn pass(&self, kind: FrameKind, url: &StreamUrl) -> Result<(), Fault> {
        let (now, wall) = Clock::new().moment();
        let moment = Moment { now, wall };
        pass_stream(self.logins.engine(), &self.caller, kind, url, moment)
    }

    fn note(&self, kind: FrameKind, url: Option<&StreamUrl>, refused: Option<&Fault>) {
        // Without accounts, all programs are of one user.
        if !self.logins.has_accounts() {
            return;
        }
        let (now, wall) = Clock::new().moment();
        let (engine, moment) = (self.logins.engine(), Moment { now, wall });
        note_stream(engine, &self.caller, kind, url, refused, moment);
    }

    fn shows(&self, url: &StreamUrl) -> bool {
        shows_stream(&self.caller, url)
    }

    fn identity(&self) -> PeerIdentity {
        let principal = &self.caller.principal;
        principal.is_proved().then(|| principal.to_string().into())
    }

    fn login(&self) -> Option<String> {
        self.logins.login_of(self.standing.as_ref()?)
    }

    fn guest(&self, url: &StreamUrl, identity: &str, login: &str) -> Option<Arc<dyn Gate>> {
        let (caller, standing) = self.logins.readmit(url, identity, login);
        Some(Arc::new(ClientGate {
            caller,
            logins: Arc::clone(&self.logins),
            standing: Some(standing),
        }))
    }

    fn may_end(&self) -> bool {
        self.standing.is_some()
    }

    fn has_ended(&self) -> bool {
        let standing = self.standing.as_ref();
        standing.is_some_and(|standing| standing.goodbye().is_some())
    }

    fn is_lost(&self, url: &StreamUrl) -> bool {
        match self.standing.as_ref().and_then(|one| one.goodbye()) {
            None => false,
            Some(goodbye) if goodbye.code == FaultCode::RightsChanged => {
                !self.logins.permits_stream(&self.caller, url)
            }
            Some(_) => true,
        }
    }
}

impl StreamSession {
    /// Creates the session of a connection whose first frame is for the directory.
    pub(crate) fn new(
        caller: Caller,
        channel: Channel,
        logins: Arc<Logins>,
        directory: Arc<DirectoryHost>,
        (notifier, can_hand_over): (Notifier, bool),
        now: Tick,
    ) -> Self {
        Self {
            state: State::First(Vec::new()),
            caller,
            channel,
            logins,
            directory,
            notifier,
            can_hand_over,
            login_deadline: now.saturating_add(HELLO_DEADLINE),
            standing: None,
            on_end: None,
        }
    }

    /// Begins the login with the first frame, once it is complete. A first frame that is no S_LOGIN
    /// proves nothing, but the system may know the user of the client.
    fn begin_login(&mut self, now: Tick, wall: Timestamp) {
        let State::First(input) = &mut self.state else {
            return;
        };
        let hello = match take_login(input) {
            Ok(None) => return,
            Ok(Some(hello)) => hello,
            Err(cause) => {
                let fault = Fault::new(FaultCode::Malformed, cause.to_string());
                return self.refuse(now, fault, None);
            }
        };
        let input = std::mem::take(input);
        let request = LoginRequest {
            caller: &self.caller,
            channel: &self.channel,
            hello: &hello,
            moment: Moment { now, wall },
        };
        let wake = Arc::new(NotifyWake(self.notifier.clone()));
        let login = AwaitedLogin::begin(&*self.logins, request, wake);
        self.state = State::Login(login, input);
        self.finish_login(now, wall);
    }

    /// Opens the session, or refuses the client, if there is a decision about its login.
    fn finish_login(&mut self, now: Tick, wall: Timestamp) {
        let State::Login(login, input) = &mut self.state else {
            return;
        };
        match login.take() {
            None => {}
            Some(Err(LoginRefusal { fault, retry_after })) => {
                self.refuse(now, fault, retry_after);
            }
            Some(Ok(identity)) => {
                let input = std::mem::take(input);
                let Identity {
                    principal,
                    rights,
                    standing,
                    on_end,
                    ..
                } = identity;
                (self.caller.principal, self.caller.rights) = (principal, rights);
                // Without an account, nothing can change.
                self.standing = on_end.is_some().then_some(standing);
                self.on_end = on_end;
                let mut session = self.directory_session(now);
                session.handle_input(now, wall, &input);
                self.state = State::Open(session);
            }
        }
    }

    /// Answers with the reason why the client is not accepted, and closes the connection.
    fn refuse(&mut self, now: Tick, fault: Fault, retry_after: Option<Duration>) {
        self.caller.rights = Rights::NONE;
        let mut session = self.directory_session(now);
        session.end(fault, retry_after);
        self.state = State::Open(session);
    }

    fn directory_session(&self, now: Tick) -> Box<DirectorySession> {
        let gate = Arc::new(ClientGate {
            caller: self.caller.clone(),
            logins: Arc::clone(&self.logins),
            standing: self.standing.clone(),
        });
        let (directory, notifier) = (Arc::clone(&self.directory), self.notifier.clone());
        let session = DirectorySession::new(directory, notifier, gate, now);
        let mut session = match self.can_hand_over {
            true => Box::new(session),
            false => Box::new(session.without_registration()),
        };
        session.handle_channel(&self.channel);
        session
    }

    /// Ends the session if the account of its client was changed.
    fn end_if_revoked(&mut self) {
        let goodbye = self.standing.as_ref().and_then(|one| one.goodbye());
        if let (State::Open(session), Some(goodbye)) = (&mut self.state, goodbye) {
            let Goodbye {
                code,
                retry_after,
                sentence,
            } = goodbye;
            session.end(Fault::new(code, sentence), retry_after);
        }
    }
}

/// Removes the S_LOGIN from the start of `input`. Returns `None` while the first frame is incomplete, and
/// a login without proofs if it is another frame.
fn take_login(input: &mut Vec<u8>) -> Result<Option<Hello>, Disconnect> {
    let Some((head, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let header = FrameHeader::from_bytes(head);
    if FrameKind::from_number(header.kind) != Some(FrameKind::StreamLogin) {
        return Ok(Some(Hello::default()));
    }
    let malformed = |sentence: &str| Disconnect::Malformed {
        sentence: sentence.to_owned(),
    };
    if header.length > HELLO_FRAME_MAX {
        return Err(malformed("S_LOGIN is too long"));
    }
    let Some(payload) = rest.get(..header.length as usize) else {
        return Ok(None);
    };
    let frame = Frame::new(header, payload)?;
    if !is_frame_intact(&frame) {
        return Err(malformed("S_LOGIN was altered in transit"));
    }
    let hello = Hello::decode(&frame)?;
    let length = HEADER_BYTES + payload.len();
    // The frame may have a password or a token.
    input[..length].zeroize();
    input.drain(..length);
    Ok(Some(hello))
}

impl Endpoint for StreamSession {
    fn handle_channel(&mut self, channel: &Channel) {
        self.channel = channel.clone();
    }

    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        match &mut self.state {
            State::First(input) => {
                input.extend_from_slice(bytes);
                self.begin_login(now, wall);
            }
            // Bounded, because `wants_input` is false.
            State::Login(_, input) => input.extend_from_slice(bytes),
            State::Open(session) => session.handle_input(now, wall, bytes),
        }
    }

    fn wants_input(&self) -> bool {
        match &self.state {
            State::First(_) => true,
            State::Login(..) => false,
            State::Open(session) => session.wants_input(),
        }
    }

    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        self.finish_login(now, wall);
        self.end_if_revoked();
        match &mut self.state {
            State::First(_) | State::Login(..) => false,
            State::Open(session) => session.poll_output(now, wall, budget, out),
        }
    }

    fn poll_timeout(&self) -> Option<Tick> {
        match &self.state {
            State::First(_) | State::Login(..) => Some(self.login_deadline),
            State::Open(session) => session.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Tick, wall: Timestamp) {
        match &mut self.state {
            State::First(_) | State::Login(..) if now >= self.login_deadline => {
                let sentence = "the login took too long; try again";
                self.refuse(now, Fault::new(FaultCode::TimedOut, sentence), None);
            }
            State::First(_) | State::Login(..) => {}
            State::Open(session) => session.handle_timeout(now, wall),
        }
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        if let Some(OnEnd(report)) = self.on_end.take() {
            report(&cause.to_string());
        }
        if let State::Open(session) = &mut self.state {
            session.handle_disconnected(now, cause);
        }
    }

    fn wants_close(&self) -> Option<Disconnect> {
        match &self.state {
            State::First(_) | State::Login(..) => None,
            State::Open(session) => session.wants_close(),
        }
    }

    fn is_in_handshake(&self) -> bool {
        match &self.state {
            State::First(_) | State::Login(..) => true,
            State::Open(session) => session.is_in_handshake(),
        }
    }

    fn wants_handover(&self) -> Option<u64> {
        match &self.state {
            State::First(_) | State::Login(..) => None,
            State::Open(session) => session.wants_handover(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use trunkline_engine::{Engine, EngineOptions, Principal};
    use trunkline_identity::authority::EngineSubject;
    use trunkline_identity::folder::SecurityFolder;
    use trunkline_proto::message::stream::directory::Lookup;

    use super::*;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    /// Encryption alone admits nobody.
    ///
    /// Behaviour: B-80, B-81.
    #[test]
    fn connection_without_a_login_needs_a_user_whom_the_system_reports() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("security");
        let subject = EngineSubject {
            name: "plant".to_owned(),
            host_names: Vec::new(),
        };
        let clock = Clock::new();
        let (now, wall) = clock.moment();
        SecurityFolder::create(&path, &subject, wall).unwrap();
        let engine = Engine::new(EngineOptions::new("plant", 1));
        let logins = Logins::open(&engine, clock, 1000, false, Some(&path)).unwrap();
        let mut input = Vec::new();
        Lookup::default().encode(&mut input);
        let hello = take_login(&mut input).unwrap().unwrap();
        let caller = Caller {
            principal: Principal::Unauthenticated,
            rights: Rights::NONE,
            remote: true,
            ..Caller::local(1, 0)
        };
        let decide = |address: &str, uid: Option<u32>, is_encrypted: bool| {
            let channel = Channel {
                is_private: is_encrypted,
                binding: is_encrypted.then_some([7; 32]),
                address: Some(address.parse().unwrap()),
                uid,
                ..Channel::default()
            };
            let request = LoginRequest {
                caller: &caller,
                channel: &channel,
                hello: &hello,
                moment: Moment { now, wall },
            };
            let login = AwaitedLogin::begin(&logins, request, Arc::new(NoWake));
            let decision = login.take().expect("a decision at once");
            decision.map(|_| ()).map_err(|refusal| refusal.fault.code)
        };
        let refused = Err(FaultCode::NotAuthenticated);
        for is_encrypted in [false, true] {
            // Another machine, also if it claims a user.
            assert_eq!(decide("192.0.2.7", None, is_encrypted), refused);
            assert_eq!(decide("192.0.2.7", Some(1000), is_encrypted), refused);
            // This machine: another user, and one that the system does not report.
            assert_eq!(decide("127.0.0.1", Some(1001), is_encrypted), refused);
            assert_eq!(decide("127.0.0.1", None, is_encrypted), refused);
            assert_eq!(decide("127.0.0.1", Some(1000), is_encrypted), Ok(()));
        }
    }
}
