//! Orders: requests to the engine itself. They change its libraries, or look up its records.
//!
//! Carrying out an order may need the disk, so a session passes it to the engine's host and
//! continues. The host carries orders out one after the other, and its reply arrives like the
//! outcome of a write.

use std::any::Any;
use std::fmt;

use trunkline_access::Action;
use trunkline_types::alarm::AlarmJournalQuery;
use trunkline_types::history::HistoryQuery;
use trunkline_types::{
    Access, AuditAction, AuditQuery, Fault, FaultCode, LibraryDefinition, Name, VariableDefinition,
};

use crate::caller::Caller;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::features::audit::AuditRoom;
use crate::outcome::orders::OrderResult;
use crate::rights::io_item;
use crate::subscriptions::Consumer;
use crate::sync::Arc;

pub trait Administrator: Send + Sync {
    /// Accepts an order and returns at once; the result is sent to `reply`. The host checks the
    /// caller's rights, and bounds the number of queued orders.
    fn submit(&self, caller: &Caller, order: Order, reply: Reply);
}

#[derive(Clone, PartialEq, Debug)]
pub enum Order {
    /// Deploy a library. With a store it stays deployed across restarts.
    Deploy {
        library: LibraryDefinition,
        replace: bool,
    },
    Undeploy {
        library: String,
        force: bool,
    },
    Start {
        library: String,
    },
    Stop {
        library: String,
    },
    /// Stop the engine. The host carries it out after it has sent the reply.
    StopEngine,
    /// Read the configuration files again, and apply what can be applied to a running engine.
    ReloadEngine,
    /// Look up entries of the audit trail. Changes nothing.
    Audit(AuditQuery),
    /// Look up entries of the alarm journal. Changes nothing.
    AlarmJournal(Box<AlarmJournalQuery>),
    /// Look up recorded updates of variables. Changes nothing.
    History(Box<HistoryQuery>),
}

/// Checks whether `caller` has the right to change a library that the engine hosts.
pub fn check_configure(caller: &Caller, library: &str) -> Result<(), Fault> {
    permit(
        caller.rights.permit_library(Action::Configure, library),
        format_args!("configure the library {library} of this engine"),
    )
}

/// Checks whether `caller` has the rights that the variables of a library give to others: the engine
/// reads the variables that a definition names, and everyone who may read an alias or an alarm sees
/// what it reads. So its author must have the right to read them, and to write the target of an alias
/// that can be written.
///
/// The decision depends only on the names, so it does not show whether the variables exist (B-82).
fn check_references(caller: &Caller, library: &LibraryDefinition) -> Result<(), Fault> {
    let rights = &caller.rights;
    let has_all = |action: &Action| rights.permit_everywhere(*action);
    if [Action::Read, Action::Write, Action::Configure]
        .iter()
        .all(has_all)
    {
        return Ok(());
    }
    for definition in &library.variables {
        let source = &definition.properties.source;
        if !source.is_empty() && !rights.permit_io(&io_item(source)) {
            let (library, path, item) = (&library.name, &definition.path, io_item(source));
            let sentence = format!(
                "{library}/{path}: you have no right to use the source {source}; ask the engine's \
                 administrator for the right to configure {item}"
            );
            return Err(Fault::new(FaultCode::Denied, sentence));
        }
        for Reference {
            what,
            name,
            actions,
        } in references(definition)
        {
            // The deployment reports a name that is not valid.
            let Ok(parsed) = Name::parse(name) else {
                continue;
            };
            let permits = |action: &&Action| rights.permit_name(**action, parsed.as_str());
            if let Some(missing) = actions.iter().find(|action| !permits(action)) {
                let (library, path) = (&library.name, &definition.path);
                let sentence = format!(
                    "{library}/{path}: you have no right to {missing} the {what} {name}; use a \
                     variable on which you have this right, or ask the engine's administrator for it"
                );
                return Err(Fault::new(FaultCode::Denied, sentence));
            }
        }
    }
    Ok(())
}

/// A variable that the definition of another variable names.
struct Reference<'a> {
    /// The role of the variable in the definition.
    what: &'static str,
    name: &'a str,
    /// The actions that the author of the definition must be permitted.
    actions: &'static [Action],
}

fn references(definition: &VariableDefinition) -> impl Iterator<Item = Reference<'_>> {
    let properties = &definition.properties;
    let target = (!properties.alias.is_empty()).then_some(Reference {
        what: "alias target",
        name: &properties.alias,
        actions: match properties.access {
            Access::ReadOnly => &[Action::Read],
            Access::ReadWrite | Access::WriteOnly => &[Action::Read, Action::Write],
        },
    });
    let read = |what, name| Reference {
        what,
        name,
        actions: &[Action::Read],
    };
    let of_alarms = properties.alarms.iter().flat_map(move |alarm| {
        let operand = alarm.kind.variable().map(String::as_str);
        let suppressing = Some(alarm.suppressed_by.as_str()).filter(|name| !name.is_empty());
        let operand = operand.map(|name| read("limit or setpoint", name));
        let suppressing = suppressing.map(|name| read("suppressing variable", name));
        operand.into_iter().chain(suppressing)
    });
    target.into_iter().chain(of_alarms)
}

fn permit(is_permitted: bool, what: impl fmt::Display) -> Result<(), Fault> {
    if is_permitted {
        return Ok(());
    }
    let sentence = format!("you have no permission to {what}; ask its administrator");
    Err(Fault::new(FaultCode::Denied, sentence))
}

impl Order {
    /// Returns the order's action in the audit trail, and its library, which is empty for the whole
    /// engine; `None` if it changes nothing.
    pub fn audited(&self) -> Option<(AuditAction, &str)> {
        match self {
            Order::Deploy { library, .. } => Some((AuditAction::Deploy, &library.name)),
            Order::Undeploy { library, .. } => Some((AuditAction::Undeploy, library)),
            Order::Start { library } => Some((AuditAction::Start, library)),
            Order::Stop { library } => Some((AuditAction::Stop, library)),
            Order::StopEngine => Some((AuditAction::StopOrder, "")),
            Order::ReloadEngine => Some((AuditAction::ReloadOrder, "")),
            Order::Audit(_) | Order::AlarmJournal(_) | Order::History(_) => None,
        }
    }

    /// Checks whether `caller` has the right to give the order. The answer to a query contains only
    /// what the query permits.
    pub fn check_rights(&self, caller: &Caller) -> Result<(), Fault> {
        match self {
            Order::AlarmJournal(_) => {
                let is_permitted = caller.rights.permit_somewhere(Action::History);
                permit(is_permitted, "read the alarm journal of this engine")
            }
            Order::History(_) => {
                let is_permitted = caller.rights.permit_somewhere(Action::History);
                permit(is_permitted, "read the history of this engine")
            }
            Order::Deploy { library, .. } => {
                check_configure(caller, &library.name)?;
                check_references(caller, library)
            }
            Order::Undeploy { library, .. }
            | Order::Start { library }
            | Order::Stop { library } => check_configure(caller, library),
            Order::StopEngine => {
                let is_permitted = caller.rights.permit_on_engine(Action::Administer);
                permit(is_permitted, "stop this engine")
            }
            Order::ReloadEngine => {
                let is_permitted = caller.rights.permit_on_engine(Action::Administer);
                permit(is_permitted, "reload the configuration of this engine")
            }
            Order::Audit(_) => {
                let is_permitted = caller.rights.permit_on_engine(Action::Audit);
                permit(is_permitted, "read the audit trail of this engine")
            }
        }
    }
}

/// Destination of an order's result. If it is dropped without a result, it reports that the engine
/// is stopping.
#[derive(Debug)]
pub struct Reply {
    outbox: Arc<Outbox>,
    id: u32,
    is_sent: bool,
    /// Space reserved in the audit trail for the entry of this order.
    room: AuditRoom,
    /// Dropped before the result is sent.
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Reply {
    /// The destination for the result of the consumer's order `id`.
    pub fn to(consumer: &Consumer, id: u32) -> Self {
        Self {
            outbox: Arc::clone(&consumer.outbox),
            id,
            is_sent: false,
            room: AuditRoom::default(),
            guard: None,
        }
    }

    /// Keeps a guard, such as the one that counts the order's memory, until the result is sent.
    #[must_use]
    pub fn holding(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    #[must_use]
    pub fn with_room(mut self, room: AuditRoom) -> Self {
        self.room = room;
        self
    }

    pub fn room(&self) -> &AuditRoom {
        &self.room
    }

    pub fn send(mut self, result: OrderResult) {
        self.deliver(result);
    }

    fn deliver(&mut self, result: OrderResult) {
        self.is_sent = true;
        self.guard = None;
        self.outbox.report(self.id, result);
        Wakes::new().add(&self.outbox);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            let sentence = "the engine is shutting down and did not carry out the request; repeat it when the engine runs again";
            self.deliver(Err(Fault::new(FaultCode::ShuttingDown, sentence)));
        }
    }
}
