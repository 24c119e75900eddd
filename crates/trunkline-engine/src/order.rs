//! Orders: what changes the engine itself instead of its variables' values.
//!
//! Carrying one out may take the disk, so a session hands it to the engine's host and goes on; the
//! host carries orders out one after the other, and its reply comes like the outcome of a write.

use std::any::Any;
use std::fmt;

use trunkline_types::{AuditAction, AuditPage, AuditQuery, LibraryDefinition};

use crate::audit::AuditRoom;
use crate::caller::Caller;
use crate::library::LibraryState;
use crate::outbox::{Outbox, Wakes};
use crate::sync::Arc;

/// Who carries out orders: the engine's host.
pub trait Administrator: Send + Sync {
    /// Takes an order in and returns at once; `reply` is told what it came to. The host checks the
    /// caller's rights, and bounds how many orders wait.
    fn submit(&self, caller: &Caller, order: Order, reply: Reply);
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Order {
    /// Deploy a library, which stays deployed over restarts where the engine has a store.
    Deploy {
        /// It.
        library: LibraryDefinition,
        /// It may be deployed already.
        replace: bool,
    },
    /// Undeploy a library.
    Undeploy {
        /// Its name.
        library: String,
        /// Even if somebody is subscribed to its variables.
        force: bool,
    },
    /// Start a library that is stopped.
    Start {
        /// Its name.
        library: String,
    },
    /// Stop a library, which stays deployed.
    Stop {
        /// Its name.
        library: String,
    },
    /// Look up who did what; nothing is changed.
    Audit(AuditQuery),
}

impl Order {
    /// What the audit says of it, and of which library; `None` when it changes nothing.
    pub fn audited(&self) -> Option<(AuditAction, &str)> {
        match self {
            Order::Deploy { library, .. } => Some((AuditAction::Deploy, &library.name)),
            Order::Undeploy { library, .. } => Some((AuditAction::Undeploy, library)),
            Order::Start { library } => Some((AuditAction::Start, library)),
            Order::Stop { library } => Some((AuditAction::Stop, library)),
            Order::Audit(_) => None,
        }
    }
}

/// What an order came to, in numbers of variables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// How the library is now; `None`: it is not deployed any more.
    pub state: Option<LibraryState>,
    /// New, or of another type, scope or FIFO than before.
    pub added: usize,
    /// Those that stayed, with other properties, or in another state.
    pub changed: usize,
    /// Those that stayed as they were.
    pub kept: usize,
    /// Those that are gone.
    pub removed: usize,
    /// The page of the audit that was asked for.
    pub audit: Option<Box<AuditPage>>,
}

/// What it changed, for people: `3 added, 1 removed`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.added, "added"),
            (self.changed, "changed"),
            (self.removed, "removed"),
        ];
        let mut between = "";
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            write!(f, "{between}{count} {what}")?;
            between = ", ";
        }
        match between {
            "" => f.write_str("nothing changed"),
            _ => Ok(()),
        }
    }
}

/// Why an order was not carried out; nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct OrderRefused {
    /// For programs.
    pub rule: OrderRule,
    /// For people: what is wrong and what to do.
    pub sentence: String,
}

/// The rule that an order breaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OrderRule {
    /// The caller may not.
    Denied,
    /// No such library is deployed.
    UnknownLibrary,
    /// It is deployed already.
    LibraryExists,
    /// Its definition is wrong.
    BadLibrary,
    /// Somebody uses it.
    InUse,
    /// It could not be stored.
    StoreFailed,
    /// The system has no memory for it.
    NoMemory,
    /// Too many orders wait.
    Overloaded,
    /// The engine is being stopped.
    ShuttingDown,
}

/// What became of an order.
pub type OrderResult = Result<Report, OrderRefused>;

/// Where the end of an order is told. Dropped without an answer, it says that the engine is being
/// stopped.
#[derive(Debug)]
pub struct Reply {
    outbox: Arc<Outbox>,
    id: u32,
    is_sent: bool,
    /// For the entry of the order.
    room: AuditRoom,
    /// Dropped with it.
    held: Option<Box<dyn Any + Send + Sync>>,
}

impl Reply {
    pub(crate) fn new(outbox: Arc<Outbox>, id: u32) -> Self {
        Self {
            outbox,
            id,
            is_sent: false,
            room: AuditRoom::default(),
            held: None,
        }
    }

    /// Keeps something until the end of the order is told, such as what its memory is counted by.
    #[must_use]
    pub fn holding(mut self, held: impl Any + Send + Sync) -> Self {
        self.held = Some(Box::new(held));
        self
    }

    /// With room for the order's entry in the audit.
    #[must_use]
    pub fn with_room(mut self, room: AuditRoom) -> Self {
        self.room = room;
        self
    }

    /// Room for the order's entry in the audit.
    pub fn room(&self) -> &AuditRoom {
        &self.room
    }

    /// Tells the end of the order.
    pub fn send(mut self, result: OrderResult) {
        self.tell(result);
    }

    fn tell(&mut self, result: OrderResult) {
        self.is_sent = true;
        self.outbox.report(self.id, result);
        Wakes::new().add(&self.outbox);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            self.tell(Err(OrderRefused {
                rule: OrderRule::ShuttingDown,
                sentence: "the engine is being stopped and has not done it; try again when it \
                           runs"
                    .to_owned(),
            }));
        }
    }
}
