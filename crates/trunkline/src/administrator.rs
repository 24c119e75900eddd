//! Carries out the administrative orders of all connections, one at a time, on a dedicated thread.

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

/// Maximum number of queued orders over all connections. The same limit applies to queued history
/// queries.
const QUEUED_ORDERS_MAX: usize = 256;

type QueuedOrder = (Caller, Order, Reply);

/// Accepts administrative orders from sessions and queues them.
pub(crate) struct OrderWorker {
    deployments: Arc<Deployments>,
    orders: Lane,
    /// History queries have a lane of their own, because they may take long and must not delay
    /// other orders.
    history: Lane,
}

/// A queue of orders with the thread that carries them out, one after another.
struct Lane {
    queue: Arc<Mutex<VecDeque<QueuedOrder>>>,
    thread: Housekeeper,
}

impl Lane {
    fn start(deployments: &Arc<Deployments>, clock: Clock) -> io::Result<Self> {
        let queue: Arc<Mutex<VecDeque<QueuedOrder>>> = Arc::default();
        let thread_queue = Arc::clone(&queue);
        let thread_deployments = Arc::clone(deployments);
        let thread = Housekeeper::start(clock, move |_, _| {
            loop {
                // A separate statement, so that the lock is released before the order is carried
                // out.
                let next = lock(&thread_queue).pop_front();
                let (caller, order, reply) = next?;
                let audited = order
                    .audited()
                    .map(|(action, name)| (action, name.to_owned()));
                let query = match &order {
                    Order::History(query) => Some(query.clone()),
                    _ => None,
                };
                let is_stop = order == Order::StopEngine;
                let result = carry_out(&thread_deployments, &caller, order);
                let is_stop = is_stop && result.is_ok();
                if let Some((action, name)) = audited {
                    note(
                        &thread_deployments,
                        &caller,
                        (action, &name),
                        &result,
                        reply.room(),
                    );
                }
                let next = query.and_then(|query| next_page_query(*query, &result));
                reply.send(result);
                if let Some(stop) = thread_deployments.stop_handler().filter(|_| is_stop) {
                    stop();
                }
                // Reads the next page while this page is being sent.
                if let (Some(next), Some(history)) = (next, thread_deployments.history()) {
                    history.read_ahead(next);
                }
            }
        })?;
        Ok(Self { queue, thread })
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
                | Order::StopEngine
                | Order::ReloadEngine
                | Order::Audit(_)
                | Order::AlarmJournal(_) => &self.orders,
            };
            let mut queue = lock(&lane.queue);
            if queue.len() < QUEUED_ORDERS_MAX {
                queue.push_back((caller.clone(), order, reply));
                drop(queue);
                return lane.thread.wake();
            }
            let sentence = format!(
                "the engine already has {QUEUED_ORDERS_MAX} queued orders; try again later"
            );
            Fault::new(FaultCode::Overloaded, sentence)
        };
        let result = Err(refusal);
        if let Some(audited) = order.audited() {
            note(&self.deployments, caller, audited, &result, reply.room());
        }
        reply.send(result);
    }
}

/// Adds the order to the audit trail. This happens before the reply is sent, so that a caller with
/// a reply also finds its order in the audit trail.
fn note(
    deployments: &Deployments,
    caller: &Caller,
    audited: (AuditAction, &str),
    result: &OrderResult,
    room: &AuditRoom,
) {
    let (action, name) = audited;
    let end = match result {
        Ok(report) => Ok(report.to_string()),
        Err(fault) => Err(fault.sentence.clone()),
    };
    deployments.audit().note(caller, action, name, end, room);
}

/// Reports how many variables a deployment added, changed, kept and removed.
pub(crate) fn report_of(deployed: &Deployed, state: Option<LibraryState>) -> Report {
    Report {
        state,
        added: deployed.added,
        changed: deployed.changed,
        kept: deployed.kept,
        removed: deployed.removed,
        ..Report::default()
    }
}

fn carry_out(deployments: &Deployments, caller: &Caller, order: Order) -> OrderResult {
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
        Order::StopEngine => {
            // The lane stops the engine after it has sent the reply.
            return match deployments.stop_handler() {
                Some(_) => Ok(Report::default()),
                None => {
                    let sentence = "this engine does not stop by order of a client; stop the program \
                                    that runs it";
                    Err(Fault::new(FaultCode::NotSupported, sentence))
                }
            };
        }
        Order::ReloadEngine => {
            let reloaded = deployments.reloads().run();
            return match reloaded {
                Ok(reloaded) => Ok(reloaded.into_report()),
                Err(error) => Err(Fault::new(error.code(), error.to_string())),
            };
        }
        Order::Audit(query) => {
            return log_page_result(deployments.audit().page(&query).map(LogPage::Audit));
        }
        Order::AlarmJournal(query) => {
            return log_page_result(deployments.alarms().page(&query).map(LogPage::Alarms));
        }
        Order::History(query) => return history_page_result(deployments, &query),
    };
    report.map_err(|error| {
        let sentence = match &error {
            LibraryError::Deploy(error) => error.sentence_for(caller),
            LibraryError::Unknown(_)
            | LibraryError::InUse { .. }
            | LibraryError::Reserved { .. }
            | LibraryError::Store(_) => error.to_string(),
        };
        Fault::new(code_of(&error), sentence)
    })
}

fn log_page_result(page: Result<LogPage, StoreError>) -> OrderResult {
    match page {
        Ok(page) => Ok(Report {
            page: Some(Box::new(page)),
            ..Report::default()
        }),
        Err(error) => Err(Fault::new(FaultCode::StoreFailed, error.to_string())),
    }
}

fn history_page_result(deployments: &Deployments, query: &HistoryQuery) -> OrderResult {
    let Some(history) = deployments.history() else {
        let sentence = "this engine records no history; specify the variables to record in a \
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

/// Returns the query for the page after this result.
fn next_page_query(query: HistoryQuery, result: &OrderResult) -> Option<HistoryQuery> {
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
