//! Orders about libraries and questions about the audit: taken in, handed to the engine's host, and
//! answered when it has replied.

use trunkline_engine::{
    LibraryState, Order, OrderRefused, OrderResult, OrderRule, Report, VARIABLES_MAX, Wakes,
};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::audit::{Audit, AuditPageBuilder, AuditPageHead};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::library::{
    Deploy, LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::{AuditOutcome, AuditPage, AuditQuery, LibraryDefinition, Pattern};

use crate::session::Session;
use crate::work::{Progress, Work};

/// Orders of one session that may be without an answer.
const ORDERS_MAX: usize = 16;
/// Bytes of all frames of one DEPLOY request.
const LIBRARY_BYTES_MAX: usize = 256 << 20;

/// A session's orders that are not answered.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The DEPLOY whose frames are still coming.
    incoming: Option<Incoming>,
    /// With the host, or on their way to it.
    unanswered: usize,
}

#[derive(Debug)]
struct Incoming {
    request: u32,
    library: LibraryDefinition,
    replace: bool,
    bytes: usize,
    /// Why it is refused when its last frame has come; what comes until then is not kept.
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
                refused: self.refuse_order(),
            },
        };
        incoming.bytes += frame.payload().len();
        for variable in deploy {
            let variable = variable?;
            if incoming.refused.is_none() {
                incoming.library.variables.push(variable);
            }
        }
        incoming.check_size();
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

    /// Takes an order in, or refuses it at once; the audit hears of either (B-24).
    fn take_order(&mut self, request: u32, order: Order, refused: Option<Fault>) {
        let Some(fault) = refused else {
            return self.queue_order(request, order);
        };
        if let Some((action, name)) = order.audited() {
            let outcome = AuditOutcome::Refused(fault.sentence.to_string());
            let (_, wall) = self.last_seen;
            let mut wakes = Wakes::new();
            self.engine
                .note_order(&self.caller, wall, action, (name, ""), outcome, &mut wakes);
        }
        self.put_fault(request, &fault);
    }

    /// Why no order is taken in, if none is.
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

    /// Behind the requests that came before it.
    fn queue_order(&mut self, request: u32, order: Order) {
        self.orders.unanswered += 1;
        let order = Some(order);
        self.work.push(Work::Order { request, order });
    }

    pub(crate) fn submit(&mut self, request: u32, order: Option<Order>) -> Progress {
        // There was an administrator when the order was taken in.
        if let (Some(order), Some(administrator)) = (order, &self.options.administrator) {
            administrator.submit(&self.caller, order, self.consumer.reply(request));
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
            Err(refused) => self.put_fault(request, &of_refused(&refused)),
        }
    }

    pub(crate) fn put_fault(&mut self, request: u32, fault: &Fault) {
        FaultMessage {
            request,
            fault: fault.as_ref(),
        }
        .encode(&mut self.answers.frames);
    }
}

impl Incoming {
    /// A library that is too large is refused while it comes, and forgotten.
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

/// In frames of about a page each.
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

fn of_refused(refused: &OrderRefused) -> Fault {
    let code = match refused.rule {
        OrderRule::Denied => FaultCode::Denied,
        OrderRule::UnknownLibrary => FaultCode::UnknownLibrary,
        OrderRule::LibraryExists => FaultCode::LibraryExists,
        OrderRule::BadLibrary => FaultCode::BadLibrary,
        OrderRule::InUse => FaultCode::InUse,
        OrderRule::StoreFailed => FaultCode::StoreFailed,
        OrderRule::Overloaded => FaultCode::Overloaded,
        OrderRule::ShuttingDown => FaultCode::ShuttingDown,
        _ => FaultCode::Internal,
    };
    Fault::new(code, refused.sentence.as_str())
}
