//! Implements the engine's end of one connection: its state, how it opens and how it closes.

mod endpoint;

use std::sync::Arc;

use trunkline_engine::{Caller, Consumer, Engine, Wake, Wakes};
use trunkline_proto::limits::FRAME_MAX_MIN;
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::login::Password;
use trunkline_proto::{
    Agreement, Channel, Disconnect, FaultCode, Features, FrameBuffer, FrameLimits, Liveness,
    ThroughputMode,
};
use trunkline_types::text::is_unprintable;
use trunkline_types::{Moment, Tick, Timestamp};

use crate::answers::Answers;
use crate::context::{Context, Queue};
use crate::gathering::{Gathering, SharedWake};
use crate::login::{Identity, LoginAnswer, LoginRefusal, LoginRequest, LoginSlot, OnEnd, Standing};
use crate::options::ServeOptions;
use crate::request_budget::Account;
use crate::requests::control::ControlRole;
use crate::requests::convergence::Convergence;
use crate::requests::deploy::Deploys;
use crate::requests::provider::ProviderRole;
use crate::requests::watch::Watches;
use crate::unfinished::Unfinished;
use crate::updates::RecordEncoder;
use crate::window::Window;
use crate::write_run::{Parked, Unanswered};

/// The engine's end of one connection, as a state machine.
#[derive(Debug)]
pub struct Session {
    /// State that requests read and change.
    context: Context,
    phase: Phase,
    frames: FrameBuffer,
    /// Time before which no incomplete frame or request is overdue, because this end did not read.
    deadlines_resume_at: Tick,
    liveness: Liveness,
    frame_max: u32,
    deploys: Deploys,
    provider_role: ProviderRole,
    watches: Watches,
    control: ControlRole,
    convergence: Convergence,
    wake: SharedWake,
    channel: Channel,
    /// Ends the session if the account of its client changes.
    standing: Option<Arc<Standing>>,
    /// Called when the session ends; `None` afterwards.
    on_end: Option<OnEnd>,
    /// The gather buffer, in throughput mode.
    gathering: Option<Box<Gathering>>,
}

#[derive(Debug)]
enum Phase {
    /// Waits for a HELLO until `deadline`, and accepts no other frame except GOODBYE.
    Hello {
        deadline: Tick,
    },
    /// Waits until `deadline` for the decision who the client is, and accepts no frame.
    Login {
        deadline: Tick,
        login: Box<PendingLogin>,
    },
    Open,
    /// Sends the queued answers, then closes the connection.
    Closing(Disconnect),
    Ended,
}

/// A HELLO that was accepted, except for the decision who the client is.
#[derive(Debug)]
struct PendingLogin {
    hello: Hello,
    agreement: Agreement,
    slot: Arc<LoginSlot>,
}

/// A wake that does nothing, for the consumer of an ended session.
struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

impl Session {
    /// Creates the session of a new connection. The session calls `wake` when it has new output.
    pub fn new(
        engine: Engine,
        options: Arc<ServeOptions>,
        caller: Caller,
        wake: Box<dyn Wake>,
    ) -> Self {
        let wake = SharedWake(Arc::from(wake));
        let mut consumer = Consumer::new(engine.clone(), Box::new(wake.clone()))
            .confirmed_by_peer()
            .queue_bytes_max(options.queue_bytes_max)
            .sharing_feeds();
        if !options.resume_for.is_zero() {
            consumer = consumer.resumable();
        }
        let context = Context {
            handles: engine.handles(),
            engine,
            consumer,
            moment: Moment {
                now: Tick::ZERO,
                wall: Timestamp::UNIX_EPOCH,
            },
            wakes: Wakes::new(),
            answers: Answers::default(),
            queue: Queue::default(),
            account: Account::new(&options.requests),
            unfinished: Unfinished::default(),
            unanswered: Unanswered::default(),
            unanswered_orders: 0,
            parked: Parked::default(),
            parked_until: None,
            provider: None,
            window: Window::default(),
            features: Features::NONE,
            records: RecordEncoder::new(caller.session, 0, 0),
            sampled_due: None,
            check_all: false,
            send_gathered: false,
            options,
            caller,
        };
        let options = &context.options;
        Self {
            phase: Phase::Hello {
                deadline: Tick::MAX,
            },
            frames: FrameBuffer::new(FrameLimits::HELLO),
            deadlines_resume_at: Tick::ZERO,
            liveness: Liveness::new(Tick::ZERO, options.keepalive, options.deadline),
            frame_max: FRAME_MAX_MIN,
            deploys: Deploys::default(),
            provider_role: ProviderRole::default(),
            watches: Watches::default(),
            control: ControlRole::default(),
            convergence: Convergence::default(),
            wake,
            channel: Channel::default(),
            standing: None,
            on_end: None,
            gathering: None,
            context,
        }
    }

    /// The client of this session, if known.
    pub fn caller(&self) -> &Caller {
        &self.context.caller
    }

    /// Returns true if the hello was accepted and the connection is not closing.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Sends the queued answers and then `goodbye`, and closes the connection.
    pub fn shut_down(&mut self, goodbye: &Goodbye) {
        if !self.is_over() {
            goodbye.encode(&mut self.context.answers.frames);
            self.close(Disconnect::ClosedLocally);
        }
    }

    /// Ends the session if its account was changed. Nothing that the client has requested is carried
    /// out after this, even if it does not read its answers.
    fn end_if_revoked(&mut self) -> bool {
        let standing = self.standing.as_ref().filter(|_| self.is_open());
        let goodbye = standing.and_then(|standing| standing.goodbye());
        if let Some(goodbye) = &goodbye {
            self.shut_down(goodbye);
        }
        goodbye.is_some()
    }

    fn handle_hello(&mut self, mut hello: Hello) -> Result<(), Disconnect> {
        let agreement = match self.context.options.negotiation.accept(&hello) {
            Ok(agreement) => agreement,
            Err(mismatch) => {
                Refused::from(mismatch).encode(&mut self.context.answers.frames);
                return Err(Disconnect::VersionMismatch(mismatch));
            }
        };
        self.context.caller.origin = describe_origin(&self.context.caller.origin, &hello);
        let Some(authenticator) = self.context.options.authenticator.clone() else {
            self.open(&hello, &agreement, None);
            return Ok(());
        };
        let (answer, slot) = LoginAnswer::new(self.wake.clone());
        let request = LoginRequest {
            caller: &self.context.caller,
            channel: &self.channel,
            hello: &hello,
            moment: self.context.moment,
        };
        authenticator.authenticate(request, answer);
        hello.password = Password::default();
        hello.token = None;
        let login = Box::new(PendingLogin {
            hello,
            agreement,
            slot,
        });
        let deadline = self.context.options.hello_deadline;
        let deadline = self.context.moment.now.saturating_add(deadline);
        self.phase = Phase::Login { deadline, login };
        self.finish_login()
    }

    /// Opens the session, or refuses the client, if the decision about its HELLO is there.
    fn finish_login(&mut self) -> Result<(), Disconnect> {
        let Phase::Login { login, .. } = &self.phase else {
            return Ok(());
        };
        match login.slot.take() {
            None => Ok(()),
            Some(Ok(identity)) => {
                let (hello, agreement) = (login.hello.clone(), login.agreement);
                self.open(&hello, &agreement, Some(identity));
                Ok(())
            }
            Some(Err(LoginRefusal { fault, retry_after })) => {
                let refused = Refused {
                    code: fault.code,
                    versions: self.context.options.negotiation.versions,
                    retry_after,
                    sentence: fault.sentence.clone(),
                };
                refused.encode(&mut self.context.answers.frames);
                Err(Disconnect::Refused {
                    code: fault.code,
                    sentence: fault.sentence,
                    retry_after,
                })
            }
        }
    }

    /// Opens the session of a client that has proved its identity; `None` if no proof is needed.
    fn open(&mut self, hello: &Hello, agreement: &Agreement, identity: Option<Identity>) {
        let now = self.context.moment.now;
        let (mut account, mut role) = (String::new(), String::new());
        if let Some(identity) = identity {
            let caller = &mut self.context.caller;
            (caller.principal, caller.rights) = (identity.principal, identity.rights);
            (account, role) = (identity.account, identity.role);
            (self.standing, self.on_end) = (Some(identity.standing), identity.on_end);
        }
        self.context
            .engine
            .writers()
            .remember_name(&self.context.caller);
        let this_engine = (self.context.engine.epoch(), self.context.options.engine_id);
        let resume = hello
            .resume
            .filter(|resume| (resume.epoch, resume.engine_id) == this_engine);
        let mut resumed = false;
        if let Some(session) = resume.and_then(|resume| u32::try_from(resume.session).ok()) {
            resumed = self.context.consumer.follow(&self.context.caller, session);
            self.context.sampled_due = self.context.consumer.poll(now);
        }
        let throughput = self.begin_gathering(hello, agreement);
        self.welcome(agreement, (account, role), throughput, resumed);
        self.context.features = agreement.features;
        self.frame_max = agreement.frame_max;
        self.context.records = RecordEncoder::new(
            self.context.caller.session,
            agreement.message_max,
            self.frame_max,
        );
        self.context.window = Window::of(hello);
        if agreement.features.contains(Features::ENDS) {
            self.context.window.count_ends();
        }
        let liveness = Liveness::new(
            now,
            self.context.options.keepalive,
            self.context.options.deadline,
        );
        self.liveness = liveness.together();
        self.frames.set_limits(agreement.frame_limits());
        self.phase = Phase::Open;
    }

    /// Starts throughput mode if the client requests it and both ends have the feature. Returns the
    /// terms for the WELCOME.
    fn begin_gathering(&mut self, hello: &Hello, agreement: &Agreement) -> Option<ThroughputMode> {
        let requested = hello.throughput?;
        if !agreement.features.contains(Features::THROUGHPUT) {
            return None;
        }
        let terms = requested.within_bounds();
        let flushes = Arc::clone(&self.context.options.flushes);
        let wake = self.wake.clone();
        self.gathering = Some(Box::new(Gathering::new(terms, flushes, wake)));
        Some(terms)
    }

    fn welcome(
        &mut self,
        agreement: &Agreement,
        (account, role): (String, String),
        throughput: Option<ThroughputMode>,
        resumed: bool,
    ) {
        let options = &self.context.options;
        let welcome = Welcome {
            version: agreement.version,
            features: agreement.features,
            epoch: self.context.engine.epoch(),
            engine_id: options.engine_id,
            session: u64::from(self.context.caller.session),
            resumed,
            frame_max: agreement.frame_max,
            message_max: agreement.message_max,
            items_max: options.items_max,
            write_credit_count: options.write_credit_count,
            write_credit_bytes: options.write_credit_bytes,
            keepalive: options.keepalive,
            deadline: options.deadline,
            wall: self.context.moment.wall,
            engine_name: self.context.engine.name().to_owned(),
            engine_version: options.version.clone(),
            account,
            role,
            throughput,
        };
        // Do not gather the WELCOME, because the client waits for it.
        self.context.send_gathered = true;
        welcome.encode(&mut self.context.answers.frames);
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closing(_) | Phase::Ended)
    }

    /// Ends the session, and sends the reason to the peer if the peer can read it.
    fn fail(&mut self, cause: Disconnect) {
        match (&cause, cause.goodbye()) {
            (Disconnect::NotTrunkline { first_bytes }, _) => {
                // The peer speaks another protocol, so only a user who looks at the bytes reads this.
                let refused = Refused {
                    code: FaultCode::Malformed,
                    versions: self.context.options.negotiation.versions,
                    retry_after: None,
                    sentence: format!(
                        "this port is for Trunkline clients, and the received bytes are not \
                         Trunkline's protocol ({first_bytes}); check the host and the port\n"
                    ),
                };
                refused.encode(&mut self.context.answers.frames);
            }
            (_, Some(goodbye)) => goodbye.encode(&mut self.context.answers.frames),
            (_, None) => {}
        }
        self.close(cause);
    }

    /// Closes the session. Only queued answers are sent after this.
    fn close(&mut self, cause: Disconnect) {
        self.report_end(&cause);
        let may_resume = may_reconnect(&cause);
        self.phase = Phase::Closing(cause);
        self.release(may_resume);
    }

    /// Tells the host that the session has ended. Further calls have no effect.
    fn report_end(&mut self, cause: &Disconnect) {
        if let Some(OnEnd(report)) = self.on_end.take() {
            report(&cause.to_string());
        }
    }

    /// Releases everything that other sessions might wait for. If `may_resume` is true, keeps the
    /// subscriptions for a while, so that another session of the client can resume them.
    fn release(&mut self, may_resume: bool) {
        self.provider_role.stop_providing(&mut self.context);
        let (session, moment) = (self.context.caller.session, self.context.moment);
        let (engine, wakes) = (&self.context.engine, &mut self.context.wakes);
        engine.leases().end_session(session, moment, wakes);
        engine.control().end_session(session, moment, wakes);
        self.context.queue = Queue::default();
        self.frames = FrameBuffer::new(FrameLimits::HELLO);
        self.context.unfinished = Unfinished::default();
        self.deploys = Deploys::default();
        self.context.account = Account::new(&self.context.options.requests);
        self.watches = Watches::default();
        self.control = ControlRole::default();
        self.convergence = Convergence::default();
        self.context.parked_until = None;
        self.context.parked = Parked::default();
        self.context.sampled_due = None;
        let unused = Consumer::new(self.context.engine.clone(), Box::new(NoWake));
        let consumer = std::mem::replace(&mut self.context.consumer, unused);
        if may_resume {
            let until = self
                .context
                .moment
                .now
                .saturating_add(self.context.options.resume_for);
            consumer.leave(&self.context.caller, until);
        }
        self.context.wakes.flush();
    }
}

/// Returns true if the client may reconnect and resume its subscriptions. This is so unless the
/// client has announced that it shuts down, or the engine shuts down or has rejected the client. Other
/// GOODBYE codes do not exclude it, because a client also sends GOODBYE to an engine that is silent.
fn may_reconnect(cause: &Disconnect) -> bool {
    match cause {
        Disconnect::Goodbye { code, .. } => *code != FaultCode::ShuttingDown,
        Disconnect::PeerClosed
        | Disconnect::Io { .. }
        | Disconnect::Dead { .. }
        | Disconnect::Slow { .. } => true,
        Disconnect::ClosedLocally
        | Disconnect::NameLookup { .. }
        | Disconnect::Refused { .. }
        | Disconnect::Tls { .. }
        | Disconnect::OtherUser { .. }
        | Disconnect::Malformed { .. }
        | Disconnect::NotTrunkline { .. }
        | Disconnect::VersionMismatch(_)
        | Disconnect::OutOfMemory { .. } => false,
    }
}

/// Adds a word of the client's own description. Everything but a plain word is quoted, so that it cannot
/// look like what the engine says about the client, or about another one.
fn push_description(text: &mut String, description: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if description.starts_with(|c: char| c.is_ascii_alphabetic())
        && description.chars().all(is_plain)
    {
        text.push_str(description);
        return;
    }
    text.push('"');
    for c in description.chars().filter(|c| !is_unprintable(*c)) {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
}

/// Returns the peer's origin, followed by the description in its HELLO, which is not verified.
fn describe_origin(origin: &str, hello: &Hello) -> Arc<str> {
    let mut text = origin.to_owned();
    let descriptions = [
        (", ", &hello.client_name),
        (", ", &hello.program),
        (", user ", &hello.user),
    ];
    for (label, description) in descriptions {
        if !description.is_empty() {
            text.push_str(label);
            push_description(&mut text, description);
        }
    }
    if hello.pid != 0 {
        text.push_str(&format!(", pid {}", hello.pid));
    }
    text.into()
}
