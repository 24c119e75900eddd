//! Receives the library of a DEPLOY, which may arrive in many frames, and queues it as an order.

use trunkline_engine::{Order, VARIABLES_MAX, check_configure};
use trunkline_proto::limits::REQUEST_DEADLINE;
use trunkline_proto::message::library::Deploy;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::definition::Properties;
use trunkline_types::{DataType, LibraryDefinition, Tick, VariableDefinition};

use super::orders::{queue_order, refuse_order};
use crate::context::Context;
use crate::fault::out_of_memory;
use crate::gate::Admitted;
use crate::request_budget::{Account, MemoryUse};

/// Maximum total size of the frames of one DEPLOY request, in bytes.
const LIBRARY_BYTES_MAX: usize = 256 << 20;

/// The DEPLOY request whose frames are still arriving.
#[derive(Debug, Default)]
pub(crate) struct Deploys {
    incoming: Option<Incoming>,
}

#[derive(Debug)]
struct Incoming {
    request: u32,
    library: LibraryDefinition,
    replace: bool,
    /// Total size of the frames received so far, in bytes.
    bytes: usize,
    /// Heap memory of the variables in bytes, excluding the list itself.
    content: usize,
    /// Deadline for the next frame.
    due: Tick,
    /// The reason why the request will be refused after its last frame. Its variables are not
    /// stored.
    refused: Option<Fault>,
}

impl Deploys {
    /// Returns the deadline for the next frame.
    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.incoming.as_ref().map(|incoming| incoming.due)
    }

    pub(crate) fn handle(
        &mut self,
        context: &mut Context,
        frame: &Admitted<'_>,
    ) -> Result<(), Disconnect> {
        let deploy = Deploy::decode(frame)?;
        let head = deploy.head();
        let request = frame.request();
        let mut incoming = match self.incoming.take() {
            Some(incoming) if incoming.request == request => incoming,
            Some(_) => {
                let sentence = "a DEPLOY began before the previous one was complete".to_owned();
                return Err(Disconnect::Malformed { sentence });
            }
            None => Incoming {
                request,
                library: LibraryDefinition {
                    name: head.library.to_owned(),
                    description: head.description.to_owned(),
                    variables: Vec::new(),
                },
                replace: head.replace,
                bytes: 0,
                content: 0,
                due: Tick::ZERO,
                refused: refuse_order(context, check_configure(&context.caller, head.library)),
            },
        };
        incoming.bytes += frame.payload().len();
        incoming.due = context.moment.now.saturating_add(REQUEST_DEADLINE);
        incoming.make_room(frame, &mut context.account);
        for variable in deploy {
            let variable = variable?;
            if incoming.refused.is_none() {
                incoming.content += bytes_of_type(&variable.properties.data_type);
                incoming.library.variables.push(variable);
            }
        }
        incoming.charge(incoming.library.variables.capacity(), &mut context.account);
        incoming.check_size();
        if incoming.refused.is_some() {
            incoming.library.variables = Vec::new();
            incoming.library.description = String::new();
            context.account.lower(MemoryUse::Libraries, 0);
        }
        if frame.has_more() {
            self.incoming = Some(incoming);
            return Ok(());
        }
        let order = Order::Deploy {
            library: incoming.library,
            replace: incoming.replace,
        };
        let refused = incoming.refused;
        let refused = refused.or_else(|| order.check_rights(&context.caller).err());
        queue_order(context, request, order, refused);
        Ok(())
    }
}

impl Incoming {
    /// Reserves the memory for the variables of a frame before they are decoded.
    fn make_room(&mut self, frame: &Frame<'_>, account: &mut Account) {
        if self.refused.is_some() {
            return;
        }
        let payload = frame.payload().len();
        // A variable takes at least one byte, regardless of the count in the header.
        let count = (frame.count() as usize).min(payload);
        let variables = &self.library.variables;
        let (needed, capacity) = (variables.len().saturating_add(count), variables.capacity());
        let planned = match needed > capacity {
            true => needed.max(capacity.saturating_add(capacity / 2)),
            false => capacity,
        };
        let properties = size_of::<Properties>().saturating_mul(count);
        // Each text and value has its own allocation, which can be larger than the encoded bytes.
        self.content += properties.saturating_add(payload.saturating_mul(2));
        self.charge(planned, account);
        let more = planned.saturating_sub(self.library.variables.len());
        if self.refused.is_none() && self.library.variables.try_reserve_exact(more).is_err() {
            let bytes = more.saturating_mul(size_of::<VariableDefinition>());
            self.refused = Some(out_of_memory(bytes));
        }
    }

    /// Charges a list with this capacity, and its content, to the session.
    fn charge(&mut self, capacity: usize, account: &mut Account) {
        if self.refused.is_some() {
            return;
        }
        let list = capacity.saturating_mul(size_of::<VariableDefinition>());
        let charged = account.set(MemoryUse::Libraries, list.saturating_add(self.content));
        self.refused = charged.err();
    }

    /// Refuses a library that has become too large, and drops its variables.
    fn check_size(&mut self) {
        let variables = self.library.variables.len();
        if variables <= VARIABLES_MAX && self.bytes <= LIBRARY_BYTES_MAX {
            return;
        }
        self.library.variables = Vec::new();
        self.refused.get_or_insert_with(|| {
            let sentence = format!(
                "the library has more than {VARIABLES_MAX} variables or {LIBRARY_BYTES_MAX} bytes; \
                 split it into several libraries"
            );
            Fault::new(FaultCode::TooLarge, sentence)
        });
    }
}

/// Returns the heap memory of the labels and fields of a type, in bytes. It is counted separately,
/// because a single byte of a frame can define a label or a field.
fn bytes_of_type(data_type: &DataType) -> usize {
    /// Size of a label in bytes: the reference-counted text and the pointer to it.
    const LABEL: usize = 48;
    match data_type {
        DataType::Enum(of) => of.labels.len().saturating_mul(LABEL),
        DataType::Struct(of) => {
            let field = |(_, field): &(_, DataType)| {
                let own = LABEL.saturating_add(size_of::<DataType>());
                own.saturating_add(bytes_of_type(field))
            };
            of.fields.iter().map(field).fold(0, usize::saturating_add)
        }
        _ => 0,
    }
}
