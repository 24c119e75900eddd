//! What a simulated program has: the time, chance of its own, and the checker to tell.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use trunkline_stream::sim::{Driven, Process, SimClock};
use trunkline_stream::{JournalOptions, Options};
use trunkline_types::Tick;

use super::checker::{Checker, Lineage};
use super::plan::{Names, Plan};
use crate::rng::Rng;

/// What the programs are to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// What the seed has drawn, under faults.
    Faults,
    /// No faults; writing goes on until then.
    Calm(Tick),
    /// Whatever there is is to be brought to its end.
    Finish,
}

/// How a program has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It has done what it was to do.
    Done,
    /// Its journal is of no use any more, and both are to be removed.
    Wipe,
}

/// What both programs, the world and the checker share.
pub struct Shared {
    pub checker: RefCell<Checker>,
    pub phase: Cell<Phase>,
    /// The ends that are there, as a monitor asks them.
    pub ends: RefCell<[Option<Arc<dyn Driven>>; 2]>,
    /// The writing program ends its stream then, because something is wrong with the connection.
    pub ends_at: Cell<Option<Tick>>,
    /// A program does nothing until then.
    pub idle_until: [Cell<Tick>; 2],
    /// What programs have to tell people.
    pub said: RefCell<Vec<String>>,
    pub clock: Arc<SimClock>,
    pub plan: Plan,
}

/// A program's view of all that.
#[derive(Clone)]
pub struct Ctx {
    pub shared: Rc<Shared>,
    pub side: usize,
    pub process: Arc<Process>,
    rng: Rc<RefCell<Rng>>,
    wake_at: Rc<Cell<Option<Tick>>>,
}

/// What stays of an incarnation through its lives.
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

    pub fn say(&self, line: impl FnOnce() -> String) {
        let name = ["writer", "reader"][self.side];
        self.shared
            .said
            .borrow_mut()
            .push(format!("{name}: {}", line()));
    }

    /// When the program wants to go on by itself.
    pub fn wake_at(&self) -> Option<Tick> {
        self.wake_at.get()
    }

    pub async fn sleep(&self, time: Duration) {
        let until = self.now().saturating_add(time);
        let until = until.max(self.shared.idle_until[self.side].get());
        poll_fn(|_| {
            // What has healed is not waited for.
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

    /// A pause between two calls.
    pub async fn pause(&self) {
        let mean = match self.phase() {
            Phase::Faults => self.plan().sides[self.side].pace.pause,
            _ => Duration::from_millis(4),
        };
        let time = self.rng(|rng| rng.wait(mean));
        self.sleep(time).await;
    }

    /// The time between two ends.
    pub async fn absence(&self) {
        let mean = match self.phase() {
            Phase::Faults => self.plan().sides[self.side].pace.absence,
            _ => Duration::from_millis(20),
        };
        let time = self.rng(|rng| rng.wait(mean));
        self.sleep(time).await;
    }

    /// The end that this process has.
    pub fn own(&self) -> Lineage {
        let (end, _) = self.process.seated();
        end.map(|end| lineage(end.incarnation()))
            .unwrap_or_default()
    }

    /// The end that it is connected with.
    pub fn peer(&self) -> Option<Lineage> {
        let (end, _) = self.process.seated();
        end.and_then(|end| end.peer()).map(lineage)
    }

    pub fn url(&self) -> String {
        url(self.plan(), self.side, "localhost")
    }

    pub fn options(&self) -> Options {
        let plan = self.plan();
        let side = &plan.sides[self.side];
        let names = match plan.names {
            Names::Both => true,
            Names::Writer => self.side == 0,
            Names::Reader => self.side == 1,
        };
        let timeout = self.rng(|rng| rng.chance(0.3).then(|| rng.millis(50, 9000)));
        Options {
            peer: names.then(|| url(plan, 1 - self.side, "far")),
            capacity: side.capacity,
            bytes_max: side.bytes_max,
            timeout,
            gone_after: plan.gone_after,
            takes_successor: plan.takes_successor,
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
