//! The engine's end of one connection: its state, its start and its end. Input and output are in
//! `endpoint`.

mod endpoint;

use std::sync::Arc;

use trunkline_engine::{Caller, Consumer, Engine, HandleReader, Wake, Wakes};
use trunkline_proto::limits::{FRAME_DEADLINE, FRAME_MAX_MIN};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::{
    Agreement, Disconnect, FaultCode, Features, FrameBuffer, FrameLimits, Liveness, Throughput,
};
use trunkline_types::text::is_unprintable;
use trunkline_types::{Tick, Timestamp};

use crate::answers::Answers;
use crate::convergence::{Repairs, Sweep};
use crate::gathering::{Gathering, SharedWake};
use crate::options::ServeOptions;
use crate::orders::Orders;
use crate::provider::Provided;
use crate::request_budget::{Account, Use};
use crate::requests::Unfinished;
use crate::updates::{Records, UpdateSink};
use crate::watch::Watches;
use crate::window::Window;
use crate::work::Queue;
use crate::write::{Parked, Unanswered};

/// Maximum number of answer bytes waiting for a client that does not read. Beyond it, the client's
/// input is left unread.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes in waiting requests. Beyond it, the session's input is left unread.
const WORK_BYTES_MAX: usize = 8 << 20;

/// The session of one connection, from its hello to its end.
#[derive(Debug)]
pub struct Session {
    pub(crate) engine: Engine,
    /// Looks up handles for requests about many variables. Moved out of the session while in use.
    pub(crate) handles: HandleReader,
    pub(crate) options: Arc<ServeOptions>,
    pub(crate) caller: Caller,
    pub(crate) consumer: Consumer,
    phase: Phase,
    frames: FrameBuffer,
    /// An incomplete frame has time until then, whatever its own deadline, because this end did not
    /// read.
    excused_until: Tick,
    pub(crate) liveness: Liveness,
    pub(crate) answers: Answers,
    pub(crate) work: Queue,
    /// The session's memory for requests and items.
    pub(crate) account: Account,
    pub(crate) unfinished: Unfinished,
    pub(crate) unanswered: Unanswered,
    pub(crate) orders: Orders,
    pub(crate) provided: Provided,
    pub(crate) watches: Watches,
    /// The time of the driver's last call, used for events without a call.
    pub(crate) last_seen: (Tick, Timestamp),
    /// The time at which a parked write is tried again at the latest.
    pub(crate) parked_until: Option<Tick>,
    pub(crate) parked: Parked,
    pub(crate) window: Window,
    pub(crate) sweep: Sweep,
    pub(crate) repairs: Repairs,
    /// The features that both ends have.
    pub(crate) features: Features,
    frame_max: u32,
    pub(crate) records: Records,
    /// The next time at which a `sampled` subscription is due.
    pub(crate) sampled_due: Option<Tick>,
    pub(crate) wake: SharedWake,
    /// The gather buffer, in throughput mode.
    pub(crate) gathering: Option<Box<Gathering>>,
    /// Set when the gathered data must go out with the next output.
    pub(crate) send_gathered: bool,
}

#[derive(Debug)]
enum Phase {
    /// Only a hello is accepted, until `deadline`.
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
    /// Returns the session of a new connection. `wake` is called when there is new output.
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
        Self {
            handles: engine.handles(),
            engine,
            consumer,
            phase: Phase::Hello {
                deadline: Tick::MAX,
            },
            frames: FrameBuffer::new(FrameLimits::HELLO),
            excused_until: Tick::ZERO,
            liveness: Liveness::new(Tick::ZERO, options.keepalive, options.deadline),
            answers: Answers::default(),
            work: Queue::default(),
            account: Account::new(&options.requests),
            unfinished: Unfinished::default(),
            unanswered: Unanswered::default(),
            orders: Orders::default(),
            provided: Provided::default(),
            watches: Watches::default(),
            last_seen: (Tick::ZERO, Timestamp::UNIX_EPOCH),
            parked_until: None,
            parked: Parked::default(),
            window: Window::default(),
            sweep: Sweep::default(),
            repairs: Repairs::default(),
            features: Features::NONE,
            frame_max: FRAME_MAX_MIN,
            records: Records::new(caller.session, 0, 0),
            sampled_due: None,
            wake,
            gathering: None,
            send_gathered: false,
            options,
            caller,
        }
    }

    /// Returns true if the hello was accepted and the connection is not closing.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Says goodbye and closes, after sending what is queued.
    pub fn shut_down(&mut self, goodbye: &Goodbye) {
        if matches!(self.phase, Phase::Hello { .. } | Phase::Open) {
            goodbye.encode(&mut self.answers.frames);
            self.close(Disconnect::Local);
        }
    }

    pub(crate) fn handle_hello(
        &mut self,
        now: Tick,
        wall: Timestamp,
        hello: &Hello,
    ) -> Result<(), Disconnect> {
        let agreement = match self.options.negotiation.accept(hello) {
            Ok(agreement) => agreement,
            Err(mismatch) => {
                Refused::from(mismatch).encode(&mut self.answers.frames);
                return Err(Disconnect::VersionMismatch(mismatch));
            }
        };
        self.caller.origin = described(&self.caller.origin, hello);
        self.engine.introduce(&self.caller);
        let here = (self.engine.epoch(), self.options.engine_id);
        let before = hello
            .resume
            .filter(|one| (one.epoch, one.engine_id) == here);
        let mut resumed = false;
        if let Some(session) = before.and_then(|one| u32::try_from(one.session).ok()) {
            resumed = self.consumer.follow(&self.caller, session);
            self.sampled_due = self.consumer.poll(now);
        }
        let throughput = self.begin_to_gather(hello, &agreement);
        self.welcome(&agreement, throughput, resumed, wall);
        self.features = agreement.features;
        self.frame_max = agreement.frame_max;
        self.records = Records::new(self.caller.session, agreement.message_max, self.frame_max);
        self.window = Window::of(hello);
        if agreement.features.contains(Features::ENDS) {
            self.window.count_ends();
        }
        self.sweep = Sweep::of(agreement.features);
        let liveness = Liveness::new(now, self.options.keepalive, self.options.deadline);
        self.liveness = liveness.together();
        self.frames.set_limits(agreement.frame_limits());
        self.phase = Phase::Open;
        Ok(())
    }

    fn welcome(
        &mut self,
        agreement: &Agreement,
        throughput: Option<Throughput>,
        resumed: bool,
        wall: Timestamp,
    ) {
        let options = &self.options;
        let welcome = Welcome {
            version: agreement.version,
            features: agreement.features,
            epoch: self.engine.epoch(),
            engine_id: options.engine_id,
            session: u64::from(self.caller.session),
            resumed,
            frame_max: agreement.frame_max,
            message_max: agreement.message_max,
            items_max: options.items_max,
            write_credit_count: options.write_credit_count,
            write_credit_bytes: options.write_credit_bytes,
            keepalive: options.keepalive,
            deadline: options.deadline,
            wall,
            engine_name: self.engine.name().to_owned(),
            engine_version: options.version.clone(),
            throughput,
        };
        // Sent at once: gathering begins only when both ends know of it.
        self.send_gathered = true;
        welcome.encode(&mut self.answers.frames);
    }

    /// Ends the session, and tells the peer why where it would read it.
    fn fail(&mut self, cause: Disconnect) {
        match (&cause, cause.goodbye()) {
            (Disconnect::NotTrunkline { first_bytes }, _) => {
                // The reader is a person with a tool that shows bytes.
                let refused = Refused {
                    code: FaultCode::Malformed,
                    versions: self.options.negotiation.versions,
                    retry_after: None,
                    sentence: format!(
                        "this port is for Trunkline clients, and what came is not Trunkline's \
                         protocol ({first_bytes}); check host and port\n"
                    ),
                };
                refused.encode(&mut self.answers.frames);
            }
            (_, Some(goodbye)) => goodbye.encode(&mut self.answers.frames),
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

    /// Releases everything that other sessions might wait for. With `comes_back`, the client may
    /// continue in another session, which must resume where this one ended.
    fn release(&mut self, comes_back: bool) {
        self.stop_providing();
        self.engine.end_session(self.caller.session);
        self.work.clear();
        self.frames = FrameBuffer::new(FrameLimits::HELLO);
        self.unfinished = Unfinished::default();
        self.orders.forget_incoming();
        self.account = Account::new(&self.options.requests);
        self.watches = Watches::default();
        self.sweep = Sweep::default();
        self.parked_until = None;
        self.parked.clear();
        self.sampled_due = None;
        let silent = Consumer::new(self.engine.clone(), Box::new(Silent));
        let consumer = std::mem::replace(&mut self.consumer, silent);
        if comes_back {
            let until = self.last_seen.0.saturating_add(self.options.resume_for);
            consumer.leave(&self.caller, until);
        }
    }

    /// Records the memory that waiting requests and incomplete frames take now. The bytes of one
    /// read from the transport are already taken over, so a session that may not keep them ends.
    pub(crate) fn settle_account(&mut self) -> Result<(), Disconnect> {
        // A request was admitted with at least the memory that it takes.
        self.account.lower(Use::Work, self.work.bytes());
        let held = self.frames.held_bytes();
        let settled = self.account.set(Use::Frames, held);
        settled.map_err(|fault| Disconnect::OutOfMemory {
            sentence: fault.sentence.to_string(),
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closing(_) | Phase::Ended)
    }

    /// Sends updates as far as there is room in `out` up to `end`. Returns true if there is more to
    /// send at once.
    fn send_updates(&mut self, end: usize, out: &mut Vec<u8>, wakes: &mut Wakes) -> bool {
        let start = out.len();
        let room = end.saturating_sub(start);
        if room == 0 {
            return !self.consumer.is_idle();
        }
        if !self.window.has_room() {
            return false;
        }
        let epoch = self.engine.epoch();
        let mut sink = UpdateSink::new(out, room, &mut self.window, self.records, epoch);
        let left = self.consumer.drain(&mut sink, wakes);
        let is_full = sink.finish();
        trunkline_proto::part::split_oversized(out, start, self.frame_max);
        self.put_answers_before(start, out);
        // Updates taken from a feed may have made the room that a parked write waits for.
        (left && is_full) || (self.parked_until.is_some() && out.len() > start)
    }

    /// Puts answers of providers that arrived while updates were taken before those updates,
    /// because the updates may include the result of the answered write.
    fn put_answers_before(&mut self, start: usize, out: &mut Vec<u8>) {
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::AnswerAfterUpdate) {
            return;
        }
        self.answer_completions();
        if !self.answers.is_empty() {
            let mut frames = Vec::new();
            self.answers.send(&mut frames, usize::MAX, self.frame_max);
            out.splice(start..start, frames);
        }
    }

    /// Restarts the peer's deadlines, because silence or half a frame is not the peer's fault while
    /// this end does not read.
    fn excuse_peer(&mut self, now: Tick) {
        self.liveness.handle_received(now);
        self.excused_until = now.saturating_add(FRAME_DEADLINE);
    }
}

/// Returns true if the client may dial again and continue: it has not said that it is done, and was
/// not told to go. A client whose engine went silent also says goodbye, and comes back.
fn may_come_back(cause: &Disconnect) -> bool {
    match cause {
        Disconnect::Local => false,
        Disconnect::Goodbye { code, .. } => *code != FaultCode::ShuttingDown,
        Disconnect::PeerClosed
        | Disconnect::Io { .. }
        | Disconnect::Dead { .. }
        | Disconnect::Slow { .. } => true,
        _ => false,
    }
}

/// Returns the peer's origin, followed by its description of itself, which is not verified.
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
