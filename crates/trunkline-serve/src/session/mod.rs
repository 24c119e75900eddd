//! The engine's end of one connection: its state, its start and its end.

mod endpoint;

use std::sync::Arc;

use trunkline_engine::{Caller, Consumer, Engine, Wake, Wakes};
use trunkline_proto::limits::FRAME_MAX_MIN;
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::{
    Agreement, Disconnect, FaultCode, Features, FrameBuffer, FrameLimits, Liveness, ThroughputMode,
};
use trunkline_types::text::is_unprintable;
use trunkline_types::{Moment, Tick, Timestamp};

use crate::answers::Answers;
use crate::context::{Context, Queue};
use crate::gathering::{Gathering, SharedWake};
use crate::options::ServeOptions;
use crate::request_budget::Account;
use crate::requests::convergence::Convergence;
use crate::requests::deploy::Deploys;
use crate::requests::provider::Provided;
use crate::requests::watch::Watches;
use crate::unfinished::Unfinished;
use crate::updates::Records;
use crate::window::Window;
use crate::write_run::{Parked, Unanswered};

/// The session of one connection, from its hello to its end.
#[derive(Debug)]
pub struct Session {
    /// The state that its requests use.
    context: Context,
    phase: Phase,
    frames: FrameBuffer,
    /// Time until which an incomplete frame is not overdue, regardless of its own deadline, because
    /// this end did not read.
    excused_until: Tick,
    liveness: Liveness,
    frame_max: u32,
    deploys: Deploys,
    provided: Provided,
    watches: Watches,
    convergence: Convergence,
    wake: SharedWake,
    /// The gather buffer, in throughput mode.
    gathering: Option<Box<Gathering>>,
}

#[derive(Debug)]
enum Phase {
    /// Waits for a hello until `deadline`, and accepts no other frame.
    Hello {
        deadline: Tick,
    },
    Open,
    /// Sends what is queued, then closes the connection.
    Closing(Disconnect),
    Ended,
}

/// The wake of the consumer that replaces a released one.
struct Silent;

impl Wake for Silent {
    fn wake(&self) {}
}

impl Session {
    /// Creates the session of a new connection, which calls `wake` when it has new output.
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
            consumer = consumer.keeping_sent();
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
            records: Records::new(caller.session, 0, 0),
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
            excused_until: Tick::ZERO,
            liveness: Liveness::new(Tick::ZERO, options.keepalive, options.deadline),
            frame_max: FRAME_MAX_MIN,
            deploys: Deploys::default(),
            provided: Provided::default(),
            watches: Watches::default(),
            convergence: Convergence::default(),
            wake,
            gathering: None,
            context,
        }
    }

    /// Returns true if the hello was accepted and the connection is not closing.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Sends the queued output and the goodbye, then closes.
    pub fn shut_down(&mut self, goodbye: &Goodbye) {
        if matches!(self.phase, Phase::Hello { .. } | Phase::Open) {
            goodbye.encode(&mut self.context.answers.frames);
            self.close(Disconnect::ClosedLocally);
        }
    }

    fn handle_hello(&mut self, hello: &Hello) -> Result<(), Disconnect> {
        let now = self.context.moment.now;
        let agreement = match self.context.options.negotiation.accept(hello) {
            Ok(agreement) => agreement,
            Err(mismatch) => {
                Refused::from(mismatch).encode(&mut self.context.answers.frames);
                return Err(Disconnect::VersionMismatch(mismatch));
            }
        };
        self.context.caller.origin = described(&self.context.caller.origin, hello);
        self.context
            .engine
            .writers()
            .introduce(&self.context.caller);
        let here = (self.context.engine.epoch(), self.context.options.engine_id);
        let before = hello
            .resume
            .filter(|one| (one.epoch, one.engine_id) == here);
        let mut resumed = false;
        if let Some(session) = before.and_then(|one| u32::try_from(one.session).ok()) {
            resumed = self.context.consumer.follow(&self.context.caller, session);
            self.context.sampled_due = self.context.consumer.poll(now);
        }
        let throughput = self.begin_to_gather(hello, &agreement);
        self.welcome(&agreement, throughput, resumed);
        self.context.features = agreement.features;
        self.frame_max = agreement.frame_max;
        self.context.records = Records::new(
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
        Ok(())
    }

    /// Starts throughput mode if the client requests it and both ends have the feature. Returns the
    /// granted terms.
    fn begin_to_gather(&mut self, hello: &Hello, agreement: &Agreement) -> Option<ThroughputMode> {
        let asked = hello.throughput?;
        if !agreement.features.contains(Features::THROUGHPUT) {
            return None;
        }
        let terms = asked.within_bounds();
        let flushes = Arc::clone(&self.context.options.flushes);
        let wake = self.wake.clone();
        self.gathering = Some(Box::new(Gathering::new(terms, flushes, wake)));
        Some(terms)
    }

    fn welcome(
        &mut self,
        agreement: &Agreement,
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
            throughput,
        };
        // Send it immediately: gathering begins only when both ends know of it.
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
                // The refusal is for a user with a tool that shows bytes.
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

    /// Closes the session. From here on, only queued answers are sent.
    fn close(&mut self, cause: Disconnect) {
        let comes_back = may_come_back(&cause);
        self.phase = Phase::Closing(cause);
        self.release(comes_back);
    }

    /// Releases everything that other sessions might wait for. If `comes_back` is true, the client
    /// may continue in another session, which must resume where this one ended.
    fn release(&mut self, comes_back: bool) {
        self.provided.stop_providing(&mut self.context);
        self.context
            .engine
            .leases()
            .end_session(self.context.caller.session);
        self.context.queue = Queue::default();
        self.frames = FrameBuffer::new(FrameLimits::HELLO);
        self.context.unfinished = Unfinished::default();
        self.deploys = Deploys::default();
        self.context.account = Account::new(&self.context.options.requests);
        self.watches = Watches::default();
        self.convergence = Convergence::default();
        self.context.parked_until = None;
        self.context.parked = Parked::default();
        self.context.sampled_due = None;
        let silent = Consumer::new(self.context.engine.clone(), Box::new(Silent));
        let consumer = std::mem::replace(&mut self.context.consumer, silent);
        if comes_back {
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

/// Returns true if the client may dial again and continue: it has not announced that it has
/// finished, and the engine has not dismissed it. A client whose engine became silent also sends a
/// goodbye, but may return.
fn may_come_back(cause: &Disconnect) -> bool {
    match cause {
        Disconnect::Goodbye { code, .. } => *code != FaultCode::ShuttingDown,
        Disconnect::PeerClosed
        | Disconnect::Io { .. }
        | Disconnect::Dead { .. }
        | Disconnect::Slow { .. } => true,
        Disconnect::ClosedLocally
        | Disconnect::NameLookup { .. }
        | Disconnect::Refused { .. }
        | Disconnect::Malformed { .. }
        | Disconnect::NotTrunkline { .. }
        | Disconnect::VersionMismatch(_)
        | Disconnect::OutOfMemory { .. } => false,
    }
}

/// Returns the peer's origin, followed by its own description, which is not verified.
fn described(origin: &str, hello: &Hello) -> Arc<str> {
    let mut text = origin.to_owned();
    for said in [&hello.client_name, &hello.program] {
        if !said.is_empty() {
            text.push_str(", ");
            text.extend(said.chars().filter(|c| !is_unprintable(*c)));
        }
    }
    if !hello.user.is_empty() {
        text.push_str(", user ");
        text.extend(hello.user.chars().filter(|c| !is_unprintable(*c)));
    }
    if hello.pid != 0 {
        text.push_str(&format!(", pid {}", hello.pid));
    }
    text.into()
}
