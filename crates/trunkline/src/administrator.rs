//! Executes the administrative orders of connections one at a time, on a dedicated thread.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use trunkline_engine::history::HistoryError;
use trunkline_engine::store::StoreError;
use trunkline_engine::{
    Administrator, AuditRoom, Caller, DeployError, Deployed, LibraryState, LogPage, Order,
    OrderResult, Reply, Report,
};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::history::HistoryQuery;
use trunkline_types::{AuditAction, Fault, FaultCode};

use crate::deployments::{Deployments, LibraryError, lock};

/// Maximum number of queued orders over all connections, and of queued history queries.
const WAITING_MAX: usize = 256;

type Waiting = (Caller, Order, Reply);

/// The queue of administrative orders, as sessions use it.
pub(crate) struct OrderWorker {
    deployments: Arc<Deployments>,
    orders: Lane,
    /// Separate lane for history queries, which may take long and must not delay other orders.
    history: Lane,
}

/// Orders that one thread carries out, one after the other.
struct Lane {
    waiting: Arc<Mutex<VecDeque<Waiting>>>,
    thread: Housekeeper,
}

impl Lane {
    fn start(deployments: &Arc<Deployments>, clock: Clock) -> io::Result<Self> {
        let waiting: Arc<Mutex<VecDeque<Waiting>>> = Arc::default();
        let of_thread = Arc::clone(&waiting);
        let in_thread = Arc::clone(deployments);
        let thread = Housekeeper::start(clock, move |_, _| {
            loop {
                // A separate statement releases the lock before the order is carried out.
                let next = lock(&of_thread).pop_front();
                let (caller, order, reply) = next?;
                let about = order
                    .audited()
                    .map(|(action, name)| (action, name.to_owned()));
                let query = match &order {
                    Order::History(query) => Some(query.clone()),
                    _ => None,
                };
                let result = carry_out(&in_thread, order);
                if let Some((action, name)) = about {
                    note(&in_thread, &caller, (action, &name), &result, reply.room());
                }
                let next = query.and_then(|query| next_of(*query, &result));
                reply.send(result);
                // Reads ahead the next page while this one is being sent.
                if let (Some(next), Some(history)) = (next, in_thread.history()) {
                    history.read_ahead(next);
                }
            }
        })?;
        Ok(Self { waiting, thread })
    }
}

impl OrderWorker {
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(deployments: Arc<Deployments>, clock: Clock) -> io::Result<Self> {
        Ok(Self {
            orders: Lane::start(&deployments, clock)?,
            history: Lane::start(&deployments, clock)?,
            deployments,
        })
    }
}

impl Administrator for OrderWorker {
    fn submit(&self, caller: &Caller, order: Order, reply: Reply) {
        let refusal = if let Err(denied) = order.check_rights(caller) {
            denied
        } else {
            let lane = match order {
                Order::History(_) => &self.history,
                Order::Deploy { .. }
                | Order::Undeploy { .. }
                | Order::Start { .. }
                | Order::Stop { .. }
                | Order::Audit(_)
                | Order::AlarmJournal(_) => &self.orders,
            };
            let mut waiting = lock(&lane.waiting);
            if waiting.len() < WAITING_MAX {
                waiting.push_back((caller.clone(), order, reply));
                drop(waiting);
                return lane.thread.wake();
            }
            let sentence = format!("{WAITING_MAX} orders wait; try again when they are done");
            Fault::new(FaultCode::Overloaded, sentence)
        };
        let result = Err(refusal);
        if let Some(about) = order.audited() {
            note(&self.deployments, caller, about, &result, reply.room());
        }
        reply.send(result);
    }
}

/// Adds the order to the audit. Called before the reply is sent, so that a caller that has received
/// its reply also finds the order in the audit.
fn note(
    deployments: &Deployments,
    caller: &Caller,
    about: (AuditAction, &str),
    result: &OrderResult,
    room: &AuditRoom,
) {
    let (action, name) = about;
    let end = match result {
        Ok(report) => Ok(report.to_string()),
        Err(fault) => Err(fault.sentence.clone()),
    };
    deployments.audit().note(caller, action, name, end, room);
}

/// Counts the variables that a deployment added, changed, kept and removed.
pub(crate) fn report_of(deployed: &Deployed, state: Option<LibraryState>) -> Report {
    Report {
        state,
        added: deployed.added,
        changed: deployed.changed,
        kept: deployed.kept,
        removed: deployed.removed,
        page: None,
    }
}

fn carry_out(deployments: &Deployments, order: Order) -> OrderResult {
    let report = match order {
        Order::Deploy { library, replace } => deployments
            .deploy(&library, replace, true)
            .map(|deployed| report_of(&deployed, deployments.state_of(&library.name))),
        Order::Undeploy { library, force } => {
            deployments.undeploy(&library, force).map(|removed| Report {
                removed,
                ..Report::default()
            })
        }
        Order::Start { library } => set_state(deployments, &library, LibraryState::Running),
        Order::Stop { library } => set_state(deployments, &library, LibraryState::Stopped),
        Order::Audit(query) => return of_log(deployments.audit().page(&query).map(LogPage::Audit)),
        Order::AlarmJournal(query) => {
            return of_log(deployments.alarms().page(&query).map(LogPage::Alarms));
        }
        Order::History(query) => return of_history(deployments, &query),
    };
    report.map_err(|error| Fault::new(code_of(&error), error.to_string()))
}

fn of_log(page: Result<LogPage, StoreError>) -> OrderResult {
    match page {
        Ok(page) => Ok(Report {
            page: Some(Box::new(page)),
            ..Report::default()
        }),
        Err(error) => Err(Fault::new(FaultCode::StoreFailed, error.to_string())),
    }
}

fn of_history(deployments: &Deployments, query: &HistoryQuery) -> OrderResult {
    let Some(history) = deployments.history() else {
        let sentence = "this engine records no history; name the variables to record in a \
                        [[history]] section of its configuration";
        return Err(Fault::new(FaultCode::NotSupported, sentence));
    };
    match history.page(query) {
        Ok(page) => Ok(Report {
            page: Some(Box::new(LogPage::History(page))),
            ..Report::default()
        }),
        Err(error @ HistoryError::Query(_)) => {
            Err(Fault::new(FaultCode::BadRequest, error.to_string()))
        }
        Err(
            error @ (HistoryError::Files { .. }
            | HistoryError::Spool { .. }
            | HistoryError::ForeignSpool { .. }),
        ) => Err(Fault::new(FaultCode::StoreFailed, error.to_string())),
    }
}

/// Returns the query of the page after this one.
fn next_of(query: HistoryQuery, result: &OrderResult) -> Option<HistoryQuery> {
    let page = result.as_ref().ok()?.page.as_deref()?;
    let LogPage::History(page) = page else {
        return None;
    };
    Some(HistoryQuery {
        from: Some(page.next.clone()?),
        ..query
    })
}

fn set_state(
    deployments: &Deployments,
    name: &str,
    state: LibraryState,
) -> Result<Report, LibraryError> {
    let has_changed = deployments.set_state(name, state)?;
    let count = deployments.variables_of(name);
    let (changed, kept) = if has_changed { (count, 0) } else { (0, count) };
    Ok(Report {
        state: Some(state),
        changed,
        kept,
        ..Report::default()
    })
}

fn code_of(error: &LibraryError) -> FaultCode {
    match error {
        LibraryError::Deploy(DeployError::AlreadyDeployed { .. }) => FaultCode::LibraryExists,
        LibraryError::Deploy(
            DeployError::FifoMemory { .. } | DeployError::InitialMemory { .. },
        ) => FaultCode::MemoryFull,
        LibraryError::Deploy(_) => FaultCode::BadLibrary,
        LibraryError::Unknown(_) => FaultCode::UnknownLibrary,
        LibraryError::Reserved { .. } => FaultCode::Denied,
        LibraryError::InUse { .. } => FaultCode::InUse,
        LibraryError::Store(_) => FaultCode::StoreFailed,
    }
}
