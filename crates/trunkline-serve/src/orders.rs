//! Library orders and audit queries: accepted, handed to the engine's host, and answered when it
//! has replied.

use trunkline_engine::{
    AuditRoom, LibraryState, NoAuditRoom, Order, OrderNote, OrderResult, Report, VARIABLES_MAX,
    Wakes,
};
use trunkline_proto::limits::{PAGE_BYTES, REQUEST_DEADLINE};
use trunkline_proto::message::audit::{Audit, AuditPageBuilder, AuditPageHead};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::library::{
    Deploy, LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::definition::Properties;
use trunkline_types::{
    AuditAction, AuditOutcome, AuditPage, AuditQuery, DataType, LibraryDefinition, Pattern, Tick,
    Timestamp, VariableDefinition,
};

use crate::fault::{audit_unstored, out_of_memory};
use crate::request_budget::{Account, Loan, Use};
use crate::session::Session;
use crate::work::{Progress, Work};

/// Maximum number of unanswered orders per session.
const ORDERS_MAX: usize = 16;
/// Maximum total size of the frames of one DEPLOY request, in bytes.
const LIBRARY_BYTES_MAX: usize = 256 << 20;

/// The unanswered orders of a session.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The DEPLOY whose frames are still arriving.
    incoming: Option<Incoming>,
    /// Number of orders queued here or at the host.
    unanswered: usize,
}

impl Orders {
    /// Returns the deadline for the next frame of a DEPLOY.
    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.incoming.as_ref().map(|incoming| incoming.due)
    }

    /// Drops a partially received DEPLOY.
    pub(crate) fn forget_incoming(&mut self) {
        self.incoming = None;
    }
}

#[derive(Debug)]
struct Incoming {
    request: u32,
    library: LibraryDefinition,
    replace: bool,
    bytes: usize,
    /// Heap bytes of the variables, in addition to their list.
    content: usize,
    due: Tick,
    /// The reason to refuse it after its last frame. Frames until then are not stored.
    refused: Option<Fault>,
}

impl Session {
    pub(crate) fn handle_deploy(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let deploy = Deploy::decode(frame)?;
        let head = deploy.head();
        let request = frame.request();
        let mut incoming = match self.orders.incoming.take() {
            Some(incoming) if incoming.request == request => incoming,
            Some(_) => {
                let sentence = "a DEPLOY among the frames of another".to_owned();
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
                refused: self.refuse_order(),
            },
        };
        incoming.bytes += frame.payload().len();
        incoming.due = self.last_seen.0.saturating_add(REQUEST_DEADLINE);
        incoming.make_room(frame, &mut self.account);
        for variable in deploy {
            let variable = variable?;
            if incoming.refused.is_none() {
                incoming.content += bytes_of_type(&variable.properties.data_type);
                incoming.library.variables.push(variable);
            }
        }
        incoming.charge(incoming.library.variables.capacity(), &mut self.account);
        incoming.check_size();
        if incoming.refused.is_some() {
            incoming.library.variables = Vec::new();
            self.account.lower(Use::Orders, 0);
        }
        if frame.has_more() {
            self.orders.incoming = Some(incoming);
            return Ok(());
        }
        let order = Order::Deploy {
            library: incoming.library,
            replace: incoming.replace,
        };
        self.take_order(request, order, incoming.refused);
        Ok(())
    }

    pub(crate) fn handle_order(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let LibraryOrder { verb, library } = LibraryOrder::decode(frame)?;
        let library = library.to_owned();
        let order = match verb {
            LibraryVerb::Undeploy { force } => Order::Undeploy { library, force },
            LibraryVerb::Start => Order::Start { library },
            LibraryVerb::Stop => Order::Stop { library },
        };
        self.take_order(frame.request(), order, self.refuse_order());
        Ok(())
    }

    pub(crate) fn handle_audit(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let audit = Audit::decode(frame)?;
        let request = frame.request();
        let pattern = match audit.pattern {
            "" => None,
            pattern => match Pattern::parse(pattern) {
                Ok(pattern) => Some(pattern),
                Err(error) => {
                    let fault = Fault::new(FaultCode::BadPattern, error.to_string());
                    self.put_fault(request, &fault);
                    return Ok(());
                }
            },
        };
        let query = AuditQuery {
            from: audit.from,
            since: audit.since,
            pattern,
            who: (!audit.who.is_empty()).then(|| audit.who.to_owned()),
            newest_first: audit.newest_first,
            limit: audit.limit,
        };
        self.take_order(request, Order::Audit(query), self.refuse_order());
        Ok(())
    }

    /// Queues an order or its refusal; both have an audit entry (B-24).
    fn take_order(&mut self, request: u32, order: Order, refused: Option<Fault>) {
        let Some(fault) = refused else {
            return self.queue_order(request, order);
        };
        let about = order.audited();
        let Some((action, name)) = about.map(|(action, name)| (action, name.to_owned())) else {
            return self.put_fault(request, &fault);
        };
        self.work.push(Work::RefusedOrder {
            request,
            action,
            name,
            fault,
        });
    }

    /// Answers a refused order, once there is room for its audit entry.
    pub(crate) fn run_refused_order(
        &mut self,
        request: u32,
        (action, name): (AuditAction, &str),
        fault: &Fault,
        (now, wall): (Tick, Timestamp),
        wakes: &mut Wakes,
    ) -> Progress {
        let room = match self.claim_order(now) {
            Ok(room) => room,
            Err(progress) => return progress,
        };
        let note = OrderNote {
            action,
            name,
            effect: "",
            outcome: AuditOutcome::Refused(fault.sentence.to_string()),
        };
        let room = room.unwrap_or_default();
        self.engine
            .note_order(&self.caller, wall, note, &room, wakes);
        self.put_fault(request, fault);
        Progress::Done
    }

    /// Claims room in the audit for the entry of an order. Returns `Ok(None)` if it cannot be
    /// stored.
    fn claim_order(&mut self, now: Tick) -> Result<Option<AuditRoom>, Progress> {
        self.parked_until = None;
        loop {
            match self.engine.claim_audit(1, now) {
                Ok(room) => return Ok(Some(room)),
                Err(NoAuditRoom::Wait(until)) => {
                    if self.consumer.wait_for_audit() {
                        self.parked_until = Some(until);
                        return Err(Progress::Parked);
                    }
                }
                Err(NoAuditRoom::Unstored) => return Ok(None),
            }
        }
    }

    /// Returns the reason to refuse every order now, if there is one.
    fn refuse_order(&self) -> Option<Fault> {
        if self.options.administrator.is_none() {
            let sentence = "this engine takes no orders over the network; it does what its own \
                            program says";
            return Some(Fault::new(FaultCode::NotSupported, sentence));
        }
        if !self.caller.rights.administer {
            let sentence = "you may not administer this engine; ask its administrator for the \
                            right to";
            return Some(Fault::new(FaultCode::Denied, sentence));
        }
        (self.orders.unanswered >= ORDERS_MAX).then(|| {
            let sentence = format!(
                "{ORDERS_MAX} orders of this connection wait; send the next when one is done"
            );
            Fault::new(FaultCode::Overloaded, sentence)
        })
    }

    /// Queues an order after the requests that came before it.
    fn queue_order(&mut self, request: u32, order: Order) {
        self.orders.unanswered += 1;
        let loan = match &order {
            Order::Deploy { .. } => Some(self.account.lend_out(Use::Orders)),
            _ => None,
        };
        self.work.push(Work::Order {
            request,
            order: Some(order),
            loan,
        });
    }

    pub(crate) fn submit(
        &mut self,
        request: u32,
        order: &mut Option<Order>,
        loan: &mut Option<Loan>,
        now: Tick,
    ) -> Progress {
        let is_audited = order
            .as_ref()
            .is_some_and(|order| order.audited().is_some());
        let room = match is_audited {
            true => match self.claim_order(now) {
                Ok(room) => room,
                Err(progress) => return progress,
            },
            false => Some(AuditRoom::default()),
        };
        let Some(room) = room else {
            self.orders.unanswered = self.orders.unanswered.saturating_sub(1);
            self.put_fault(request, &audit_unstored());
            return Progress::Done;
        };
        // There was an administrator when the order was accepted.
        if let (Some(order), Some(administrator)) = (order.take(), &self.options.administrator) {
            let reply = self.consumer.reply(request).with_room(room);
            administrator.submit(&self.caller, order, reply.holding(loan.take()));
        }
        Progress::Done
    }

    /// Answers orders that have ended.
    pub(crate) fn answer_reports(&mut self) {
        while let Some((request, result)) = self.consumer.take_report() {
            self.orders.unanswered = self.orders.unanswered.saturating_sub(1);
            self.put_report(request, result);
        }
    }

    fn put_report(&mut self, request: u32, result: OrderResult) {
        match result {
            Ok(Report {
                audit: Some(page), ..
            }) => put_page(&page, request, &mut self.answers.frames),
            Ok(report) => of_report(&report).encode(request, &mut self.answers.frames),
            Err(fault) => self.put_fault(request, &fault),
        }
    }

    pub(crate) fn put_fault(&mut self, request: u32, fault: &Fault) {
        let fault = fault.as_ref();
        FaultMessage { fault }.encode(request, &mut self.answers.frames);
    }
}

impl Incoming {
    /// Reserves the memory for the variables of a frame before they are decoded.
    fn make_room(&mut self, frame: &Frame<'_>, account: &mut Account) {
        if self.refused.is_some() {
            return;
        }
        let payload = frame.payload().len();
        // A variable takes at least one byte, whatever the header says.
        let count = (frame.count() as usize).min(payload);
        let variables = &self.library.variables;
        let (needed, capacity) = (variables.len().saturating_add(count), variables.capacity());
        let planned = match needed > capacity {
            true => needed.max(capacity.saturating_add(capacity / 2)),
            false => capacity,
        };
        let properties = size_of::<Properties>().saturating_mul(count);
        // Texts and values, each in a separate buffer.
        self.content += properties.saturating_add(payload.saturating_mul(2));
        self.charge(planned, account);
        let more = planned.saturating_sub(self.library.variables.len());
        if self.refused.is_none() && self.library.variables.try_reserve_exact(more).is_err() {
            let bytes = more.saturating_mul(size_of::<VariableDefinition>());
            self.refused = Some(out_of_memory(bytes));
        }
    }

    /// Charges a list with this capacity, and its content, to the budget.
    fn charge(&mut self, capacity: usize, account: &mut Account) {
        if self.refused.is_some() {
            return;
        }
        let list = capacity.saturating_mul(size_of::<VariableDefinition>());
        let charged = account.set(Use::Orders, list.saturating_add(self.content));
        self.refused = charged.err();
    }

    /// Refuses a library that is too large while it arrives, and drops its variables.
    fn check_size(&mut self) {
        let variables = self.library.variables.len();
        if variables <= VARIABLES_MAX && self.bytes <= LIBRARY_BYTES_MAX {
            return;
        }
        self.library.variables = Vec::new();
        self.refused.get_or_insert_with(|| {
            let sentence = format!(
                "the library has more than {VARIABLES_MAX} variables or {LIBRARY_BYTES_MAX} bytes; \
                 make several of it"
            );
            Fault::new(FaultCode::TooLarge, sentence)
        });
    }
}

/// Returns the heap bytes of the labels and fields of a type, because one byte of a frame may
/// create one of them.
fn bytes_of_type(data_type: &DataType) -> usize {
    /// A text with its reference counters, and the reference to it.
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

/// Appends an audit page, in frames of about `PAGE_BYTES` each.
fn put_page(page: &AuditPage, request: u32, out: &mut Vec<u8>) {
    let head = AuditPageHead {
        next: page.next,
        removed: page.removed,
        state: &page.state,
    };
    let mut entries = page.entries.iter().peekable();
    loop {
        let mut frame = AuditPageBuilder::begin(out, request, &head);
        while let Some(entry) = entries.next_if(|_| frame.len_bytes() < PAGE_BYTES) {
            frame.push(entry);
        }
        let has_more = entries.peek().is_some();
        frame.finish(has_more);
        if !has_more {
            return;
        }
    }
}

fn of_report(report: &Report) -> LibraryReport {
    LibraryReport {
        after: match report.state {
            None => LibraryAfter::Undeployed,
            Some(LibraryState::Running) => LibraryAfter::Running,
            Some(LibraryState::Stopped) => LibraryAfter::Stopped,
        },
        added: report.added as u64,
        changed: report.changed as u64,
        kept: report.kept as u64,
        removed: report.removed as u64,
    }
}
