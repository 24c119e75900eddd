//! Defines the context of a simulated program: time, random numbers, and the checker.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use trunkline_stream::sim::{Process, SimClock, SimEndpoint};
use trunkline_stream::{JournalOptions, Options};
use trunkline_types::Tick;

use super::checker::{Checker, Lineage};
use super::plan::{Dialers, Plan};
use crate::rng::Rng;

/// The phase of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Programs perform random actions, and faults are injected.
    Faults,
    /// There are no faults. The writing program continues until this time.
    Calm(Tick),
    /// Both programs end their streams and exit.
    Finish,
}

/// How a program has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The program has finished its work.
    Done,
    /// The journals can no longer be used, so both journals must be removed.
    Wipe,
}

/// State that both programs and the world share.
pub struct Shared {
    pub checker: RefCell<Checker>,
    pub phase: Cell<Phase>,
    /// The current endpoint of each side.
    pub ends: RefCell<[Option<Arc<dyn SimEndpoint>>; 2]>,
    /// Time at which the writing program ends its stream because of a connection problem.
    pub ends_at: Cell<Option<Tick>>,
    /// Time until which each program is idle.
    pub idle_until: [Cell<Tick>; 2],
    /// Readable messages of the programs.
    pub log_lines: RefCell<Vec<String>>,
    pub clock: Arc<SimClock>,
    pub plan: Plan,
}

/// A program's view of the shared state.
#[derive(Clone)]
pub struct Ctx {
    pub shared: Rc<Shared>,
    pub side: usize,
    pub process: Arc<Process>,
    rng: Rc<RefCell<Rng>>,
    wake_at: Rc<Cell<Option<Tick>>>,
}

/// Returns the part of an incarnation that is the same for all incarnations of an endpoint.
pub fn lineage(incarnation: [u8; 16]) -> Lineage {
    let mut lineage = Lineage::default();
    lineage.copy_from_slice(&incarnation[8..]);
    lineage
}

impl Ctx {
    pub fn new(shared: &Rc<Shared>, side: usize, process: Arc<Process>, rng: Rng) -> Self {
        Self {
            shared: shared.clone(),
            side,
            process,
            rng: Rc::new(RefCell::new(rng)),
            wake_at: Rc::default(),
        }
    }

    pub fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    pub fn phase(&self) -> Phase {
        self.shared.phase.get()
    }

    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    pub fn rng<R>(&self, f: impl FnOnce(&mut Rng) -> R) -> R {
        f(&mut self.rng.borrow_mut())
    }

    pub fn checker<R>(&self, f: impl FnOnce(&mut Checker) -> R) -> R {
        f(&mut self.shared.checker.borrow_mut())
    }

    pub fn log(&self, line: impl FnOnce() -> String) {
        let name = ["writer", "reader"][self.side];
        self.shared
            .log_lines
            .borrow_mut()
            .push(format!("{name}: {}", line()));
    }

    /// Returns the time at which the program continues without a wake-up.
    pub fn wake_at(&self) -> Option<Tick> {
        self.wake_at.get()
    }

    pub async fn sleep(&self, time: Duration) {
        let until = self.now().saturating_add(time);
        let until = until.max(self.shared.idle_until[self.side].get());
        poll_fn(|_| {
            // After all faults have ended, wait for at most 100 ms.
            let until = match self.phase() {
                Phase::Faults => until,
                _ => until.min(self.now().saturating_add(Duration::from_millis(100))),
            };
            if self.now() >= until || self.wake_at.get().is_some_and(|at| self.now() >= at) {
                self.wake_at.set(None);
                return Poll::Ready(());
            }
            self.wake_at.set(Some(until));
            Poll::Pending
        })
        .await;
    }

    /// Pauses between two calls.
    pub async fn pause(&self) {
        let mean = match self.phase() {
            Phase::Faults => self.plan().sides[self.side].pace.pause,
            _ => Duration::from_millis(4),
        };
        let time = self.rng(|rng| rng.wait(mean));
        self.sleep(time).await;
    }

    /// Pauses between the end of an endpoint and the creation of the next one.
    pub async fn pause_between_ends(&self) {
        let mean = match self.phase() {
            Phase::Faults => self.plan().sides[self.side].pace.recreate_delay,
            _ => Duration::from_millis(20),
        };
        let time = self.rng(|rng| rng.wait(mean));
        self.sleep(time).await;
    }

    /// Returns the lineage of this process's endpoint.
    pub fn own(&self) -> Lineage {
        let (end, _) = self.process.ends();
        end.map(|end| lineage(end.incarnation()))
            .unwrap_or_default()
    }

    /// Returns the lineage of the peer to which the endpoint is connected.
    pub fn peer(&self) -> Option<Lineage> {
        let (end, _) = self.process.ends();
        end.and_then(|end| end.peer()).map(lineage)
    }

    pub fn url(&self) -> String {
        url(self.plan(), self.side, "localhost")
    }

    pub fn options(&self) -> Options {
        let plan = self.plan();
        let side = &plan.sides[self.side];
        let is_dialer = match plan.dialers {
            Dialers::Both => true,
            Dialers::Writer => self.side == 0,
            Dialers::Reader => self.side == 1,
        };
        let timeout = self.rng(|rng| rng.chance(0.3).then(|| rng.millis(50, 9000)));
        Options {
            peer: is_dialer.then(|| url(plan, 1 - self.side, "far")),
            capacity: side.capacity,
            bytes_max: side.bytes_max,
            timeout,
            gone_after: plan.gone_after,
            accepts_successor: plan.accepts_successor,
            is_checked: plan.is_checked,
            journal: side.journal.map(|durability| JournalOptions {
                durability,
                commit: plan.commit,
                ..JournalOptions::at("/simulated")
            }),
            spin: Duration::ZERO,
            shared_memory: false,
            program: "simulated".to_owned(),
            ..Options::default()
        }
    }
}

fn url(plan: &Plan, side: usize, host: &str) -> String {
    let name = ["w", "r"][side];
    match plan.sides[side].has_engine {
        true => format!("tl://{host}/{name}"),
        false => format!("tl://{host}:{}/{name}", 5900 + side),
    }
}
