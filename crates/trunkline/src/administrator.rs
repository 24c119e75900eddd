//! Carries out the orders that come over connections, one after the other, on a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use trunkline_engine::{
    Administrator, Caller, DeployError, LibraryState, Order, OrderRefused, OrderResult, OrderRule,
    Reply, Report,
};
use trunkline_net::{Clock, Housekeeper};

use crate::keeper::{Keeper, LibraryError, lock};

/// Orders that may wait, of all connections together.
const WAITING_MAX: usize = 256;

/// The engine's host, as sessions see it.
pub(crate) struct Clerk {
    waiting: Arc<Mutex<VecDeque<(Order, Reply)>>>,
    thread: Housekeeper,
}

impl Clerk {
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(keeper: Arc<Keeper>, clock: Clock) -> io::Result<Self> {
        let waiting: Arc<Mutex<VecDeque<(Order, Reply)>>> = Arc::default();
        let of_thread = Arc::clone(&waiting);
        let thread = Housekeeper::start(clock, move |_, _| {
            loop {
                // In a statement of its own, so that the queue is free while the order is done.
                let next = lock(&of_thread).pop_front();
                let (order, reply) = next?;
                reply.send(carry_out(&keeper, order));
            }
        })?;
        Ok(Self { waiting, thread })
    }
}

impl Administrator for Clerk {
    fn submit(&self, caller: &Caller, order: Order, reply: Reply) {
        if !caller.rights.administer {
            let sentence = "you may not change what is deployed";
            return reply.send(Err(refused(OrderRule::Denied, sentence)));
        }
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= WAITING_MAX {
            drop(waiting);
            let sentence = format!("{WAITING_MAX} orders wait; try again when they are done");
            return reply.send(Err(refused(OrderRule::Overloaded, sentence)));
        }
        waiting.push_back((order, reply));
        drop(waiting);
        self.thread.wake();
    }
}

fn carry_out(keeper: &Keeper, order: Order) -> OrderResult {
    let report = match order {
        Order::Deploy { library, replace } => {
            keeper
                .deploy(&library, replace, true)
                .map(|deployed| Report {
                    state: keeper.state_of(&library.name),
                    added: deployed.added,
                    changed: deployed.changed,
                    kept: deployed.kept,
                    removed: deployed.removed,
                })
        }
        Order::Undeploy { library, force } => {
            keeper.undeploy(&library, force).map(|removed| Report {
                removed,
                ..Report::default()
            })
        }
        Order::Start { library } => set_state(keeper, &library, LibraryState::Running),
        Order::Stop { library } => set_state(keeper, &library, LibraryState::Stopped),
        _ => {
            let sentence = "this engine does not know the order; update it";
            return Err(refused(OrderRule::Denied, sentence));
        }
    };
    report.map_err(|error| refused(rule_of(&error), error.to_string()))
}

fn set_state(keeper: &Keeper, name: &str, state: LibraryState) -> Result<Report, LibraryError> {
    let has_changed = keeper.set_state(name, state)?;
    let count = keeper.variables_of(name);
    let (changed, kept) = if has_changed { (count, 0) } else { (0, count) };
    Ok(Report {
        state: Some(state),
        changed,
        kept,
        ..Report::default()
    })
}

fn rule_of(error: &LibraryError) -> OrderRule {
    match error {
        LibraryError::Deploy(DeployError::AlreadyDeployed { .. }) => OrderRule::LibraryExists,
        LibraryError::Deploy(_) => OrderRule::BadLibrary,
        LibraryError::Unknown(_) => OrderRule::UnknownLibrary,
        LibraryError::Reserved { .. } => OrderRule::Denied,
        LibraryError::InUse { .. } => OrderRule::InUse,
        LibraryError::Store(_) => OrderRule::StoreFailed,
    }
}

fn refused(rule: OrderRule, sentence: impl Into<String>) -> OrderRefused {
    OrderRefused {
        rule,
        sentence: sentence.into(),
    }
}
