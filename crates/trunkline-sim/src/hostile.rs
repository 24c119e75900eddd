//! Simulates a hostile peer, which leaves requests unfinished, does not read answers, and disconnects at
//! any byte.
//!
//! The peer connects repeatedly, with one connection at a time, so it can use at most half of the budget
//! for requests. The engine must not refuse other clients for lack of memory. It must end unfinished
//! requests, and free their memory after the peer has disconnected.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_engine::{Administrator, Caller, Order, Reply};
use trunkline_proto::limits::REQUEST_DEADLINE;
use trunkline_proto::message::find::Find;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::library::{DeployBuilder, DeployHead};
use trunkline_proto::{FrameHeader, FrameKind};
use trunkline_types::{DataType, Tick, VariableDefinition};

use crate::link::{CAPACITY, End};
use crate::plan::ProgramPlan;
use crate::rng::Rng;
use crate::world::{Event, Pipes, World};

/// Memory of an item in bytes, as in the product.
const ITEM_BYTES: u64 = 240;
/// Maximum memory of a session in bytes, in addition to its items.
const SESSION_BYTES: u64 = 192 << 10;
/// Maximum time from the deadline of a request until the engine ends the connection.
const NOTICE_TIME: Duration = Duration::from_secs(3);
/// Number of variables in each frame of a DEPLOY.
const PAGE: u64 = 500;
/// Time between turns of a peer that has nothing to send.
const IDLE: Duration = Duration::from_millis(300);

/// The behaviour of the hostile peer.
#[derive(Clone, Debug)]
pub struct HostilePlan {
    /// Mean time between connections.
    pub interval: Duration,
    /// Memory budget for the requests and items of all sessions, in bytes.
    pub request_bytes: usize,
}

impl HostilePlan {
    /// Draws a plan. Half of the budget is enough for the programs, even while the engine has not
    /// noticed the end of their previous connections.
    pub fn drawn(rng: &mut Rng, programs: &[ProgramPlan]) -> Self {
        let items = |plan: &ProgramPlan| {
            let subscriptions = plan.subscriptions.iter();
            subscriptions
                .map(|subscription| subscription.variables.len() as u64)
                .sum::<u64>()
        };
        let needed = |plan: &ProgramPlan| 2 * (items(plan) * ITEM_BYTES + SESSION_BYTES);
        let needed = programs.iter().map(needed).sum::<u64>();
        Self {
            interval: Duration::from_secs_f64(rng.magnitude(1.0, 15.0)),
            request_bytes: 2 * needed as usize,
        }
    }
}

/// The behaviour of the peer on one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behavior {
    /// Sends all frames of a DEPLOY except the last one, and then keep-alives.
    UnfinishedDeploy,
    /// Sends all parts of a message except the last one.
    UnfinishedParts,
    /// Sends half of a frame.
    HalfFrame,
    /// Sends requests and does not read the answers.
    UnreadAnswers,
    /// Sends a complete DEPLOY.
    CompleteDeploy,
}

const BEHAVIORS: [Behavior; 5] = [
    Behavior::UnfinishedDeploy,
    Behavior::UnfinishedParts,
    Behavior::HalfFrame,
    Behavior::UnreadAnswers,
    Behavior::CompleteDeploy,
];

/// A connection of the hostile peer.
#[derive(Debug)]
pub struct Hostile {
    link: u32,
    behavior: Behavior,
    /// True if the peer reads answers.
    reads: bool,
    /// Bytes that have not been sent.
    bytes: VecDeque<u8>,
    /// Time since which all bytes are sent and the engine is not paused; `None` if bytes wait.
    sent_at: Option<Tick>,
    /// Time of the next keep-alive.
    keepalive_at: Tick,
    /// Time at which the peer disconnects.
    leaves_at: Tick,
}

/// Accepts orders, but does not carry them out.
#[derive(Debug)]
pub struct DroppingAdministrator;

impl Administrator for DroppingAdministrator {
    fn submit(&self, _caller: &Caller, _order: Order, reply: Reply) {
        drop(reply);
    }
}

impl World {
    pub(crate) fn plan_hostile(&mut self) {
        let Some(plan) = &self.plan.hostile else {
            return;
        };
        let after = match &self.hostile {
            Some(hostile) if hostile.bytes.is_empty() => IDLE,
            Some(_) => self.rng.millis(1, 20),
            None => self.rng.wait(plan.interval),
        };
        self.schedule(self.now.saturating_add(after), Event::Hostile);
    }

    pub(crate) fn hostile_turn(&mut self) {
        match self.hostile.take() {
            None => self.connect_hostile(),
            Some(hostile) => self.hostile = self.continue_hostile(hostile),
        }
    }

    fn connect_hostile(&mut self) {
        let now = self.now;
        let program = self.programs.len();
        let is_connected = self.links.values().any(|pipes| pipes.program == program);
        if is_connected || !self.engine_runs() || self.engine.refuses_until > now {
            return;
        }
        self.next_link += 1;
        let link = self.next_link;
        let pipes = Pipes {
            program,
            to_engine: Default::default(),
            to_client: Default::default(),
            client_is_gone: false,
            engine_is_gone: false,
        };
        self.links.insert(link, pipes);
        self.checker.totals.hostile += 1;
        let behavior = BEHAVIORS[self.rng.index(BEHAVIORS.len())];
        let budget = self
            .plan
            .hostile
            .as_ref()
            .map_or(0, |plan| plan.request_bytes) as u64;
        let bytes = requests(behavior, budget, &mut self.rng);
        let stays = match behavior {
            Behavior::UnfinishedDeploy if self.rng.chance(0.5) => REQUEST_DEADLINE * 2,
            _ => self.rng.millis(0, 8000),
        };
        self.trace.log(now, || {
            format!(
                "hostile link {link}: {behavior:?}, {} bytes, {stays:?}",
                bytes.len()
            )
        });
        self.hostile = Some(Hostile {
            link,
            behavior,
            reads: behavior != Behavior::UnreadAnswers && self.rng.chance(0.5),
            bytes: bytes.into(),
            sent_at: None,
            keepalive_at: now,
            leaves_at: now.saturating_add(stays),
        });
        let at = self.random_turn_time();
        self.wake_session(link, at);
    }

    fn continue_hostile(&mut self, mut hostile: Hostile) -> Option<Hostile> {
        let (now, link) = (self.now, hostile.link);
        let way = self.plan.way;
        let (pipes, rng) = (self.links.get_mut(&link)?, &mut self.rng);
        if hostile.keepalive_at <= now
            && hostile.bytes.is_empty()
            && hostile.behavior == Behavior::UnfinishedDeploy
        {
            let mut keepalive = Vec::new();
            Keepalive::default().encode(&mut keepalive);
            hostile.bytes.extend(keepalive);
            hostile.keepalive_at = now.saturating_add(Duration::from_secs(1));
        }
        let count = hostile.bytes.len().min(pipes.to_engine.room());
        let bytes: Vec<u8> = hostile.bytes.drain(..count).collect();
        pipes.to_engine.send(now, &bytes, &way, rng);
        if !hostile.bytes.is_empty() {
            hostile.sent_at = None;
        } else if hostile.sent_at.is_none() {
            hostile.sent_at = Some(now);
        }
        let mut has_room = false;
        if hostile.reads {
            let mut unread = Vec::new();
            pipes.to_client.read(now, CAPACITY, &way, &mut unread);
            has_room = !unread.is_empty() && std::mem::take(&mut pipes.to_client.was_full);
        }
        let is_ended = pipes.engine_is_gone;
        if is_ended || hostile.leaves_at <= now {
            let end = match rng.chance(0.5) {
                true => End::Fin,
                false => End::Reset,
            };
            let kept = rng.index(pipes.to_engine.bytes() + 1);
            pipes.client_is_gone = true;
            pipes.to_engine.cut(now, kept, end);
            self.expect_arrivals(link);
            self.forget_link(link);
            return None;
        }
        if has_room && let Some(running) = &mut self.engine.running {
            if let Some(slot) = running.sessions.get_mut(&link) {
                slot.is_due = true;
            }
            let at = self.random_turn_time();
            self.wake_session(link, at);
        }
        self.expect_arrivals(link);
        // Deadlines do not count while the engine is paused.
        hostile.sent_at = hostile.sent_at.map(|at| at.max(self.engine.paused_until));
        let waits = hostile.sent_at.map_or(Duration::ZERO, |at| now.since(at));
        if hostile.behavior == Behavior::UnfinishedDeploy && waits > REQUEST_DEADLINE + NOTICE_TIME
        {
            self.checker
                .fail(|| format!("a DEPLOY without its last frame has not ended after {waits:?}"));
        }
        Some(hostile)
    }

    /// Closes all connections, and checks that sessions have returned the whole budget for requests.
    pub(crate) fn check_budget(&mut self) {
        let now = self.now;
        let Some(running) = &mut self.engine.running else {
            return;
        };
        if self.plan.hostile.is_none() || self.checker.violation.is_some() {
            return;
        }
        running.sessions.clear();
        let used = running.options.requests.used();
        self.trace
            .log(now, || format!("{used} bytes for requests in use"));
        if used > 0 {
            self.checker
                .fail(|| format!("requests: {used} bytes are in use, but there is no session"));
        }
    }
}

/// Returns the bytes that the peer sends. `budget` is the engine's budget for requests, in bytes.
fn requests(behavior: Behavior, budget: u64, rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    Hello::default().encode(&mut out);
    let head = DeployHead {
        library: "hostile",
        description: "",
        replace: true,
    };
    match behavior {
        Behavior::UnfinishedDeploy | Behavior::CompleteDeploy => {
            // A variable with its properties uses about 400 bytes of memory.
            let pages = rng.range(1, 1 + budget / (PAGE * 400));
            for page in 0..pages {
                let mut frame = DeployBuilder::begin(&mut out, 7, &head);
                for n in 0..PAGE {
                    let path = format!("{}", page * PAGE + n);
                    frame.push(&VariableDefinition::new(&path, DataType::F64));
                }
                frame.finish(behavior == Behavior::UnfinishedDeploy || page + 1 < pages);
            }
        }
        Behavior::UnfinishedParts => {
            let length = 32 << 10;
            for _ in 0..rng.range(1, budget / u64::from(length)) {
                header(FrameKind::Part, length, &mut out);
                out.resize(out.len() + length as usize, 0);
            }
        }
        Behavior::HalfFrame => {
            let length = rng.range(1, (1 << 20).min(budget / 2)) as u32;
            header(FrameKind::Write, length, &mut out);
            out.resize(out.len() + length as usize / 2, 0);
        }
        Behavior::UnreadAnswers => {
            for request in 1..rng.range(2, 2000) as u32 {
                let find = Find {
                    cursor: 0,
                    limit: 100,
                    pattern: "**",
                };
                find.encode(request, &mut out);
            }
        }
    }
    out
}

fn header(kind: FrameKind, length: u32, out: &mut Vec<u8>) {
    let header = FrameHeader {
        length,
        kind: kind.number(),
        ..FrameHeader::default()
    };
    out.extend_from_slice(&header.to_bytes());
}
